# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command `moec bench`."""

import argparse
import pathlib
import sys
from collections.abc import Sequence

from moec.errors import MoecError

DEFAULT_TOKENS = (1, 8, 64, 512, 4096)


def _tokens(text: str) -> tuple[int, ...]:
    words = [word for word in text.split(",") if word]
    if not words or not all(word.isdecimal() and int(word) for word in words):
        raise argparse.ArgumentTypeError(f"expected integers of at least 1, as in 1,8,64; got {text!r}")
    return tuple(map(int, words))


def _parser(kind: type[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    from moec.bench.systems import SYSTEMS

    systems = "\n".join(f"  {each.name:13} {each.what}: {', '.join(each.schemes)}" for each in SYSTEMS)
    parser = kind(
        prog="moec bench",
        description="Times a layer on this GPU, and what else computes it here: the same inputs, CUDA graphs in turns,\n"
        "no weights in the L2 cache, every output compared with float32. Needs torch.\n\nsystems:\n" + systems,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("layers", metavar="LAYER", nargs="+", help="a layer JSON, a config.json or a model's folder")
    parser.add_argument(
        "--tokens", type=_tokens, default=DEFAULT_TOKENS, metavar="N,...", help="token counts (default: 1,8,64,512,4096)"
    )
    parser.add_argument("--scheme", default="", metavar="NAME,...", help="quantization schemes (default: the layer's)")
    parser.add_argument("--systems", default="", metavar="NAME,...", help="in addition to moec (default: all that are installed)")
    parser.add_argument("--tp", type=int, metavar="N", help="ranks that share each expert")
    parser.add_argument("--ep", action="store_true", help="spread whole experts over the ranks of --tp")
    parser.add_argument("--layer", type=int, metavar="N", help="the layer of a model (default: its first with experts)")
    parser.add_argument("--skew", type=float, default=0.0, metavar="S", help="odds (r + 1)^-S for the expert of rank r; 0: even")
    parser.add_argument("--passes", type=int, default=3, metavar="N", help="turns of all systems (default: 3)")
    parser.add_argument("--limit", type=float, default=300, metavar="SECONDS", help="for one step of one system (default: 300)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write the result there")
    parser.add_argument(
        "--csv", type=pathlib.Path, metavar="FILE", help="the same as a table: a line for each system and token count"
    )
    return parser


def command(arguments: Sequence[str], kind: type[argparse.ArgumentParser] = argparse.ArgumentParser) -> int:
    """Runs the command and returns the exit status."""
    from moec.bench import bench

    parser = _parser(kind)
    given = parser.parse_args(arguments)
    if given.passes < 1:
        parser.error(f"--passes: expected at least 1, got {given.passes}")
    if given.ep and given.tp is None:
        parser.error("--ep: expected --tp=N, the ranks that whole experts are spread over")
    options = {name: getattr(given, name) for name in ("tp", "layer") if getattr(given, name) is not None}
    options |= {"ep": True} if given.ep else {}
    for path in (given.json, given.csv):
        if path and not path.absolute().parent.is_dir():
            parser.error(f"{path}: expected a folder at {path.absolute().parent}")
    words = {name: tuple(word for word in getattr(given, name).split(",") if word) for name in ("scheme", "systems")}
    try:
        result = bench(
            given.layers,
            tokens=given.tokens,
            schemes=words["scheme"],
            systems=words["systems"] or None,
            skew=given.skew,
            passes=given.passes,
            limit_s=given.limit,
            progress=lambda line: print(line, file=sys.stderr, flush=True),
            **options,
        )
    except (ImportError, MoecError, RuntimeError) as error:
        print(f"moec bench: {error}", file=sys.stderr)
        return 1
    print(result)
    for path, text in ((given.json, f"{result.to_json()}\n"), (given.csv, result.to_csv())):
        if path:
            path.write_text(text, encoding="utf-8")
    return 0
