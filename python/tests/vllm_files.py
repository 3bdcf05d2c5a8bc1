# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's Python files without its compiled extensions and its server: enough for its MoE layers.

    python vllm_files.py FOLDER [VERSION]

downloads the wheel with pip, unpacks the Python files of vLLM and of the packages that its layers need, and drops the rest.
MOEC_TEST_VLLM=FOLDER then lets test_vllm*.py and vllm_gpu.py find them. Without the variable they use an installed vLLM.
"""

import importlib
import os
import sys
from typing import Any

import engine_files

VERSION = "0.33.0"
# The layers really use these, beside torch and transformers. pip takes them for the Python that runs this file.
NEEDED = ("cachetools", "cloudpickle", "einops", "loguru", "msgspec", "psutil", "pydantic")
# Without what they depend on, which is torch.
NEEDED_ALONE = ("compressed-tensors==0.17.0",)
# The server's packages and the compiled extensions. Layers import them and use nothing of them.
ABSENT = (
    "aiohttp",
    "blake3",
    "cbor2",
    "fastapi",
    "openai",
    "openai_harmony",
    "opentelemetry",
    "PIL",
    "prometheus_client",
    "pybase64",
    "cpuinfo",
    "requests",
    "starlette",
    "tvm_ffi",
    "uvloop",
    "vllm._C",
    "vllm._C_stable_libtorch",
    "vllm._moe_C",
    "vllm._moe_C_stable_libtorch",
    "vllm._rocm_C",
    "vllm.vllm_flash_attn._vllm_fa2_C",
    "vllm.vllm_flash_attn._vllm_fa3_C",
    "urllib3",
    "partial_json_parser",
    "llguidance",
    "xgrammar",
    "zmq",
)


def prepare(device: str = "cpu") -> str:
    """Makes `import vllm` find vLLM. Returns "" or why it is not there."""
    if device == "cpu":
        os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
    missing = engine_files.prepare("vllm", "MOEC_TEST_VLLM", ABSENT)
    if not missing:
        _answer_no()
    return missing


def _answer_no() -> None:
    """vLLM asks its extension, while it is imported, what its kernels support. Nothing, where there is none."""
    ops: Any = importlib.import_module("vllm._custom_ops")
    if (
        isinstance(sys.modules.get("vllm._C_stable_libtorch"), engine_files.Module)
        or "vllm._C_stable_libtorch" not in sys.modules
    ):
        for name in dir(ops):
            if name.startswith("cutlass_") and "support" in name:
                setattr(ops, name, lambda *arguments, **options: False)


if __name__ == "__main__":
    engine_files.main("vllm_files.py", "vllm", VERSION, NEEDED, NEEDED_ALONE)
