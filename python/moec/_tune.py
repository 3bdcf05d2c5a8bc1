# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Measures schedules of a layer on the current machine, like the command `moec tune`."""

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
    """The measurements for one token count."""

    tokens: int
    chosen: str
    """"measured" or "default"; "none measured" if the budget was used up; "failed" if the default schedule cannot be measured."""
    default_us: float
    """Microseconds of the layer with the compiler's default schedules."""
    us: float
    """Microseconds of the layer with the best schedule."""
    noise: float
    schedules: int
    best: str
    serves: tuple[int, int] | None
    """The range of token counts for which the stored rows are used, or None if no rows were stored."""
    text: str
    """The reason if `chosen` is "failed"."""


@dataclass(frozen=True)
class Tuned:
    """The result of tune()."""

    tokens: tuple[TunedTokens, ...]
    quarantined: tuple[dict[str, Any], ...]
    """Schedules that computed wrong results, hung or crashed their process, with the reason in "text"."""
    not_measured: tuple[dict[str, Any], ...]
    """Schedules that could not be measured, for example because memory was short. The next call measures them."""
    rows: int
    output: str
    """The file to which the rows were written; "" if no rows were written."""
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
    """Measures schedules for the given token counts, and stores the best ones so that compile() finds them.

    source: as compile() accepts it.
    tokens: the token counts to measure.
    budget: seconds after which the search ends, including compilation.
    exhaustive: measures all candidates of all tile sizes.
    random: number of additional random legal schedules for each matmul.
    seed: seed of random schedules and of inputs.
    device: "cuda", or "host", whose times do not predict the times of a GPU.
    deadline: seconds after which a measurement counts as hung.
    min_gain: a schedule is stored only if it is faster than the default schedule by at least this many percent.
    sample: number of tokens that are compared with the reference.
    out: the file of stored schedules. None: the user's store.
    log: the file of all measurements. A second call with the same file resumes where the first one ended or was interrupted.
    progress: as compile() accepts it.
    options: the other options of compile().

    Raises InvalidArgument if `tokens` is empty.
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
    # The compiler uses an NVRTC library that the process has already loaded.
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
