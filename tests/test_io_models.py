"""Models of several labels in files, UAI and OpenGM: every labelling costs what the factors of the file add up to."""

import io
import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import Energy, InputError, LabelEnergy
from dope.io import read_energy, read_instance
from dope.io.energies import factors as models
from dope.io.energies import hdf5
from dope.io.energies.hdf5 import _unshuffled
from opengm_files import TABLE, opengm
from problems import rng_of
from profiles import examples
from test_io_energies import uai_text

h5py = pytest.importorskip("h5py")
SOME = examples(30)
RULES = {
    16002: (1, lambda d, w: w * d),
    16003: (2, lambda d, limit, w: w * min(d, limit) if limit >= 0 else w * limit),
    16004: (1, lambda d, w: w * d * d),
    16005: (2, lambda d, limit, w: w * min(d * d, limit) if limit >= 0 else w * limit),
    16006: (2, lambda d, alike, apart: apart if d else alike),
}


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Writes a text, or bytes, and says where."""
    path = tmp_path_factory.mktemp("models") / "model"

    def write(content):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def labelled(sites, states):
    return [np.array(x) for x in itertools.product(range(states), repeat=sites)]


@st.composite
def networks(draw):
    """Factors of at most two variables of a few states, their tables of every kind that there is."""
    n, states = draw(st.integers(1, 4)), draw(st.integers(2, 4))
    rng = rng_of(draw)
    kind = draw(st.sampled_from(["any", "potts", "linear", "table"]))
    apart = np.abs(np.subtract.outer(np.arange(states), np.arange(states)))
    shapes = {"potts": apart > 0, "linear": np.minimum(apart, 2), "table": apart**3}
    scopes = [rng.permutation(n)[:size].tolist() for size in rng.integers(0, min(3, n + 1), draw(st.integers(0, 7)))]
    tables = [rng.integers(-9, 10, (states,) * len(scope)).astype(float) for scope in scopes]
    if kind != "any":
        tables = [table if table.ndim < 2 else table[0, 0] * shapes[kind] + table[0, 1] for table in tables]
    return n, states, scopes, tables


def summed(scopes, tables):
    return lambda x: sum(float(table[tuple(x[scope])]) for scope, table in zip(scopes, tables, strict=True))


@SOME
@given(problem=networks(), chunked=st.booleans())
def test_the_energy_of_an_opengm_model_is_the_sum_of_its_tables(file, problem, chunked):
    n, states, scopes, tables = problem
    packing = {"chunks": (3,), "compression": "gzip", "shuffle": True} if chunked else {}
    content = opengm([states] * n, [(TABLE, k, scope) for k, scope in enumerate(scopes)], {TABLE: tables}, **packing)
    instance, cost = read_instance(file(content)), summed(scopes, tables)
    energy = instance.energy
    assert instance.format == "OpenGM model" and instance.objective is None
    assert isinstance(energy, Energy if states == 2 else LabelEnergy) and energy.label_count == states
    for x in labelled(n, states):
        assert energy(x.reshape(energy.shape)) == cost(x)


@SOME
@given(problem=networks())
def test_the_energy_of_a_uai_file_is_minus_the_log_of_the_product(file, problem):
    n, states, scopes, tables = problem
    text = uai_text(n, scopes, [np.exp(-table) for table in tables], states)
    energy, cost = read_energy(file(text)), summed(scopes, tables)
    assert energy.label_count == states
    for x in labelled(n, states):
        assert energy(x.reshape(energy.shape)) == pytest.approx(cost(x), abs=1e-9)


@SOME
@given(states=st.integers(2, 4), data=st.data())
def test_rules_cost_what_they_say(file, states, data):
    rng = rng_of(data.draw)
    kinds = data.draw(st.lists(st.sampled_from([*RULES]), min_size=1, max_size=2, unique=True))
    functions = {kind: rng.integers(-2, 7, (2, RULES[kind][0])).astype(float) for kind in kinds}
    factors = [(kind, int(rng.integers(2)), rng.permutation(3)[:2].tolist()) for kind in [*kinds, *kinds]]
    energy = read_energy(file(opengm([states] * 3, factors, functions)))
    for x in labelled(3, states):
        cost = sum(RULES[kind][1](abs(x[i] - x[j]), *functions[kind][which]) for kind, which, (i, j) in factors)
        assert energy(x.reshape(energy.shape)) == cost


def pairs_of(shape, offsets):
    """The edges of a grid, sites in row-major order."""
    places = np.arange(math.prod(shape)).reshape(shape)
    for offset in offsets:
        tail = places[tuple(slice(max(0, -o), n - max(0, o)) for o, n in zip(offset, shape, strict=True))]
        head = places[tuple(slice(max(0, o), n + min(0, o)) for o, n in zip(offset, shape, strict=True))]
        yield from zip(tail.ravel().tolist(), head.ravel().tolist(), itertools.repeat(offset))


@pytest.mark.parametrize(
    ("shape", "offsets"),
    [
        ((5,), [(1,)]),
        ((4, 5), [(0, 1), (1, 0)]),
        ((5, 4), [(0, 1), (1, -1), (1, 0), (1, 1)]),
        ((3, 4, 5), [(0, 0, 1), (0, 1, 0), (1, 0, 0)]),
    ],
)
@pytest.mark.parametrize("even", [True, False])
def test_all_pairs_of_a_grid_become_a_grid(file, shape, offsets, even):
    rng, n = np.random.default_rng(0), math.prod(shape)
    ends = list(pairs_of(shape, offsets))
    weights = {offset: float(1 + k) for k, offset in enumerate(offsets)}
    tables = [[0.0, weights[offset] if even else float(rng.integers(1, 9))] for *_, offset in ends]
    costs = rng.integers(0, 9, (n, 3)).astype(float)
    factors = [(TABLE, i, [i]) for i in range(n)] + [(16006, k, [j, i]) for k, (i, j, _) in enumerate(ends)]
    energy = read_energy(file(opengm([3] * n, factors, {TABLE: costs, 16006: tables})))
    assert energy.shape == shape and energy.metric.kind == "potts" and energy.pairs.number == len(ends)
    assert (energy.pairs.fields is None) == even
    for x in rng.integers(0, 3, (20, n)):
        paid = sum(table[1] for table, (i, j, _) in zip(tables, ends, strict=True) if x[i] != x[j])
        assert energy(x.reshape(shape)) == costs[np.arange(n), x].sum() + paid
    # One pair less, or one across the border of a row, and it is a graph.
    fewer = read_energy(file(opengm([3] * n, factors[:-1], {TABLE: costs, 16006: tables})))
    assert fewer.shape == (n,)


@pytest.mark.parametrize(
    ("functions", "expected"),
    [
        ({16002: [[2.0], [3.0]]}, ("linear", math.inf)),
        ({16003: [[2.0, 1.0], [2.0, 5.0]]}, ("linear", 2.0)),
        ({16003: [[1.0, 4.0], [0.5, 5.0]]}, ("potts", math.inf)),
        ({16005: [[9.0, 1.0], [99.0, 5.0]]}, ("quadratic", math.inf)),
        ({16005: [[4.0, 1.0], [4.0, 5.0]]}, ("quadratic", 4.0)),
        ({TABLE: [[[1.0, 0.3, 0.6, 0.6]] * 4] * 2}, None),
        ({TABLE: [0.7 * np.minimum(np.abs(np.subtract.outer(range(4), range(4))), 2)] * 2}, ("linear", 2.0)),
        ({TABLE: [w * np.abs(np.subtract.outer(range(4), range(4))) ** 3.0 for w in (1, 4)]}, ("table", math.inf)),
        ({16003: [[2.0, 1.0], [3.0, 5.0]]}, ("linear", None)),
    ],
)
def test_pairs_share_a_metric_where_they_can(file, functions, expected):
    factors = [(kind, k, [k, 4]) for kind in functions for k in range(2)]
    energy = read_energy(file(opengm([4] * 5, factors, functions)))
    if expected is None or (expected[1] is None and functions[16003][1][0] < 3):
        assert energy.metric is None
    elif expected[1] is not None:
        assert (energy.metric.kind, energy.metric.limit) == expected
    else:
        assert energy.metric is None  # limits differ


def test_a_model_of_another_name_and_one_that_is_stored_in_float32_are_read(file):
    content = opengm([3, 3], [(TABLE, 0, [1])], {TABLE: [[1.0, 2.0, 4.0]]}, name="model")
    assert read_energy(file(content))([0, 2]) == 4.0
    stream = io.BytesIO(content)
    with h5py.File(stream, "a") as model:
        del model["model/function-id-16000/values"]
        model["model/function-id-16000/values"] = np.array([1.0, 2.0, 4.0], ">f4")
    assert read_energy(file(stream.getvalue()))([0, 2]) == 4.0


def test_a_model_of_several_labels_is_minimized(file):
    rng = np.random.default_rng(1)
    costs, table = rng.normal(size=(6, 3)), rng.normal(size=(3, 3))
    scopes = [[i] for i in range(6)] + [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0]]
    content = opengm([3] * 6, [(TABLE, min(6, k), s) for k, s in enumerate(scopes)], {TABLE: [*costs, table]})
    energy, cost = read_energy(file(content)), summed(scopes, [*costs, *[table] * 6])
    result = dope.minimize(energy)
    best = min(map(cost, labelled(6, 3)))
    assert result.energy == pytest.approx(cost(result.labels.astype(int)))
    assert result.energy >= best - 1e-9
    assert result.lower_bound is None or result.lower_bound <= best + 1e-9


BASE = {
    "states": [3] * 3,
    "factors": [(TABLE, 0, [0]), (TABLE, 1, [0, 1])],
    "functions": {TABLE: [[1.0] * 3, np.eye(3)]},
}
UAI = "MARKOV\n3\n3 3 3\n1\n2 0 1\n\n9\n1 2 3 4 5 6 7 8 9\n"
BAD = {
    "states differ": ({"states": [3, 3, 2]}, "variable 2 has 2 states and variable 0 has 3"),
    "one state": ({"states": [1, 1, 1]}, "variable 0 has 1 states; expected 2 to 1024"),
    "too many states": ({"states": [70_000] * 3}, "expected 2 to 1024"),
    "no variables": ({"states": [], "factors": []}, "variables"),
    "three variables": ({"factors": [(TABLE, 0, [0, 1, 2])]}, "factor 0 is of 3 variables; expected at most 2"),
    "a table of three": ({"functions": {TABLE: [[1.0] * 3, np.zeros((3, 3, 3))]}}, "table 1 is of 3 variables"),
    "another table": ({"functions": {TABLE: [[1.0] * 2, np.eye(3)]}}, "table 0 is 2; expected 3 states"),
    "variable outside": ({"factors": [(TABLE, 0, [3])]}, "factor 0 is of variables .3.; expected"),
    "one variable twice": ({"factors": [(TABLE, 1, [1, 1])]}, "factor 0 is of variables .1, 1.; expected different"),
    "function outside": ({"factors": [(TABLE, 2, [1])]}, "takes function 2"),
    "function of others": ({"factors": [(TABLE, 1, [1])]}, "factor 0 is of 1 variables and takes function 1"),
    "infinite": ({"functions": {TABLE: [[1.0, math.inf, 0.0], np.eye(3)]}}, "holds inf; expected finite"),
    "NaN": ({"functions": {TABLE: [[1.0, math.nan, 0.0], np.eye(3)]}}, "holds nan; expected finite"),
    "beyond": ({"functions": {TABLE: [[1.0, 1e300, 0.0], np.eye(3)]}}, "up to 1e.100"),
    "another kind": ({"functions": {TABLE: [[1.0] * 3, np.eye(3)], 16007: [[1.0]]}}, "of kind 16007; expected"),
    "another version": ({"header": [3, 0, 3, 2, 1, TABLE, 2, 1]}, "expected version 2"),
    "short header": ({"header": [2, 0, 3, 2]}, "its header is"),
    "many kinds": ({"header": [2, 0, 3, 2, 10**15, TABLE, 2, 1]}, "its header is"),
    "more variables": ({"header": [2, 0, 4, 2, 1, TABLE, 2, 1]}, "declares 4 variables and lists 3"),
    "more factors": ({"header": [2, 0, 3, 10**15, 1, TABLE, 2, 1]}, "factors and lists 2"),
    "fewer factors": ({"header": [2, 0, 3, 1, 1, TABLE, 2, 1]}, "take 4 numbers"),
    "more tables": ({"header": [2, 0, 3, 2, 1, TABLE, 10**15, 1]}, "tables and lists 2"),
    "fewer tables": ({"header": [2, 0, 3, 2, 1, TABLE, 1, 1]}, "more numbers about its tables"),
    "packed": ({"chunks": (2,), "compression": "lzf"}, "packed with lzf"),
}


@pytest.mark.parametrize(("change", "words"), BAD.values(), ids=BAD.keys())
def test_bad_models_are_refused_at_once_and_by_name(file, change, words):
    path, begun = file(opengm(**{**BASE, **change})), time.perf_counter()
    with pytest.raises(InputError, match=f"^(?s:{path}: .*({words}))") as error:
        read_energy(path)
    assert str(error.value).count(str(path)) == 1
    assert len(str(error.value)) < 300 and "\n" not in str(error.value) and time.perf_counter() - begun < 1.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (UAI.replace("3 3 3", "3 4 3"), "variable 1 has 4 states and variable 0 has 3"),
        (UAI.replace("3 3 3", "1 1 1"), "variable 0 has 1 states"),
        (UAI.replace("3 3 3", "2.5 3 3"), "variable 0 has 2.5 states"),
        (UAI.replace("3 3 3", "1025 3 3"), "expected 2 to 1024"),
        (UAI.replace("2 0 1", "3 0 1 2"), "factor 0 is of 3 variables"),
        (UAI.replace("7 8 9", "7 8"), "cut short"),
        (UAI.replace("7 8 9", "7 8 0"), "factor 0 holds 0"),
        ("MARKOV\n9999\n" + "1024 " * 9999 + "\n0\n", "9,999 variables of 1024 states"),
    ],
)
def test_bad_networks_of_several_states_are_refused(file, text, words):
    path = file(text)
    with pytest.raises(InputError, match=f"^(?s:{path}: .*({words}))") as error:
        read_energy(path)
    assert str(error.value).count(str(path)) == 1


def altered(change):
    """A good model, and what became of it when `change(model)` was done."""
    stream = io.BytesIO(opengm(**BASE))
    with h5py.File(stream, "a") as file:
        change(file["gm"])
    return stream.getvalue()


def _replaced(name, make):
    def change(model):
        del model[name]
        make(model, name)

    return change


def _bomb(model, name):
    import zlib

    found = model.create_dataset(name, (3,), np.uint64, chunks=(3,), compression="gzip")
    found.id.write_direct_chunk((0,), zlib.compress(bytes(1 << 26)))


STRANGE = {
    "a link elsewhere": (
        lambda m, n: m.__setitem__(n, h5py.ExternalLink("other.h5", "/gm/factors")),
        "links to another",
    ),
    "a soft link": (lambda m, n: m.__setitem__(n, h5py.SoftLink("/gm/header")), "links to another"),
    "nothing": (lambda *_: None, "holds no 'numbers-of-states'"),
    "a group": (lambda m, n: m.create_group(n), "is Group; expected a dataset"),
    "text": (lambda m, n: m.create_dataset(n, data=np.array([b"abc"] * 3)), "holds text|holds Python objects"),
    "strings": (lambda m, n: m.create_dataset(n, data=["abc"] * 3), "holds Python objects"),
    "records": (lambda m, n: m.create_dataset(n, data=np.zeros(3, "i4,i4")), "holds records"),
    "a number": (lambda m, n: m.create_dataset(n, data=3), "of shape"),
    "two axes": (lambda m, n: m.create_dataset(n, data=np.full((3, 1), 3)), "of shape .3, 1.; expected one axis"),
    "empty": (lambda m, n: m.create_dataset(n, data=h5py.Empty("f")), "of shape"),
    "never written": (lambda m, n: m.create_dataset(n, (1 << 40,), np.uint64), "memory|not there"),
    "never written, small": (lambda m, n: m.create_dataset(n, (1 << 16,), np.uint64), "not there"),
    "chunks never written": (lambda m, n: m.create_dataset(n, (3,), np.uint64, chunks=(3,)), "lacks numbers from 0 on"),
    "tiny chunks": (lambda m, n: m.create_dataset(n, (1 << 20,), np.uint64, chunks=(1,)), "h5repack"),
    "huge chunks": (
        lambda m, n: m.create_dataset(n, (3,), np.uint64, chunks=(1 << 24,), maxshape=(None,)),
        "none larger than all",
    ),
    "a bomb": (_bomb, "25 bytes or more, expected at most 24"),
    "other files": (
        lambda m, n: m.create_dataset(n, (3,), np.uint64, external=[("/etc/hostname", 0, 24)]),
        "other files",
    ),
    "virtual": (
        lambda m, n: m.create_virtual_dataset(n, h5py.VirtualLayout((3,), np.uint64)),
        "other files or datasets",
    ),
    "fractions": (lambda m, n: m.create_dataset(n, data=[3.5, 3.5, 3.5]), "3.5 states"),
}


@pytest.mark.parametrize(("make", "words"), STRANGE.values(), ids=STRANGE.keys())
def test_datasets_that_are_none_of_the_usual_are_refused(file, make, words):
    path = file(altered(_replaced("numbers-of-states", make)))
    with pytest.raises(InputError, match=f"^(?s:{path}: .*({words}))") as error:
        read_energy(path)
    assert len(str(error.value)) < 300


def test_a_shared_rule_takes_no_table_per_pair(file, monkeypatch):
    """Costs of a thousand labels for a few sites are refused only where the memory is not there."""
    content = opengm([1024] * 40, [(16002, 0, [i, i + 1]) for i in range(39)], {16002: [[1.0]]})
    assert read_energy(file(content)).metric.kind == "linear"
    mixed = opengm([1024] * 40, [(16003, i % 2, [i, i + 1]) for i in range(39)], {16003: [[5.0, 1.0], [6.0, 1.0]]})
    monkeypatch.setattr("dope.memory.available_bytes", lambda: 1 << 28)
    with pytest.raises(InputError, match="a table for each of 39 pairs takes"):
        read_energy(file(mixed))
    monkeypatch.setattr(models, "_SPARE_COSTS", 1000)
    with pytest.raises(InputError, match="40 variables of 1024 states"):
        read_energy(file(content))


def test_bytes_are_put_back_together_as_hdf5_took_them_apart():
    content = np.arange(11, dtype=np.uint8)
    np.testing.assert_array_equal(_unshuffled(content, 4), [0, 2, 4, 6, 1, 3, 5, 7, 8, 9, 10])


def test_h5py_is_imported_when_a_model_is_read_and_missed_in_a_line(file, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(dope.MissingExtraError, match=r"pip install 'dope\[opengm\]'"):
        read_energy(file(hdf5.MAGIC + bytes(100)))
