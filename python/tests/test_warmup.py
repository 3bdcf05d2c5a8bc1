# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""warmup: what it compiles a later load finds, of every distinct layer and rank; and how it fails."""

import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import SMALL, SOURCE, run_python

import moec
from moec._warmup import _distinct, _same, distinct_layers, numbers
from moec.cli import main

ARCH = "sm_80"
TINY = {**SMALL, "hidden_size": 64, "intermediate_size": 64}
MODEL = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_act": "silu",
    "hidden_size": 64,
    "moe_intermediate_size": 64,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "norm_topk_prob": True,
    "num_hidden_layers": 5,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [0, 3],
    "torch_dtype": "bfloat16",
}


def strict(files: moec.Files, cache: pathlib.Path, rank: int | None = None) -> dict[str, Any]:
    """Loads every kernel of a package without compiling."""
    return moec.load(files, prebuild=True, arch=ARCH, cache_dir=cache, strict=True, rank=rank).load_report


def test_a_load_compiles_nothing(tmp_path: pathlib.Path) -> None:
    files = moec.compile(TINY, arch=ARCH, max_tokens=4)
    with pytest.raises(moec.StrictMiss):
        strict(files, tmp_path)
    made = moec.warmup(TINY, arch=ARCH, max_tokens=4, cache_dir=tmp_path)
    assert (made.compiled > 0, made.cached, len(made.rows)) == (True, 0, 1)
    assert (made.rows[0].layers, made.rows[0].arch, made.rows[0].ranks) == ((), ARCH, ())
    assert "libnvrtc" in made.nvrtc
    assert {row["source"] for row in strict(files, tmp_path)["kernels"]} == {"cache"}
    again = moec.warmup(TINY, arch=ARCH, max_tokens=4, cache_dir=tmp_path)
    assert (again.compiled, again.cached, again.nvrtc) == (0, made.compiled, "")
    assert str(again).endswith(f"cache: {tmp_path}")
    assert repr(again) == f"<moec.Warmup: 0 kernels compiled, {made.compiled} in the cache>"


def test_layers_of_a_model(tmp_path: pathlib.Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MODEL))
    cache = tmp_path / "cache"
    made = moec.warmup(tmp_path, arch=[ARCH, "sm_90a"], max_tokens=4, cache_dir=cache)
    assert [(row.layers, row.arch) for row in made.rows] == [((1, 2, 4), ARCH), ((1, 2, 4), "sm_90a")]
    assert "layers 1-2, 4: sm_80" in str(made)
    for layer in (1, 2, 4):
        strict(moec.compile(MODEL, arch=ARCH, layer=layer, max_tokens=4), cache)
    some = moec.warmup(MODEL, arch=ARCH, max_tokens=4, cache_dir=cache, layers=[4])
    assert [row.layers for row in some.rows] == [(4,)]
    with pytest.raises(moec.MoecError, match="^layer 3: .*mlp_only_layers"):
        moec.warmup(MODEL, arch=ARCH, cache_dir=cache, layers=[1, 3])
    with pytest.raises(moec.MoecError, match="^no_shared_experts: no layer of the model has shared experts; leave"):
        moec.warmup(MODEL, arch=ARCH, cache_dir=cache, no_shared_experts=True)
    with pytest.raises(moec.MoecError, match="^layer 9: .*expected an integer from 0 to 4"):
        moec.warmup(MODEL, arch=ARCH, cache_dir=cache, layers=[9])


def test_distinct_layers() -> None:
    models = SOURCE / "examples" / "models"
    options = {"arch": ARCH, "max_tokens": 64}
    # The first layers of DeepSeek-V4 take their experts from a table.
    found = distinct_layers(models / "deepseek-v4-flash.json", options, None)
    assert [numbers(each.layers) for each in found] == ["0-2", "3-42"]
    assert [each.options["layer"] for each in found] == [0, 3]
    with pytest.raises(moec.MoecError, match="^layer 43: .*swiglu_limits_shared.*no-shared-experts"):
        distinct_layers(models / "step-3.5-flash.json", options, [42, 43])


def test_what_makes_a_layer_distinct() -> None:
    """All that explain() says of a layer but its name and where it was read."""
    report: Any = moec.explain(TINY, arch=ARCH)
    known = _same(report)
    assert {"quant", "parallel", "activation", "num_experts"} <= set(report.data["layer"])
    for name in [*report.data["layer"], "origin"]:
        other: Any = SimpleNamespace(data={"layer": {**report.data["layer"], name: "other"}})
        assert (_same(other) == known) == (name in ("name", "origin")), name


def test_all_ranks_of_a_layer() -> None:
    report: Any = SimpleNamespace(data={"layer": {"parallel": {"tp_size": 2, "pcp_size": 3, "dp_size": 5}}}, targets=[])
    assert _distinct((), report, {}).ranks == 30
    report.data["layer"]["parallel"] = {"ep_size": 4}
    assert _distinct((), report, {}).ranks == 1


def test_ranks(tmp_path: pathlib.Path) -> None:
    made = moec.warmup(TINY, arch=ARCH, max_tokens=4, tp=2, cache_dir=tmp_path)
    assert made.rows[0].ranks == (0, 1)
    # Ranks share kernels.
    one = moec.warmup(TINY, arch=ARCH, max_tokens=4, tp=2, rank=1, cache_dir=tmp_path)
    assert (one.rows[0].ranks, one.compiled, one.cached) == ((1,), 0, made.compiled)
    for rank in (0, 1):
        strict(moec.compile(TINY, arch=ARCH, max_tokens=4, tp=2, rank=rank), tmp_path)
    both = moec.compile(TINY, arch=ARCH, max_tokens=4, tp=2, all_ranks=True)
    strict(both, tmp_path, rank=1)
    with pytest.raises(moec.StrictMiss):
        strict(moec.compile(TINY, arch=ARCH, max_tokens=4), tmp_path)


def test_shares_of_several_sizes(tmp_path: pathlib.Path) -> None:
    source = {**TINY, "num_experts": 5}
    moec.warmup(source, arch=ARCH, max_tokens=4, dp=2, ep=True, cache_dir=tmp_path)
    for rank in (0, 1):
        strict(moec.compile(source, arch=ARCH, max_tokens=4, dp=2, ep=True, rank=rank), tmp_path)


def test_ranks_that_the_source_says(tmp_path: pathlib.Path) -> None:
    source = {**TINY, "moe_parallel_config": {"tp_size": 2, "tp_rank": 1}}
    moec.warmup(source, arch=ARCH, max_tokens=4, cache_dir=tmp_path)
    strict(moec.compile(source, arch=ARCH, max_tokens=4), tmp_path)
    both = moec.warmup(
        TINY | {"moe_parallel_config": {"tp_size": 2}}, arch=ARCH, max_tokens=4, cache_dir=tmp_path, all_ranks=True
    )
    assert both.rows[0].ranks == (0, 1)


def test_wrong_arguments(tmp_path: pathlib.Path) -> None:
    with pytest.raises(moec.InvalidArgument, match="unknown option cubin; expected layers="):
        moec.warmup(TINY, arch=ARCH, cubin=True)
    with pytest.raises(moec.InvalidArgument, match="rank: expected a rank or all ranks, got both"):
        moec.warmup(TINY, arch=ARCH, rank=0, all_ranks=True)
    with pytest.raises(moec.InvalidArgument, match="all_ranks: expected several ranks, got a layer on one; accepted: with tp"):
        moec.warmup(TINY, arch=ARCH, all_ranks=True)
    with pytest.raises(moec.MoecError, match="ep: expected several ranks, got a layer on one"):
        moec.warmup(TINY, arch=ARCH, ep=True)
    with pytest.raises(moec.MoecError, match="rank"):
        moec.warmup(TINY, arch=ARCH, tp=2, rank=2, cache_dir=tmp_path)
    with pytest.raises(moec.InvalidArgument, match="layers: expected a number at least, got none"):
        moec.warmup(TINY, arch=ARCH, layers=[])
    with pytest.raises(moec.MoecError, match="shceme"):
        moec.warmup(TINY, arch=ARCH, shceme="bf16")
    with pytest.raises(moec.NotSupported, match="needs wgmma"):
        moec.warmup(TINY, arch=ARCH, engine="wgmma", cache_dir=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_cache_that_cannot_be_written(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(moec.FileSystemError, match="cache: .*file cannot be written: "):
        moec.warmup(TINY, arch=ARCH, cache_dir=file)


def test_a_full_disk(tmp_path: pathlib.Path) -> None:
    """A limit of the size of files stands for it: the cache can be written, and a kernel does not fit."""
    moec.warmup(TINY, arch=ARCH, max_tokens=4, cache_dir=tmp_path / "first")
    largest = max(path.stat().st_size for path in (tmp_path / "first").rglob("*"))
    assert largest > 4096
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, ({largest - 1}, {resource.RLIM_INFINITY}))
import moec
moec.warmup({TINY!r}, arch={ARCH!r}, max_tokens=4, cache_dir={str(tmp_path / "second")!r})
"""
    done = run_python(code)
    assert done.returncode == 1
    assert "FileSystemError: the layer: a kernel was compiled and could not be stored; is the disk full?" in done.stderr
    assert list((tmp_path / "second").iterdir())


def test_the_command(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(MODEL))
    words = ["warmup", str(path), "--arch", ARCH, "--max-tokens", "4", "--tp", "2", "--cache-dir", str(tmp_path / "cache")]
    before = signal.getsignal(signal.SIGINT)
    try:
        assert main(words) == 0
        assert "ranks 0-1: " in capsys.readouterr().out
        assert main([*words, "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert [(row["layers"], row["compiled"], row["ranks"]) for row in report["rows"]] == [([1, 2, 4], 0, [0, 1])]
        assert main([*words, "--layer", "0"]) == 1
        assert capsys.readouterr().err.startswith("moec warmup: layer 0: ")
        with pytest.raises(SystemExit, match="2"):
            main([*words, "--shceme=bf16"])
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_leaves_a_cache(tmp_path: pathlib.Path) -> None:
    cache = tmp_path / "cache"
    words = ["warmup", "layer.json", "--arch", ARCH, "--jobs=1", "--cache-dir", str(cache)]
    (tmp_path / "layer.json").write_text(json.dumps(TINY))
    process = subprocess.Popen([sys.executable, "-m", "moec", *words], cwd=tmp_path, stderr=subprocess.PIPE, env=os.environ)
    until = time.monotonic() + 60
    # The first has appeared when a second one is written.
    while len(list(cache.glob("*/*/kernel.cubin"))) < 2 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    made = moec.warmup(TINY, arch=ARCH, cache_dir=cache)
    assert made.cached >= 1
    assert made.compiled >= 1
    strict(moec.compile(TINY, arch=ARCH), cache)


def test_numbers() -> None:
    assert numbers([3, 1, 2, 7]) == "1-3, 7"
    assert numbers([]) == ""
