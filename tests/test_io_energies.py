"""Files of energies: every labelling costs what the format says, and bad files are refused in one line."""

import io
import time
import zipfile

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import maximum_flow

import dope
from dope import Energy, InputError
from dope.io import ENERGY_FORMATS, read_energy, read_instance
from problems import rng_of
from profiles import examples
from test_energies import agrees, labellings

SOME = examples(40)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Writes a text, or bytes, and says where."""
    path = tmp_path_factory.mktemp("energies") / "energy"

    def write(content):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@st.composite
def edge_lists(draw, most=4, low=-9):
    """A number of sites, edges (each pair once, in either direction), and whole weights."""
    n = draw(st.integers(2, most))
    rng = rng_of(draw)
    edges = np.stack(np.triu_indices(n, 1), axis=1)
    edges = rng.permutation(edges)[: draw(st.integers(0, len(edges)))]
    flipped = np.where((rng.random(len(edges)) < 0.5)[:, None], edges[:, ::-1], edges)
    return n, flipped, rng.integers(low, 10, len(edges))


def gset_text(n, edges, weights):
    lines = [f"{i + 1} {j + 1} {w}\n" for (i, j), w in zip(edges.tolist(), weights.tolist(), strict=True)]
    return f"{n} {len(edges)} \n" + "".join(lines)


@SOME
@given(problem=edge_lists())
def test_the_energy_of_a_gset_file_is_minus_the_cut(file, problem):
    n, edges, weights = problem
    instance = read_instance(file(gset_text(n, edges, weights)))

    def cut(x):
        return sum(w for (i, j), w in zip(edges.tolist(), weights.tolist(), strict=True) if x[i] != x[j])

    agrees(instance.energy, lambda x: -cut(x))
    x = labellings(n)[-2]
    assert instance.objective.of(instance.energy(x)) == cut(x) and instance.format == "G-set max-cut"


@SOME
@given(problem=edge_lists(), seed=st.integers(0, 99))
def test_the_energy_of_a_qubo_file_is_minus_its_value(file, problem, seed):
    n, edges, values = problem
    rng = np.random.default_rng(seed)
    own = np.flatnonzero(rng.random(n) < 0.7)
    diagonal = rng.normal(0, 9, len(own))
    lines = [f"{i} {i} {float(v)!r}\n" for i, v in zip(own.tolist(), diagonal.tolist(), strict=True)] + ["c links\n"]
    lines += [f"{i} {j} {v}\n" for (i, j), v in zip(edges.tolist(), values.tolist(), strict=True)]
    path = file(f"c a comment\nc\np qubo 0 {n} {len(own)} {len(edges)}\n" + "".join(lines))

    def value(x):
        pairs = sum(v * x[i] * x[j] for (i, j), v in zip(edges.tolist(), values.tolist(), strict=True))
        return pairs + diagonal @ x[own]

    agrees(read_energy(path), lambda x: -value(x))
    agrees(read_energy(path, format="qubo-min"), value)


@st.composite
def networks(draw):
    """Factors of at most two binary variables: their scopes and tables."""
    n = draw(st.integers(1, 4))
    rng = rng_of(draw)
    sizes = rng.integers(0, min(3, n + 1), draw(st.integers(0, 8)))
    scopes = [rng.permutation(n)[:size].tolist() for size in sizes.tolist()]
    return n, scopes, [np.exp(rng.normal(0, 2, (2,) * len(scope))) for scope in scopes]


def uai_text(n, scopes, tables, states=2):
    lines = ["MARKOV", str(n), " ".join([str(states)] * n), str(len(scopes))]
    lines += ["\t".join(map(str, [len(scope), *scope])) for scope in scopes]
    for table in tables:
        lines += ["", str(table.size), " ".join(repr(float(entry)) for entry in table.ravel())]
    return "\n".join(lines) + "\n\n"


@SOME
@given(problem=networks())
def test_the_energy_of_a_uai_file_is_minus_the_log_of_the_product(file, problem):
    n, scopes, tables = problem

    def cost(x):
        return -sum(np.log(table[tuple(x[scope])]) for scope, table in zip(scopes, tables, strict=True))

    agrees(read_energy(file(uai_text(n, scopes, tables))), cost)


@st.composite
def flow_networks(draw):
    """Nodes, terminals and arcs, some of them parallel."""
    n = draw(st.integers(2, 5))
    rng = rng_of(draw)
    arcs = rng.integers(0, n, (draw(st.integers(0, 3 * n)), 2))
    arcs = arcs[arcs[:, 0] != arcs[:, 1]]
    source, sink = rng.permutation(n)[:2].tolist()
    return n, source, sink, arcs, rng.integers(0, 10, len(arcs))


def dimacs_text(n, source, sink, arcs, capacities):
    lines = [f"a {u + 1} {v + 1} {c}\n" for (u, v), c in zip(arcs.tolist(), capacities.tolist(), strict=True)]
    head = f"c a network\n\np max {n} {len(arcs)}\nn {source + 1} s\nc here\nn {sink + 1} t\n"
    return head + "".join(f"{line}c\n" for line in lines)


@SOME
@given(problem=flow_networks())
def test_the_energy_of_a_dimacs_file_is_the_cut_and_its_minimum_the_flow(file, problem):
    n, source, sink, arcs, capacities = problem
    instance = read_instance(file(dimacs_text(*problem)))
    energy, graph = instance.energy, scipy.sparse.csr_array(
        (capacities.astype(np.int32), (arcs[:, 0], arcs[:, 1])), shape=(n, n)
    )  # fmt: skip
    for x in labellings(n):
        right = x.copy()
        right[source], right[sink] = 1, 0
        cut = sum(c for (u, v), c in zip(arcs.tolist(), capacities.tolist(), strict=True) if right[u] > right[v])
        wrong = int((x != right).sum())
        assert energy(x) == cut if not wrong else energy(x) > cut
    result = dope.minimize(energy)
    assert energy.submodular and result.labels[source] and not result.labels[sink]
    assert result.energy == instance.objective.of(result.energy) == maximum_flow(graph, source, sink).flow_value


@SOME
@given(problem=edge_lists(), constant=st.sampled_from([None, 2.5]))
def test_arrays_of_a_graph_come_back(file, problem, constant):
    n, edges, weights = problem
    energy = Energy.graph(np.arange(n) - 1.5, edges, weights)
    stream = io.BytesIO()
    more = {} if constant is None else {"constant": constant}
    np.savez_compressed(stream, unary=energy.unary, edges=edges, weights=weights, extra=np.zeros(3), **more)
    agrees(read_energy(file(stream.getvalue())), lambda x: energy(x) + (constant or 0.0))


@SOME
@given(problem=edge_lists())
def test_arrays_of_tables_come_back_in_their_shape(file, problem):
    n, edges, _ = problem
    rng = np.random.default_rng(n)
    costs, tables = rng.normal(size=(n, 2)), rng.normal(size=(len(edges), 2, 2))
    stream = io.BytesIO()
    i, j = edges.T.astype(np.int32)
    np.savez(stream, cost0=costs[:, 0], cost1=costs[:, 1], i=i, j=j, tables=tables, shape=[1, n])
    energy = read_energy(file(stream.getvalue()))
    assert energy.shape == (1, n)
    agrees(energy, Energy.from_tables(costs, edges, tables))


def test_a_matrix_is_a_qubo_to_be_minimized(file):
    Q = np.array([[1.0, -2.0], [-2.0, 3.0]])
    for matrix in (Q, Q.astype(">f4"), np.asfortranarray(np.triu(Q)), Q.astype(np.int8)):
        stream = io.BytesIO()
        np.save(stream, matrix)
        agrees(read_energy(file(stream.getvalue())), lambda x, matrix=matrix: x @ matrix.astype(float) @ x)


GSET = "3 2\n1 2 5\n2 3 -4\n"
QUBO = "p qubo 0 3 1 2\n0 0 7\n0 1 5.5\n1 2 -4\n"
UAI = "MARKOV\n2\n2 2\n2\n1 0\n2 0 1\n\n2\n0.5 1.5\n\n4\n1 2 3 4\n"
DIMACS = "p max 3 2\nn 1 s\nn 3 t\na 1 2 5\na 2 3 4\n"


def packed(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def matrix_bytes(array):
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def bomb():
    """A member that declares, and would unpack to, far more than there is."""
    stream = io.BytesIO()
    header = b"\x93NUMPY\x01\x00\x76\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }"
    with zipfile.ZipFile(stream, "w") as archive:
        for name in ("unary", "edges", "weights"):
            archive.writestr(f"{name}.npy", header.ljust(127) + b"\n")
    return stream.getvalue()


TABLES = {"cost0": np.zeros(2), "cost1": np.ones(2), "i": [0], "j": [1], "tables": np.zeros((1, 2, 2))}
GRAPH = {"unary": np.zeros(3), "edges": [[0, 1]], "weights": [1.0]}

BAD = {
    "nothing": ("", "empty"),
    "only comments": ("c\nc hello\n", "as no format does"),
    "prose": ("Hello world, this is a letter.\n", "as no format does.*G-set"),
    "bytes": (b"\xff\xfe\x00\x01" * 9, "as no format does"),
    "packed": (b"\x1f\x8b\x08\x00rest", "gzip; unpack"),
    "gset, a word": (GSET.replace("5", "five"), "'five' .*expected lines 'i j w'"),
    "gset, no weight": (GSET.replace(" 5", ""), "expected lines 'i j w'"),
    "gset, four numbers": (GSET.replace(" 5", " 5 6"), "expected lines 'i j w'"),
    "gset, cut short": ("3 2\n1 2 5\n", "declares 2 edges, but 1 are there: cut short"),
    "gset, no lines": ("3 2", "declares 2 edges, but 0"),
    "gset, more": (GSET + "1 3 1\n", "more follows"),
    "gset, prose at the end": (GSET + "that is all\n", "expected lines"),
    "gset, a lie about sites": (GSET.replace("3 2", "900000000 2"), "Is the header right"),
    "gset, a lie about edges": (GSET.replace("3 2", "3 900000000000"), "cut short"),
    "gset, no sites": ("0 0\n", "number of sites is '0'"),
    "gset, long header": (f"{'9' * 400} 2\n1 2 1\n", "number of sites"),
    "gset, from 0": ("3 1\n0 1 1\n", "edge 1 names site 0; expected 1 to 3"),
    "gset, outside": ("3 1\n1 4 1\n", "names site 4"),
    "gset, half a site": ("3 1\n1 2.5 1\n", "names site 2.5"),
    "gset, a loop": ("3 1\n2 2 1\n", "site 2 with itself"),
    "gset, twice": ("3 2\n1 2 1\n2 1 1\n", "edge 2 joins sites 2 and 1 once more"),
    "gset, NaN": ("3 1\n1 2 nan\n", "nan"),
    "gset, infinity": ("3 1\n1 2 -inf\n", "-inf"),
    "gset, beyond 2^53": ("3 1\n1 2 9007199254740993\n", r"2\^53"),
    "gset, no text": (b"3 1\n1 2 \xe9\n", "no text|damaged"),
    "qubo, short header": (QUBO.replace("p qubo 0 3 1 2", "p qubo 3"), "expected 'p qubo 0 sites"),
    "qubo, diagonals": (QUBO.replace("3 1 2", "3 2 2"), "2 entries on the diagonal, but 1"),
    "qubo, pairs": (QUBO.replace("3 1 2", "3 1 1"), "1 entries off the diagonal, but 2"),
    "qubo, twice": ("p qubo 0 3 0 2\n0 1 7\n1 0 7\n", "once more"),
    "qubo, a diagonal twice": ("p qubo 0 3 2 0\n1 1 7\n1 1 7\n", "once more"),
    "qubo, outside": ("p qubo 0 3 0 1\n0 3 7\n", "names site 3; expected 0 to 2"),
    "qubo, a lie": (QUBO.replace("0 3 1 2", "0 99999999999 1 2"), "Is the header right"),
    "uai, Bayes": (UAI.replace("MARKOV", "BAYES"), "expected MARKOV"),
    "uai, three states": (UAI.replace("2 2\n2\n", "2 3\n2\n"), "variable 1 has 3 states"),
    "uai, three variables": ("MARKOV\n3\n2 2 2\n1\n3 0 1 2\n\n8\n1 1 1 1 1 1 1 1\n", "is of 3 variables"),
    "uai, a lie about variables": ("MARKOV\n999999999999\n2 2\n", "room for"),
    "uai, a lie about factors": (UAI.replace("2 2\n2\n", "2 2\n999999999\n"), "room for"),
    "uai, no variables": ("MARKOV\n0\n\n0\n", "no variables"),
    "uai, outside": (UAI.replace("1 0\n", "1 2\n"), "factor 0 names variable 2"),
    "uai, one variable twice": (UAI.replace("2 0 1", "2 1 1"), "one variable twice"),
    "uai, zero": (UAI.replace("0.5", "0"), "factor 0 holds 0.*1e-30"),
    "uai, negative": (UAI.replace("0.5", "-1"), "holds -1"),
    "uai, infinite": (UAI.replace("0.5", "1e999"), "holds inf"),
    "uai, NaN": (UAI.replace("0.5", "nan"), "'n' among its numbers"),
    "uai, underscore": (UAI.replace("0.5", "0_5"), "'_' among its numbers"),
    "uai, two points": (UAI.replace("0.5", "0.5.5"), "no number"),
    "uai, another table": (UAI.replace("4\n1 2 3 4", "3\n1 2 3 4"), "factor 1 declares 3 entries"),
    "uai, cut short": (UAI.removesuffix("4\n"), "cut short"),
    "uai, more": (UAI + "1\n", "more follows"),
    "dimacs, another problem": (DIMACS.replace("max", "min"), "expected 'p max"),
    "dimacs, no sink": (DIMACS.replace("n 3 t\n", ""), "expected 'n id s' and 'n id t'"),
    "dimacs, two sources": (DIMACS.replace("n 3 t", "n 3 s"), "expected 'n id s'"),
    "dimacs, source is sink": (DIMACS.replace("n 3 t", "n 1 t"), "two different nodes"),
    "dimacs, terminal outside": (DIMACS.replace("n 3 t", "n 4 t"), "two different nodes"),
    "dimacs, terminal 0": (DIMACS.replace("n 3 t", "n 0 t"), "terminal is '0'"),
    "dimacs, negative": (DIMACS.replace("2 5", "2 -5"), "arc 1 has the capacity -5"),
    "dimacs, a loop": (DIMACS.replace("1 2 5", "2 2 5"), "node|site 2 with itself"),
    "dimacs, a letter": (DIMACS.replace("a 2", "b 2"), "begins with 'b'"),
    "dimacs, no letter": (DIMACS.replace("a 2", "2"), "expected lines 'a from to capacity'"),
    "dimacs, cut short": (DIMACS.removesuffix("a 2 3 4\n"), "declares 2 arcs, but 1"),
    "dimacs, beyond 2^53": (DIMACS.replace("2 5", f"2 {2**53}"), r"2\^53"),
    "dimacs, a lie": (DIMACS.replace("3 2", "999999999 2"), "Is the header right"),
    "npz, other arrays": (packed(image=np.zeros(3)), "holds the arrays image; expected unary"),
    "npz, cut short": (packed(**GRAPH)[:-30], "not an NPZ|damaged"),
    "npz, objects": (packed(**GRAPH | {"unary": np.array([{}, 1], dtype=object)}), "Python objects"),
    "npz, more than there is": (bomb(), "declares"),
    "npz, NaN": (packed(**GRAPH | {"unary": [np.nan, 0, 0]}), "nan"),
    "npz, outside": (packed(**GRAPH | {"edges": [[0, 3]]}), "edge 0 is"),
    "npz, a loop": (packed(**GRAPH | {"edges": [[1, 1]]}), "with itself"),
    "npz, weights of another length": (packed(**GRAPH | {"weights": [1.0, 2.0]}), "one per edge"),
    "npz, two constants": (packed(**GRAPH, constant=[1.0, 2.0]), "one finite number"),
    "npz, an infinite constant": (packed(**GRAPH, constant=np.inf), "one finite number"),
    "npz, another shape": (packed(**TABLES, shape=[2, 2]), "hold 2 sites"),
    "npz, half a shape": (packed(**TABLES, shape=[1.0, 2.0]), "hold 2 sites"),
    "npz, costs of other lengths": (packed(**TABLES | {"cost1": np.ones(3)}), "cost0 and cost1 have shapes"),
    "npz, ends of other lengths": (packed(**TABLES | {"j": [1, 1]}), "i and j have shapes"),
    "npz, real ends": (packed(**TABLES | {"i": [0.0]}), "integers"),
    "npy, not square": (matrix_bytes(np.zeros((2, 3))), "square"),
    "npy, different triangles": (matrix_bytes(np.array([[0, 1], [2, 0]])), "triangular"),
    "npy, NaN": (matrix_bytes(np.full((2, 2), np.nan)), "nan"),
    "npy, objects": (matrix_bytes(np.array([[None]])), "Python objects"),
    "npy, cut short": (matrix_bytes(np.zeros((9, 9)))[:-8], "cut short"),
}


@pytest.mark.parametrize(("content", "words"), BAD.values(), ids=BAD.keys())
def test_bad_files_are_refused_at_once_and_by_name(file, content, words):
    path, begun = file(content), time.perf_counter()
    with pytest.raises(InputError, match=f"^(?s:{path}.*({words}))"):
        read_energy(path)
    assert time.perf_counter() - begun < 5


def test_no_file_a_folder_and_no_such_format(tmp_path, file):
    for path, words in ((tmp_path / "missing", "no such file"), (tmp_path, "folder")):
        with pytest.raises(InputError, match=words):
            read_energy(path)
    with pytest.raises(InputError, match="expected one of gset, qubo"):
        read_energy(file(GSET), format="hdf5")
    for name, format_ in ENERGY_FORMATS.items():
        if not name.startswith("gset"):
            with pytest.raises(InputError):
                format_.read(file(GSET))


def test_a_file_too_large_for_the_memory_is_refused_before_it_is_read(file, monkeypatch):
    monkeypatch.setattr("dope.io.energies.text._BYTES_PER_BYTE", 1 << 60)
    with pytest.raises(InputError, match="of memory"):
        read_energy(file(GSET))


WHOLE = (GSET.encode(), QUBO.encode(), UAI.encode(), DIMACS.encode(), packed(**GRAPH), packed(**TABLES),
         matrix_bytes(np.eye(3)))  # fmt: skip


@pytest.mark.parametrize("content", WHOLE[:4])
def test_what_ends_early_is_refused(file, content):
    lines = content.splitlines(keepends=True)
    for number in range(1, len(lines)):
        if b"".join(lines[number:]).strip():
            with pytest.raises(InputError):
                read_energy(file(b"".join(lines[:number])))


def test_a_large_file_is_read_in_bulk(file):
    n = 200_000
    lines = "\n".join(f"{i} {i + 1} {i % 7}" for i in range(1, n))
    path, begun = file(f"{n} {n - 1}\n{lines}"), time.perf_counter()
    energy = read_energy(path)
    assert energy.pairs.number == n - 1 and energy(np.arange(n) % 2) == -sum(i % 7 for i in range(1, n))
    assert time.perf_counter() - begun < 5


def test_the_gset_instances(data_folder):
    for path in sorted((data_folder / "mrf" / "gset").glob("G*.txt")):
        energy = read_energy(path)
        lines = np.loadtxt(path, skiprows=1)
        sides = np.random.default_rng(0).random(energy.shape) < 0.5
        apart = sides[lines[:, 0].astype(int) - 1] != sides[lines[:, 1].astype(int) - 1]
        assert energy(sides) == -lines[apart, 2].sum()
        assert not energy.submodular


@pytest.mark.parametrize(("name", "best"), [("bqp100_1", 7970), ("bqp250_1", 45607)])
def test_tabu_search_finds_the_best_known_value_of_beasleys_instances(data_folder, name, best):
    instance = read_instance(data_folder / "mrf" / "qubo" / f"{name}.qubo")
    result = dope.minimize(instance.energy, solver=dope.Tabu(restarts=5))
    assert instance.objective.of(result.energy) == best


def test_the_uai_instances(data_folder):
    for path in sorted((data_folder / "mrf" / "uai").glob("*.uai")):
        instance = read_instance(path)
        assert instance.energy.submodular == path.name.startswith("Segmentation")
        words = path.read_text().split()
        # The last factor of these files is of two variables, and its table ends the file.
        assert instance.format == "UAI Markov network" and len(instance.energy.unary) == int(words[1])
        if instance.energy.submodular:
            assert dope.minimize(instance.energy).exact


def test_the_decision_tree_field(data_folder):
    path = data_folder / "nonsubmodular" / "dtf_0009.npz"
    energy, arrays = read_energy(path), np.load(path)
    x = np.random.default_rng(0).integers(0, 2, len(arrays["cost0"]))
    pairs = arrays["tables"][np.arange(len(arrays["i"])), x[arrays["i"]], x[arrays["j"]]].sum()
    assert energy.shape == tuple(arrays["shape"])
    assert energy(x.reshape(energy.shape)) == pytest.approx(np.where(x, arrays["cost1"], arrays["cost0"]).sum() + pairs)
    assert dope.minimize(energy).energy == pytest.approx(float(arrays["best_known"]), abs=0.01)
