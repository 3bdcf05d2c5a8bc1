# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reports of the compiler's choices and their reasons, as text and HTML."""

import json
import os
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moec import _c, _html
from moec._library import library
from moec.errors import FileSystemError, InvalidArgument, Reason

__all__ = ["Report", "Support"]


def size(count: float) -> str:
    """Formats a size in bytes for messages."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def kernel_line(kernel: dict[str, Any]) -> str:
    """Formats a kernel's stages, engine and tile."""
    parts = ["+".join(kernel["stages"])]
    if "engine" in kernel:
        parts.append(kernel["engine"])
    if "tile" in kernel:
        parts.append("tile " + "x".join(map(str, kernel["tile"])))
    if "schedule_source" in kernel:
        parts.append(f"({kernel['schedule_source']})")
    return ", ".join(parts[:-1]) + " " + parts[-1] if len(parts) > 1 else parts[0]


@dataclass(frozen=True)
class Support:
    """The result of supports(). It is true if the layer is supported."""

    ok: bool
    reasons: tuple[Reason, ...]
    """The reasons why the layer is not supported: at least one if .ok is False."""
    realization: tuple[str, ...]
    """For each arch: "native", "dequantized", "weight_only" or "emulated"; "" for a part of a layer."""
    never_run: tuple[str, ...] = ()
    """For each arch: a sentence if no GPU of the arch has run kernels of moec, otherwise ""."""

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return "served: " + ", ".join(self.realization) if self.ok else "\n".join(map(str, self.reasons))


class Report:
    """The compiler's choices for a layer. print() shows them as text, notebooks as a page. `data` is the JSON of `moec explain
    --json`."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    @property
    def served(self) -> bool:
        return bool(self.data["served"])

    @property
    def message(self) -> str:
        """The reason why the layer is not supported; "" if the layer is supported."""
        return str(self.data.get("message", ""))

    @property
    def name(self) -> str:
        return str(self.data.get("name", ""))

    @property
    def targets(self) -> list[dict[str, Any]]:
        """The choices for each arch; docs/reference/explain.md lists the fields."""
        made: list[dict[str, Any]] = self.data["targets"]
        return made

    def to_json(self) -> str:
        return json.dumps(self.data)

    def __repr__(self) -> str:
        if not self.served:
            return "<moec.Report: not served>"
        return f"<moec.Report of {self.name} for {', '.join(target['arch'] for target in self.targets)}>"

    def __str__(self) -> str:
        lines = [] if self.served else ["not served: " + self.message]
        if layer := self.data.get("layer"):
            lines.append(
                f"layer {self.name}: {layer['num_experts']} experts, {layer['top_k']} a token, hidden {layer['hidden_size']}, "
                f"intermediate {layer['intermediate_size']}, scheme {layer['quant']['name'] or 'of descriptors'}"
            )
        for target in self.targets:
            lines += self._target_lines(target)
        return "\n".join(lines)

    @staticmethod
    def _target_lines(target: dict[str, Any]) -> list[str]:
        lines = [f"target {target['arch']}"]
        if target.get("backend"):
            lines.append(f"  chosen: backend {target['backend']}, engine {target['engine']}, {target['realization'] or 'native'}")
        if target.get("part"):
            lines.append(f"  part {target['part']}, without a matmul")
        if target.get("degraded"):
            lines.append(f"  better, but not possible: {target['degraded']}")
        lines += [
            f"  refused: {row['realization']} {row['backend']} {row['engine']}".rstrip() + f" [{row['code']}]: {row['reason']}"
            for row in target.get("refused", ())
        ]
        for variant in target.get("variants", ()):
            first, last = variant["tokens"]
            lines.append(
                f"  {first} to {last} tokens: {len(variant['kernels'])} kernels"
                + (f", workspace at most {size(variant['workspace_bytes'])}" if "workspace_bytes" in variant else "")
            )
            lines += [f"    {kernel_line(kernel)}" for kernel in variant["kernels"]]
        return lines

    def to_html(
        self,
        bench: Mapping[str, Any] | str | os.PathLike[str] | None = None,
        *,
        compare: "Mapping[str, Report] | None" = None,
    ) -> str:
        """Returns the page of `moec explain --html`: kernels, workspace, times and rejected candidates. It needs no network.

        bench: the result of `moec-bench --json` for packages of this layer, as a dict or a file.
        compare: other reports by name, for example of other GPUs or schedules. The chart also shows their times.

        Raises FileSystemError or InvalidArgument if `bench` cannot be read.
        """
        for name, other in (compare or {}).items():
            if not isinstance(other, Report):
                raise TypeError(f"compare: expected reports of moec.explain(), got {type(other).__name__} for {name!r}")
        compared = [{"name": str(name), "report": other.data} for name, other in (compare or {}).items()]
        shown = Report(self.data | {"compared": compared}) if compared else self
        given: str | None
        if isinstance(bench, (str, os.PathLike)):
            try:
                given = pathlib.Path(bench).read_text(encoding="utf-8")
            except OSError as error:
                raise FileSystemError(f"bench: {bench} cannot be read: {error.strerror}") from None
            except UnicodeDecodeError:
                raise InvalidArgument(f"bench: expected a text in UTF-8, which {bench} is not") from None
        elif bench is None or isinstance(bench, Mapping):
            given = None if bench is None else json.dumps(dict(bench))
        else:
            raise TypeError(f"bench: expected a dict or a path, got {type(bench).__name__}")
        return library().text(
            "explain_html", _c.text(shown.to_json(), "report"), None if given is None else _c.text(given, "bench")
        )

    def _repr_html_(self) -> str:
        return _html.frame(self.to_html())
