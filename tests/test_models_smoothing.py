import numpy as np
import pytest

from dope.energy import Energy
from dope.errors import InputError
from dope.models import kernel_lam


@pytest.mark.parametrize(("kernel", "shape"), [(3, (9, 9)), (7, (9, 9)), (5, (7, 7, 7)), ([(0, 1), (2, 0)], (9, 9))])
def test_a_site_apart_from_all_its_neighbors_pays_the_total(kernel, shape):
    lam = kernel_lam(kernel, len(shape), total=12.0)
    energy = Energy.grid(np.zeros(shape), lam=lam, kernel=kernel, features=np.ones(shape))
    alone = np.zeros(shape, dtype=bool)
    alone[tuple(n // 2 for n in shape)] = True
    assert energy(alone) == pytest.approx(12.0)


@pytest.mark.parametrize("kernel", [1, 4, 0, -3])
def test_kernels_without_neighbors_are_refused(kernel):
    with pytest.raises(InputError, match="odd size"):
        kernel_lam(kernel)
