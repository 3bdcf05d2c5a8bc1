# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Processes that each start one vLLM engine. They import vLLM together, which takes most of the time, and take turns on a GPU."""

import argparse
import contextlib
import csv
import dataclasses
import fcntl
import importlib.metadata
import importlib.util
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

import models

SIDES = ("own", "moec")
"""vLLM's own backend, and moec."""
PLUGINS = {"moec": "moec.integrations.vllm:register", "random_weights": "random_weights:register"}
GROUP = "vllm.general_plugins"
HERE = pathlib.Path(__file__).resolve().parent
# FlashInfer is not packed, and the machine may have no network.
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "NCCL_SOCKET_IFNAME": "lo",
    "PYTHONUNBUFFERED": "1",
}
CACHES = {
    "VLLM_CACHE_ROOT": "vllm",
    "VLLM_CONFIG_ROOT": "config",
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "DG_JIT_CACHE_DIR": "deep_gemm",
    "MOEC_CACHE_DIR": "moec",
}


@dataclasses.dataclass(frozen=True)
class Job:
    """One process with one engine."""

    name: str
    words: tuple[str, ...]
    """Arguments of the process."""
    side: str
    gpus: tuple[int, ...]
    wave: int = 0
    """An engine is started when all jobs of earlier waves that use its GPUs have ended, so that weights fit into memory."""
    environment: dict[str, str] = dataclasses.field(default_factory=dict)


class Turns:
    """Files in a folder by which the processes of a run tell each other how far they are."""

    def __init__(self, folder: pathlib.Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.plan = json.loads((folder / "plan.json").read_text())
        self.of = self.plan[name]

    def _await(self, names: Sequence[str], event: str, most_s: float = math.inf) -> None:
        began = time.monotonic()
        while not all(any((self.folder / f"{name}.{each}").exists() for each in (event, "ended")) for name in names):
            if time.monotonic() - began > most_s:
                print(
                    f"{self.name}: did not wait longer than {most_s:.0f} s for all of {', '.join(names)} to be {event}",
                    flush=True,
                )
                return
            time.sleep(0.1)

    def begin(self) -> None:
        """Waits until the GPU has memory for this job's engine."""
        self._await(self.of["after"], "ended")

    def announce(self, event: str) -> None:
        (self.folder / f"{self.name}.{event}").touch()

    def reach(self, event: str, most_s: float = 150) -> None:
        """Waits until all engines that share a GPU with this one have come as far, so that no start disturbs a time."""
        self.announce(event)
        self._await(self.of["beside"], event, most_s)

    @contextlib.contextmanager
    def gpu(self) -> Iterator[None]:
        """The only job of its GPUs."""
        with contextlib.ExitStack() as stack:
            for gpu in sorted(self.of["gpus"]):
                file = stack.enter_context(open(self.folder / f"gpu{gpu}.lock", "w"))
                fcntl.flock(file, fcntl.LOCK_EX)
            yield


def words(text: str) -> list[str]:
    return text.split(",")


def parser_of(description: str | None, layers: int) -> argparse.ArgumentParser:
    """The arguments that all programs with engines take. layers: default of --layers."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path, nargs="?")
    parser.add_argument("--site", type=pathlib.Path, help="folder of unpacked archives of pack.py; default: vLLM is installed")
    parser.add_argument("--kinds", type=words, default=list(models.KINDS), help="default: all")
    parser.add_argument("--gpus", type=words, default=["0"], help="default: 0")
    parser.add_argument("--layers", type=int, default=layers)
    parser.add_argument("--small", action="store_true", help="narrow layers, to see that the program works")
    parser.add_argument("--limit", type=float, default=540, help="seconds until what still runs is ended")
    parser.add_argument("--commit", default="", help="commit of moec; default: as git says")
    parser.add_argument("--work", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=models.KINDS, help=argparse.SUPPRESS)
    return parser


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Ends a program that cannot start jobs with these options. Makes numbers of the GPUs."""
    if options.out is None:
        parser.error("expected OUT, the folder of results")
    if reason := missing(options.site):
        parser.error(reason)
    options.gpus = [int(each) for each in options.gpus]


def missing(site: pathlib.Path | None) -> str:
    """Returns why jobs could not import vLLM and moec; "" if they can."""
    if site and not (site / "vllm" / "__init__.py").exists():
        return f"--site={site} has no vllm; unpack all archives of pack.py into it"
    absent = [name for name in ("moec", *([] if site else ["vllm"])) if importlib.util.find_spec(name) is None]
    return f"cannot import {absent[0]}; set PYTHONPATH, or install it" if absent else ""


def write_plan(folder: pathlib.Path, jobs: Sequence[Job]) -> None:
    def shares(a: Job, b: Job) -> bool:
        return a is not b and bool(set(a.gpus) & set(b.gpus))

    plan = {
        job.name: {
            "gpus": job.gpus,
            "after": [each.name for each in jobs if shares(job, each) and each.wave < job.wave],
            "beside": [each.name for each in jobs if shares(job, each) and each.wave == job.wave],
        }
        for job in jobs
    }
    (folder / "plan.json").write_text(json.dumps(plan))


def write_plugins(folder: pathlib.Path) -> None:
    """Makes vLLM find plug-ins that are not installed, by the metadata of a distribution."""
    installed = {each.name for each in importlib.metadata.entry_points(group=GROUP)}
    lines = [f"{name} = {target}" for name, target in PLUGINS.items() if name not in installed]
    info = folder / "moec_bench_server-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: moec-bench-server\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines, ""]))


def environment_of(job: Job, work: pathlib.Path, site: pathlib.Path | None) -> dict[str, str]:
    folders = [work / "plugins", HERE, *([site] if site else [])]
    paths = [str(each) for each in folders] + [each for each in (os.environ.get("PYTHONPATH"),) if each]
    caches = {name: str(work / "caches" / job.name / folder) for name, folder in CACHES.items()}
    made = {name: value for name, value in os.environ.items() if name != "MOEC_VLLM"}
    made |= ENVIRONMENT | caches | {"PYTHONPATH": os.pathsep.join(paths), "CUDA_VISIBLE_DEVICES": ",".join(map(str, job.gpus))}
    if site and (library := site / "libnccl.so.2").exists():
        made["VLLM_NCCL_SO_PATH"] = str(library)
    # vLLM's all-reduce through symmetric memory is a multicast.
    if os.environ.get("TORCH_SYMM_MEM_DISABLE_MULTICAST") == "1":
        made["VLLM_ALLREDUCE_USE_SYMM_MEM"] = "0"
    if job.side == "moec":
        made["MOEC_VLLM"] = os.environ.get("MOEC_VLLM") or "1"
    return made | job.environment


def run_jobs(
    script: str, jobs: Sequence[Job], work: pathlib.Path, site: pathlib.Path | None, limit_s: float
) -> dict[str, dict[str, Any]]:
    """Runs all jobs at once and returns what each has written; {} for one that failed.

    script: the program that a job runs, with `--job=NAME --work=FOLDER` and its words. Its result is NAME.json in the folder.
    """
    began = time.monotonic()
    work.mkdir(parents=True, exist_ok=True)
    write_plan(work, jobs)
    write_plugins(work / "plugins")
    processes: dict[str, subprocess.Popen[bytes]] = {}
    for job in jobs:
        with open(work / f"{job.name}.log", "wb") as log:
            processes[job.name] = subprocess.Popen(
                [sys.executable, script, f"--job={job.name}", f"--work={work}", *job.words],
                env=environment_of(job, work, site),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    ended: set[str] = set()
    while len(ended) < len(jobs):
        time.sleep(0.1)
        late = time.monotonic() - began > limit_s
        for name, process in processes.items():
            if name in ended or (process.poll() is None and not late):
                continue
            # Ends the processes that the engine has started, too.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            status = f"did not end in {limit_s:.0f} s" if process.poll() is None else f"status {process.wait()}"
            process.wait()
            (work / f"{name}.ended").touch()
            ended.add(name)
            print(f"{name}: {status} after {time.monotonic() - began:.0f} s", flush=True)
            if not (work / f"{name}.json").exists():
                print(last_words(work / f"{name}.log"), flush=True)
    found = {job.name: work / f"{job.name}.json" for job in jobs}
    return {name: json.loads(path.read_text()) if path.exists() else {} for name, path in found.items()}


def last_words(log: pathlib.Path, lines: int = 15) -> str:
    return "\n".join(f"    {line[:300]}" for line in log.read_text(errors="replace").splitlines()[-lines:])


def lines_of_moec(log: pathlib.Path) -> list[str]:
    """Returns what moec's plug-in logged, each line once."""
    lines = [line.partition("] ")[2] for line in log.read_text(errors="replace").splitlines() if "moec" in line and "] " in line]
    return list(dict.fromkeys(line for line in lines if line.startswith("moec")))


def save(out: pathlib.Path, work: pathlib.Path, results: Any) -> None:
    """Writes results.json and logs.tar.xz."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    with tarfile.open(out / "logs.tar.xz", "w:xz") as archive:
        for log in sorted(work.glob("*.log")):
            archive.add(log, log.name)


def write_csv(path: pathlib.Path, rows: Sequence[dict[str, Any]]) -> None:
    if rows:
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table in Markdown. All columns but the first are aligned to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def versions(commit: str) -> dict[str, str]:
    """Returns what ran. A job calls this after it has imported vLLM."""
    import moec
    from vllm.platforms import current_platform

    if not commit:
        command = ["git", "-C", str(HERE), "rev-parse", "--short=8", "HEAD"]
        commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    made = {"moec": f"{moec.__version__} at {commit}"}
    made |= {name: importlib.metadata.version(name) for name in ("vllm", "torch", "triton", "transformers")}
    made["gpu"] = current_platform.get_device_name() if current_platform.is_cuda() else "none"
    return made
