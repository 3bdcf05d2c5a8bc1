# Configuration of lit for every test folder.
#
# Tools      moec, moec-opt, moec-run, moec-check (of this build), FileCheck, not, split-file
# Features   compiler  the dialect and the compiler are built
#            gpu       a CUDA device answers
#            nvrtc     an NVRTC library is found, so kernels can be compiled
# %S, %s, %t as usual; %examples is the folder examples/, %python this Python.
#
# FileCheck always runs with --enable-var-scope and --dump-input-filter=error:
# a variable without a '$' ends at the next CHECK-LABEL.

import ctypes
import glob
import os
import sys

import lit.formats

config.name = "moec"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "mutants", "CMakeLists.txt"]
config.test_source_root = os.path.join(config.moec_source_root, "test")
# Tests write small files mostly: bootstrap gives a folder in memory.
config.test_exec_root = os.environ.get("MOEC_LIT_SCRATCH") or os.path.join(config.moec_binary_root, "test")

config.environment["PATH"] = os.pathsep.join(
    [
        os.path.join(config.moec_binary_root, "bin"),
        config.llvm_tools_dir,
        os.environ.get("PATH", ""),
    ]
)
config.environment["FILECHECK_OPTS"] = "--enable-var-scope --dump-input-filter=error"
# The user's own cache must neither help nor suffer.
config.environment["MOEC_CACHE_DIR"] = os.path.join(config.test_exec_root, "cache")
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LD_LIBRARY_PATH", "TMPDIR", "CUDA_VISIBLE_DEVICES"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

config.substitutions.append(("%examples", os.path.join(config.moec_source_root, "examples")))
config.substitutions.append(("%source", config.moec_source_root))
config.substitutions.append(("%python", sys.executable))
config.substitutions.append(("%measure", os.path.join(config.moec_binary_root, "libexec", "moec", "moec-measure")))


def find_nvrtc():
    """The NVRTC library to hand to the tests, or None: the environment's, the build's, a toolkit's."""
    for given in (os.environ.get("MOEC_NVRTC_PATH", ""), config.moec_nvrtc):
        if given and os.path.exists(given):
            return given
    for pattern in (
        "/usr/local/cuda/lib64/libnvrtc.so.1[0-9]",
        "/usr/local/cuda-*/lib64/libnvrtc.so.1[0-9]",
        "/usr/lib/x86_64-linux-gnu/libnvrtc.so.1[0-9]",
    ):
        found = sorted(glob.glob(pattern))
        if found:
            return found[-1]
    return None


def has_gpu():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        count = ctypes.c_int(0)
        return (
            driver.cuInit(0) == 0
            and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
            and count.value > 0
        )
    except (OSError, AttributeError):
        return False


if config.moec_has_compiler:
    config.available_features.add("compiler")
nvrtc = find_nvrtc()
if nvrtc:
    config.available_features.add("nvrtc")
    for given in (os.environ.get("MOEC_NVRTC_PATH", ""), config.moec_nvrtc):
        if given and os.path.exists(given):
            config.environment["MOEC_NVRTC_PATH"] = given
            break
if has_gpu():
    config.available_features.add("gpu")
