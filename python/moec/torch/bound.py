# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A fast path for runs whose tensors have the same types and shapes as in an earlier run: only addresses are updated."""

import ctypes
from typing import NamedTuple

import torch

from moec import _abi, _memory, arrays
from moec._library import library
from moec._tensors import Row, packed
from moec.comm import Communicator
from moec.layer import Layer

# The tensors of a run: names of moec's values, and the argument names of Layer.__call__.
VALUES = ("x", "logits", "given_ids", "given_weights", "expert_map", "out")
ARGUMENTS = ("x", "logits", "topk_ids", "topk_weights", "expert_map", "out")
# Maximum number of token counts that are kept for a layer. Decode steps have few.
MOST_COUNTS = 64

WORDS_OF_TENSOR = _abi.TENSOR.size // 8
WORD_OF_DATA = 1


class _Tensor(NamedTuple):
    """A tensor that the fast path accepts."""

    place: int
    """The index in VALUES."""
    dtype: torch.dtype
    shape: torch.Size
    device: int
    low_bits: int
    """The bits of an address that must be 0."""
    row: Row


class _Buffer:
    """The packed tensors of one run. One run at a time uses a buffer."""

    def __init__(self, tensors: tuple[_Tensor, ...]) -> None:
        self._memory, self.count = packed(tensor.row for tensor in tensors)
        self.address = ctypes.addressof(self._memory)
        self.words = (ctypes.c_int64 * (len(self._memory) // 8)).from_buffer(self._memory)


class _Known(NamedTuple):
    """The tensors of earlier runs with one token count."""

    tensors: tuple[_Tensor, ...]
    absent: tuple[int, ...]
    """The indices of the tensors that are not given."""
    free: list[_Buffer]


class BoundRuns:
    """The fast path to run a layer. Other runs use Layer.__call__, which also reports errors."""

    def __init__(self, layer: Layer, comm: Communicator | None = None) -> None:
        self.layer = layer
        self.comm = comm
        self._known: dict[int, _Known] = {}
        self._options = _abi.RunOptions(struct_size=ctypes.sizeof(_abi.RunOptions))
        self._options_reference = ctypes.byref(self._options)

    def __call__(self, *given: torch.Tensor | None) -> None:
        """Runs the layer. `given`: the tensors in the order of VALUES; None for an absent one."""
        x = given[0]
        assert x is not None
        known = self._known.get(x.shape[0]) if x.dim() else None
        addresses = self._addresses(known, given) if known else None
        if known and addresses and not _memory.is_capturing(self.layer.package.gpu):
            self._run(known, addresses, x.shape[0])
            return
        named = dict(zip(ARGUMENTS, given, strict=True))
        self.layer(**named, comm=self.comm)  # type: ignore[arg-type]  # the arguments are not among `others`
        if not addresses:
            self._keep(x.shape[0], given)

    @staticmethod
    def _addresses(known: _Known, given: tuple[torch.Tensor | None, ...]) -> list[int] | None:
        """Returns the tensors' addresses, or None if a tensor does not match the tensor of the earlier run."""
        differentiates = torch.is_grad_enabled()
        addresses = []
        for place in known.absent:
            if given[place] is not None:
                return None
        for place, dtype, shape, device, low_bits, _ in known.tensors:
            tensor = given[place]
            if (
                tensor is None
                or tensor.dtype is not dtype
                or tensor.shape != shape
                or tensor.get_device() != device
                or not tensor.is_contiguous()
                or (differentiates and tensor.requires_grad)
            ):
                return None
            address = tensor.data_ptr()
            if address & low_bits:
                return None
            addresses.append(address)
        return addresses

    def _run(self, known: _Known, addresses: list[int], tokens: int) -> None:
        package, handle = self.layer.package, self.layer.handle
        stream = _memory.stream_handle(None, package.gpu)
        context = package.take_context(stream, tokens, self.comm)
        try:
            buffer = known.free.pop()
        except IndexError:
            buffer = _Buffer(known.tensors)
        try:
            at = WORD_OF_DATA
            for address in addresses:
                buffer.words[at] = address
                at += WORDS_OF_TENSOR
            library().check(
                library().run(
                    handle, context.handle, stream or None, buffer.address, buffer.count, tokens, self._options_reference
                )
            )
        finally:
            known.free.append(buffer)
            package.give_context(stream, context, self.comm)

    def _keep(self, tokens: int, given: tuple[torch.Tensor | None, ...]) -> None:
        """Stores the tensors of a run that Layer.__call__ has accepted."""
        values, kept = self.layer.package.values, []
        for place, (name, tensor) in enumerate(zip(VALUES, given, strict=True)):
            if tensor is None:
                continue
            found = arrays.view(tensor, name)
            if found.strides is not None:
                return
            value = values[name]
            row, _ = _memory.row_of(self.layer.package, value, found, copies=False)
            low_bits = _memory.needed_alignment(value, found) - 1
            kept.append(_Tensor(place, tensor.dtype, tensor.shape, tensor.get_device(), low_bits, row))
        if len(self._known) >= MOST_COUNTS:
            self._known.clear()
        absent = tuple(place for place, tensor in enumerate(given) if tensor is None)
        self._known[tokens] = _Known(tuple(kept), absent, [])
