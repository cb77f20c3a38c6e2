"""An installed dope, seen for the first time: light to import, right on a small problem, complete with its sample."""

import itertools
import sys

import numpy as np
import numpy.random  # brings modules of its own in with it

before = set(sys.modules)
import dope  # noqa: E402

strangers = {name.partition(".")[0] for name in set(sys.modules) - before}
strangers -= {"dope", "numpy", *sys.stdlib_module_names}
assert not strangers, f"import dope also imports {sorted(strangers)}"

unary = np.random.default_rng(0).integers(-5, 6, (3, 4)).astype(float)
energy = dope.Energy.grid(unary, lam=2.0, kernel=3)
result = dope.minimize(energy, blocks=1)
least = min(energy(np.reshape(y, unary.shape)) for y in itertools.product([False, True], repeat=unary.size))
assert result.energy == energy(result.labels) == least, (result.energy, least)
print(f"dope imports light and finds the least energy, {least:g}")

from dope import samples  # noqa: E402

with samples.canyon_wren() as sample:
    assert sample.photo.stat().st_size and sample.scribbles.stat().st_size
