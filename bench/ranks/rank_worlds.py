# ===- rank_worlds.py - ranks, and arrays on them -----------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""One rank as the programs of ranks see it: who the others are, how tokens move without moec, and arrays on its device. A rank
is a thread of the host device with numpy's arrays, or a process or a thread with a GPU and torch's."""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time

import numpy as np

import moec

# A process that fails leaves the others waiting.
PATIENCE_S = 20


class ThreadRank:
    """A thread among those of one process."""

    def __init__(self, comm, meeting, shared):
        self.rank, self.size, self.comm = comm.rank, comm.size, comm
        self.meeting, self.shared = meeting, shared

    def gather(self, mine):
        """The objects that ranks give, by rank."""
        self.shared[self.rank] = mine
        self.meeting.wait()
        found = list(self.shared)
        self.meeting.wait()
        return found


class HostRank(ThreadRank):
    """A thread of the host device."""

    device = device_name = "host"
    has_collectives = True

    def all_gather(self, arrays):
        """The rows of all ranks, of each array."""
        return [np.concatenate(parts) for parts in zip(*self.gather(arrays))]

    def reduce_scatter(self, array):
        """This rank's rows of the sum over ranks."""
        rows = len(array) // self.size
        mine = [moec.from_bfloat16(each[self.rank * rows:(self.rank + 1) * rows]) for each in self.gather(array)]
        return moec.to_bfloat16(sum(mine[1:], mine[0]))

    def normal(self, shape, seed, factor=1.0, element_type="bf16"):
        made = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32) * np.float32(factor)
        return moec.to_bfloat16(made) if element_type == "bf16" else made

    def codes(self, shape, seed):
        """8-bit floats of magnitudes from 1/4 to 2."""
        random = np.random.default_rng(seed)
        return random.integers(0x28, 0x40, shape, np.uint8) | (random.integers(0, 2, shape, np.uint8) << 7)

    def integers(self, numbers):
        return np.array(numbers, np.int32)

    def floats(self, array):
        return moec.from_bfloat16(array) if array.dtype == np.uint16 else array.astype(np.float32)

    def spoil(self, array):
        """Numbers that no run writes."""
        array.view(np.uint16)[...] = 0xFFFF

    def differs(self, first, second):
        return bool((first.view(np.uint8) != second.view(np.uint8)).any())

    def synchronize(self):
        pass


class TorchArrays:
    """Arrays on a GPU, those of torch."""

    def _generator(self, seed):
        return self.torch.Generator(self.device).manual_seed(seed)

    def normal(self, shape, seed, factor=1.0, element_type="bf16"):
        dtype = self.torch.bfloat16 if element_type == "bf16" else self.torch.float32
        return self.torch.randn(shape, generator=self._generator(seed), device=self.device, dtype=dtype).mul_(factor)

    def codes(self, shape, seed):
        made = self.torch.empty(shape, device=self.device, dtype=self.torch.float8_e4m3fn)
        generator = self._generator(seed)
        for each in made:
            each.copy_(self.torch.randn(each.shape, generator=generator, device=self.device))
        return made

    def integers(self, numbers):
        return self.torch.tensor(numbers, dtype=self.torch.int32, device=self.device)

    def floats(self, array):
        return array.float()

    def spoil(self, array):
        array.fill_(float("nan"))

    def differs(self, first, second):
        return bool((first.view(self.torch.uint8) != second.view(self.torch.uint8)).any())

    def synchronize(self):
        self.torch.cuda.current_stream().synchronize()


class GpuRank(TorchArrays):
    """A process with a GPU, connected by torch.distributed."""

    has_collectives = True

    def __init__(self, connect, nccl=None):
        """connect: a way of ranks.py --connect. nccl: the libnccl.so.2 of an id."""
        import torch
        from torch import distributed

        self.torch, self.distributed, self.nccl = torch, distributed, nccl
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        ordinal = int(os.environ.get("LOCAL_RANK", self.rank))
        torch.cuda.set_device(ordinal)
        self.device = f"cuda:{ordinal}"
        distributed.init_process_group("cpu:gloo,cuda:nccl", device_id=torch.device(self.device))
        self.device_name = torch.cuda.get_device_name(ordinal)
        # NCCL connects in the first collective.
        distributed.all_reduce(torch.zeros(1, device=self.device))
        torch.cuda.synchronize()
        self.comm = getattr(self, f"_by_{connect}")()
        self.grouped = self._groups()
        self.ready = torch.zeros(1, device=self.device)

    def _by_group(self):
        return moec.Communicator.from_group(device=self.device)

    def _by_id(self, **options):
        made = self.gather(moec.Communicator.unique_id(self.nccl) if self.rank == 0 else None)[0]
        return moec.Communicator(made, self.rank, self.size, device=self.device, nccl_path=self.nccl, **options)

    def _by_nccl_windows(self):
        return self._by_id(nccl_windows=True)

    def _by_callbacks(self):
        return moec.Communicator.from_callbacks(self.gather, self.rank, self.size, device=self.device)

    def _by_symmetric_memory(self):
        return moec.Communicator.from_symmetric_memory(device=self.device)

    def _groups(self):
        """Whether torch puts gathers of several types into one group of NCCL, as vLLM does. Else they come one by one."""
        arrays = [self.normal((64, 40), self.rank), self.integers(list(range(640))).view(64, 10)]
        self.grouped = False
        one_by_one, right = self.all_gather(arrays), True
        try:
            self.grouped = True
            together = self.all_gather(arrays)
            self.synchronize()
            right = not any(map(self.differs, one_by_one, together))
        except RuntimeError:
            right = False
        return all(self.gather(right))

    def gather(self, mine):
        found = [None] * self.size
        self.distributed.all_gather_object(found, mine)
        return found

    def _bytes(self, array):
        return array.view(self.torch.uint8) if array.element_size() == 1 else array

    def all_gather(self, arrays, into=None):
        into = into or [array.new_empty((self.size * len(array), *array.shape[1:])) for array in arrays]
        with self.distributed._coalescing_manager() if self.grouped else contextlib.nullcontext():
            for array, made in zip(arrays, into):
                self.distributed.all_gather_into_tensor(self._bytes(made), self._bytes(array))
        return into

    def reduce_scatter(self, array, into=None):
        into = array.new_empty((len(array) // self.size, *array.shape[1:])) if into is None else into
        self.distributed.reduce_scatter_tensor(into, array)
        return into

    def align(self):
        """Queues a wait for all ranks."""
        self.distributed.all_reduce(self.ready)

    def close(self):
        self.synchronize()
        self.comm.close()
        self.distributed.destroy_process_group()


class SharedGpuRank(ThreadRank, TorchArrays):
    """A thread with a stream of a GPU that other ranks have, too. Its kernels run beside those of the others."""

    has_collectives = False

    def __init__(self, comm, meeting, shared, device):
        import torch

        super().__init__(comm, meeting, shared)
        self.torch, self.device, self.device_name = torch, device, torch.cuda.get_device_name(device)
        torch.cuda.set_device(torch.device(device))
        torch.cuda.set_stream(torch.cuda.Stream())

    def align(self):
        """Nothing: the layer itself waits for all ranks."""


def on_threads(size, work, timeout_ms=0, device=None):
    """Calls work(rank) in a thread for each rank, of the host device or of one GPU. Returns the first exception, or None."""
    meeting, shared, failures = threading.Barrier(size), [None] * size, []

    def run(comm):
        try:
            work(SharedGpuRank(comm, meeting, shared, device) if device else HostRank(comm, meeting, shared))
        except threading.BrokenBarrierError:
            pass
        except BaseException as error:
            failures.append(error)
            meeting.abort()

    ends = moec.Communicator.threads(size, timeout_ms=timeout_ms, devices=[device] * size if device else None)
    threads = [threading.Thread(target=run, args=(comm,)) for comm in ends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures[0] if failures else None


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def on_processes(size, command):
    """Starts a process for each rank, as torchrun does. Returns the worst exit status. Ranks of a failed one are ended."""
    shared = {**os.environ, "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    shared.setdefault("GLOO_SOCKET_IFNAME", "lo")
    started = [subprocess.Popen([sys.executable, *command], env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
               for rank in range(size)]
    ends = None
    while any(each.poll() is None for each in started):
        time.sleep(0.05)
        if ends is None and any(each.poll() for each in started):
            ends = time.monotonic() + PATIENCE_S
        if ends is not None and time.monotonic() > ends:
            for each in started:
                each.kill()
    return max(abs(each.returncode) for each in started)


def is_a_rank():
    """Whether torchrun, or on_processes(), started this process."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def packages_of(folder):
    """The file that compile_ranks.py wrote."""
    return json.loads((pathlib.Path(folder) / "ranks.json").read_text(encoding="utf-8"))
