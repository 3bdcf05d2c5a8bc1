# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""compile, explain and supports: sources, options, reports, progress."""

import json
import pathlib
import subprocess
import time
from typing import Any

import pytest
from conftest import ARCH, BUILD, SMALL, SOURCE, run_python

import moec
from moec import _html, _messages

QWEN = SOURCE / "examples" / "models" / "qwen3-30b-a3b.json"


class Configuration:
    """As transformers' PretrainedConfig."""

    def to_dict(self) -> dict[str, Any]:
        made: dict[str, Any] = json.loads(QWEN.read_text())
        return made


def test_sources(tmp_path: pathlib.Path) -> None:
    (tmp_path / "config.json").write_text(QWEN.read_text())
    wanted = moec.explain(QWEN, arch=ARCH)
    assert wanted.served
    for source in (str(QWEN), tmp_path, json.loads(QWEN.read_text()), Configuration()):
        assert moec.explain(source, arch=ARCH).targets == wanted.targets


def test_a_program_has_its_own_max_tokens(tmp_path: pathlib.Path) -> None:
    assert moec.explain(QWEN, arch=ARCH).data["max_tokens"] == 8192
    program = tmp_path / "program.mlir"
    words = ["compile", str(QWEN), f"--arch={ARCH}", "--max-tokens=64", "--emit=scheduled", "-o", str(program)]
    subprocess.run([BUILD / "bin" / "moec", *words], capture_output=True, check=True)
    assert moec.explain(program, arch=ARCH).data["max_tokens"] == 64
    with pytest.raises(moec.InvalidArgument, match="max_tokens 8192 does not fit program @"):
        moec.explain(program, arch=ARCH, max_tokens=8192)


def test_wrong_sources(tmp_path: pathlib.Path) -> None:
    with pytest.raises(moec.InvalidArgument, match="there is no .*none.json"):
        moec.compile(tmp_path / "none.json", arch=ARCH)
    with pytest.raises(moec.InvalidArgument, match="there is no .*config.json"):
        moec.compile(tmp_path, arch=ARCH)
    with pytest.raises(TypeError, match="source: expected a dict.*got int"):
        moec.compile(3, arch=ARCH)
    with pytest.raises(TypeError, match="source: expected what JSON can say, got object"):
        moec.compile({"a": object()}, arch=ARCH)
    with pytest.raises(TypeError, match="arch: expected"):
        moec.compile(SMALL, arch=90)  # type: ignore[arg-type]


def test_options(tmp_path: pathlib.Path) -> None:
    report = moec.explain(QWEN, arch=ARCH, scheme="fp8_block", tp=2, rank=1, max_tokens=77)
    assert report.data["max_tokens"] == 77
    assert report.data["layer"]["quant"]["name"] == "fp8_block"
    assert report.data["layer"]["parallel"]["tp_size"] == 2
    with pytest.raises(moec.InvalidArgument, match="unknown field 'shceme'; did you mean scheme\\?$"):
        moec.compile(SMALL, arch=ARCH, shceme="bf16")
    with pytest.raises(moec.InvalidArgument, match="unknown arch 'sm_91'"):
        moec.compile(SMALL, arch="sm_91")
    with pytest.raises(moec.InvalidArgument, match="max_tokens: expected an integer"):
        moec.compile(SMALL, arch=ARCH, max_tokens="many")  # type: ignore[arg-type]


def test_what_the_source_says_stays() -> None:
    source = {**SMALL, "moe_parallel_config": {"tp_size": 2, "tp_rank": 1}}
    assert ranks_of(moec.load(moec.compile(source, arch=ARCH), device="host")) == [1]


def ranks_of(package: moec.Package) -> list[int]:
    return [row["rank"] for row in package.manifest["ranks"]]


def test_a_family_that_the_caller_names() -> None:
    config = {**json.loads(QWEN.read_text()), "architectures": ["MineForCausalLM"], "model_type": "mine"}
    wanted = moec.explain(QWEN, arch=ARCH)
    for known in ("qwen3_moe", "Qwen3MoeForCausalLM"):
        report = moec.explain(config, arch=ARCH, as_=known)
        assert report.served
        assert report.targets == wanted.targets
    package = moec.load(moec.compile(config, arch=ARCH, as_="qwen3_moe", max_tokens=16), device="host")
    assert package.manifest["layer"]["num_experts"] == 128
    for source, family, message in (
        (config, None, 'unknown architecture "MineForCausalLM"'),
        (config, "qwen3_mo", r" as_=qwen3_mo: unknown family \(did you mean qwen3_moe"),
        # The keys of another family.
        (config, "jamba", r"\$\.norm_topk_prob: "),
        (SMALL, "qwen3_moe", "expected no as_ with a layer JSON, which needs no family"),
    ):
        with pytest.raises(moec.MoecError, match=message):
            moec.compile(source, arch=ARCH, as_=family)
    with pytest.raises(moec.InvalidArgument, match="as: expected"):
        moec.compile(config, arch=ARCH, as_=1)


def test_ranks() -> None:
    assert ranks_of(moec.load(moec.compile(SMALL, arch=ARCH, tp=2, rank=1), device="host")) == [1]
    files = moec.compile(SMALL, arch=ARCH, tp=2, all_ranks=True)
    with pytest.raises(moec.InvalidArgument, match="ranks 0 and 1"):
        moec.load(files, device="host")
    for rank in (2, -1):
        with pytest.raises(moec.InvalidArgument, match="rank"):
            moec.load(files, device="host", rank=rank)
    assert ranks_of(moec.load(files, device="host", rank=1)) == [1]


def test_files_are_written_and_read(tmp_path: pathlib.Path) -> None:
    files = moec.compile(SMALL, arch=[ARCH, "sm_80"])
    assert repr(files) == "<moec.Files for sm_90a, sm_80>"
    folder = files.write(tmp_path / "package")
    assert (folder / "manifest.json").exists()
    again = moec.Files.read(folder)
    first, second = moec.load(files, device="host", arch="sm_80"), moec.load(again, device="host", arch="sm_80")
    assert first.manifest == second.manifest
    assert first.arch == second.arch == "sm_80"
    assert first.explain().targets[1]["arch"] == "sm_80"
    with pytest.raises(moec.InvalidArgument, match="a package of a folder does not hold its source"):
        second.explain()


def test_catalog_and_families() -> None:
    catalog = moec.catalog()
    assert {"bf16", "fp8_block"} <= {row["name"] for row in catalog["schemes"]}
    assert {"routing", "activations", "engines", "backends", "archs", "gpus"} <= set(catalog)
    assert any("qwen3_moe" in family["model_types"] for family in moec.families())


def test_report() -> None:
    report = moec.explain(SMALL, arch=ARCH)
    assert repr(report) == "<moec.Report of small for sm_90a>"
    text = str(report)
    assert "layer small: 8 experts, 2 a token, hidden 128, intermediate 96, scheme bf16" in text
    assert "chosen: backend grouped, engine wgmma, native" in text
    assert "1 to 4 tokens: 2 kernels" in text
    assert json.loads(report.to_json()) == report.data


def test_report_of_a_refused_layer() -> None:
    report = moec.explain(SMALL, arch="sm_75", engine="wgmma")
    assert not report.served
    assert "not served: " in str(report)
    assert "refused: native grouped wgmma [feature_missing]: engine 'wgmma' needs wgmma" in str(report)
    page = report.to_html()
    assert page.startswith("<!DOCTYPE html>")
    assert "feature_missing" in page
    assert report._repr_html_() == _html.frame(page)
    assert repr(report) == "<moec.Report: not served>"


def test_page_of_a_report(tmp_path: pathlib.Path) -> None:
    report = moec.explain(SMALL, arch=ARCH)
    page = report.to_html()
    assert "<h1>small</h1>" in page
    assert "<script" not in page
    cell = {"tokens": 1, "us": 5.0, "floor_us": 2.0, "bytes": 1e6, "flops": 1e6, "variant": "up_to_4", "kernels": []}
    layer = report.data["layer"]
    bench: dict[str, Any] = {
        "moec_bench": 3,
        "device": "NVIDIA H100 80GB HBM3",
        "packages": [{"name": "small", "arch": ARCH, "layer": layer, "cells": [cell]}],
    }
    (tmp_path / "bench.json").write_text(json.dumps(bench))
    timed = report.to_html(bench)
    assert "measured at 1 token: 5.00 µs" in timed
    assert report.to_html(tmp_path / "bench.json") == timed
    with pytest.raises(moec.InvalidArgument, match="expected times of layer small, got small"):
        report.to_html({**bench, "packages": [{**bench["packages"][0], "layer": {**layer, "top_k": 1}}]})
    with pytest.raises(moec.InvalidArgument, match="expected a result of moec-bench"):
        report.to_html({})
    with pytest.raises(moec.FileSystemError, match="bench: .*absent cannot be read"):
        report.to_html(tmp_path / "absent")
    (tmp_path / "latin").write_bytes(b"\xe9")
    with pytest.raises(moec.InvalidArgument, match="bench: expected a text in UTF-8"):
        report.to_html(tmp_path / "latin")
    with pytest.raises(TypeError, match="bench: expected a dict or a path, got int"):
        report.to_html(3)  # type: ignore[arg-type]


def test_frame_of_a_page() -> None:
    frame = _html.frame('<p class="a">it\'s</p>')
    assert "srcdoc='&lt;p class=&quot;a&quot;&gt;it&#x27;s&lt;/p&gt;'" in frame
    assert " sandbox " in frame


def test_supports() -> None:
    support = moec.supports(SMALL, arch=ARCH)
    assert support
    assert (support.ok, support.reasons, support.realization) == (True, (), ("native",))
    assert str(support) == "served: native"
    refused = moec.supports(SMALL, arch="sm_75", engine="wgmma")
    assert not refused
    assert refused.reasons[0].code == "feature_missing"
    unknown = moec.supports({**SMALL, "quant_config": "fp99"}, arch=ARCH)
    assert [reason.code for reason in unknown.reasons] == ["refused"]
    assert "fp99" in str(unknown)
    with pytest.raises(moec.InvalidArgument):
        moec.supports(SMALL, arch="sm_91")


def test_progress(tmp_path: pathlib.Path) -> None:
    heard: list[tuple[str, int, int]] = []
    moec.load(
        moec.compile({**SMALL, "hidden_size": 64}, arch="sm_80", max_tokens=4),
        prebuild=True,
        arch="sm_80",
        cache_dir=tmp_path,
        progress=lambda *what: heard.append(what),
    )
    assert heard
    step, done, total = heard[-1]
    assert step == "small: kernels for sm_80"
    assert done == total > 1
    silent = len(heard)
    moec.explain(SMALL, arch=ARCH)
    assert len(heard) == silent


def test_an_exception_of_progress_comes_out(tmp_path: pathlib.Path) -> None:
    def fail(step: str, done: int, total: int) -> None:
        raise LookupError(step)

    files = moec.compile({**SMALL, "hidden_size": 64}, arch="sm_80", max_tokens=4)
    with pytest.raises(LookupError, match="small: kernels for sm_80"):
        moec.load(files, prebuild=True, arch="sm_80", cache_dir=tmp_path, progress=fail)
    with pytest.raises(TypeError, match="progress: expected None, True, False or a function, got str"):
        moec.load(files, device="host", progress="loud")  # type: ignore[arg-type]


def prebuild(folder: pathlib.Path, progress: bool | None, **environment: str) -> str:
    """The stderr of a process that compiles kernels."""
    code = f"""
import logging
logging.basicConfig(format="%(levelname)s %(name)s %(message)s", level="INFO")
import moec
files = moec.compile({{**{SMALL!r}, "hidden_size": 64}}, arch="sm_80", max_tokens=4)
moec.load(files, prebuild=True, arch="sm_80", cache_dir={str(folder)!r}, progress={progress})
"""
    done = run_python(code, **environment)
    assert (done.returncode, done.stdout) == (0, "")
    return done.stderr


def test_messages_go_to_logging(tmp_path: pathlib.Path) -> None:
    assert "INFO moec NVRTC 1" in prebuild(tmp_path, True)


def test_a_bar(capfd: pytest.CaptureFixture[str]) -> None:
    bars = _messages._Bars()
    bars("a step", 1, 4)
    assert capfd.readouterr().err == ""
    time.sleep(0.6)
    bars("a step", 2, 4)
    assert "a step:  50%" in capfd.readouterr().err
    bars("a step", 4, 4)
    bars("another", 1, 1)
    assert not bars.bars
    bars("unfinished", 1, 2)
    bars.close()
    assert not bars.bars


def test_when_bars_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _messages._function_of(None) is None
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert isinstance(_messages._function_of(None), _messages._Bars)
    assert _messages._function_of(False) is None
    monkeypatch.setenv("MOEC_PROGRESS", "0")
    assert _messages._function_of(None) is None
    assert isinstance(_messages._function_of(True), _messages._Bars)


def test_no_bars_without_a_terminal_and_messages_by_the_library(tmp_path: pathlib.Path) -> None:
    said = prebuild(tmp_path, None, MOEC_LOG="info")
    assert "kernels for" not in said
    assert "moec: info: NVRTC 1" in said
    assert "INFO" not in said


def test_another_layer_must_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOEC_EXCLUDE", raising=False)
    layer = SMALL | {"quant_config": "nvfp4"}
    report = moec.explain(layer, arch=ARCH)
    assert report.targets[0]["realization"] == "emulated"
    assert "refused: native [feature_missing]: sm_90a has no fp4 tensor core" in str(report)
    states = {(row["realization"], row["state"]) for row in report.targets[0]["realizations"]}
    assert ("weight_only", "refused") in states
    assert ("emulated", "chosen") in states
    allowed = moec.supports(layer, arch=ARCH, allow="weight_only")
    assert allowed.realization == ("weight_only",)
    monkeypatch.setenv("MOEC_EXCLUDE", "gemv,weight_only")
    assert moec.supports(layer, arch=ARCH, allow="weight_only").realization == ("emulated",)
    monkeypatch.delenv("MOEC_EXCLUDE")
    package = moec.load(moec.compile(layer, arch=ARCH, allow=["weight_only"], max_tokens=16), device="host")
    assert "a1_second_scale" not in package.values
    with pytest.raises(moec.NotSupported, match="sm_90a has no fp4 tensor core") as caught:
        moec.compile(layer, arch=ARCH, exclude=["emulated"])
    assert {reason.code for reason in caught.value.reasons} >= {"feature_missing", "not_allowed", "excluded"}
    with pytest.raises(moec.InvalidArgument, match="exclude: unknown word 'wgmmma'"):
        moec.compile(layer, arch=ARCH, exclude="wgmmma")
