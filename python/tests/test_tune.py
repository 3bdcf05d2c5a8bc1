# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tune: rows that a compilation finds, a second call that goes on, progress, and its errors."""

import contextlib
import importlib
import json
import pathlib
import types
from typing import Any

import pytest
from conftest import SMALL, SOURCE

import moec
from moec import compiler

FAKE = SOURCE / "test/tune/Inputs/fake-measure.py"
LAYER = {**SMALL, "hidden_size": 1024, "intermediate_size": 512, "in_dtype": "bf16"}
OPTIONS: dict[str, Any] = {"arch": "sm_90a", "engine": "wgmma", "device": "host", "budget": 1000.0, "max_tokens": 1024}


@pytest.fixture(autouse=True)
def measures(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """A program that gives times, and a store of the test's own."""
    monkeypatch.setenv("MOEC_MEASURE", str(FAKE))
    monkeypatch.setenv("MOEC_TUNED_STORE", str(tmp_path / "store"))


def sources(source: Any, **options: Any) -> set[str]:
    """The sources of the schedules of all kernels."""
    report = moec.explain(source, arch="sm_90a", engine="wgmma", max_tokens=1024, **options)
    return {
        kernel["schedule_source"]
        for variant in report.targets[0]["variants"]
        for kernel in variant["kernels"]
        if "tile" in kernel
    }


def test_rows_are_found(tmp_path: pathlib.Path) -> None:
    files: dict[str, Any] = {"out": tmp_path / "store/h100_sxm.json", "log": tmp_path / "log.jsonl"}
    heard: list[tuple[str, int, int]] = []
    assert "tuned" not in sources(LAYER)
    made = moec.tune(LAYER, tokens=[16], progress=lambda *step: heard.append(step), **files, **OPTIONS)
    assert (len(made.tokens), made.rows, made.quarantined) == (1, 2, ())
    assert made.output == str(files["out"])
    row = made.tokens[0]
    assert (row.tokens, row.chosen, row.us, row.serves) == (16, "measured", 53.0, (12, 22))
    assert row.default_us > row.us
    assert any(step == "schedules for 16 tokens measured" for step, _, _ in heard)
    assert "tuned" in sources(LAYER)
    assert "tuned" not in sources(LAYER, tuned_store=False)
    lines = files["log"].read_text(encoding="utf-8").splitlines()
    again = moec.tune(LAYER, tokens=[16], **files, **OPTIONS)
    assert again.tokens == made.tokens
    assert files["log"].read_text(encoding="utf-8").splitlines() == lines
    assert all(json.loads(line)["ok"] for line in lines)


def test_a_bad_count_costs_itself_alone(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_TOKENS", "300:baseline")
    monkeypatch.setenv("FAKE_BAD", "5:memory")
    made = moec.tune(LAYER, tokens=[16, 300], out=tmp_path / "rows.json", log=tmp_path / "log.jsonl", **OPTIONS)
    assert [row.chosen for row in made.tokens] == ["measured", "failed"]
    assert made.tokens[1].text == "the compiler's own choice for 300 tokens cannot be measured: a fault"
    assert (made.rows, made.quarantined) == (2, ())
    assert {row["kind"] for row in made.not_measured} == {"transient"}


def test_wrong_schedules_are_named(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_BAD", "5:wrong")
    made = moec.tune(LAYER, tokens=[16], out=tmp_path / "rows.json", log=tmp_path / "log.jsonl", **OPTIONS)
    assert {row["kind"] for row in made.quarantined} == {"wrong"}
    assert all(row["first"]["stages"] == 5 for row in made.quarantined)
    assert made.quarantined[0]["text"] == "element 3 of row 0 is nan, expected 1.5"


def test_each_number_of_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that answers with a report, and keeps what it is asked."""
    row = {
        "tokens": 7, "chosen": "measured", "default_us": 1.5, "us": 2.5, "noise": 0.25, "schedules": 9, "best": "b",
        "range": [5, 11], "text": "t",
    }  # fmt: skip
    report = {
        "results": [row, {"tokens": 8, "chosen": "none measured"}], "quarantined": [{"a": 1}], "not_measured": [{"b": 2}],
        "rows": 3, "output": "o", "log": "l", "seconds": 4.5,
    }  # fmt: skip
    asked: list[Any] = []

    def text(call: str, source: bytes, options: bytes) -> str:
        asked.append((call, json.loads(options)))
        return json.dumps(report)

    module: Any = importlib.import_module("moec._tune")
    monkeypatch.setattr(module, "library", lambda: types.SimpleNamespace(text=text))
    monkeypatch.setattr(module, "reported", lambda library, progress: contextlib.nullcontext())
    measured = module.TunedTokens(7, "measured", 1.5, 2.5, 0.25, 9, "b", (5, 11), "t")
    open_one = module.TunedTokens(8, "none measured", 0.0, 0.0, 0.0, 0, "", None, "")
    expected = module.Tuned((measured, open_one), ({"a": 1},), ({"b": 2},), 3, "o", "l", 4.5)
    assert moec.tune(LAYER, tokens=iter([3, 2]), arch="a") == expected
    usual = {
        "tokens": [3, 2], "budget": 60.0, "exhaustive": False, "random": 0, "seed": 1, "device": "cuda", "deadline": 30.0,
        "min_gain": 1.0, "sample": 8, "arch": "a", "default_max_tokens": compiler.DEFAULT_MAX_TOKENS,
    }  # fmt: skip
    assert asked.pop() == ("tune_config", usual)
    others: dict[str, Any] = {
        "budget": 2.0, "exhaustive": True, "random": 3, "seed": 4, "device": "host", "deadline": 5.0, "min_gain": 6.0,
        "sample": 7,
    }  # fmt: skip
    moec.tune(LAYER, tokens=[1], out=pathlib.Path("o"), log=pathlib.Path("l"), arch="a", **others)
    assert asked.pop() == ("tune_config", {**usual, "tokens": [1], "out": "o", "log": "l", **others})


def test_errors(tmp_path: pathlib.Path) -> None:
    with pytest.raises(moec.InvalidArgument, match="expected at least one token count"):
        moec.tune(LAYER, tokens=[], **OPTIONS)
    with pytest.raises(moec.InvalidArgument, match=r"options\.budget: expected a number above 0 and up to 2592000, got 0"):
        moec.tune(LAYER, tokens=[1], **{**OPTIONS, "budget": 0.0})
    with pytest.raises(moec.InvalidArgument, match="options: unknown field 'warps'"):
        moec.tune(LAYER, tokens=[1], warps=4, **OPTIONS)
    with pytest.raises(moec.NotSupported, match="times of the host device say nothing of a GPU"):
        moec.tune(LAYER, tokens=[1], **OPTIONS)
    with pytest.raises(moec.NotSupported, match="expected device cuda or host, got 'tpu'"):
        moec.tune(LAYER, tokens=[1], **{**OPTIONS, "device": "tpu"})
