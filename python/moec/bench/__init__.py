# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times a layer on this GPU, and compares it with other systems that are installed."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from moec.bench.table import Result
from moec.compiler import Source

__all__ = ["Result", "bench"]


def bench(
    layers: Sequence[Source],
    *,
    tokens: Sequence[int],
    schemes: Sequence[str] = (),
    systems: Sequence[str] | None = None,
    skew: float = 0.0,
    passes: int = 3,
    limit_s: float = 300,
    progress: Callable[[str], None] | None = None,
    **options: Any,
) -> Result:
    """Times layers from logits to the reduced output, in CUDA graphs that run in alternation.

    layers: as moec.compile() accepts them.
    schemes: quantization schemes to time each layer with. Empty: the layer's own scheme.
    systems: names of moec.bench.systems.SYSTEMS. None: all. A system that is not installed is listed in the result.
    skew: 0: uniform routing. s: the expert of rank r is selected with odds (r + 1)^-s.
    passes: number of passes over all systems; a time is the median of the passes.
    limit_s: a system whose compilation or run takes longer is left out.
    options: the options of moec.compile().

    Raises InvalidArgument for an unknown system, NotSupported for a layer that moec does not support or has no random weights
    for, ImportError without torch, NoDriver without a GPU, and RuntimeError if moec's own run fails.
    """
    import moec
    from moec import _gpu, catalog, explain, load
    from moec._words import did_you_mean
    from moec.bench import table, worker
    from moec.bench.case import Case
    from moec.bench.systems import SYSTEMS
    from moec.compiler import compile as compile_layer
    from moec.compiler import text_of
    from moec.errors import InvalidArgument, NoDriver, NotSupported

    known = {each.name: each for each in SYSTEMS}
    if unknown := [name for name in systems or () if name not in known]:
        raise InvalidArgument(
            f"systems: unknown system {unknown[0]!r}; {did_you_mean(unknown[0], known)}known: {', '.join(known)}"
        )
    if skew < 0:
        raise InvalidArgument(f"skew: expected 0 or more, got {skew}")
    if limit_s <= 0:
        raise InvalidArgument(f"limit_s: expected seconds above 0, got {limit_s}")
    try:
        import torch

        lacks_gpu = "" if torch.cuda.is_available() else "PyTorch finds no GPU here; moec explain predicts times without one"
    except ImportError as error:
        torch, lacks_gpu = None, f"torch is needed to time layers: {error}"
    if lacks_gpu:
        # A wrong layer or option is reported before a missing GPU.
        for source in layers:
            for scheme in schemes or (None,):
                report = explain(source, **(options | {"arch": "sm_90a"} | ({"scheme": scheme} if scheme else {})))
                if not report.served:
                    raise NotSupported(report.message)
        raise NoDriver(lacks_gpu) if torch else ImportError(lacks_gpu)
    asked = tuple(name for name in known if name in (systems if systems is not None else known))
    found = list(worker.found_of(asked, limit_s))
    versions = {worker.MOEC: moec.__version__, "torch": str(torch.__version__)}
    versions |= {each.system: each.version for each in found if not each.refusal}
    missing = {each.system: each.refusal for each in found if each.refusal}
    names = (worker.MOEC, *(each.system for each in found if not each.refusal))
    arch, gpu = _gpu.current_arch(), ""
    rows: list[worker.Row] = []
    for source in layers:
        for scheme in schemes or (None,):
            given = options | {"arch": arch} | ({"scheme": scheme} if scheme else {})
            # Invalid input is reported here, before a process is started.
            manifest = load(compile_layer(source, **given), device="host").manifest
            case = Case.of(manifest["layer"])
            gpu = manifest["targets"][0].get("gpu", "")
            timed = tuple(name for name in names if name == worker.MOEC or not known[name].refusal(case))
            job = worker.Job(json.loads(text_of(source)), given, tuple(tokens), timed, skew, passes)
            for row in worker.rows_of(job, limit_s):
                rows.append(row)
                if progress:
                    progress(f"{row.layer} {row.scheme} {row.tokens} {row.system}: {row.refusal or f'{row.us:.1f} us'}")
    routing = f"zipf{skew:g}" if skew else "uniform"
    return Result(torch.cuda.get_device_name(), versions, missing, table.rates_of(gpu, catalog()), routing, rows)
