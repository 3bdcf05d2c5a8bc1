# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs of a packed layer, which torch.compile takes as one operation where an engine lets it trace its MoE layers."""

import weakref

import torch

from moec.errors import InvalidArgument
from moec.integrations._packing import contiguous
from moec.layer import Layer
from moec.torch.ops import register, release


def run(moec_layer: Layer, x: torch.Tensor, out: torch.Tensor, expert_map: torch.Tensor | None, **inputs: torch.Tensor) -> None:
    """Writes `out` [tokens, hidden]: the weighted sum over this rank's experts, computed from x [tokens, hidden]."""
    if x.shape[0] == 0:
        return
    _check_map(expert_map, expected="expert_map" in moec_layer.package.values)
    if expert_map is not None:
        inputs["expert_map"] = expert_map
    given = {name: tensor.contiguous() for name, tensor in inputs.items()}
    moec_layer(contiguous(x), out=out, **given)


def _check_map(expert_map: torch.Tensor | None, *, expected: bool) -> None:
    if expected and expert_map is None:
        raise InvalidArgument("expert_map: expected vLLM's map of experts, since this rank has some of them; got None")
    if expert_map is not None and not expected:
        raise InvalidArgument("expert_map: expected None, since this rank has all experts; got a map")


class OpaqueRun:
    """run() of one layer, which compiled code calls as the operation moec::run_out.

    vLLM makes its MoE layer one operation of compiled code on GPUs, but calls it directly on the processor.
    """

    def __init__(self, moec_layer: Layer) -> None:
        self._layer = moec_layer
        self._takes_map = "expert_map" in moec_layer.package.values
        self._number: int | None = None
        if moec_layer.package.gpu is None:
            self._number = register(moec_layer)
            weakref.finalize(self, release, self._number).atexit = False

    def __call__(self, x: torch.Tensor, out: torch.Tensor, expert_map: torch.Tensor | None, **inputs: torch.Tensor) -> None:
        """Like run(), whose layer it is. inputs: logits, or topk_ids and topk_weights."""
        if self._number is None or not torch.compiler.is_compiling():
            run(self._layer, x, out, expert_map, **inputs)
            return
        _check_map(expert_map, expected=self._takes_map)
        logits, ids, weights = map(inputs.get, ("logits", "topk_ids", "topk_weights"))
        torch.ops.moec.run_out(
            self._number,
            x.contiguous(),
            None if logits is None else logits.contiguous(),
            None if ids is None else ids.contiguous(),
            None if weights is None else weights.contiguous(),
            expert_map,
            out,
        )
