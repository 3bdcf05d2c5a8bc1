#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bootstrap names the systems that it knows, and what to do on another one. It runs in a copy, whose build folder it may write."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Bootstrap(unittest.TestCase):
    def run_on(self, os_release, *words):
        with tempfile.TemporaryDirectory(prefix="moec-bootstrap-") as folder:
            shutil.copy(ROOT / "bootstrap", folder)
            system = pathlib.Path(folder, "os-release")
            if os_release is not None:
                system.write_text(os_release)
            # A dpkg-query that knows no package, and a system where nobody may install any.
            tools = pathlib.Path(folder, "bin")
            tools.mkdir()
            for name, text in (("dpkg-query", "exit 1"), ("apt-get", "exit 0"), ("apt-cache", "exit 1"), ("sudo", "exit 0")):
                (tools / name).write_text(f"#!/bin/sh\n{text}\n")
                (tools / name).chmod(0o755)
            environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "MOEC_BOOTSTRAP_OS_RELEASE": str(system)}
            done = subprocess.run([f"{folder}/bootstrap", *words], capture_output=True, text=True, env=environment, timeout=60)
            return done.returncode, done.stdout + done.stderr

    def test_other_systems(self):
        for os_release, name in (("ID=fedora\nVERSION_ID=42\n", "fedora 42"), ("ID=debian\nVERSION_ID=11\n", "debian 11"),
                                 ("ID=arch\n", "arch "), (None, "unknown")):
            status, said = self.run_on(os_release, "deps")
            self.assertEqual(status, 1, said)
            self.assertIn(f"this system is '{name}': expected Debian 12, Debian 13 or Ubuntu 24.04", said)
            self.assertIn("debian:12 ./bootstrap build", said)
            self.assertIn("libmlir-22-dev", said)

    def test_packages_that_a_known_system_lacks(self):
        for os_release, told in (("ID=debian\nVERSION_ID=12\n", "bookworm-security"),
                                 ("ID=debian\nVERSION_ID=13\n", "https://apt.llvm.org/trixie/ llvm-toolchain-trixie-22 main"),
                                 ("ID=ubuntu\nVERSION_ID=24.04\n", "https://apt.llvm.org/noble/ llvm-toolchain-noble-22 main")):
            status, said = self.run_on(os_release, "deps")
            self.assertEqual(status, 1, said)
            self.assertIn("this system's package sources do not have: ", said)
            self.assertIn(told, said)

    def test_words(self):
        status, said = self.run_on("ID=debian\nVERSION_ID=12\n", "relase")
        self.assertEqual(status, 2)
        self.assertIn("unknown command 'relase'", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
