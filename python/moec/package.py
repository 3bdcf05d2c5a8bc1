# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A package: the code of one layer for one device."""

import ctypes
import functools
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moec import _abi, _c, _gpu, _html, _nvrtc, arrays
from moec._library import Handle, library
from moec._messages import Progress, reported
from moec.compiler import Files, Request, report_of
from moec.errors import InvalidArgument
from moec.report import Report

if TYPE_CHECKING:
    from moec.comm import Communicator
    from moec.layer import Context, Layer

__all__ = ["Package", "Value", "Variant", "load"]


@dataclass(frozen=True)
class Value:
    """A tensor that the caller passes."""

    name: str
    role: str
    """"input", "optional_input", "output", "optional_output", "stored_weight" or "packed_weight"."""
    element_types: tuple[str, ...]
    """The accepted element types; the first one is the default."""
    rank: int
    caller_row_stride: bool
    """True if the outermost stride may be larger than a row."""
    alignment: int
    """The required alignment of the address in bytes."""
    may_alias: str
    """The stored weight whose memory this packed weight may overwrite; "" for none."""


@dataclass(frozen=True)
class Variant:
    """The launches for a range of token counts, both ends inclusive."""

    name: str
    min_tokens: int
    max_tokens: int
    num_launches: int
    min_sms: int
    """The minimum number of SMs; a device with fewer SMs uses other variants. 0: any device."""


def _parse_device(device: Any) -> int | None:
    """Returns the ordinal of "cuda", "cuda:1" or a torch.device (-1: the current GPU), or None for "host" and "cpu"."""
    words = str(device).split(":")
    if words[0] in ("host", "cpu") and len(words) == 1:
        return None
    if words[0] == "cuda" and len(words) == 1:
        ordinal = _gpu.current_ordinal()
        return -1 if ordinal is None else ordinal
    if words[0] == "cuda" and len(words) == 2 and words[1].isdecimal():
        return int(words[1])
    raise InvalidArgument(f"device: expected 'cuda', 'cuda:N', 'host' or, to load a package, 'emulated', got '{device}'")


def load(
    files: "Files | str | os.PathLike[str]",
    *,
    device: Any = "cuda",
    strict: bool = False,
    jobs: int = 0,
    cache_dir: str | os.PathLike[str] | None = None,
    arch: str | None = None,
    rank: int | None = None,
    prebuild: bool = False,
    nvrtc_path: str | os.PathLike[str] | None = None,
    progress: bool | Progress | None = None,
) -> "Package":
    """Loads every kernel, and compiles those that neither the package nor the cache has.

    A package contains code: load only packages that you trust.

    files: the result of compile(), or a package folder.
    device: "cuda" (the current GPU) or "cuda:N"; "host" for plain C++ on host memory, for tests; or "emulated", which interprets
        and checks the kernels' PTX on host memory, for debugging, many times slower than a GPU.
    strict: raises StrictMiss instead of compiling a kernel.
    jobs: number of parallel compilations; 0: depends on cores and memory.
    cache_dir: the folder of the kernel cache. None: MOEC_CACHE_DIR, else ~/.cache/moec.
    arch: a target of the package. None: chosen by the device; on the host, the first target.
    rank: the rank to load from a package of several ranks, (dp_rank * pcp + pcp_rank) * tp + tp_rank. None: the package has one
        rank.
    prebuild: compiles into the cache and loads nothing. Needs `arch` but no GPU.
    nvrtc_path: a libnvrtc.so.N or its folder. None: MOEC_NVRTC_PATH, an installed nvidia-cuda-nvrtc, then the usual places.
    progress: as compile() accepts it.

    Raises DamagedPackage, InvalidManifest, NoMatchingTarget, DeviceLimit, NoCompiler, CompileFailed, NoDriver or DriverFailed.
    """
    emulated = str(device) == "emulated"
    gpu = None if emulated else _parse_device(device)
    if rank is not None and _c.integer(rank, "rank", bits=31) < 0:
        raise InvalidArgument(f"rank: expected 0 or more, got {rank}")
    if nvrtc_path is None and (gpu is not None or emulated or prebuild):
        nvrtc_path = _nvrtc.find_nvrtc()
    options = _abi.LoadOptions(
        struct_size=ctypes.sizeof(_abi.LoadOptions),
        device=_abi.DeviceKind.EMULATED if emulated else _abi.DeviceKind.HOST if gpu is None else _abi.DeviceKind.CUDA,
        ordinal_plus_one=0 if gpu is None else _c.integer(gpu + 1, "device", bits=32),
        strict=strict,
        jobs=_c.integer(jobs, "jobs", bits=32),
        cache_dir=_c.path(cache_dir, "cache_dir") if cache_dir is not None else None,
        arch=_c.text(arch, "arch") if arch is not None else None,
        prebuild=prebuild,
        rank_plus_one=0 if rank is None else _c.integer(rank + 1, "rank", bits=32),
        nvrtc_path=_c.path(nvrtc_path, "nvrtc_path") if nvrtc_path is not None else None,
    )
    with reported(library(), progress):
        if not isinstance(files, (Files, str, os.PathLike)):
            raise TypeError(
                f"files: expected what moec.compile() makes, or the folder of a package; got {type(files).__name__}"
                + ("; moec.compile() takes a layer as a dict" if isinstance(files, Mapping) else "")
            )
        if isinstance(files, Files):
            handle = library().made("package_load_files", files.handle, ctypes.byref(options))
        else:
            handle = library().made("package_load", _c.path(files, "files"), ctypes.byref(options))
    return Package(handle, gpu, files.request if isinstance(files, Files) else None, emulated=emulated)


class Package:
    """The code of one layer for one device. Immutable and thread-safe; layers of equal configuration may share it."""

    def __init__(self, handle: Handle, gpu: int | None, request: Request | None, *, emulated: bool = False) -> None:
        self.handle = handle
        self._request = request
        self._contexts: dict[int, list[Context]] = {}
        self._lock = threading.Lock()
        self.reserved: Context | None = None
        """The context for captured runs that pass none."""
        self.gpu = gpu
        """The ordinal of the GPU, -1 for the current one; None on the host and on an emulated GPU, which uses host memory."""
        self.name = self._word("package_name")
        self.arch = self._word("package_arch")
        """The target in use, such as "sm_90a"."""
        self.device = "emulated" if emulated else "host" if gpu is None else "cuda" if gpu < 0 else f"cuda:{gpu}"
        self.max_tokens: int = library().package_max_tokens(handle)
        self.values: dict[str, Value] = {value.name: value for value in self._values()}
        """The tensors that a caller passes, by name."""
        self.variants: tuple[Variant, ...] = tuple(self._variants())

    def _word(self, function: str) -> str:
        return str(getattr(library(), function)(self.handle).decode())

    def _values(self) -> list[Value]:
        made = []
        for index in range(library().package_num_values(self.handle)):
            row = _abi.Value(struct_size=ctypes.sizeof(_abi.Value))
            library().check(library().package_value(self.handle, index, ctypes.byref(row)))
            made.append(
                Value(
                    name=row.name.decode(),
                    role=_abi.Role(row.role).name.lower(),
                    element_types=tuple(row.element_types.decode().split()),
                    rank=row.rank,
                    caller_row_stride=bool(row.caller_row_stride),
                    alignment=row.alignment,
                    may_alias=row.may_alias.decode(),
                )
            )
        return made

    def _variants(self) -> list[Variant]:
        made = []
        for index in range(library().package_num_variants(self.handle)):
            row = _abi.Variant(struct_size=ctypes.sizeof(_abi.Variant))
            library().check(library().package_variant(self.handle, index, ctypes.byref(row)))
            made.append(Variant(row.name.decode(), row.min_tokens, row.max_tokens, row.num_launches, row.min_sms))
        return made

    @functools.cached_property
    def manifest(self) -> dict[str, Any]:
        """The manifest, as docs/reference/manifest.md describes it."""
        made: dict[str, Any] = json.loads(self._word("package_manifest_json"))
        return made

    @property
    def load_report(self) -> dict[str, Any]:
        """Milliseconds of each phase of the load, and for each kernel its source and the driver's resource data."""
        made: dict[str, Any] = json.loads(self._word("package_load_report_json"))
        return made

    @property
    def device_name(self) -> str:
        return self._word("package_device")

    @property
    def weight_map(self) -> dict[str, Any]:
        """For each stored weight, the checkpoint tensors that hold it, as docs/reference/checkpoints.md describes."""
        made: dict[str, Any] = json.loads(library().text("package_weight_map_json", self.handle))
        return made

    def explain(self) -> Report:
        """Returns the report of the compiler's choices. Raises InvalidArgument for a package loaded from a folder, which does not
        contain its source."""
        if self._request is None:
            raise InvalidArgument("explain: a package of a folder does not hold its source; use moec.explain(source)")
        return report_of(self._request)

    @functools.cached_property
    def outputs(self) -> tuple[str, ...]:
        """Names of the values that every run writes."""
        return tuple(value.name for value in self.values.values() if value.role == "output")

    @functools.cached_property
    def token_axes(self) -> dict[str, int]:
        """The dimension that counts the tokens of a run, by input name: of the first required input that has such a dimension,
        else of all optional inputs that have one."""
        # In a package that gathers tokens, the symbol "tokens" counts the tokens of all ranks.
        shapes = [value["shape"] for value in self.manifest["values"]]
        symbol = "own_tokens" if any("own_tokens" in shape for shape in shapes) else "tokens"
        rows = [value for value in self.manifest["values"] if symbol in value["shape"]]
        found = {row["name"]: row["shape"].index(symbol) for row in rows if row["role"] == "input"}
        if found:
            return dict([next(iter(found.items()))])
        return {row["name"]: row["shape"].index(symbol) for row in rows if row["role"] == "optional_input"}

    def _value(self, name: str) -> Value:
        if name not in self.values:
            raise InvalidArgument(f"package {self.name} has no value '{name}'; its values are {', '.join(self.values)}")
        return self.values[name]

    def shape(self, name: str, tokens: int = 1) -> tuple[int, ...]:
        """Returns the extents of a value in elements for `tokens` tokens, outermost first. Raises InvalidArgument for an unknown
        name."""
        extents = (ctypes.c_int64 * max(self._value(name).rank, 1))()
        library().check(library().package_value_shape(self.handle, name.encode(), _c.integer(tokens, "tokens"), extents))
        return tuple(extents[: self._value(name).rank])

    def empty(self, name: str, tokens: int = 1, *, library: str = "", host: bool = False) -> Any:
        """Allocates an aligned array for a value, uninitialized, of its default element type.

        It is a torch tensor on a GPU, and on the host a numpy array, or a torch tensor for library="torch". Element types that
        the library does not have are stored as uint8 or uint16. host: allocates host memory, whatever the device.
        """
        value = self._value(name)
        gpu = None if host or self.gpu is None else max(self.gpu, 0)
        return arrays.empty(self.shape(name, tokens), value.element_types[0], gpu=gpu, library=library, label=name)

    def variant_for(self, tokens: int) -> Variant:
        """Returns the variant for `tokens` tokens. Raises TooManyTokens if no variant supports so many tokens."""
        index = ctypes.c_size_t()
        library().check(library().package_variant_for(self.handle, _c.integer(tokens, "tokens"), ctypes.byref(index)))
        return self.variants[index.value]

    def workspace_bytes(self, tokens: int) -> int:
        """Returns the workspace size in bytes that suffices for every run of at most `tokens` tokens."""
        return library().number("package_workspace_bytes", self.handle, _c.integer(tokens, "tokens"))

    @property
    def state_bytes(self) -> int:
        return library().number("package_state_bytes", self.handle)

    @property
    def pack_scratch_bytes(self) -> int:
        return library().number("package_pack_scratch_bytes", self.handle)

    def layer(
        self,
        weights: Mapping[str, Any],
        *,
        in_place: bool = False,
        already_packed: bool = False,
        stream: Any = None,
        progress: bool | Progress | None = None,
    ) -> "Layer":
        """Checks names, shapes, element types and values of all stored weights, and packs them.

        weights: arrays by names of .values. Memory for a packed weight may be passed under the weight's name.
        in_place: overwrites stored weights with packed ones if the package allows it.
        already_packed: packs nothing; `weights` holds packed weights, or stored weights that were packed in place.
        stream: the stream to pack on: an integer, a torch.cuda.Stream or an object with __cuda_stream__. None: torch's current
            stream.
        progress: as compile() accepts it.

        Raises InvalidArgument for a missing or unknown name, a wrong shape or type, or a value that is not allowed.
        """
        from moec.layer import Layer

        with reported(library(), progress):
            return Layer(self, weights, in_place=in_place, already_packed=already_packed, stream=stream)

    def context(
        self,
        max_tokens: int | None = None,
        *,
        workspace: Any = None,
        state: Any = None,
        comm: "Communicator | None" = None,
    ) -> "Context":
        """Creates the workspace and state of one stream, for runs of at most max_tokens tokens.

        max_tokens: the maximum number of tokens of a run. None: the package's maximum.
        workspace, state: arrays of workspace_bytes(max_tokens) and state_bytes bytes. None: allocated.
        comm: connects the ranks of a package that exchanges tokens itself. All ranks must create their contexts in the same
            order.

        Raises WorkspaceTooSmall if `workspace` or `state` is too small.
        """
        from moec.layer import Context

        most = self.max_tokens if max_tokens is None else max_tokens
        return Context(self, most, workspace=workspace, state=state, comm=comm)

    def reserve(self, max_tokens: int | None = None, *, comm: "Communicator | None" = None) -> "Context":
        """Creates the context for captured runs that pass no context. Must be called before the capture.

        max_tokens, comm: as context() accepts them.

        All such runs, in all graphs, use this context. Graphs that replay at the same time need one context= each. moec.torch
        calls it when the first layer is registered.
        """
        self.reserved = self.context(max_tokens, comm=comm)
        return self.reserved

    def _free_contexts(self, stream: int, comm: "Communicator | None") -> "list[Context]":
        if comm is None:
            return self._contexts.setdefault(stream, [])
        return comm.contexts.setdefault((self, stream), [])

    def take_context(self, stream: int, tokens: int, comm: "Communicator | None" = None) -> "Context":
        """Returns a context of the stream that is not in use. give_context() returns it."""
        with self._lock:
            free = self._free_contexts(stream, comm)
            for index in range(len(free) - 1, -1, -1):
                if free[index].max_tokens >= tokens:
                    return free.pop(index)
            # Contexts with a communicator are not freed here, because other ranks access their windows.
            if comm is None:
                free.clear()
        # Rounds up, so that slowly growing batches do not each create a context.
        return self.context(min(max(tokens, 1 << (tokens - 1).bit_length() if tokens else 1), self.max_tokens), comm=comm)

    def give_context(self, stream: int, context: "Context", comm: "Communicator | None" = None) -> None:
        with self._lock:
            self._free_contexts(stream, comm).append(context)

    def __repr__(self) -> str:
        return f"<moec.Package {self.name} for {self.arch} on {self.device}, at most {self.max_tokens} tokens>"

    def _repr_html_(self) -> str:
        rows = [
            [value.name, value.role.replace("_", " "), " ".join(value.element_types), str(list(self.shape(value.name)))]
            for value in self.values.values()
        ]
        # A package from a folder has no report.
        return _html.block(
            [
                _html.title(self.name, f"{self.arch} on {self.device_name}, at most {self.max_tokens} tokens"),
                _html.frame(report_of(self._request).to_html()) if self._request else "",
                _html.table(["value", "role", "element types", "shape for 1 token"], rows),
            ]
        )
