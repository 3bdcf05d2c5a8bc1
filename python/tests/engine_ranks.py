# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks of an engine as processes of their own, which print a line of JSON for each run."""

import json
import os
import socket
import subprocess
import sys
from typing import Any

RANKS = 2


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def results_of_ranks(script: str, *arguments: str) -> list[list[dict[str, Any]]]:
    """The results of each rank. `script` gets the rank, the number of ranks, a port and the arguments."""
    port = str(free_port())
    running = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(RANKS), port, *arguments],
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
    for rank, (process, (_, complaints)) in enumerate(zip(running, ended, strict=True)):
        assert process.returncode == 0, f"rank {rank}: {complaints[-3000:]}"
    # The engine writes to the same pipe.
    return [[json.loads(line) for line in said.splitlines() if line.startswith('{"run"')] for said, _ in ended]
