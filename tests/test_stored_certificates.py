"""Certificates of runs in boxes: in a folder, block by block, confirmed and refused as those in memory are."""

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import dope
from dope import Bracketing, Dask, Energy, InputError, Serial, Threads, cli, verify
from dope.certificate import Certificate, StoredCertificate, open_certificate
from dope.io import load_labels
from problems import grids, rng_of
from profiles import examples

BALL = np.linalg.norm(np.stack(np.meshgrid(*[np.linspace(-1, 1, 12)] * 3, indexing="ij")), axis=0) < 0.7
UNARY = 0.3 * (np.where(BALL, -1.0, 1.0) + np.random.default_rng(0).normal(0, 1.5, BALL.shape))
UNARY[5:7, 5:7, 5:7], UNARY[0] = -9.0, 9.0
PIXELS = np.random.default_rng(1).integers(0, 255, BALL.shape).astype(np.uint8)
ENERGY = Energy.grid(UNARY, lam=0.4, features=PIXELS)


def certified(energy, folder, *, blocks=(2, 2, 2), **more):
    return dope.minimize(energy, method=Bracketing(), blocks=blocks, certificate=folder, **more)


def folder_files(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def proof(tmp_path):
    return certified(ENERGY, tmp_path / "proof")


@examples(30)
@given(grids(most=30), st.data())
def test_every_run_in_boxes_is_proved_by_its_folder(tmp_path_factory, problem, data):
    energy = problem[0]
    layout = tuple(data.draw(st.integers(1, min(2, n))) for n in energy.shape)
    folder = tmp_path_factory.mktemp("proof")
    result, whole = certified(energy, folder, blocks=layout), dope.minimize(energy)
    assert np.array_equal(result.labels, whole.labels)
    verdict = verify(energy, result.labels, result.certificate)
    assert verdict.valid, verdict.reason
    inner = verify(energy, whole.labels, whole.certificate)
    assert verdict.energy == inner.energy and verdict.exact == inner.exact
    assert result.certificate.lower_bound + energy.constant <= verdict.lower_bound + 1e-9
    other = rng_of(data.draw).random(energy.shape) < 0.5
    # Weights are NumPy's exp here and the core's there: the last bit of each may differ.
    scale = 1.0 + np.abs(problem[1]).sum()
    assert verify(energy, other, result.certificate).energy == pytest.approx(energy(other), rel=0, abs=1e-12 * scale)


def test_arrays_elsewhere_are_read_a_block_at_a_time(tmp_path):
    arrays = {name: np.lib.format.open_memmap(tmp_path / f"{name}.npy", "w+", array.dtype, array.shape)
              for name, array in (("unary", UNARY), ("pixels", PIXELS))}  # fmt: skip
    arrays["unary"][...], arrays["pixels"][...] = UNARY, PIXELS
    labels = zarr.create_array(tmp_path / "labels.zarr", shape=UNARY.shape, dtype=bool, chunks=(6, 6, 6))
    asked = []

    class Watched:
        shape = UNARY.shape

        def __getitem__(self, box):
            asked.append(np.zeros(UNARY.shape)[box].size)
            return labels[box]

    energy = Energy.grid(arrays["unary"], lam=0.4, features=arrays["pixels"])
    result = certified(energy, tmp_path / "proof", memory="200MB", out=labels)
    assert result.exact and isinstance(result.certificate, StoredCertificate)
    verdict = verify(energy, Watched(), open_certificate(tmp_path / "proof"))
    assert verdict.exact and verdict == verify(ENERGY, labels[...], result.certificate)
    assert max(asked) == 7**3, "a block and its neighbours, no more"


def test_a_run_that_stopped_early_proves_its_gap(tmp_path):
    result = dope.minimize(ENERGY, method=Bracketing(rounds=0), blocks=(2, 2, 2), certificate=tmp_path / "proof")
    assert result.stopped == "undecided" and not result.exact
    verdict = verify(ENERGY, result.labels, result.certificate)
    assert verdict.valid and not verdict.exact
    assert result.lower_bound <= verdict.lower_bound < dope.minimize(ENERGY).energy <= verdict.energy


def test_the_folder_is_the_same_whoever_works(tmp_path):
    executors = {"serial": Serial(), "threads": Threads(2)}
    for name, executor in executors.items():
        certified(ENERGY, tmp_path / name, executor=executor)
    assert folder_files(tmp_path / "serial") == folder_files(tmp_path / "threads")
    assert min(folder_files(tmp_path / "serial")) == "certificate.json"


@pytest.mark.slow
def test_blocks_in_other_processes_prove_the_same(tmp_path):
    certified(ENERGY, tmp_path / "here", executor=Serial())
    with Dask("local:2") as dask:
        certified(ENERGY, tmp_path / "there", executor=dask)
    assert folder_files(tmp_path / "here") == folder_files(tmp_path / "there")


def test_a_resumed_run_is_proved_too(tmp_path):
    certified(ENERGY, tmp_path / "one", checkpoint=tmp_path / "board")
    shutil.rmtree(tmp_path / "one")
    (tmp_path / "one" / "flows").mkdir(parents=True)  # as a run left it that was broken off
    again = certified(ENERGY, tmp_path / "one", resume=tmp_path / "board")
    assert verify(ENERGY, again.labels, again.certificate).exact


def test_sites_outside_a_mask_have_no_part_in_it(tmp_path):
    mask = np.ones(UNARY.shape, dtype=bool)
    mask[:6, :6, :6] = mask[8] = False
    energy = Energy.grid(np.where(mask, UNARY, np.nan), lam=0.4, mask=mask)
    result = certified(energy, tmp_path / "proof")
    assert result.certificate.bounds[0] == 0 and not len(result.certificate.flows(0)[0])
    assert verify(energy, result.labels, result.certificate).exact


def test_in_memory_the_folder_holds_one_file(tmp_path):
    result = dope.minimize(ENERGY, certificate=tmp_path / "proof")
    assert sorted(folder_files(tmp_path / "proof")) == ["certificate.npz"]
    assert verify(ENERGY, result.labels, open_certificate(tmp_path / "proof")).exact


# What is refused.


def changed(certificate, k, column, place, value):
    flows = [array.copy() for array in certificate.flows(k)]
    flows[column][place] = value
    certificate.save_flows(k, tuple(flows))


EXCHANGED = np.array([1, -1, 0, 0, 0, 0, 0, 0])
TAMPERED = {
    "a flow beyond its weight": (lambda c: changed(c, 0, 2, 0, 2**40), "more than its weight"),
    "another flow": (lambda c: changed(c, 0, 2, np.argmax(np.abs(c.flows(0)[2])), 0), "bound of block"),
    "an end elsewhere": (lambda c: changed(c, 0, 1, 0, 1727), "no pair of the energy"),
    "an end beyond": (lambda c: changed(c, 0, 1, 0, 1728), "site 1728"),
    "inside the block": (lambda c: changed(c, 0, 1, 0, c.flows(0)[0][0] - 1), "does not cross a seam"),
    "another block's": (lambda c: c.save_flows(3, c.flows(0)), "to a later block"),
    "no flows": (lambda c: c.save_flows(0, tuple(x[:0] for x in c.flows(0))), "bound of block"),
    "higher bounds": (lambda c: replace(c, bounds=c.bounds + 2**40).finish(), "bound of block 0"),
    "bounds of equal sum": (lambda c: replace(c, bounds=c.bounds + 2**40 * EXCHANGED).finish(), "bound of block 0"),
    "a bound too few": (lambda c: replace(c, bounds=c.bounds[:-1]).finish(), "7 bounds for 8 blocks"),
    "other cuts": (lambda c: replace(c, cuts=((5,), (6,), (6,))).finish(), ""),
    "an axis too few": (lambda c: replace(c, cuts=((5,), (6,))).finish(), "2 axes"),
    "another scale": (lambda c: replace(c, scale=c.scale / 4).finish(), ""),
    "no rounding": (lambda c: replace(c, rounding_error=0.0).finish(), "rounding error"),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERED)
def test_tampering_is_refused_with_its_reason(proof, name):
    tamper, words = TAMPERED[name]
    assert verify(ENERGY, proof.labels, proof.certificate).valid
    tamper(proof.certificate)
    verdict = verify(ENERGY, proof.labels, open_certificate(proof.certificate.folder))
    assert not verdict.valid and not verdict.exact and words in verdict.reason, verdict.reason
    assert verdict.energy == proof.energy and verdict.lower_bound is None


def test_a_pair_twice_is_refused(proof):
    flows = proof.certificate.flows(0)
    proof.certificate.save_flows(0, tuple(np.append(array, array[0]) for array in flows))
    assert "more than once" in verify(ENERGY, proof.labels, proof.certificate).reason


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 10**5, b'{"version": 1}', b"\xff\xfe", b"PK"])
def test_files_that_are_damaged_are_an_error(proof, content):
    folder = proof.certificate.folder
    (folder / "flows" / "000001.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"certificate|empty"):
        verify(ENERGY, proof.labels, proof.certificate)
    (folder / "certificate.json").write_bytes(content)
    with pytest.raises(InputError, match=r"certificate|empty"):
        open_certificate(folder)


def test_what_is_missing_is_an_error(proof, tmp_path):
    (proof.certificate.folder / "flows" / "000001.npz").unlink()
    with pytest.raises(InputError, match=r"000001\.npz"):
        verify(ENERGY, proof.labels, proof.certificate)
    with pytest.raises(InputError, match="no-such"):
        open_certificate(tmp_path / "no-such")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"certificate\.json"):
        open_certificate(tmp_path / "empty")


def test_folders_and_methods_that_cannot_be_used_are_refused_at_once(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"notes\.txt"):
        dope.plan(ENERGY, certificate=tmp_path)
    with pytest.raises(InputError, match="expected the path"):
        dope.plan(ENERGY, certificate=3)
    with pytest.raises(InputError, match=r"Admm.*Leave certificate out"):
        dope.plan(ENERGY, certificate=tmp_path / "proof", method=dope.Admm())
    signed = Energy.grid(UNARY, weights=[-1.0, 1.0, 1.0])
    with pytest.raises(InputError, match="negative weights"):
        dope.plan(signed, certificate=tmp_path / "proof")
    with pytest.raises(InputError, match="rounds=0"):
        dope.segment(PIXELS, rectangle=[(2, 9)] * 3, certificate=tmp_path / "proof")


def test_labels_are_not_lost_where_a_certificate_cannot_be_written(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(StoredCertificate, "save_flows", full)
    with pytest.warns(UserWarning, match="No space left"):
        result = certified(ENERGY, tmp_path / "proof")
    assert result.exact and result.certificate is None


# The command.


def run(*arguments):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


@pytest.fixture
def scene(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    probability = (1 / (1 + np.exp(UNARY))).astype(np.float32)
    zarr.create_array("image.zarr", data=PIXELS, chunks=(6, 6, 6))
    zarr.create_array("map.zarr", data=probability, chunks=(6, 6, 6))
    return tmp_path


SEGMENT = ("segment", "image.zarr", "--probability", "map.zarr", "-o", "labels.zarr", "--certificate", "my proof")


@pytest.mark.parametrize("more", [("--checkpoint", "board", "--blocks", 8), ()], ids=["in boxes", "in memory"])
def test_the_command_verifies_what_the_command_proved(scene, more):
    told = run(*SEGMENT, *more)
    assert told.exit_code == 0, told.output
    assert (scene / "my proof" / "flows").is_dir() == bool(more)
    told = run("verify", "labels.zarr", "--certificate", "my proof")
    assert told.exit_code == 0 and "a global minimum" in told.output, told.output
    elsewhere = scene / "moved to"
    elsewhere.mkdir()
    for name in ("image.zarr", "map.zarr", "labels.zarr", "my proof"):
        shutil.move(scene / name, elsewhere / name)
    told = run("verify", elsewhere / "labels.zarr", "--certificate", elsewhere / "my proof")
    assert told.exit_code == 0, told.output


@pytest.mark.usefixtures("scene")
def test_other_labels_are_within_their_gap(scene):
    assert run(*SEGMENT).exit_code == 0
    labels = load_labels("labels.zarr")
    np.save("other.npy", (labels ^ (np.arange(12) < 2)).astype(np.uint8))
    told = run("verify", "other.npy", "--certificate", "my proof")
    assert told.exit_code == 5 and "not proved" in told.output and "of the minimum" in told.output, told.output
    said = json.loads((scene / "my proof" / "energy.json").read_text())
    said["segmentation"]["lam"] = 1e-3
    (scene / "my proof" / "energy.json").write_text(json.dumps(said))
    told = run("verify", "labels.zarr", "--certificate", "my proof")
    assert told.exit_code == 5 and "refused" in told.output, told.output
    assert run("verify", "labels.zarr", "--certificate", "my proof", "--gap", 1e9).exit_code == 5, "nothing is proved"


@pytest.mark.usefixtures("scene")
def test_a_gap_is_accepted_where_it_is_asked_for():
    assert run(*SEGMENT).exit_code == 0
    labels = load_labels("labels.zarr")
    labels[0, 0, 0] = ~labels[0, 0, 0]
    np.save("other.npy", labels.astype(np.uint8))
    said = {gap: run("verify", "other.npy", "--certificate", "my proof", "--gap", gap) for gap in (1e-9, 999)}
    assert [told.exit_code for told in said.values()] == [5, 0]
    assert "verdict      proved: the labels are within" in said[999].output, said[999].output
    for gap in ("-1", "nan", "inf"):
        told = run("verify", "labels.zarr", "--certificate", "my proof", "--gap", gap)
        assert told.exit_code == 2 and "--gap is" in told.output, told.output
    told = " ".join(run("verify", "--help").output.split())
    assert "5 that they are not" in told and "Exit codes" in told


@pytest.mark.usefixtures("scene")
def test_files_and_settings_that_were_checked_are_named():
    assert run(*SEGMENT, "--lam", 0.4, "--kernel", 5).exit_code == 0
    rows = dict(
        line.split(maxsplit=1) for line in run("verify", "labels.zarr", "--certificate", "my proof").output.splitlines()
    )
    assert rows["labels"] == "labels.zarr" and rows["certificate"] == "my proof, 1 block"
    assert rows["image"] == "image.zarr" and rows["probability"] == "map.zarr"
    assert rows["settings"] == "kernel 5, lam 0.4, beta auto"


def test_only_what_was_rounded_is_a_minimum_up_to_rounding(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, unary in (("whole", np.rint(UNARY)), ("rounded", UNARY)):
        energy = Energy.grid(unary, lam=1.0 if name == "whole" else 0.3)
        result = dope.minimize(energy, certificate=tmp_path / name)
        verdict = verify(energy, result.labels, result.certificate)
        assert verdict.exact and (verdict.rounding_error > 0) == ("rounding costs" in verdict.reason)
        assert (verdict.rounding_error > 0) == (name == "rounded")
        assert verdict.energy <= verdict.lower_bound + verdict.rounding_error + 1e-12


@pytest.mark.usefixtures("scene")
def test_the_command_says_that_a_minimum_is_one_up_to_rounding():
    assert run(*SEGMENT).exit_code == 0
    told = run("verify", "labels.zarr", "--certificate", "my proof")
    assert "a global minimum, up to" in told.output and "rounding costs to units of" in told.output, told.output


FULL = OSError(errno.ENOSPC, "No space left on device")


def unwritable(tmp_path, monkeypatch, name):
    """A folder that cannot be written, and what is said about it."""
    (tmp_path / "file").write_text("mine")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "notes.txt").write_text("mine")
    if name == "full disk":
        monkeypatch.setattr("dope.durable._flush", Mock(side_effect=FULL))
    # A folder in which nobody can make anything, not even root.
    return {
        "file": (tmp_path / "file", "a file"),
        "below a file": (tmp_path / "file" / "proof", "a file"),
        "used": (tmp_path / "used", "notes.txt"),
        "read-only": ("/proc/proof/of/this", "cannot be written"),
        "full disk": (tmp_path / "proof", "no space left"),
    }[name]


@pytest.mark.parametrize("name", ["file", "below a file", "used", "read-only", "full disk"])
def test_folders_that_cannot_be_written_are_refused_before_anything_is_read(scene, monkeypatch, name):
    if name == "read-only" and not Path("/proc/self").is_dir():
        pytest.skip("no folder that nobody can write to")
    folder, words = unwritable(scene, monkeypatch, name)
    nothing = Mock(side_effect=AssertionError("nothing is to be read"))
    monkeypatch.setattr("dope.cli.minimize.read_instance", nothing)
    monkeypatch.setattr("dope.segmentation.files.Files.open", nothing)
    # No other output, whose own check would be the first to fail on a full disk.
    for command in (
        ("segment", "image.zarr", "--probability", "map.zarr", "-o", "labels.zarr"),
        ("minimize", "cut.max"),
    ):
        if name == "full disk" and command[0] == "segment":
            continue
        told = run(*command, "--certificate", folder)
        assert told.exit_code == 2 and told.output.startswith("dope: --certificate is"), told.output
        assert words in told.output and "expected a new or empty folder. Name" in told.output, told.output
        assert len(told.output.strip().splitlines()) == 1
    with pytest.raises(InputError, match="expected a new or empty folder"):
        dope.plan(ENERGY, certificate=folder)
    assert sorted(path.name for path in scene.iterdir() if path.name.startswith(".")) == []


@pytest.mark.parametrize("more", [("--checkpoint", "board", "--blocks", 8), ()], ids=["in boxes", "in memory"])
@pytest.mark.usefixtures("scene")
@pytest.mark.filterwarnings("ignore:no certificate")
def test_the_cause_is_told_where_a_certificate_could_not_be_written(monkeypatch, more):
    written = "save_flows" if more else "save_in"
    owner = StoredCertificate if more else Certificate
    monkeypatch.setattr(owner, written, Mock(side_effect=FULL))
    told = run(*SEGMENT, *more)
    assert told.exit_code == 4 and "No space left" in told.output and "run again" in told.output, told.output
    assert load_labels("labels.zarr").shape == PIXELS.shape


@pytest.mark.usefixtures("scene")
def test_bad_input_of_the_command_is_one_line(scene):
    assert run(*SEGMENT, "--json", "report.json").exit_code == 0
    np.save("small.npy", np.zeros((3, 3)))
    good = (scene / "my proof" / "energy.json").read_text()
    for arguments, words in [
        (("small.npy", "--certificate", "my proof"), "shaped"),
        (("labels.zarr", "--certificate", "image.zarr"), "certificate"),
        (("labels.zarr", "--certificate", "none"), "none"),
        (("none.npy", "--certificate", "my proof"), "none.npy"),
    ]:
        told = run("verify", *arguments)
        assert told.exit_code == 2 and words in told.output and len(told.output.strip().splitlines()) == 1, told.output
    for content in (
        "{}",
        "[]",
        "{",
        '{"energy": 3}',
        '{"segmentation": {"image": 7}}',
        '{"energy": "x", "format": "y"}',
    ):
        (scene / "my proof" / "energy.json").write_text(content)
        told = run("verify", "labels.zarr", "--certificate", "my proof")
        assert told.exit_code == 2, told.output
    for odd in (7, 0.5, np.nan):
        np.save("odd.npy", np.where(load_labels("labels.zarr"), odd, 0))
        (scene / "my proof" / "energy.json").write_text(good)
        told = run("verify", "odd.npy", "--certificate", "my proof")
        assert told.exit_code == 2 and "two labels" in told.output, told.output
    said = json.loads(good)
    said["segmentation"]["dask"] = "tcp://127.0.0.1:1"
    (scene / "my proof" / "energy.json").write_text(json.dumps(said))
    assert run("verify", "labels.zarr", "--certificate", "my proof").exit_code == 0, "no cluster is talked to"
    (scene / "my proof" / "energy.json").unlink()
    assert "--from" in run("verify", "labels.zarr", "--certificate", "my proof").output
    assert run("verify", "labels.zarr", "--certificate", "my proof", "--from", "report.json").exit_code == 0


def test_energies_of_files_are_verified_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cut.max").write_text("p max 4 5\nn 1 s\nn 4 t\na 1 2 3\na 1 3 2\na 2 3 1\na 2 4 2\na 3 4 3\n")
    for name in ("side.txt", "side.npy"):
        assert run("minimize", "cut.max", "-o", name, "--certificate", f"proof of {name}").exit_code == 0
        told = run("verify", name, "--certificate", f"proof of {name}")
        assert told.exit_code == 0 and "a global minimum" in told.output, told.output
    (tmp_path / "side.txt").write_text("0 1 2")
    assert run("verify", "side.txt", "--certificate", "proof of side.txt").exit_code == 2
