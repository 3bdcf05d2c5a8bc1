# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""fused_experts() with vLLM's signature. Each pair of weights (w1, w2) is packed once."""

import threading
from collections import OrderedDict
from typing import Any

import torch

from moec.errors import Capturing, InvalidArgument
from moec.torch.modules import Experts

# Maximum number of packed copies that are kept, together with their original weights.
MOST_LAYERS = 256

_lock = threading.Lock()
_kept: "OrderedDict[tuple[Any, ...], tuple[Experts, torch.Tensor, torch.Tensor]]" = OrderedDict()


def clear() -> None:
    """Frees all packed copies."""
    with _lock:
        _kept.clear()


def _key_of(tensor: torch.Tensor, name: str) -> tuple[Any, ...]:
    if tensor.is_inference():
        raise InvalidArgument(
            f"{name} was made in inference mode, where torch does not count changes; use moec.torch.Experts.from_weights"
        )
    return (tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, tensor.device, tensor._version)


def rank_of(experts: int, local: int) -> dict[str, int | bool]:
    """Returns the fields of moe_parallel_config for a rank with `local` experts. Any such rank may be chosen, because the expert
    map defines which experts they are."""
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
    """Computes the experts of a layer. Returns [tokens, hidden] in the type of hidden_states.

    hidden_states: [tokens, hidden].
    w1: [experts, 2 * intermediate, hidden], gate rows followed by up rows.
    w2: [experts, hidden, intermediate].
    topk_weights, topk_ids: [tokens, top_k].
    inplace: writes the result to hidden_states.
    activation, apply_router_weight_on_input: as in a layer JSON.
    global_num_experts: the number of experts of all ranks; -1: the number of experts in w1.
    expert_map: int32 [global_num_experts], the local index of each expert, or -1.
    quant_config: must be None. For quantized weights use moec.torch.Experts.from_weights.
    options: the options of moec.compile().

    The first call with a pair of weights compiles the layer and packs a copy, which cannot be captured in a CUDA graph. The copy
    and the weights are kept until the weights change or moec.torch.functional.clear() is called. Raises InvalidArgument for
    weights created in inference mode, and Capturing if the first call is captured.
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
        # Keeps the weights alive with the copy, so that no other tensor can have their addresses, which are part of the key.
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
