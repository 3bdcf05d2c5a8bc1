# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""_abi.py says what moec.h and compiler.h say: a C program prints sizes, offsets and numbers of the headers."""

import ctypes
import re
import subprocess
import textwrap
from pathlib import Path

import pytest
from conftest import SOURCE

from moec import _abi

INCLUDE = SOURCE / "runtime" / "include"
HEADERS = "".join((INCLUDE / "moec" / name).read_text() for name in ("moec.h", "compiler.h"))
HEADER = re.sub(r"/\*.*?\*/", "", HEADERS, flags=re.DOTALL)

STRUCTS = {
    name.removeprefix("moec_"): re.findall(r"(\w+)\s*(?=[;,])", body)
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\}", HEADER, re.DOTALL)
}
ENUMS = {
    name.removeprefix("moec_"): re.findall(r"(MOEC_\w+)\s*=", body)
    for name, body in re.findall(r"typedef enum (\w+) \{(.*?)\}", HEADER, re.DOTALL)
}
FUNCTIONS = {
    name: (result.strip(), arguments)
    for result, name, arguments in re.findall(r"^([\w *]*?)\bmoec_(\w+)\(([^;{]*?)\);", HEADER, re.MULTILINE | re.DOTALL)
    if "typedef" not in result
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The output of the C program: an expression and its value on each line."""
    expressions = [f"sizeof(moec_{name})" for name in STRUCTS]
    expressions += [f"offsetof(moec_{name}, {field})" for name, fields in STRUCTS.items() for field in fields]
    expressions += [constant for constants in ENUMS.values() for constant in constants]
    expressions += [f"MOEC_VERSION_{part}" for part in ("MAJOR", "MINOR", "PATCH")]
    lines = "\n".join(f'  printf("%s=%lld\\n", "{text}", (long long)({text}));' for text in expressions)
    folder: Path = tmp_path_factory.mktemp("abi")
    (folder / "abi.c").write_text(
        textwrap.dedent("""\
            #include <moec/moec.h>
            #include <stdio.h>
            int main(void) {
            %s
              return 0;
            }
            """)
        % lines
    )
    subprocess.run(["cc", f"-I{INCLUDE}", "-o", folder / "abi", folder / "abi.c"], check=True)
    printed = subprocess.run([folder / "abi"], capture_output=True, text=True, check=True).stdout
    return {text: int(number) for text, _, number in (line.rpartition("=") for line in printed.splitlines())}


def test_the_header_was_read() -> None:
    assert len(STRUCTS) >= 7
    assert len(ENUMS["status"]) >= 19
    assert {"run", "package_load", "set_log", "last_error"} <= set(FUNCTIONS)


def test_every_struct(said: dict[str, int]) -> None:
    assert set(_abi.STRUCTS) == set(STRUCTS)
    for name, fields in STRUCTS.items():
        struct = _abi.STRUCTS[name]
        assert [field[0] for field in struct._fields_] == fields
        assert ctypes.sizeof(struct) == said[f"sizeof(moec_{name})"], name
        for field in fields:
            assert getattr(struct, field).offset == said[f"offsetof(moec_{name}, {field})"], (name, field)


def test_tensors_as_bytes(said: dict[str, int]) -> None:
    assert _abi.TENSOR.size == said["sizeof(moec_tensor)"]
    tensor = _abi.Tensor.from_buffer_copy(_abi.TENSOR.pack(0, 2, 0, 4, 0, 0))
    assert (tensor.data, tensor.rank) == (2, 4)


def test_every_constant(said: dict[str, int]) -> None:
    assert set(_abi.ENUMS) == set(ENUMS)
    for name, constants in ENUMS.items():
        prefix, enumeration = _abi.ENUMS[name]
        assert {f"{prefix}{each.name}": each.value for each in enumeration} == {each: said[each] for each in constants}
    for part in ("MAJOR", "MINOR", "PATCH"):
        assert getattr(_abi, f"VERSION_{part}") == said[f"MOEC_VERSION_{part}"]


def kind_of(declared: str) -> str:
    """A C type as ctypes has it: pointers are one kind, but for text that is returned."""
    if "*" in declared or "_function " in declared + " ":
        return "pointer"
    word = declared.replace("const", "").split()[0]
    return {"moec_status": "int", "size_t": "uint64", "uint64_t": "uint64", "int64_t": "int64", "int32_t": "int32"}.get(
        word, word
    )


KINDS = {
    ctypes.c_int: ("int", "int32"),
    ctypes.c_int64: ("int64",),
    ctypes.c_uint64: ("uint64",),
    None: ("void",),
}


def test_every_function() -> None:
    assert set(_abi.FUNCTIONS) == set(FUNCTIONS)
    for name, (result, arguments) in FUNCTIONS.items():
        declared = [] if arguments.strip() == "void" else [kind_of(each.strip()) for each in arguments.split(",")]
        bound_result, bound = _abi.FUNCTIONS[name]
        assert len(declared) == len(bound), name
        for want, have in zip([kind_of(result), *declared], [bound_result, *bound], strict=True):
            assert want in KINDS.get(have, ("pointer",)), (name, want, have)
