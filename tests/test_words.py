"""Words and numbers that stand beside each other say the same; an error names what would help."""

import math

import numpy as np
import pytest

import dope
from dope import Energy, InputError
from dope.arrays import fitting_in_words
from dope.cli.clock import Clock
from dope.cli.record import summary_of
from dope.cli.tables import bound_in_words

RNG = np.random.default_rng(0)
WHOLE = dope.minimize(Energy.grid(RNG.integers(-5, 6, (20, 30)), lam=1.0), blocks=4)
ROUNDED = dope.minimize(Energy.grid(1e6 * RNG.normal(size=(20, 30)), lam=1.3e6), blocks=1)
CUT_SHORT = dope.minimize(
    Energy.grid(RNG.normal(size=(20, 30)), lam=1.0, kernel=5), blocks=4, method=dope.Admm(), watch=lambda _: True
)


def test_exact_is_said_once():
    assert "exact" in repr(WHOLE) and repr(WHOLE).count("exact") == 1
    assert "1 round," in repr(ROUNDED) and "1 block," in repr(ROUNDED) and "1 round<" in ROUNDED._repr_html_()
    assert "cancelled after 1 round, 4 blocks" in repr(CUT_SHORT)


@pytest.mark.parametrize("result", [WHOLE, ROUNDED, CUT_SHORT])
def test_a_gap_is_what_lies_between_energy_and_bound(result):
    said = bound_in_words(result)
    if result.lower_bound is None:
        assert said == "-"
        return
    gap = summary_of(result, "exact", Clock())["gap"]
    assert gap == result.energy - result.lower_bound
    assert said.startswith(f"{result.lower_bound:,.1f}, ") and ("exact" in said) == result.exact
    assert ("from rounding costs" in said) == (result.exact and gap > 0)


def test_integers_leave_no_gap():
    assert WHOLE.gap == 0 and bound_in_words(WHOLE) == f"{WHOLE.energy:,.1f}, exact"
    assert 0 < ROUNDED.gap <= ROUNDED.rounding_error


def test_directed_capacities_are_shown_the_way():
    with pytest.raises(InputError, match=r"Energy\.from_tables.*\[\[0, there\], \[back, 0\]\]"):
        Energy.graph([0.0, 0.0], [[0, 1]], [[3.0, 1.0]])
    energy = Energy.from_tables([[0, 0], [0, 0]], [[0, 1]], [[[0, 3.0], [1.0, 0]]])
    assert (energy([0, 1]), energy([1, 0]), energy([1, 1])) == (3.0, 1.0, 0.0)
    with pytest.raises(InputError, match=r"one per edge, \(1,\)\.$"):
        Energy.graph([0.0, 0.0], [[0, 1]], [3.0, 1.0])


@pytest.mark.parametrize(
    ("image", "known", "words"),
    [
        ((40, 50), (3, 40, 50), "map[k] of class k"),
        ((40, 50), (40, 50, 3), "map[:, :, k] of class k"),
        ((40, 50, 3), (2, 40, 50), "map[k] of class k"),
        ((3, 40, 50), (40, 50), "channel_axis=0"),
        ((5, 6, 7), (18, 7, 6, 5), "np.transpose(map[k], (2, 1, 0)) of class k"),
        ((7, 6, 6), (6, 6, 7), "np.transpose(map, (2, 1, 0))"),
        ((40, 51), (40, 50), "Crop or resample"),
        ((40, 50, 60), (30, 50, 60), "Crop or resample"),
    ],
)
def test_a_map_that_does_not_fit(image, known, words):
    with pytest.raises(InputError) as error:
        dope.segment(np.zeros(image), probability=np.full(known, 0.5))
    assert words in str(error.value)


@pytest.mark.parametrize("shape", [(4, 5, 6), (6, 5, 4), (5, 5, 4), (2, 4, 5, 6), (6, 4, 5, 2), (4, 2, 5, 5), (5, 4)])
def test_advice_that_is_followed_leads_there(shape):
    for image in [(4, 5, 6), (6, 4, 5), (4, 5, 5), (4, 5), (4, 5, 3)]:
        words = fitting_in_words(shape, image)
        if words is None or "channel_axis" in words or shape == image:
            continue
        expression = words.split(" would fit")[0].split(", ", 1)[1] if "If" in words else words.split(": ")[1]
        expression = expression.replace(" of class k", "").replace(" would fit.", "")
        fitted = eval(expression, {"np": np, "map": np.zeros(shape), "k": 0}).shape
        assert fitted in (image, image[:-1]), (words, image)
        assert math.prod(fitted) > 1
