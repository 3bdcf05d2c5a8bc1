# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The wheel: its tag, its size, the symbols of its library, and nothing of the machine that built it."""

import json
import pathlib
import re
import subprocess
import zipfile

import pytest
from conftest import BUILD, SMALL, SOURCE, WHEEL, run_python

MOST_BYTES = 14_000_000  # as docs/how-to/python.md says
NEWEST_GLIBC = (2, 34)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder: pathlib.Path = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(WHEEL) as archive:
        return pathlib.Path(archive.extract("moec/libmoec.so", folder))


def member(pattern: str) -> str:
    with zipfile.ZipFile(WHEEL) as archive:
        (name,) = [each for each in archive.namelist() if re.search(pattern, each)]
        return archive.read(name).decode()


def test_name_and_size() -> None:
    assert re.fullmatch(r"moec-[\d.]+-py3-none-manylinux_2_34_(x86_64|aarch64)\.whl", WHEEL.name)
    assert WHEEL.stat().st_size < MOST_BYTES


def test_files() -> None:
    with zipfile.ZipFile(WHEEL) as archive:
        names = set(archive.namelist())
    root = SOURCE / "python"
    sources = {str(path.relative_to(root)) for path in (root / "moec").rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert {name for name in names if name.startswith("moec/")} - sources == {
        "moec/include/moec/compiler.h",
        "moec/include/moec/compiler.hpp",
        "moec/include/moec/moec.h",
        "moec/include/moec/moec.hpp",
        "moec/libmoec.so",
        "moec/libmoec-emulator.so",
        "moec/moec-measure",
        "moec/moec-nvrtc",
        "moec/moec-opt",
        "moec/moec-run",
    }
    assert sources <= names
    assert {"LICENSE", "THIRD-PARTY.txt"} <= {pathlib.Path(name).name for name in names}


def test_metadata() -> None:
    metadata = member("METADATA$")
    assert "Requires-Python: >=3.10" in metadata
    needed = re.findall("^Requires-Dist: (.*)", metadata, re.MULTILINE)
    assert [each for each in needed if "extra ==" not in each] == []
    assert set(re.findall("^Provides-Extra: (.*)", metadata, re.MULTILINE)) == {
        "cuda12",
        "cuda13",
        "sglang",
        "torch",
        "transformers",
        "vllm",
    }
    entries = member("entry_points.txt$")
    assert "moec = moec.cli:main" in entries
    assert "[vllm.general_plugins]\nmoec = moec.integrations.vllm:register" in entries
    assert "[sglang.srt.plugins]\nmoec = moec.integrations.sglang:register" in entries
    assert "Tag: py3-none-manylinux_2_34_" in member("WHEEL$")


def test_symbols(library: pathlib.Path) -> None:
    listed = subprocess.run(["objdump", "-T", library], capture_output=True, text=True, check=True).stdout
    versions = {(int(major), int(minor)) for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", listed)}
    assert max(versions) == NEWEST_GLIBC
    assert "arc4random" not in listed
    needed = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"NEEDED.*\[(.*)\]", needed)) <= {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
    assert "RUNPATH" not in needed
    defined = [line.split()[-1] for line in listed.splitlines() if ".text" in line]
    assert defined
    assert all(name.startswith("moec_") for name in defined)


def test_workers_compile() -> None:
    code = """
import json, tempfile, moec
files = moec.compile(json.loads(LAYER), arch="sm_90a", max_tokens=1)
with tempfile.TemporaryDirectory() as cache:
    report = moec.load(files, prebuild=True, arch="sm_90a", cache_dir=cache).load_report
print(report["workers"], {kernel["source"] for kernel in report["kernels"]})
"""
    done = run_python(f"LAYER = {json.dumps(SMALL)!r}\n{code}", MOEC_JOBS="3", MOEC_LOG="info")
    assert done.stdout == "3 {'compiled'}\n", done.stderr


def test_no_path_of_the_builder(library: pathlib.Path) -> None:
    data = library.read_bytes()
    for folder in (SOURCE, BUILD, pathlib.Path.home()):
        assert f"{folder}/".encode() not in data
    with zipfile.ZipFile(WHEEL) as archive:
        for name in archive.namelist():
            assert str(SOURCE).encode() not in archive.read(name), name


def test_it_is_stripped(library: pathlib.Path) -> None:
    sections = subprocess.run(["readelf", "-SW", library], capture_output=True, text=True, check=True).stdout
    assert ".dynsym" in sections
    assert ".symtab" not in sections
    assert ".debug" not in sections


def test_auditwheel() -> None:
    said = subprocess.run(["auditwheel", "show", WHEEL], capture_output=True, text=True, check=True).stdout
    assert re.search(r'consistent with the\s+following platform tag: "manylinux_2_34_', said), said
