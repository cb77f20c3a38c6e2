"""Energies of several labels against plain sums over pairs, and the energies of two labels that come of them."""

import itertools
import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from dope import Energy, InputError, LabelEnergy, MaxFlow, _core
from dope.fixed_point import FixedPoint
from dope.metric import Metric
from dope.pairs import GridPairs
from dope.roof_dual import double_energy
from problems import KERNELS, rng_of, shapes
from profiles import examples

RULES = {
    "potts": lambda a, b: float(a != b),
    "linear": lambda a, b: float(abs(a - b)),
    "quadratic": lambda a, b: float((a - b) ** 2),
    ("linear", 2): lambda a, b: float(min(abs(a - b), 2)),
    ("quadratic", 3.0): lambda a, b: float(min((a - b) ** 2, 3)),
}


def random_table(rng, label_count, *, whole):
    table = rng.integers(-4, 9, (label_count, label_count)) if whole else rng.normal(size=(label_count, label_count))
    table = (table + table.T).astype(float)
    np.fill_diagonal(table, 0.0)
    return table


@st.composite
def label_grids(draw, *, most=24, whole=None):
    """A grid's energy, and its parts as a caller has them: costs, V, a mask or None."""
    shape, rng = draw(shapes(most)), rng_of(draw)
    whole = draw(st.booleans()) if whole is None else whole
    label_count = draw(st.sampled_from([2, 3, 5]))
    costs = rng.integers(-6, 7, (*shape, label_count)) if whole else rng.normal(0, 2, (*shape, label_count))
    arguments = {"kernel": draw(st.sampled_from(KERNELS[len(shape)])), "lam": 2.0 if whole else 0.7}
    metric = draw(st.sampled_from([*RULES, "table"]))
    matrix = random_table(rng, label_count, whole=whole) if metric == "table" else Metric.of(metric, 9).matrix(9)
    kind = draw(st.sampled_from(["potts", "arrays"] + ([] if whole else ["features"])))
    if kind == "arrays":
        number = len(Energy.grid(np.zeros(shape), **arguments).pairs.offsets)
        size = (number, *shape)
        arguments["weights"] = rng.integers(-2, 5, size).astype(float) if whole else rng.uniform(-1, 3, size)
    if kind == "features":
        arguments["features"] = rng.integers(0, 255, shape).astype(np.uint8)
    mask = None
    if draw(st.integers(0, 2)) == 0:
        mask = rng.random(shape) < 0.7
        mask.flat[rng.integers(mask.size)] = True
        costs = costs.astype(float)
        costs[~mask] = np.nan
    axis = draw(st.integers(0, len(shape)))
    energy = LabelEnergy.grid(
        np.moveaxis(costs, -1, axis),
        **arguments,
        mask=mask,
        label_axis=axis,
        metric=matrix if metric == "table" else metric,
    )
    return energy, costs, matrix, mask


@st.composite
def label_graphs(draw, *, most=12):
    n, rng = draw(st.integers(1, most)), rng_of(draw)
    label_count = draw(st.sampled_from([2, 3, 4]))
    edges = rng.integers(0, n, (draw(st.integers(0, 3 * n)), 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    costs = rng.normal(size=(n, label_count))
    if draw(st.booleans()):
        tables = rng.normal(size=(len(edges), label_count, label_count))
        energy = LabelEnergy.from_tables(costs, edges, tables)
    else:
        weights, table = rng.uniform(-1, 3, len(edges)), random_table(rng, label_count, whole=False)
        energy = LabelEnergy.graph(costs, edges, weights, metric=table)
        tables = weights[:, None, None] * table
    return energy, costs, edges, tables


def random_labels(rng, energy):
    return rng.integers(0, energy.label_count, energy.shape).astype(energy.label_type)


def plain_energy(energy, costs, matrix, mask, labels):
    """The sum over sites and pairs, one at a time, of weights that `Energy.grid` is tested for."""
    x, flat = labels.ravel(), costs.reshape(-1, costs.shape[-1])
    inside = np.ones(x.size, bool) if mask is None else mask.ravel()
    total = sum((Fraction(float(flat[i, x[i]])) for i in np.flatnonzero(inside)), Fraction(0))
    for i, j, w in zip(*energy.pairs.edges(), strict=True):
        total += Fraction(w) * Fraction(matrix[x[i], x[j]])
    return float(total)


@examples(60)
@given(label_grids(), st.integers(0, 2**32 - 1))
def test_the_energy_of_a_grid_is_the_sum_of_its_parts(problem, seed):
    energy, costs, matrix, mask = problem
    labels = random_labels(np.random.default_rng(seed), energy)
    assert energy(labels) == pytest.approx(plain_energy(energy, costs, matrix, mask, labels), abs=1e-9)


@examples(60)
@given(label_graphs(), st.integers(0, 2**32 - 1))
def test_the_energy_of_a_graph_is_the_sum_of_its_parts(problem, seed):
    energy, costs, edges, tables = problem
    x = random_labels(np.random.default_rng(seed), energy)
    expected = sum(costs[i, x[i]] for i in range(len(x)))
    expected += sum(table[x[i], x[j]] for (i, j), table in zip(edges, tables, strict=True))
    assert energy(x) == pytest.approx(expected, abs=1e-9)


@examples(100)
@given(st.one_of(label_grids(), label_graphs()), st.sampled_from(["expansion", "swap", "fusion"]), st.data())
def test_a_fusion_has_the_energy_of_the_labels_that_are_chosen(problem, move, data):
    energy = problem[0]
    rng = rng_of(data.draw)
    x, p = random_labels(rng, energy), random_labels(rng, energy)
    a, b = rng.integers(0, energy.label_count, 2)
    if move == "expansion":
        p = np.full_like(x, a)
    elif move == "swap":
        p = np.where(x == a, b, np.where(x == b, a, x)).astype(x.dtype)
    fusion = energy.fusion(x, int(a) if move == "expansion" else p)
    moving = x != p
    mask = energy.pairs.inside if isinstance(energy.pairs, GridPairs) else None
    moving &= True if mask is None else mask
    for _ in range(4):
        y = (rng.random(x.shape) < 0.5) & moving
        assert fusion(y) == pytest.approx(energy(np.where(y, p, x)), abs=1e-8)
    weights = fusion.pairs.edges()[2]
    assert fusion.pairs.lowest <= weights.min(initial=0.0)
    assert weights.max(initial=0.0) <= fusion.pairs.largest
    # Sites without a choice keep their label, whatever the others do.
    assert (fusion.unary[~moving] > 0).all()


@examples(60)
@given(label_grids(whole=True), st.data())
def test_a_fusion_of_integers_is_exact(problem, data):
    energy, rng = problem[0], rng_of(data.draw)
    x, p = random_labels(rng, energy), random_labels(rng, energy)
    fusion = energy.fusion(x, p)
    y = (rng.random(x.shape) < 0.5) & (x != p) & (True if energy.pairs.inside is None else energy.pairs.inside)
    assert fusion.exactly(y) == energy.exactly(np.where(y, p, x))
    places = fusion.pairs.binary_places()
    assert places is not None
    weights = fusion.pairs.edges()[2] * 2.0**places
    assert (weights == np.rint(weights)).all()
    assert FixedPoint.of(fusion).error == 0.0


@examples(40)
@given(label_grids(), st.data())
def test_the_core_weighs_a_move_as_numpy_does(problem, data):
    energy, rng = problem[0], rng_of(data.draw)
    x, p = random_labels(rng, energy), random_labels(rng, energy)
    pairs = energy.fusion(x, p).pairs
    for part in (pairs, pairs.attractive, pairs.repulsive):
        native = part.native()
        for k, m in enumerate(np.flatnonzero(part.fits)):
            whole = native.weights(k)
            tails = np.unravel_index(np.arange(part.sites), part.shape)
            heads = [t + o for t, o in zip(tails, part.offsets[m], strict=True)]
            there = np.all([(h >= 0) & (h < n) for h, n in zip(heads, part.shape, strict=True)], axis=0)
            listed = part.weights_at(int(m), tuple(t[there] for t in tails))
            np.testing.assert_allclose(whole.ravel()[there], listed, rtol=1e-12, atol=1e-15)
    for w, w_plus, w_minus in [(one.total() for one in (pairs, pairs.attractive, pairs.repulsive))]:
        assert float(w) == pytest.approx(float(w_plus - w_minus), abs=1e-9)


@examples(30)
@given(label_grids(most=8), st.data())
def test_the_roof_dual_of_a_move_has_twice_its_energy(problem, data):
    energy, rng = problem[0], rng_of(data.draw)
    fusion = energy.fusion(random_labels(rng, energy), random_labels(rng, energy))
    y = rng.random(fusion.shape) < 0.5
    both = np.stack([y, ~y]).reshape(-1).reshape(double_energy(fusion).shape)
    assert double_energy(fusion)(both) == pytest.approx(2 * fusion(y), abs=1e-7)


@examples(30)
@given(label_grids(), st.data())
def test_a_box_of_a_move_is_the_move_of_a_box(problem, data):
    energy, rng = problem[0], rng_of(data.draw)
    x, p = random_labels(rng, energy), random_labels(rng, energy)
    ends = [sorted(rng.integers(0, n + 1, 2)) for n in energy.shape]
    box = tuple(slice(int(low), max(int(low) + 1, int(high))) for low, high in ends)
    box = tuple(slice(min(s.start, n - 1), max(1, min(s.stop, n))) for s, n in zip(box, energy.shape, strict=True))
    part, here = energy.fusion(x, p).at(box), energy.at(box).fusion(x[box], p[box])
    for one, other in zip(part.pairs.edges(), here.pairs.edges(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("label_count", [2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_a_label_that_is_proved_is_in_a_minimizer(label_count, seed):
    rng = np.random.default_rng(seed)
    shape = (2, 3) if seed % 2 else (5,)
    costs = rng.integers(0, 5, (*shape, label_count))
    features = rng.normal(size=shape) if seed % 3 == 0 else None
    energy = LabelEnergy.grid(costs, lam=1.0, features=features)
    found = [
        (energy.exactly(np.reshape(x, shape)), x)
        for x in itertools.product(range(label_count), repeat=costs[..., 0].size)
    ]
    least = min(value for value, _ in found)
    best = np.array([x for value, x in found if value == least]).reshape(-1, *shape)
    proved = np.zeros(shape, dtype=bool)
    everywhere = np.ones(len(best), dtype=bool)
    for a in range(label_count):
        sites = MaxFlow().prepare(energy.against(a)).minimize(energy.against(a).unary).labels
        proved |= sites
        everywhere &= (best[:, sites] == a).all(axis=1)
    assert everywhere.any()  # all that is proved, together, in one minimizer
    assert proved.any()


def test_expansions_reach_a_minimum_that_no_expansion_improves():
    rng = np.random.default_rng(3)
    energy = LabelEnergy.grid(rng.normal(size=(3, 3, 3)), lam=0.3, metric=("linear", 2))
    labels = np.zeros((3, 3), dtype=np.uint8)
    for a in [*range(3)] * 4:
        move = energy.fusion(labels, a)
        assert move.submodular
        y = MaxFlow().prepare(move).minimize(move.unary).labels
        after = np.where(y, a, labels)
        assert energy(after) <= energy(labels) + 1e-9
        labels = after
    alternatives = (
        np.where(np.reshape(y, (3, 3)), a, labels) for a in range(3) for y in itertools.product([0, 1], repeat=9)
    )
    assert energy(labels) == pytest.approx(min(map(energy, alternatives)), abs=1e-9)


@examples(40)
@given(st.data())
def test_two_labels_are_an_energy(data):
    shape, rng = data.draw(shapes()), rng_of(data.draw)
    costs, features = rng.normal(size=(*shape, 2)), rng.normal(size=shape)
    mask = None if rng.random() < 0.5 else rng.random(shape) < 0.8
    if mask is not None:
        mask.flat[0] = True
    several = LabelEnergy.grid(costs, features=features, mask=mask, lam=0.8)
    two = Energy.grid(costs[..., 1] - costs[..., 0], features=features, mask=mask, lam=0.8)
    first = float(costs[..., 0].sum() if mask is None else costs[mask, 0].sum())
    y = (rng.random(shape) < 0.5) & (True if mask is None else mask)
    assert several(y) == pytest.approx(first + two(y), abs=1e-9)
    np.testing.assert_allclose(several.against(1).unary, two.unary, atol=1e-12)
    for one, other in zip(several.against(1).pairs.edges(), two.pairs.edges(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_labels_beyond_a_byte():
    rng = np.random.default_rng(0)
    energy = LabelEnergy.grid(rng.normal(size=(4, 5, 300)).astype(np.float32), metric="linear", kernel=5)
    assert energy.label_type == np.uint16
    x, p = random_labels(rng, energy), random_labels(rng, energy)
    x[0, 0], p[0, 1] = 299, 299
    y = (rng.random(x.shape) < 0.5) & (x != p)
    assert energy.fusion(x, p)(y) == pytest.approx(energy(np.where(y, p, x)))
    assert energy.fusion(x, 299).pairs.lowest == 0.0
    assert energy.fusion(x, p).pairs.lowest < 0.0


def test_many_different_changes_are_bounded_all_the_same():
    rng = np.random.default_rng(0)
    energy = LabelEnergy.grid(np.zeros((60, 60, 64)), metric="linear")
    x, p = random_labels(rng, energy), random_labels(rng, energy)
    pairs = energy.fusion(x, p).pairs
    assert pairs.fused.low == -63.0
    weights = pairs.edges()[2]
    assert pairs.lowest <= weights.min()
    assert weights.max() <= pairs.largest
    assert pairs.binary_places() == 1


def test_distances_that_are_rounded_are_a_metric():
    # 0.1 + 0.7 is a last bit less than 0.8.
    places = np.array([0.0, 0.1, 0.8])
    table = np.abs(places[:, None] - places)
    table[0, 2] = table[2, 0] = 0.8
    table[1, 2] = table[2, 1] = 0.7
    assert table[0, 1] + table[1, 2] < table[0, 2]
    energy = LabelEnergy.grid(np.zeros((3, 3, 3)), metric=table)
    assert energy.metric.is_metric
    assert energy.is_metric
    for a in range(3):
        assert energy.fusion(np.arange(9).reshape(3, 3) % 3, a).submodular


@pytest.mark.parametrize("metric", RULES)
def test_a_metric_is_its_rule(metric):
    rule = Metric.of(metric, 6)
    matrix = rule.matrix(6)
    assert all(matrix[a, b] == RULES[metric](a, b) for a in range(6) for b in range(6))
    broken = [
        (a, b, c) for a, b, c in itertools.product(range(6), repeat=3) if matrix[a, c] > matrix[a, b] + matrix[b, c]
    ]
    assert rule.is_metric == (not broken)
    assert rule.is_semimetric
    triple = rule.broken_triple(6)
    assert triple in broken if broken else triple is None


def test_a_table_tells_whether_it_is_a_metric():
    costs = np.zeros((2, 3))
    costly = LabelEnergy.graph(costs, [[0, 1]], [1.0], metric=[[0, 1, 5], [1, 0, 1], [5, 1, 0]])
    assert not costly.is_metric
    assert costly.is_semimetric
    assert costly.metric.broken_triple(3) == (0, 1, 2)
    negative = LabelEnergy.graph(costs, [[0, 1]], [1.0], metric=[[0, -1, 1], [-1, 0, 1], [1, 1, 0]])
    assert not negative.is_metric
    assert not negative.is_semimetric
    repulsive = LabelEnergy.graph(costs, [[0, 1]], [-1.0])
    assert repulsive.metric.is_metric
    assert not repulsive.is_metric
    tables = LabelEnergy.from_tables(costs, [[0, 1], [1, 0]], [np.ones((3, 3)) - np.eye(3)] * 2)
    assert tables.is_metric
    assert tables.is_semimetric
    assert not LabelEnergy.from_tables(costs, [[0, 1]], [np.eye(3)]).is_semimetric


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.float16, np.float32, bool])
def test_costs_of_any_real_type_stay_as_they_are(dtype):
    costs = np.random.default_rng(0).integers(0, 2, (3, 4, 3)).astype(dtype)
    energy = LabelEnergy.grid(costs)
    assert energy.costs.dtype == dtype
    labels = np.argmin(costs, axis=-1)
    paid = np.take_along_axis(costs.astype(float), labels[..., None], -1).sum()
    assert energy(labels) == paid + LabelEnergy.grid(np.zeros((3, 4, 3)))(labels)
    assert energy.against(0).unary.tolist() == LabelEnergy.grid(costs.astype(float)).against(0).unary.tolist()
    assert (
        energy.fusion(labels, 1).unary.tolist()
        == LabelEnergy.grid(costs.astype(float)).fusion(labels, 1).unary.tolist()
    )


def stored_ways(tmp_path, costs):
    kept = zarr.create_array(str(tmp_path / "costs.zarr"), shape=costs.shape, chunks=(2, 3, 2), dtype=costs.dtype)
    kept[:] = costs
    np.save(tmp_path / "costs.npy", costs)
    return [kept, np.load(tmp_path / "costs.npy", mmap_mode="r")]


def test_costs_that_are_not_in_memory_are_read_by_box(tmp_path):
    rng = np.random.default_rng(0)
    costs, features = rng.normal(size=(3, 7, 6)).astype(np.float32), rng.normal(size=(7, 6))
    mask = rng.random((7, 6)) < 0.8
    held = LabelEnergy.grid(costs, label_axis=0, features=features, beta=0.5, mask=mask)
    x, box = rng.integers(0, 3, (7, 6)), (slice(1, 6), slice(0, 4))
    for way in stored_ways(tmp_path, costs):
        energy = LabelEnergy.grid(way, label_axis=0, features=features, beta=0.5, mask=mask)
        assert not energy.in_memory
        assert energy.label_count == 3
        assert energy(x) == held(x)
        assert energy.at(box)(x[box]) == held.at(box)(x[box])
        assert energy.read().in_memory
        assert energy.read()(x) == held(x)
        sent = pickle.loads(pickle.dumps(energy.confined_to(box)))
        assert sent.at(box)(x[box]) == held.at(box)(x[box])
        prices = energy.against(1)
        assert not prices.in_memory
        np.testing.assert_array_equal(prices.read().unary, held.against(1).unary)
        np.testing.assert_array_equal(
            prices.confined_to(box).at(box).unary[mask[box]], held.against(1).at(box).unary[mask[box]]
        )
        with pytest.raises(InputError, match="call at"):
            energy.fusion(x, 0)


@examples(20)
@given(st.one_of(label_grids(), label_graphs()), st.integers(0, 2**32 - 1))
def test_an_energy_and_a_move_survive_pickling(problem, seed):
    energy, rng = problem[0], np.random.default_rng(seed)
    x, p = random_labels(rng, energy), random_labels(rng, energy)
    again, move = pickle.loads(pickle.dumps((energy, energy.fusion(x, p))))
    assert again.exactly(x) == energy.exactly(x)
    y = rng.random(x.shape) < 0.5
    assert move.exactly(y) == energy.fusion(x, p).exactly(y)


def test_a_known_energy_is_not_computed_again():
    energy = LabelEnergy.grid(np.zeros((2, 2, 3)))
    assert energy.fusion(np.zeros((2, 2)), 1, before=5.0).constant == 5.0
    assert replace(energy, constant=2.0)(np.zeros((2, 2))) == 2.0


SQUARE = np.zeros((4, 5, 3))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LabelEnergy.grid(np.zeros((4, 5, 1))), "1 of them; expected 2 to 1024"),
        (lambda: LabelEnergy.grid(np.zeros((4, 1025))), "1025 of them; expected 2 to 1024"),
        (lambda: LabelEnergy.grid(np.zeros(5)), "expected axes of sites and one of labels"),
        (lambda: LabelEnergy.grid(np.zeros((0, 5, 3))), "expected at least one site"),
        (lambda: LabelEnergy.grid(SQUARE, label_axis=3), "label_axis is 3; expected an axis"),
        (lambda: LabelEnergy.grid(SQUARE, label_axis="x"), "label_axis is 'x'"),
        (lambda: LabelEnergy.grid(np.zeros((3, 4, 5)), mask=np.ones((4, 5))), "mask .*: label_axis=0 would fit"),
        (lambda: LabelEnergy.grid(np.zeros((3, 4, 5)), features=np.ones((4, 5, 2))), "features .*: label_axis=0 would"),
        (lambda: LabelEnergy.grid(SQUARE, mask=np.ones((4, 6))), "no label_axis would fit"),
        (lambda: LabelEnergy.grid(np.where(np.arange(60).reshape(20, 3) == 31, np.nan, 0)), r"1 holds nan at \(10"),
        (lambda: LabelEnergy.grid(np.full((4, 5, 3), np.inf)), r"inf at \(0, 0\)"),
        (lambda: LabelEnergy.grid(np.full((4, 3), 2**60)), "beyond 2\\^53"),
        (lambda: LabelEnergy.grid(np.zeros((4, 3), complex)), "expected real numbers"),
        (lambda: LabelEnergy.grid(SQUARE, metric=np.zeros((2, 2))), r"metric has shape \(2, 2\); expected \(3, 3\)"),
        (lambda: LabelEnergy.grid(SQUARE, metric=-np.eye(3)), r"metric has -1.0 at \(0, 0\); expected 0"),
        (lambda: LabelEnergy.grid(SQUARE, metric=np.triu(np.ones((3, 3)), 1)), "expected the same, as pairs have no"),
        (lambda: LabelEnergy.grid(SQUARE, metric=np.full((3, 3), np.nan)), "metric holds nan"),
        (lambda: LabelEnergy.grid(SQUARE, lam=1e308, metric="quadratic"), "adds up beyond float64"),
        (lambda: LabelEnergy.grid(SQUARE).fusion(np.zeros((4, 5)), np.zeros(5)), r"the shape of proposal is \(5,\)"),
        (lambda: LabelEnergy.grid(SQUARE, metric="cubic"), "metric is 'cubic'; expected \"potts\""),
        (lambda: LabelEnergy.grid(SQUARE, metric=("linear", 0)), "limit of the metric is 0; expected a number above 0"),
        (lambda: LabelEnergy.grid(SQUARE, metric=3), "metric is 3; expected"),
        (lambda: LabelEnergy.graph(SQUARE, [[0, 1]], [1.0]), r"expected \(n, L\)"),
        (lambda: LabelEnergy.graph(SQUARE[0], [[0, 9]], [1.0]), "expected sites from 0 to 4"),
        (lambda: LabelEnergy.from_tables(SQUARE[0], [[0, 1]], np.zeros((1, 2, 2))), r"\(1, 3, 3\)"),
        (lambda: LabelEnergy.from_tables(SQUARE[0], [[1, 1]], np.zeros((1, 3, 3))), "joins site 1 with itself"),
        (lambda: LabelEnergy.grid(SQUARE)(np.full((4, 5), 3)), "there is 3 in .*; expected the numbers of"),
        (lambda: LabelEnergy.grid(SQUARE)(np.zeros((4, 4))), r"the shape of labels is \(4, 4\)"),
        (lambda: LabelEnergy.grid(SQUARE).fusion(np.zeros((4, 5)), 3), "there is 3 in proposal"),
        (lambda: LabelEnergy.grid(SQUARE).against(3), "label is 3; expected one of 0 to 2"),
        (lambda: LabelEnergy.grid(SQUARE, metric="linear").against(0), "expected potts"),
        (lambda: LabelEnergy.graph(SQUARE[0], [[0, 1]], [1.0]).at((slice(0, 1),)), "expected one of a grid"),
    ],
)  # fmt: skip
def test_what_cannot_be_worked_with_is_refused_in_a_line(make, words):
    with pytest.raises(InputError, match=words) as refused:
        make()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": np.full((2, 3), 4, np.uint8)}, "labels has 4: expected labels below 4"),
        ({"proposal": np.full((2, 3), 9, np.uint8)}, "proposal has 9: expected labels below 4"),
        ({"proposal": np.zeros((2, 3), np.uint16)}, "different types"),
        ({"labels": np.zeros((2, 3), np.int64)}, "expected uint8 or uint16"),
        ({"labels": np.zeros((3, 2), np.uint8)}, r"expected \(2, 3\)"),
        ({"costs": np.zeros((4, 3))}, "costs has shape"),
        ({"signs": np.zeros(2, np.int8)}, "signs has shape"),
    ],
)
def test_the_core_refuses_labels_that_its_table_does_not_hold(change, words):
    good = {"labels": np.zeros((2, 3), np.uint8), "proposal": np.full((2, 3), 3, np.uint8), "costs": np.zeros((4, 4))}
    _core.GridWeights((2, 3), np.array([[0, 1]]), np.ones(1), **good)
    with pytest.raises((ValueError, TypeError), match=words):
        _core.GridWeights((2, 3), np.array([[0, 1]]), np.ones(1), **(good | change))
