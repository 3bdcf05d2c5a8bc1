#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bench/peers/vllm_files.py: what of a wheel is kept, and pruned fat binaries. Needs no vLLM."""

import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH / "peers"))
import vllm_files  # noqa: E402


def entry(kind, arch, data):
    return struct.pack("<HHIQ12xI32x", kind, 0x101, 64, len(data), arch) + data


def container(*entries):
    whole = b"".join(entries)
    return b"front" + struct.pack("<IHHQ", vllm_files.FATBIN, 1, 16, len(whole)) + whole + b"back"


class FilesTest(unittest.TestCase):
    def test_what_is_kept(self):
        configs = vllm_files.TUNED
        for name, size, kept in (("vllm/envs.py", 9, True), (configs + "E=8,N=2048,device_name=NVIDIA_H200,dtype=fp8_w8a8.json", 9, True),
                                 (configs + "E=8,N=2048,device_name=NVIDIA_B200.json", 9, False),
                                 ("vllm/third_party/deep_gemm/_C_extension.abi3.so", 9, True), ("vllm/_flashmla_C.abi3.so", 9, False),
                                 ("vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so", 9, False), ("vllm/small.json", 9, True),
                                 ("vllm/large.json", 10**6, False), (vllm_files.EXTENSIONS[0], 9, True)):
            self.assertEqual(bool(vllm_files.kept(name, size, "H200")), kept, name)

    def test_code_of_other_architectures_becomes_zeros(self):
        data = container(entry(2, 80, b"old!"), entry(2, 90, b"mine"), entry(1, 90, b"text"))
        got = vllm_files.pruned(data, 90)
        self.assertEqual(len(got), len(data))
        self.assertEqual([word in got for word in (b"old!", b"mine", b"text", b"front", b"back")], [False, True, False, True, True])

    def test_the_newest_ptx_stays_without_a_cubin(self):
        got = vllm_files.pruned(container(entry(2, 120, b"new!"), entry(1, 75, b"old!"), entry(1, 80, b"text"), entry(1, 100, b"late")), 90)
        self.assertEqual([word in got for word in (b"new!", b"old!", b"text", b"late")], [False, False, True, False])

    def test_unpack(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            with zipfile.ZipFile(root / "vllm-0.33.0-any.whl", "w") as wheel:
                wheel.writestr("vllm/__init__.py", "")
                wheel.writestr("vllm/vllm-rs", "")
                wheel.writestr(vllm_files.EXTENSIONS[0], container(entry(2, 80, b"old!"), entry(2, 90, b"mine")))
            with zipfile.ZipFile(root / "other-1-any.whl", "w") as wheel:
                wheel.writestr("other/large.so", "x")
            done = subprocess.run([sys.executable, BENCH / "peers/vllm_files.py", *sorted(root.glob("*.whl")), root / "tree"], check=False)
            self.assertEqual(done.returncode, 0)
            made = sorted(str(path.relative_to(root / "tree")) for path in (root / "tree").rglob("*") if path.is_file())
            self.assertEqual(made, ["other/large.so", "vllm/_C_stable_libtorch.abi3.so", "vllm/__init__.py", vllm_files.ATTENTION])
            self.assertNotIn(b"old!", (root / "tree" / vllm_files.EXTENSIONS[0]).read_bytes())

    def test_not_a_wheel(self):
        done = subprocess.run([sys.executable, BENCH / "peers/vllm_files.py", __file__, "tree"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"expected wheels, got {__file__}", done.stderr)


if __name__ == "__main__":
    unittest.main()
