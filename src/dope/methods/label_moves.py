"""Moves: every open site keeps its label x_i or takes p_i, and the best of all these choices is one binary problem.

    expansion to a    p = a everywhere
    swap of a and b   where x is a or b: take one of them, whatever it was
    jump by s         p = x + s or x - s, as far as there are labels: where labels have an order
    fusion            p is any labelling

`LabelEnergy.fusion(x, p)` is that problem; of a swap x is a, and p is b, where x is either. Where no weight of it is
negative a minimum cut solves it: always for expansions of a metric, V(b,c) <= V(b,a) + V(a,c), and for swaps of a
semi-metric (Boykov, Veksler, Zabih 2001). Else QPBO labels some sites such that taking over these alone never costs
more (Boros and Hammer), and goes on from there.

Jumps are minimum cuts where V is convex in a - b; where the costs are convex in the label as well, labels that no jump
by 1 lowers are a minimum (E is L-natural-convex: Murota, Discrete Convex Analysis, 2003). Where V stops rising some
weights are negative: such a pair, -|w'| |y_i - y_j|, is no more than |w'| (y_i + y_j), and the same at y = 0. With that
in its place ("cut off") the move is a minimum cut that raises nothing (Rother, Kumar, Kolmogorov, Blake 2005).

An expansion that was tried before can gain only where labels changed since. Let D be these sites and their neighbours,
and R a region around them. If all outside R took label a, the smallest minimizer within R would be S. The real one S*
has no more there, S* & R <= S, and each of its connected parts has a site of D, or it would have gained before. So if
no part of S leads from D to the border of R, S* is the parts of S that do not reach the border: one cut in R says what
one of everything would. Else everything is tried.

A move changes labels only where that lowers the energy, so it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, islice
from typing import Literal, cast

import numpy as np
import numpy.typing as npt

from dope.arrays import BinaryLabels, Box, Labels, Mask
from dope.cancellation import check_cancelled
from dope.energy import Energy
from dope.label_energy import LabelEnergy
from dope.methods.lending import Minimizers
from dope.methods.tiling import bounding_box
from dope.pairs import GridPairs, ends
from dope.protocols import Answer, BlockSolver

Kind = Literal["expansion", "swap", "fusion", "jump"]
Move = tuple[str, int] | tuple[str, int, int]
Solve = Callable[[Energy, BinaryLabels], Answer]
"""What minimizes the binary problem of a move, or finds labels that are no worse than those it begins with."""
Together = Callable[["Mover", "Sequence[Move]"], "Sequence[Mover]"]
"""Tries several moves from the same labels, each with a mover of its own."""

# Moves that are tried from the same labels, whatever the threads, so that labels do not depend on these.
AT_ONCE = 4


# Jumps of labels whose costs are no convex function begin where expansions left them, which need not be to all labels
# at first. Of the penguin's 256 labels to 32, then 64, and so on: the energy that expansions to all 256 end with is
# passed in a tenth of their time, and where this ends it is 8 % lower.
FIRST_EXPANSIONS = 32


# How far R reaches beyond D, and up to which part of all sites it is tried. On the tsukuba pair regions of a few
# hundred sites tell in a fifth of a whole cut's time; of those of 10 % of all, parts reach the border too often.
REACH = 6
WORTH_A_REGION = 0.02


@dataclass(eq=False)
class Mover:
    """Labels that moves lower the energy of; sites that are not `free` keep theirs.

    `exact` says that every move so far was the best of its kind, not by rounding alone.
    """

    energy: LabelEnergy
    labels: Labels
    free: Mask
    solve: Solve
    cut_off: bool = False
    together: Together | None = field(default=None, init=False)
    exact: bool = field(default=True, init=False)
    _clock: int = field(default=0, init=False)  # counts moves
    _latest: int = field(default=0, init=False)  # when a label changed last
    _stride: int = field(default=0, init=False)
    _tried: dict[Move, int] = field(default_factory=dict, init=False)
    _changed: npt.NDArray[np.int32] = field(init=False)

    def __post_init__(self) -> None:
        self._changed = np.zeros(self.labels.shape, dtype=np.int32)

    def cycle(self, kind: Kind) -> Iterator[int]:
        """Every move of a kind that may still gain, once, jumps as long as they gain; how many sites each changed."""
        number = self.energy.label_count
        if kind == "jump":
            yield from self._jumps()
        elif kind == "swap":
            yield from self._each(("swap", *both) for both in combinations(range(number), 2))
        else:
            yield from self._each(("expansion", a) for a in range(number))

    def _each(self, moves: Iterable[Move]) -> Iterator[int]:
        waiting = iter(moves)
        while some := list(islice(waiting, 1 if self.together is None else AT_ONCE)):
            self._clock += 1
            check_cancelled()
            hopeful = [move for move in some if self._tried.get(move, -1) < self._latest]
            self._tried.update((move, self._clock) for move in some if move not in hopeful)
            if self.together is None or len(hopeful) == 1:
                yield from map(self.attempt, hopeful)
            elif hopeful:
                yield from self._choose_among(hopeful, self.together(self, hopeful))

    def _choose_among(self, moves: Sequence[Move], parts: Sequence[Mover]) -> Iterator[int]:
        """Take over what each of several moves found by itself, as far as no pair joins it to another's."""
        pairs = self.energy.pairs
        assert isinstance(pairs, GridPairs)
        tried, before = self._clock, self.labels.copy()
        near = np.zeros(before.shape, dtype=np.bool_)
        for move, part in zip(moves, parts, strict=True):
            self.exact &= part.exact
            found = part.labels != before
            changed = int(np.count_nonzero(found))
            if changed and (found & near).any():
                yield 0  # it is tried again
                continue
            self._note(move, changed, tried)
            if changed:
                self._clock += 1
                self._take(self.energy.whole, self.labels.copy(), np.where(found, part.labels, self.labels))
                near |= grown(found, pairs.reach)
            yield changed

    def _jumps(self) -> Iterator[int]:
        """Expansions to labels a stride apart, and jumps from there down to 1; half the stride where nothing gained."""
        number, convex = self.energy.label_count, self.energy.is_convex
        begun = self._latest
        while self._latest == begun:
            longest = number // 2 if convex else number // FIRST_EXPANSIONS
            last = self._stride == 1 or (convex and self._stride > 0)
            self._stride = 1 if last else self._stride // 2 or _power_of_two(longest)
            if not convex:
                yield from self._each(("expansion", a) for a in range(0, number, self._stride))
            length = self._stride
            while length:
                before = self._latest
                yield from self._each((("jump", length), ("jump", -length)))
                length = length if self._latest != before else length // 2
            if last:
                return

    @property
    def at_minimum(self) -> bool:
        """Whether the labels are known to be a minimum: no jump by 1 lowers an energy that is convex."""
        tried = (self._tried.get(("jump", length), -1) >= self._latest for length in (1, -1))
        return self.exact and all(tried) and self.energy.is_convex

    def settle(self, kind: Kind) -> int:
        """Cycles until no move of a kind lowers the energy; how many sites were changed, all times counted."""
        total = 0
        while changed := sum(self.cycle(kind)):
            total += changed
        return total

    def attempt(self, move: Move) -> int:
        """Take a move if it gains; how many sites it changed."""
        labels, kind = self.labels, self.labels.dtype.type
        if move[0] == "expansion":
            near = self._expand_near(move[1], self._tried.get(move))
            changed = self._choose(labels, np.where(self.free, kind(move[1]), labels)) if near is None else near
        elif move[0] == "jump":
            there = np.clip(labels.astype(np.int32) + move[1], 0, self.energy.label_count - 1)
            changed = self._choose(labels, np.where(self.free, there.astype(kind), labels))
        else:
            _, a, b = cast("tuple[str, int, int]", move)
            either = self.free & ((labels == a) | (labels == b))
            changed = self._choose(np.where(either, kind(a), labels), np.where(either, kind(b), labels))
        self._note(move, changed, self._clock)
        return changed

    def _note(self, move: Move, changed: int, clock: int) -> None:
        """A move was tried; what jumped once may gain by the same jump again."""
        if move[0] != "jump" or not changed:
            self._tried[move] = clock

    def confined(self, box: Box, free: Mask, solve: Solve) -> Mover:
        """The same for a box in which these sites are free, with what is known of moves there."""
        energy = self.energy if box == self.energy.whole else self.energy.at(box)
        part = Mover(energy, self.labels[box].copy(), free, solve, self.cut_off)
        part._clock, part._latest, part._stride = self._clock, self._latest, self._stride
        part._tried, part._changed = dict(self._tried), self._changed[box].copy()
        return part

    def adopt(self, parts: Sequence[tuple[Box, Mover]]) -> None:
        """Take over what moves found in boxes whose free sites share no pair; sites free in none count as changed."""
        movers = [part for _, part in parts]
        self._clock = self._latest = 1 + max(part._clock for part in movers)
        self._stride = max(part._stride for part in movers)
        self._tried = {
            move: min(part._tried[move] for part in movers)
            for move in movers[0]._tried
            if all(move in part._tried for part in movers)
        }
        self._changed[self.free] = self._clock
        for box, part in parts:
            self.labels[box][part.free] = part.labels[part.free]
            self._changed[box][part.free] = part._changed[part.free]
            self.exact &= part.exact

    def fuse(self, proposal: Labels) -> int:
        """Take over what lowers the energy of another labelling; at how many sites."""
        return self._choose(self.labels, proposal)

    def _choose(self, one: Labels, other: Labels) -> int:
        """Between two labellings, which differ at free sites only: the best choice, if it is better than the labels."""
        differ = one != other
        if not differ.any():
            return 0
        where, energy = self._window(differ)
        before, zero, unit = (np.ascontiguousarray(image[where]) for image in (self.labels, one, other))
        choice = energy.fusion(zero, unit, before=0.0)  # what others are above that is all that counts
        chosen = (before == unit) & (zero != unit)
        if self.cut_off and not choice.submodular:
            answer = replace(self.solve(_cut_off(choice), chosen), exact=False)
        else:
            answer = self.solve(choice, chosen)
        self.exact &= answer.exact and answer.rounding_error == 0.0
        taken = answer.labels & (zero != unit)
        after = np.where(taken, unit, zero)
        changed = int(np.count_nonzero(after != before))
        if not changed or not _lowers(answer, choice, chosen, taken, energy, before, after):
            return 0
        self._take(where, before, after)
        return changed

    def _take(self, where: Box, before: Labels, after: Labels) -> None:
        self._latest = self._clock
        self._changed[where][after != before] = self._clock
        self.labels[where] = after

    def _expand_near(self, label: int, since: int | None) -> int | None:
        """What an expansion changes that was tried before, by a cut of a region; None where that does not tell."""
        pairs = self.energy.pairs
        if since is None or not self.exact or not isinstance(pairs, GridPairs):
            return None
        recent = self._changed > since
        if np.count_nonzero(recent) > WORTH_A_REGION * recent.size:
            return None
        news = grown(recent, pairs.reach)
        region = grown(news, [REACH] * news.ndim) & self.free
        if np.count_nonzero(region) > WORTH_A_REGION * region.size:
            return None
        outside = self.free & ~region
        kept = np.where(outside, self.labels.dtype.type(label), self.labels)
        differ = region & (kept != label)
        if not differ.any():
            return 0
        where, energy = self._window(differ)
        before = np.ascontiguousarray(kept[where])
        after = np.where(differ[where], before.dtype.type(label), before)
        choice = energy.fusion(before, after, before=0.0)
        if not choice.submodular:
            return None
        answer = self.solve(choice, np.zeros(choice.shape, dtype=np.bool_))
        if not answer.exact or answer.rounding_error != 0.0:
            return None
        taken = answer.labels & differ[where]
        leaking = reached(taken, grown(outside[where], pairs.reach), pairs.reach)
        if (leaking & news[where]).any():
            return None
        taken &= ~leaking
        if not taken.any():
            return 0
        if choice.exactly(taken) >= choice.exactly(np.zeros_like(taken)):  # of a solver that takes what gains nothing
            return None
        self._take(where, self.labels[where].copy(), np.where(taken, after, self.labels[where]))
        return int(np.count_nonzero(taken))

    def _window(self, differ: Mask) -> tuple[Box, LabelEnergy]:
        """The box in which labels may change, with its neighbours, and its energy; of a graph all of it."""
        pairs, energy = self.energy.pairs, self.energy
        if not isinstance(pairs, GridPairs):
            return energy.whole, energy
        box = bounding_box(differ)
        assert box is not None
        where = pairs.around(box)
        return where, energy if where == energy.whole else energy.at(where)


def _cut_off(choice: Energy) -> Energy:
    """An energy that is nowhere less and at y = 0 the same, without the negative weights."""
    repulsive, unary = choice.pairs.repulsive, choice.unary.copy()
    if isinstance(repulsive, GridPairs):
        native = repulsive.native()
        for m, offset in enumerate(repulsive.offsets[repulsive.fits].tolist()):
            (tail, head), weights = ends(offset), native.weights(m)
            unary[tail] += weights[tail]
            unary[head] += weights[tail]
    else:
        first, second, weights = repulsive.edges()
        np.add.at(unary, first, weights)
        np.add.at(unary, second, weights)
    return Energy(unary, choice.pairs.attractive, choice.constant)


def _power_of_two(number: int) -> int:
    """The largest that is not more, and 1 at least."""
    return 1 << max(0, number.bit_length() - 1)


def grown(mask: Mask, reach: Sequence[int]) -> Mask:
    """The sites of a mask and all in a box around each of them, as far as it reaches along each axis."""
    found = mask.copy()
    for axis, length in enumerate(reach):
        done = 0
        while done < length:
            step = min(done + 1, length - done)  # what a box reaches doubles, and one more
            along = np.moveaxis(found, axis, 0)
            before = along.copy()
            along[step:] |= before[:-step]
            along[:-step] |= before[step:]
            done += step
    return found


def reached(mask: Mask, seeds: Mask, reach: Sequence[int]) -> Mask:
    """The sites of a mask that can be reached within it from seeds."""
    found, number = mask & seeds, -1
    while number != (number := int(np.count_nonzero(found))):
        found = grown(found, reach) & mask
    return found


def solving(solver: BlockSolver) -> Solve:
    """Each move as one problem, in memory that was lent to the one before."""
    minimizers = Minimizers(solver)

    def solve(choice: Energy, start: BinaryLabels) -> Answer:
        with minimizers.lent(choice) as minimizer:
            return minimizer.minimize(choice.unary, start=start)

    return solve


def _lowers(
    answer: Answer, choice: Energy, chosen: BinaryLabels, taken: BinaryLabels, energy: LabelEnergy,
    before: Labels, after: Labels,
) -> bool:  # fmt: skip
    """Whether a choice that was found is better than the one that was, not by rounding alone."""
    if answer.exact and answer.rounding_error == 0.0:
        if not chosen.any():  # and the smallest minimizer is another
            return True
        return choice.exactly(taken) < choice.exactly(chosen)
    return energy.exactly(after) < energy.exactly(before)
