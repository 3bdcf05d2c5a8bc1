# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python of the documents runs, and prints what stands below it.

A block ```text below a block ```python is what that prints; a line "..." stands for any lines. A block `python no-run` needs a
GPU or a checkpoint: it is compiled, and the names of moec in it exist. A block `python torch` runs where torch is, a block
`python transformers` where transformers is, too.
"""

import ast
import contextlib
import importlib.util
import io
import pathlib
import re
from typing import Any, NamedTuple

import pytest
from conftest import SOURCE

import moec

HOW_TO = tuple(
    f"docs/how-to/{name}.md" for name in ("python", "transformers", "use-your-own-dispatch", "vllm", "sglang", "several-gpus")
)
PAGES = (*HOW_TO, "README.md", "python/README.md")
NEEDS = {"torch": ("torch",), "transformers": ("torch", "transformers")}
BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    kind: str
    code: str
    printed: str | None


def examples(page: str) -> list[Example]:
    found: list[Example] = []
    for language, rest, content in BLOCK.findall((SOURCE / page).read_text()):
        if language == "python":
            found.append(Example(rest.strip(), content, None))
        elif language == "text" and found:
            found[-1] = found[-1]._replace(printed=content)
    return found


def matches(shown: list[str], printed: list[str]) -> bool:
    if not shown:
        return not printed
    if shown[0] == "...":
        return any(matches(shown[1:], printed[i:]) for i in range(len(printed) + 1))
    return bool(printed) and shown[0] == printed[0] and matches(shown[1:], printed[1:])


def test_no_page_is_left_out() -> None:
    pages = {path.relative_to(SOURCE).as_posix() for path in (SOURCE / "docs").rglob("*.md")} | {"README.md", "python/README.md"}
    assert {page for page in pages if "\n```python" in (SOURCE / page).read_text()} == set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_examples(page: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = examples(page)
    assert found
    monkeypatch.chdir(tmp_path)
    layer = re.search(r"```json save=layer.json\n(.*?)```", (SOURCE / "README.md").read_text(), re.DOTALL)
    assert layer
    (tmp_path / "layer.json").write_text(layer.group(1))
    names: dict[str, Any] = {}
    for example in found:
        code = compile(example.code, page, "exec")
        if example.kind == "no-run" or not all(map(importlib.util.find_spec, NEEDS.get(example.kind, ()))):
            continue
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(code, names)
        if example.printed is not None:
            assert matches(example.printed.splitlines(), said.getvalue().splitlines()), said.getvalue()


@pytest.mark.parametrize("page", PAGES)
def test_names_of_examples(page: str) -> None:
    for example in examples(page):
        for node in ast.walk(ast.parse(example.code)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "moec":
                assert hasattr(moec, node.attr), node.attr


def test_the_guide_names_the_wheel() -> None:
    from conftest import WHEEL

    text = (SOURCE / "docs/how-to/python.md").read_text()
    assert f"Processing ./dist/{WHEEL.name}\n" in text
    assert f"Successfully installed moec-{moec.__version__}\n" in text
    assert "a wheel of less than 14 MB" in text
    assert WHEEL.stat().st_size < 14e6
