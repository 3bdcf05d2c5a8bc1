# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`moec doctor --gpu` on the host device: the result, refusals, and what is cut. test/emulator/card.py has an emulated GPU."""

import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

import pytest

import moec
from moec import _gpu
from moec.card import FAILED, MOST_BYTES, NOT_RUN, PASSED, REFUSED, Check, Checker, Result, Time, check
from moec.card.layers import EXACT_TOKENS, TIMED_TOKENS, small_layer
from moec.card.outputs import expected_outputs
from moec.card.programs import Programs, Refused

SCRIPT = pathlib.Path(sys.executable).with_name("moec")


def command(folder: pathlib.Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, "doctor", "--gpu", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, **environment},
    )


def result_of(checks: list[Check], times: list[Time]) -> Result:
    states = [each.status for each in checks]
    summary = {state: states.count(state) for state in (PASSED, FAILED, REFUSED, NOT_RUN)}
    return Result(1, "0.1.0", "2026-11-29T00:00:00+00:00", "cuda", "sm_120a", {"gpu": "GPU"}, {}, 1.0, summary, checks, times)


def test_the_host_device_passes(tmp_path: pathlib.Path) -> None:
    # A choice of the user's must not choose other kernels.
    done = command(tmp_path, "--device=host", "--only=bf16,mxfp8", MOEC_EXCLUDE="emulated,native")
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("moec-card-host-sm-90a-")
    made = json.loads(path.read_text())
    assert (made["moec_card_check"], made["moec"], made["device"]) == (1, moec.__version__, "host")
    names = {(each["kind"], each["name"]): each for each in made["checks"]}
    assert {name for _, name in names} == {"bf16", "mxfp8", "mxfp4_mxfp8"}
    assert made["summary"] == {PASSED: 6, FAILED: 0, REFUSED: 0, NOT_RUN: 0}
    assert names["exact", "bf16"]["sha256"] == {str(tokens): expected_outputs()["bf16", tokens] for tokens in EXACT_TOKENS}
    assert 0 < names["conformance", "bf16"]["error"] < 0.01
    assert (names["exact", "mxfp8"]["realization"], names["exact", "bf16"]["realization"]) == ("emulated", "native")
    assert made["times"] == []
    assert str(tmp_path) not in path.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--limit=0"], "--limit: expected seconds above 0, as in 600; got '0'"),
        (["--limit=soon"], "expected seconds above 0, as in 600; got 'soon'"),
        (["--device=gpu"], "--device: invalid choice: 'gpu'"),
        (["--only=,"], "--only: expected words of names of schemes, got ','"),
        (["-o", "none/result.json"], "none/result.json: expected a folder at "),
        (["--onyl=bf16"], "unknown option --onyl; did you mean --only?"),
        (["bf16"], "unknown option bf16"),
    ],
)
def test_wrong_usage(words: list[str], message: str, tmp_path: pathlib.Path) -> None:
    done = command(tmp_path, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert not list(tmp_path.iterdir())


def test_what_cannot_run(tmp_path: pathlib.Path) -> None:
    done = command(tmp_path, "--device=host", "--only=fp3")
    assert done.returncode == 1
    assert "--only: expected words of names of schemes (moec list schemes), got fp3" in done.stderr
    done = command(tmp_path, "--device=host", "--arch=sm_12")
    assert done.returncode == 1
    assert "--arch: expected one of sm_75, " in done.stderr
    assert done.stderr.rstrip().endswith("got 'sm_12'")
    if not _gpu.devices():
        done = command(tmp_path)
        assert done.returncode == 1
        assert "the driver sees no GPU here (moec doctor); --device=emulated --arch=ARCH checks an emulated one" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_result_is_small() -> None:
    checks = [Check("conformance", f"scheme{i}", FAILED, "x" * 600, tokens=(1, 7, 33, 300)) for i in range(300)]
    text = result_of(checks, []).to_json()
    assert len(text) < MOST_BYTES
    made = json.loads(text)
    assert len(made["checks"]) == 300
    assert len(made["checks"][0]["text"]) == 100
    with pytest.raises(ValueError, match="expected less than 100000"):
        result_of(checks * 10, []).to_json()


def test_lines_of_a_result() -> None:
    times = [
        Time("qwen3-30b-a3b", "nvfp4", 1, 26.0, 13.0, 20.0, "mma_sync_scaled"),
        Time("gpt-oss-20b", "mxfp4", 32, 9.0, 0.0, 0.0, "simt"),
    ]
    result = result_of([Check("exact", "mxfp4", FAILED, "33 tokens: expected 1a"), Check("exact", "bf16", PASSED)], times)
    lines = str(result).splitlines()
    assert lines[0] == "GPU, sm_120a; moec 0.1.0; 1 s"
    assert lines[1].split() == ["failed", "exact", "mxfp4:", "33", "tokens:", "expected", "1a"]
    assert lines[2].endswith("26.0 us, 2.00 x floor")
    assert lines[3].endswith("9.0 us, floor not known")
    assert lines[4] == "1 passed, 1 failed, 0 refused, 0 not run"
    assert not result.is_right()
    assert result_of([Check("exact", "bf16", PASSED)], []).is_right()
    assert not result_of([Check("exact", "bf16", NOT_RUN)], []).is_right()
    assert not result_of([Check("exact", "bf16", REFUSED)], []).is_right()
    # A scheme that did not run may be wrong, whatever passed before. One that the arch lacks is no fault.
    passed = Check("exact", "bf16", PASSED)
    assert not result_of([passed, Check("exact", "fp8_block", NOT_RUN)], []).is_right()
    assert not result_of([passed, Check("exact", "fp8_block", FAILED)], []).is_right()
    assert result_of([passed, Check("exact", "fp8_block", REFUSED)], []).is_right()


def test_times_and_floors(tmp_path: pathlib.Path) -> None:
    # The host device's times say nothing; the bytes are those of the emulated GPU's kernels.
    checker = Checker(Programs("host", "sm_120f", tmp_path), tmp_path, 100, lambda line: None)
    checker.clock("small", small_layer("nvfp4"))
    (made,) = checker.checks
    assert (made.status, made.text) == (PASSED, "")
    assert [row.tokens for row in checker.times] == list(TIMED_TOKENS)
    assert (checker.bandwidth["gpu"], checker.bandwidth["measured"]) == ("rtx_5090", False)
    for row in checker.times:
        assert row.engine == "mma_sync_scaled"
        assert 0 < row.floor_us < row.predicted_us < row.us
    checker.clock("refused", {**small_layer("nvfp4"), "top_k": 99})
    assert checker.checks[-1].status == FAILED
    assert "99" in checker.checks[-1].text


def test_no_time_is_left() -> None:
    made = check("host", only=("bf16",), limit_s=1e-9)
    assert made.summary == {PASSED: 0, FAILED: 0, REFUSED: 0, NOT_RUN: 2}
    with pytest.raises(Refused, match="expected one of sm_75"):
        check("emulated", arch="sm_1")


class Stopped:
    """Programs whose runs have no end."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def compile(self, layer: dict[str, Any], max_tokens: int, package: pathlib.Path) -> None:
        package.mkdir()
        (package / "manifest.json").write_text('{"targets": [{"report": {}}]}')

    def run(self, *words: Any) -> None:
        time.sleep(self.seconds)
        raise Refused("moec run: no end")


@pytest.mark.parametrize(("seconds", "status"), [(0.0, "failed"), (0.3, "not run")])
def test_what_the_limit_stops_did_not_fail(tmp_path: pathlib.Path, seconds: float, status: str) -> None:
    checker = Checker(Stopped(seconds), tmp_path, 0.3, lambda text: None)  # type: ignore[arg-type]
    checker.judge("conformance", "bf16", {}, checker.compare)
    assert [(check.status, check.text) for check in checker.checks] == [(status, "moec run: no end")]
