"""The page of a run: one well-formed file that fetches nothing, believes nothing and tells everything."""

import base64
import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import dope
from dope.errors import InputError
from dope.report import PageContent, page
from dope.report.words import number, percent, verdict
from profiles import examples

HOSTILE = "</script><script>alert(1)</script><img src=x onerror='alert(2)'>\"'&<!--"
RNG = np.random.default_rng(5)
EMPTY_ELEMENTS = {"meta", "link", "img", "br"}


def run_of(shape, *, method=None, blocks=4, overlap=0.0, **fields):
    unary = RNG.normal(size=shape)
    unary[tuple(slice(side // 4, 3 * side // 4) for side in shape)] -= 0.8
    result = dope.minimize(dope.Energy.grid(unary, lam=0.4), blocks=blocks, overlap=overlap, method=method)
    summary = {
        name: getattr(result, name)
        for name in ("energy", "lower_bound", "gap", "exact", "rounding_error", "proved", "stopped")
    }
    seeds = np.zeros(shape, dtype=np.int8)
    seeds.flat[:5], seeds.flat[-5:] = 2, 1
    given_ = {
        "title": "a run",
        "image": (40 * unary).astype(np.float32),
        "channels": False,
        "labels": result.labels,
        "seeds": seeds,
        "blocks": [block.where for block in result.partition.blocks],
        "trace": result.trace,
        "summary": summary | {"seconds": result.trace[-1].seconds, "peak_bytes": 123_456_789},
        "settings": {"lam": 0.4, "kernel": 3, "method": method, "shape": shape, "input": Path("in") / "image.png"},
        "versions": {"dope": "0.1.0", "numpy": np.__version__},
        "command": "dope segment image.png",
    }
    return PageContent(**(given_ | fields))


@pytest.fixture(scope="module")
def runs():
    labels = np.zeros(50, dtype=bool)
    return {
        "exact": run_of((40, 60)),
        "admm": run_of((40, 60), method=dope.Admm(), overlap=0.2),
        "volume": run_of((14, 16, 18), spacing=(1.0, 1.0, 2.5)),
        "line": run_of((300,)),
        "four": run_of((5, 6, 7, 8), image=None, trace=()),
        "bare": PageContent("bare", None, False, labels),
    }


@pytest.fixture(scope="module")
def pages(runs):
    return {name: page(run) for name, run in runs.items()}


NAMES = ["exact", "admm", "volume", "line", "four", "bare"]


class Document(HTMLParser):
    """A strict reader: every element is closed in its place."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.words = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in EMPTY_ELEMENTS:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> inside of {self.open}"
        self.open.pop()

    def handle_data(self, data):
        self.words.append((self.open[-1] if self.open else "", data))

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def text(self):
        return " ".join(words for tag, words in self.words if tag not in ("script", "style"))


def facts(text):
    """What the page says in JSON."""
    return json.loads(re.search(r'<script type="application/json" id="run">(.*?)</script>', text, re.DOTALL).group(1))


def files(document, kind):
    """The content of all images of a kind."""
    for attributes in document.all("img"):
        found, content = attributes["src"].split(",", 1)
        assert found in ("data:image/png;base64", "data:image/svg+xml;base64")
        if kind in found:
            yield base64.b64decode(content, validate=True)


def pictures(document):
    for file in files(document, "png"):
        with Image.open(io.BytesIO(file)) as image:
            yield np.asarray(image)


def drawings(document):
    return [file.decode() for file in files(document, "svg")]


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_one_well_formed_file(pages, name):
    text = pages[name]
    document = Document(text)
    assert len(document.all("h1")) == 1 and len(document.all("script")) == 1
    names = [attributes["id"] for _, attributes in document.elements if "id" in attributes]
    assert len(names) == len(set(names))
    assert len(text) < 3e6


@pytest.mark.parametrize("name", NAMES)
def test_a_page_fetches_nothing(pages, name):
    text = pages[name]
    document = Document(text)
    without_data = re.sub(r"data:image/[a-z+]*;base64,[A-Za-z0-9+/=]*", "data:", text)
    assert "//" not in without_data
    elements = [element for part in (text, *drawings(document)) for element in Document(part).elements]
    for _, attributes in elements:
        for key in ("src", "href", "xlink:href", "action", "data"):
            assert attributes.get(key, "#").startswith(("#", "data:"))
    for part in (without_data, *drawings(document)):
        assert "@import" not in part and re.search(r"url\((?!#)", part) is None
    assert not [key for _, attributes in elements for key in attributes if key.startswith("on")]


@pytest.mark.parametrize("name", NAMES)
def test_the_json_tells_the_run(runs, pages, name):
    run, told = runs[name], facts(pages[name])
    assert told["title"] == run.title and told["shape"] == list(run.labels.shape) and told["command"] == run.command
    assert told["summary"].get("energy") == run.summary.get("energy")
    assert [step["energy"] for step in told["trace"]] == [step.energy for step in run.trace]
    where = [tuple(slice(*ends) for ends in block) for block in told["blocks"]]
    assert where == [tuple(slice(s.start, s.stop) for s in block) for block in run.blocks]
    assert told["settings"] == {} or told["settings"]["lam"] == 0.4


def test_the_same_run_gives_the_same_page(runs, pages):
    assert page(runs["line"]) == pages["line"]


@pytest.mark.parametrize("text", [HOSTILE, "]]>", "\u2028 \x00 \ud800 \udcff", "日本語 ü", "<script>", "</SCRIPT >"])
def test_no_name_breaks_out(text):
    harmless, hostile = (
        page(
            PageContent(
                title=name,
                image=None,
                channels=False,
                labels=np.zeros(3, bool),
                trace=[dope.Step(round=1, energy=1.0, stopped=name)],
                summary={"stopped": name, name: name},
                settings={name: name, "path": Path("x" + name.replace("\x00", "")), "deep": {name: [name]}},
                versions={name: name},
                command=name,
            )
        )
        for name in ("harmless", text)
    )
    assert [tag for tag, _ in Document(hostile).elements] == [tag for tag, _ in Document(harmless).elements]
    assert facts(hostile)["title"] == text and facts(hostile)["settings"][text] == text
    assert hostile.encode("utf-8")
    if text.isprintable():
        assert Document(hostile).text().count(text) >= 8


@examples(15)
@given(st.text(max_size=30))
def test_any_title_is_the_title(title):
    labels = np.zeros(3, dtype=bool)
    result = page(PageContent(title, None, False, labels))
    assert facts(result)["title"] == title
    assert len(Document(result).all("script")) == 1


def test_values_of_all_kinds_are_told():
    settings_ = {
        "array": np.arange(3),
        "large": np.zeros((100, 100)),
        "number": np.float32(0.5),
        "flag": np.bool_(True),
        "nan": float("nan"),
        "infinite": [1.0, float("-inf")],
        "nothing": None,
        "plug-in": dope.Admm(),
    }
    told = facts(page(PageContent("t", None, False, np.zeros(3, bool), settings=settings_)))["settings"]
    assert told["array"] == [0, 1, 2] and told["large"] == "array of float64 shaped (100, 100)"
    assert told["number"] == 0.5 and told["flag"] is True and told["nan"] == "nan"
    assert told["infinite"] == [1.0, "-inf"] and told["nothing"] is None and told["plug-in"] == repr(dope.Admm())


@pytest.mark.parametrize(("name", "number_of_pictures"), [("exact", 3), ("volume", 4), ("line", 0), ("four", 0)])
def test_pictures_are_there(pages, name, number_of_pictures):
    document = Document(pages[name])
    found = list(pictures(document))
    assert len(found) == number_of_pictures
    assert all(attributes["alt"] for attributes in document.all("img"))
    for picture in found:
        assert picture.ndim == 3 and min(picture.shape[:2]) >= 100


def test_pictures_show_strokes_and_outline(pages):
    given_, found, _ = pictures(Document(pages["exact"]))
    greens = given_[..., 1].astype(int) - given_[..., 0] > 80
    assert greens.any() and (found == (255, 214, 10)).all(axis=2).any()


def test_small_images_are_enlarged_by_a_whole_number(pages):
    for picture in pictures(Document(pages["exact"])):
        assert picture.shape == (400, 600, 3)


def test_spacing_is_respected(runs, pages):
    cubes = page(replace(runs["volume"], spacing=None, trace=()))
    for text, depth in ((cubes, 18), (pages["volume"], 18 * 2.5)):
        first = next(pictures(Document(text)))
        width = 2 * depth + 16
        assert first.shape[1] / first.shape[0] == pytest.approx(width / 16, rel=0.1)


@pytest.mark.slow
def test_noise_is_shrunk_until_the_page_is_small():
    labels = np.zeros((900, 900), dtype=bool)
    labels[300:600, 200:800] = True
    image = np.random.default_rng(0).integers(0, 255, (900, 900, 3), dtype=np.uint8)
    halves = [(slice(0, 900), slice(0, 700)), (slice(0, 900), slice(700, 900))]
    text = page(PageContent("noise", image, True, labels, blocks=halves))
    assert len(text) < 3e6 and len(list(pictures(Document(text)))) == 3


def test_a_long_trace_is_thinned():
    steps = [dope.Step(round=k, energy=1.0 / k, lower_bound=0.0) for k in range(1, 5001)]
    text = page(PageContent("long", None, False, np.zeros(3, bool), trace=steps))
    told = facts(text)
    assert len(text) < 3e6 and told["trace"][0]["round"] == 1 and told["trace"][-1]["round"] == 5000
    assert told["trace_every"] == 5


def test_curves_follow_the_color_of_the_page(pages):
    text = pages["admm"]
    curves = drawings(Document(text))
    assert len(curves) >= 4
    for curve in curves:
        drawn, colors = curve.split("<style>")
        assert set(re.findall(r"#[0-9a-f]{6}\b", drawn)) == set()
        assert "var(--ink)" in drawn and "<text" in drawn and "prefers-color-scheme: dark" in colors
        assert set(re.findall(r"var\((--\w+)\)", drawn)) <= set(re.findall(r"(--\w+):", colors))
        assert colors.split("</style>")[0] in text


def test_without_matplotlib_there_is_still_a_page(runs, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    document = Document(page(runs["exact"]))
    assert "pip install 'dope[report]'" in document.text()
    assert len(document.all("img")) == 3 and not drawings(document)


def test_a_page_without_curves_does_not_import_matplotlib():
    code = (
        "import sys, numpy as np; from dope.report import PageContent, page;"
        "page(PageContent('t', None, False, np.eye(9) > 0));"
        "sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_page_says_what_was_proved(pages):
    assert "The global minimum, proved." in Document(pages["exact"]).text()


@pytest.mark.parametrize(
    ("summary", "words"),
    [
        ({}, "No bound is known"),
        ({"energy": 3.0, "lower_bound": None, "gap": None}, "No bound is known"),
        ({"energy": 3.0, "lower_bound": -np.inf, "gap": np.inf}, "No bound is known"),
        ({"energy": 3.0, "exact": True}, "The global minimum, proved"),
        ({"energy": 3.0, "exact": True, "rounding_error": 1e-9}, "The global minimum, proved"),
        ({"energy": 3.0, "exact": True, "rounding_error": 0.5}, "at most 0.5 above the minimum"),
        ({"energy": 3.0, "lower_bound": 3.0}, "The global minimum, proved"),
        ({"energy": -1e6, "lower_bound": -1e6 - 130, "gap": 130}, "At most 0.013 % above the minimum"),
        ({"energy": 3.0, "lower_bound": -1.0, "gap": 4.0}, "At most 4 above the minimum"),
    ],
)
def test_verdicts(summary, words):
    assert words in verdict(PageContent("t", None, False, np.zeros(3, bool), summary=summary))


@given(st.floats(0, 1))
def test_percentages_do_not_say_all_or_nothing_where_some_is_left(share):
    assert (percent(share) == "100 %") == (share == 1.0)
    assert (percent(share) == "0 %") == (share == 0.0)


@given(st.floats(-1e300, 1e300))
def test_numbers_keep_their_digits(value):
    assert float(number(value).replace(",", "")) == pytest.approx(value, rel=1e-2, abs=1e-300)


@pytest.mark.parametrize(
    "wrong",
    [
        {"image": np.zeros((3, 4))},
        {"image": np.zeros((3, 3, 3))},
        {"image": np.zeros((3, 3, 0)), "channels": True},
        {"seeds": np.zeros(9)},
        {"mask": np.zeros((3, 4), bool)},
        {"blocks": [(slice(0, 3),)]},
        {"spacing": (1.0,)},
    ],
)
def test_what_does_not_fit_together(wrong):
    with pytest.raises(InputError, match="expected"):
        PageContent(**({"title": "t", "image": None, "channels": False, "labels": np.zeros((3, 3), bool)} | wrong))


def test_a_summary_holds_numbers():
    with pytest.raises(InputError, match="expected a number"):
        page(PageContent("t", None, False, np.zeros(3, bool), summary={"energy": "low"}))
