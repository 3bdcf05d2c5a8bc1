# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the description of a layer to a package in memory, or explains the choices."""

import ctypes
import json
import math
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from moec import _c, _gpu, _nvrtc
from moec._library import Handle, library
from moec._messages import Progress, reported
from moec.errors import FileSystemError, InvalidArgument, NotSupported, Reason
from moec.report import Report, Support

__all__ = ["Files", "catalog", "compile", "explain", "families", "supports"]

Source: TypeAlias = Mapping[str, Any] | str | os.PathLike[str] | Any
Request: TypeAlias = tuple[str, dict[str, Any]]


def _plain(value: Any) -> Any:
    """Converts values for json.dumps: configurations, and types and scalars of torch and numpy."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    name = str(value)
    if name.startswith("torch."):
        return name.removeprefix("torch.")
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"source: expected what JSON can say, got {type(value).__name__}")


_NAME_OF_HUB = re.compile(r"\w[\w.-]*/[\w.-]+")
MAX_SHOWN = 200  # characters of a path in a message


def text_of(source: Source) -> str:
    """Returns the JSON text of a dict or of an object with to_dict(), or the contents of a file or of a folder's config.json."""
    if isinstance(source, (str, os.PathLike)):
        path = pathlib.Path(source)
        shown = str(path) if len(str(path)) <= MAX_SHOWN else f"{str(path)[:MAX_SHOWN]}..."
        try:
            path = path / "config.json" if path.is_dir() else path
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise InvalidArgument(f"source: expected a text in UTF-8, which {path} is not") from None
        except FileNotFoundError:
            hub = "; json.loads() makes a dict of a text, which is taken" if shown.lstrip().startswith("{") else ""
            if _NAME_OF_HUB.fullmatch(shown) and not shown.endswith((".json", ".mlir")):
                hub = f"; moec downloads no model: get its config with hf download {shown} config.json and give its path"
            raise InvalidArgument(
                f"source: expected a config.json, a layer JSON or a folder with a config.json; there is no {path}{hub}"
            ) from None
        except OSError as error:
            raise FileSystemError(
                f"source: {shown!r} cannot be read: {error.strerror}; expected a path, or what JSON can say as a dict"
            ) from None
        except ValueError:
            raise InvalidArgument(f"source: expected a path without NUL, got {shown!r}") from None
    if hasattr(source, "to_dict"):
        source = source.to_dict()
    if not isinstance(source, Mapping):
        raise TypeError(f"source: expected a dict, a configuration of transformers or a path; got {type(source).__name__}")
    _check_finite(source, "")
    return json.dumps(dict(source), default=_plain)


def _check_finite(value: Any, path: str) -> None:
    """Raises InvalidArgument for NaN and infinities, which JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidArgument(f"source{path}: expected a finite number, got {value}")
    if isinstance(value, Mapping):
        for key, each in value.items():
            _check_finite(each, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            _check_finite(each, f"{path}[{index}]")


def _archs(arch: str | list[str] | tuple[str, ...] | None) -> str | list[str]:
    if arch is None:
        return _gpu.current_arch()
    if isinstance(arch, str):
        return arch
    if isinstance(arch, (list, tuple)):
        return list(arch)
    raise TypeError(f"arch: expected a name such as 'sm_90a', or a list; got {type(arch).__name__}")


# The limit on tokens if the caller passes no limit and the source is not a program with its own limit.
DEFAULT_MAX_TOKENS = 8192


def request_of(source: Source, options: dict[str, Any]) -> Request:
    """Returns the source's text and the options that were given."""
    options = dict(options, arch=_archs(options.get("arch")))
    for name in ("cache_dir", "tuned"):
        if isinstance(options.get(name), os.PathLike):
            options[name] = os.fspath(options[name])
    # `as` is a Python keyword, so the option is spelled as_.
    given = {name.rstrip("_"): value for name, value in options.items() if value is not None}
    return text_of(source), {"default_max_tokens": DEFAULT_MAX_TOKENS} | given


def encoded(options: dict[str, Any]) -> bytes:
    try:
        return json.dumps(options).encode()
    except TypeError as error:
        raise TypeError(f"options: expected numbers, words, True, False or lists of words ({error})") from None


def _explained(request: Request) -> dict[str, Any]:
    text, options = request
    made: dict[str, Any] = json.loads(library().text("explain_config", _c.text(text, "source"), encoded(options)))
    return made


def _reasons(report: dict[str, Any]) -> tuple[Reason, ...]:
    """Returns the rejected candidates of a layer that no target supports, or the one reason why the layer itself is rejected."""
    found = tuple(
        Reason(row["code"], row["reason"], target["arch"], row["backend"] or row["realization"], row["engine"])
        for target in report["targets"]
        for row in target["refused"]
    )
    return found or (Reason("refused", report["message"]),)


class Files:
    """The files of a package in memory: manifest, sources, headers and cubins."""

    def __init__(self, handle: Handle, request: Request | None = None) -> None:
        self.handle = handle
        self.request = request
        """The text and the options that the package was compiled from; None for a package read from a folder."""

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> "Files":
        """Reads a package folder. Raises InvalidManifest or DamagedPackage if format, consistency or SHA-256 hashes are wrong."""
        return cls(library().made("package_files_read", _c.path(folder, "folder")))

    def write(self, folder: str | os.PathLike[str]) -> pathlib.Path:
        """Writes the package to `folder` atomically, replacing a package that is already there. Returns the folder."""
        library().check(library().package_files_write(self.handle, _c.path(folder, "folder")))
        return pathlib.Path(folder)

    def __repr__(self) -> str:
        if not self.request:
            return "<moec.Files of a folder>"
        arch = self.request[1]["arch"]
        return f"<moec.Files for {arch if isinstance(arch, str) else ', '.join(arch)}>"


def compile(
    source: Source,
    *,
    arch: str | list[str] | tuple[str, ...] | None = None,
    gpu: str | None = None,
    scheme: str | None = None,
    weights_dtype: str | None = None,
    logits_dtype: str | None = None,
    tp: int | None = None,
    ep: bool = False,
    rank: int | None = None,
    layer: int | None = None,
    max_tokens: int | None = None,
    backend: str | None = None,
    engine: str | None = None,
    exclude: str | list[str] | None = None,
    allow: str | list[str] | None = None,
    cubin: bool = False,
    progress: bool | Progress | None = None,
    **options: Any,
) -> Files:
    """Compiles one MoE layer to a package in memory.

    An option of None means that the source decides.

    source: a dict, a transformers configuration, or the path of a config.json, a layer JSON, an .mlir file or a model's folder.
    arch: one or more archs of `moec list archs`, such as "sm_90a". None: the arch of the current GPU.
    gpu: a GPU of `moec list gpus`, for which schedules are chosen. None: the current GPU, else the default GPU of the arch.
    scheme: a quantization scheme of `moec list schemes`.
    weights_dtype: "bf16", "f16" or "f32" if weights are stored as floats and quantized during packing.
    logits_dtype: the default element type of the router's logits.
    tp: the number of tensor-parallel ranks. They share each expert unless `ep` is set.
    ep: distributes whole experts over the ranks (expert parallelism).
    rank: the rank to compile for.
    layer: the layer of a model. None: its first layer with experts.
    max_tokens: the maximum number of tokens of a run. None: 8192, or the limit of a program in the source.
    backend, engine: forces a backend or a matmul engine.
    exclude: backends, engines and realizations that must not be chosen. For backend, engine and exclude, None means MOEC_BACKEND,
        MOEC_ENGINE and MOEC_EXCLUDE.
    allow: "weight_only" lets the package leave activations unquantized, which changes the results.
    cubin: compiles the kernels now, with NVRTC. False: load() compiles them.
    progress: None shows bars if stderr is a terminal and tqdm is installed; True and False force the choice. A function receives
        (step, done, total).
    options: the other options of `moec compile`, with _ for -.

    Raises NotSupported, with .reasons, for a layer that moec does not support, and InvalidArgument for an unknown option.
    """
    options |= {
        "arch": arch,
        "gpu": gpu,
        "scheme": scheme,
        "weights_dtype": weights_dtype,
        "logits_dtype": logits_dtype,
        "tp": tp,
        "ep": ep,
        "rank": rank,
        "layer": layer,
        "max_tokens": max_tokens,
        "backend": backend,
        "engine": engine,
        "exclude": exclude,
        "allow": allow,
        "cubin": cubin,
    }
    request = request_of(source, options)
    # The compiler uses an NVRTC library that the process has already loaded.
    if cubin and (nvrtc := _nvrtc.find_nvrtc()):
        ctypes.CDLL(str(nvrtc))
    text, given = request
    try:
        with reported(library(), progress):
            return Files(library().made("compile_config", _c.text(text, "source"), encoded(given)), request)
    except NotSupported as error:
        report = _explained((text, {name: value for name, value in given.items() if name != "cubin"}))
        raise NotSupported(str(error), () if report["served"] else _reasons(report)) from None


def explain(source: Source, **options: Any) -> Report:
    """Reports what compile() would choose for the same arguments, and why. Compiles no kernels.

    A layer that moec does not support also has a report, whose .served is False. Any other error raises.
    """
    options.pop("progress", None)
    return Report(_explained(request_of(source, options)))


def supports(source: Source, **options: Any) -> Support:
    """Returns a Support, which is true if compile() supports the layer. Raises only errors other than an unsupported layer."""
    report = explain(source, **options)
    if report.served:
        never_run = tuple("" if target["ran_on_gpu"] else str(target["evidence"]) for target in report.targets)
        return Support(True, (), tuple(target.get("realization", "") for target in report.targets), never_run)
    return Support(False, _reasons(report.data), ())


def catalog() -> dict[str, list[dict[str, Any]]]:
    """Returns the names that layers and options may use: "schemes", "routing", "activations", "engines", "archs", ..."""
    made: dict[str, list[dict[str, Any]]] = json.loads(library().text("catalog_json"))
    return made


def families() -> list[dict[str, Any]]:
    """Returns the model families whose config.json moec compiles: dicts with "model_types", "architectures" and the "source" of
    defaults."""
    made: list[dict[str, Any]] = json.loads(library().text("families_json"))
    return made


def report_of(files_request: Request) -> Report:
    """Returns the report for a request that was compiled."""
    return Report(_explained((files_request[0], {k: v for k, v in files_request[1].items() if k != "cubin"})))
