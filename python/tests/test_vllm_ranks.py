# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's transports between two processes, with moec's experts. It runs where torch and vLLM's files are."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import pytest
import vllm_files
from conftest import import_torch

torch = import_torch(files=vllm_files.prepare)

import vllm_ranks  # noqa: E402

RANKS = 2
SCRIPT = pathlib.Path(vllm_ranks.__file__)


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


@pytest.mark.parametrize("transport", ["allgather_reducescatter", "naive", "deepep_high_throughput", "deepep_low_latency"])
def test_two_ranks(transport: str) -> None:
    """Each rank has its own tokens, perhaps none, and half of the experts, which perhaps nobody chose."""
    command = [sys.executable, str(SCRIPT)]
    port = str(free_port())
    running = [
        subprocess.Popen(
            [*command, str(rank), str(RANKS), port, transport],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for rank in range(RANKS)
    ]
    try:
        ended = [process.communicate(timeout=300) for process in running]
    finally:
        for process in running:
            process.kill()
    for rank, (process, (said, complaints)) in enumerate(zip(running, ended, strict=True)):
        assert process.returncode == 0, f"rank {rank}: {complaints[-3000:]}"
        # vLLM writes to the same pipe.
        results = [json.loads(line) for line in said.splitlines() if line.startswith('{"run"')]
        with_tokens = [counts[rank] for counts in vllm_ranks.COUNTS if counts[rank]]
        assert len(results) == len(vllm_ranks.NAMES) * len(with_tokens) * 2
        assert [each for each in results if not each["part"] < 1] == []
