# ===- rank_peers.py - exchanges of others, beside moec's ----------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Exchanges that ranks.py puts around moec's experts: copies into other ranks' memory, and FlashInfer's kernels. Both use
torch's symmetric memory. `world` is a rank_worlds.GpuRank."""

import ctypes


class Memory:
    """Memory of each rank that all ranks map."""

    ALIGNMENT = 256

    def __init__(self, world, sizes):
        """sizes: bytes of its parts."""
        import torch.distributed._symmetric_memory as symmetric

        self.offsets, end = [], 0
        for size in sizes:
            self.offsets.append(end)
            end += -(-size // self.ALIGNMENT) * self.ALIGNMENT
        self.own = symmetric.empty(end, dtype=world.torch.uint8, device=world.device)
        self.own.zero_()
        self.ends = symmetric.rendezvous(self.own, world.distributed.group.WORLD)

    def part(self, rank, at, shape, dtype):
        """An array at so many bytes of a rank's memory."""
        return self.ends.get_buffer(rank, shape, dtype, at // dtype.itemsize)


def bytes_of(array):
    return array.numel() * array.element_size()


class Pushes:
    """Copies into other ranks' memory, and a barrier on the GPU behind each exchange. Rows go to all ranks, as in a gather; the way
    back ends in a sum. Kraken's kernels move rows alike."""

    def __init__(self, world, arrays, partial):
        """arrays: those of one rank's tokens. partial: a rank's sums of all tokens."""
        self.world = world
        self.memory = Memory(world, [*(bytes_of(array) * world.size for array in arrays), bytes_of(partial)])
        self.received = [self.memory.part(world.rank, at, (world.size * len(array), *array.shape[1:]), array.dtype)
                         for array, at in zip(arrays, self.memory.offsets)]
        self.rows = len(partial) // world.size
        self.sums = self.memory.part(world.rank, self.memory.offsets[-1], (world.size, self.rows, *partial.shape[1:]), partial.dtype)

    def all_gather(self, arrays):
        for array, at in zip(arrays, self.memory.offsets):
            mine = at + self.world.rank * bytes_of(array)
            for rank in self._order():
                self.memory.part(rank, mine, array.shape, array.dtype).copy_(array)
        self.memory.ends.barrier()

    def reduce_scatter(self, partial, into):
        mine = self.memory.offsets[-1] + self.world.rank * bytes_of(into)
        for rank in self._order():
            self.memory.part(rank, mine, into.shape, into.dtype).copy_(partial[rank * self.rows:(rank + 1) * self.rows])
        self.memory.ends.barrier()
        self.world.torch.sum(self.sums, 0, out=into)

    def _order(self):
        """Ranks from the next one on, so that not all write to one."""
        return [(self.world.rank + 1 + index) % self.world.size for index in range(self.world.size)]


class FlashInfer:
    """FlashInfer's one-sided kernels, as vLLM's flashinfer_nvlink_one_sided calls them. A token goes once to each rank that has one of
    its experts. Slots that nobody filled have ids of -1. `received` are arrays of [ranks * tokens, ...], `partial` is where the
    experts' sums of these rows belong."""

    def __init__(self, world, library, experts, moved):
        """library: built of flashinfer_exchange.cu. moved: {name: array} of one rank's tokens, with "ids"."""
        self.world, self.experts, self.names = world, experts, list(moved)
        self.tokens, self.top_k = moved["ids"].shape
        self.library = ctypes.CDLL(str(library.resolve()))
        self.library.flashinfer_header_bytes.restype = ctypes.c_size_t
        x = moved.get("x", moved.get("x_q"))
        self.hidden, rows = x.shape[1], world.size * self.tokens
        sums = rows * self.hidden * world.torch.bfloat16.itemsize
        arrays = list(moved.values())
        self.memory = Memory(world, [self.library.flashinfer_header_bytes(self.tokens),
                                     *(bytes_of(array) * world.size for array in arrays), sums])
        offsets = self.memory.offsets[1:]
        self.received = {name: self.memory.part(world.rank, at, (rows, *array.shape[1:]), array.dtype)
                         for (name, array), at in zip(moved.items(), offsets)}
        self.partial = self.memory.part(world.rank, offsets[-1], (rows, self.hidden), world.torch.bfloat16)
        self.sums_at = offsets[-1]
        self.row_bytes = (ctypes.c_int * len(arrays))(*(bytes_of(array) // self.tokens for array in arrays))
        self.offsets = (ctypes.c_size_t * len(arrays))(*offsets[:-1])
        self.memories = (ctypes.c_void_p * world.size)(*self.memory.ends.buffer_ptrs)
        # All ranks see zeros before the first signal.
        world.synchronize()
        world.gather(None)

    def _stream(self):
        return ctypes.c_void_p(self.world.torch.cuda.current_stream().cuda_stream)

    def dispatch(self, moved):
        arrays = [moved[name] for name in self.names]
        sources = (ctypes.c_void_p * len(arrays))(*(array.data_ptr() for array in arrays))
        self.library.flashinfer_dispatch(
            self.world.rank, self.world.size, self.experts, self.top_k, self.tokens, self.tokens,
            ctypes.c_void_p(moved["ids"].data_ptr()), len(arrays), sources, self.row_bytes, self.offsets, self.names.index("ids"),
            self.memories, self._stream())

    def combine(self, into):
        self.library.flashinfer_combine(
            self.world.rank, self.world.size, self.top_k, self.tokens, self.tokens, self.hidden, ctypes.c_size_t(self.sums_at),
            ctypes.c_void_p(into.data_ptr()), self.memories, self._stream())
