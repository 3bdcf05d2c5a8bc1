# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ctrl-C while kernels compile is KeyboardInterrupt, by threads and by worker processes, and leaves no lock."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from conftest import SMALL

import moec
from moec.cli import main

PROGRAM = """
import json, logging, sys, moec
logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
seen = "nothing"
try:
    moec.warmup(json.loads(sys.argv[1]), arch="sm_90a", max_tokens=64)
    seen = "the end"
except KeyboardInterrupt:
    seen = "KeyboardInterrupt"
finally:
    print(seen, "and finally", flush=True)
"""


def first_lock(cache: pathlib.Path, process: "subprocess.Popen[str]") -> None:
    """Waits until a kernel is being compiled."""
    late = time.monotonic() + 60
    while not list(cache.rglob("*.lock")):
        assert process.poll() is None
        assert time.monotonic() < late
        time.sleep(0.01)


def environment(cache: pathlib.Path, jobs: int, worker: str) -> dict[str, str]:
    return {**os.environ, "MOEC_CACHE_DIR": str(cache), "MOEC_JOBS": str(jobs), "MOEC_WORKER": worker}


@pytest.mark.parametrize(("jobs", "worker"), [(1, ""), (2, ""), (4, ""), (4, "off")])
@pytest.mark.parametrize("delay", [0.0, 0.2])
def test_an_interrupt_is_an_exception(jobs: int, worker: str, delay: float, tmp_path: pathlib.Path) -> None:
    words = [sys.executable, "-c", PROGRAM, json.dumps(SMALL)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment(tmp_path, jobs, worker)) as process:
        first_lock(tmp_path, process)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert said == "KeyboardInterrupt and finally\n"
    assert process.returncode == 0
    assert not list(tmp_path.rglob("*.lock"))


def test_the_call_after_an_interrupt(tmp_path: pathlib.Path) -> None:
    """It is neither interrupted nor told of the first interrupt again."""
    files = moec.compile({**SMALL, "hidden_size": 64}, arch="sm_80", max_tokens=4)
    heard: list[int] = []

    def interrupt(step: str, done: int, total: int) -> None:
        if not heard:
            signal.raise_signal(signal.SIGINT)
        heard.append(done)

    with pytest.raises(KeyboardInterrupt):
        moec.load(files, prebuild=True, arch="sm_80", cache_dir=tmp_path, progress=interrupt)
    try:
        moec.load(files, prebuild=True, arch="sm_80", cache_dir=tmp_path)
    except KeyboardInterrupt:
        pytest.fail("the second call was interrupted, too")
    moec.load(files, prebuild=True, arch="sm_80", cache_dir=tmp_path, strict=True)


def test_a_command_that_is_interrupted(tmp_path: pathlib.Path) -> None:
    (tmp_path / "layer.json").write_text(json.dumps(SMALL))
    words = [sys.executable, "-m", "moec", "warmup", str(tmp_path / "layer.json"), "--arch=sm_90a"]
    cache = tmp_path / "cache"
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment(cache, 2, "")) as process:
        first_lock(cache, process)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert "moec warmup: interrupted; what was compiled stays in the cache" in said
    assert not list(cache.rglob("*.lock"))


def test_a_handler_that_raises_nothing_lets_the_work_end(tmp_path: pathlib.Path) -> None:
    program = "import signal; signal.signal(signal.SIGINT, lambda *_: print('heard', flush=True))\n" + PROGRAM
    words = [sys.executable, "-c", program, json.dumps(SMALL)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment(tmp_path, 4, "")) as process:
        first_lock(tmp_path, process)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=120)
    assert said == "heard\nthe end and finally\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["warmup", "x", "--max-token=64"], "moec warmup: unknown option --max-token; did you mean --max-tokens? "),
        (["warmup", "x", "--ep=8"], "moec warmup: --ep: expected no value, got '8'; "),
        (
            ["warmup"],
            "moec warmup: expected MODEL, got none: a config.json, a layer JSON",
        ),
    ],
)
def test_mistakes_name_what_was_meant(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    status: object
    try:
        status = main(words)
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    assert said in capsys.readouterr().err
