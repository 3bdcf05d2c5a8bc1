# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command `moec doctor --gpu`."""

import argparse
import pathlib
import re
import sys
from collections.abc import Sequence

from moec.errors import MoecError

DEFAULT_LIMIT_S = 600.0


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e6:
        raise argparse.ArgumentTypeError(f"expected seconds above 0, as in 600; got {text!r}")
    return number


def _parser(kind: type[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = kind(
        prog="moec doctor --gpu",
        description="Checks moec on the GPU of this machine, within a limit of time: small layers of each scheme against the\n"
        "reference, layers whose sums are exact against the bits that the emulator put out, and times of five layers\n"
        "of models. The result is a file of less than 100 KB without names of users, hosts and folders.\n"
        "docs/status.md explains how to send it.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--gpu", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--device", choices=("cuda", "emulated", "host"), default="cuda", help="what to check; only cuda is timed (default: cuda)"
    )
    parser.add_argument(
        "--arch", default="", help="the arch of packages and of an emulated GPU (default: the GPU's, else sm_90a)"
    )
    parser.add_argument(
        "--only", default="", metavar="WORD,...", help="schemes whose names have one of the words; nothing is timed"
    )
    parser.add_argument(
        "--limit",
        type=_seconds,
        default=DEFAULT_LIMIT_S,
        metavar="SECONDS",
        help="what has not begun by then does not run (default: 600)",
    )
    parser.add_argument("-o", "--out", type=pathlib.Path, metavar="FILE", help="the result (default: moec-card-GPU-DATE.json)")
    parser.add_argument("--json", action="store_true", help="print the result, too")
    return parser


def command(arguments: Sequence[str], kind: type[argparse.ArgumentParser] = argparse.ArgumentParser) -> int:
    """Runs the command and returns the exit status: 0 if all checks ran and none failed."""
    from moec.card import check
    from moec.card.programs import Refused

    parser = _parser(kind)
    given = parser.parse_args(arguments)
    if given.out and not given.out.absolute().parent.is_dir():
        parser.error(f"{given.out}: expected a folder at {given.out.absolute().parent}")
    words = tuple(word for word in given.only.split(",") if word)
    if given.only and not words:
        parser.error(f"--only: expected words of names of schemes, got '{given.only}'")
    try:
        result = check(given.device, given.arch, words, given.limit, lambda line: print(line, file=sys.stderr, flush=True))
    except (ImportError, MoecError, Refused) as error:
        print(f"moec doctor --gpu: {error}", file=sys.stderr)
        return 1
    name = re.sub(r"[^a-z0-9]+", "-", (result.system.get("gpu") or f"{result.device}-{result.arch}").lower()).strip("-")
    path = given.out or pathlib.Path(f"moec-card-{name}-{result.date[:10]}.json")
    text = result.to_json()
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"moec doctor --gpu: cannot write {path}: {error.strerror}", file=sys.stderr)
        return 1
    print(text if given.json else f"{result}\n{path} has the result: docs/status.md explains how to send it")
    return 0 if result.is_right() else 1
