"""lam: what it promises of any kernel, spacing and unaries."""

import numpy as np
import pytest

from dope.energy import Energy
from dope.errors import InputError
from dope.models import automatic_lam, kernel_lam


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


@pytest.mark.parametrize(("kernel", "spacing"), [(3, (1.0, 1.0)), (5, (0.5, 2.0)), (3, (3.0, 1.0, 1.0))])
def test_the_total_is_paid_with_any_spacing(kernel, spacing):
    shape = (9,) * len(spacing)
    lam = kernel_lam(kernel, len(shape), total=12.0, spacing=spacing)
    energy = Energy.grid(np.zeros(shape), lam=lam, kernel=kernel, features=np.ones(shape), spacing=spacing)
    alone = np.zeros(shape, dtype=bool)
    alone[(4,) * len(shape)] = True
    assert energy(alone) == pytest.approx(12.0)


def test_the_automatic_lam_grows_with_the_unaries_and_the_unit_of_length():
    unary = np.random.default_rng(0).normal(size=(6, 7, 8))
    lam = automatic_lam(unary, 3)
    assert lam > 0 and automatic_lam(-4 * unary, 3) == pytest.approx(4 * lam)
    assert automatic_lam(unary, 3, spacing=(5.0,) * 3) == pytest.approx(5 * lam)
    assert automatic_lam(unary, 3, smoothing=30) == pytest.approx(2 * automatic_lam(unary, 3, smoothing=15))


def test_the_automatic_lam_is_the_kernels_for_the_mean_unary():
    unary = np.array([[1.0, -3.0], [0.0, 4.0]], dtype=np.float32)
    assert automatic_lam(unary, 5, smoothing=6) == pytest.approx(kernel_lam(5, total=12.0))


def test_without_unaries_there_is_nothing_to_smooth():
    assert automatic_lam(np.zeros((3, 3))) == 0


@pytest.mark.parametrize(
    ("unary", "settings", "words"),
    [
        (np.zeros((0, 3)), {}, "at least one site"),
        (1.0, {}, "at least one site"),
        ([[np.nan]], {}, "nan"),
        ([[1.0]], {"spacing": (1.0,)}, "2 positive numbers"),
        ([[1.0]], {"spacing": (1.0, 0.0)}, "2 positive numbers"),
        ([[1.0]], {"smoothing": -1}, "smoothing is -1"),
        ([[1.0]], {"kernel": 1}, "no neighbours"),
    ],
)
def test_an_automatic_lam_of_nonsense_is_refused(unary, settings, words):
    with pytest.raises(InputError, match=words):
        automatic_lam(unary, **settings)
