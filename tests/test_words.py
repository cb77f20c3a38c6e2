"""Words and numbers that stand beside each other say the same; an error names what would help."""

import math
import re

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
        ((40, 50), (3, 40, 50), "3 classes adds up to 1.5"),
        ((40, 50), (40, 50, 3), "3 classes adds up to 1.5"),
        ((40, 50, 3), (3, 40, 50), "3 classes adds up to 1.5"),
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


@pytest.mark.parametrize(
    ("image", "known"), [((40, 50), {"label_axis": 0}), ((40, 50), {"classes": 3}), ((40, 50, 3), {"classes": 3})]
)
def test_a_map_of_foreground_alone_has_no_classes(image, known):
    found = np.full((40, 50), 0.25)
    with pytest.raises(
        InputError, match="foreground alone, as this may be, has none: leave classes and label_axis out"
    ):
        dope.segment(np.zeros(image), probability=found, **known)
    assert dope.segment(np.zeros(image), probability=found).exact


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


def test_values_print_as_one_short_line():
    unary = np.zeros((40, 50))
    run = dope.start(Energy.grid(unary), blocks=4)
    assert repr(run).startswith("Run(")
    run.result()
    assert re.fullmatch(r"Run\(done in [\d.e-]+ s: exact\)", repr(run))
    said = dope.Segmentation(image=unary, unary=unary.tolist(), kernel=5, blocks=dope.Partition.grid((40, 50), 4))
    assert re.fullmatch(r"Segmentation\(image=<40 x 50 float64>, unary=.{,103}, kernel=5, blocks=Part.*\)", repr(said))
    assert repr(dope.Segmentation(image="photo.jpg", scribbles="strokes.json")) == (
        "Segmentation(image='photo.jpg', scribbles='strokes.json')"
    )
    assert repr(dope.Partition.grid((40, 50), 4)) == "Partition(40 x 50 sites, 4 blocks (2 x 2))"
    assert (
        repr(dope.Partition.grid((40, 50), 2, overlap=2)) == "Partition(40 x 50 sites, 2 blocks (1 x 2), overlapping)"
    )
    graph = Energy.graph([1.0, 2.0, 3.0], [[0, 1], [1, 2]], [1.0, 1.0])
    assert repr(dope.Partition.graph(graph.pairs, 1)) == "Partition(graph of 3 sites, 1 block)"


def test_a_run_that_failed_says_so():
    def fail(_):
        raise KeyError

    run = dope.plan(Energy.grid(np.zeros((4, 5)))).begin(watch=fail)
    with pytest.raises(KeyError):
        run.result()
    assert repr(run) == "Run(ended with KeyError)"
