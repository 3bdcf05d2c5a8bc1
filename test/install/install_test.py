#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Installs --build into a folder, moves the folder, and uses it as another project does: by find_package, by pkg-config, and by
starting the programs."""

import argparse
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

CONSUMER = pathlib.Path(__file__).resolve().parent / "consumer"
VERSION = 100  # 0.1.0
CMAKE_TARGETS = {"moec": "moec::moec", "moec-runtime": "moec::runtime"}
SMALL = {"moec_layer": 1, "name": "small", "num_experts": 16, "top_k": 4, "hidden_size": 256, "intermediate_size": 96,
         "in_dtype": "bf16", "routing_method": "renormalize", "activation": "silu", "quant_config": "bf16"}
PROGRAMS = {"moec": ["moec", "moec-opt"], "moec-runtime": ["moec-run"]}


def output_of(*command, **environment):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="moec-install-"))
        output_of("cmake", "--install", options.build, "--prefix", cls.work / "first")
        cls.prefix = cls.work / "moved"
        (cls.work / "first").rename(cls.prefix)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.work)

    def check_consumer(self, program, **environment):
        version, error = output_of(program, **environment).splitlines()
        self.assertEqual(int(version), VERSION)
        self.assertIn("no-such-package", error)

    def test_find_package(self):
        for library in options.libraries:
            build = self.work / f"cmake-{library}"
            output_of("cmake", "-S", CONSUMER, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
                      f"-DLIBRARY={CMAKE_TARGETS[library]}")
            output_of("cmake", "--build", build)
            self.check_consumer(build / "consumer")

    def test_a_newer_version_is_not_found(self):
        for version, found in (("0.1", True), ("0.2", False), ("1.0", False)):
            project = self.work / f"version-{version}"
            shutil.copytree(CONSUMER, project)
            text = (project / "CMakeLists.txt").read_text(encoding="utf-8")
            (project / "CMakeLists.txt").write_text(text.replace("moec 0.1", f"moec {version}"), encoding="utf-8")
            done = subprocess.run(["cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}",
                                   "-DLIBRARY=moec::runtime"], capture_output=True, text=True)
            self.assertEqual(done.returncode == 0, found, done.stderr)

    def install_part(self, component):
        prefix = self.work / component
        output_of("cmake", "--install", options.build, "--prefix", prefix, "--component", component)
        return prefix, {str(path.relative_to(prefix)) for path in prefix.rglob("*") if not path.is_dir()}

    def configure(self, prefix, library, packages):
        """The complaint of CMake about a project that asks for `packages`, or ""."""
        project = self.work / f"parts-{'-'.join(packages.split())}-{prefix.name}"
        shutil.copytree(CONSUMER, project)
        text = (project / "CMakeLists.txt").read_text(encoding="utf-8")
        (project / "CMakeLists.txt").write_text(text.replace("moec 0.1 REQUIRED", f"moec 0.1 {packages}"), encoding="utf-8")
        done = subprocess.run(["cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={prefix}",
                               f"-DLIBRARY={library}"], capture_output=True, text=True)
        return "" if done.returncode == 0 else done.stderr

    def test_the_runtime_alone(self):
        prefix, files = self.install_part("runtime")
        self.assertFalse([file for file in files if "libmoec.so" in file or file in ("bin/moec", "bin/moec-opt")])
        self.assertNotIn("include/moec/compiler.h", files)
        for name in ("bin/moec-run", "libexec/moec/moec-nvrtc", "libexec/moec/moec-measure", "include/moec/moec.h", "include/moec/moec.hpp"):
            self.assertIn(name, files)
        self.assertEqual(self.configure(prefix, "moec::runtime", "REQUIRED"), "")
        self.assertEqual(self.configure(prefix, "moec::runtime", "REQUIRED COMPONENTS runtime OPTIONAL_COMPONENTS compiler"), "")
        said = " ".join(self.configure(prefix, "moec::runtime", "REQUIRED COMPONENTS compiler").split())
        self.assertIn("moec is installed without its component 'compiler'", said)
        said = " ".join(self.configure(prefix, "moec::runtime", "REQUIRED COMPONENTS python").split())
        self.assertIn("known components are runtime and compiler", said)

    def test_the_compiler_and_python(self):
        if "moec" not in options.libraries:
            self.skipTest("the compiler is not built")
        self.assertEqual(self.configure(self.prefix, "moec::moec", "REQUIRED COMPONENTS runtime compiler"), "")
        _, files = self.install_part("compiler")
        self.assertTrue({"bin/moec", "bin/moec-opt", "include/moec/compiler.h", "include/moec/compiler.hpp"} <= files)
        self.assertFalse([file for file in files if "runtime" in file])
        prefix, files = self.install_part("python")
        headers = {f"moec/include/moec/{name}" for name in ("compiler.h", "compiler.hpp", "moec.h", "moec.hpp")}
        programs = {f"moec/{name}" for name in ("moec-measure", "moec-nvrtc", "moec-opt", "moec-run")}
        self.assertEqual(files, {"moec/libmoec.so", "moec/libmoec-emulator.so", *headers, *programs})
        self.assertFalse((prefix / "moec" / "libmoec.so").is_symlink())
        self.assertEqual(ctypes.CDLL(str(prefix / "moec" / "libmoec.so")).moec_version(), VERSION)
        # A wheel takes it by its component alone.
        self.assertFalse((self.prefix / "moec").exists())

    def test_pkg_config(self):
        if not shutil.which("pkg-config"):
            self.skipTest("pkg-config is not installed (Debian: pkg-config)")
        folder = next(self.prefix.glob("**/pkgconfig"))
        for library in options.libraries:
            flags = output_of("pkg-config", "--cflags", "--libs", library, PKG_CONFIG_PATH=str(folder)).split()
            program = self.work / f"pkg-config-{library}"
            output_of("cc", CONSUMER / "consumer.c", *flags, "-o", program)
            self.check_consumer(program, LD_LIBRARY_PATH=str(folder.parent))

    def test_soname(self):
        for library in options.libraries:
            file = next(self.prefix.glob(f"**/lib{library}.so"))
            soname = re.search(r"SONAME\).*\[(.*)\]", output_of("readelf", "--dynamic", file)).group(1)
            self.assertEqual(soname, f"lib{library}.so.0.1")
            self.assertTrue((file.parent / soname).exists())

    def test_programs(self):
        for library in options.libraries:
            for program in PROGRAMS[library]:
                self.assertIn("--help", output_of(self.prefix / "bin" / program, "--help"))

    def test_workers(self):
        """moec-run finds moec-nvrtc in the tree that was moved."""
        package = self.work / "small.moec"
        program = options.build / "bin" / "moec"
        if "moec" not in options.libraries:
            self.skipTest("the compiler is not built")
        layer = self.work / "small.json"
        layer.write_text(json.dumps(SMALL), encoding="utf-8")
        output_of(program, "compile", layer, "--arch=sm_90a", "--no-cubin", "-o", package)
        nvrtc = (options.build / "bin" / "nvrtc-path").read_text(encoding="utf-8").strip()
        if not nvrtc:
            self.skipTest("the build has no NVRTC")
        report = json.loads(output_of(self.prefix / "bin" / "moec-run", package, "--prebuild", "--json", MOEC_JOBS="3",
                                      MOEC_NVRTC_PATH=nvrtc, MOEC_CACHE_DIR=str(self.work / "cache")))
        self.assertEqual(report["load"]["workers"], 3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder of a finished build")
    parser.add_argument("--libraries", required=True, help="comma-separated: moec-runtime, moec")
    options, rest = parser.parse_known_args()
    options.libraries = options.libraries.split(",")
    unittest.main(argv=[sys.argv[0], *rest])
