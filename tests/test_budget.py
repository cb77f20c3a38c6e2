"""Memory and time: what is too much is refused before it is spent, and what a plan says is what is taken."""

import dataclasses
import json
import math
import subprocess
import sys
import textwrap
import time
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import dope
from dope import Energy, InputError, Partition
from dope.cli import app
from dope.footprint import BOX_PROCESS_BYTES as PROCESS_BYTES
from dope.footprint import MOST_CROSSING
from dope.forecast import Costs, outline_energy, plan_for_workers
from dope.memory import available_bytes, budget_of, require_bytes
from dope.methods import bracketing, flow_block
from dope.pairs import MOST_AXES, MOST_HALF_OFFSETS, half_offsets
from dope.partition import MOST_BLOCKS, layout_of
from dope.planning.box_cuts import Boxes, fitting_cuts
from dope.planning.defaults import automatic_blocks, automatic_flow_solver
from dope.segmentation.classes import Drawn
from profiles import examples, slow_but

resource = pytest.importorskip("resource")

GIGABYTE = 10**9
# Longer than any refusal takes, on a machine with much else to do.
PROMPT = 5.0


def in_child(code, *arguments, most=2 * GIGABYTE):
    """The JSON that a process prints, whose address space ends there: whatever takes too much fails, and alone."""

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    done = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(words, call, *arguments, **settings):
    begun = time.perf_counter()
    with pytest.raises(InputError, match=words):
        call(*arguments, **settings)
    assert time.perf_counter() - begun < PROMPT


# --- What there is ------------------------------------------------------------------------------------------------


@pytest.fixture
def machine(tmp_path):
    """A folder like the root of a machine with 8 GB available, to which files are added by their paths."""

    def put(files):
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(str(text))
        return tmp_path

    put({"proc/meminfo": "MemTotal: 16000000 kB\nMemFree: 1000 kB\nMemAvailable: 8000000 kB\n"})
    return put


KERNEL = 8_000_000 * 1024
V2, V1 = "sys/fs/cgroup", "sys/fs/cgroup/memory"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, KERNEL),
        ({"proc/self/cgroup": "0::/\n", f"{V2}/memory.max": "max", f"{V2}/memory.current": 5}, KERNEL),
        ({"proc/self/cgroup": "0::/\n", f"{V2}/memory.max": 1000, f"{V2}/memory.current": 400}, 600),
        ({"proc/self/cgroup": "0::/\n", f"{V2}/memory.max": 1000, f"{V2}/memory.current": 4000}, 0),
        # A slice with a limit, around a scope without one.
        (
            {"proc/self/cgroup": "0::/a.slice/b.scope\n",
             f"{V2}/a.slice/memory.max": 3000, f"{V2}/a.slice/memory.current": 1000,
             f"{V2}/a.slice/b.scope/memory.max": "max", f"{V2}/a.slice/b.scope/memory.current": 10},
            2000,
        ),
        # The inner limit is the narrower one, and `high` is a limit, too.
        (
            {"proc/self/cgroup": "0::/a/b\n", f"{V2}/a/memory.max": 9000, f"{V2}/a/memory.current": 1000,
             f"{V2}/a/b/memory.max": 8000, f"{V2}/a/b/memory.high": 1500, f"{V2}/a/b/memory.current": 1000},
            500,
        ),
        # A cache of files makes room when it is needed.
        (
            {"proc/self/cgroup": "0::/\n", f"{V2}/memory.max": 1000, f"{V2}/memory.current": 900,
             f"{V2}/memory.stat": "anon 100\ninactive_file 300\nactive_file 500\n"},
            400,
        ),
        # Version 1, nested, and beside version 2 without a word on memory.
        (
            {"proc/self/cgroup": "4:memory:/jobs/7\n2:cpu,cpuacct:/x\n0::/\n",
             f"{V1}/memory.limit_in_bytes": 2**63 - 4096, f"{V1}/memory.usage_in_bytes": 10,
             f"{V1}/jobs/memory.limit_in_bytes": 5000, f"{V1}/jobs/memory.usage_in_bytes": 1000,
             f"{V1}/jobs/7/memory.limit_in_bytes": 4500, f"{V1}/jobs/7/memory.usage_in_bytes": 10,
             f"{V1}/jobs/memory.stat": "cache 5\ntotal_inactive_file 100\n"},
            4100,
        ),
        # In a container, the group's own name is that of the host, and its files lie at the root.
        ({"proc/self/cgroup": "4:memory:/docker/1f\n", f"{V1}/memory.limit_in_bytes": 700,
          f"{V1}/memory.usage_in_bytes": 200}, 500),
        ({"proc/self/cgroup": "0::/../../x\n", f"{V2}/memory.max": 700, f"{V2}/memory.current": 100}, 600),
        # What cannot be read says nothing.
        ({"proc/self/cgroup": "0::/\n", f"{V2}/memory.max": "much", f"{V2}/memory.current": ""}, KERNEL),
        ({"proc/self/cgroup": "nonsense\n\n:::\n"}, KERNEL),
    ],
)  # fmt: skip
def test_every_control_group_around_a_process_counts(machine, files, expected):
    assert available_bytes(machine(files)) == expected


def test_limits_of_the_process_count():
    code = """
        import json, resource
        from dope.memory import available_bytes
        before = available_bytes()
        kind = getattr(resource, {!r})
        resource.setrlimit(kind, (700_000_000, resource.getrlimit(kind)[1]))
        print(json.dumps([before, available_bytes()]))
    """
    for kind in ("RLIMIT_AS", "RLIMIT_DATA"):
        before, after = in_child(code.format(kind))
        assert 100_000_000 < after < 700_000_000 < before


@pytest.mark.parametrize("memory", [0, -1, True, 1.5, "", "GB", [1], b"8GB", float("nan")])
def test_what_is_no_memory_is_refused(memory):
    refused("memory", budget_of, memory)
    refused("memory", dope.minimize, Energy.grid(np.ones((4, 4))), memory=memory)
    refused("memory", dope.segment, np.ones((4, 4)), probability=np.full((4, 4), 0.2), memory=memory)


def test_advice_follows_what_was_found():
    refused(
        "^a house takes 2 kB of memory, and 1 kB are allowed. Rent.$",
        require_bytes,
        "a house",
        2000,
        1000,
        advice="Rent.",
    )


# --- Kernels ------------------------------------------------------------------------------------------------------


@given(st.integers(0, 3), st.integers(1, 5))
def test_half_offsets_are_those_of_a_square_or_a_ball(radius, dimensions):
    cube = [o for o in product(range(-radius, radius + 1), repeat=dimensions) if o > (0,) * dimensions]
    ball = [o for o in cube if dimensions < 3 or sum(x * x for x in o) <= radius * radius]
    found = half_offsets(2 * radius + 1, dimensions)
    assert found.dtype == np.int64 and found.shape == (len(ball), dimensions)
    assert list(map(tuple, found.tolist())) == ball


def test_many_axes_have_the_neighbors_of_a_ball():
    assert len(half_offsets(3, 16)) == 16 and len(half_offsets(3, MOST_AXES)) == MOST_AXES
    energy = Energy.grid(np.full((1,) * 16, -1.0))
    assert dope.minimize(energy).energy == -1.0
    assert dope.minimize(Energy.grid(np.full((2,) * 10, -1.0))).energy == -1024.0


@pytest.mark.parametrize(
    ("kernel", "dimensions"),
    [(513, 2), (99999, 2), (1000000001, 1), (1000000001, 2), (1000000001, 3), (81, 3), (7, MOST_AXES), (10**400 + 1, 3),
     (2**63 + 1, 2)],
)  # fmt: skip
def test_kernels_with_too_many_neighbors_are_refused_before_they_are_made(kernel, dimensions):
    refused("pairs of opposite neighbours", half_offsets, kernel, dimensions)
    shape = (2,) * min(dimensions, 12)
    if dimensions == len(shape):
        refused("pairs of opposite neighbours", Energy.grid, np.zeros(shape), kernel=kernel)
        refused("pairs of opposite neighbours", dope.models.kernel_lam, kernel, dimensions)
        refused("pairs of opposite neighbours", outline_energy, shape, kernel=kernel)


def test_the_largest_kernels_take_little():
    code = """
        import json
        from dope.memory import peak_bytes
        from dope.pairs import half_offsets
        before = peak_bytes()
        numbers = [len(half_offsets(511, 2)), len(half_offsets(79, 3))]
        print(json.dumps([numbers, peak_bytes() - before]))
    """
    numbers, taken = in_child(code)
    assert max(numbers) <= MOST_HALF_OFFSETS and taken < 50_000_000


def test_lists_of_too_many_offsets_and_axes_are_refused():
    listed = np.stack([np.arange(1, MOST_HALF_OFFSETS + 2)], axis=1)
    refused("kernel lists 131,073 half-offsets", half_offsets, listed, 1)
    refused("33 dimensions", half_offsets, 3, MOST_AXES + 1)
    refused("41 axes", Energy.graph([1.0, 2.0], [[0, 1]], [1.0]).on_grid, (1,) * 40 + (2,))


# --- Blocks -------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 60))
def test_blocks_are_laid_out_with_the_least_seam(shape, blocks):
    sites = math.prod(shape)
    fitting = [layout for layout in product(*(range(1, n + 1) for n in shape)) if math.prod(layout) == blocks]
    if not fitting:
        refused("blocks", layout_of, tuple(shape), blocks)
        return
    seam = {layout: sum((k - 1) * (sites // n) for k, n in zip(layout, shape, strict=True)) for layout in fitting}
    assert layout_of(tuple(shape), blocks) == min(fitting, key=lambda layout: (seam[layout], layout))


@pytest.mark.parametrize("blocks", [2**40, 10**18, 735_134_400, (10**9, 10**9), (2**20, 2), 10**400, MOST_BLOCKS + 1])
def test_more_blocks_than_can_be_listed_are_refused(blocks):
    shape = (2**30, 2**30)
    for call in (layout_of, Partition.grid):
        refused("blocks (are )?asked for", call, shape, blocks)
    refused("blocks", dope.plan, outline_energy(shape), blocks=blocks)
    refused("blocks", plan_for_workers, outline_energy(shape), blocks=blocks, memory=GIGABYTE, workers=2)
    refused("blocks", dope.minimize, Energy.grid(np.ones((4, 4))), blocks=blocks)


def test_many_axes_and_long_ones_can_be_cut():
    begun = time.perf_counter()
    assert math.prod(layout_of((2,) * 30, 1024)) == 1024
    assert math.prod(layout_of((100,) * 12, 720_720)) == 720_720
    long = Partition.grid((2**40, 3), (5, 1))
    assert time.perf_counter() - begun < PROMPT
    assert len(long.blocks) == 5 and long.counts_at((slice(2**39, 2**39 + 3), slice(0, 2)))[0].tolist() == [1.0] * 3
    refused("along every axis", Partition.grid, (2**62, 2), 2)
    refused("blocks are asked for", Partition.graph, Energy.graph(np.zeros(2**21), [[0, 1]], [1.0]).pairs, 2**21)


def test_blocks_are_no_smaller_than_a_kernel_allows():
    for shape, kernel in [((64, 64), 51), ((128, 128), 21), ((512, 512), 9), ((40, 40, 40), 9), ((2000, 2000), 3)]:
        pairs = outline_energy(shape, kernel=kernel).pairs
        number = automatic_blocks(pairs, dope.Exact())
        assert number == 1 or pairs.crossing(layout_of(shape, number)) <= MOST_CROSSING * pairs.number
    assert automatic_blocks(outline_energy((2000, 2000)).pairs, dope.Exact()) == 32


@given(st.lists(st.integers(1, 8), min_size=1, max_size=3), st.integers(0, 20), st.sampled_from([3, 5]))
def test_pairs_across_seams_are_counted_and_none_forgotten(shape, seed, kernel):
    rng = np.random.default_rng(seed)
    layout = tuple(int(rng.integers(1, n + 1)) for n in shape)
    pairs = Energy.grid(np.zeros(shape), kernel=kernel).pairs
    member = np.zeros(shape, dtype=int)
    for k, block in enumerate(Partition.grid(shape, layout).blocks):
        member[block.where] = k
    first, second, _ = pairs.edges()
    across = int((member.ravel()[first] != member.ravel()[second]).sum())
    assert pairs.number == len(first) and pairs.crossing(layout) >= across
    if all(n % k == 0 for n, k in zip(shape, layout, strict=True)):
        assert pairs.crossing(layout) == across


# --- Plans --------------------------------------------------------------------------------------------------------

MEASURED = """
    import json, sys
    import numpy as np, dope
    from dope.memory import peak_bytes
    side, kernel, rectangle = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "rectangle"
    image = np.random.default_rng(0).integers(0, 200, (side, side, 3), dtype=np.uint8)
    image[side // 3 : side // 2, side // 3 : side // 2] += 50
    known = {"rectangle": ((side // 4, side - 9), (side // 4, side - 9))}
    if not rectangle:
        strokes = np.zeros((side, side), dtype=np.uint8)
        strokes[side // 2, side // 3 : side // 2], strokes[0] = 1, 2
        known = {"scribbles": strokes}
    said = dope.Segmentation(image=image, kernel=kernel, **known)
    planned = said.plan().bytes
    result = said.run()
    print(json.dumps([planned, peak_bytes(), result.exact]))
"""


@pytest.mark.parametrize(
    ("side", "kernel", "known"),
    [(64, 3, "strokes"), (64, 31, "strokes"), *(pytest.param(*case, marks=pytest.mark.slow) for case in (
        (64, 51, "strokes"), (40, 101, "strokes"), (160, 21, "strokes"), (1000, 3, "strokes"), (500, 3, "rectangle")))],
)  # fmt: skip
def test_a_segmentation_takes_what_the_plan_says(side, kernel, known):
    planned, peak, exact = in_child(MEASURED, side, kernel, known, most=6 * GIGABYTE)
    assert exact
    assert peak <= 1.1 * planned
    # What only pads a network is never touched, and counts as little as nothing in main memory.
    assert peak >= planned / 6


@pytest.mark.parametrize("kernel", [3, 5, 7, 9])
@pytest.mark.parametrize("bits", [None, 16, 32, 64])
def test_boxes_are_cut_for_the_integers_that_are_expected(kernel, bits):
    energy = Energy.grid(Absent(192, 192, 192), kernel=kernel, lam=0.3)
    said = {"method": dope.Bracketing(), "solver": dope.MaxFlow(bits=bits), "executor": dope.Threads(2)}
    found = dope.plan(energy, memory=600_000_000, **said)
    assert found.in_boxes and found.bits == (bits or (32 if kernel < 7 else 64))
    assert 0.6 * found.memory <= found.bytes <= found.memory == 600_000_000


BOXES = """
    import json, sys
    import numpy as np, dope
    from dope.memory import peak_bytes
    folder, kernel, side = sys.argv[1], int(sys.argv[2]), 48
    rng = np.random.default_rng(0)
    np.save(folder + "/unary.npy", rng.normal(0, 1, (side,) * 3).astype(np.float32))
    unary = np.load(folder + "/unary.npy", mmap_mode="r")
    out = np.lib.format.open_memmap(folder + "/labels.npy", mode="w+", dtype=bool, shape=unary.shape)
    energy = dope.Energy.grid(unary, kernel=kernel, lam=0.001)
    said = {"method": dope.Bracketing(), "solver": dope.MaxFlow(bits=64), "executor": dope.Threads(2)}
    found = dope.plan(energy, memory="290MB", out=out, **said)
    result = found.run()
    print(json.dumps([found.blocks, found.bytes, peak_bytes(), result.exact]))
"""


@pytest.mark.parametrize("kernel", slow_but([7, 9], quick=[7]))
def test_boxes_of_many_neighbors_take_what_was_planned(tmp_path, kernel):
    blocks, planned, peak, exact = in_child(BOXES, tmp_path, kernel, most=4 * GIGABYTE)
    assert blocks > 2 and exact
    assert peak <= planned <= 290_000_000


ONE_BOX = """
    import json, sys
    import numpy as np, dope
    from dope.footprint import box_bytes
    from dope.memory import peak_bytes
    kernel, bits, side = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    unary = np.random.default_rng(0).normal(0, 1, (side,) * 3)
    energy = dope.Energy.grid(unary, kernel=kernel, lam=0.001)
    before = peak_bytes()
    dope.MaxFlow(bits=bits).prepare(energy).minimize(unary)
    print(json.dumps([box_bytes(energy.pairs, unary.shape, site_bytes=8, bits=bits), peak_bytes() - before]))
"""


@pytest.mark.parametrize("case", slow_but([(7, 32), (7, 64), (9, 32), (9, 64)], quick=[(9, 32)]))
def test_a_box_of_many_neighbors_takes_what_the_model_says(case):
    """What pads the network on the outside is never touched: counted, it would be a third more in boxes this small."""
    planned, taken = in_child(ONE_BOX, *case, 40, most=4 * GIGABYTE)
    assert taken <= planned <= 1.25 * taken


HARD = """
    import json, sys
    import numpy as np, dope
    from dope.memory import peak_bytes
    folder, side = sys.argv[1], 96
    np.save(folder + "/unary.npy", np.random.default_rng(0).normal(0, 1, (side,) * 3).astype(np.float32))
    unary = np.load(folder + "/unary.npy", mmap_mode="r")
    out = np.zeros(unary.shape, dtype=bool)
    energy = dope.Energy.grid(unary, kernel=5, lam=0.25)
    said = {"method": dope.Bracketing(), "blocks": (3, 3, 3), "executor": dope.Threads(2), "out": out}
    allowed = dope.plan(energy, **said).bytes
    result = dope.minimize(energy, memory=allowed, checkpoint=folder + "/board", **said)
    print(json.dumps([allowed, peak_bytes(), result.exact]))
"""


@pytest.mark.slow
def test_blocks_kept_open_do_not_take_more_than_is_left(tmp_path):
    """Flows visit blocks again and again. Those that stay open meanwhile must fit beside those at work."""
    allowed, peak, exact = in_child(HARD, tmp_path, most=6 * GIGABYTE)
    assert exact and peak <= 0.8 * allowed


@pytest.mark.parametrize(("more", "room"), [(0, 0), (10**6, 10**6), (10**9, None)])
def test_the_shelf_has_what_memory_is_left(tmp_path, monkeypatch, more, room):
    found = []

    def noted(*given):
        found.append(given[3])
        return flow_block.FlowRecipe(*given)

    monkeypatch.setattr(bracketing, "FlowRecipe", noted)
    energy = Energy.grid(np.random.default_rng(0).normal(0, 1, (24, 24, 24)), lam=2.0)
    said = {"method": dope.Bracketing(), "blocks": 8, "executor": dope.Threads(2), "solver": dope.MaxFlow(bits=32)}
    plan = dope.plan(energy, **said)
    memory = PROCESS_BYTES + 2 * plan.block_bytes + more
    assert dope.minimize(energy, memory=memory, certificate=tmp_path / "proof", **said).exact
    assert set(found) == {memory // bracketing.SHELF_SHARE if room is None else room}


def test_blocks_within_a_kernels_reach_are_planned_for():
    energy = outline_energy((64, 64), kernel=51)
    whole, cut = (dope.plan(energy, blocks=blocks).bytes for blocks in (1, 16))
    assert cut > 10 * whole
    image = np.zeros((64, 64), dtype=np.uint8)
    refused(
        "takes .* GB, and 1 GB are allowed", dope.segment, image, rectangle=((9, 50), (9, 50)), kernel=51,
        blocks=16, memory="1GB", method=dope.Exact(),
    )  # fmt: skip


def test_capacities_are_planned_as_wide_as_they_are():
    rng = np.random.default_rng(0)
    for side, kernel in [(40, 3), (700, 3), (400, 5), (64, 31)]:
        image, unary = rng.integers(0, 255, (side, side), dtype=np.uint8), rng.normal(0, 2, (side, side))
        energy = Energy.grid(unary, features=image, kernel=kernel, lam=dope.models.automatic_lam(unary, kernel))
        solver = automatic_flow_solver(energy.pairs)
        plan = dope.plan(energy, blocks=1)
        assert plan.bits == dope.fixed_point.FixedPoint.of(energy, solver.bits).bits
        assert 0 <= plan.bytes - solver.bytes_needed(energy) < 100 * side * side + 64 * 2**20


def plan_command(*arguments):
    begun = time.perf_counter()
    result = CliRunner().invoke(app, ["plan", *arguments], env={"COLUMNS": "200"})
    return result, time.perf_counter() - begun


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--shape", "100x100", "--kernel", "99999"), "kernel is 99999"),
        (("--shape", "100x100", "--kernel", "99999", "--memory", "16GB"), "kernel is 99999"),
        (("--shape", "100x100", "--kernel", "1000000001"), "kernel is 1000000001"),
        (("--shape", "1000x1000", "--kernel", "301"), "the kernel has 90600 neighbors"),
        (("--shape", "x".join(["1"] * 40)), "expected 1 to 32"),
        (("--shape", "x".join(["1"] * 40), "--memory", "16GB"), "expected 1 to 32"),
        (("--shape", "x".join(["3"] * 30)), "sites with its padding"),
        (("--shape", "x".join(["3"] * 30), "--memory", "16GB"), "too little"),
        (("--shape", "x".join(["1"] * 16), "--memory", "16GB"), "16 axes"),
        (("--shape", "x".join(["9"] * 6), "--memory", "16GB"), "6 axes"),
        (("--shape", "2147483647x2147483647x2147483647"), "blocks are asked for"),
        (("--shape", "2147483647x2147483647", "--memory", "300MB"), "blocks"),
        (("--shape", "1000000x1000000", "--blocks", "735134400"), "blocks are asked for"),
        (("--shape", "100x100", "--memory", "1KB"), "expected more than"),
    ],
)  # fmt: skip
def test_plans_that_cannot_be_made_are_refused_at_once(arguments, words):
    result, seconds = plan_command(*arguments)
    assert result.exit_code == 2 and words in result.output, result.output
    assert seconds < PROMPT


@pytest.mark.parametrize(
    "arguments",
    [("--shape", "100x100", "--kernel", "101"), ("--shape", "40x40", "--kernel", "301"),
     ("--shape", "x".join(["1"] * 16)), ("--shape", "x".join(["2"] * 14)), ("--shape", "2147483647x1x1"),
     ("--shape", "2147483647"), ("--shape", "300x300", "--kernel", "51", "--blocks", "16")],
)  # fmt: skip
def test_plans_are_made_at_once(arguments):
    result, seconds = plan_command(*arguments)
    assert result.exit_code == 0, result.output
    assert seconds < 2 * PROMPT


@pytest.mark.slow
def test_planning_takes_little_memory():
    code = """
        import json
        from dope.memory import peak_bytes
        import dope
        from dope.forecast import outline_energy, plan_for_workers
        before = peak_bytes()
        for shape, kernel in [((1,) * 16, 3), ((2**31 - 1, 1, 1), 3), ((100, 100), 101), ((40, 40), 511)]:
            dope.plan(outline_energy(shape, kernel=kernel), memory="1TB").seconds
        plan_for_workers(outline_energy((2**31 - 1, 1, 1)), memory=300_000_000, workers=1).block_shape
        print(json.dumps(peak_bytes() - before))
    """
    assert in_child(code) < 150_000_000


def test_costs_are_measured_of_few_axes_only():
    refused("costs of 5 axes", Costs.measured, 3, 5)


# --- Blocks that are read, solved and forgotten -------------------------------------------------------------------


class Absent:
    """An array of which nobody reads a number."""

    dtype: np.dtype[Any] = np.dtype(np.float32)

    def __init__(self, *shape):
        self.shape = shape

    def __getitem__(self, key):
        raise AssertionError(key)


@pytest.mark.parametrize("memory", [1, "1KB", "1MB", "209MB"])
@pytest.mark.parametrize("shape", [(200, 200), (2**31 - 1,), (10**6, 10**6), (10**5,) * 3])
def test_too_little_memory_is_refused_at_once(memory, shape):
    if memory == "209MB" and math.prod(shape) <= 10**6:
        return  # so few sites need not be cut
    refused("memory are too little", dope.minimize, Energy.grid(Absent(*shape)), memory=memory)
    refused("too little", dope.segment, Absent(*shape), probability=Absent(*shape), memory=memory)


def test_memory_that_makes_too_many_blocks_is_refused_at_once():
    refused("make about .* blocks", dope.minimize, Energy.grid(Absent(10**6, 10**6)), memory="215MB")
    refused("make about .* blocks", dope.minimize, Energy.grid(Absent(2**31 - 1)), memory="210MB")


@examples(30)
@given(st.lists(st.integers(20, 90), min_size=1, max_size=3), st.integers(1, 3), st.integers(9, 100), st.integers(0, 9))
def test_chunks_that_are_written_never_forbid_blocks_that_fit(shape, workers, chunk, more):
    energy = Energy.grid(Absent(*shape))
    allowed = {"memory": PROCESS_BYTES + 60_000 * (more + 1), "workers": workers, "bits": 32, "chunks": None}
    try:
        fitting_cuts(energy, **allowed)
    except InputError:
        return
    written = tuple(min(n, chunk) for n in shape)
    found = Partition.at(energy.shape, fitting_cuts(energy, written=written, **allowed))
    sides = np.max([[s.stop - s.start for s in block.where] for block in found.blocks], axis=0)
    assert workers * Boxes(energy, 32).bytes(sides) <= allowed["memory"] - PROCESS_BYTES
    if workers * Boxes(energy, 32).bytes(written) <= allowed["memory"] - PROCESS_BYTES:  # whole chunks fit
        assert all(cut % side == 0 for cuts, side in zip(found.cuts, written, strict=True) for cut in cuts)


def test_chunks_that_are_read_do():
    class Chunked(Absent):
        chunks = (3000, 3000)

    refused("store the arrays in smaller chunks", dope.minimize, Energy.grid(Chunked(6000, 6000)), memory="300MB")


@pytest.mark.slow
def test_a_small_memory_and_chunks_of_our_own_go_together(tmp_path, monkeypatch):
    zarr = pytest.importorskip("zarr")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dope.io.images.zarr_draft._CHUNK_BYTES", 1 << 24)  # as large as the whole
    rng = np.random.default_rng(0)
    probability = np.repeat(np.repeat(rng.random((15, 15)), 100, axis=0), 100, axis=1).astype(np.float32)
    np.save("probability.npy", probability)
    np.save("image.npy", rng.integers(0, 200, probability.shape, dtype=np.uint8))
    command = ["segment", "image.npy", "--probability", "probability.npy", "--memory", "240MB", "-o", "labels.zarr"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    expected = dope.segment(np.load("image.npy"), probability=probability).labels
    assert (np.asarray(zarr.open_array("labels.zarr", mode="r")) == expected).all()


# --- Segmentation -------------------------------------------------------------------------------------------------

STROKES = {"fg": [[[100, 100], [200, 200]]], "bg": [[[1000, 1000], [1200, 1200]]]}


@pytest.fixture(scope="module")
def sparse(tmp_path_factory):
    """A Zarr array of 30000 x 30000 pixels that takes some bytes on the disk."""
    zarr = pytest.importorskip("zarr")
    folder = tmp_path_factory.mktemp("sparse")
    array = zarr.create_array(folder / "sparse.zarr", shape=(30_000, 30_000), chunks=(3000, 3000), dtype="u1")
    array[0, 0] = 1
    (folder / "strokes.json").write_text(json.dumps(STROKES))
    return folder


@pytest.mark.parametrize(
    "known", ["--scribbles strokes.json", pytest.param("--rectangle 10:200,10:200", marks=pytest.mark.slow)]
)
def test_strokes_on_more_than_fits_are_refused_before_they_are_drawn(sparse, known):
    more = ("", "--memory 1GB --method exact", "--kernel 9", "--rounds 2", "--connected", "--workers 4")
    code = """
        import json, os, sys
        from typer.testing import CliRunner
        from dope.cli import app
        from dope.memory import peak_bytes
        os.chdir(sys.argv[1])
        for said in json.loads(sys.argv[2]):
            command = ["segment", "sparse.zarr", "--memory", "50MB", *said.split(), "-o", "labels.npy"]
            result = CliRunner().invoke(app, command)
            refused = "are allowed" in result.output or "are too little" in result.output
            assert result.exit_code == 2 and refused, (command, result.output)
        print(json.dumps(peak_bytes()))
    """
    assert in_child(code, sparse, json.dumps([f"{known} {one}" for one in more])) < 200_000_000


def test_arrays_are_not_read_before_it_is_known_that_they_fit():
    class Strokes(Absent):
        """As those of a file, of which it is known what they hold."""

        dtype = np.dtype(np.int8)
        drawn = Drawn((1, 2), inactive=False)

    image, strokes = Absent(30_000, 30_000), Strokes(30_000, 30_000)
    for known in ({"scribbles": strokes}, {"rectangle": ((5, 9), (5, 9))}):
        refused("too little", dope.segment, image, memory="50MB", **known)
        refused("are allowed", dope.segment, image, memory="2GB", method=dope.Exact(), **known)
    refused("too little", dope.segment, image, lasso=[(1, 1), (1, 90), (90, 50)], memory="50MB")
    refused("too little", dope.segment, image, probability=image, scribbles=strokes, memory="205MB")


def test_rounds_of_re_estimation_count():
    image = np.zeros((500, 500, 3), dtype=np.uint8)
    once, again = (
        dope.Segmentation(image=image, rectangle=((50, 90), (50, 90)), rounds=rounds).plan().bytes for rounds in (0, 5)
    )
    assert again > once
    between = (once + again) // 2
    image[60:80, 60:80] = 200
    said = dope.Segmentation(image=image, rectangle=((50, 90), (50, 90)), memory=between)
    refused("are too little", said.plan)
    refused("are allowed", dataclasses.replace(said, method=dope.Exact()).plan)
    assert dope.segment(image, rectangle=((50, 90), (50, 90)), memory=between, rounds=0).labels.shape == (500, 500)


# --- Quadratic models ---------------------------------------------------------------------------------------------


def test_indices_that_need_more_than_there_is_are_refused():
    code = """
        import json, time
        import numpy as np
        from dope import Energy, InputError
        from dope.memory import peak_bytes

        class Sparse:
            def __init__(self, sites):
                self.shape, self.data = (sites, sites), np.ones(1)
                self.row, self.col = np.array([0]), np.array([sites - 1])

            def tocoo(self):
                return self

        calls = [
            lambda: Energy.from_qubo({(2**30, 2**30): 1.0}),
            lambda: Energy.from_qubo({(0, 2**30): 1.0}),
            lambda: Energy.from_qubo({(2**31 - 2, 0): 1.0}),
            lambda: Energy.from_qubo({(2**400, 0): 1.0}),
            lambda: Energy.from_qubo(Sparse(2**30)),
            lambda: Energy.from_ising({2**30: 1.0}, {}),
            lambda: Energy.from_ising({}, {(1, 2**30): 1.0}),
            lambda: Energy.from_ising([1.0], {(1, 2**30): 1.0}),
            lambda: Energy.from_ising({0: 1.0}, Sparse(2**30)),
            lambda: Energy.graph(np.zeros(4), [[0, 2**40]], [1.0]),
            lambda: Energy.graph(np.zeros(4), np.array([[0, 2**63]], np.uint64), [1.0]),
            lambda: Energy.from_tables(np.zeros((4, 2)), [[0, 2**40]], [[[0, 1], [1, 0]]]),
        ]
        before, begun, words = peak_bytes(), time.perf_counter(), []
        for call in calls:
            try:
                call()
            except InputError as error:
                words.append(str(error))
        print(json.dumps([len(calls), words, peak_bytes() - before, time.perf_counter() - begun]))
    """
    number, words, taken, seconds = in_child(code)
    assert len(words) == number and all("are available" in one or "expected" in one for one in words)
    assert taken < 50_000_000 and seconds < PROMPT


def test_indices_that_fit_still_do():
    energy = Energy.from_qubo({(10**5, 10**5): -1.0})
    assert energy.shape == (10**5 + 1,)
    assert dope.minimize(energy).energy == -1.0
