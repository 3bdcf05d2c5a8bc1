# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SGLang's Python files without its kernels and its server: enough for its MoE layers.

    python sglang_files.py FOLDER [VERSION]

downloads the wheel with pip, unpacks the Python files of SGLang and of the packages that its layers need, and drops the rest.
MOEC_TEST_SGLANG=FOLDER then lets test_sglang*.py and sglang_gpu.py find them. Without the variable they use an installed SGLang.
"""

import importlib.util
import pathlib
import sys
from typing import Any

import engine_files

VERSION = "0.5.23"
# The layers really use these, beside torch and transformers. pip takes them for the Python that runs this file.
NEEDED = ("einops", "msgspec", "orjson", "psutil", "pydantic")
# Without what they depend on, which is torch.
NEEDED_ALONE = ("compressed-tensors==0.18.0",)
# The server's packages and the compiled extensions. Layers import them and use nothing of them.
ABSENT = (
    "IPython",
    "PIL",
    "aiohttp",
    "dill",
    "gguf",
    "loguru",
    "openai",
    "partial_json_parser",
    "pybase64",
    "requests",
    "sgl_kernel",
    "starlette",
    "zmq",
)
# SGLang's kernels, and its readers of models' configurations, which need torchvision.
REPLACED = (
    "sglang.kernels.jit",
    "sglang.kernels.ops",
    "sglang.srt.hardware_backend.gpu.quantization.awq_kernels",
    "sglang.srt.utils.hf_transformers",
    "sglang.srt.utils.hf_transformers_utils",
)


def prepare() -> str:
    """Makes `import sglang` find SGLang. Returns "" or why it is not there."""
    missing = engine_files.prepare("sglang", "MOEC_TEST_SGLANG", ABSENT, REPLACED)
    name = "sglang.srt.configs"
    if not missing and name not in sys.modules:
        # The package's own file registers configurations of vision models, which need torchvision.
        found = importlib.util.find_spec("sglang.srt")
        assert found is not None
        made: Any = engine_files.Module(name)
        made.__path__ = [str(pathlib.Path(place) / "configs") for place in found.submodule_search_locations or []]
        sys.modules[name] = made
    return missing


if __name__ == "__main__":
    engine_files.main("sglang_files.py", "sglang", VERSION, NEEDED, NEEDED_ALONE)
