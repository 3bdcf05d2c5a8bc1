# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The commands `moec` and `python -m moec`."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from conftest import BUILD, SMALL

import moec
from moec import _environment, _gpu, _nvrtc
from moec.cli import main

SCRIPT = pathlib.Path(sys.executable).with_name("moec")


def test_env_as_json() -> None:
    done = subprocess.run([SCRIPT, "env", "--json"], capture_output=True, text=True, check=True)
    facts = json.loads(done.stdout)
    assert facts["moec"] == moec.__version__ == facts["library"]["version"]
    assert facts["library"]["path"] == str(pathlib.Path(moec.__file__).with_name("libmoec.so"))
    assert facts["python"]["executable"] == sys.executable
    assert "numpy" in facts["packages"]
    assert facts["environment"]["MOEC_CACHE_DIR"] == facts["cache"]
    assert {"gpus", "driver", "nvrtc", "system"} <= set(facts)


def test_env_as_text() -> None:
    done = subprocess.run([sys.executable, "-m", "moec", "env"], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == f"moec: {moec.__version__}"
    assert lines[1].startswith("library: path ")
    assert any(line.startswith("gpus: ") for line in lines)


def test_env_that_compiles() -> None:
    done = subprocess.run([SCRIPT, "env", "--json", "--compile"], capture_output=True, text=True, check=True)
    compiled = json.loads(done.stdout)["compile"]
    assert pathlib.Path(compiled["nvrtc"]).name.startswith("libnvrtc.so.")
    assert compiled["kernels"] >= 2
    done = subprocess.run(
        [SCRIPT, "env", "--compile"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MOEC_NVRTC_PATH": "/nowhere"},
    )
    assert done.returncode == 1
    assert "compile: error MOEC_NVRTC_PATH is '/nowhere': expected a libnvrtc.so.N" in done.stdout


def test_env_without_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moec._library._opened", [])
    monkeypatch.setenv("MOEC_LIBRARY", "/nowhere")
    facts = _environment.facts()
    assert facts["library"]["path"] is None
    assert "there is no such file" in _environment.as_text(facts)


def test_wrong_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "--yaml"]) == 2
    assert "moec env: expected --json or --compile, got --yaml" in capsys.readouterr().err


def command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPT, *words], capture_output=True, text=True, check=False, env={**os.environ, **environment})


def test_commands_of_the_library(tmp_path: pathlib.Path) -> None:
    helped = command("--help")
    assert helped.returncode == 0
    assert "moec env [--json] [--compile]" in helped.stdout
    assert "compiles a layer to a package" in helped.stdout
    built = subprocess.run([BUILD / "bin" / "moec", "list", "schemes"], capture_output=True, text=True, check=True)
    assert command("list", "schemes").stdout == built.stdout
    (tmp_path / "layer.json").write_text(json.dumps(SMALL))
    made = command("compile", str(tmp_path / "layer.json"), "--arch=sm_90a", "--no-cubin", "-o", str(tmp_path / "small"))
    assert made.returncode == 0
    assert "small: small for sm_90a: 5 variants" in made.stdout + made.stderr
    assert moec.load(tmp_path / "small", device="host").name == "small"
    refused = command("compile", str(tmp_path / "layer.json"), "--arch=sm_90a", "--scheme=fp5", "-o", str(tmp_path / "other"))
    assert refused.returncode == 1
    assert "--scheme=fp5: expected one of" in refused.stderr
    assert command("compyle").returncode == 2
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
