# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints the results of moec bench as a table, JSON or CSV."""

import csv
import dataclasses
import io
import json
import math
from collections.abc import Iterable, Iterator
from typing import Any

from moec.bench.case import FP8_OPERANDS
from moec.bench.worker import MOEC, WRONG, Row


@dataclasses.dataclass
class Rates:
    """The GPU's rates: GB/s, TFLOP/s with bf16 operands, and TFLOP/s with two fp8 operands."""

    gpu: str
    gb_per_s: float
    tflop_per_s: float
    fp8_tflop_per_s: float

    def floor_us(self, row: Row) -> float:
        """Returns a lower bound of the time in microseconds: max(bytes / bandwidth, FLOPs / rate)."""
        rate = self.fp8_tflop_per_s if row.scheme in FP8_OPERANDS else self.tflop_per_s
        return max(row.moved_bytes / (self.gb_per_s * 1e3), row.flops / (rate * 1e6))


@dataclasses.dataclass
class Result:
    device: str
    versions: dict[str, str]
    missing: dict[str, str]
    """Systems that are not installed, with the reason."""
    rates: Rates | None
    routing: str
    """"uniform", or "zipf" with its exponent."""
    rows: list[Row]

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1)

    def to_csv(self) -> str:
        """Returns a CSV line for each system that was timed or wrong. Without the GPU's rates, a floor is 0."""
        out = io.StringIO()
        lines = csv.writer(out, lineterminator="\n")
        lines.writerow(("shape", "scheme", "tokens", "routing", "system", "us", "floor_us", "error"))
        for row in self.rows:
            if row.us or row.refusal.startswith(WRONG):
                floor = self.rates.floor_us(row) if self.rates else 0.0
                error = f"{row.error:.4f}" if row.us else WRONG
                lines.writerow(
                    (row.layer, row.scheme, row.tokens, self.routing, row.system, f"{row.us or 0:.2f}", f"{floor:.2f}", error)
                )
        return out.getvalue()

    def cells(self) -> Iterator[tuple[tuple[str, str, int], dict[str, Row]]]:
        """Returns each (layer, scheme, tokens) and its rows by system."""
        keys = dict.fromkeys((row.layer, row.scheme, row.tokens) for row in self.rows if row.layer)
        for key in keys:
            yield key, {row.system: row for row in self.rows if (row.layer, row.scheme, row.tokens) == key}

    def ratios(self) -> list[tuple[float, tuple[str, str, int], Row, Row]]:
        """Returns, for each cell, moec's time divided by the time of the fastest other system, with the cell and both rows. The
        largest ratio is first."""
        made = []
        for key, rows in self.cells():
            mine = rows.get(MOEC)
            others = [row for name, row in rows.items() if name != MOEC and row.us]
            if mine and mine.us and others:
                best = min(others, key=lambda row: row.us or math.inf)
                made.append((mine.us / (best.us or math.inf), key, mine, best))
        return sorted(made, key=lambda each: -each[0])

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.device}; {', '.join(f'{name} {version}' for name, version in self.versions.items())}"
        yield from (f"not timed: {name}: {why}" for name, why in self.missing.items())
        names = list(dict.fromkeys(row.system for row in self.rows))
        head = [
            "layer",
            "scheme",
            "tokens",
            *(f"{name} us" for name in names),
            *(["x floor"] if self.rates else []),
            "moec / best",
        ]
        table = [head]
        reasons: dict[tuple[str, str], list[str]] = {}
        best = {key: (ratio, other) for ratio, key, _, other in self.ratios()}
        for key, rows in self.cells():
            line = [key[0], key[1], str(key[2])]
            for name in names:
                row = rows.get(name)
                line.append(f"{row.us:.1f}" if row and row.us else "-")
                if row and row.refusal:
                    reasons.setdefault((name, row.refusal), []).append(f"{key[1]} {key[2]}")
            if self.rates:
                mine = rows.get(MOEC)
                line.append(f"{mine.us / self.rates.floor_us(mine):.2f}" if mine and mine.us else "-")
            ratio = best.get(key)
            line.append(f"{ratio[0]:.2f} {ratio[1].system}" if ratio else "-")
            table.append(line)
        yield from _columns(table)
        for (name, why), where in reasons.items():
            yield f"{name}, {where[0]}{f' and {len(where) - 1} more' if len(where) > 1 else ''}: {why}"
        for row in self.rows:
            if not row.layer:
                yield f"{row.system}, {row.tokens} tokens: {row.refusal}; left out from there on"
        found = [each[0] for each in self.ratios()]
        if found:
            mean = math.exp(sum(map(math.log, found)) / len(found))
            faster = sum(ratio < 1 for ratio in found)
            yield f"moec is faster in {faster} of {len(found)} cells"
            yield f"moec / best: geometric mean {mean:.2f}, worst {found[0]:.2f}"


def _columns(table: Iterable[list[str]]) -> Iterator[str]:
    rows = list(table)
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        words = zip(row, widths, strict=True)
        yield "  ".join(word.ljust(width) if at < 2 else word.rjust(width) for at, (word, width) in enumerate(words)).rstrip()


def rates_of(gpu: str, catalog: dict[str, list[dict[str, Any]]]) -> Rates | None:
    """Returns the rates of a GPU of `moec list gpus`, or None if they are unknown."""
    row = next((each for each in catalog["gpus"] if each["name"] == gpu), None)
    if row is None:
        return None
    floor = row["floor"]
    return Rates(gpu, floor["gb_per_s"], floor["tflop_per_s"], floor["fp8_tflop_per_s"])
