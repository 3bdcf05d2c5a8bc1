# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures schedules of a layer on the GPU that is here, as the command `moec tune` does."""

import ctypes
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from moec import _c, _nvrtc
from moec._library import library
from moec._messages import Progress, reported
from moec.compiler import Source, encoded, request_of
from moec.errors import InvalidArgument

__all__ = ["Tuned", "TunedTokens", "tune"]


@dataclass(frozen=True)
class TunedTokens:
    """The measurements of one token count."""

    tokens: int
    chosen: str
    """"measured" or "default"; "none measured" where no time was left; "failed" where the default cannot be measured."""
    default_us: float
    """Microseconds of the layer as the compiler makes it without measurements."""
    us: float
    """The same of the best schedule."""
    noise: float
    schedules: int
    best: str
    serves: tuple[int, int] | None
    """The token counts that the rows serve; None where there are none."""
    text: str
    """The reason of "failed"."""


@dataclass(frozen=True)
class Tuned:
    """The result of tune()."""

    tokens: tuple[TunedTokens, ...]
    quarantined: tuple[dict[str, Any], ...]
    """Schedules that were wrong, hung or ended their process, with the reason in "text"."""
    not_measured: tuple[dict[str, Any], ...]
    """Schedules for which the machine lacked memory, say; the next call measures them."""
    rows: int
    output: str
    """The file that got the rows; "" where there are none."""
    log: str
    seconds: float


def _of_tokens(row: dict[str, Any]) -> TunedTokens:
    served = row.get("range")
    return TunedTokens(
        tokens=row["tokens"],
        chosen=row["chosen"],
        default_us=row.get("default_us", 0.0),
        us=row.get("us", 0.0),
        noise=row.get("noise", 0.0),
        schedules=row.get("schedules", 0),
        best=row.get("best", ""),
        serves=(served[0], served[1]) if served else None,
        text=row.get("text", ""),
    )


def tune(
    source: Source,
    *,
    tokens: Iterable[int],
    budget: float = 60.0,
    exhaustive: bool = False,
    random: int = 0,
    seed: int = 1,
    device: str = "cuda",
    deadline: float = 30.0,
    min_gain: float = 1.0,
    sample: int = 8,
    out: str | os.PathLike[str] | None = None,
    log: str | os.PathLike[str] | None = None,
    progress: Progress | bool | None = None,
    **options: Any,
) -> Tuned:
    """Measures schedules for these token counts and writes the best as rows that compile() then finds.

    It ends after `budget` seconds, compiling with them. Gains below `min_gain` percent get no rows. `out` is the file of rows,
    absent the user's store. `log` keeps all measurements: a second call goes on where one ended, however it ended. Other options
    are those of compile().
    """
    own: dict[str, Any] = {
        "tokens": [int(count) for count in tokens],
        "budget": budget,
        "exhaustive": exhaustive,
        "random": random,
        "seed": seed,
        "device": device,
        "deadline": deadline,
        "min_gain": min_gain,
        "sample": sample,
        "out": None if out is None else os.fspath(out),
        "log": None if log is None else os.fspath(log),
    }
    if not own["tokens"]:
        raise InvalidArgument("tokens: expected at least one token count, got none")
    text, asked = request_of(source, options | own)
    # The compiler takes an NVRTC that the process has loaded.
    if nvrtc := _nvrtc.find_nvrtc():
        ctypes.CDLL(str(nvrtc))
    with reported(library(), progress):
        report: dict[str, Any] = json.loads(library().text("tune_config", _c.text(text, "source"), encoded(asked)))
    return Tuned(
        tokens=tuple(_of_tokens(row) for row in report["results"]),
        quarantined=tuple(report["quarantined"]),
        not_measured=tuple(report["not_measured"]),
        rows=report["rows"],
        output=report["output"],
        log=report["log"],
        seconds=report["seconds"],
    )
