# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs moec's commands in separate processes, so that a kernel that hangs or fails ends only its own process."""

import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

# Removes the current folder from the module path, because it may contain a module named moec.
CODE = 'import sys; sys.path[:1] == [""] and sys.path.pop(0); from moec.cli import main; sys.exit(main(sys.argv[1:]))'
# Time limits in seconds for a command that compiles and for one that runs.
COMPILE_LIMIT_S, RUN_LIMIT_S = 300.0, 300.0
# Environment variables with which a user chooses kernels. Commands run without them.
CHOICES = ("MOEC_BACKEND", "MOEC_ENGINE", "MOEC_EXCLUDE")


class Refused(Exception):
    """Raised if a command fails. The text is the reason."""


class Programs:
    """The commands for one device. arch: the arch that packages are compiled for."""

    def __init__(self, device: str, arch: str, folder: pathlib.Path) -> None:
        self.device, self.folder = device, folder
        self.environment = {name: value for name, value in os.environ.items() if name not in CHOICES}
        self.environment |= {"MOEC_CACHE_DIR": str(folder / "cache"), "MOEC_TUNED_STORE": "off"}
        self.arch = arch or ("native" if device == "cuda" else "sm_90a")
        known = [row["name"] for row in self.table("archs")]
        if self.arch not in (*known, "native"):
            raise Refused(f"--arch: expected one of {', '.join(known)}, got '{arch}'")
        facts = self.doctor()
        self.version = str(facts["moec"]).removeprefix("moec ")
        if self.arch == "native":
            archs = [each["facts"].get("arch") for each in facts["findings"] if each["name"] == "gpu"]
            self.arch = (archs and archs[0]) or "native"

    def output(self, words: Sequence[str], limit_s: float) -> tuple[int, str, str]:
        """Runs a command of moec. Returns (exit status, output, errors)."""
        try:
            done = subprocess.run(
                [sys.executable, "-c", CODE, *words],
                capture_output=True,
                text=True,
                errors="replace",
                env=self.environment,
                stdin=subprocess.DEVNULL,
                timeout=max(limit_s, 1),
                check=False,
            )
        except subprocess.TimeoutExpired as expired:
            raise Refused(f"moec {words[0]}: no end after {expired.timeout:.0f} s") from expired
        if done.returncode < 0 or done.returncode > 128:
            number = -done.returncode if done.returncode < 0 else done.returncode - 128
            raise Refused(f"moec {words[0]}: ended by {signal.Signals(number).name}; {done.stderr.strip()[-300:]}")
        return done.returncode, done.stdout, done.stderr

    def json_of(self, *words: str) -> Any:
        status, output, errors = self.output([*words, "--json"], COMPILE_LIMIT_S)
        try:
            return json.loads(output)
        except ValueError:
            raise Refused(errors.strip() or f"moec {words[0]}: exit status {status}") from None

    def doctor(self) -> Any:
        return self.json_of("doctor")

    def table(self, name: str) -> Any:
        """Returns a table of the catalog."""
        return self.json_of("list", name)

    def written(self, layer: dict[str, Any]) -> str:
        path = self.folder / f"{layer['name']}-{layer['quant_config']}.json"
        path.write_text(json.dumps(layer))
        return str(path)

    def compile(self, layer: dict[str, Any], max_tokens: int, package: pathlib.Path) -> None:
        """Compiles a package without cubins; its kernels are compiled when it is loaded."""
        words = [f"--arch={self.arch}", f"--max-tokens={max_tokens}", "--no-cubin", "-o", str(package)]
        status, _, errors = self.output(["compile", self.written(layer), *words], COMPILE_LIMIT_S)
        if status:
            raise Refused(errors.strip())

    def explain(self, layer: dict[str, Any], tokens: Sequence[int]) -> dict[str, Any]:
        """Returns the only target of the report of `moec explain`."""
        words = [f"--arch={self.arch}", f"--max-tokens={max(tokens)}", f"--tokens={','.join(map(str, tokens))}"]
        targets: list[dict[str, Any]] = self.json_of("explain", self.written(layer), *words)["targets"]
        return targets[0]

    def words_of_device(self) -> list[str]:
        return [f"--device={self.device}", *([f"--arch={self.arch}"] if self.device == "emulated" else [])]

    def run(self, package: pathlib.Path, left_s: float, *words: str) -> dict[str, Any]:
        """Returns the report of `moec run`, in which single runs may have failed."""
        status, output, errors = self.output(
            ["run", str(package), *self.words_of_device(), "--json", *words], min(RUN_LIMIT_S, max(left_s, 10))
        )
        if reports := [line for line in errors.splitlines() if line.startswith("emulator:")]:
            raise Refused(reports[0])
        try:
            report: dict[str, Any] = json.loads(output)
        except ValueError:
            raise Refused(errors.strip() or f"moec run: exit status {status}") from None
        if report.get("error") or not report["runs"]:
            raise Refused(report.get("error") or "nothing ran")
        return report
