# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ends of the ranks of a package that moves tokens and sums itself."""

import ctypes
import os
import pathlib
from importlib import util
from typing import TYPE_CHECKING, Any

from moec import _abi, _c
from moec._library import Handle, library
from moec.errors import InvalidArgument
from moec.package import _parse_device

if TYPE_CHECKING:
    from moec.layer import Context
    from moec.package import Package

__all__ = ["Communicator"]

ID_BYTES = 128


def _find_nccl() -> str | None:
    """The library of an installed nvidia-nccl; None where the process has one already, or none is installed."""
    try:
        ctypes.CDLL("libnccl.so.2", mode=os.RTLD_NOLOAD)
        return None
    except OSError:
        pass
    found = util.find_spec("nvidia")
    for folder in (found.submodule_search_locations or ()) if found else ():
        path = pathlib.Path(folder) / "nccl" / "lib" / "libnccl.so.2"
        if path.exists():
            return str(path)
    return None


def _nccl_path(given: "str | os.PathLike[str] | None") -> bytes | None:
    path = _find_nccl() if given is None else given
    return _c.path(path, "nccl_path") if path is not None else None


def _ordinal(device: Any) -> int:
    gpu = _parse_device(device)
    if gpu is None:
        raise InvalidArgument(
            "device: NCCL connects GPUs, expected 'cuda' or 'cuda:N', got the host; Communicator.threads() connects ranks of it"
        )
    return gpu


class Communicator:
    """One rank's end of what connects all ranks. One run at a time uses it.

    All ranks make communicators, and then contexts, in one order. Each call waits for the other ranks.
    """

    def __init__(
        self,
        unique_id: bytes,
        rank: int,
        size: int,
        *,
        device: Any = "cuda",
        timeout_ms: int = 0,
        nccl_path: "str | os.PathLike[str] | None" = None,
    ) -> None:
        """Connects by NCCL. Returns when all ranks have come.

        unique_id: what Communicator.unique_id() gave one of the ranks. rank: (dp_rank * pcp + pcp_rank) * tp + tp_rank.
        device: "cuda" (the current GPU) or "cuda:N". timeout_ms: to wait for the other ranks; 0: 60000.
        nccl_path: a libnccl.so.2. None: that of the process, then an installed nvidia-nccl, then the usual places.
        """
        if not isinstance(unique_id, bytes):
            raise TypeError(f"unique_id: expected bytes, got {type(unique_id).__name__}")
        if len(unique_id) != ID_BYTES:
            raise InvalidArgument(f"unique_id: expected {ID_BYTES} bytes of Communicator.unique_id(), got {len(unique_id)}")
        kept = ctypes.create_string_buffer(unique_id, ID_BYTES)
        self._connect(
            rank,
            size,
            unique_id=ctypes.addressof(kept),
            ordinal_plus_one=_c.integer(_ordinal(device) + 1, "device", bits=32),
            timeout_ms=_c.integer(timeout_ms, "timeout_ms", bits=32),
            nccl_path=_nccl_path(nccl_path),
        )
        del kept

    def _connect(self, rank: int, size: int, **fields: Any) -> None:
        options = _abi.CommOptions(
            struct_size=ctypes.sizeof(_abi.CommOptions),
            ranks=_c.integer(size, "size", bits=32),
            rank=_c.integer(rank, "rank", bits=32),
            **fields,
        )
        self._handle: Handle | None = library().made("comm_create", ctypes.byref(options))
        self.rank = rank
        self.size = size
        self.contexts: dict[tuple[Package, int], list[Context]] = {}
        """Contexts of runs that are given none, by package and stream."""

    @staticmethod
    def unique_id(nccl_path: "str | os.PathLike[str] | None" = None) -> bytes:
        """An id that one rank makes and gives to all. nccl_path: as Communicator() takes it."""
        made = ctypes.create_string_buffer(ID_BYTES)
        library().check(library().comm_unique_id(_nccl_path(nccl_path), ctypes.addressof(made)))
        return made.raw

    @classmethod
    def from_group(
        cls,
        group: Any = None,
        *,
        device: Any = "cuda",
        timeout_ms: int = 0,
        nccl_path: "str | os.PathLike[str] | None" = None,
    ) -> "Communicator":
        """Connects the ranks of a process group of torch.distributed, in the order of the group.

        A group that has an NCCL communicator on each rank lends it, and moec splits it. Else rank 0 makes an id, which the
        group hands out. group: None: all ranks. Other arguments: as Communicator() takes them.
        """
        import torch
        from torch import distributed

        gpu = _ordinal(device)
        if group is None:
            group = distributed.group.WORLD
        rank, size = distributed.get_rank(group), distributed.get_world_size(group)
        if rank < 0:
            raise InvalidArgument("group: expected a process group that has this process, got one that has not")
        lent = _lent(group, torch.device("cuda"))
        mine = (lent != 0, cls.unique_id(nccl_path) if rank == 0 else b"")
        all_ranks: list[Any] = [None] * size
        distributed.all_gather_object(all_ranks, mine, group=group)
        if not all(has for has, _ in all_ranks):
            return cls(all_ranks[0][1], rank, size, device=device, timeout_ms=timeout_ms, nccl_path=nccl_path)
        made = cls.__new__(cls)
        made._connect(
            rank,
            size,
            nccl_comm=lent,
            ordinal_plus_one=_c.integer(gpu + 1, "device", bits=32),
            timeout_ms=_c.integer(timeout_ms, "timeout_ms", bits=32),
            nccl_path=None if nccl_path is None else _c.path(nccl_path, "nccl_path"),
        )
        return made

    @classmethod
    def threads(cls, size: int, *, timeout_ms: int = 0) -> "list[Communicator]":
        """The ends of all ranks of the host device, for tests. Each rank runs in a thread of its own.

        timeout_ms: a rank waits so long for the others of a collective; 0: 60000.
        """
        group = library().made(
            "comm_group_create", _c.integer(size, "size", bits=32), _c.integer(timeout_ms, "timeout_ms", bits=32)
        )
        ends = []
        for rank in range(size):
            made = cls.__new__(cls)
            made._connect(rank, size, group=group._as_parameter_)
            ends.append(made)
        return ends

    @property
    def handle(self) -> Handle:
        if self._handle is None:
            raise InvalidArgument("the communicator was closed")
        return self._handle

    def check(self) -> None:
        """Raises PeerLost where it has failed, or NCCL reports a failure of what was queued. Any thread may ask."""
        library().check(library().comm_status(self.handle))

    def abort(self) -> None:
        """Ends what waits for other ranks, also kernels of NCCL: PeerLost there, and in all that comes later.

        Any thread may call it, while a run waits. The other ranks must do the same.
        """
        library().check(library().comm_abort(self.handle))

    def close(self) -> None:
        """Lets go of it. Contexts that are still used keep what they need. No run may be in flight."""
        self.contexts.clear()
        self._handle = None

    def __repr__(self) -> str:
        state = "closed" if self._handle is None else f"rank {self.rank} of {self.size}"
        return f"<moec.Communicator {state}>"


def _lent(group: Any, device: Any) -> int:
    """The address of a group's ncclComm_t; 0 where it has none, or has made none yet."""
    try:
        return int(group._get_backend(device)._comm_ptr())
    except (AttributeError, RuntimeError):
        return 0
