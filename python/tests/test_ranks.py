# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The programs of several ranks, on threads of the host device: bench/ranks/ranks.py and test/gpu/rank_faults.py."""

import dataclasses
import importlib
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from conftest import SMALL, SOURCE

RANKS = SOURCE / "bench" / "ranks" / "ranks.py"
FAULTS = SOURCE / "test" / "gpu" / "rank_faults.py"
MODES = ("gather_scatter", "one_sided")
MODEL = SOURCE / "bench" / "ranks" / "ranks_model.py"
LAYERS = {
    "plain": {**SMALL, "name": "plain", "hidden_size": 256, "intermediate_size": 128},
    "grouped": {
        **SMALL,
        "name": "grouped",
        "hidden_size": 128,
        "intermediate_size": 128,
        "routing_method": "deepseek_v3",
        "num_expert_group": 4,
        "topk_group": 2,
        "routed_scaling_factor": 2.5,
    },
    "one_expert": {**SMALL, "name": "one_expert", "top_k": 1, "routing_method": "llama4"},
}


def run(*command: Any) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, *map(str, command)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment, timeout=250)


@pytest.fixture(scope="module", params=[2, 3])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder that bench/ranks/compile_ranks.py makes of small layers."""
    made = tmp_path_factory.mktemp(f"ranks{request.param}")
    rows = []
    for name, layer in LAYERS.items():
        (made / f"{name}.json").write_text(json.dumps(layer))
        rows.append({"file": f"{name}.json", "schemes": ["bf16", "fp8_block"] if name == "plain" else ["bf16"]})
    (made / "layers.json").write_text(json.dumps({"ranks": {"layers": rows, "tokens": [1, 7]}}))
    command = [SOURCE / "bench" / "ranks" / "compile_ranks.py", f"--out={made / 'out'}", f"--layers={made / 'layers.json'}"]
    ran = run(*command, "--no-cubin", f"--ranks={request.param}", f"--modes={','.join(MODES)}")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return made / "out"


def test_layers_of_ranks(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    size = json.loads((folder / "ranks.json").read_text())["ranks"]
    lines = tmp_path / "lines"
    words = [f"--ranks={size}", f"--modes={','.join(MODES)}", "--check", "--replays=3", f"--out={lines}"]
    ran = run(folder / "ranks.py", "--host", *words)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = [json.loads(line) for line in lines.read_text().splitlines()]
    cells = ["plain/bf16", "plain/fp8_block", "grouped/bf16", "one_expert/bf16"]
    wanted = [(cell, tokens, mode) for cell in cells for tokens in (1, 7) for mode in MODES]
    assert [(each["cell"], each["tokens"], each["mode"]) for each in found] == wanted
    assert all(0 <= each["error"] < 0.01 and each["different"] == 0 for each in found)
    assert len(ran.stdout.splitlines()) == len(found)


def test_another_layer_is_seen(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """With the package of another layer in the place of the whole one, each check fails."""
    listed = json.loads((folder / "ranks.json").read_text())
    size = listed["ranks"]
    cell = next(each for each in listed["cells"] if each["layer"] == "one_expert")
    source = json.loads((folder.parent / "one_expert.json").read_text())
    source["activation"] = "gelu"
    code = f"import moec; moec.compile({source!r}, arch='sm_90a', max_tokens=7).write({str(tmp_path / 'whole')!r})"
    assert run("-c", code).returncode == 0
    cell["packages"] = {name: str(folder / path) for name, path in cell["packages"].items()} | {"whole": str(tmp_path / "whole")}
    (tmp_path / "ranks.json").write_text(json.dumps({**listed, "cells": [cell]}))
    ran = run(RANKS, tmp_path, "--host", f"--ranks={size}", "--check", "--tokens=7")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "WRONG: rank 0: gather_scatter, uniform: relative error" in ran.stdout
    assert f"rank {size - 1}: torch, uniform: relative error" in ran.stdout


def test_what_the_program_refuses(folder: pathlib.Path) -> None:
    size = json.loads((folder / "ranks.json").read_text())["ranks"]
    for words, told in (
        ([f"--ranks={size + 1}"], f"are for {size} ranks, got --ranks={size + 1}"),
        ([f"--ranks={size}", "--cells=nothing"], "--cells=nothing names no cell"),
        ([f"--ranks={size}", "--time"], "its times mean nothing"),
    ):
        ran = run(RANKS, folder, "--host", *words)
        assert ran.returncode != 0
        assert told in ran.stderr


@pytest.mark.parametrize("mode", MODES)
def test_faults(mode: str, tmp_path: pathlib.Path) -> None:
    made = run(FAULTS, tmp_path, "--make", "--no-cubin", f"--mode={mode}")
    assert made.returncode == 0, made.stderr
    ran = run(FAULTS, tmp_path, "--host", "--timeout-ms=1000", f"--out={tmp_path / 'lines'}")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = {(row["fault"], row["rank"]): row for row in map(json.loads, (tmp_path / "lines").read_text().splitlines())}
    assert len(found) == 20
    waited = {"gather_scatter": "to do all_gather", "one_sided": "to send its tokens in run 2 of the context"}[mode]
    assert found["killed_in", 0]["said"] == f"rank 0 waited 1000 ms for rank 1 {waited}"
    assert found["killed_in", 1]["status"] == "gone"


@pytest.fixture(scope="module")
def model() -> Any:
    """bench/ranks/ranks_model.py as a module."""
    sys.path.insert(0, str(MODEL.parent))
    try:
        return importlib.import_module("ranks_model")
    finally:
        sys.path.remove(str(MODEL.parent))


def test_ranks_that_a_token_goes_to(model: Any) -> None:
    """Uniform routing of DeepSeek-V3 over 8 ranks reaches 4.63 others. Four groups, which are ranks, bound it by 7/8 of 4."""

    def others(groups: tuple[int, int]) -> float:
        counts, fullest = model.counts_of(model.Layer("", 256, 8, 7168, groups=groups), 8, 2048, "uniform")
        assert counts.shape == (8, 8)
        assert fullest < 1.1
        return float((counts.sum() - counts.trace()) / 8 / 2048)

    assert others((1, 1)) == pytest.approx(4.63, rel=0.02)
    assert 3.4 < others((8, 4)) < 3.5
    # All experts of a token of two ranks: both get it.
    counts, _ = model.counts_of(model.Layer("", 8, 8, 64), 2, 5, "uniform")
    assert (counts == 5).all()
    _, skewed = model.counts_of(model.Layer("", 256, 8, 7168), 8, 2048, "zipf:1")
    assert skewed > 1.5


def test_terms_are_found_again(model: Any) -> None:
    """Lines that the model itself makes give its terms."""
    terms = dataclasses.replace(model.Terms(), launch=3.0, nccl=9.0, wire=300.0, nccl_rate=200.0)
    rows = []
    for layer in (model.Layer("", 128, 8, 2048), model.Layer("", 64, 8, 7168)):
        for tokens in (1, 128, 4096):
            gather, scatter = model.gather_scatter(terms, layer, 2, tokens)
            sizes = {"gather_bytes": tokens * (layer.row + layer.choice), "scatter_bytes": 2 * tokens * layer.hidden}
            moves = 3 * terms.launch + 2 * terms.signal + sum(sizes.values()) / (terms.wire * 1e3)
            times = {"gather": gather, "scatter": scatter, "experts": 50.0, "own": 5.0, "whole": 55.0 + moves, **sizes}
            rows.append({"times": times, "ranks": 2, "mode": "one_sided"})
    others = [{"ranks": 2, "mode": "one_sided", "error": 0.0}, {"ranks": 2, "mode": "one_sided", "times": {"whole": 9.0}}]
    found = model.fitted([*rows, *others], model.Terms())
    for name in ("launch", "nccl", "wire", "nccl_rate"):
        assert getattr(found, name) == pytest.approx(getattr(terms, name), rel=1e-3), name
    assert model.fitted([], terms) == terms
    # Stores alone are no faster than the rate that the terms have.
    assert model.fitted(rows, dataclasses.replace(model.Terms(), wire=250.0)).wire == pytest.approx(250.0)


def test_the_note_has_the_models_tables(model: Any, tmp_path: pathlib.Path) -> None:
    note = (SOURCE / "bench" / "notes" / "ranks.md").read_text()
    lines = (SOURCE / "bench" / "results" / "2026-11-28-h200-ranks.jsonl").read_text().splitlines()
    terms = model.fitted([json.loads(line) for line in lines], model.Terms())
    assert "\n".join(model.beside_published(terms)) in note
    copy = tmp_path / "note.md"
    copy.write_text("no mark\n")
    ran = run(MODEL, f"--into={copy}")
    assert ran.returncode == 2
    assert "expected a line '## Tables of" in ran.stderr
