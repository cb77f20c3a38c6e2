"""Who worked when, and runs in passes, whose energy is known at the end alone: all told, and nothing that is not so."""

import base64
import json
import math
import re
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dope
from dope.report import PageContent, convergence, page, plot
from dope.report import timeline as drawing
from dope.report.content import plain
from dope.report.curves import new_figure, panels_of
from dope.report.passes import ends_with_finish, in_passes, numbers
from dope.report.svg import timeline_image
from dope.report.timeline import column_seconds, in_columns, short_names, workers_in_a_row
from dope.report.timesheet import KINDS, Timesheet
from dope.report.words import bytes_in_words, ending, figures
from dope.steps import AdmmStep, BlockTask, BracketingStep, Step, Tasks

BEGUN = 1.7e9  # of a run, by `time.time`
HOSTILE = "</script><script>alert(1)</script><!--$x^2$ ü\x00"


def tasks_of(done, *, sent=0, received=0):
    """Tasks of these places, names and times; the first of them has all the bytes."""
    tasks = [BlockTask(*task) for task in done]
    return Tasks(tuple(replace(task, sent=sent, received=received) if k == 0 else task for k, task in enumerate(tasks)))


def pass_of(number, done=(), *, sent=0, received=0, **fields):
    told = {"energy": None, "disagreeing": 10 // number, "proved": 1 - 0.1 / number, "seconds": 2.0 * number}
    return BracketingStep(round=number, tasks=tasks_of(done, sent=sent, received=received), **(told | fields))


def round_of(number, energy, residual):
    unknown = dict.fromkeys(["mu", "relaxed_energy", "shares", "multipliers", "penalty"], math.nan)
    return AdmmStep(number, energy, residual=residual, **unknown)


def trace_of(workers, tasks, passes, name="host:17:dope_{}"):
    """Workers who take turns, a second for each task, and half a second between passes; the last is the finish."""
    steps = []
    for p in range(1, passes + 1):
        now = BEGUN + (p - 1) * (0.5 + math.ceil(tasks // passes / workers))
        done = [
            (k, name.format(k % workers), now + k // workers, now + k // workers + 1, 0.25, 0.5, 0.125)
            for k in range(tasks // passes)
        ]
        steps.append(pass_of(p, done, sent=1000 * p, received=10 * p))
    return [*steps[:-1], replace(steps[-1], energy=-7.0, lower_bound=-7.0, disagreeing=0, proved=1.0, stopped="exact")]


def run_of(trace, **summary):
    return PageContent("a run", None, False, np.zeros(9, dtype=bool), trace=trace, summary=summary)


def drawings(text):
    """The SVG files in a page."""
    return [base64.b64decode(found).decode() for found in re.findall(r'data:image/svg\+xml;base64,([^"]*)"', text)]


def words_of(text):
    """What a reader sees, drawings included."""
    text = " ".join([text, *drawings(text)])
    return re.sub(r"<style.*?</style>|<script.*?</script>|<[^>]*>", " ", text, flags=re.DOTALL)


def caption_of(text):
    found = re.search(r"<h2>Who worked when</h2>.*?<figcaption>(.*?)</figcaption>", text, re.DOTALL)
    return None if found is None else re.sub(r"<[^>]*>", "", found.group(1))


def facts(text):
    return json.loads(re.search(r'<script type="application/json" id="run">(.*?)</script>', text, re.DOTALL).group(1))


def volume():
    rng = np.random.default_rng(0)
    shape = (20, 22, 18)
    grid = np.stack(np.meshgrid(*(np.linspace(-1, 1, n) for n in shape), indexing="ij"))
    inside = (grid**2).sum(axis=0) < 0.6
    image = np.clip(120 * inside + rng.normal(60, 25, shape), 0, 255).astype(np.uint8)
    chance = np.clip(np.where(inside, 0.6, 0.4) + rng.normal(0, 0.25, shape), 0.01, 0.99).astype(np.float32)
    return image, chance


@pytest.fixture(scope="module")
def results():
    image, chance = volume()
    methods = {"exact": dope.Bracketing(), "undecided": dope.Bracketing(passes=1, rounds=0)}
    return {
        name: dope.segment(
            image,
            probability=chance,
            out=np.zeros(image.shape, dtype=bool),
            blocks=(2, 2, 3),
            method=method,
            executor=dope.Threads(2),
        )
        for name, method in methods.items()
    }


def run_of_result(result):
    names = ("energy", "lower_bound", "gap", "exact", "rounding_error", "proved", "stopped")
    return PageContent(
        "blob",
        volume()[0],
        False,
        np.asarray(result.labels),
        blocks=[block.where for block in result.partition.blocks],
        trace=result.trace,
        summary={name: getattr(result, name) for name in names},
    )


@pytest.fixture(scope="module")
def pages(results):
    return {name: page(run_of_result(result)) for name, result in results.items()}


@pytest.mark.parametrize("name", ["exact", "undecided"])
def test_a_real_run_tells_who_worked_when(results, pages, name):
    result, text = results[name], pages[name]
    assert result.stopped == name and result.trace[0].energy is None
    caption = caption_of(text)
    assert "The time of 2 workers" in caption
    assert all(re.search(rf"{kind} [\d.]+ %", caption) for kind in ("reading", "solving", "writing", "waiting"))
    number = sum(len(step.tasks.done) for step in result.trace)
    assert f"{number} tasks, a bar each." in caption
    assert all(f"pass {step.round} " in caption for step in result.trace[:-1]) and "; finish " in caption
    (drawn,) = drawings(text[text.index("Who worked when") :])
    assert "dope_0" in drawn and "> pass 1<" in drawn


@pytest.mark.parametrize("name", ["exact", "undecided"])
def test_nothing_is_said_of_what_nobody_computed(results, pages, name):
    text = pages[name]
    assert re.search(r"\bnan\b|\bNone\b", words_of(text), re.IGNORECASE) is None
    assert all(re.search(r"\bnan\b", drawn, re.IGNORECASE) is None for drawn in drawings(text))
    told = facts(text)["trace"]
    assert ["energy" in step for step in told] == [step.energy is not None for step in results[name].trace]
    titles = re.findall(r'svg\+xml;base64,[^"]*" alt="([^"]*)"', text)
    assert titles[:4] == [
        f"{what} by {unit}" for what in ("open sites", "sites proved") for unit in ("pass", "seconds")
    ]
    assert len(titles) == 5
    heads = re.findall(r"<th>([^<]*)</th>", text[text.index("Pass by pass") : text.index("</details>")])
    assert heads == ["pass", "seconds", "energy", "lower bound", "open sites", "sites proved"]


def test_undecided_runs_say_how_far_they_got(results, pages):
    result, words = results["undecided"], words_of(pages["undecided"])
    left = result.trace[-1].disagreeing
    assert f"ended with {left:,} sites whose labels were not decided yet: the gap says how far" in words
    assert re.search(r"At most [\d.]+ % above the minimum", words)
    assert f"{left:,} open" in words
    assert "could not be proved" not in words_of(pages["exact"]) and "ended with the minimum" in words_of(
        pages["exact"]
    )


@pytest.mark.parametrize(
    ("trace", "summary", "words"),
    [
        ((), {}, "the run ended with some sites whose labels were not decided yet."),
        ((), {"gap": 0.0}, "not decided yet."),
        ((), {"gap": 2.0}, "not decided yet: the gap says how far the labels can be from the minimum."),
        ([pass_of(1, disagreeing=1), pass_of(2, energy=3.0, disagreeing=1)], {}, "with 1 site whose"),
    ],
)
def test_words_for_undecided(trace, summary, words):
    assert words in ending(run_of(trace, stopped="undecided", **summary))


def test_passes_are_counted_without_the_finish():
    tiles = {figure.name: (figure.value, figure.more) for figure in figures(run_of(trace_of(2, 12, 4)))}
    assert tiles["passes"] == ("3", "and the finish") and "rounds" not in tiles
    assert {figure.name for figure in figures(run_of([Step(1, 5.0), Step(2, 4.0)]))} >= {"rounds"}


def test_what_a_run_in_passes_is():
    one, last = pass_of(1), pass_of(2, energy=3.0)
    assert in_passes([one]) and in_passes([one, last]) and in_passes([one, one])
    assert not in_passes([]) and not in_passes([Step(1, None), Step(2, 3.0)]) and not in_passes([round_of(1, 5.0, 0.0)])
    assert ends_with_finish([one, last]) and not ends_with_finish([one, one])
    assert numbers([one, one]) == ["1", "1"] and numbers([one, last]) == ["1", "finish"]


def test_the_json_tells_tasks_in_short(results, pages):
    trace = results["exact"].trace
    for step, told in zip(trace, facts(pages["exact"])["trace"], strict=True):
        done = step.tasks.done
        assert told["tasks"] == {
            "tasks": len(done),
            "workers": len({task.worker for task in done}),
            "read_seconds": pytest.approx(sum(task.read for task in done)),
            "solve_seconds": pytest.approx(sum(task.solve for task in done)),
            "write_seconds": pytest.approx(sum(task.write for task in done)),
            "bytes_sent": step.tasks.bytes_sent,
            "bytes_received": step.tasks.bytes_received,
        }
    many = run_of(trace_of(100, 100_000, 4)).as_plain()
    assert len(json.dumps(many, allow_nan=False)) < 3000


@pytest.mark.parametrize("value", [math.nan, np.float64("nan"), np.float32("nan")])
def test_a_summary_without_numbers(value):
    text = page(run_of([Step(1, None), Step(2, None)], energy=value, lower_bound=None, other=value))
    assert facts(text)["summary"] == {"energy": None, "lower_bound": None, "other": None}
    assert re.search(r"\bnan\b", text, re.IGNORECASE) is None and "No bound is known" in text
    assert plain(value) == "nan"


@pytest.mark.parametrize(
    ("workers", "tasks"),
    [
        (1, 5000),
        (7, 100),
        (26, 100),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((1, 100), (2, 100), (25, 100), (60, 100), (100, 5000))
        ),
    ],
)
def test_the_picture_stays_small_and_every_name_is_there(workers, tasks):
    sheet = Timesheet.of(trace_of(workers, tasks, 4))
    image = timeline_image(sheet)
    assert len(image) < 200_000
    (text,) = drawings(image)
    assert (
        "<image" in text if in_columns(sheet) else "var(--blue)" in text and "#0072b2" not in text.split("<style>")[0]
    )
    rows = re.findall(r">(dope_\d+|workers? \d[^<]*)<", text)
    assert len(rows) == math.ceil(len(sheet.workers) / workers_in_a_row(sheet)) <= 25
    assert "> finish<" in text and "since the first block began" in text


@pytest.mark.slow
def test_a_hundred_thousand_tasks_of_a_hundred_workers():
    trace = trace_of(100, 100_000, 5)
    begun = time.perf_counter()
    text = page(run_of(trace))
    assert time.perf_counter() - begun < 30  # 2 s on an idle machine
    assert len(text) < 300_000
    assert "100,000 tasks; a column is" in caption_of(text) and "seconds of 4 workers" in caption_of(text)


def test_without_tasks_there_is_no_such_section():
    for steps in (
        [Step(1, None), Step(2, 5.0)],
        *(
            [pass_of(1, done, sent=5, received=5), pass_of(2, done, energy=5.0)]
            for done in (
                (),
                [(0, "file", 0.0, 0.0, 0.0, 0.0, 0.0)],
                [(0, "quick", BEGUN, BEGUN, 0.0, 0.0, 0.0)],
            )
        ),
    ):
        assert Timesheet.of(steps) is None
    assert Timesheet.of([]) is None
    assert "Who worked when" not in page(run_of(steps))


def test_without_matplotlib_the_shares_are_still_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    text = page(run_of(trace_of(2, 12, 3)))
    assert "The picture was not drawn" in text and not drawings(text)
    assert "reading 21.4 %" in caption_of(text) and "bar each" not in caption_of(text)
    assert (
        "Bytes out and back: pass 1 1 kB and 10 bytes; pass 2 2 kB and 20 bytes; finish 3 kB and 30 bytes."
        in caption_of(text)
    )


def test_shares_are_of_all_workers_time():
    done = [(0, "a", BEGUN, BEGUN + 4, 1.0, 2.0, 0.5), (1, "b", BEGUN + 5, BEGUN + 10, 0.0, 5.0, 0.0)]
    sheet = Timesheet.of([pass_of(1, done)])
    assert sheet.seconds == pytest.approx(10) and sheet.workers == ("a", "b")
    assert sheet.shares == pytest.approx(
        {"reading": 0.05, "solving": 0.35, "writing": 0.025, "other work": 0.025, "waiting": 0.55}, abs=1e-6
    )
    only = page(run_of([pass_of(1, done)]))
    assert "reading 5 %, solving 35 %, writing 2.5 %, other work 2.5 %, waiting 55 %" in caption_of(only)


TASKS = st.tuples(
    st.integers(0, 3),
    st.sampled_from(["h:1:a", "h:1:b", "h:2:a", HOSTILE, ""]),
    st.one_of(st.floats(BEGUN, BEGUN + 100), st.sampled_from([0.0, math.nan, math.inf])),
    st.one_of(st.floats(BEGUN - 5, BEGUN + 200), st.sampled_from([0.0, math.nan, -math.inf])),
    *[st.one_of(st.floats(0, 50), st.sampled_from([-1.0, math.nan, math.inf]))] * 3,
)


@given(st.lists(st.lists(TASKS, max_size=6), min_size=1, max_size=4))
def test_clocks_of_all_kinds(passes):
    sheet = Timesheet.of([pass_of(k, done) for k, done in enumerate(passes, start=1)])
    if sheet is None:
        return
    assert (sheet.begun >= 0).all() and (sheet.parts >= 0).all() and len(sheet.who) == len(sheet.begun)
    assert sheet.parts.shape == (len(sheet.who), len(KINDS)) and 0 < sheet.seconds < 300
    assert all(math.isfinite(share) and share >= 0 for share in sheet.shares.values())
    if len(set(sheet.who)) == len(sheet.who):  # who does two things at once has no time to add up
        assert sum(sheet.shares.values()) == pytest.approx(1)
    assert 0 <= min(one.begun for one in sheet.passes) <= max(one.begun for one in sheet.passes) <= sheet.seconds


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(0, 7), st.floats(0, 7)), max_size=8))
def test_columns_hold_the_time_that_was_worked(spans):
    rows = np.array([row for row, _, _ in spans], dtype=np.int64)
    begins, ends = (np.array([pick(a, b) for _, a, b in spans], dtype=np.float64) for pick in (min, max))
    found = drawing._after(rows, begins, (3, 7)) - drawing._after(rows, ends, (3, 7))
    expected = np.zeros((3, 7))
    for row, a, b in zip(rows, begins, ends, strict=True):
        for column in range(7):
            expected[row, column] += max(0.0, min(b, column + 1) - max(a, column))
    assert np.allclose(found, expected)


def test_who_does_two_things_at_once_fills_no_more_than_a_row():
    done = [(k, "a", BEGUN, BEGUN + 4, 1.0, 2.0, 1.0) for k in range(1000)]
    sheet = Timesheet.of([pass_of(1, done)])
    levels = drawing._levels(sheet, [range(1)])
    assert (levels[-1] == drawing._LEVELS).all()
    assert (levels[:-1].mean(axis=(1, 2)) == drawing._LEVELS * np.array([0.25, 0.75, 1])).all()


@pytest.mark.parametrize(("workers", "tasks"), [(3, 3000), (40, 200)])
def test_columns_are_filled_as_far_as_there_was_work(workers, tasks):
    sheet = Timesheet.of(trace_of(workers, tasks, 1))
    assert in_columns(sheet)
    groups = drawing._groups(sheet)
    assert [k for group in groups for k in group] == list(range(workers))
    levels = drawing._levels(sheet, groups)
    assert levels.shape[:2] == (len(KINDS), len(groups)) and levels.shape[2] > 100
    assert column_seconds(sheet) == pytest.approx(sheet.seconds / levels.shape[2])
    assert (np.diff(levels, axis=0) >= 0).all() and levels[0].min() >= 0 and levels.max() == drawing._LEVELS
    assert levels[-1, :, -1].max() > 0
    size = np.array([len(group) for group in groups])
    worked = np.bincount(sheet.who // workers_in_a_row(sheet), sheet.parts.sum(axis=1))
    share = levels[-1].mean(axis=1) / drawing._LEVELS
    assert np.allclose(share, worked / (size * sheet.seconds), atol=0.5 / drawing._LEVELS)


def test_columns_are_drawn_from_the_foot_of_their_row():
    sheet = Timesheet.of(trace_of(2, 1000, 1))
    axes = new_figure((4, 3)).subplots()
    drawing.timeline(sheet).draw(axes)
    pixels = np.asarray(axes.images[0].get_array()).reshape(2, -1, 300)
    levels = drawing._levels(sheet, drawing._groups(sheet))
    for kind in range(len(KINDS)):
        below = levels[kind - 1] if kind else 0
        assert ((pixels == kind).sum(axis=1) == levels[kind] - below).all()
    assert (np.diff(pixels[:, : -drawing._AIR].astype(int), axis=1) <= 0).all()
    assert (pixels[:, [0, -1]] == len(KINDS)).all()


def test_bars_are_where_the_tasks_were():
    done = [(0, "a", BEGUN, BEGUN + 4, 1.0, 2.0, 1.0), (1, "b", BEGUN + 5, BEGUN + 10, 0.0, 5.0, 0.0)]
    sheet = Timesheet.of([pass_of(1, done)])
    axes = new_figure((4, 3)).subplots()
    drawing.timeline(sheet).draw(axes)
    spans = [
        [(round(bar[:4, 0].min()), round(bar[:4, 0].max()), round(bar[:4, 1].mean())) for bar in kind]
        for kind in (patch.get_path().vertices.reshape(-1, 5, 2) for patch in axes.patches)
    ]
    assert spans == [[(0, 1, 0)], [(1, 3, 0), (5, 10, 1)], [(3, 4, 0)]]


@pytest.mark.parametrize("passes", [1, 2, 9, 30, pytest.param(1000, marks=pytest.mark.slow)])
def test_names_of_passes_do_not_run_into_each_other(passes):
    sheet = Timesheet.of(trace_of(2, 4 * passes, passes))
    marks = drawing._marks(sheet)
    assert len(marks) <= 60 and marks[-1][0] is sheet.passes[-1] and marks[-1][1] == 0
    named = [(one, level) for one, level in marks if level < 5]
    for k, (one, level) in enumerate(named):
        end = one.begun + 0.008 * len(one.name) * sheet.seconds
        assert all(level > other for later, other in named[k + 1 :] if later.begun < end)
    assert len(timeline_image(sheet)) < 120_000


def test_bytes_of_many_passes_are_summed_up():
    words = bytes_in_words(Timesheet.of(trace_of(2, 80, 20)))
    assert "210 kB and 2.1 kB in 20 passes, 10.5 kB and 105 bytes each on the average" in words
    assert "most in finish, 20 kB and 200 bytes" in words


def test_names_of_workers():
    assert short_names(["h:1:t_0", "h:1:t_1", "h:2:t_0"]) == ["1:t_0", "1:t_1", "2:t_0"]
    assert short_names(["a", "b:c"]) == ["worker 1", "worker 2"]
    assert short_names(["x" * 50 + "1", "x" * 50 + "2"]) == ["worker 1", "worker 2"]
    sheet = Timesheet.of(trace_of(12, 12, 1))
    assert list(sheet.workers) == [f"host:17:dope_{k}" for k in range(12)]


def test_no_worker_breaks_out():
    harmless, hostile = (page(run_of(trace_of(2, 8, 2, name=name + "_{}"))) for name in ("harmless", HOSTILE))
    tags = [re.findall(r"</?[a-zA-Z]+", text) for text in (harmless, hostile)]
    assert tags[0] == tags[1] and tags[0].count("<script") == 1


def test_the_same_run_gives_the_same_picture():
    sheets = [Timesheet.of(trace_of(3, 900, 3)) for _ in range(2)]
    assert timeline_image(sheets[0]) == timeline_image(sheets[1])


@pytest.mark.parametrize("name", ["exact", pytest.param("undecided", marks=pytest.mark.slow)])
def test_plots_of_runs_in_passes(results, name):
    result = results[name]
    picture = convergence(result.trace)
    assert picture.min() < 60 and picture.mean() > 200
    for figure in (result.plot(), result.plot(volume()[0]), plot(result.trace, np.zeros((4, 5), bool))):
        drawn = [axes for axes in figure.axes if axes.get_title()]
        assert {axes.get_title() for axes in drawn} == {"open sites", "sites proved"}
        for axes in drawn:
            assert axes.lines and all(np.isfinite(line.get_xydata()).all() for line in axes.lines)
            if axes.get_xlabel() == "seconds":
                assert axes.get_xlim() == pytest.approx((0, 1.03 * result.trace[-1].seconds))
        figure.canvas.draw()


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([Step(1, None)], marks=pytest.mark.slow),
        pytest.param([pass_of(1)], marks=pytest.mark.slow),
        pytest.param([pass_of(1), pass_of(2, proved=math.nan, lower_bound=math.nan)], marks=pytest.mark.slow),
        [Step(1, None), replace(round_of(2, math.nan, math.inf), proved=math.nan, lower_bound=math.nan)],
        pytest.param(
            [Step(1, None, lower_bound=-5.0), Step(2, None, lower_bound=-4.0), Step(3, None)], marks=pytest.mark.slow
        ),
        [Step(1, 5.0), Step(2, None), Step(3, 4.0, lower_bound=1.0), Step(4, None, lower_bound=2.0)],
        pytest.param(
            [Step(1, 5.0, lower_bound=-math.inf), Step(2, 4.0, lower_bound=-math.inf)], marks=pytest.mark.slow
        ),
        pytest.param(
            [Step(k, 1.0 if k in (1, 99) else None) if k != 5 else round_of(k, 2.0, 1.0) for k in range(1, 100)],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_whatever_is_unknown_is_left_out(steps):
    assert convergence(steps).size
    for labels in (np.zeros(5, bool), np.zeros((4, 5), bool), np.zeros((3, 4, 5), bool)):
        figure = plot(steps, labels)
        for axes in figure.axes:
            assert axes.images or any(
                np.isfinite(line.get_xydata()).all() and len(line.get_xydata()) for line in axes.lines
            )
        figure.canvas.draw()
    text = page(run_of(steps))
    assert re.search(r"\bnan\b", words_of(text), re.IGNORECASE) is None


def test_a_gap_needs_an_energy():
    steps = [pass_of(k, lower_bound=-5.0, disagreeing=k, proved=None) for k in (1, 2, 3)]
    assert [panel.title for panel in panels_of(steps)] == ["energy", "energy", "open sites", "open sites"]
