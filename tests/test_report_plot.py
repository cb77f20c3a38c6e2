"""A run in one figure: picture and curves, nothing left behind in pyplot."""

import sys
from typing import Any

import numpy as np
import pytest

import dope
from dope.errors import InputError, MissingExtraError
from dope.report import plot
from dope.report.curves import panels_of

RNG = np.random.default_rng(3)


def result(shape, method=None):
    unary = RNG.normal(size=shape)
    unary[tuple(slice(side // 4, 3 * side // 4) for side in shape)] -= 0.8
    return dope.minimize(dope.Energy.grid(unary, lam=0.4), blocks=4, method=method)


@pytest.fixture(scope="module")
def runs():
    return {
        "exact": result((32, 40)),
        "admm": result((32, 40), dope.Admm()),
        "volume": result((12, 14, 16)),
        "line": result((200,)),
    }


def titles(figure):
    return [axes.get_title() for axes in figure.axes if axes.get_title()]


@pytest.mark.parametrize(("name", "pictures"), [("exact", 1), ("admm", 1), ("volume", 1), ("line", 0)])
def test_picture_and_curves(runs, name, pictures):
    run = runs[name]
    figure = plot(run.trace, run.labels)
    assert sum(len(axes.images) for axes in figure.axes) == pictures
    assert titles(figure)[0] == "energy" and len(titles(figure)) >= 2
    canvas: Any = figure.canvas
    canvas.draw()
    assert np.asarray(canvas.buffer_rgba())[..., :3].min() < 60


@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize("name", ["exact", "volume"])
def test_the_image_lies_under_the_labels(runs, name, channels):
    run = runs[name]
    image = RNG.integers(0, 255, (*run.labels.shape, *([3] if channels else []))).astype(np.uint8)
    with_image, without = (plot(run.trace, run.labels, image=shown, channels=channels) for shown in (image, None))
    pictures = [
        next(axes.images[0].get_array() for axes in figure.axes if axes.images) for figure in (with_image, without)
    ]
    assert pictures[0].shape == pictures[1].shape and not np.array_equal(*pictures)
    with pytest.raises(InputError, match="expected"):
        plot(run.trace, run.labels, image=image, channels=not channels)


def test_the_residual_is_drawn_where_there_is_one_else_the_gap(runs):
    assert "largest residual of a block" in titles(plot(runs["admm"].trace, runs["admm"].labels))
    assert "energy above the bound" in titles(plot(runs["exact"].trace, runs["exact"].labels))


def test_curves_hold_the_numbers_of_the_trace(runs):
    trace = runs["admm"].trace
    energy = plot(trace, runs["admm"].labels).axes[1]
    lines = {line.get_label(): line.get_xydata() for line in energy.lines}
    assert np.array_equal(lines["rounded labels"], [(step.round, step.energy) for step in trace])
    assert np.array_equal(lines["best so far"][:, 1], np.minimum.accumulate([step.energy for step in trace]))


def test_a_page_draws_energies_by_round_and_by_second(runs):
    panels = panels_of(runs["admm"].trace)
    assert [panel.against for panel in panels[:2]] == ["round", "seconds"]
    assert {"energy", "largest residual of a block", "energy above the bound", "disagreeing sites"} <= {
        panel.title for panel in panels
    }


def test_sites_proved_are_drawn_where_they_grow(runs):
    step = runs["admm"].trace[0]
    steps = [dope.Step(round=k, energy=step.energy, proved=k / 4) for k in (1, 2, 4)]
    assert "sites proved" in {panel.title for panel in panels_of(steps)}
    assert "sites proved" not in {panel.title for panel in panels_of(steps[:1])}


def test_pyplot_is_left_alone():
    import subprocess

    code = (
        "import sys, numpy as np; from dope import Step; from dope.report import plot;"
        "plot([Step(round=1, energy=1.0)], np.eye(4, dtype=bool)); sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_a_plot_needs(runs, monkeypatch):
    with pytest.raises(InputError, match="at least one step"):
        plot([], runs["exact"].labels)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"dope\[report\]"):
        plot(runs["exact"].trace, runs["exact"].labels)
