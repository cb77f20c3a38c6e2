"""Exact: the smallest minimiser and nothing else, whatever the blocks, the way to it and the executor."""

import itertools
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope import Admm, Energy, Exact, Icm, InputError, MaxFlow, Partition, Serial, Threads
from dope.rounding import rounded_down
from oracles import brute_force, edge_weight_matrix
from problems import energies, partitions, rng_of
from profiles import examples

FOUR = [(0, 1), (1, 0)]
KERNELS = {1: [3, 5, 7], 2: [3, 5, 7, FOUR, [(0, 1), (-1, 0), (1, -2)]], 3: [3, 5, [(0, 0, 1), (0, 1, 0), (1, 0, 0)]]}
SIDES = {1: 120, 2: 16, 3: 7}


def exact_methods():
    return st.builds(Exact, rounds=st.one_of(st.none(), st.integers(0, 10)), merge=st.booleans())


@st.composite
def larger_grids(draw):
    """Grids of several hundred sites with every kind of unary."""
    dimension = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, SIDES[dimension])) for _ in range(dimension))
    rng = rng_of(draw)
    kind = draw(st.sampled_from(["integers", "floats", "ties", "sparse", "none", "certain"]))
    unary = {
        "integers": rng.integers(-9, 10, shape).astype(float),
        "floats": rng.normal(0, 2, shape),
        "ties": rng.choice([-1.0, 0.0, 1.0], shape),
        "sparse": np.where(rng.random(shape) < 0.05, rng.choice([-40.0, 40.0], shape), 0.0),
        "none": np.zeros(shape),
        "certain": np.where(rng.random(shape) < 0.1, rng.choice([-1e6, 1e6], shape), rng.integers(-3, 4, shape)),
    }[kind]
    kernel = draw(st.sampled_from(KERNELS[dimension]))
    lam = draw(st.sampled_from([1.0, 2.0, 5.0]))
    if draw(st.booleans()):
        return Energy.grid(unary, lam=lam / 4, kernel=kernel, features=rng.normal(size=shape), beta=0.5)
    return Energy.grid(unary, lam=lam, kernel=kernel)


@st.composite
def grid_cuts(draw, shape):
    """Blocks between cuts anywhere, some of them narrower than a kernel reaches, down to a site."""
    cuts = []
    for length in shape:
        places = draw(st.sets(st.integers(1, length - 1), max_size=4)) if length > 1 else set()
        cuts.append(sorted(places))
    return Partition.at(shape, cuts)


def one_block(energy, bits=None):
    """What the block solver, which knows no blocks, finds."""
    return MaxFlow(bits).prepare(energy).minimize(energy.unary)


def require_minimum(result, energy, bits=None):
    """The smallest minimiser of the integer energy, to the bit, and proved."""
    whole = one_block(energy, bits)
    np.testing.assert_array_equal(result.labels, whole.labels)
    assert result.exact
    assert result.stopped == "exact"
    assert result.proved == 1.0
    assert result.rounding_error == whole.rounding_error
    assert result.energy == energy(whole.labels)
    assert (
        rounded_down(energy.exactly(result.labels) - Fraction(result.rounding_error))
        <= result.lower_bound
        <= result.energy
    )
    assert result.rounding_error or result.gap == 0.0
    assert result.trace[-1].exact and result.trace[-1].disagreeing == 0


@given(energy=energies(most=12, integers=True), data=st.data(), method=exact_methods())
@examples(150)
def test_the_minimum_is_that_of_brute_force_and_its_labels_the_smallest(energy, data, method):
    partition = data.draw(partitions(energy, overlaps=False))
    best, smallest, _ = brute_force(energy.unary, edge_weight_matrix(energy))
    result = dope.minimize(energy, blocks=partition, method=method, executor=Serial())
    assert result.energy == best == result.lower_bound
    assert result.exact and result.gap == 0.0
    np.testing.assert_array_equal(result.labels.ravel(), smallest)


@given(energy=energies(most=10, integers=False), data=st.data(), method=exact_methods())
@examples(60)
def test_rounded_costs_end_within_their_rounding_of_brute_force(energy, data, method):
    partition = data.draw(partitions(energy, overlaps=False))
    best, _, _ = brute_force(energy.unary, edge_weight_matrix(energy))
    result = dope.minimize(energy, blocks=partition, method=method, executor=Serial())
    slack = 1e-9 * (1 + abs(best))
    assert result.lower_bound - slack <= best <= result.energy + slack
    assert result.energy <= best + result.rounding_error + slack


@given(energy=larger_grids(), data=st.data(), method=exact_methods(), bits=st.sampled_from([None, 16, 32, 64]))
@examples(120)
def test_blocks_of_any_shape_give_what_one_block_gives(energy, data, method, bits):
    partition = data.draw(grid_cuts(energy.shape))
    executor = data.draw(st.sampled_from([Serial(), Threads(3)]))
    result = dope.minimize(energy, blocks=partition, method=method, solver=MaxFlow(bits), executor=executor)
    require_minimum(result, energy, bits)


@given(seed=st.integers(0, 2**32 - 1), blocks=st.integers(1, 20), method=exact_methods())
@examples(60)
def test_blocks_of_a_graph_give_what_one_block_gives(seed, blocks, method):
    rng = np.random.default_rng(seed)
    sites = int(rng.integers(20, 150))
    edges = rng.integers(0, sites, (int(rng.integers(0, 4 * sites)), 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    unary = rng.choice([-8, -1, 0, 0, 1, 8], sites)
    energy = Energy.graph(unary, edges, rng.integers(0, 6, len(edges)))
    require_minimum(dope.minimize(energy, blocks=blocks, method=method, executor=Serial()), energy)


def picture(side, *, seed=0, lam=40.0, kernel=3):
    """A noisy disc with contrast: integer unaries, float pairs."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side] - side / 2
    clean = np.hypot(x, 1.4 * y) < side / 3
    image = np.clip(clean * 90 + 80 + rng.normal(0, 40, clean.shape), 0, 255).astype(np.uint8)
    return Energy.grid(125.0 - image, lam=lam, kernel=kernel, features=image)


@pytest.mark.parametrize("merge", [True, False], ids=["merge", "discharge"])
@pytest.mark.parametrize("kernel", [3, pytest.param(7, marks=pytest.mark.slow)])
def test_any_number_of_blocks_gives_the_same_labels(kernel, merge):
    energy = picture(96, kernel=kernel, lam=60.0 if kernel == 3 else 8.0)
    assert 0.05 < one_block(energy, 64).labels.mean() < 0.95
    for blocks in (1, 2, 8, 32, 128, 512):
        require_minimum(dope.minimize(energy, blocks=blocks, method=Exact(merge=merge)), energy, 64)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_any_width_and_number_of_rounds_gives_what_one_block_gives(bits):
    energy = picture(48)
    for rounds, merge in itertools.product(range(11), (True, False)):
        method = Exact(rounds=rounds, merge=merge)
        result = dope.minimize(energy, blocks=16, method=method, solver=MaxFlow(bits), executor=Serial())
        require_minimum(result, energy, bits)


def test_every_executor_takes_the_same_way():
    energy = picture(64, lam=90.0)
    for method in (Exact(), Exact(rounds=2), Exact(rounds=2, merge=False), Exact(bracket=True)):
        runs = [
            dope.minimize(energy, blocks=30, method=method, executor=executor)
            for executor in (Serial(), Threads(1), Threads(2), Threads(5))
        ]
        assert len(runs[0].trace) > 2
        for other in runs[1:]:
            np.testing.assert_array_equal(other.labels, runs[0].labels)
            for name in ("energy", "lower_bound", "disagreeing", "groups", "proved", "stopped"):
                assert [getattr(s, name) for s in other.trace] == [getattr(s, name) for s in runs[0].trace], name


# Energies that are hard on blocks.


def checkerboard(shape, strength=3.0):
    return strength * (1.0 - 2.0 * (np.indices(shape).sum(axis=0) % 2))


def thin_object(shape):
    """A line of foreground from end to end, one site wide; everywhere else a weak wish for background."""
    unary = np.ones(shape)
    for row in range(shape[0]):
        unary[row, (row * 7 // 5) % shape[1]] = -9.0
    return unary


def spiral(side):
    """A corridor that winds to the middle: a source at one end, a sink at the other; weights across its walls are 0."""
    free = np.zeros((side, side), bool)
    path, position, direction = [(0, 0)], np.array([0, 0]), np.array([0, 1])
    free[0, 0] = True
    while True:
        for turn in (np.eye(2, dtype=int), np.array([[0, 1], [-1, 0]])):
            step = turn @ direction
            ahead, beyond = position + step, position + 2 * step
            inside = (ahead >= 0).all() and (ahead < side).all()
            touches = (beyond >= 0).all() and (beyond < side).all() and free[tuple(beyond)]
            if inside and not free[tuple(ahead)] and not touches:
                break
        else:
            break
        position, direction = ahead, step
        free[tuple(position)] = True
        path.append(tuple(position))
    weights = [np.zeros((side, side)), np.zeros((side, side))]
    for p, q in itertools.pairwise(path):
        axis = 0 if p[0] == q[0] else 1
        weights[axis][min(p, q)] = 9.0
    return path, weights


def spiral_energy(side, supply, demand):
    path, weights = spiral(side)
    assert len(path) > 3 * side
    unary = np.zeros((side, side))
    unary[path[0]], unary[path[-1]] = -supply, demand
    return Energy.grid(unary, kernel=FOUR, weights=weights)


def rising_chain(number):
    """Every pair a little stronger than the last, and the wishes at the far ends: each block wants to hand on more."""
    unary = np.zeros(number)
    unary[0], unary[-1] = -(number + 5.0), number + 3.0
    return Energy.grid(unary, kernel=[(1,)], weights=[np.arange(1.0, number + 1)])


ADVERSARIES = {
    "checkerboard": Energy.grid(checkerboard((24, 24)), lam=1.0),
    "checkerboard, wide kernel": Energy.grid(checkerboard((20, 20)), lam=0.25, kernel=7),
    "checkerboard in 3D": Energy.grid(checkerboard((8, 8, 8)), lam=1.0, kernel=[(0, 0, 1), (0, 1, 0), (1, 0, 0)]),
    "checkerboard of equals": Energy.grid(checkerboard((24, 24), 1.0), lam=1.0, kernel=FOUR),
    "nothing": Energy.grid(np.zeros((24, 24)), lam=1.0),
    "nothing in 3D": Energy.grid(np.zeros((7, 6, 5)), lam=1.0, kernel=3),
    "no weights": Energy.grid(checkerboard((12, 12)), lam=0.0),
    "thin object": Energy.grid(thin_object((40, 24)), lam=1.0),
    "one source, one sink": Energy.grid(np.pad([[-30.0] + [0.0] * 20 + [30.0]], 2), lam=2.0),
    "spiral, more supply": spiral_energy(20, 30.0, 7.0),
    "spiral, more demand": spiral_energy(20, 7.0, 30.0),
    "spiral, as much": spiral_energy(20, 7.0, 7.0),
    "rising chain": rising_chain(60),
    "falling chain": Energy.grid(rising_chain(60).unary, kernel=[(1,)], weights=[np.arange(60.0, 0.0, -1)]),
    "certain at the ends": Energy.grid(np.pad(np.zeros((14, 14)), 1, constant_values=1e9) - 1.0, lam=3.0),
}


@pytest.mark.parametrize("merge", [True, False], ids=["merge", "discharge"])
@pytest.mark.parametrize("name", ADVERSARIES)
@pytest.mark.parametrize("parts", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_adversaries_end_exactly(name, merge, parts):
    energy = ADVERSARIES[name]
    layout = tuple(min(n, parts) for n in energy.shape)
    for rounds in (0, 3, None):
        method = Exact(rounds=rounds, merge=merge)
        result = dope.minimize(energy, blocks=layout, method=method, executor=Serial())
        require_minimum(result, energy)
        assert dope.verify(energy, result.labels, result.certificate).exact


@pytest.mark.parametrize("merge", [True, False], ids=["merge", "discharge"])
@pytest.mark.parametrize(
    ("shape", "kernel"), [((6, 7), 3), ((6, 7), 7), ((40,), 7), ((3, 4, 3), 3), ((3, 4, 3), 5), ((1, 9), 5)]
)
def test_blocks_of_one_site_end_exactly(shape, kernel, merge):
    rng = np.random.default_rng(0)
    for _ in range(4):
        energy = Energy.grid(rng.integers(-9, 10, shape), lam=1.0, kernel=kernel)
        result = dope.minimize(energy, blocks=shape, method=Exact(merge=merge), executor=Serial())
        assert len(result.partition.blocks) == energy.unary.size
        require_minimum(result, energy)


@pytest.mark.parametrize("huge", [1e12, 1e30, 1e300])
@pytest.mark.parametrize("merge", [True, False], ids=["merge", "discharge"])
def test_certain_sites_do_not_trip_it(huge, merge):
    rng = np.random.default_rng(1)
    unary = rng.normal(size=(16, 16))
    unary[2:5, 2:5], unary[11:14, 11:14] = -huge, huge
    energy = Energy.grid(unary, lam=0.5)
    result = dope.minimize(energy, blocks=9, method=Exact(merge=merge), executor=Serial())
    np.testing.assert_array_equal(result.labels, one_block(energy, 64).labels)
    assert result.exact
    assert result.labels[2:5, 2:5].all() and not result.labels[11:14, 11:14].any()
    if result.certificate is not None:
        assert dope.verify(energy, result.labels, result.certificate).energy == result.energy


# What it is chosen for, and what it refuses.

UNARY = np.array([[1.0, -2.0, 3.0, -1.0], [-3.0, 2.0, -1.0, 2.0]])


def test_minimize_chooses_exact_where_flows_find_the_minimum():
    energy = Energy.grid(UNARY)
    chosen = [
        dope.minimize(energy, blocks=2),
        dope.minimize(energy),
        dope.minimize(energy, blocks=2, solver=MaxFlow(32)),
        dope.minimize(Energy.grid(UNARY, lam=0.0), blocks=2),
    ]
    assert all(result.stopped == "exact" and result.certificate is not None for result in chosen)


class ThroughMaxFlow:
    """A solver of one's own that counts no flows."""

    def prepare(self, energy):
        return MaxFlow().prepare(energy)


@pytest.mark.parametrize(
    ("energy", "arguments"),
    [
        (Energy.grid(UNARY, weights=-1.0), {}),
        (Energy.grid(UNARY), {"overlap": 1}),
        (Energy.grid(UNARY), {"solver": Icm()}),
        (Energy.grid(UNARY), {"solver": ThroughMaxFlow()}),
    ],
    ids=["negative weights", "overlap", "Icm", "somebody's solver"],
)
def test_minimize_chooses_admm_otherwise_and_exact_refuses(energy, arguments):
    chosen = dope.minimize(energy, blocks=2, **arguments)
    method = Admm() if energy.submodular else Admm(rounds=1)
    admm = dope.minimize(energy, blocks=2, method=method, **arguments)
    assert chosen.stopped == admm.stopped != "exact"
    assert [step.mu for step in chosen.trace] == [step.mu for step in admm.trace]
    np.testing.assert_array_equal(chosen.labels, admm.labels)
    with pytest.raises(InputError):
        dope.minimize(energy, blocks=2, method=Exact(), **arguments)


@pytest.mark.parametrize(
    ("energy", "arguments", "words"),
    [
        ({"weights": -2.0}, {"solver": MaxFlow()}, ["-2", "0 or more", "Admm"]),
        ({"weights": -2.0}, {}, ["-2", "0 or more", "Admm"]),
        ({}, {"overlap": 2}, ["overlap", "Leave overlap out"]),
        ({}, {"overlap": 0.2}, ["overlap", "Leave overlap out"]),
        ({}, {"solver": Icm()}, ["Icm", "MaxFlow()"]),
    ],
)
def test_what_it_cannot_do_is_refused_at_once(energy, arguments, words):
    large = Energy.grid(np.ones((1500, 1500)), kernel=FOUR, **energy)
    begun = time.thread_time()  # which stands still while the machine is busy with other things
    with pytest.raises(InputError) as error:
        dope.minimize(large, blocks=4, method=Exact(), **arguments)
    assert time.thread_time() - begun < 1.0
    assert all(word in str(error.value) for word in words), str(error.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"tolerance": -1e-9},
        {"tolerance": np.nan},
        {"tolerance": np.inf},
        {"tolerance": "x"},
        {"tolerance": None},
        {"tolerance": True},
        {"rounds": -1},
        {"rounds": 2.0},
        {"rounds": "3"},
        {"rounds": True},
        {"merge": None},
        {"merge": 1},
        {"merge": "no"},
        {"bracket": 0},
        {"bracket": None},
    ],
)
def test_bad_settings_are_refused(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        Exact(**settings)


def test_a_partition_of_overlapping_blocks_is_refused():
    partition = Partition.grid((2, 4), 2, overlap=1)
    with pytest.raises(InputError, match="overlap"):
        dope.minimize(Energy.grid(UNARY), blocks=partition, method=Exact())


@pytest.mark.parametrize(
    ("shape", "kernel", "blocks"),
    [((10, 10), 3, 1), ((5000,), 3, 1), ((1500, 2000), 3, 32), ((1500, 2000), 7, 16), ((100, 200, 200), 3, 4),
     ((100, 200, 200), 5, 4), ((300, 200, 200), 3, 16), ((3, 4_000_000), 3, 32)],
)  # fmt: skip
def test_the_number_of_blocks_follows_from_shape_and_kernel(shape, kernel, blocks):
    unary = np.broadcast_to(np.float32(1.0), shape)
    assert dope.planning.defaults.automatic_blocks(dope.Energy.grid(unary, kernel=kernel).pairs, dope.Exact()) == blocks
