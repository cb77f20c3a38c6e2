"""Draws the figures of the pages: python docs/figures.py FOLDER

Each is a function that returns a figure, made by running dope on something small; its name is that of the file.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import dope
from dope import io, report, samples
from dope.models import automatic_lam, color_unary, curvature

# Okabe and Ito, told apart by colour-blind readers too.
BLUE, ORANGE, GREEN, PURPLE = "#0072b2", "#d55e00", "#009e73", "#cc79a7"
STYLE = {
    "svg.hashsalt": "dope",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def panels(columns: int, size: tuple[float, float], **more) -> tuple[Figure, list]:
    figure = Figure(figsize=size, layout="constrained")
    return figure, list(np.atleast_1d(figure.subplots(1, columns, **more)))


def bare(axes, title: str) -> None:
    axes.set_title(title, fontsize=10)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def noisy_rings(side: int = 96, noise: float = 0.7) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = np.mgrid[:side, :side] - side / 2
    truth = np.sin(np.hypot(rows, 1.3 * columns) / side * 16 + np.arctan2(rows, columns)) > 0.1
    return truth, truth + np.random.default_rng(0).normal(0, noise, truth.shape)


def energy() -> Figure:
    _, image = noisy_rings()
    figure, axes = panels(3, (8.5, 3.1))
    axes[0].imshow(image, cmap="gray", vmin=-1, vmax=2)
    bare(axes[0], "image")
    axes[1].imshow(image > 0.5, cmap="gray", interpolation="nearest")
    bare(axes[1], "each site for itself: lam = 0")
    labels = dope.minimize(dope.Energy.grid(0.5 - image, lam=0.25, kernel=3)).labels
    axes[2].imshow(labels, cmap="gray", interpolation="nearest")
    bare(axes[2], "neighbours pay to differ: lam = 0.25")
    return figure


def blocks() -> Figure:
    shape = (24, 36)
    plain, grown = (dope.Partition.grid(shape, (2, 3), overlap=o) for o in (0, 4))
    energy = dope.Energy.grid(np.zeros(shape), kernel=5)
    figure, axes = panels(3, (9, 2.6))
    coupled = np.zeros(shape)
    for block in plain.blocks:
        inside = np.zeros(shape)
        inside[block.where] = 1
        # Sites with a neighbour in another block: those whose label has a price when all others hold 1.
        coupled += inside * (touched(energy, 1 - inside) > 0)
    axes[0].imshow(coupled, cmap="Blues", vmin=0, vmax=1.6, interpolation="nearest")
    bare(axes[0], "6 blocks, coupled sites")
    axes[1].imshow(
        grown.multiplicity((slice(None), slice(None))), cmap="Oranges", vmin=0.6, vmax=6, interpolation="nearest"
    )
    bare(axes[1], "overlap: in 1, 2 or 4 blocks")
    for panel, partition in ((axes[0], plain), (axes[1], grown)):
        for number, block in enumerate(partition.blocks):
            frame(panel, block.where, (BLUE, ORANGE, GREEN)[number % 3])
    u = dope.Energy.grid(np.ones(shape)).share(grown, 0).energy.unary
    axes[2].imshow(u, cmap="Greens", vmin=0, vmax=1.2, interpolation="nearest")
    bare(axes[2], "first block: u, u / 2, u / 4")
    return figure


def touched(energy: dope.Energy, labels: np.ndarray) -> np.ndarray:
    """How many neighbours of a site have label 1."""
    first, second, weights = energy.pairs.edges()
    y = labels.ravel()
    sums = np.bincount(first, weights * y[second], y.size) + np.bincount(second, weights * y[first], y.size)
    return sums.reshape(labels.shape)


def frame(axes, where: tuple[slice, ...], color: str) -> None:
    rows, columns = where
    corner = (columns.start - 0.3, rows.start - 0.3)
    size = (columns.stop - columns.start - 0.4, rows.stop - rows.start - 0.4)
    axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor=color, linewidth=2))


def seam() -> Figure:
    u, w = (-2.0, 1.0), 1.5
    flows = np.linspace(-w, w, 301)
    bound = np.minimum(0, u[0] + flows) + np.minimum(0, u[1] - flows)
    least = min(u[0] * a + u[1] * b + w * abs(a - b) for a in (0, 1) for b in (0, 1))
    figure, (left, right) = panels(2, (9, 3.2), width_ratios=(1, 1.4))
    left.set(xlim=(-1, 3), ylim=(-1.2, 1.2), aspect="equal")
    bare(left, "two blocks of one site, a pair across the seam")
    for x, name, price, color in ((0, "i", u[0], BLUE), (2, "j", u[1], ORANGE)):
        left.add_patch(Rectangle((x - 0.7, -0.7), 1.4, 1.4, facecolor=color, alpha=0.18, edgecolor=color))
        left.text(x, 0.15, name, ha="center", va="center", fontsize=13, style="italic")
        left.text(x, -0.3, f"u = {price:+g}", ha="center", va="center")
    left.annotate("", (1.45, 0), (0.55, 0), arrowprops={"arrowstyle": "->", "linewidth": 2})
    left.text(1, 0.95, f"flow f, |f| ≤ w = {w}", ha="center")
    left.plot([1, 1], [-1, 0.8], color="#8c8c8c", linestyle=":")
    right.plot(flows, bound, color=GREEN, linewidth=2, label="LB(f) = min(0, −2 + f) + min(0, 1 − f)")
    right.axhline(least, color=ORANGE, linestyle="--", label=f"least energy of both together: {least:g}")
    right.plot([0], [bound[150]], "o", color=GREEN)
    right.annotate("without flow:\nblocks disagree", (0, bound[150]), (-1.2, -1.5), arrowprops={"arrowstyle": "->"})
    right.plot([1], [least], "o", color=ORANGE)
    right.annotate("the gap is closed", (1, least), (0.35, -0.55), arrowprops={"arrowstyle": "->"})
    right.set(xlabel="flow f from i to j", ylabel="lower bound", ylim=(-3.7, -0.2))
    right.legend(loc="lower right", frameon=False, fontsize=9)
    return figure


def rounds() -> Figure:
    _, image = noisy_rings(noise=0.9)
    energy = dope.Energy.grid(0.5 - image, lam=0.45, kernel=3)
    exact = dope.minimize(energy, blocks=16)
    admm = dope.minimize(energy, blocks=16, method=dope.Admm())
    figure, (left, right) = panels(2, (9.5, 3.3))
    numbers = [step.round for step in exact.trace]
    left.fill_between(
        numbers, [s.lower_bound for s in exact.trace], [s.energy for s in exact.trace], color=GREEN, alpha=0.15
    )
    left.plot(numbers, [s.energy for s in exact.trace], "o-", color=ORANGE, label="energy of the labels")
    left.plot(numbers, [s.lower_bound for s in exact.trace], "s-", color=BLUE, label="lower bound")
    left.set(xlabel="round", title="Exact(): energy and bound meet")
    left.legend(frameon=False)
    passed = range(1, len(admm.trace) + 1)
    right.plot(passed, [s.energy for s in admm.trace], "o-", color=ORANGE, label="energy of the labels")
    swept = [(n, s.energy) for n, s in zip(passed, admm.trace, strict=True) if s.sweep]
    right.plot(*zip(*swept, strict=True), "o", color=PURPLE, label="after sweeps")
    right.axhline(exact.energy, color=BLUE, linestyle="--", label="minimum")
    right.set(xlabel="round", title="Admm(): rounds, then sweeps")
    right.legend(frameon=False)
    return figure


def bracketing() -> Figure:
    _, image = noisy_rings(noise=0.8)
    energy = dope.Energy.grid(0.5 - image, lam=0.3, kernel=3)
    partition = dope.Partition.grid(image.shape, (3, 3))
    low, high = np.zeros(image.shape, bool), np.ones(image.shape, bool)
    figure, axes = panels(4, (9, 2.5))
    for axis, blocks in ((1, partition), (2, partition.shifted())):
        low, high = bracketed(energy, blocks, low, high)
        if axis == 1:
            axes[0].imshow(np.where(low == high, low, 0.5), cmap="gray", interpolation="nearest")
            bare(axes[0], "pass 1; grey: open")
        still = (low != high).mean()
        axes[axis].imshow(np.where(low == high, 0.12, 1.0), cmap="Oranges", vmin=0, vmax=1.3, interpolation="nearest")
        for block in blocks.blocks:
            frame(axes[axis], block.where, BLUE)
        bare(axes[axis], f"open after pass {axis}: {still:.1%}")
    least = dope.minimize(energy).labels
    assert (low <= least).all() and (least <= high).all()
    axes[3].imshow(least, cmap="gray", interpolation="nearest")
    bare(axes[3], "the minimum lies between")
    return figure


def bracketed(energy: dope.Energy, blocks: dope.Partition, low: np.ndarray, high: np.ndarray):
    """Smallest minimisers of blocks with `low` outside, largest with `high` outside: the minimum lies between."""
    below, above = low.copy(), high.copy()
    whole = touched(energy, np.ones(energy.shape))
    for block in blocks.blocks:
        inside = np.zeros(energy.shape)
        inside[block.where] = 1
        crossing = (whole - touched(energy, inside))[block.where]
        part = dope.Energy.grid(energy.unary[block.where], lam=0.3, kernel=3)
        for outside, found, largest in ((low, below, False), (high, above, True)):
            ones = touched(energy, outside * (1 - inside))[block.where]
            minimizer = dope.MaxFlow().prepare(part)
            minimizer.minimize(part.unary + crossing - 2 * ones)
            found[block.where] = minimizer.labels(largest=largest)
    return below, above


def bending() -> Figure:
    radii = np.arange(3, 26)
    rows, columns = np.mgrid[-40:41, -40:41]
    flat = np.full(rows.shape, 0.5)  # either label costs the same
    price = curvature(flat, lam=1.0, window=11, mode="perimeter")
    length = dope.Energy.grid(np.zeros(rows.shape), kernel=7, features=np.zeros(rows.shape), beta=0.0)
    discs = [np.hypot(rows, columns) < r for r in radii]
    unit = length(np.hypot(rows, columns) < 25) / (2 * np.pi * 25)
    figure, (left, right) = panels(2, (9, 3))
    left.plot(radii, [length(d) / unit for d in discs], "o", color=ORANGE, label="pairs, kernel 7")
    left.plot(radii, 2 * np.pi * radii, color="#8c8c8c", label="2π r")
    left.set(title="length: a disc pays more the larger it is", xlabel="radius r, pixels")
    right.plot(radii, [price(d) - price.constant for d in discs], "o", color=BLUE, label="triples, window 11")
    right.plot(radii, 2 * np.pi / radii, color="#8c8c8c", label="2π / r")
    right.set(title="squared curvature: less the larger it is", xlabel="radius r, pixels")
    for axes in (left, right):
        axes.legend(frameon=False)
    return figure


def lam() -> Figure:
    with samples.canyon_wren() as sample:
        photo = io.read_image(sample.photo)
        strokes = io.read_scribbles(sample.scribbles, photo.shape)
    photo, strokes = photo[::6, ::6], strokes[::6, ::6]
    noisy = np.clip(photo + np.random.default_rng(0).normal(0, 25, photo.shape), 0, 255).astype(np.uint8)
    automatic = automatic_lam(color_unary(noisy, strokes), 3)
    bird = (slice(50, 190), slice(150, 350))
    figure, axes = panels(4, (9, 2.1))
    for panel, factor in zip(axes, (0.0, 0.1, 1.0, 100.0), strict=True):
        labels = dope.segment(noisy, scribbles=strokes, lam=factor * automatic).labels
        panel.imshow(report.overlay(noisy[bird], labels[bird]))
        bare(panel, "automatic lam" if factor == 1 else f"{factor:g} x automatic")
    return figure


def kernel() -> Figure:
    rows, columns = np.mgrid[:160, :160] - 80
    disc = np.hypot(rows, columns) < 52
    unary = 0.06 - 0.12 * disc + np.random.default_rng(1).normal(0, 0.25, disc.shape)
    figure, axes = panels(4, (9, 2.5))
    kernels = ([(0, 1), (1, 0)], "4 neighbours"), (3, "kernel 3"), (5, "kernel 5"), (7, "kernel 7")
    for panel, (size, name) in zip(axes, kernels, strict=True):
        strength = dope.models.kernel_lam(size, total=1.6)
        plain = np.zeros(disc.shape)
        labels = dope.minimize(dope.Energy.grid(unary, lam=strength, kernel=size, features=plain, beta=0.0)).labels
        panel.imshow(labels, cmap="gray", interpolation="nearest")
        panel.contour(disc, [0.5], colors=ORANGE, linewidths=1)
        bare(panel, f"{name}: {np.mean(labels != disc):.1%} wrong")
    return figure


def shells() -> Figure:
    rng = np.random.default_rng(0)
    z, y, x = np.indices((24, 40, 40))
    away = np.sqrt((z - 12) ** 2 / 0.36 + (y - 20) ** 2 + (x - 20) ** 2)
    truth = np.digitize(-away, [-17, -12, -6])
    scan = np.array([10, 60, 110, 160])[truth] + rng.normal(0, 12, truth.shape)
    logits = 2.0 * (truth[None] == np.arange(4)[:, None, None, None]) + rng.normal(0, 1.2, (4, *truth.shape))
    softmax = np.exp(logits) / np.exp(logits).sum(axis=0)
    result = dope.segment(scan, probability=softmax)
    figure, axes = panels(4, (9, 2.6))
    axes[0].imshow(scan[12], cmap="gray")
    bare(axes[0], "scan, one slice")
    found = softmax.argmax(axis=0)
    shown = (found, "likeliest class"), (result.labels, "dope"), (truth, "truth")
    for panel, (labels, name) in zip(axes[1:], shown, strict=True):
        panel.imshow(labels[12], cmap="viridis", interpolation="nearest")
        bare(panel, name if labels is truth else f"{name}: {np.mean(labels != truth):.1%} wrong")
    return figure


def disparities() -> Figure:
    rng = np.random.default_rng(0)
    truth = np.full((60, 90), 3)
    truth[15:45, 35:70] = 9
    scene = rng.integers(0, 256, (60, 110)).astype(float)
    left = np.take_along_axis(scene, np.arange(90) + 12 - truth, axis=1)
    left, right = (picture + rng.normal(0, 20, picture.shape) for picture in (left, scene[:, 12:102]))
    costs = np.full((60, 90, 16), 255.0)
    for d in range(16):
        costs[:, d:, d] = np.abs(left[:, d:] - right[:, : 90 - d])
    energy = dope.LabelEnergy.grid(np.rint(costs), lam=20, kernel=[[1, 0], [0, 1]], metric=("linear", 2))
    figure, axes = panels(3, (9, 2.4))
    axes[0].imshow(left, cmap="gray")
    bare(axes[0], "left picture")
    axes[1].imshow(costs.argmin(axis=-1), interpolation="nearest")
    bare(axes[1], "each pixel for itself")
    axes[2].imshow(dope.minimize(energy).labels, vmin=0, vmax=15, interpolation="nearest")
    bare(axes[2], "dope")
    return figure


def variation() -> Figure:
    with samples.canyon_wren() as sample:
        photo = io.read_image(sample.photo).mean(axis=-1)[::3, ::3][140:380, 330:690]
    rng = np.random.default_rng(0)
    grain = np.clip(photo + rng.normal(0, 20, photo.shape), 0, 255).astype(np.uint8)
    specks = np.where(rng.random(photo.shape) < 0.1, rng.choice([0, 255], photo.shape), photo).astype(np.uint8)
    shown = [
        (grain, "noise of 20 grey values"), (dope.denoise_tv(grain, 40, norm="l2"), "l2, lam 40"),
        (specks, "a tenth of the pixels lost"), (dope.denoise_tv(specks, 1, norm="l1"), "l1, lam 1"),
    ]  # fmt: skip
    figure, axes = panels(4, (9, 1.9))
    for panel, (image, name) in zip(axes, shown, strict=True):
        panel.imshow(image, cmap="gray", vmin=0, vmax=255)
        bare(panel, name)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    one.__name__: one
    for one in (energy, blocks, seam, rounds, bracketing, bending, lam, kernel, shells, disparities, variation)
}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        with mpl.rc_context(STYLE):
            draw().savefig(folder / f"{name}.svg", metadata={"Date": None}, bbox_inches="tight", pad_inches=0.12)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
