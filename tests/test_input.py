"""Bad input gets an error that names the value, what was expected and what to do."""

import itertools

import numpy as np
import pytest
import xarray
import zarr

import dope
from dope import Admm, Energy, Exact, InputError, MaxFlow, Partition, Threads

GRID = np.zeros((4, 5))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"unary": np.zeros((0, 3))}, ["(0, 3)", "at least one site"]),
        ({"unary": 3.0}, ["()", "at least one site"]),
        ({"unary": np.array([[1.0, np.nan]])}, ["nan", "(0, 1)", "finite"]),
        ({"unary": np.array([1.0, np.inf])}, ["inf", "(1,)"]),
        ({"unary": np.array(["a"])}, ["dtype", "real numbers"]),
        ({"kernel": 4}, ["4", "odd"]),
        ({"kernel": 0}, ["0", "odd"]),
        ({"kernel": "3"}, ["kernel is '3'", "odd"]),
        ({"kernel": 3.5}, ["kernel is 3.5", "odd"]),
        ({"kernel": True}, ["kernel is True", "odd"]),
        ({"mask": np.full((4, 5), 7, dtype=np.uint8)}, ["there is 7 in mask (dtype uint8)", "0 and 1"]),
        ({"mask": np.full((4, 5), "yes")}, ["dtype of mask is <U3", "0 and 1"]),
        ({"kernel": -3}, ["-3", "odd"]),
        ({"kernel": [(0, 0)]}, ["offset 0"]),
        ({"kernel": [(0, 1), (0, -1)]}, ["(0, -1)", "opposite"]),
        ({"kernel": [(0, 1, 2)]}, ["(1, 3)", "(number, 2)"]),
        ({"kernel": [(0.5, 1)]}, ["float64", "integers"]),
        ({"lam": np.nan}, ["lam", "nan", "finite"]),
        ({"lam": "auto"}, ["lam", "auto"]),
        ({"features": np.zeros((4, 6))}, ["(4, 6)", "(4, 5)"]),
        ({"features": np.zeros((4, 5, 0))}, ["(4, 5, 0)"]),
        ({"features": np.full((4, 5), np.inf)}, ["features", "inf"]),
        ({"features": GRID, "weights": 1.0}, ["both features and weights"]),
        ({"features": GRID, "beta": -1.0}, ["beta", "-1.0"]),
        ({"beta": 1.0}, ["beta", "features"]),
        ({"spacing": (1.0,)}, ["spacing", "2 positive"]),
        ({"spacing": (1.0, 0.0)}, ["spacing"]),
        ({"weights": [1.0]}, ["1 entries", "4"]),
        ({"weights": [np.zeros((3, 3))] * 4}, ["(3, 3)", "(4, 5)"]),
        ({"weights": [np.full((4, 5), np.nan)] * 4}, ["weights[0]", "nan"]),
        ({"weights": [1.0, np.inf, 1.0, 1.0]}, ["inf"]),
    ],
)
def test_grid_refuses(arguments, words):
    arguments = {"unary": GRID, **arguments}
    with pytest.raises(InputError) as error:
        Energy.grid(arguments.pop("unary"), **arguments)
    assert all(word in str(error.value) for word in words), str(error.value)


@pytest.mark.parametrize(
    ("unary", "edges", "weights", "words"),
    [
        ([[1.0]], [[0, 1]], [1.0], ["(1, 1)", "(n,)"]),
        ([1.0, 2.0], [[0, 2]], [1.0], ["[0, 2]", "0 to 1"]),
        ([1.0, 2.0], [[-1, 0]], [1.0], ["[-1, 0]"]),
        ([1.0, 2.0], [[1, 1]], [1.0], ["itself"]),
        ([1.0, 2.0], [[0, 1]], [1.0, 2.0], ["(2,)", "(1,)"]),
        ([1.0, 2.0], [[0, 1]], [np.nan], ["nan"]),
        ([1.0, 2.0], [[0.0, 1.0]], [1.0], ["float64", "integers"]),
        ([1.0, 2.0], [0, 1], [1.0], ["(2,)", "(number, 2)"]),
    ],
)
def test_graph_refuses(unary, edges, weights, words):
    with pytest.raises(InputError) as error:
        Energy.graph(unary, edges, weights)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_tables_refuse_wrong_shapes():
    with pytest.raises(InputError, match="costs"):
        Energy.from_tables([1.0, 2.0], [[0, 1]], np.zeros((1, 2, 2)))
    with pytest.raises(InputError, match="tables"):
        Energy.from_tables(np.zeros((2, 2)), [[0, 1]], np.zeros((2, 2)))
    with pytest.raises(InputError, match="nan"):
        Energy.from_tables(np.zeros((2, 2)), [[0, 1]], np.full((1, 2, 2), np.nan))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"blocks": 21}, ["21", "20 sites"]),
        ({"blocks": 0}, ["0 blocks"]),
        ({"blocks": -2}, ["-2"]),
        ({"blocks": 7}, ["7 blocks", "cannot be laid out"]),
        ({"blocks": (5, 1)}, ["(5, 1)", "more blocks than sites"]),
        ({"blocks": (2,)}, ["(2,)", "one per axis"]),
        ({"blocks": "many"}, ["many"]),
        ({"blocks": 2.5}, ["2.5"]),
        ({"blocks": 2, "overlap": 1.0}, ["1.0", "overlap < 1"]),
        ({"blocks": 2, "overlap": -0.1}, ["-0.1"]),
        ({"blocks": 2, "overlap": -1}, ["-1"]),
        ({"blocks": 2, "overlap": np.nan}, ["nan"]),
        ({"blocks": 2, "overlap": True}, ["True"]),
        ({"blocks": 2, "overlap": 5}, ["5 sites", "less"]),
    ],
)
def test_minimize_refuses(arguments, words):
    with pytest.raises(InputError) as error:
        dope.minimize(Energy.grid(GRID), **arguments)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_minimize_refuses_what_is_no_energy():
    with pytest.raises(InputError, match=r"Energy\.grid"):
        dope.minimize(GRID)


def test_max_flow_refuses_negative_weights():
    with pytest.raises(InputError, match="-2"):
        dope.minimize(Energy.grid(GRID, weights=-2.0), solver=MaxFlow())
    with pytest.raises(InputError, match="bits is 8"):
        dope.minimize(Energy.grid(GRID), solver=MaxFlow(bits=8))


def test_labels_of_the_wrong_kind_are_refused():
    energy = Energy.grid(GRID)
    with pytest.raises(InputError, match=r"\(5, 4\)"):
        energy(np.zeros((5, 4), bool))
    with pytest.raises(InputError, match="0 and 1"):
        energy(np.full((4, 5), 2))
    with pytest.raises(InputError, match="0 and 1"):
        energy(np.full((4, 5), 0.5))


def test_threads_must_be_positive():
    with pytest.raises(InputError, match="one thread"):
        Threads(0)


def test_cuts_must_rise():
    with pytest.raises(InputError, match="rising"):
        Partition.at((10,), [[5, 5]])
    with pytest.raises(InputError, match="one list per axis"):
        Partition.at((10, 10), [[5]])


def test_masked_arrays_and_integers_that_float64_rounds_are_refused():
    masked = np.ma.MaskedArray(GRID, mask=GRID == 0)
    with pytest.raises(InputError, match="masked"):
        Energy.grid(masked)
    with pytest.raises(InputError, match="masked"):
        Energy.grid(GRID, features=masked)
    with pytest.raises(InputError, match=r"2\^53"):
        Energy.grid(np.array([2**60, 1]))


def test_partition_of_a_graph_does_not_fit_a_grid():
    graph = Energy.graph(np.zeros(6), [[0, 1]], [1.0])
    with pytest.raises(InputError, match="graph"):
        dope.minimize(Energy.grid(np.zeros(6)), blocks=Partition.graph(graph.pairs, 2))
    with pytest.raises(InputError, match="graph"):
        dope.minimize(graph, blocks=Partition.grid((6,), 2))


@pytest.mark.parametrize("method", [Admm(), Exact()], ids=str)
@pytest.mark.parametrize("size", [1e-300, 1e-12, 1.0, 1e12, 1e300])
@pytest.mark.parametrize("strength", [1e-300, 1e-12, 1.0, 1e12, 1e300])
def test_costs_of_any_size_are_solved(method, size, strength):
    unary = size * np.array([[-1.0, 0.5, 2.0], [-0.3, -0.4, 1.0]])
    energy = Energy.grid(unary, lam=strength)
    best = min(energy(np.array(y).reshape(2, 3)) for y in itertools.product([0, 1], repeat=6))
    for blocks in (1, 2):
        result = dope.minimize(energy, blocks=blocks, method=method)
        assert result.lower_bound <= best + result.rounding_error
        assert result.energy >= best
    whole = dope.minimize(energy, blocks=1, method=method)
    assert whole.exact
    assert whole.energy <= best + whole.rounding_error + 1e-9 * abs(best)


def test_one_huge_weight_does_not_drown_the_others():
    unary = np.random.default_rng(0).normal(size=(64, 64))
    weights = [np.full((64, 64), 0.4), np.full((64, 64), 0.4)]
    capped = [weights[0].copy(), weights[1]]
    weights[0][10, 10], capped[0][10, 10] = 1e9, 100.0
    kernel = [(0, 1), (1, 0)]
    expected = dope.minimize(Energy.grid(unary, kernel=kernel, weights=capped), blocks=1)
    for solver in (None, MaxFlow()):
        result = dope.minimize(Energy.grid(unary, kernel=kernel, weights=weights), blocks=1, solver=solver)
        assert result.energy == pytest.approx(expected.energy, abs=0.1)
        assert result.lower_bound <= expected.energy


def test_large_integers_are_solved_as_they_are():
    result = dope.minimize(Energy.grid(np.array([-1, -1, -1, 2]), lam=2**45))
    assert (result.energy, result.exact, result.rounding_error, result.gap) == (-1.0, True, 0.0, 0.0)


def test_tables_that_overflow_are_refused():
    with pytest.raises(InputError, match="finite"):
        Energy.from_tables([[-1.7e308, 1.7e308], [0, 0]], [[0, 1]], [[[0, 1], [1, 0]]])


def test_numbers_and_arrays_mix_as_weights():
    rng = np.random.default_rng(3)
    field = rng.uniform(0, 2, (6, 7))
    mixed = Energy.grid(rng.normal(size=(6, 7)), weights=[1, field, 2.0, 1])
    same = Energy.grid(mixed.unary, weights=[np.full((6, 7), 1.0), field, np.full((6, 7), 2.0), np.ones((6, 7))])
    np.testing.assert_array_equal(dope.minimize(mixed).labels, dope.minimize(same).labels)


@pytest.mark.parametrize(
    "arguments",
    [
        {"solver": "maxflow"},
        {"solver": MaxFlow},
        {"method": "admm"},
        {"executor": 4},
        {"watch": "x"},
        {"start": "x"},
        {"checkpoint": 3},
        {"resume": 3},
        {"blocks": (2.7, 2)},
        {"overlap": 0.1, "blocks": Partition.grid((4, 5), 2)},
    ],
)
def test_what_is_no_plug_in_is_refused(arguments):
    with pytest.raises(InputError, match=next(iter(arguments))):
        dope.minimize(Energy.grid(GRID), **arguments)


def test_a_plug_in_by_its_name_is_told_what_is_expected():
    with pytest.raises(InputError, match=r"method is 'exact'; expected an object such as dope\.Exact\(\)"):
        dope.minimize(Energy.grid(GRID), method="exact")


@pytest.mark.parametrize("labels", [np.zeros((4, 5), int), np.zeros((2, 2), bool), None])
def test_a_solver_that_answers_nonsense_is_told(labels):
    class Nonsense:
        def prepare(self, energy):
            del energy
            return self

        def minimize(self, unary, *, start=None):
            del unary, start
            return dope.Answer(labels)

    with pytest.raises(InputError, match="a solver answered"):
        dope.minimize(Energy.grid(GRID), solver=Nonsense())


def test_a_watcher_cannot_change_the_result():
    def spoil(step):
        step.labels[...] = True

    with pytest.raises(ValueError, match="read-only"):
        dope.minimize(Energy.grid(GRID + 1), watch=spoil)


def test_weights_that_add_up_beyond_float64_are_refused():
    with pytest.raises(InputError, match="scale the costs down"):
        Energy.grid(GRID, lam=1e308)


def test_arrays_are_never_written_to():
    rng = np.random.default_rng(0)
    unary, image = rng.normal(size=(8, 8)), rng.integers(0, 255, (8, 8, 3)).astype(np.uint8)
    for array in (unary, image):
        array.flags.writeable = False
    result = dope.minimize(Energy.grid(unary, features=image), blocks=4, overlap=0.25)
    assert result.labels.dtype == bool
    assert result.labels.flags.writeable


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.float16, np.float32, np.float64, bool])
def test_any_real_dtype_is_welcome(dtype):
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2, (6, 7)).astype(dtype)
    energy = Energy.grid(values, features=values)
    same = Energy.grid(values.astype(float), features=values.astype(float))
    labels = rng.random((6, 7)) < 0.5
    assert energy(labels) == pytest.approx(same(labels))
    np.testing.assert_array_equal(dope.minimize(energy).labels, dope.minimize(same).labels)


@pytest.mark.parametrize("method", [Admm(), Exact()], ids=str)
def test_non_contiguous_arrays_are_welcome(method):
    rng = np.random.default_rng(2)
    unary, image = rng.normal(size=(20, 14))[::2, ::-1], rng.normal(size=(3, 14, 10)).T
    result = dope.minimize(Energy.grid(unary, features=image), blocks=4, method=method)
    copied = dope.minimize(Energy.grid(unary.copy(), features=image.copy()), blocks=4, method=method)
    np.testing.assert_array_equal(result.labels, copied.labels)


@pytest.mark.parametrize("shape", [(300_000,), (500, 600), (3, 400, 300)])
def test_the_first_number_that_is_not_finite_is_named_however_far_in(shape):
    for at in [0, 131_071, 131_072, int(np.prod(shape)) - 2]:
        unary = np.full(shape, 1e308)  # the sum is infinite anyway
        Energy.grid(unary)
        unary.flat[at], unary.flat[-1] = -np.inf, np.nan
        place = tuple(int(i) for i in np.unravel_index(at, shape))
        with pytest.raises(InputError) as error:
            Energy.grid(unary)
        assert f"-inf at {place};" in str(error.value)


def test_labels_are_not_written_over_what_is_read(tmp_path):
    rng = np.random.default_rng(4)
    unary, volume = rng.normal(size=(6, 7)), rng.normal(size=(6, 7, 2))
    np.save(tmp_path / "unary.npy", unary)
    one, other = (np.load(tmp_path / "unary.npy", mmap_mode=mode) for mode in ("r", "r+"))
    chunked = zarr.create_array(store=tmp_path / "unary.zarr", data=unary)
    before = [array.copy() for array in (unary, volume)]
    for energy, out, name in (
        (Energy.grid(unary), unary, "unary"),
        (Energy.grid(unary), unary[::-1], "unary"),
        (Energy.grid(unary, features=volume), volume[..., 1], "features"),
        (Energy.grid(one), other, "unary"),
        (Energy.grid(np.asarray(one)), other, "unary"),
        (Energy.grid(chunked), zarr.open_array(tmp_path / "unary.zarr"), "unary"),
    ):
        with pytest.raises(InputError, match=f"out lies in the memory or file of {name}"):
            dope.minimize(energy, out=out)
    for arguments, out, name in (
        ({"image": volume, "unary": unary}, volume[..., 0], "image"),
        ({"image": volume, "probability": xarray.DataArray(unary)}, unary, "probability"),
        ({"image": volume, "unary": one}, other, "unary"),
        ({"image": volume, "unary": str(tmp_path / "unary.npy")}, other, "unary"),
    ):
        with pytest.raises(InputError, match=f"out lies in the memory or file of {name}"):
            dope.segment(**arguments, out=out)
        with pytest.raises(InputError, match=f"out lies in the memory or file of {name}"):
            dope.Segmentation(**arguments).plan(out=out)
    for array, expected in zip((unary, volume, one, chunked[:]), (*before, before[0], before[0]), strict=True):
        np.testing.assert_array_equal(array, expected)
    dope.minimize(Energy.grid(volume[..., 0]), out=volume[..., 1])  # side by side is not the same place
    np.testing.assert_array_equal(volume[..., 1], dope.minimize(Energy.grid(volume[..., 0])).labels)


@pytest.mark.parametrize("out", ["x", [[0]], 3])
def test_what_labels_cannot_be_written_to_is_shown(out):
    with pytest.raises(InputError, match=r"out is .*; expected an array of shape \(4, 5\)"):
        dope.minimize(Energy.grid(GRID), out=out)
