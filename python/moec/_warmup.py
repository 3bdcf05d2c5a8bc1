# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the kernels of all distinct layers and ranks of a model into the kernel cache, before a load needs them."""

import json
import math
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from moec import _c
from moec._messages import Progress
from moec.compiler import Files, Source, compile, explain
from moec.errors import FileSystemError, InvalidArgument, MoecError, NotSupported, StrictMiss
from moec.package import load
from moec.report import Report

__all__ = ["Warmup", "warmup"]

# The importer's message for a layer that has no experts.
DENSE = "expected --layer to name a layer with experts"
# Options of a single layer or rank, which warmup() sets itself.
OWN = ("layer", "rank", "all_ranks", "cubin", "cache_dir")


class Distinct(NamedTuple):
    """Layers of a model that have the same kernels. Only the first one is compiled."""

    layers: tuple[int, ...]
    """Layer indices in the model; () if the source is not a model."""
    options: dict[str, Any]
    ranks: int
    """The number of ranks of the layer's parallel layout."""
    gpus: dict[str, str]
    """The GPU for which schedules are chosen, by arch; "" for none."""

    @property
    def label(self) -> str:
        return f"layer {numbers(self.layers)}" if self.layers else "the layer"


@dataclass(frozen=True)
class Row:
    """The result for layers with the same kernels on one arch."""

    layers: tuple[int, ...]
    arch: str
    gpu: str
    """The GPU for which schedules are chosen; "" for none."""
    ranks: tuple[int, ...]
    compiled: int
    cached: int
    seconds: float


@dataclass
class Warmup:
    """The result of warmup(). print() shows it as a table of layers, archs and ranks."""

    cache: str
    nvrtc: str = ""
    """The NVRTC library that compiled; "" if nothing was compiled."""
    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def compiled(self) -> int:
        """Number of kernels that NVRTC compiled."""
        return sum(row.compiled for row in self.rows)

    @property
    def cached(self) -> int:
        """Number of kernels that were already in the cache."""
        return sum(row.cached for row in self.rows)

    def __str__(self) -> str:
        lines = []
        for row in self.rows:
            where = f"{row.arch}, schedules for {row.gpu}" if row.gpu else row.arch
            of = f"layers {numbers(row.layers)}: " if row.layers else ""
            ranks = f", ranks {numbers(row.ranks)}" if row.ranks else ""
            lines.append(f"{of}{where}{ranks}: {row.compiled} compiled, {row.cached} in the cache, {row.seconds:.1f} s")
        lines.append(f"{self.compiled} kernels compiled, {self.cached} in the cache, {self.seconds:.1f} s")
        return "\n".join([*lines, *([f"NVRTC: {self.nvrtc}"] if self.nvrtc else []), f"cache: {self.cache}"])

    def __repr__(self) -> str:
        return f"<moec.Warmup: {self.compiled} kernels compiled, {self.cached} in the cache>"


def cache_folder() -> str:
    """Returns the cache folder by the same rules as the library."""
    if given := os.environ.get("MOEC_CACHE_DIR"):
        return given
    if base := os.environ.get("XDG_CACHE_HOME"):
        return os.path.join(base, "moec")
    return os.path.join(os.environ.get("HOME", ""), ".cache", "moec")


def numbers(values: Iterable[int]) -> str:
    """Formats integers as ranges: "0-2, 5" for 0, 1, 2, 5."""
    runs: list[list[int]] = []
    for value in sorted(values):
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _named(error: MoecError, label: str) -> MoecError:
    """Returns the same error with the layer's name before the message."""
    message = f"{label}: {str(error).removeprefix('<config>: ')}"
    return NotSupported(message, error.reasons) if isinstance(error, NotSupported) else type(error)(message)


def _described(source: Source, options: dict[str, Any], layer: int | None) -> Report:
    """Returns the report of a layer. Raises NotSupported with the importer's message if the layer is not supported."""
    report = explain(source, **(options if layer is None else {**options, "layer": layer}))
    if not report.served:
        raise NotSupported(report.message)
    return report


def _same(report: Report) -> str:
    """Returns a key that is equal for layers with equal kernels: everything except the layer's name and origin."""
    described = {name: value for name, value in report.data["layer"].items() if name not in ("name", "origin")}
    return json.dumps(described, sort_keys=True)


def distinct_layers(source: Source, options: dict[str, Any], asked: Iterable[int] | None) -> list[Distinct]:
    """Returns the distinct layers of a model. Raises before anything is compiled if a layer is not supported."""
    wanted = None if asked is None else sorted({_c.integer(layer, "layers") for layer in asked})
    if wanted == []:
        raise InvalidArgument("layers: expected a number at least, got none")
    try:
        first = _described(source, options, wanted[0] if wanted else None)
    except MoecError as error:
        raise (_named(error, f"layer {wanted[0]}") if wanted else error) from None
    origin = first.data["layer"].get("origin", {})
    if "layers" not in origin:
        if wanted:
            raise InvalidArgument("layers: expected a model's config.json, got the description of one layer")
        return [_distinct((), first, options)]
    found = {_same(first): (first, [origin["layer"]])}
    for layer in wanted[1:] if wanted else range(origin["layer"] + 1, origin["layers"]):
        try:
            report = _described(source, options, layer)
        except MoecError as error:
            if wanted is None and DENSE in str(error):
                continue
            raise _named(error, f"layer {layer}") from None
        found.setdefault(_same(report), (report, []))[1].append(layer)
    return [_distinct(tuple(layers), report, {**options, "layer": layers[0]}) for report, layers in found.values()]


def _check_shared_experts(source: Source, planned: list[Distinct]) -> None:
    """Raises InvalidArgument if no_shared_experts is set for a model without shared experts."""
    for each in planned:
        options = {name: value for name, value in each.options.items() if name != "no_shared_experts"}
        report = explain(source, **options)
        # The layer may be unsupported because of its shared experts.
        if not report.served or report.data["layer"]["n_shared_experts"]:
            return
    raise InvalidArgument("no_shared_experts: no layer of the model has shared experts; leave the option out")


def _distinct(layers: tuple[int, ...], report: Report, options: dict[str, Any]) -> Distinct:
    parallel = report.data["layer"]["parallel"]
    ranks = math.prod(int(parallel.get(f"{name}_size", 1)) for name in ("tp", "pcp", "dp"))
    return Distinct(layers, options, ranks, {target["arch"]: target.get("gpu", "") for target in report.targets})


def _check_cache(folder: str) -> None:
    """Raises FileSystemError if the cache is not writable. The library itself would continue without storing anything."""
    probe = os.path.join(folder, f".warmup-{os.getpid()}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with open(probe, "wb") as file:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise FileSystemError(f"cache: {folder} cannot be written: {error.strerror}") from None
    finally:
        if os.path.exists(probe):
            os.unlink(probe)


def _warmed(each: Distinct, files: Files, arch: str, ranks: tuple[int, ...], **loading: Any) -> tuple[Row, str]:
    """Compiles one layer for one arch, then checks that each compiled kernel is in the cache."""
    started = time.monotonic()
    compiled: set[str] = set()
    cached: set[str] = set()
    nvrtc = ""
    for rank in ranks if len(ranks) > 1 else (None,):
        package = load(files, rank=rank, prebuild=True, arch=arch, **loading)
        # A load that compiles nothing does not open NVRTC.
        nvrtc = nvrtc or package.load_report["nvrtc"]
        target = next(target for target in package.manifest["targets"] if target["arch"] == arch)
        entries = {kernel["name"]: kernel["entry"] for kernel in target["kernels"]}
        fresh = {entries[row["name"]] for row in package.load_report["kernels"] if row["source"] == "compiled"}
        if fresh:
            # A kernel that could not be stored would be compiled again by a later load.
            try:
                load(files, rank=rank, prebuild=True, arch=arch, strict=True, **loading)
            except StrictMiss as error:
                raise FileSystemError(f"a kernel was compiled and could not be stored; is the disk full? {error}") from None
        compiled |= fresh
        cached |= set(entries.values()) - compiled
    return Row(each.layers, arch, each.gpus.get(arch, ""), ranks, len(compiled), len(cached), time.monotonic() - started), nvrtc


def warmup(
    source: Source,
    *,
    layers: Iterable[int] | None = None,
    rank: int | None = None,
    all_ranks: bool = False,
    jobs: int = 0,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: bool | Progress | None = None,
    **options: Any,
) -> Warmup:
    """Compiles the kernels of all distinct layers and ranks of a model into the kernel cache.

    source, options: as compile() accepts them, such as arch, gpu, tp, ep and max_tokens. A later load finds the kernels if its
        layer was compiled with equal options, for the same GPU and with the same NVRTC version.
    layers: layer numbers of the model. None: all layers that have experts.
    rank: compiles for this rank only.
    all_ranks: compiles for all ranks, which is also the default if `rank` is None and tp, pcp or dp is given.
    jobs: number of parallel compilations; 0: depends on cores and memory.
    cache_dir, progress: as load() accepts them.

    Requires NVRTC but no GPU; without a GPU, pass `arch` and `gpu`. If the call is interrupted, compiled kernels stay in the
    cache. Raises NotSupported or InvalidArgument with the layer's number before it compiles anything, and FileSystemError if the
    cache is not writable.
    """
    if own := sorted(set(OWN) & set(options)):
        raise InvalidArgument(f"warmup: unknown option {', '.join(own)}; expected layers=, rank= or all_ranks=")
    if rank is not None and all_ranks:
        raise InvalidArgument("rank: expected a rank or all ranks, got both")
    started = time.monotonic()
    options = {name: value for name, value in options.items() if value is not None} | {"rank": rank}
    # Without an explicit rank, the compiler would choose the first of several ranks.
    for_all = all_ranks or (rank is None and any(name in options for name in ("tp", "pcp", "dp")))
    cache = os.fspath(cache_dir) if cache_dir is not None else cache_folder()
    planned = distinct_layers(source, options, layers)
    if options.get("no_shared_experts"):
        _check_shared_experts(source, planned)
    if all_ranks and not any(name in options for name in ("tp", "pcp", "dp")) and all(each.ranks == 1 for each in planned):
        raise InvalidArgument("all_ranks: expected several ranks, got a layer on one; accepted: with tp, pcp or dp")
    _check_cache(cache)
    made = Warmup(cache)
    for each in planned:
        is_shared = for_all and each.ranks > 1
        ranks = tuple(range(each.ranks)) if is_shared else () if rank is None else (rank,)
        try:
            files = compile(source, progress=progress, all_ranks=is_shared, **each.options)
            for arch in each.gpus:
                row, nvrtc = _warmed(each, files, arch, ranks, jobs=jobs, cache_dir=cache, progress=progress)
                made.rows.append(row)
                made.nvrtc = made.nvrtc or nvrtc
        except MoecError as error:
            raise _named(error, each.label) from None
    made.seconds = time.monotonic() - started
    return made
