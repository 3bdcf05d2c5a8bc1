#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bench/peers/peer_files.py: what of a wheel is kept, and pruned fat binaries. Needs no other system."""

import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH / "peers"))
import peer_files  # noqa: E402


def entry(kind, arch, data):
    return struct.pack("<HHIQ12xI32x", kind, 0x101, 64, len(data), arch) + data


def container(*entries):
    whole = b"".join(entries)
    return b"front" + struct.pack("<IHHQ", peer_files.FATBIN, 1, 16, len(whole)) + whole + b"back"


class FilesTest(unittest.TestCase):
    def test_what_is_kept(self):
        configs = peer_files.VLLM.tuned
        for name, size, kept in (("vllm/envs.py", 9, True), (configs + "E=8,N=2048,device_name=NVIDIA_H200,dtype=fp8_w8a8.json", 9, True),
                                 (configs + "E=8,N=2048,device_name=NVIDIA_B200.json", 9, False),
                                 ("vllm/third_party/deep_gemm/_C_extension.abi3.so", 9, True), ("vllm/_flashmla_C.abi3.so", 9, False),
                                 ("vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so", 9, False), ("vllm/small.json", 9, True),
                                 ("vllm/large.json", 10**6, False), (peer_files.EXTENSIONS[0], 9, True)):
            self.assertEqual(bool(peer_files.kept(peer_files.VLLM, name, size, 90, "H200")), kept, name)

    def test_what_is_kept_of_sglang(self):
        configs = peer_files.SGLANG.tuned
        for name, kept in (("sglang/srt/environ.py", True), ("sglang/kernels/jit/csrc/elementwise/activation.cuh", True),
                           ("sglang/srt/server/_core.cpython-312-x86_64-linux-gnu.so", False), ("sglang/test/runners.py", False),
                           (configs + "triton_3_6_0/E=8,N=64,device_name=NVIDIA_H200.json", True),
                           (configs + "triton_3_6_0/E=8,N=64,device_name=NVIDIA_B200.json", False)):
            self.assertEqual(bool(peer_files.kept(peer_files.SGLANG, name, 9, 90, "H200")), kept, name)

    def test_the_extension_of_an_architecture(self):
        for arch, folder in ((90, "sm90"), (100, "sm100"), (120, "sm100")):
            names = [f"sgl_kernel/{each}/common_ops.abi3.so" for each in ("sm90", "sm100")] + ["sgl_kernel/flash_ops.abi3.so"]
            names += ["sgl_kernel/moe.py", "triton_kernels/matmul_ogs.py"]
            kept = [name for name in names if peer_files.kept(peer_files.SGLANG_KERNEL, name, 10**8, arch, "H200")]
            self.assertEqual(kept, [f"sgl_kernel/{folder}/common_ops.abi3.so", "sgl_kernel/moe.py", "triton_kernels/matmul_ogs.py"])

    def test_code_of_other_architectures_becomes_zeros(self):
        data = container(entry(2, 80, b"old!"), entry(2, 90, b"mine"), entry(1, 90, b"text"))
        got = peer_files.pruned(data, 90)
        self.assertEqual(len(got), len(data))
        self.assertEqual([word in got for word in (b"old!", b"mine", b"text", b"front", b"back")], [False, True, False, True, True])

    def test_the_newest_ptx_stays_without_a_cubin(self):
        got = peer_files.pruned(container(entry(2, 120, b"new!"), entry(1, 75, b"old!"), entry(1, 80, b"text"), entry(1, 100, b"late")), 90)
        self.assertEqual([word in got for word in (b"new!", b"old!", b"text", b"late")], [False, False, True, False])

    def test_unpack(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            with zipfile.ZipFile(root / "vllm-0.33.0-any.whl", "w") as wheel:
                wheel.writestr("vllm/__init__.py", "")
                wheel.writestr("vllm/vllm-rs", "")
                wheel.writestr(peer_files.EXTENSIONS[0], container(entry(2, 80, b"old!"), entry(2, 90, b"mine")))
            with zipfile.ZipFile(root / "other-1-any.whl", "w") as wheel:
                wheel.writestr("other/large.so", "x")
                program = zipfile.ZipInfo("other/compiler")
                program.external_attr = 0o755 << 16
                wheel.writestr(program, "x")
            done = subprocess.run([sys.executable, BENCH / "peers/peer_files.py", *sorted(root.glob("*.whl")), root / "tree"], check=False)
            self.assertEqual(done.returncode, 0)
            made = sorted(str(path.relative_to(root / "tree")) for path in (root / "tree").rglob("*") if path.is_file())
            self.assertEqual(made, ["other/compiler", "other/large.so", "vllm/_C_stable_libtorch.abi3.so", "vllm/__init__.py", peer_files.ATTENTION])
            self.assertEqual([os.access(root / "tree/other" / name, os.X_OK) for name in ("compiler", "large.so")], [True, False])
            self.assertNotIn(b"old!", (root / "tree" / peer_files.EXTENSIONS[0]).read_bytes())

    def test_stand_ins_of_sglang(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            with zipfile.ZipFile(root / "sglang-0.5.17-any.whl", "w") as wheel:
                wheel.writestr("sglang/srt/layers/quantization/__init__.py", "import flashinfer")
                wheel.writestr("sglang/srt/environ.py", "kept = 1")
            subprocess.run([sys.executable, BENCH / "peers/peer_files.py", root / "sglang-0.5.17-any.whl", root / "tree"], check=True)
            self.assertEqual((root / "tree/sglang/srt/environ.py").read_text(), "kept = 1")
            self.assertEqual((root / "tree/sglang/srt/layers/quantization/__init__.py").read_bytes(), peer_files.STAND_IN)

    def test_not_a_wheel(self):
        done = subprocess.run([sys.executable, BENCH / "peers/peer_files.py", __file__, "tree"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"expected wheels, got {__file__}", done.stderr)


if __name__ == "__main__":
    unittest.main()
