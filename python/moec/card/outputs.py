# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Computes the SHA-256 hashes of outputs of layers whose sums are exact, and reads the expected hashes. The emulator produced the
expected hashes, and the host device has the same."""

import hashlib
import pathlib
from typing import Any

from moec.card.numbers import inputs_of, read_npy
from moec.card.programs import Programs, Refused

FILE = pathlib.Path(__file__).with_name("outputs.txt")
# Minimum number of distinct byte values of an output, because an output of zeros would prove nothing.
LEAST_BYTES = 8


def expected_outputs() -> dict[tuple[str, int], str]:
    """Returns the hashes of outputs.txt by (scheme, tokens)."""
    known = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            scheme, tokens, digest = line.split()
            known[scheme, int(tokens)] = digest
    return known


def output_of(
    programs: Programs,
    package: pathlib.Path,
    manifest: dict[str, Any],
    scheme: str,
    tokens: int,
    folder: pathlib.Path,
    left_s: float,
) -> str:
    """Returns the SHA-256 hash of a package's output for the values of a scheme. Raises Refused if the package does not run."""
    out = folder / f"{scheme}-out-{tokens}.npy"
    files = [f"--input={name}={path}" for given in inputs_of(manifest, scheme, tokens, folder) for name, path in given.items()]
    programs.run(package, left_s, f"--tokens={tokens}", *files, f"--output=out={out}")
    rows = read_npy(out)
    if len(set(rows)) < LEAST_BYTES:
        raise Refused(f"{tokens} tokens: hardly any number is not 0")
    return hashlib.sha256(rows).hexdigest()
