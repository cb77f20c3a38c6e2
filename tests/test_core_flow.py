"""The native core: minimum cuts on grids and graphs, against brute force, SciPy and PyMaxflow."""

import itertools
import math
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dope import _core
from flows import SCALE, WIDTHS, half_kernel, random_unary, random_weights, require_minimum
from profiles import examples

seeds = st.integers(0, 2**32 - 1)
widths = st.sampled_from(WIDTHS)


@examples(150)
@given(seeds, widths)
def test_grid_flow_finds_the_minimum(seed, bits):
    rng = np.random.default_rng(seed)
    weights, offsets, shape, pairs, capacities = random_weights(rng)
    flow = _core.GridFlow(weights, SCALE, bits)
    assert flow.bytes == _core.GridFlow.bytes_needed(shape, offsets, bits)
    unary = random_unary(rng, math.prod(shape))
    flow.minimize((unary / SCALE).reshape(shape))
    require_minimum(flow, unary, pairs, capacities)


@examples(60)
@given(seeds, widths)
def test_smallest_and_largest_minimizer_are_what_brute_force_finds(seed, bits):
    rng = np.random.default_rng(seed)
    weights, _, shape, pairs, capacities = random_weights(rng, most_sites=10)
    if math.prod(shape) > 10:
        return
    sites = math.prod(shape)
    unary = rng.choice([-64, -32, 0, 32, 64], sites)
    every = np.array(list(itertools.product([False, True], repeat=sites)))
    energies = every @ unary + (every[:, pairs[:, 0]] != every[:, pairs[:, 1]]) @ capacities
    minimizers = every[energies == energies.min()]

    flow = _core.GridFlow(weights, SCALE, bits)
    flow.minimize((unary / SCALE).reshape(shape))
    assert flow.value() * SCALE == energies.min()
    assert (flow.labels().ravel() == minimizers.all(0)).all()
    assert (flow.labels(largest=True).ravel() == minimizers.any(0)).all()


@examples(40)
@given(seeds, widths)
def test_warm_starts_equal_cold_ones(seed, bits):
    rng = np.random.default_rng(seed)
    weights, _, shape, _, _ = random_weights(rng)
    sites = math.prod(shape)
    warm = _core.GridFlow(weights, SCALE, bits)
    unary = random_unary(rng, sites)
    for _ in range(25):
        changed = rng.random(sites) < rng.choice([0.02, 0.1, 0.5])
        unary = np.where(changed, random_unary(rng, sites), unary)
        shaped = (unary / SCALE).reshape(shape)
        warm.minimize(shaped)
        warm.check()
        cold = _core.GridFlow(weights, SCALE, bits)
        cold.minimize(shaped)
        assert warm.value() == cold.value()
        if rng.random() < 0.5:
            assert (warm.labels() == cold.labels()).all()
        if rng.random() < 0.5:
            assert (warm.labels(largest=True) == cold.labels(largest=True)).all()


@examples(80)
@given(seeds, widths)
def test_graph_flow_finds_the_minimum_warm_and_cold(seed, bits):
    rng = np.random.default_rng(seed)
    sites = int(rng.integers(1, 60))
    upper = np.array(list(itertools.combinations(range(sites), 2)), dtype=np.int64).reshape(-1, 2)
    pairs = upper[rng.random(len(upper)) < rng.choice([0.02, 0.1, 0.5])]
    pairs = rng.permuted(rng.permutation(pairs), axis=1)
    capacities = rng.integers(0, 200, len(pairs))
    flow = _core.GraphFlow(sites, pairs, capacities / SCALE, SCALE, bits)
    assert flow.bytes == _core.GraphFlow.bytes_needed(sites, len(pairs), bits)
    unary = random_unary(rng, sites)
    for _ in range(8):
        flow.minimize(unary / SCALE)
        require_minimum(flow, unary, pairs, capacities)
        changed = rng.random(sites) < rng.choice([0.1, 0.7])
        unary = np.where(changed, random_unary(rng, sites), unary)


def test_a_grid_and_its_own_edge_list_agree():
    rng = np.random.default_rng(5)
    for _ in range(20):
        weights, _, shape, pairs, capacities = random_weights(rng)
        unary = random_unary(rng, math.prod(shape)) / SCALE
        grid = _core.GridFlow(weights, SCALE, 32)
        graph = _core.GraphFlow(math.prod(shape), pairs, capacities / SCALE, SCALE, 32)
        grid.minimize(unary.reshape(shape))
        graph.minimize(unary)
        assert grid.value() == graph.value()
        assert (grid.labels().ravel() == graph.labels()).all()


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize(("shape", "radius"), [((150, 130), 1), ((60, 70), 3), ((24, 20, 22), 1), ((300, 1), 2)])
def test_larger_grids_agree_with_pymaxflow(shape, radius, bits):
    maxflow = pytest.importorskip("maxflow")
    rng = np.random.default_rng(17)
    offsets = half_kernel(len(shape), radius, rng)
    features = rng.normal(size=(*shape, 1))
    weights = _core.GridWeights(shape, offsets, np.full(len(offsets), 2.0), features, 0.5)
    unary = np.rint(rng.normal(size=shape) * 3 * SCALE)

    graph = maxflow.GraphFloat()
    nodes = graph.add_grid_nodes(shape)
    for m, offset in enumerate(offsets):
        structure = np.zeros((2 * radius + 1,) * len(shape))
        structure[tuple(offset + radius)] = 1
        capacity = np.rint(weights.weights(m) * SCALE)
        graph.add_grid_edges(nodes, capacity, structure, symmetric=True)
    graph.add_grid_tedges(nodes, np.maximum(-unary, 0), np.maximum(unary, 0))
    minimum = graph.maxflow() + np.minimum(unary, 0).sum()

    flow = _core.GridFlow(weights, SCALE, bits)
    flow.minimize(unary / SCALE)
    assert flow.value() * SCALE == minimum
    flow.check()
    # Half a picture is changed and changed back: the same answer, from another flow.
    changed = unary.copy()
    changed[: shape[0] // 2] *= -1
    labels = flow.labels()
    flow.minimize(changed / SCALE)
    flow.minimize(unary / SCALE)
    assert (flow.labels() == labels).all()


def test_swapping_labels_swaps_the_extreme_minimizers():
    rng = np.random.default_rng(3)
    for _ in range(20):
        weights, _, shape, _, _ = random_weights(rng)
        unary = rng.choice([-64.0, 0.0, 64.0], shape) / SCALE
        flow, swapped = (_core.GridFlow(weights, SCALE, 32) for _ in range(2))
        flow.minimize(unary)
        swapped.minimize(-unary)
        assert (flow.labels() == ~swapped.labels(largest=True)).all()


def test_certain_sites_cost_what_they_cost():
    weights = _core.GridWeights((3,), np.array([[1]]), np.ones(1))
    flow = _core.GridFlow(weights, SCALE, 16)
    flow.minimize(np.array([-1e6, 0.25, 1e6]))
    assert flow.labels().tolist() == [True, False, False]
    assert flow.value() == -1e6 + 1
    flow.minimize(np.array([-math.inf, -0.25, math.inf]))
    assert flow.labels().tolist() == [True, True, False]
    assert flow.value() == -math.inf
    flow.minimize(np.array([2.0, 2.0, 2.0]))
    assert flow.value() == 0.0


def test_a_long_chain_may_be_as_deep_as_it_is_long():
    sites = 100_000
    weights = _core.GridWeights((sites,), np.array([[1]]), np.ones(1))
    flow = _core.GridFlow(weights, SCALE, 16)
    unary = np.zeros(sites)
    unary[0], unary[-1] = -5.0, 3.0
    flow.minimize(unary)
    flow.check()
    assert flow.value() == -4.0
    assert flow.labels().sum() == 1
    assert flow.labels(largest=True).sum() == sites - 1


def test_a_kernel_of_thousands_of_arcs():
    rng = np.random.default_rng(0)
    offsets = half_kernel(2, 25, rng)
    weights = _core.GridWeights((40, 41), offsets, np.full(len(offsets), 0.02))
    flow = _core.GridFlow(weights, 2.0**12, 32)
    flow.minimize(rng.normal(size=(40, 41)))
    flow.check()


def test_without_pairs_every_site_decides_for_itself():
    flow = _core.GridFlow(_core.GridWeights((2, 2), np.zeros((0, 2), np.int64), np.zeros(0)), 1.0, 32)
    flow.minimize(np.array([[-1.0, 0.0], [1.0, -2.0]]))
    assert flow.labels().tolist() == [[True, False], [False, True]]
    assert flow.labels(largest=True).tolist() == [[True, True], [False, True]]
    assert flow.value() == -3.0
    graph = _core.GraphFlow(0, np.zeros((0, 2), np.int64), np.zeros(0), 1.0, 32)
    graph.minimize(np.zeros(0))
    assert graph.labels().shape == (0,)


def chain(weight, sites=3):
    return _core.GridWeights((sites,), np.array([[1]]), np.array([weight]))


@pytest.mark.parametrize(
    ("weight", "scale", "bits", "message"),
    [
        (-1.0, 1.0, 32, r"site \(0\), offset \(1\) is -1: expected a finite number >= 0"),
        (math.nan, 1.0, 32, "is nan"),
        (math.inf, 1.0, 32, "is inf"),
        (16384.0, 1.0, 16, "more than 16383"),
        (2.0**30, 1.0, 32, "greatest capacity in 32 bits"),
        (2.0**29, 1.0, 32, r"capacities of site \(1\) add up to 1073741824"),
        (2.0**47, 1.0, 64, r"site \(1\) add up"),
        (1.0, 0.0, 32, "scale is 0"),
        (1.0, math.nan, 32, "scale is nan"),
        (1.0, 1.0, 8, "expected 16, 32 or 64"),
    ],
)
def test_flow_refuses_what_it_cannot_hold(weight, scale, bits, message):
    with pytest.raises(ValueError, match=message):
        _core.GridFlow(chain(weight), scale, bits)
    edges = np.array([[0, 1], [1, 2]])
    message = message.replace(r"site \(0\), offset \(1\)", "edge 0").replace(r"\(1\)", "1")
    with pytest.raises(ValueError, match=message):
        _core.GraphFlow(3, edges, np.full(2, weight), scale, bits)


def test_the_greatest_capacities_of_each_width_work():
    for bits, weight in [(16, 16383.0), (32, 2.0**29 - 1), (64, 2.0**39 - 1)]:
        flow = _core.GridFlow(chain(weight), 1.0, bits)
        for unary in ([-1e300, 0.0, 1e300], [1e300, 0.0, -1e300], [-1e300, 1e300, -1e300]):
            flow.minimize(np.array(unary))
            flow.check()


def test_flow_refuses_a_wrong_unary_and_lives_on():
    flow = _core.GridFlow(chain(1.0), 1.0, 32)
    with pytest.raises(RuntimeError, match="minimize"):
        flow.labels()
    with pytest.raises(RuntimeError, match="minimize"):
        flow.value()
    flow.minimize(np.array([-3.0, 0.0, 0.0]))
    with pytest.raises(ValueError, match="NaN at flat position 1"):
        flow.minimize(np.array([1.0, math.nan, 0.0]))
    with pytest.raises(ValueError, match=r"unary has shape \(4\): expected \(3\)"):
        flow.minimize(np.zeros(4))
    with pytest.raises(TypeError, match="float32: expected float64"):
        flow.minimize(np.zeros(3, np.float32))
    assert flow.labels().all()
    flow.minimize(np.array([-3.0, 9.0, 9.0, 9.0, 9.0])[::2])  # not contiguous
    assert flow.value() == -2.0


def test_graph_flow_refuses_wrong_edges():
    for edges, weights, error, message in [
        (np.array([[0, 3]]), np.ones(1), ValueError, "edge 0 ends at site 3: expected 0 to 2"),
        (np.array([0, 1]), np.ones(1), ValueError, "edges has shape"),
        (np.array([[0, 1]]), np.ones(2), ValueError, "weights has shape"),
        (np.array([[0, 1]], np.int32), np.ones(1), TypeError, "edges has dtype int32: expected int64"),
    ]:
        with pytest.raises(error, match=message):
            _core.GraphFlow(3, edges, weights, 1.0, 32)
    with pytest.raises(ValueError, match="-1 sites"):
        _core.GraphFlow(-1, np.zeros((0, 2), np.int64), np.zeros(0), 1.0, 32)


def test_too_large_a_grid_is_refused_before_anything_is_allocated():
    offsets = np.array([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="smaller blocks"):
        _core.GridFlow.bytes_needed((2**16, 2**16), offsets, 16)
    assert _core.GridFlow.bytes_needed((2**15, 2**15), offsets, 16) > 2**30 * 8


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
def test_a_long_minimize_hears_an_interruption_and_lives_on():
    program = textwrap.dedent(
        """
        import numpy as np
        from dope import _core
        rng = np.random.default_rng(0)
        shape = (1000, 1000)
        features = rng.normal(size=(*shape, 1))
        weights = _core.GridWeights(shape, np.array([[0, 1], [1, 0]]), np.full(2, 60.0), features, 0.1)
        flow = _core.GridFlow(weights, 64.0, 16)
        unary = rng.normal(size=shape)
        print("ready", flush=True)
        try:
            while True:
                flow.minimize(unary)
                unary = -unary
        except KeyboardInterrupt:
            try:
                flow.labels()
            except RuntimeError as error:
                print(error)
            flow.minimize(np.full(shape, -1.0))
            print(flow.labels().all())
        """
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=20)
    assert output.splitlines()[-1] == "True"
    assert process.returncode == 0


def test_a_long_chain_that_is_cut_off_from_its_root_takes_no_quadratic_time():
    """Each of the 2^18 sites would come loose tens of thousands of times: hours, not a second."""
    sites = 1 << 18
    flow = _core.GridFlow(_core.GridWeights((sites,), np.array([[1]]), np.ones(1)), SCALE, 16)
    unary = np.zeros(sites)
    unary[0], unary[-1] = -5.0, 3.0
    flow.minimize(unary)
    flow.check()
    assert flow.value() == -4.0
    assert flow.labels(largest=True).sum() == sites - 1
