"""What every format of energies lives up to. A new one is one writer here, in plain words of its own definition."""

import io
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dope.errors import InputError
from dope.io import ENERGY_FORMATS, read_energy, read_instance
from opengm_files import TABLE
from opengm_files import opengm as opengm_file
from problems import rng_of
from profiles import examples
from test_energies import labellings


def gset(n, edges, weights):
    lines = [f"{i + 1} {j + 1} {w}" for (i, j), w in zip(edges, weights, strict=True)]
    return "\n".join([f"{n} {len(edges)}", *lines, ""]).encode(), lambda x: -_cut(x, edges, weights)


def qubo(n, edges, weights):
    lines = [f"{i} {j} {w}" for (i, j), w in zip(edges, weights, strict=True)]
    return "\n".join([f"p qubo 0 {n} 0 {len(edges)}", *lines, ""]).encode(), lambda x: -_product(x, edges, weights)


def qubo_min(n, edges, weights):
    return qubo(n, edges, weights)[0], lambda x: _product(x, edges, weights)


def uai(n, edges, weights):
    tables = [[2.0**w, 1.0, 1.0, 2.0**w] for w in weights]
    lines = ["MARKOV", str(n), " ".join(["2"] * n), str(len(edges)), *[f"2 {i} {j}" for i, j in edges]]
    lines += [f"\n4\n{' '.join(map(repr, table))}" for table in tables]
    alike = np.log(2.0) * sum(weights)
    return "\n".join([*lines, ""]).encode(), lambda x: np.log(2.0) * _cut(x, edges, weights) - alike


def opengm(n, edges, weights):
    """A table for the unary of each site, and a rule for each pair."""
    costs = [[0.0, k - 1.5] for k in range(n)]
    factors = [(TABLE, k, [k]) for k in range(n)] + [(16006, k, list(edge)) for k, edge in enumerate(edges)]
    content = opengm_file([2] * n, factors, {TABLE: costs, 16006: [[0.0, w] for w in weights]})
    return content, lambda x: float((np.arange(n) - 1.5) @ x) + _cut(x, edges, weights)


def dimacs(n, edges, weights):
    """Of nodes that are on neither terminal's side: source and sink are two more, with no arc."""
    arcs = [(i, j, abs(w)) for (i, j), w in zip(edges, weights, strict=True)]
    lines = [
        f"p max {n + 2} {len(arcs)}",
        f"n {n + 1} s",
        f"n {n + 2} t",
        *[f"a {i + 1} {j + 1} {w}" for i, j, w in arcs],
    ]
    return "\n".join([*lines, ""]).encode(), lambda x: sum(w for i, j, w in arcs if x[i] > x[j])


def npz(n, edges, weights):
    stream, ends = io.BytesIO(), np.array(edges, dtype=np.int64).reshape(-1, 2)
    np.savez(stream, unary=np.arange(n) - 1.5, edges=ends, weights=np.array(weights, dtype=float))
    return stream.getvalue(), lambda x: float((np.arange(n) - 1.5) @ x) + _cut(x, edges, weights)


def npy(n, edges, weights):
    stream, matrix = io.BytesIO(), np.zeros((n, n))
    for (i, j), w in zip(edges, weights, strict=True):
        matrix[min(i, j), max(i, j)] = w
    np.save(stream, matrix)
    return stream.getvalue(), lambda x: _product(x, edges, weights)


def _cut(x, edges, weights):
    return sum(w for (i, j), w in zip(edges, weights, strict=True) if x[i] != x[j])


def _product(x, edges, weights):
    return sum(w * x[i] * x[j] for (i, j), w in zip(edges, weights, strict=True))


# By the names of `dope.io.ENERGY_FORMATS`: the bytes of a file for whole weights of pairs, and what its labels cost.
WRITERS = {
    "gset": gset,
    "qubo": qubo,
    "qubo-min": qubo_min,
    "uai": uai,
    "dimacs": dimacs,
    "opengm": opengm,
    "npz": npz,
    "npy": npy,
}
# Sites beyond those of the problem, and the labels that they have to have.
MORE_SITES = {"dimacs": (1, 0)}
# What begins as another format does has to be asked for.
ASKED_FOR = ["qubo-min"]
PROBLEM = 4, [(0, 1), (2, 1), (3, 0)], [3, -2, 5]

every_format = pytest.mark.parametrize("name", WRITERS)


@st.composite
def problems(draw):
    """A number of sites, edges (each pair once, in either direction), and whole weights."""
    n = draw(st.integers(2, 4))
    rng = rng_of(draw)
    edges = rng.permutation(np.stack(np.triu_indices(n, 1), axis=1))[: draw(st.integers(0, n))]
    flipped = np.where((rng.random(len(edges)) < 0.5)[:, None], edges[:, ::-1], edges)
    return n, [tuple(edge) for edge in flipped.tolist()], rng.integers(-9, 10, len(edges)).tolist()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Writes bytes, and says where."""
    path = tmp_path_factory.mktemp("energies") / "energy"

    def write(content):
        path.write_bytes(content)
        return path

    return write


def read(path, name):
    return read_instance(path, format=name if name in ASKED_FOR else None)


def test_every_format_is_examined():
    assert set(WRITERS) == set(ENERGY_FORMATS)


@every_format
@examples(25)
@given(problem=problems())
def test_labels_cost_what_the_format_says(file, name, problem):
    content, cost = WRITERS[name](*problem)
    instance = read(file(content), name)
    energy = instance.energy
    assert instance.format == ENERGY_FORMATS[name].name
    for x in labellings(problem[0]):
        labels = np.concatenate([x, MORE_SITES.get(name, ())]).astype(bool)
        assert energy(labels) == pytest.approx(cost(x), rel=1e-12, abs=1e-9)
        assert read_energy(file(content), format=name)(labels) == energy(labels)
        if instance.objective is not None:
            assert abs(instance.objective.of(energy(labels))) == pytest.approx(abs(cost(x)), abs=1e-9)


@every_format
def test_what_is_none_is_refused_in_a_line_that_names_the_file(file, name, tmp_path):
    content, _ = WRITERS[name](*PROBLEM)
    path = tmp_path / "energy"
    for wrong in (b"", b"hello, I am a text\n", bytes(500), *(content[: len(content) * k // 8] for k in (1, 2, 4, 7))):
        path.write_bytes(wrong)
        with pytest.raises(InputError) as error:
            read_energy(path, format=name)
        assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)
    for missing, words in ((tmp_path / "none", "no such file"), (tmp_path, "folder")):
        with pytest.raises(InputError, match=words):
            read_energy(missing, format=name)
    for other, writer in WRITERS.items():
        if writer(*PROBLEM)[0] != content:
            with pytest.raises(InputError):
                read_energy(file(writer(*PROBLEM)[0]), format=name)
            assert other != name


@every_format
@examples(60)
@given(data=st.data())
def test_damaged_files_are_read_or_refused_and_nothing_else(file, name, data):
    content = bytearray(WRITERS[name](*PROBLEM)[0])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        kind = data.draw(st.sampled_from(["flip", "cut", "insert", "digit"]))
        if kind == "flip":
            content[place] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "digit":
            content[place] = data.draw(st.sampled_from(b"0123456789-. \ne"))
        elif kind == "insert":
            content[place:place] = data.draw(st.binary(max_size=4))
        else:
            del content[place : place + data.draw(st.integers(1, 20))]
        if not content:
            return
    with suppress(InputError):
        energy = read_energy(file(bytes(content)), format=name)
        assert np.isfinite(energy(np.zeros(energy.shape)))


@every_format
def test_lines_may_end_as_they_like(file, name):
    content, _ = WRITERS[name](*PROBLEM)
    if not content.isascii() or content.startswith(b"PK"):
        return
    plain = read(file(content), name).energy
    labels = np.random.default_rng(0).random((20, plain.unary.size)) < 0.5
    for other in (
        content.replace(b"\n", b"\r\n"),
        content.removesuffix(b"\n"),
        content + b"\n \n",
        content.replace(b" ", b"\t "),
    ):
        found = read(file(other), name).energy
        assert [found(x) for x in labels] == [plain(x) for x in labels]
