"""Decide what a run will do: once, from the energy, what the caller said, and one model of memory (`footprint`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy.typing as npt

from dope.boards.folder import cuts_of, require_new
from dope.certificate import require_free
from dope.energy import Energy
from dope.errors import InputError
from dope.executors import Threads
from dope.footprint import PROCESS_BYTES
from dope.label_energy import LabelEnergy
from dope.layers import LayerNumbers, require_layers, why_no_layers
from dope.memory import as_text, available_bytes, budget_of
from dope.methods import Admm, Bracketing, Exact, Layers, Messages, Moves
from dope.methods.layers import counted
from dope.pairs import GraphPairs, GridPairs, TablePairs
from dope.partition import Partition, layout_of
from dope.planning.box_cuts import fitting_cuts
from dope.planning.defaults import automatic_blocks, automatic_solver, sharing_the_budget, sharing_the_reach
from dope.planning.plans import (
    Decision,
    Plan,
    bytes_in_memory,
    checked_target,
    cut_pairs,
    expected_bits,
    keeps_blocks,
    layers_of,
    start_from,
)
from dope.plug_ins import check_plug_in
from dope.protocols import BlockSolver, Executor, FlowSolver, LabelSolver, Method
from dope.result import Result
from dope.solvers import LabelTrwS, MaxFlow, Portfolio
from dope.stored import check_apart

# Where the system does not say what is available.
DEFAULT_MEMORY = 4 << 30


def plan(
    energy: Energy | LabelEnergy,
    *,
    method: Method | None = None,
    blocks: int | Sequence[int] | Partition | None = None,
    overlap: float | int | None = None,
    solver: BlockSolver | LabelSolver | None = None,
    executor: Executor | None = None,
    start: Result | npt.ArrayLike | None = None,
    memory: int | str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    certificate: str | os.PathLike[str] | None = None,
    out: Any = None,
) -> Plan:
    """Decide what `minimize` with these arguments does, and say why, before anything is computed.

    Parameters are those of `minimize`. Print the plan, or look at its attributes; `plan.run()` does it.

    Examples
    --------
    >>> import dope, numpy as np
    >>> decided = dope.plan(dope.Energy.grid(np.zeros((100, 100))))
    >>> decided.method, decided.blocks, decided.in_boxes
    (Exact(tolerance=0.0, rounds=None, merge=True, bracket=False), 1, False)
    """
    return _decided(
        energy, method=method, blocks=blocks, overlap=overlap, solver=solver, executor=executor, start=start,
        memory=memory, checkpoint=checkpoint, resume=resume, certificate=certificate, out=out,
    )  # fmt: skip


def plan_holding(energy: Energy | LabelEnergy, held: int, **said: Any) -> Plan:
    """The same for someone who holds so many bytes per site beside the energy, where everything is in memory."""
    return _decided(energy, held=held, **said)


def plan_searching(energy: Energy | LabelEnergy, seconds: float | None, **said: Any) -> Plan:
    """The same where a search may take so many seconds: a solver that searches is told, others run to their end."""
    return _decided(energy, seconds=seconds, **said)


def _decided(
    energy: Energy | LabelEnergy,
    *,
    method: Method | None = None,
    blocks: int | Sequence[int] | Partition | None = None,
    overlap: float | int | None = None,
    solver: BlockSolver | LabelSolver | None = None,
    executor: Executor | None = None,
    start: Result | npt.ArrayLike | None = None,
    memory: int | str | None = None,
    checkpoint: Any = None,
    resume: Any = None,
    certificate: Any = None,
    out: Any = None,
    held: int = 0,
    seconds: float | None = None,
) -> Plan:
    _check_arguments(energy, method, solver, executor)
    new, before = _folder("checkpoint", checkpoint), _folder("resume", resume)
    if new is not None and before is not None:
        raise InputError("checkpoint and resume are both given; a run that is resumed goes on in its own folder.")
    if new is not None:
        require_new(Path(new))  # before anything is read
    proof = _folder("certificate", certificate)
    if proof is not None:
        require_free(Path(proof))
    asked = _Asked(
        energy=energy,
        method=method,
        blocks=blocks,
        overlap=overlap,
        solver=solver,
        executor=executor,
        budget=budget_of(memory),
        folder=new if before is None else before,
        resume=before is not None,
        proof=proof,
        out=out,
        held=held,
        seconds=seconds,
    )
    return replace(asked.planned(), start=start_from(energy, start))


@dataclass(frozen=True, eq=False)
class _Asked:
    """What a caller said."""

    energy: Energy | LabelEnergy
    method: Method | None
    blocks: int | Sequence[int] | Partition | None
    overlap: float | int | None
    solver: BlockSolver | LabelSolver | None
    executor: Executor | None
    budget: int | None
    folder: str | None
    resume: bool
    proof: str | None
    out: Any
    held: int
    seconds: float | None

    def planned(self) -> Plan:
        if isinstance(self.energy, LabelEnergy):
            self._check_labels()
        if isinstance(self.blocks, Partition):
            _check_partition(self.energy, self.blocks, self.overlap)
        solver, of_solver = self._solver()
        executor = self.executor or Threads()
        of_executor = "as asked" if self.executor is not None else "a thread per core"
        method, of_method, in_boxes = self._method(solver, executor)
        if isinstance(method, Layers):
            solver, of_solver = self._layer_solver()
        if self.proof is not None and not getattr(method, "certifies", False):
            raise InputError(
                f"certificate is {self.proof}, and method is {method!r}, which has none to put there; Exact() and "
                f"Bracketing() do, of energies without negative weights. Leave certificate out."
            )
        partition, cuts, of_blocks = self._blocks(method, solver, executor, in_boxes=in_boxes)
        if self.out is not None:
            checked_target(self.out, self.energy.shape, label_count=self.energy.label_count)
            check_apart(self.out, self.energy.arrays)
        found = Plan(
            energy=self.energy,
            method=method,
            solver=solver,
            label_solver=self._label_solver,
            executor=executor,
            cuts=cuts,
            in_boxes=in_boxes,
            memory=self._limit if in_boxes else self.budget,
            out=self.out,
            checkpoint=self.folder,
            resume=self.resume,
            certificate=self.proof,
            held=self.held,
            _partition=partition,
            _bits=self._bits(method, solver) if isinstance(method, Layers) else None,
        )
        number, layout = found.blocks, " x ".join(map(str, found.layout))
        found = replace(found, solver=sharing_the_budget(solver, method, found.layout, executor))
        decisions = (
            Decision("method", repr(method), of_method),
            Decision("blocks", f"{number:,}" + (f" ({layout})" if cuts is not None and number > 1 else ""), of_blocks),
            Decision("solver", repr(found.solver), of_solver),
            self._integers(found),
            Decision("runs in", repr(executor), of_executor),
            self._arrays(found),
            Decision("labels", "a new array" if self.out is None else type(self.out).__name__,
                     "none was given" if self.out is None else "as asked"),
        )  # fmt: skip
        return replace(found, decisions=decisions)

    def _check_labels(self) -> None:
        """What several labels do without."""
        if self.folder is not None and not isinstance(self.energy.pairs, GridPairs):
            raise InputError(
                f"checkpoint or resume is {self.folder}; several labels on a graph are not kept in a folder. Leave it "
                f"out."
            )
        if self._overlaps and not getattr(self.method, "takes_overlap", False):
            raise InputError(
                "blocks overlap; several labels need blocks without overlap, but for LabelAdmm(). Leave overlap out."
            )
        if getattr(self.executor, "elsewhere", False) and not isinstance(self.energy.pairs, GridPairs):
            raise InputError(
                f"executor is {self.executor!r}, whose workers are in other processes; several labels on a graph are "
                f"solved in this one. Use Threads() or Serial()."
            )

    @property
    def _label_solver(self) -> LabelSolver | None:
        """What bounds an energy of several labels."""
        if not isinstance(self.energy, LabelEnergy):
            return None
        return self.solver if isinstance(self.solver, LabelSolver) else LabelTrwS()

    def _solver(self) -> tuple[BlockSolver, str]:
        if isinstance(self.solver, LabelSolver):
            if not isinstance(self.energy, LabelEnergy):
                raise InputError(
                    f"solver is {self.solver!r}, which is for several labels; leave solver out, or make a LabelEnergy."
                )
            return automatic_solver(self.energy)
        solver, why = (self.solver, "as asked") if self.solver is not None else automatic_solver(self.energy)
        if isinstance(solver, Portfolio) and self.seconds is not None:
            return replace(solver, seconds=self.seconds), f"{why}; {self.seconds:g} seconds are for its search"
        return solver, why

    @property
    def _overlaps(self) -> bool:
        return self.blocks.overlaps if isinstance(self.blocks, Partition) else bool(self.overlap)

    def _method(self, solver: BlockSolver, executor: Executor) -> tuple[Method, str, bool]:
        """The method, why, and whether it reads box by box."""
        if self.method is not None:
            if self.folder is not None and getattr(self.method, "checkpoint", None) is not None:
                raise InputError(
                    f"checkpoint or resume is {self.folder}, and method is {self.method!r}, which names a folder of "
                    f"its own; expected one of the two."
                )
            if self.folder is not None and not getattr(self.method, "resumable", False):
                raise InputError(
                    f"method is {self.method!r}, which keeps no checkpoint; Bracketing(), Admm() and Moves() do. "
                    f"Leave method out, or checkpoint and resume."
                )
            in_boxes = self._in_boxes(self.method, solver, executor)
            if isinstance(self.method, Layers):
                self._require_layers(executor)
            elif not in_boxes:
                self._require_room(self.method, solver)
            return self.method, "as asked", in_boxes
        method, why = self._automatic_method(solver, executor)
        return method, why, self._in_boxes(method, solver, executor)

    def _in_boxes(self, method: Method, solver: BlockSolver, executor: Executor) -> bool:
        """Whether arrays stay where they are: always, or where they do not fit, or are wanted elsewhere."""
        if not getattr(method, "reads_boxes", False):
            return False
        if not getattr(method, "takes_memory", False):
            return True
        if not isinstance(self.energy.pairs, GridPairs):
            return False
        elsewhere = getattr(executor, "elsewhere", False)
        several = isinstance(self.energy, LabelEnergy)
        wanted_elsewhere = elsewhere and (not self.energy.in_memory or several)
        kept = several and self.folder is not None
        return wanted_elsewhere or kept or self._lacking(method, solver) is not None

    def _automatic_method(self, solver: BlockSolver, executor: Executor) -> tuple[Method, str]:
        """The global minimum where flows can find it.

        With negative weights, blocks solved once and swept twice end as low as after ten rounds, within 0.5 % of the
        whole on all instances of experiments/curvature.py, in half the time.
        """
        if isinstance(self.energy, LabelEnergy):
            return self._label_method(self.energy, executor)
        energy, on_grid = self.energy, isinstance(self.energy.pairs, GridPairs)
        elsewhere = getattr(executor, "elsewhere", False)
        flows = isinstance(solver, FlowSolver)
        boxes_will_do = energy.submodular and on_grid and flows and not self._overlaps
        if self.folder is not None and boxes_will_do:
            return Bracketing(), "what blocks find is kept in a folder, from which a run can be resumed"
        if not energy.submodular:
            return Admm(rounds=1), "some weights are negative: blocks agree on labels of low energy"
        if not flows:
            return Admm(), f"{type(solver).__name__} shows no flow, and this takes any solver"
        if self._overlaps:
            return Admm(), "blocks overlap"
        if elsewhere and boxes_will_do:
            return Bracketing(), "blocks run in other processes, and this finds the global minimum there"
        if elsewhere:
            return Admm(), "blocks of a graph run in other processes"
        if self.folder is not None:
            return Admm(), "what blocks find is kept in a folder, from which a run can be resumed"
        lacking = self._lacking(Exact(), solver)
        if lacking is not None and boxes_will_do:
            return Bracketing(), f"the global minimum, box by box: {lacking}"
        if lacking is not None:
            self._require_room(Exact(), solver)
        return Exact(), "no weight is negative, and everything fits into memory: the global minimum"

    def _label_method(self, energy: LabelEnergy, executor: Executor) -> tuple[Method, str]:
        if isinstance(self.solver, LabelSolver):
            if self.folder is not None:
                raise InputError(
                    f"solver is {self.solver!r}, which alone keeps no checkpoint; Moves() do, bounded by it. "
                    f"Pass method=Moves(), or leave checkpoint and resume out."
                )
            return Messages(), "message passing alone, as asked"
        rule = energy.metric
        if rule is not None and rule.kind == "potts" and energy.is_metric:
            return Moves(), "a cut for each label proves what it can, and expansions lower the rest"
        if energy.is_convex and energy.label_count > 2:  # of two labels a single layer is all there is
            return (
                Moves(),
                "jumps up and down, each a minimum cut: all is convex, so they find the minimum, but for rounding",
            )
        if why_no_layers(energy) is not None:
            return Moves(), self._why_moves(energy)
        reason = self._no_layers(energy, executor)
        if reason is None:
            return Layers(), "one cut on layers, as the metric is convex and all fits into memory: the global minimum"
        return Moves(), f"{self._why_moves(energy)}; one cut on layers would find the minimum, but {reason}"

    def _why_moves(self, energy: LabelEnergy) -> str:
        rule = energy.metric
        if energy.is_metric:
            return "expansions, each a minimum cut, as no detour between labels is shorter"
        if energy.is_semimetric and rule is not None and rule.is_ordered:
            return "jumps up and down and expansions, cut off where detours between labels are too short"
        if energy.is_semimetric:
            return "swaps, each a minimum cut; for expansions detours between labels are too short"
        return "fusions, as some labels cost less than equal ones, or some weights are negative"

    def _no_layers(self, energy: LabelEnergy, executor: Executor) -> str | None:
        """What speaks against layers where the metric is convex, in words; None where nothing does."""
        if self.folder is not None:
            return "it keeps no checkpoint"
        if getattr(executor, "elsewhere", False):
            return "blocks run in other processes"
        if not energy.in_memory:
            return "costs are not in memory"
        if self.solver is not None and not isinstance(self.solver, FlowSolver):
            return f"{type(self.solver).__name__} shows no flow"
        try:
            return self._lacking(Layers(), self._layer_solver()[0])
        except InputError as error:  # beyond what the core, or float64, can count
            return str(error).rstrip(".")

    def _require_layers(self, executor: Executor) -> None:
        """Refuse layers that were asked for and cannot be cut."""
        energy = self.energy
        assert isinstance(energy, LabelEnergy)
        require_layers(energy)
        fault = self._no_layers(energy, executor)
        if fault is not None:
            raise InputError(
                f"method is Layers(), {energy.label_count - 1} of them for {energy.label_count} labels of "
                f"{energy.pairs.sites:,} sites, but {fault}; expected layers that are in memory, cut by MaxFlow() in "
                f"this process. Allow more memory, or leave method out for moves, which take less."
            )

    def _layer_solver(self) -> tuple[BlockSolver, str]:
        """What cuts layers."""
        assert isinstance(self.energy, LabelEnergy)
        if isinstance(self.solver, LabelSolver):
            raise InputError(
                f"solver is {self.solver!r}, and method is Layers(), which are cut by MaxFlow(); leave one of them out."
            )
        if self.solver is not None:
            return self.solver, "as asked"
        return MaxFlow(), "a minimum cut of the layers is the minimum"

    def _bits(self, method: Method, solver: BlockSolver) -> int:
        if isinstance(method, Layers) and isinstance(solver, MaxFlow) and solver.bits is None:
            return self._layer_bits
        return expected_bits(cut_pairs(self.energy), solver)

    @cached_property
    def _layer_bits(self) -> int:
        """What the costs of layers need."""
        assert isinstance(self.energy, LabelEnergy)
        return counted(LayerNumbers.of(self.energy), None).bits

    def _lacking(self, method: Method, solver: BlockSolver) -> str | None:
        """What of memory is missing to have everything in it, in words; None where nothing is."""
        energy, flows = self.energy, isinstance(solver, FlowSolver)
        if energy.in_memory and (not flows or isinstance(energy.pairs, TablePairs)):
            return None  # of other solvers there is no good model
        needed = bytes_in_memory(
            energy,
            method,
            bits=self._bits(method, solver),
            layout=self._layout(method) if isinstance(energy.pairs, GridPairs) else None,
            held=self.held,
        )
        if self.budget is not None:
            short = needed > self.budget
            return f"in one piece it takes {as_text(needed)}, and {as_text(self.budget)} are allowed" if short else None
        available = available_bytes()
        if available is None:
            return None
        here = needed - PROCESS_BYTES - (energy.site_bytes * energy.pairs.sites if energy.in_memory else 0)
        return (
            f"in one piece it takes {as_text(needed)}, and {as_text(available)} are available"
            if here > available
            else None
        )

    def _layout(self, method: Method) -> tuple[int, ...]:
        blocks, pairs = self.blocks, cut_pairs(self.energy)
        if isinstance(blocks, Partition):
            return tuple(len(where) + 1 for where in blocks.cuts or ())
        return layout_of(pairs.shape, self._automatic_blocks(method) if blocks is None else blocks)

    def _automatic_blocks(self, method: Method) -> int:
        return automatic_blocks(cut_pairs(self.energy), method, layers_of(self.energy, method))

    def _require_room(self, method: Method, solver: BlockSolver) -> None:
        lacking = self._lacking(method, solver)
        if lacking is None:
            return
        sites = " x ".join(map(str, self.energy.shape))
        advice = "Allow more memory, or use Bracketing() or Admm(), which work box by box."
        raise InputError(f"{sites} sites are to be in memory, all at once: {lacking}. {advice}")

    def _blocks(
        self, method: Method, solver: BlockSolver, executor: Executor, *, in_boxes: bool
    ) -> tuple[Partition | None, tuple[tuple[int, ...], ...] | None, str]:
        """The partition, or where to cut, and why."""
        energy, blocks, overlap = self.energy, self.blocks, self.overlap
        if isinstance(blocks, Partition):
            return blocks, blocks.cuts, "as asked"
        overlapping = keeps_blocks(method)
        if in_boxes and overlap and not overlapping:
            raise InputError(f"overlap is {overlap!r}; {method!r} reads boxes without overlap. Leave overlap out.")
        if blocks is None and (in_boxes or self.resume) and isinstance(energy.pairs, GridPairs):
            cuts, why = self._box_cuts(method, solver, executor)
            if not overlapping or (not overlap and (overlap is not None or energy.submodular)):
                return None, cuts, why
            partition = Partition.at(energy.shape, cuts, overlap=overlap or 0)
            if overlap is None:
                partition = sharing_the_reach(partition, energy.pairs)
            return partition, partition.cuts, why
        pairs = cut_pairs(energy)
        number = self._automatic_blocks(method) if blocks is None else blocks
        why = "as asked" if blocks is not None else _why_so_many(cast("int", number), method)
        if isinstance(pairs, GraphPairs):
            return Partition.graph(pairs, cast("int", number), overlap=overlap or 0), None, why
        if not overlap and (overlap is not None or energy.submodular or isinstance(energy, LabelEnergy)):
            layout = layout_of(energy.shape, number)
            cuts = tuple(tuple(i * n // k for i in range(1, k)) for n, k in zip(energy.shape, layout, strict=True))
            return None, cuts, why
        partition = Partition.grid(energy.shape, number, overlap=overlap or 0)
        if overlap is None:
            partition = sharing_the_reach(partition, pairs)
            why += "; they share as many sites as pairs reach"
        return partition, partition.cuts, why

    def _box_cuts(
        self, method: Method, solver: BlockSolver, executor: Executor
    ) -> tuple[tuple[tuple[int, ...], ...], str]:
        energy = self.energy
        if self.resume:
            assert self.folder is not None
            before = cuts_of(Path(self.folder), energy.shape)
            return tuple(map(tuple, before)), "as in the run that is resumed"
        limit = self._limit
        cuts = fitting_cuts(
            energy,
            memory=limit,
            workers=executor.workers,
            bits=expected_bits(cut_pairs(energy), solver),
            chunks=energy.chunks,
            written=getattr(self.out, "chunks", None),
            growth=self._growth if keeps_blocks(method) else None,
        )
        return cuts, f"the fewest of which {executor.workers} at work fit into {as_text(limit)}"

    @property
    def _growth(self) -> float | int:
        """How much larger a block is than its piece of the grid: by a fraction of its side, or by so many sites."""
        if self.overlap is None and not self.energy.submodular and isinstance(self.energy.pairs, GridPairs):
            return max(self.energy.pairs.reach)
        return self.overlap or 0

    @cached_property
    def _limit(self) -> int:
        """What boxes at work may take together: by default half of what is available."""
        if self.budget is not None:
            return self.budget
        available = available_bytes()
        return (DEFAULT_MEMORY if available is None else available) // 2

    def _integers(self, found: Plan) -> Decision:
        bits = getattr(found.solver, "bits", None)
        if not isinstance(found.solver, FlowSolver):
            return Decision("integers", "none", "the solver counts in floats")
        if bits is None and isinstance(found.method, Layers):
            return Decision("integers", f"{found.bits} bits", "what the costs of the layers need")
        if bits is None:
            return Decision(
                "integers",
                "16, 32 or 64 bits",
                f"the narrowest that holds the costs, 32 where they are rounded; memory is planned for {found.bits}",
            )
        why = "as asked" if self.solver is not None else "a small problem can afford that rounding does not show"
        return Decision("integers", f"{bits} bits", why)

    def _arrays(self, found: Plan) -> Decision:
        if not found.in_boxes:
            why = "they are there" if self.energy.in_memory else "they fit, and are read first"
            return Decision("arrays", "in memory", why)
        why = "each block reads its part, and forgets it"
        if keeps_blocks(found.method):
            why = "each block reads its part; as many stay open as fit into memory"
        return Decision("arrays", "box by box", why)


def _check_arguments(energy: object, method: object, solver: object, executor: object) -> None:
    if not isinstance(energy, (Energy, LabelEnergy)):
        raise InputError(
            f"energy is of type {type(energy).__name__}; expected an Energy. Make one with Energy.grid(...)."
        )
    check_plug_in("method", method, "steps", such_as="dope.Exact()")
    several = isinstance(energy, LabelEnergy)
    if method is not None and several != getattr(method, "takes_labels", False):
        raise InputError(
            f"method is {method!r}, which is for {'two labels' if several else 'several labels'}, and energy is a "
            f"{type(energy).__name__}; leave method out{', or use Moves()' if several else ''}."
        )
    check_plug_in("solver", solver, "prepare", such_as="dope.MaxFlow()")
    check_plug_in("executor", executor, "gather", such_as="dope.Threads()")


def _folder(name: str, path: object) -> str | None:
    """The name of a folder, if one is given."""
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise InputError(f"{name} is {path!r}; expected the path of a folder, or None.")
    if path is not None and not os.fspath(path):
        raise InputError(f"{name} is {path!r}, an empty name; expected the path of a folder, or None.")
    return None if path is None else os.fspath(path)


def _check_partition(energy: Energy | LabelEnergy, blocks: Partition, overlap: float | int | None) -> None:
    if blocks.shape != energy.shape:
        raise InputError(f"the partition is for shape {blocks.shape}; expected the energy's {energy.shape}.")
    if (blocks.cuts is None) == isinstance(energy.pairs, GridPairs):
        raise InputError("the partition is of a graph and the energy of a grid, or the other way round.")
    if overlap:
        raise InputError(f"overlap is {overlap!r} beside a Partition, which has its own; leave overlap out.")


def _why_so_many(number: int, method: Method) -> str:
    if number == 1:
        return "so small that cutting it up does not pay"
    return (
        "work for threads, with few pairs across seams"
        if getattr(method, "shares_a_flow", False)
        else "of a size that a solver takes well"
    )
