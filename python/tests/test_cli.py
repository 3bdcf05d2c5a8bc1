# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The commands `moec` and `python -m moec`."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
from conftest import BUILD, SMALL

import moec
from moec import _gpu, _nvrtc

SCRIPT = pathlib.Path(sys.executable).with_name("moec")


def command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPT, *words], capture_output=True, text=True, check=False, env={**os.environ, **environment})


def test_doctor() -> None:
    done = command("doctor", "--json", "--compile")
    assert done.returncode == 0, done.stdout
    facts = json.loads(done.stdout)
    assert facts["moec"] == f"moec {moec.__version__}"
    assert facts["path"] == str(pathlib.Path(moec.__file__).with_name("libmoec.so"))
    found = {each["name"]: each for each in facts["findings"]}
    assert found["python"]["facts"]["executable"] == sys.executable
    assert found["python"]["facts"]["packages"]["moec"] == moec.__version__
    assert "numpy" in found["python"]["facts"]["packages"]
    assert found["cache"]["facts"]["folder"] == os.environ["MOEC_CACHE_DIR"]
    assert found["workers"]["facts"]["path"] == str(pathlib.Path(moec.__file__).with_name("moec-nvrtc"))
    assert found["compile"]["facts"]["kernels"] >= 2
    assert {"system", "driver", "nvrtc", "nccl", "variables"} <= set(found)


def test_doctor_says_what_to_install() -> None:
    done = command("doctor", MOEC_NVRTC_PATH="/nowhere")
    assert done.returncode == 1
    assert "fault  nvrtc      MOEC_NVRTC_PATH is '/nowhere': expected a libnvrtc.so.N" in done.stdout
    assert "pip install nvidia-cuda-nvrtc" in done.stdout
    assert "\x1b" not in done.stdout
    assert command("env").stdout.splitlines()[0] == done.stdout.splitlines()[0]


def test_one_command_in_the_wheel_and_in_the_build(tmp_path: pathlib.Path) -> None:
    def both(*words: str) -> tuple[int, str]:
        environment = {**os.environ, "MOEC_PYTHON": sys.executable}
        built = subprocess.run([BUILD / "bin" / "moec", *words], capture_output=True, text=True, check=False, env=environment)
        here = command(*words)
        assert (here.returncode, here.stdout, here.stderr) == (built.returncode, built.stdout, built.stderr), words
        return here.returncode, here.stdout + here.stderr

    (tmp_path / "layer.json").write_text(json.dumps(SMALL))
    status, text = both()
    assert status == 0
    for name in ("compile", "explain", "list", "tune", "run", "check", "bench", "warmup", "cache", "doctor", "opt", "completion"):
        assert re.search(rf"^  {name} +\w", text, re.MULTILINE), name
        assert both(name, "--help")[0] == both("help", name)[0] == 0, name
    assert both("list", "schemes", "--json")[0] == 0
    assert both("cache", "--json", f"--cache-dir={tmp_path}/none")[0] == 0
    assert both("completion", "bash")[0] == 0
    assert both("compyle") == (
        2,
        "moec: unknown command 'compyle'; did you mean compile? known: compile, explain, list, tune, run, check, bench, warmup, "
        "opt, cache, doctor, completion and help\n",
    )
    assert both("bench", "--tokns=1")[0] == both("warmup")[0] == both("run", "x")[0] == 2
    words = ("compile", str(tmp_path / "layer.json"), "--arch=sm_90a", "--no-cubin", "-o", str(tmp_path / "small"))
    assert command(*words).returncode == 0
    for name in ("run", "check"):
        done = command(name, str(tmp_path / "small"), "--device=host", "--tokens=3", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["package"] == str(tmp_path / "small")
    assert json.loads(done.stdout)["runs"][0]["twice"] == "identical"
    emitted = command("compile", str(tmp_path / "layer.json"), "--emit=layer").stdout
    done = subprocess.run([SCRIPT, "opt", "-"], input=emitted, capture_output=True, text=True, check=True)
    assert "moe.layer" in done.stdout


def test_a_program_that_ends_by_a_signal(tmp_path: pathlib.Path) -> None:
    with subprocess.Popen([SCRIPT, "opt", "-"], stdin=subprocess.PIPE) as process:
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not (child := children.read_text().strip()):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        process.wait(10)
    deadline = time.monotonic() + 10
    while pathlib.Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not pathlib.Path(f"/proc/{child}").exists()


def test_commands_of_the_library(tmp_path: pathlib.Path) -> None:
    (tmp_path / "layer.json").write_text(json.dumps(SMALL))
    made = command("compile", str(tmp_path / "layer.json"), "--arch=sm_90a", "--no-cubin", "-o", str(tmp_path / "small"))
    assert made.returncode == 0
    assert re.search(r"small: small for sm_90a: 5 variants, 18 kernels, 0 cubins, 0\.\d\d MB in \d+\.\d s\n", made.stdout)
    assert moec.load(tmp_path / "small", device="host").name == "small"
    refused = command("compile", str(tmp_path / "layer.json"), "--arch=sm_90a", "--scheme=fp5", "-o", str(tmp_path / "other"))
    assert refused.returncode == 1
    assert "--scheme=fp5: expected one of" in refused.stderr
    assert command("list", MOEC_LIBRARY="/nowhere").returncode == 1


def test_a_command_takes_nvrtc_of_the_environment(tmp_path: pathlib.Path) -> None:
    home = fake_package(tmp_path, "cu13/lib", "libnvrtc.so.13")
    (tmp_path / "layer.json").write_text(json.dumps(SMALL))
    words = ("compile", str(tmp_path / "layer.json"), "--arch=sm_80", "--max-tokens=4", "-o", str(tmp_path / "small"))
    refused = command(*words, PYTHONPATH=str(tmp_path), MOEC_CACHE_DIR=str(tmp_path))
    assert refused.returncode == 1
    assert f"(found by MOEC_NVRTC_PATH) could not be opened: {home / 'libnvrtc.so.13'}" in refused.stderr


def test_an_interrupt_ends_a_command() -> None:
    with subprocess.Popen([SCRIPT, "compile", "-", "--arch=sm_90a"], stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while "libmoec" not in pathlib.Path(f"/proc/{process.pid}/maps").read_text():
            time.sleep(0.01)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == -signal.SIGINT


def fake_package(folder: pathlib.Path, place: str, *files: str) -> pathlib.Path:
    """A folder of packages with libraries of NVRTC in it."""
    home = folder / "nvidia" / place
    home.mkdir(parents=True)
    for file in files:
        (home / file).write_bytes(b"")
    return home


def test_nvrtc_of_a_virtual_environment(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOEC_NVRTC_PATH", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert _nvrtc.find_nvrtc() is None
    twelve = fake_package(tmp_path, "cuda_nvrtc/lib", "libnvrtc.so.12", "libnvrtc-builtins.so.12.8")
    assert _nvrtc.find_nvrtc() == twelve / "libnvrtc.so.12"
    thirteen = fake_package(tmp_path, "cu13/lib", "libnvrtc.so.13", "libnvrtc.alt.so.13", "libnvrtc-builtins.so.13.0")
    assert _nvrtc.find_nvrtc() == thirteen / "libnvrtc.so.13"
    monkeypatch.setattr(_gpu, "driver_version", lambda: (12, 9))
    assert _nvrtc.find_nvrtc() == twelve / "libnvrtc.so.12"
    monkeypatch.setattr(_gpu, "driver_version", lambda: (13, 0))
    assert _nvrtc.find_nvrtc() == thirteen / "libnvrtc.so.13"
    monkeypatch.setenv("MOEC_NVRTC_PATH", "/elsewhere")
    assert _nvrtc.find_nvrtc() is None


def test_the_library_gets_that_nvrtc(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOEC_NVRTC_PATH", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    home = fake_package(tmp_path, "cu13/lib", "libnvrtc.so.13")
    with pytest.raises(moec.NoCompiler, match=f"found by nvrtc_path. could not be opened: {home}/libnvrtc.so.13"):
        moec.load(moec.compile(SMALL, arch="sm_80"), prebuild=True, arch="sm_80", cache_dir=tmp_path)
