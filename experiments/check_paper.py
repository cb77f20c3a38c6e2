"""A second way to the numbers of `dope paper`: its ADMM once more, in plain NumPy, with PyMaxflow in the blocks.

Some runs of a folder are drawn by lot and made anew. Unaries and blocks are dope's; weights, shares, coupling, rounds,
energies and Dice are computed here, from the equations of the paper in their local form, and the exact minimum is
PyMaxflow's. Labels of a round may differ where minima tie, and in the last digits, as dope counts costs in integers.

    DOPE_DATA=folder python experiments/check_paper.py paper --number 3 --seed 1
    python experiments/check_paper.py paper --quick

Prints delta E and Dice by dope and by this script; exit code 1 if delta E differs by more than 2 % of itself and
0.0005 points, or Dice by more than 0.0005.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import maxflow
import numpy as np
from numpy.typing import NDArray

import dope
from dope.arrays import Box
from dope.paper.study import plane, volume

Reals = NDArray[np.float64]
Labels = NDArray[np.bool_]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="what `dope paper -o` wrote")
    parser.add_argument("--number", type=int, default=3, help="how many runs")
    parser.add_argument("--seed", type=int, default=0, help="of the lot")
    parser.add_argument("--quick", action="store_true", help="of the quick runs")
    parser.add_argument("--most", type=float, default=4e8, help="pairs; runs with more are not drawn")
    arguments = parser.parse_args()
    runs = [run for run in _runs(arguments.folder, arguments.quick) if run["pairs"] <= arguments.most]
    if not runs:
        raise SystemExit(f"{arguments.folder}: no runs of the paper's ADMM; make some with `dope paper 2d -o FOLDER`")
    drawn = np.random.default_rng(arguments.seed).choice(len(runs), min(arguments.number, len(runs)), replace=False)
    try:
        wrong = [not _agrees(runs[k], arguments.quick) for k in drawn]
    except dope.DopeError as error:
        raise SystemExit(str(error)) from None
    sys.exit(any(wrong))


def _runs(folder: Path, quick: bool) -> Iterator[dict[str, Any]]:
    for name in ("2d", "3d"):
        file = folder / (name + "-quick" * quick) / "runs.jsonl"
        for line in file.read_text().splitlines() if file.exists() else []:
            run = json.loads(line)
            if run["method"] == "paper" and not run.get("skipped"):
                yield run


def _agrees(run: dict[str, Any], quick: bool) -> bool:
    study = {"2d": plane, "3d": volume}[run["experiment"]](quick=quick)
    stated = study.state(run["case"], run["kernel"], quick)
    grid = Grid.of(stated.features, stated.lam, run["kernel"], stated.unary.shape)
    exact = grid.minimum(stated.unary.astype(np.float64))
    least = grid.energy(stated.judged, exact)
    boxes = [block.where for block in dope.Partition.grid(exact.shape, run["blocks"], overlap=run["size"] / 100).blocks]
    mu0, rounds = (100.0, 3) if run["experiment"] == "2d" else (500.0, 10)
    found = [
        (100 * (grid.energy(stated.judged, labels) - least) / abs(least), _dice(labels, exact))
        for labels in grid.admm(stated.unary.astype(np.float64), boxes, mu0=mu0, rounds=rounds)
    ]
    first, best = found[0], min(found)
    theirs_first = run["rounds"][0]
    pairs = [
        (theirs_first["delta_percent"], first[0], theirs_first["dice"], first[1]),
        (run["delta_percent"], best[0], run["dice"], best[1]),
    ]
    print(f"{run['experiment']} {run['case']}, kernel {run['kernel']}, {run['blocks']} blocks, Size_{run['size']:02}")
    good = True
    for when, (delta, delta_here, dice, dice_here) in zip(("one round", "the end"), pairs, strict=True):
        same = math.isclose(delta, delta_here, rel_tol=0.02, abs_tol=0.0005) and abs(dice - dice_here) <= 0.0005
        good &= same
        print(
            f"  after {when}: delta E {delta:.5f} % by dope, {delta_here:.5f} % here; Dice {dice:.5f}, {dice_here:.5f}"
            f"{'' if same else '   DIFFERENT'}"
        )
    return good


@dataclass(frozen=True)
class Grid:
    """Weights lam exp(-beta |x_p - x_q|^2) / |p - q| between sites, for one offset of each opposite pair."""

    image: Reals
    lam: float
    beta: float
    offsets: list[tuple[int, ...]]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, image: NDArray[Any], lam: float, kernel: int, shape: tuple[int, ...]) -> Grid:
        """A square of offsets in 2D, a ball in 3D; beta = 1 / (2 mean |x_p - x_q|^2) over all pairs."""
        pixels = np.asarray(image, dtype=np.float64).reshape(*shape, -1)
        r = kernel // 2
        offsets = [o for o in product(range(-r, r + 1), repeat=len(shape)) if o > (0,) * len(shape)]
        if len(shape) == 3:
            offsets = [o for o in offsets if math.hypot(*o) <= r]
        total, number = 0.0, 0
        for o in offsets:
            tail, head = _ends(o)
            change = ((pixels[tail] - pixels[head]) ** 2).sum(axis=-1)
            total, number = total + float(change.sum()), number + change.size
        return cls(pixels, lam, number / (2 * total), offsets, shape)

    def weights(self, o: tuple[int, ...], box: Box = ()) -> Reals:
        """Of the pairs p, p + o with both ends in a box."""
        tail, head = _ends(o)
        pixels = self.image[box]
        change = ((pixels[tail] - pixels[head]) ** 2).sum(axis=-1)
        return np.asarray(self.lam * np.exp(-self.beta * change) / math.hypot(*o))

    def energy(self, unary: NDArray[Any], labels: Labels) -> float:
        value = float(unary[labels].sum(dtype=np.float64))
        for o in self.offsets:
            tail, head = _ends(o)
            value += float(self.weights(o)[labels[tail] != labels[head]].sum())
        return value

    def minimum(self, unary: Reals, box: Box = (), share: Reals | None = None) -> Labels:
        """The least of unary'y + sum of share_p share_q w_pq |y_p - y_q| within a box."""
        graph = maxflow.GraphFloat()
        nodes = graph.add_grid_nodes(unary.shape)
        graph.add_grid_tedges(nodes, np.maximum(-unary, 0), np.maximum(unary, 0))
        reach = max(map(max, self.offsets))
        for o in self.offsets:
            if any(abs(x) >= n for x, n in zip(o, unary.shape, strict=True)):
                continue
            tail, head = _ends(o)
            full = np.zeros(unary.shape)
            full[tail] = self.weights(o, box) * (1.0 if share is None else share[tail] * share[head])
            structure = np.zeros((2 * reach + 1,) * unary.ndim)
            structure[tuple(x + reach for x in o)] = 1
            graph.add_grid_edges(nodes, full, structure, symmetric=True)
        graph.maxflow()
        return np.asarray(~graph.get_grid_segments(nodes))

    def admm(self, unary: Reals, boxes: list[Box], *, mu0: float, rounds: int) -> Iterator[Labels]:
        """The paper's rounds: labels y > 1/2, or by majority where those cost less."""
        q = np.zeros(self.shape)
        for box in boxes:
            q[box] += 1
        y, mu = np.full(self.shape, 0.5), mu0
        a = [np.zeros(q[box].shape) for box in boxes]
        for _ in range(rounds):
            votes, pulls = np.zeros(self.shape), np.zeros(self.shape)
            labels = []
            for box, a_k in zip(boxes, a, strict=True):
                price = unary[box] / q[box] + self._coupled(y, q, box) + mu * (a_k - y[box] + 0.5)
                labels.append(self.minimum(price, box, 1 / q[box]))
                votes[box] += labels[-1] + a_k
                pulls += self._pull(labels[-1], q, box)
            y = (votes - pulls / mu) / q
            apart = 0.0
            for k, box in enumerate(boxes):
                a[k] = a[k] + labels[k] - y[box]
                apart = max(apart, float(np.linalg.norm(labels[k] - y[box]) / math.sqrt(labels[k].size)))
            counts = np.zeros(self.shape)
            for box, one in zip(boxes, labels, strict=True):
                counts[box] += one
            roundings = (y > 0.5, counts > q / 2)
            yield min(roundings, key=lambda one: self.energy(unary, one))
            if apart <= 1e-3:
                return
            mu *= 1.05

    def _coupled(self, y: Reals, q: Reals, box: Box) -> Reals:
        """(A_k y)_i = (1/q_i) sum over j of w_ij c_ijk (y_i - y_j), c = 1 outside of the block, 1 - 1/q_j inside."""
        out = np.zeros(self.shape)
        for first, second, w, c in self._arcs(q, box):
            out[first] += w * c * (y[first] - y[second])
        return out[box] / q[box]

    def _pull(self, labels: Labels, q: Reals, box: Box) -> Reals:
        """A_k' y_k on all sites."""
        mine = np.zeros(self.shape)
        mine[box] = labels / q[box]
        out = np.zeros(self.shape)
        for first, second, w, c in self._arcs(q, box):
            out[first] += w * c * mine[first]
            out[second] -= w * c * mine[first]
        return out

    def _arcs(self, q: Reals, box: Box) -> Iterator[tuple[Box, Box, Reals, Reals]]:
        """Arcs i -> j with i in the block or at most a kernel away, as aligned boxes of the whole; c is 0 elsewhere."""
        reach = max(map(max, self.offsets))
        around = tuple(
            slice(max(0, s.start - reach), min(n, s.stop + reach)) for s, n in zip(box, self.shape, strict=True)
        )
        inside = np.zeros(self.shape, dtype=bool)
        inside[box] = True
        for o in self.offsets:
            tail, head = (_shifted(around, end, self.shape) for end in _ends(o))
            w = self.weights(o, around)
            for first, second in ((tail, head), (head, tail)):
                c = np.where(inside[second], 1 - 1 / q[second], 1.0) * inside[first]
                yield first, second, w, c


def _ends(o: tuple[int, ...]) -> tuple[Box, Box]:
    """Aligned views of p and of p + o."""
    tail = tuple(slice(max(0, -x), -x if x > 0 else None) for x in o)
    head = tuple(slice(max(0, x), x if x < 0 else None) for x in o)
    return tail, head


def _shifted(around: Box, end: Box, shape: tuple[int, ...]) -> Box:
    """A view of a box as a box of the whole."""
    out = []
    for s, e, n in zip(around, end, shape, strict=True):
        start, stop, _ = e.indices(s.stop - s.start)
        assert s.start + stop <= n
        out.append(slice(s.start + start, s.start + stop))
    return tuple(out)


def _dice(labels: Labels, other: Labels) -> float:
    return 2 * float((labels & other).sum()) / float(labels.sum() + other.sum())


if __name__ == "__main__":
    main()
