# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Connections between the ranks of a package that exchanges tokens and partial results itself."""

import contextlib
import ctypes
import os
import pathlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
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
    """Returns the library of an installed nvidia-nccl package, or None if it is not installed or NCCL is already loaded."""
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
            "device: expected a GPU, 'cuda' or 'cuda:N', got the host; Communicator.threads() connects ranks of it"
        )
    return gpu


class Communicator:
    """The connection of one rank to all others. One run at a time may use it.

    All ranks must create their communicators, and later their contexts, in the same order. Each of these calls waits for the
    other ranks.
    """

    _calls: "_Calls | None" = None

    def __init__(
        self,
        unique_id: bytes,
        rank: int,
        size: int,
        *,
        device: Any = "cuda",
        timeout_ms: int = 0,
        nccl_path: "str | os.PathLike[str] | None" = None,
        nccl_windows: bool = False,
    ) -> None:
        """Connects by NCCL. Returns when all ranks have called it.

        unique_id: the result of Communicator.unique_id() on one of the ranks.
        rank: (dp_rank * pcp + pcp_rank) * tp + tp_rank.
        size: the number of ranks.
        device: "cuda" (the current GPU) or "cuda:N".
        timeout_ms: limit for waiting for other ranks; 0: 60000.
        nccl_path: the path of a libnccl.so.2. None: the library that the process has loaded, else an installed nvidia-nccl, else
            the usual places.
        nccl_windows: creates the windows of all_to_all="one_sided" by NCCL, even if the CUDA driver could. Must be equal on all
            ranks.

        Raises NoCommunication if NCCL is missing or cannot connect the ranks, PeerLost after the timeout.
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
            nccl_windows=bool(nccl_windows),
        )
        del kept

    def _connect(self, rank: int, size: int, **fields: Any) -> None:
        options = _abi.CommOptions(
            struct_size=ctypes.sizeof(_abi.CommOptions),
            ranks=_c.integer(size, "size", bits=32),
            rank=_c.integer(rank, "rank", bits=32),
            **fields,
        )
        self._kept = [value for value in fields.values() if callable(value)]
        self._handle: Handle | None = library().made("comm_create", ctypes.byref(options))
        self._handle.memory = self._kept
        self.rank = rank
        self.size = size
        self.contexts: dict[tuple[Package, int], list[Context]] = {}
        """Contexts for runs that pass none, by package and stream."""

    @staticmethod
    def unique_id(nccl_path: "str | os.PathLike[str] | None" = None) -> bytes:
        """Creates an id on one rank, which the caller sends to all ranks. `nccl_path`: as Communicator() accepts it."""
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
        nccl_windows: bool = False,
    ) -> "Communicator":
        """Connects the ranks of a torch.distributed process group, in the order of the group.

        If the group has an NCCL communicator on each rank, moec splits that communicator. Otherwise rank 0 creates an id, and the
        group's all_gather_object() distributes it.

        group: the process group. None: all ranks.
        device, timeout_ms, nccl_path, nccl_windows: as Communicator() accepts them.

        Raises InvalidArgument if this process does not belong to the group.
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
            return cls(
                all_ranks[0][1],
                rank,
                size,
                device=device,
                timeout_ms=timeout_ms,
                nccl_path=nccl_path,
                nccl_windows=nccl_windows,
            )
        made = cls.__new__(cls)
        made._connect(
            rank,
            size,
            nccl_comm=lent,
            ordinal_plus_one=_c.integer(gpu + 1, "device", bits=32),
            timeout_ms=_c.integer(timeout_ms, "timeout_ms", bits=32),
            nccl_path=None if nccl_path is None else _c.path(nccl_path, "nccl_path"),
            nccl_windows=bool(nccl_windows),
        )
        return made

    @classmethod
    def from_callbacks(
        cls,
        all_gather: Callable[[bytes], Sequence[bytes]],
        rank: int,
        size: int,
        *,
        device: Any = "cuda",
        window: Callable[[int], Sequence[int]] | None = None,
        timeout_ms: int = 0,
    ) -> "Communicator":
        """Connects GPUs without NCCL, for packages compiled with all_to_all="one_sided". Returns when all ranks have called it.

        all_gather: receives the bytes of this rank and returns the bytes of all ranks, in rank order. It is called here and when
            contexts are created.
        rank, size, device: as Communicator() accepts them.
        window: receives a size in bytes and returns, for each rank, the address at which this rank's GPU reaches memory of that
            rank. The memory must outlive the context. None: the CUDA driver shares memory between the GPUs of a host.
        timeout_ms: limit for kernels that wait for other ranks; 0: 60000.
        """
        calls = _Calls(all_gather, window, size)
        made = cls.__new__(cls)
        made._calls = calls
        with calls:
            made._connect(
                rank,
                size,
                all_gather=_abi.ALL_GATHER_FUNCTION(calls.gather),
                **({} if window is None else {"window": _abi.WINDOW_FUNCTION(calls.give)}),
                ordinal_plus_one=_c.integer(_ordinal(device) + 1, "device", bits=32),
                timeout_ms=_c.integer(timeout_ms, "timeout_ms", bits=32),
            )
        return made

    @classmethod
    def from_symmetric_memory(cls, group: Any = None, *, device: Any = "cuda", timeout_ms: int = 0) -> "Communicator":
        """Connects a process group that shares windows through symmetric memory (torch.distributed._symmetric_memory).

        For packages compiled with all_to_all="one_sided". The communicator owns the memory.

        group, device, timeout_ms: as from_group() accepts them.
        """
        import torch
        from torch import distributed
        from torch.distributed import _symmetric_memory as symmetric

        gpu = _ordinal(device)
        if group is None:
            group = distributed.group.WORLD
        size = distributed.get_world_size(group)
        kept: list[Any] = []

        def all_gather(mine: bytes) -> Sequence[bytes]:
            gathered: list[Any] = [None] * size
            distributed.all_gather_object(gathered, mine, group=group)
            return gathered

        def window(count: int) -> Sequence[int]:
            place = torch.device("cuda", torch.cuda.current_device() if gpu < 0 else gpu)
            tensor = symmetric.empty(count, dtype=torch.uint8, device=place)
            handle = symmetric.rendezvous(tensor, group.group_name)
            kept.append((tensor, handle))
            return list(handle.buffer_ptrs)

        made = cls.from_callbacks(
            all_gather, distributed.get_rank(group), size, device=device, window=window, timeout_ms=timeout_ms
        )
        made._kept.append(kept)
        return made

    @classmethod
    def threads(cls, size: int, *, timeout_ms: int = 0, devices: Sequence[Any] | None = None) -> "list[Communicator]":
        """Creates the communicators of all ranks, each of which must run in its own thread of this process.

        size: the number of ranks.
        timeout_ms: limit for waiting for other ranks; 0: 60000.
        devices: the GPU of each rank, "cuda:N", or "cuda" for the current GPU, for packages compiled with
            all_to_all="one_sided". Several ranks may share a GPU. None: the host device, for tests.
        """
        milliseconds = _c.integer(timeout_ms, "timeout_ms", bits=32)
        size = _c.integer(size, "size", bits=32)
        if devices is not None and len(devices) != size:
            raise InvalidArgument(f"devices: expected one for each of {size} ranks, got {len(devices)}")
        group = library().made("comm_group_create", size, milliseconds)
        ends = [cls.__new__(cls) for _ in range(size)]
        if devices is None:
            for rank, made in enumerate(ends):
                made._connect(rank, size, group=group._as_parameter_)
            return ends
        gpus = [max(_ordinal(device), 0) + 1 for device in devices]

        def connect(rank: int) -> None:
            ends[rank]._connect(rank, size, group=group._as_parameter_, ordinal_plus_one=gpus[rank], timeout_ms=milliseconds)

        with ThreadPoolExecutor(size) as pool:
            list(pool.map(connect, range(size)))
        return ends

    def calling(self) -> "contextlib.AbstractContextManager[None]":
        """Returns a context manager for library calls that may call the functions of from_callbacks()."""
        return contextlib.nullcontext() if self._calls is None else self._calls

    @property
    def handle(self) -> Handle:
        if self._handle is None:
            raise InvalidArgument("the communicator was closed")
        return self._handle

    def check(self) -> None:
        """Raises PeerLost if the communicator or work that it enqueued has failed, or if a run has waited longer than timeout_ms.

        After a timeout it also ends the wait, like abort(). Runs captured in a CUDA graph have no timeout. Thread-safe.
        """
        library().check(library().comm_status(self.handle))

    def abort(self) -> None:
        """Ends all waits for other ranks, including waits in kernels. The waiting calls and all later calls fail with PeerLost.

        Thread-safe, also while a run waits. The other ranks must call abort() too.
        """
        library().check(library().comm_abort(self.handle))

    def close(self) -> None:
        """Releases the communicator. Contexts in use keep the state that they need. No run may be in flight."""
        self.contexts.clear()
        self._handle = None

    def __repr__(self) -> str:
        state = "closed" if self._handle is None else f"rank {self.rank} of {self.size}"
        return f"<moec.Communicator {state}>"


class _Calls(contextlib.AbstractContextManager[None]):
    """Adapts the functions of a caller to the C interface. If such a function raises, its exception becomes the cause of the
    library call's error."""

    def __init__(
        self, all_gather: Callable[[bytes], Sequence[bytes]], window: Callable[[int], Sequence[int]] | None, size: int
    ) -> None:
        self.all_gather, self.window, self.size = all_gather, window, size
        self.caught: BaseException | None = None

    def gather(self, _user: int | None, mine: int, count: int, to: int) -> int:
        try:
            gathered = [bytes(each) for each in self.all_gather(ctypes.string_at(mine, count))]
            if [len(each) for each in gathered] != [count] * self.size:
                given = ", ".join(str(len(each)) for each in gathered)
                raise InvalidArgument(f"all_gather: expected {count} bytes of each of {self.size} ranks, got {given}")
            ctypes.memmove(to, b"".join(gathered), count * self.size)
        except BaseException as caught:
            self.caught = caught
            return 1
        return 0

    def give(self, _user: int | None, count: int, addresses: Any) -> int:
        try:
            assert self.window is not None
            given = list(self.window(count))
            if len(given) != self.size:
                raise InvalidArgument(f"window: expected an address for each of {self.size} ranks, got {len(given)}")
            for rank, address in enumerate(given):
                addresses[rank] = address
        except BaseException as caught:
            self.caught = caught
            return 1
        return 0

    def __enter__(self) -> None:
        self.caught = None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None and self.caught is not None:
            raise error from self.caught


def _lent(group: Any, device: Any) -> int:
    """Returns the address of the group's ncclComm_t, or 0 if the group has none (yet)."""
    try:
        return int(group._get_backend(device)._comm_ptr())
    except (AttributeError, RuntimeError):
        return 0
