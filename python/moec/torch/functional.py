# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""fused_experts() with vLLM's signature. Each pair of weights is packed once."""

import threading
from collections import OrderedDict
from typing import Any

import torch

from moec.errors import Capturing, InvalidArgument
from moec.torch.modules import Experts

# The packed copies that are kept, and the weights with them.
MOST_LAYERS = 256

_lock = threading.Lock()
_kept: "OrderedDict[tuple[Any, ...], tuple[Experts, torch.Tensor, torch.Tensor]]" = OrderedDict()


def clear() -> None:
    """Frees the packed copies."""
    with _lock:
        _kept.clear()


def _key_of(tensor: torch.Tensor, name: str) -> tuple[Any, ...]:
    if tensor.is_inference():
        raise InvalidArgument(
            f"{name} was made in inference mode, where torch does not count changes; use moec.torch.Experts.from_weights"
        )
    return (tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, tensor.device, tensor._version)


def rank_of(experts: int, local: int) -> dict[str, int | bool]:
    """Fields of moe_parallel_config for a rank with so many local experts. Any map may then say which."""
    for ranks in range(1, experts + 1):
        count, rest = divmod(experts, ranks)
        if local == count or (rest and local == count + 1):
            return {"tp_size": ranks, "tp_rank": ranks - 1 if local == count else 0, "use_ep": True}
    raise InvalidArgument(f"expert_map: {experts} experts, spread evenly, never make {local} on a rank")


def fused_experts(
    hidden_states: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    *,
    inplace: bool = False,
    activation: str = "silu",
    apply_router_weight_on_input: bool = False,
    global_num_experts: int = -1,
    expert_map: torch.Tensor | None = None,
    quant_config: Any = None,
    **options: Any,
) -> torch.Tensor:
    """[tokens, hidden] of hidden_states [tokens, hidden].

    w1: [experts, gates then ups, hidden]. w2: [experts, hidden, intermediate]. topk_ids, topk_weights: [tokens, top_k].
    expert_map: int32 [global_num_experts], the local expert of each or -1.
    inplace: writes into hidden_states. quant_config: None; for quantized weights use moec.torch.Experts.from_weights.
    options: those of moec.compile().

    The first call for a pair of weights compiles and packs a copy, which is kept with the weights until they change, or
    until moec.torch.functional.clear(). It may not be captured in a CUDA graph.
    """
    if quant_config is not None:
        raise InvalidArgument("quant_config: expected None; for quantized weights use moec.torch.Experts.from_weights")
    if topk_ids.dim() != 2:
        raise InvalidArgument(f"topk_ids: expected [tokens, top_k], got {list(topk_ids.shape)}")
    top_k = topk_ids.shape[1]
    experts = w1.shape[0] if global_num_experts < 0 else global_num_experts
    if expert_map is None and experts != w1.shape[0]:
        raise InvalidArgument(f"expert_map: expected a map, since w1 has {w1.shape[0]} of {experts} experts")
    flags = (hidden_states.dtype, top_k, activation, apply_router_weight_on_input, experts, expert_map is not None)
    key = (_key_of(w1, "w1"), _key_of(w2, "w2"), flags, repr(sorted(options.items())))
    with _lock:
        found = _kept.get(key)
        if found:
            _kept.move_to_end(key)
    if found is None:
        if hidden_states.is_cuda and torch.cuda.is_current_stream_capturing():
            raise Capturing("fused_experts: the first call for a pair of weights packs them; make it before the capture")
        fields: dict[str, Any] = {"num_experts": experts, "apply_router_weight_on_input": apply_router_weight_on_input}
        if expert_map is not None:
            fields |= {"expert_map": True, "moe_parallel_config": rank_of(experts, w1.shape[0])}
        made = Experts.from_weights(
            w1, w2, top_k=top_k, activation=activation, dtype=hidden_states.dtype, fields=fields, **options
        )
        # The weights stay alive with their copy: nothing else may get their addresses.
        found = (made, w1, w2)
        with _lock:
            for old in [
                other for other in _kept if other[0][0] == key[0][0] and other[1][0] == key[1][0] and other[2:] == key[2:]
            ]:
                del _kept[old]
            _kept[key] = found
            while len(_kept) > MOST_LAYERS:
                _kept.popitem(last=False)
    out = hidden_states if inplace else torch.empty_like(hidden_states)
    torch.ops.moec.run_out(found[0]._number, hidden_states, None, topk_ids, topk_weights, expert_map, out)
    return out
