# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A GPU that is not there: a library in the driver's place loads packages and launches nothing."""

import pathlib
from typing import Any

import pytest
from conftest import BUILD, SMALL, run_python

DRIVER = BUILD / "lib" / "libmoec-fake-cuda.so"
TINY = {**SMALL, "hidden_size": 64}
ON_GPU = """
import ctypes, numpy, moec
from moec import _dlpack

class OnGpu:
    def __init__(self, shape, dtype, gpu=0):
        self.array, self.gpu = numpy.zeros(shape, dtype), gpu
    def __dlpack_device__(self):
        return (_dlpack.CUDA, self.gpu)
    def __dlpack__(self, stream=None, **options):
        assert stream is not None
        capsule = self.array.__dlpack__(**options)
        tensor = _dlpack.tensor_of(capsule)[0]
        tensor.device.kind, tensor.device.index = _dlpack.CUDA, self.gpu
        return capsule
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One process does all: it compiles the kernels."""
    folder: pathlib.Path = tmp_path_factory.mktemp("cache")
    done = run_python(
        ON_GPU
        + f"""
from moec import _gpu
print("gpus", _gpu.devices())
files = moec.compile({TINY!r}, max_tokens=4)
print("files", files)
package = moec.load(files)
print("package", package)
print("device", package.device_name, package.load_report["kernels"][0]["source"])
print("second", moec.load(files, device="cuda:0", strict=True).device)

def refuse(what, call):
    try:
        call()
        print(what, "nothing")
    except (moec.MoecError, TypeError) as error:
        print(what, type(error).__name__, error)

w13, w2 = numpy.zeros((8, 192, 64), numpy.uint16), numpy.zeros((8, 64, 96), numpy.uint16)
packed = OnGpu(w13.shape, "u2")
refuse("absent", lambda: moec.load(files, device="cuda:7"))
refuse("memory", lambda: package.layer({{"w13": w13, "w2": w2}}))
refuse("host", lambda: package.layer({{"w13": w13, "w2": w2, "w13_packed": packed}}))
one = moec.load(files, device="cuda:0")
refuse("other", lambda: one.layer({{"w13": OnGpu(w13.shape, "u2", gpu=3), "w2": w2, "w13_packed": packed}}))
refuse("stream", lambda: package.layer({{}}, stream="a"))
refuse("workspace", lambda: package.context(4))
""",
        MOEC_CUDA_DRIVER_PATH=str(DRIVER),
        MOEC_CACHE_DIR=str(folder),
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_the_gpu_is_found(said: dict[str, Any]) -> None:
    assert "(9, 0)" in said["gpus"]
    assert said["files"] == "<moec.Files for sm_90a>"


def test_a_package_is_loaded(said: dict[str, Any]) -> None:
    assert said["package"] == "<moec.Package small for sm_90a on cuda, at most 4 tokens>"
    assert said["device"].endswith(" compiled")
    assert said["second"] == "cuda:0"
    assert "cuda:7" in said["absent"] or "7" in said["absent"]


def test_memory_of_another_place(said: dict[str, Any]) -> None:
    assert said["memory"] == (
        "InvalidArgument value 'w13_packed': moec allocates GPU memory by torch, which is not imported; give an array for it"
    )
    assert said["host"] == "InvalidArgument value 'w13': expected memory of cuda, where package small runs; got host memory"
    assert (
        said["other"] == "InvalidArgument value 'w13': expected memory of cuda:0, where package small runs; got memory of GPU 3"
    )
    assert "stream: expected an integer, a torch.cuda.Stream or what has __cuda_stream__; got str" in said["stream"]
    assert "value 'workspace': moec allocates GPU memory by torch" in said["workspace"]


def test_the_gpu_that_is_here_is_what_is_compiled_for() -> None:
    done = run_python(
        f"""
import moec
layer = {TINY!r}
for archs in ("Native", ["sm_80", "native"], "sm_90a", "sm_80", ["h100", "sm_80"]):
    print([(its["arch"], its["gpu"]) for its in moec.explain(layer, arch=archs).targets])
""",
        MOEC_CUDA_DRIVER_PATH=str(DRIVER),
        FAKE_GPU_NAME="NVIDIA H200",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[('sm_90a', 'h200_sxm')]",
        "[('sm_80', 'a100_sxm'), ('sm_90a', 'h200_sxm')]",
        "[('sm_90a', 'h200_sxm')]",
        # It runs no code of sm_80.
        "[('sm_80', 'a100_sxm')]",
        "[('sm_90a', 'h100_sxm'), ('sm_80', 'a100_sxm')]",
    ]
