# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A new user's task with the wheel and a C++ compiler, without the source tree.

A layer like DeepSeek-V3's in fp8 blocks, rank 3 of 8 of expert parallel, the engine's own router, and an image of files in which
nothing is compiled. The steps are those of the Dockerfile of docs/how-to/cpp-engine.md.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from conftest import SOURCE, WHEEL
from reference import error, moe
from schemes import SCHEMES
from support import random_value

import moec

SCRIPT = pathlib.Path(sys.executable).with_name("moec")
RANK, RANKS, EXPERTS, TOP_K, TOKENS = 3, 8, 64, 8, 5
CONFIG: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "first_k_dense_replace": 3,
    "hidden_act": "silu",
    "hidden_size": 512,
    "moe_intermediate_size": 256,
    "moe_layer_freq": 1,
    "n_group": 8,
    "n_routed_experts": EXPERTS,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "num_experts_per_tok": TOP_K,
    "num_hidden_layers": 61,
    "quantization_config": {
        "activation_scheme": "dynamic",
        "fmt": "e4m3",
        "quant_method": "fp8",
        "weight_block_size": [128, 128],
    },
    "routed_scaling_factor": 2.5,
    "scoring_func": "sigmoid",
    "topk_group": 4,
    "topk_method": "noaux_tc",
    "torch_dtype": "bfloat16",
}


def run(*words: str | pathlib.Path, cwd: pathlib.Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PATH"] = f"{SCRIPT.parent}:{environment['PATH']}"
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd, env=environment)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def libraries_of(program: pathlib.Path, folder: pathlib.Path) -> list[pathlib.Path]:
    """The shared libraries and the loader of a program."""
    return [pathlib.Path(path) for path in re.findall(r"(/\S+) \(0x", run("ldd", program, cwd=folder))]


def route(scores: Any) -> tuple[Any, Any]:
    """As the router of examples/engine/main.cpp."""
    ids = np.argsort(-scores, axis=1, kind="stable")[:, :TOP_K].astype(np.int32)
    shares = np.arange(TOP_K, 0, -1, dtype=np.float32) / np.float32(TOP_K * (TOP_K + 1) / 2)
    return ids, np.tile(shares, (len(scores), 1))


def steps() -> list[str]:
    """The lines of the Dockerfile."""
    page = (SOURCE / "docs" / "how-to" / "cpp-engine.md").read_text()
    (text,) = re.findall(r"^```dockerfile save=Dockerfile\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return str(text).splitlines()


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of the Dockerfile's WORKDIR, whose steps but those of apt-get and pip have run."""
    folder: pathlib.Path = tmp_path_factory.mktemp("task")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    shutil.copy(SOURCE / "examples" / "engine" / "main.cpp", folder)
    assert f"COPY {WHEEL.name} config.json main.cpp ./" in steps()
    commands = [
        line.removeprefix("RUN ") for line in steps() if line.startswith("RUN ") and not re.match("RUN (apt-get|pip) ", line)
    ]
    assert len(commands) == 3
    for each in commands:
        run("bash", "-c", each, cwd=folder)
    return folder


def copy_image(task: pathlib.Path, root: pathlib.Path) -> None:
    """The last stage of the Dockerfile: its copies, and of the base image the libraries that the engine needs."""
    (built,) = [line.removeprefix("WORKDIR ") for line in steps() if line.startswith("WORKDIR ")]
    for line in steps():
        if line.startswith("COPY --from=build "):
            *sources, target = line.split()[2:]
            for source in sources:
                path = task / pathlib.Path(source).relative_to(built)
                to = root / target.lstrip("/")
                if path.is_dir():
                    shutil.copytree(path, to)
                else:
                    to.mkdir(parents=True, exist_ok=True)
                    shutil.copy(path, to)
    for library in libraries_of(task / "engine", task):
        if not library.is_relative_to(task):
            (root / library.parent.relative_to("/")).mkdir(parents=True, exist_ok=True)
            shutil.copy(library, root / library.relative_to("/"))


def test_the_gate_of_an_image(task: pathlib.Path) -> None:
    said = json.loads(run(SCRIPT, "run", "r3", "--prebuild", "--strict", "--json", cwd=task))
    assert {kernel["source"] for kernel in said["load"]["kernels"]} == {"package"}
    checked = run(SCRIPT, "check", "r3", "--device=host", "--tokens=1,4", cwd=task)
    assert checked.count("passed: ") == 2


def test_the_client_in_a_bare_root(task: pathlib.Path) -> None:
    package = moec.load(task / "r3", device="host")
    weights = {
        value.name: random_value(package, value.name, TOKENS)
        for value in package.values.values()
        if value.role == "stored_weight" and value.name != "routing_bias"
    }
    x = random_value(package, "x", TOKENS)
    scores = np.random.default_rng(7).standard_normal((TOKENS, EXPERTS)).astype(np.float32)
    root = task / "root"
    data = root / "data"
    data.mkdir(parents=True)
    for name, array in (weights | {"x": x, "scores": scores}).items():
        array.tofile(data / f"{name}.bin")
    copy_image(task, root)
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file() and path.parent != data)
    assert size < 25e6
    chroot = shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin") or "chroot"
    enter = [chroot] if os.geteuid() == 0 else ["/usr/bin/unshare", "--map-root-user", chroot]
    (entry,) = [json.loads(line.removeprefix("ENTRYPOINT ")) for line in steps() if line.startswith("ENTRYPOINT ")]
    words = [*enter, str(root), *entry, "/data", str(TOKENS)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={"MOEC_CACHE_DIR": "/none"})
    if done.returncode and ("Operation not permitted" in done.stderr or "unshare" in done.stderr):
        pytest.skip(f"no other root may be entered here: {done.stderr}")
    assert done.returncode == 0, done.stderr

    got = np.fromfile(data / "out.bin", dtype=np.uint16).reshape(TOKENS, -1)
    ids, shares = route(scores)
    layer = package.layer(weights)
    np.testing.assert_array_equal(got, layer(x, given_ids=ids, given_weights=shares))

    held = EXPERTS // RANKS
    local = ids - RANK * held
    is_here = (local >= 0) & (local < held)
    assert is_here.any()
    w13, w2, rounded = SCHEMES["fp8_block"][0](weights)
    wanted = moe(
        moec.from_bfloat16(x).astype(np.float64),
        ids=np.where(is_here, local, 0),
        weights=np.where(is_here, shares, 0),
        w13=w13,
        w2=w2,
        rounded=rounded,
    )
    assert error(moec.from_bfloat16(got), wanted) < 0.006

    again = layer.unpack()
    assert set(again) == set(weights)
    for name, array in weights.items():
        np.testing.assert_array_equal(again[name], array)
    with pytest.raises(moec.InvalidArgument, match="created without weight 'routing_bias'"):
        layer.unpack({"routing_bias": np.zeros(EXPERTS, dtype=np.float32)})
    with pytest.raises(moec.InvalidArgument, match="created without weight 'routing_bias'.*expected given_ids and given_weights"):
        layer(x, scores)
