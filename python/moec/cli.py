# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command moec. `moec warmup`, `moec bench` and `moec doctor --gpu` are implemented in Python, all other commands in the
library."""

import argparse
import ctypes
import dataclasses
import json
import os
import re
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from moec._words import did_you_mean


class _Parser(argparse.ArgumentParser):
    """Reports errors with the program's name, and suggests an option for a misspelled one."""

    def error(self, message: str) -> NoReturn:
        unknown, ignored = "unrecognized arguments: ", ": ignored explicit argument "
        required = "the following arguments are required: "
        if message.startswith(unknown):
            name = message.removeprefix(unknown).split()[0].split("=")[0]
            message = f"unknown option {name}; {did_you_mean(name, self._option_string_actions)}"
        elif ignored in message:
            name, value = message.removeprefix("argument ").split(ignored)
            message = f"{name}: expected no value, got {value}; {name} is a flag: {self._option_string_actions[name].help}; "
        elif message.startswith(required):
            name = message.removeprefix(required).split(",")[0]
            what = next((action.help for action in self._actions if name in (action.metavar, *action.option_strings)), None)
            message = f"expected {name}, got none: {what}; "
        else:
            message = message.removeprefix("argument ").replace("invalid int value: ", "expected an integer, got ") + "; "
            message = re.sub("expected (one|at least one) argument", "expected a value, got none", message)
        self.exit(2, f"{self.prog}: {message}{self.prog} --help lists the options\n")


def _words(text: str) -> list[str]:
    """Splits a comma-separated list."""
    return [word.strip() for word in text.split(",") if word.strip()]


def _warmup_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="moec warmup",
        description="Compiles the kernels of all distinct layers and ranks of a model into the kernel cache, so that a load "
        "compiles nothing. Needs NVRTC and no GPU. Give the options that moec.compile() will be given.",
        allow_abbrev=False,
    )
    parser.add_argument("model", metavar="MODEL", help="a config.json, a layer JSON or a model's folder")
    parser.add_argument(
        "--arch", nargs="+", type=_words, help="what to compile for, such as sm_90a or h100; absent or native: the GPU here"
    )
    parser.add_argument(
        "--gpu", help="the GPU that schedules assume (moec list gpus); absent: this machine's GPU, else the arch's default"
    )
    for name, what in (
        ("scheme", "quantization scheme"),
        ("dtype", "type of activations"),
        ("logits-dtype", "type of the router's logits"),
        ("weights-dtype", "type of stored floats that are quantized at load"),
        ("placement", "placement of experts on ranks"),
        ("all-to-all", "the transport between ranks"),
        ("backend", "forces a backend"),
        ("engine", "forces an engine"),
        ("accumulate", "f32 or fast"),
    ):
        parser.add_argument(f"--{name}", help=what)
    for name, what in (("tp", "ranks that share each expert"), ("pcp", "prefill-context ranks"), ("dp", "data parallel ranks")):
        parser.add_argument(f"--{name}", type=int, metavar="N", help=what)
    parser.add_argument("--sp", type=int, metavar="N", help="ranks that split a sequence's tokens")
    parser.add_argument("--ep", action="store_true", help="spread whole experts over all ranks")
    ranks = parser.add_mutually_exclusive_group()
    ranks.add_argument("--rank", type=int, metavar="R", help="one rank; absent: all ranks of --tp, --pcp and --dp")
    ranks.add_argument("--all-ranks", action="store_true", help="all ranks, also of a layout that MODEL itself specifies")
    parser.add_argument("--layer", type=int, nargs="+", metavar="N", help="layers of the model; absent: all that have experts")
    parser.add_argument("--max-tokens", type=int, default=8192, metavar="N", help="maximum tokens of a run (default: 8192)")
    parser.add_argument("--no-shared-experts", action="store_true", help="the caller computes the shared experts")
    parser.add_argument(
        "--ignore-field", nargs="+", type=_words, metavar="KEY", help="keys of config.json without influence on the layer"
    )
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="compilations at once; 0: by cores and memory")
    parser.add_argument("--cache-dir", metavar="DIR", help="the kernel cache (default: MOEC_CACHE_DIR, else ~/.cache/moec)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _warmup(arguments: Sequence[str]) -> int:
    from moec._warmup import warmup
    from moec.errors import MoecError

    options = vars(_warmup_parser().parse_args(arguments))
    model, as_json, layers = options.pop("model"), options.pop("json"), options.pop("layer")
    for name in ("arch", "ignore_field"):
        options[name] = [word for words in options[name] for word in words] if options[name] is not None else None
    try:
        made = warmup(model, layers=layers, **options)
    except (ImportError, MoecError) as error:
        print(f"moec warmup: {error}", file=sys.stderr)
        return 1
    print(json.dumps(dataclasses.asdict(made), indent=2) if as_json else made)
    return 0


def _of_library(arguments: Sequence[str]) -> int:
    from moec import _nvrtc
    from moec._library import library
    from moec.errors import NoCompiler

    try:
        entry = library().main
    except (ImportError, NoCompiler) as error:
        print(f"moec: {error}", file=sys.stderr)
        return 1
    if nvrtc := _nvrtc.find_nvrtc():
        os.environ["MOEC_NVRTC_PATH"] = str(nvrtc)
    # `moec doctor` inspects this interpreter.
    os.environ.setdefault("MOEC_PYTHON", sys.executable)
    # Python handles signals only after the library's command has returned, so the default action is restored.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    words = [b"moec", *map(os.fsencode, arguments)]
    sys.stdout.flush()
    return int(entry(len(words), (ctypes.c_char_p * (len(words) + 1))(*words, None)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["help"] and words[1:2] in (["warmup"], ["bench"]):
        words = [words[1], "--help"]
    try:
        if words[:1] == ["warmup"]:
            return _warmup(words[1:])
        if words[:1] == ["bench"]:
            from moec.bench.command import command

            return command(words[1:], _Parser)
        if words[:1] == ["doctor"] and "--gpu" in words:
            from moec.card.command import command as card_command

            return card_command(words[1:], _Parser)
    except KeyboardInterrupt:
        print(f"moec {words[0]}: interrupted; what was compiled stays in the cache", file=sys.stderr, flush=True)
        # Ends by the signal itself, so that a waiting shell sees that the user interrupted the command.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return _of_library(words)
