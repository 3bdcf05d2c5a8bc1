# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A layer on an emulated GPU: arrays of numpy, results of the host device, reports as errors."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from conftest import EMULATED, OTHER_ENGINE, SMALL, run_on_gpu

CODE = """
import sys
import numpy as np
import moec

layer = {layer!r}
files = moec.compile(layer, arch={arch!r}, max_tokens=8, cubin=False, progress=False)
random = np.random.default_rng(3)
x = moec.to_bfloat16(random.standard_normal((5, 128), np.float32))
logits = random.standard_normal((5, 8), np.float32)
outs = []
for device in ("host", "emulated"):
    package = moec.load(files, device=device, arch={arch!r}, progress=False)
    weights = {{}}
    for name in ("w13", "w2"):
        drawn = np.random.default_rng(len(name)).standard_normal(package.shape(name), np.float32) * 0.1
        weights[name] = moec.to_bfloat16(drawn)
    made = package.layer(weights, progress=False)
    out = package.empty("out", 5)
    assert made(x, logits, out=out) is out
    outs.append(moec.from_bfloat16(made(x, logits)))
    assert np.array_equal(outs[-1], moec.from_bfloat16(out))
    print(package.device, package.arch, made)
worst = np.abs(outs[0] - outs[1]).max() / np.abs(outs[0]).max()
assert worst < 0.02, worst
assert np.abs(outs[0]).max() > 0.01
{more}
"""


def run(tmp_path: pathlib.Path, arch: str, *, more: str = "", emulator: str = "") -> "subprocess.CompletedProcess[str]":
    nvrtc = os.environ.get("MOEC_TEST_NVRTC")
    if not nvrtc:
        pytest.skip("MOEC_TEST_NVRTC names no NVRTC")
    environment = {
        **os.environ,
        "MOEC_NVRTC_PATH": nvrtc,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "MOEC_CACHE_DIR": str(tmp_path),
        "MOEC_EMULATOR": emulator,
    }
    code = CODE.format(layer=SMALL, arch=arch, more=more)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment, timeout=250)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_it_gives_what_the_host_gives(arch: str, tmp_path: pathlib.Path) -> None:
    ran = run(tmp_path, arch, emulator="timing=random seed=2")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"emulated {arch} <moec.Layer small for {arch} on emulated>" in ran.stdout
    assert "emulator:" not in ran.stderr


def test_wrong_settings(tmp_path: pathlib.Path) -> None:
    ran = run(tmp_path, "sm_80", emulator="timing=never")
    assert ran.returncode == 1
    assert "MOEC_EMULATOR has 'timing=never', which is no value of timing" in ran.stderr


CHOSEN = """
import json
import moec
from moec import _gpu

layer = {layer!r}
made = {{"archs": [_gpu.arch_of(*capability) for _, capability in _gpu.devices()], "served": {{}}, "never_run": {{}}}}
for scheme in ("nvfp4", "mxfp4", "mxfp8", "mxfp4_mxfp8", "nvfp4_w4a16"):
    source = {{**layer, "quant_config": scheme}}
    found = moec.supports(source, max_tokens=64, allow=[])
    made["served"][scheme], made["never_run"][scheme] = list(found.realization), list(found.never_run)
    (row,) = moec.explain(source, max_tokens=64).data["targets"]
    engines = {{engine for each in row["summary"]["ranges"] for engine in each["engines"]}}
    made[scheme] = [*map(row.get, ("arch", "engine", "realization")), sorted(engines), row["evidence"], row["ran_on_gpu"]]
print(json.dumps(made))
"""
COMPILED = "never run on this GPU: its kernels were only compiled"


@pytest.mark.parametrize(
    ("arch", "engine", "never_run"),
    [
        ("sm_120a", "mma_sync_scaled", EMULATED),
        ("sm_121a", "mma_sync_scaled", EMULATED),
        ("sm_100a", "tcgen05", EMULATED),
        ("sm_89", "", EMULATED),
        ("sm_80", "", EMULATED),
        ("sm_86", "", COMPILED),
        ("sm_90a", "", ""),
    ],
)
def test_what_a_gpu_is_given(arch: str, engine: str, never_run: str, tmp_path: pathlib.Path) -> None:
    """The question that plug-ins of engines ask, without an arch: the driver's GPU decides."""
    made = json.loads(run_on_gpu(CHOSEN.format(layer={**SMALL, "hidden_size": 256, "intermediate_size": 128}), arch, tmp_path))
    assert made["archs"] == [arch]
    if engine:
        never_run += f". {OTHER_ENGINE.format(engine)}"
    for scheme in ("nvfp4", "mxfp4", "mxfp8", "mxfp4_mxfp8"):
        realization = "native" if engine else "emulated"
        assert made["served"][scheme] == [realization], scheme
        assert made[scheme][2] == realization
        if engine:
            assert made[scheme][:2] == [arch, engine]
            assert made[scheme][3] == [engine]
        assert made["never_run"][scheme] == [never_run]
        assert made[scheme][4:] == [never_run or "its kernels ran on H100 and H200", not never_run]
    assert made["served"]["nvfp4_w4a16"] == ["dequantized"]
