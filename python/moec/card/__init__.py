# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`moec doctor --gpu`: checks moec on the GPU of this machine, and writes a file that its owner can send.

Small layers of each scheme are compared with the reference. Layers whose floating-point sums are exact must produce outputs with
the SHA-256 hashes in outputs.txt. Five layers of models are timed, and compared with the time that moving their bytes takes.
"""

import dataclasses
import datetime
import json
import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from moec.card.layers import EXACT_TOKENS, TIMED, TIMED_TOKENS, TOKENS, exact_layer, small_layer
from moec.card.outputs import expected_outputs, output_of
from moec.card.programs import Programs, Refused

# The maximum size of the file in bytes.
MOST_BYTES = 100_000
# Characters of a message that are kept.
MOST_TEXT = 600
# Fraction of the time limit after which no further scheme starts, so that time remains for timing layers.
PART_OF_SCHEMES = 0.7
PASSED, FAILED, REFUSED, NOT_RUN = "passed", "failed", "refused", "not run"


@dataclasses.dataclass
class Check:
    """The check of one package. `error` is the largest error over the token counts."""

    kind: str
    name: str
    status: str
    text: str = ""
    realization: str = ""
    engine: str = ""
    tokens: Sequence[int] = ()
    error: float | None = None
    sha256: dict[str, str] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0


@dataclasses.dataclass
class Time:
    """The time of a model's layer. floor_us: the time to move the layer's bytes at the GPU's bandwidth; 0 if the bandwidth is
    unknown."""

    layer: str
    scheme: str
    tokens: int
    us: float
    floor_us: float
    predicted_us: float
    engine: str


@dataclasses.dataclass
class Result:
    """The result of check(). moec_card_check: the version of this format."""

    moec_card_check: int
    moec: str
    date: str
    device: str
    arch: str
    system: dict[str, Any]
    bandwidth: dict[str, Any]
    seconds: float
    summary: dict[str, int]
    checks: list[Check]
    times: list[Time]

    def is_right(self) -> bool:
        """Returns True if all checks ran and none failed."""
        return not self.summary[FAILED] and not self.summary[NOT_RUN] and self.summary[PASSED] > 0

    def to_json(self) -> str:
        """Returns the JSON text, with one line for each check and time. Messages of failures are truncated if the text is too
        long."""
        for most in (MOST_TEXT, 100, 0):
            parts = dataclasses.asdict(self)
            lists = {name: parts.pop(name) for name in ("checks", "times")}
            for check in lists["checks"]:
                check["text"] = check["text"][:most]
            text = json.dumps(parts, indent=1).removesuffix("\n}")
            for name, rows in lists.items():
                kept = [{key: value for key, value in row.items() if value not in ("", None, {}, ())} for row in rows]
                text += f',\n "{name}": [' + ",".join(f"\n  {json.dumps(row)}" for row in kept) + "\n ]"
            text += "\n}\n"
            if len(text) < MOST_BYTES:
                return text
        raise ValueError(f"the result has {len(text)} bytes, expected less than {MOST_BYTES}")

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.system.get('gpu') or self.device}, {self.arch}; moec {self.moec}; {self.seconds:.0f} s"
        for check in self.checks:
            if check.status in (FAILED, NOT_RUN):
                yield f"{check.status:8} {check.kind:11} {check.name}: {check.text}"
        for row in self.times:
            floor = f"{row.us / row.floor_us:.2f} x floor" if row.floor_us else "floor not known"
            yield f"{row.layer:20} {row.scheme:12} {row.tokens:5} tokens {row.us:9.1f} us, {floor}"
        yield ", ".join(f"{count} {status}" for status, count in self.summary.items())


def facts_of(programs: Programs) -> dict[str, Any]:
    """Returns versions and GPU properties, without names of folders, users and hosts."""
    findings = {each["name"]: each["facts"] for each in programs.doctor()["findings"]}
    gpu, system = findings.get("gpu", {}), findings.get("system", {})
    return {
        "gpu": gpu.get("name"),
        "sms": gpu.get("sms"),
        "memory": gpu.get("bytes"),
        "driver": findings.get("driver", {}).get("cuda"),
        "nvrtc": findings.get("nvrtc", {}).get("version"),
        **{name: system.get(name) for name in ("kernel", "machine", "glibc", "cores")},
    }


Run = Callable[[pathlib.Path, dict[str, Any], Check], None]


class Checker:
    """The checks of one device. limit_s: time limit for all checks together, in seconds."""

    def __init__(self, programs: Programs, folder: pathlib.Path, limit_s: float, say: Callable[[str], None]) -> None:
        self.programs, self.folder, self.limit_s, self.say = programs, folder, limit_s, say
        self.started = time.monotonic()
        self.checks: list[Check] = []
        self.times: list[Time] = []
        self.bandwidth: dict[str, Any] = {}

    def left_s(self, part: float = 1.0) -> float:
        return self.limit_s * part - (time.monotonic() - self.started)

    def end(self, check: Check, failure: Exception) -> None:
        """Records a failure. A check that the time limit stopped counts as not run."""
        check.status, check.text = FAILED if self.left_s() > 0 else NOT_RUN, str(failure)[:MOST_TEXT]

    def judge(self, kind: str, name: str, layer: dict[str, Any], run: Run) -> None:
        """Compiles a layer and runs it, unless the time limit has passed."""
        check = Check(kind, name, PASSED)
        self.checks.append(check)
        left, begun = self.left_s(PART_OF_SCHEMES), time.monotonic()
        if left <= 0:
            check.status, check.text = NOT_RUN, f"the time limit of {self.limit_s:.0f} s"
            return
        self.say(f"{kind} {name}")
        package = self.folder / f"{kind}-{name}"
        try:
            self.programs.compile(layer, max(*TOKENS, *EXACT_TOKENS), package)
        except Refused as refused:
            check.status, check.text = REFUSED, str(refused)[:MOST_TEXT]
            return
        manifest = json.loads((package / "manifest.json").read_text())
        chosen = manifest["targets"][0]["report"]
        check.realization, check.engine = chosen.get("realization", ""), chosen.get("engine", "")
        try:
            run(package, manifest, check)
        except (Refused, OSError, ValueError) as failure:
            self.end(check, failure)
        check.seconds = round(time.monotonic() - begun, 2)

    def compare(self, package: pathlib.Path, manifest: dict[str, Any], check: Check) -> None:
        """Compares outputs with the reference, like `moec run --check`."""
        check.tokens = TOKENS
        report = self.programs.run(package, self.left_s(), "--check", f"--tokens={','.join(map(str, TOKENS))}")
        check.error = max(float(run["error"]) for run in report["runs"])
        wrong = [run for run in report["runs"] if not run["passed"]]
        if wrong or len(report["runs"]) != len(TOKENS):
            check.status = FAILED
            check.text = f"{wrong[0]['tokens']} tokens: {wrong[0]['text']}"[:MOST_TEXT] if wrong else "not all token counts ran"

    def hash_outputs(self, package: pathlib.Path, manifest: dict[str, Any], check: Check) -> None:
        """Compares the SHA-256 hashes of outputs with the hashes in outputs.txt."""
        check.tokens, expected = EXACT_TOKENS, expected_outputs()
        for tokens in EXACT_TOKENS:
            digest = output_of(self.programs, package, manifest, check.name, tokens, self.folder, self.left_s())
            check.sha256[str(tokens)] = digest
            if digest != expected[check.name, tokens]:
                check.status = FAILED
                check.text += f"{tokens} tokens: expected {expected[check.name, tokens]}; "

    def clock(self, name: str, layer: dict[str, Any]) -> None:
        """Times a layer of a model."""
        scheme = layer["quant_config"]
        check = Check("times", f"{name}-{scheme}", PASSED, tokens=TIMED_TOKENS)
        self.checks.append(check)
        if self.left_s() <= 0:
            check.status, check.text = NOT_RUN, f"the time limit of {self.limit_s:.0f} s"
            return
        self.say(f"times {name} {scheme}")
        begun, package = time.monotonic(), self.folder / f"times-{name}-{scheme}"
        try:
            self.programs.compile(layer, max(TIMED_TOKENS), package)
            explained = self.programs.explain(layer, TIMED_TOKENS)
            report = self.programs.run(package, self.left_s(), "--time", f"--tokens={','.join(map(str, TIMED_TOKENS))}")
        except Refused as refused:
            self.end(check, refused)
            return
        if hardware := explained.get("hardware"):
            self.bandwidth = {"gpu": hardware["gpu"], **hardware["floor"]}
        rate = self.bandwidth.get("bandwidth_gb_s", 0) * 1e3  # bytes per microsecond
        variants = explained["variants"]
        predicted = {row["tokens"]: row for variant in variants for row in variant.get("predictions", [])}
        chosen = json.loads((package / "manifest.json").read_text())["targets"][0]["report"]
        for run in report["runs"]:
            row = predicted.get(run["tokens"], {"kernels": [], "microseconds": 0.0})
            moved = sum(kernel["bytes"] for kernel in row["kernels"])
            floor = round(moved / rate, 2) if rate else 0.0
            us = round(float(run["median_us"]), 2)
            self.times.append(Time(name, scheme, run["tokens"], us, floor, row["microseconds"], chosen.get("engine", "")))
        check.seconds = round(time.monotonic() - begun, 2)


def check(
    device: str = "cuda",
    arch: str = "",
    only: Sequence[str] = (),
    limit_s: float = 600,
    progress: Callable[[str], None] = lambda line: None,
) -> Result:
    """Checks the GPU of this machine, an emulated GPU of `arch`, or the host device. Raises Refused if nothing can run.

    only: words of scheme names. If given, nothing is timed.
    """
    with tempfile.TemporaryDirectory(prefix="moec-card-") as name:
        folder = pathlib.Path(name)
        programs = Programs(device, arch, folder)
        system = facts_of(programs)
        if device == "cuda" and not system["gpu"]:
            raise Refused("the driver sees no GPU here (moec doctor); --device=emulated --arch=ARCH checks an emulated one")
        schemes = [row["name"] for row in programs.table("schemes") if not only or any(word in row["name"] for word in only)]
        if not schemes:
            raise Refused(f"--only: expected words of names of schemes (moec list schemes), got {','.join(only)}")
        checker = Checker(programs, folder, limit_s, progress)
        known = {scheme for scheme, _ in expected_outputs()}
        for scheme in schemes:
            checker.judge("conformance", scheme, small_layer(scheme), checker.compare)
            if scheme in known:
                checker.judge("exact", scheme, exact_layer(scheme), checker.hash_outputs)
        if device == "cuda" and not only:
            for model, layer in TIMED:
                checker.clock(model, layer)
        states = [each.status for each in checker.checks]
        return Result(
            moec_card_check=1,
            moec=programs.version,
            date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            device=device,
            arch=programs.arch,
            system=system,
            bandwidth=checker.bandwidth,
            seconds=round(time.monotonic() - checker.started, 1),
            summary={state: states.count(state) for state in (PASSED, FAILED, REFUSED, NOT_RUN)},
            checks=checker.checks,
            times=checker.times,
        )
