"""The native core in many threads, and work that is cancelled."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dope import _core
from flows import NETWORKS, SCALE, WIDTHS, network, require_same_answers

PATIENCE = 60.0  # seconds after which a test gives up; none needs a tenth of it


def several_answers(problem, bits, seed):
    rng = np.random.default_rng(seed)
    flow = problem.open(bits)
    told = []
    for _ in range(6):
        flow.minimize(rng.normal(size=problem.shape))
        flow.change(np.arange(problem.sites // 2), rng.normal(size=problem.sites // 2))
        told += [flow.value(), flow.labels(), flow.labels(largest=True)]
    return told


def test_many_flows_at_once_give_what_they_give_alone():
    rng = np.random.default_rng(0)
    problems = [network(name, rng) for name in NETWORKS]
    tasks = [(problem, bits, seed) for seed, problem in enumerate(problems) for bits in WIDTHS]
    alone = [several_answers(*task) for task in tasks]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda task: several_answers(*task), 3 * tasks))
    for found, expected in zip(together, 3 * alone, strict=True):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_many_flows_share_one_set_of_weights():
    rng = np.random.default_rng(1)
    problem = network("rows8", rng)
    unary = rng.normal(size=problem.shape)

    def labels(_):
        flow = problem.open(16)
        flow.minimize(unary)
        return flow.labels()

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(labels, range(32)))
    for answer in answers:
        np.testing.assert_array_equal(answer, labels(None))


def busy_flow(shape=(500, 500)):
    """A flow that has work for a while, and a unary to give it."""
    rng = np.random.default_rng(2)
    features = rng.normal(size=(*shape, 1))
    weights = _core.GridWeights(shape, np.array([[0, 1], [1, 0]]), np.full(2, 60.0), features, 0.1)
    return weights, _core.GridFlow(weights, SCALE, 16), rng.normal(size=shape)


def uses(weights, flow, unary):
    """Every call that another thread may try."""
    return [
        lambda: flow.minimize(unary),
        lambda: flow.change(np.array([0]), np.array([1.0])),
        flow.labels,
        flow.value,
        flow.check,
        lambda: flow.refill(weights, SCALE),
    ]


def test_of_many_threads_on_one_flow_none_crashes():
    weights, flow, unary = busy_flow((60, 60))
    calls = uses(weights, flow, unary)
    said = set()

    def hammer(seed):
        rng = np.random.default_rng(seed)
        for _ in range(200):
            try:
                calls[rng.integers(len(calls))]()
            except RuntimeError as error:
                said.add(str(error))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(hammer, range(8)))
    assert said <= {
        "this flow is at work in another thread: expected one thread at a time",
        "expected minimize() to be called first",
    }
    flow.minimize(unary)
    flow.check()


def in_thread(work):
    """Starts work() in a thread; returns the thread, and where what it raised, and when, will be."""
    raised = []

    def run():
        try:
            work()
        except Exception as error:
            raised.append((error, time.monotonic()))

    thread = threading.Thread(target=run, daemon=True)  # a test that fails must not wait for it
    thread.start()
    return thread, raised


def require_cancelled(thread, raised, since):
    thread.join(PATIENCE)
    assert not thread.is_alive()
    [(error, when)] = raised
    assert isinstance(error, _core.Cancelled)
    assert when - since < PATIENCE / 4  # it is milliseconds, if the machine has nothing else to do


def test_cancel_stops_a_minimize_and_the_flow_lives_on():
    weights, flow, unary = busy_flow((600, 600))
    cancel = _core.Cancel()
    began = threading.Event()

    def work():
        sign = 1
        with cancel:
            while True:  # never ends by itself
                sign = -sign
                began.set()
                flow.minimize(sign * unary)

    thread, raised = in_thread(work)
    began.wait(PATIENCE)
    time.sleep(0.2)
    assert not cancel.cancelled
    assert thread.is_alive()
    cancel.cancel()
    require_cancelled(thread, raised, time.monotonic())
    assert cancel.cancelled
    with pytest.raises(RuntimeError, match="interrupted: expected it to be called again"):
        flow.labels()

    flow.minimize(unary)
    flow.check()
    fresh = _core.GridFlow(weights, SCALE, 16)
    fresh.minimize(unary)
    require_same_answers(flow, fresh)


def test_cancel_is_heard_while_a_long_chain_comes_apart():
    """The first augmentation cuts a chain of half the sites from its root; as they go deeper, two by two, it takes
    time quadratic in their number."""
    sites = 40_000
    flow = _core.GridFlow(_core.GridWeights((sites,), np.array([[1]]), np.ones(1)), SCALE, 16)
    unary = np.zeros(sites)
    unary[0], unary[-1] = -5.0, 3.0
    cancel = _core.Cancel()

    def work():
        with cancel:
            flow.minimize(unary)

    thread, raised = in_thread(work)
    time.sleep(0.3)
    cancel.cancel()
    since = time.process_time()  # which stands still while the machine is busy with other things
    thread.join(PATIENCE)
    assert not raised or isinstance(raised[0][0], _core.Cancelled)
    assert time.process_time() - since < 1.0


def slow_weights():
    """Weights that take minutes to compute: the same pixel in a hundred thousand channels that take no memory."""
    shape = (200, 200)
    features = np.broadcast_to(np.zeros(1), (*shape, 100_000))
    return _core.GridWeights(shape, np.array([[0, 1], [1, 0]]), np.ones(2), features, 1.0)


def slow_pixels():
    return np.broadcast_to(np.zeros(1), (200, 200, 100_000)), np.array([[0, 1], [1, 0]])


BOX = (0, 0), (200, 200)


@pytest.mark.parametrize(
    "work",
    [
        lambda: slow_weights().weights(0),
        lambda: _core.Neighbors.grid(slow_weights()),
        lambda: _core.contrast(*slow_pixels(), *BOX, 1.0),  # type: ignore[call-arg]
        lambda: _core.exact_roughness(slow_weights(), np.eye(200, dtype=bool), *BOX),
        lambda: _core.roughness(slow_weights(), np.random.default_rng(0).random((200, 200)), *BOX),
        lambda: _core.GridCoupling(slow_weights(), (0, 0), (100, 200), [np.ones(200)] * 2).strength(),
        lambda: _core.GridFlow(slow_weights(), 1.0, 16),
    ],
    ids=["weights", "neighbors", "contrast", "exact roughness", "roughness", "coupling", "flow"],
)
def test_cancel_stops_whatever_weighs_many_pairs(work):
    cancel, began = _core.Cancel(), threading.Event()

    def cancelled():
        with cancel:
            began.set()
            while True:  # those that are done soon are done again
                work()

    thread, raised = in_thread(cancelled)
    began.wait(PATIENCE)
    time.sleep(0.1)
    cancel.cancel()
    require_cancelled(thread, raised, time.monotonic())


def test_who_is_cancelled_begins_nothing_more():
    flow = _core.GridFlow(_core.GridWeights((2, 2), np.array([[0, 1]]), np.ones(1)), 1.0, 16)
    flow.minimize(np.ones((2, 2)))
    with _core.Cancel() as cancel:
        flow.minimize(np.ones((2, 2)))
        cancel.cancel()
        for work in (lambda: flow.minimize(np.ones((2, 2))), flow.labels, flow.minimum, flow.check):
            with pytest.raises(_core.Cancelled):
                work()
    assert not flow.labels().any()  # it was not touched


def test_a_flow_at_work_refuses_other_threads():
    quick = _core.GridWeights((200, 200), np.array([[0, 1], [1, 0]]), np.ones(2))
    flow = _core.GridFlow(quick, 1.0, 16)
    unary = np.random.default_rng(3).normal(size=(200, 200))
    flow.minimize(unary)
    cancel = _core.Cancel()

    def work():
        with cancel:
            while True:
                try:
                    flow.refill(slow_weights(), 1.0)
                except RuntimeError:  # the value below was being asked for
                    time.sleep(0.001)

    thread, raised = in_thread(work)
    deadline = time.monotonic() + PATIENCE
    said = ""
    while "another thread" not in said and time.monotonic() < deadline:
        time.sleep(0.01)
        try:
            flow.value()
        except RuntimeError as error:
            said = str(error)
    for use in uses(quick, flow, unary):
        with pytest.raises(RuntimeError, match="at work in another thread: expected one thread at a time"):
            use()
    assert flow.bytes > 0
    cancel.cancel()
    require_cancelled(thread, raised, time.monotonic())

    flow.refill(quick, 1.0)
    fresh = _core.GridFlow(quick, 1.0, 16)
    for one in (flow, fresh):
        one.minimize(unary)
    flow.check()
    require_same_answers(flow, fresh)


@pytest.mark.parametrize("refill", [False, True])
def test_cancel_stops_the_building_of_a_flow(refill):
    quick = _core.GridWeights((200, 200), np.array([[0, 1], [1, 0]]), np.ones(2))
    flow = _core.GridFlow(quick, 1.0, 16)
    weights = slow_weights()
    began = threading.Event()
    cancel = _core.Cancel()

    def work():
        with cancel:
            began.set()
            if refill:
                flow.refill(weights, 1.0)
            else:
                _core.GridFlow(weights, 1.0, 16)

    thread, raised = in_thread(work)
    began.wait(PATIENCE)
    time.sleep(0.2)
    assert thread.is_alive()
    cancel.cancel()
    require_cancelled(thread, raised, time.monotonic())
    flow.refill(quick, 1.0)
    flow.minimize(np.full((200, 200), -1.0))
    assert flow.labels().all()


def test_a_cancelled_scope_stops_all_in_it_and_nothing_outside():
    weights, flow, unary = busy_flow()
    outer, inner = _core.Cancel(), _core.Cancel()
    with outer, inner:
        flow.minimize(unary)
        outer.cancel()
        with pytest.raises(_core.Cancelled):
            flow.minimize(-unary)
        with pytest.raises(_core.Cancelled):
            _core.GridFlow(weights, SCALE, 16)
    assert not inner.cancelled
    with inner:
        flow.minimize(-unary)  # outer is over
    other = threading.Thread(target=flow.minimize, args=(unary,))
    with _core.Cancel() as here:
        here.cancel()
        other.start()
        other.join(PATIENCE)  # another thread is not in this scope
    assert flow.value() == (flow.minimize(unary), flow.value())[1]
    with outer, pytest.raises(_core.Cancelled):  # cancelled for good
        flow.minimize(-unary)


def test_a_scope_is_left_in_the_thread_and_as_often_as_it_was_entered():
    _, flow, unary = busy_flow()
    with pytest.raises(RuntimeError, match="not entered in this thread"):
        _core.Cancel().__exit__(None, None, None)
    cancel = _core.Cancel()
    with cancel, ThreadPoolExecutor(1) as pool, pytest.raises(RuntimeError, match="not entered in this thread"):
        pool.submit(cancel.__exit__, None, None, None).result()
    with pytest.raises(RuntimeError, match="not entered in this thread"):
        cancel.__exit__(None, None, None)

    # Left in another order than entered, as generators do.
    first, second = _core.Cancel(), _core.Cancel()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    first.cancel()
    flow.minimize(unary)
    second.cancel()
    with pytest.raises(_core.Cancelled):
        flow.minimize(-unary)
    second.__exit__(None, None, None)


def test_a_scope_that_was_lost_is_harmless():
    _, flow, unary = busy_flow()

    def work():
        for _ in range(100):
            _core.Cancel().__enter__()
        flow.minimize(unary)

    thread, raised = in_thread(work)
    thread.join(PATIENCE)
    assert not raised
    assert np.isfinite(flow.value())
