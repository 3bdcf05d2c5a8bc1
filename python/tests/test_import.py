# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`import moec` does nothing; the library is found, or its absence is said."""

import pathlib

import pytest
from conftest import run_python

import moec


def test_import_has_no_side_effects() -> None:
    code = """
import os, sys, threading
before = set(sys.modules), set(os.environ.items()), threading.active_count()
import moec
loaded = {name.split(".")[0] for name in set(sys.modules) - before[0]} - set(sys.stdlib_module_names)
assert loaded == {"moec"}, loaded
assert (before[1], before[2]) == (set(os.environ.items()), threading.active_count())
assert "libmoec" not in open("/proc/self/maps").read()
"""
    done = run_python(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_compiling_needs_no_numpy() -> None:
    code = """
import sys
sys.modules["numpy"] = sys.modules["torch"] = sys.modules["tqdm"] = None
import moec
layer = {"moec_layer": 1, "name": "n", "num_experts": 2, "top_k": 1, "hidden_size": 64, "intermediate_size": 64,
         "in_dtype": "bf16"}
package = moec.load(moec.compile(layer, arch="sm_80", progress=True), device="host")
assert "libmoec" in open("/proc/self/maps").read()
print(package)
"""
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "<moec.Package n for sm_80 on host, at most 8192 tokens>\n"


def test_public_names() -> None:
    for name in moec.__all__:
        assert getattr(moec, name).__name__ == name
    assert set(moec.__all__) <= set(dir(moec))
    with pytest.raises(AttributeError, match="module 'moec' has no attribute 'nothing'"):
        moec.nothing  # noqa: B018


def test_lazy_names_are_those_of_the_type_checker() -> None:
    text = pathlib.Path(moec.__file__).read_text()
    assert {line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith("    from moec.")} == set(moec.__all__)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            "/nowhere/libmoec.so",
            "MOEC_LIBRARY is '/nowhere/libmoec.so': expected the path of a libmoec.so, and there is no such file",
        ),
        (__file__, "cannot be opened"),
        ("/lib/x86_64-linux-gnu/libm.so.6", "is not the library of this package: it has no moec_version"),
    ],
)
def test_wrong_library(path: str, expected: str) -> None:
    done = run_python("import moec; moec.supports({}, arch='sm_90a')", MOEC_LIBRARY=path)
    assert done.returncode == 1
    assert "ImportError" in done.stderr
    assert expected in done.stderr


def test_a_library_without_compiler() -> None:
    from conftest import BUILD

    code = """
import moec
try:
    moec.compile({}, arch="sm_90a")
except moec.NoCompiler as error:
    print(error)
"""
    done = run_python(code, MOEC_LIBRARY=str(BUILD / "lib" / "libmoec-runtime.so"))
    assert "has no compiler, it only loads packages; expected a libmoec.so" in done.stdout
