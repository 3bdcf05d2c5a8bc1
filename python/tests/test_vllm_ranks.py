# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's transports between two processes, with moec's experts. It runs where torch and vLLM's files are."""

import pytest
import vllm_files
from conftest import import_torch

torch = import_torch(files=vllm_files.prepare)

import vllm_ranks  # noqa: E402
from engine_ranks import results_of_ranks  # noqa: E402


@pytest.mark.parametrize("transport", ["allgather_reducescatter", "naive", "deepep_high_throughput", "deepep_low_latency"])
def test_two_ranks(transport: str) -> None:
    """Each rank has its own tokens, perhaps none, and half of the experts, which perhaps nobody chose."""
    for rank, results in enumerate(results_of_ranks(vllm_ranks.__file__, transport)):
        with_tokens = [counts[rank] for counts in vllm_ranks.COUNTS if counts[rank]]
        assert len(results) == len(vllm_ranks.NAMES) * len(with_tokens) * 2
        assert [each for each in results if not each["part"] < 1] == []
