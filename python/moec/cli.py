# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command moec: `moec env` is here, every other command is the library's."""

import ctypes
import json
import os
import signal
import sys
from collections.abc import Sequence

USAGE = """usage: moec env [--json] [--compile]

  env     versions, GPUs, NVRTC and paths, to paste into an issue; --compile also compiles a small layer
"""


def _env(arguments: Sequence[str]) -> int:
    from moec import _environment

    if unknown := [word for word in arguments if word not in ("--json", "--compile")]:
        print(f"moec env: expected --json or --compile, got {' '.join(unknown)}", file=sys.stderr)
        return 2
    found = _environment.facts(compiles="--compile" in arguments)
    print(json.dumps(found, indent=2) if "--json" in arguments else _environment.as_text(found))
    return 1 if "error" in found["library"] or "error" in found.get("compile", {}) else 0


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
    # Python itself looks at signals when the command has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    words = [b"moec", *map(os.fsencode, arguments)]
    sys.stdout.flush()
    return int(entry(len(words), (ctypes.c_char_p * (len(words) + 1))(*words, None)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["env"]:
        return _env(words[1:])
    if words in (["-h"], ["--help"]):
        print(USAGE)
    return _of_library(words)
