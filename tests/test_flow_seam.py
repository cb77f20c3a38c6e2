"""Methods open flows through the solver they are given: somebody's own takes part, and what it checks is checked."""

import ast
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import dope
from dope import Admm, Bracketing, Energy, Exact, InputError, MaxFlow, Serial, Threads, _core
from dope.fixed_point import FixedPoint
from dope.flows import BlockFlow, Flow
from dope.methods.bracket_block import Prove
from dope.protocols import FlowSolver, RoofDualSolver
from dope.solvers.parts import core_flows

METHODS = [None, Exact(), Exact(merge=False, rounds=0), Exact(bracket=True), Bracketing(), Admm()]


def picture(seed=0, shape=(18, 21)):
    rng = np.random.default_rng(seed)
    return Energy.grid(rng.integers(-9, 10, shape), lam=3, kernel=3)


def web(seed=0, sites=60):
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, sites, (3 * sites, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    return Energy.graph(rng.integers(-9, 10, sites), edges, rng.integers(0, 6, len(edges)))


def shown(value):
    return getattr(value, "__name__", str(value))


GRIDS_ONLY = (Bracketing,)
CASES = [
    (method, make) for method in METHODS for make in (picture, web) if make is picture or type(method) not in GRIDS_ONLY
]


@dataclass(frozen=True)
class Counting:
    """Somebody's own flow solver: MaxFlow, and which of its calls were made."""

    inner: MaxFlow = MaxFlow()  # noqa: RUF009 (frozen)
    calls: list = field(default_factory=list, compare=False)

    @property
    def bits(self):
        return self.inner.bits

    def prepare(self, energy):
        self.calls.append("prepare")
        return self.inner.prepare(energy)

    def open_flow(self, pairs, fixed):
        self.calls.append("open_flow")
        return self.inner.open_flow(pairs, fixed)

    def open_blocks(self, pairs, partition, fixed):
        self.calls.append("open_blocks")
        return self.inner.open_blocks(pairs, partition, fixed)


@dataclass(frozen=True)
class Threshold:
    """The smallest solver there is."""

    def prepare(self, energy):  # noqa: ARG002
        return self

    def minimize(self, unary, *, start=None):  # noqa: ARG002
        return dope.Answer(unary < 0)


def test_max_flow_offers_the_protocols():
    energy, solver = picture(), MaxFlow()
    offers: FlowSolver = solver  # mypy compares the types
    fixed = FixedPoint.of(energy)
    flow: Flow = offers.open_flow(energy.pairs, fixed)
    blocks: BlockFlow = offers.open_blocks(energy.pairs, dope.Partition.grid(energy.shape, 4), fixed)
    assert all(isinstance(one, FlowSolver) for one in (solver, Counting()))
    assert flow.bytes > 0 and blocks.blocks == 4
    for other in (Threshold(), dope.Icm(), dope.Qpbo(), dope.TrwS()):
        assert not isinstance(other, FlowSolver)
    assert isinstance(dope.Qpbo(), RoofDualSolver) and isinstance(dope.TrwS(), RoofDualSolver)
    assert not isinstance(solver, RoofDualSolver)


@pytest.mark.parametrize(("method", "make"), CASES, ids=shown)
@pytest.mark.parametrize("executor", [Serial(), Threads(2)], ids=str)
def test_somebodys_own_flow_solver_is_asked_for_all_flows(method, make, executor):
    energy, solver = make(), Counting()
    found = dope.minimize(energy, blocks=4, method=method, solver=solver, executor=executor)
    expected = dope.minimize(energy, blocks=4, method=method, executor=executor)
    assert np.array_equal(found.labels, expected.labels)
    assert (found.energy, found.lower_bound, found.exact) == (expected.energy, expected.lower_bound, expected.exact)
    called = {"open_flow", "open_blocks"} if isinstance(method, Bracketing) else {"open_blocks"}
    if isinstance(method, Admm):
        called |= {"prepare"}
    assert set(solver.calls) == called


def test_a_solver_that_opens_flows_serves_what_is_read_box_by_box():
    energy, solver = picture(), Counting()
    found = dope.minimize(energy, method=Bracketing(), blocks=4, solver=solver)
    assert np.array_equal(found.labels, dope.minimize(energy).labels)
    assert set(solver.calls) == {"open_flow", "open_blocks"}


def test_messages_take_the_solver_along():
    box = (slice(0, 3), slice(0, 4))
    message = Prove(MaxFlow(16, check=True), FixedPoint(1.0, 16, 0.0), box, box)
    assert pickle.loads(pickle.dumps(message)).solver == MaxFlow(16, check=True)


def test_the_default_method_suits_a_solver_without_flows():
    result = dope.minimize(picture(), blocks=4, solver=Threshold())
    assert result.trace[0].mu is not None and not result.exact


class Elsewhere:
    """Says that its workers are in other processes, where no residual graph can be shared."""

    workers, elsewhere, gather = 1, True, Serial().gather


def test_the_default_method_suits_solver_and_executor():
    energy, solver = picture(), Counting()
    assert dope.minimize(energy, blocks=4, solver=solver, executor=Elsewhere()).exact
    assert set(solver.calls) == {"open_flow", "open_blocks"}
    result = dope.minimize(energy, blocks=4, solver=Threshold(), executor=Elsewhere())
    assert result.trace[0].mu is not None


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (Exact(), r"Exact\(\) needs a solver with open_blocks, such as MaxFlow\(\); Threshold has none. Use Admm\(\)"),
        (
            Bracketing(),
            r"Bracketing\(\) needs a solver with open_blocks, such as MaxFlow\(\); Threshold has none. Use A",
        ),
    ],
    ids=str,
)
def test_an_error_says_which_solvers_can(method, words):
    with pytest.raises(InputError, match=words):
        dope.minimize(picture(), blocks=4, method=method, solver=Threshold())


def test_half_a_flow_solver_serves_the_methods_that_need_no_more():
    class Boxes:
        bits, prepare, open_flow = None, MaxFlow().prepare, MaxFlow().open_flow

    energy = picture()
    with pytest.raises(InputError, match="needs a solver with open_blocks, such as MaxFlow"):
        dope.minimize(energy, blocks=4, method=Bracketing(), solver=Boxes())
    assert dope.minimize(energy, blocks=4, solver=Boxes()).trace[0].mu is not None  # Admm by default
    Boxes.open_blocks = MaxFlow().open_blocks
    assert dope.minimize(energy, blocks=4, method=Bracketing(), solver=Boxes()).exact
    del Boxes.open_flow
    assert dope.minimize(energy, blocks=4, method=Exact(), solver=Boxes()).exact
    with pytest.raises(InputError, match="needs a solver with open_flow, such as MaxFlow"):
        dope.minimize(energy, blocks=4, method=Bracketing(), solver=Boxes())
    del Boxes.bits
    with pytest.raises(InputError, match="needs a solver with bits, such as MaxFlow"):
        dope.minimize(energy, blocks=4, method=Exact(), solver=Boxes())


# Checks.


class Recording:
    """A flow of the core, and in which order its calls were made."""

    def __init__(self, flow, log):
        self._flow, self._log = flow, log

    def __getattr__(self, name):
        value = getattr(self._flow, name)
        if not callable(value):
            return value

        def call(*arguments, **named):
            self._log.append((name, arguments[:1] if name in {"solve", "discharge", "bracket"} else arguments))
            return value(*arguments, **named)

        return call


class Lying(Recording):
    """A flow whose search is broken: its labels are not those of the minimum, as its check finds out."""

    def check(self, *group):
        self._log.append(("check", group))
        raise RuntimeError("self-check failed: labels are what the sources reach")


def opened_by(monkeypatch, kind):
    """Let flows of the core be of this kind; the calls they get."""
    log = []

    def wrapped(make):
        return lambda *arguments: kind(make(*arguments), log)

    blocks = SimpleNamespace(grid=wrapped(_core.BlockFlow.grid), graph=wrapped(_core.BlockFlow.graph))
    core = SimpleNamespace(GridFlow=wrapped(_core.GridFlow), GraphFlow=wrapped(_core.GraphFlow), BlockFlow=blocks)
    monkeypatch.setattr(core_flows, "_core", core)
    return log


MOVES = ("minimize", "change", "solve", "discharge", "bracket")


@pytest.mark.parametrize(("method", "make"), CASES, ids=shown)
def test_every_solve_is_checked_under_every_method(monkeypatch, method, make):
    energy = make()
    expected = dope.minimize(energy, blocks=4, method=method, executor=Serial())
    log = opened_by(monkeypatch, Recording)
    found = dope.minimize(energy, blocks=4, method=method, solver=MaxFlow(check=True), executor=Serial())
    assert np.array_equal(found.labels, expected.labels)
    moves = [i for i, (name, _) in enumerate(log) if name in MOVES]
    assert moves and all(log[i + 1][0] == "check" for i in moves)
    grouped = [i for i in moves if log[i][0] not in {"minimize", "change"}]
    assert all(log[i + 1][1] == log[i][1] for i in grouped)
    log.clear()
    dope.minimize(energy, blocks=4, method=method, solver=MaxFlow(), executor=Serial())
    assert log and all(name != "check" for name, _ in log)


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("executor", [Serial(), Threads(2)], ids=str)
def test_a_broken_flow_is_found_out_under_every_method(monkeypatch, method, executor):
    log = opened_by(monkeypatch, Lying)
    with pytest.raises(RuntimeError, match="self-check failed"):
        dope.minimize(picture(), blocks=4, method=method, solver=MaxFlow(check=True), executor=executor)
    assert log[-1][0] == "check" or isinstance(executor, Threads)
    dope.minimize(picture(), blocks=4, method=method, solver=MaxFlow(), executor=executor)  # nobody asked


def test_a_solve_that_was_left_out_is_found_by_the_core_itself(monkeypatch):
    class Idle(Recording):
        def solve(self, g):
            pass

    opened_by(monkeypatch, Idle)
    with pytest.raises(RuntimeError):
        dope.minimize(picture(), blocks=4, solver=MaxFlow(check=True), executor=Serial())


def test_a_warm_start_is_checked_though_the_run_before_was_not(monkeypatch):
    energy = picture()
    first = dope.minimize(energy, blocks=4, executor=Serial())
    log = opened_by(monkeypatch, Recording)
    again = dope.minimize(energy, blocks=4, solver=MaxFlow(check=True), start=first, executor=Serial())
    assert np.array_equal(again.labels, first.labels)
    assert ("check", (0,)) in log


@pytest.mark.parametrize("method", [Exact(), Bracketing(), Admm(rounds=2)], ids=str)
def test_checks_pass_on_larger_problems_in_threads(method):
    energy = picture(3, (60, 64))
    checked, plain = (
        dope.minimize(energy, blocks=9, method=method, solver=solver, executor=Threads(4))
        for solver in (MaxFlow(check=True), MaxFlow())
    )
    assert np.array_equal(checked.labels, plain.labels)


# What methods take from the core besides: facts, and sizes known in advance. Import-linter cannot tell, as the core is
# no Python: `from dope import _core` looks like an import of the package.
FROM_CORE: dict[str, set[str]] = {"flow_cache.py": {"fingerprint", "whole_units"}}  # neither is a flow


def test_methods_do_not_open_flows_of_the_core_themselves():
    for path in Path(dope.methods.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text())
        used = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        of_core = {name.removeprefix("_core.") for name in used if name.startswith("_core.")}
        longest = {name for name in of_core if not any(other.startswith(name + ".") for other in of_core)}
        assert longest <= FROM_CORE.get(path.name, set()), f"{path.name} asks the core: use problem.solver"
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        assert "_core" not in imported or path.name in FROM_CORE, f"{path.name} imports the core: use problem.solver"
