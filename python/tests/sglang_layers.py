# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""MoE layers of SGLang with random weights. sglang_files.prepare() comes before the import."""

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from engine_cases import BF16, FLOAT, TENSOR, compressed_config, compressed_fp8_cases, compressed_integer_cases, fp8_cases
from engine_layers import (
    EXPERTS,
    HIDDEN,
    INTERMEDIATE,
    MOST_CAPTURED,
    MOST_TOKENS,
    OF_CODES,
    OF_F16,
    OF_WEIGHTS,
    TOP_K,
    Built,
    Case,
    computed,
    error,
    random_inputs,
    random_weights,
    rows_in_turn,
    softmax_top_k,
    without_gate,
)
from engine_schemes import (
    Store,
    Tensor,
    dynamic_tensor,
    store_fp8_tensor,
    store_integers,
    store_mxfp4,
    to_bf16,
)

__all__ = ["CASES", "EXPERTS", "HIDDEN", "TOP_K", "build", "computed", "error", "forward", "inputs", "rank", "start"]


def start(**options: Any) -> Any:
    """SGLang's configuration of one rank. options: server arguments. Its .restore() drops the configuration."""
    from sglang.srt.layers.moe.utils import initialize_moe_config
    from sglang.srt.model_executor.cuda_graph_config import CudaGraphConfig
    from sglang.srt.runtime_context import get_context, get_parallel

    graphs = {"decode": {"backend": "full", "max_bs": MOST_CAPTURED}, "prefill": {"backend": "disabled"}}
    arguments = {"chunked_prefill_size": MOST_TOKENS, "cuda_graph_config": CudaGraphConfig.from_dict(graphs)} | options
    made = get_context().override_server_args(**arguments)
    made.install()
    initialize_moe_config()
    # The layers of one process name the group of ranks, and do not use it.
    get_parallel().override_permanently(moe_ep_rank=0, moe_tp_rank=0, tp_group=object())
    return made


@contextlib.contextmanager
def rank(device: str = "cpu", **values: int) -> Iterator[None]:
    """A rank of expert or tensor parallel: moe_ep_size, moe_ep_rank, moe_tp_size, moe_tp_rank."""
    from sglang.srt.runtime_context import get_parallel

    ranks = values.get("moe_ep_size", 1) * values.get("moe_tp_size", 1)
    place = values.get("moe_ep_rank", 0) + values.get("moe_tp_rank", 0)
    topology = {"tp_size": ranks, "tp_rank": place, "attn_tp_size": ranks, "attn_tp_rank": place, **values}
    # SGLang's dispatcher asks for the accelerator.
    accelerator = mock.patch("sglang.srt.layers.moe.token_dispatcher.standard.get_device", return_value=device)
    with get_parallel().override(**topology), accelerator:
        yield


def _of(module: str, name: str, **config: Any) -> Callable[[], Any]:
    def make() -> Any:
        where = importlib.import_module(f"sglang.srt.layers.quantization.{module}")
        # AWQ's configuration asks for a GPU of Marlin's. SGLang's layer does not.
        with mock.patch("sglang.srt.layers.quantization.marlin_utils.get_device_capability", return_value=(9, 0)):
            return getattr(where, name).from_config(config)

    return make


def _plain(module: str, name: str, **options: Any) -> Any:
    return getattr(importlib.import_module(f"sglang.srt.layers.quantization.{module}"), name)(**options)


def _fp8(**config: Any) -> Callable[[], Any]:
    return _of("fp8", "Fp8Config", quant_method="fp8", **config)


def _compressed(kind: str, weights: dict[str, Any], inputs: dict[str, Any] | None) -> Callable[[], Any]:
    return _of("compressed_tensors.compressed_tensors", "CompressedTensorsConfig", **compressed_config(kind, weights, inputs))


def _gptq(bits: int, group: int, **config: Any) -> Callable[[], Any]:
    return _of("gptq.gptq", "GPTQMarlinConfig", bits=bits, group_size=group, **_GPTQ | config)


_CT, _GM = "CompressedTensorsFusedMoEMethod", "GPTQMarlinMoEMethod"
_GPTQ = {"quant_method": "gptq", "desc_act": False, "sym": True, "lm_head": False, "dynamic": {}}
_AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}


def store_gptq_of_f16(group: int, bits: int = 4) -> Store:
    """SGLang keeps GPTQ's scales in f16."""
    return store_integers("gptq", group, bits=bits, dtype=torch.float16)


def to_f16(rows: Tensor) -> Tensor:
    return rows.half().double()


CASES = (
    BF16,
    *fp8_cases(_fp8),
    *compressed_fp8_cases(_compressed, _CT),
    Case(
        "compressed fp8 tensor, dynamic",
        "fp8_tensor_dynamic",
        _CT,
        _compressed(FLOAT, TENSOR, TENSOR | {"dynamic": True}),
        store_fp8_tensor(None),
        dynamic_tensor,
        OF_CODES,
    ),
    *compressed_integer_cases(_compressed, _CT),
    Case(
        "gpt-oss",
        "mxfp4_w4a16",
        "Mxfp4MoEMethod",
        _of("mxfp4", "Mxfp4Config", quant_method="mxfp4"),
        store_mxfp4,
        to_bf16,
        OF_WEIGHTS,
        "swigluoai",
    ),
    Case("GPTQ int4", "int4_w4a16", _GM, _gptq(4, 32), store_gptq_of_f16(32), to_f16, OF_F16),
    Case("GPTQ int8", "int8_w8a16", _GM, _gptq(8, 32), store_gptq_of_f16(32, 8), to_f16, OF_F16),
    Case("GPTQ by channel", "int4_w4a16", _GM, _gptq(4, -1), store_gptq_of_f16(-1), to_f16, OF_F16),
    Case(
        "AWQ",
        "int4_zp_w4a16",
        "AWQMoEMethod",
        _of("awq.awq", "AWQMarlinConfig", **_AWQ),
        store_integers("awq", 32, zero_points=True),
        to_bf16,
        OF_WEIGHTS,
    ),
)

_built = 0


def build(
    case: Case,
    device: str = "cpu",
    *,
    has_bias: bool = False,
    packs: bool = True,
    dtype: Any = None,
    logical: int | None = None,
    seed: int = 7,
    **options: Any,
) -> Built:
    """Makes the layer by SGLang's FusedMoE, fills it by its weight_loader, and packs it. options: FusedMoE's.

    logical: the number of experts that are loaded, if there are more physical ones.
    """
    from sglang.srt.layers.moe.fused_moe_triton.layer import FusedMoE

    global _built  # noqa: PLW0603
    _built += 1
    arguments: dict[str, Any] = {"num_experts": EXPERTS, "top_k": TOP_K, "hidden_size": HIDDEN, "intermediate_size": INTERMEDIATE}
    # SGLang keeps GPTQ's scales in f16.
    usual = torch.float16 if case.method == _GM else torch.bfloat16
    arguments |= {"params_dtype": dtype or usual, "with_bias": has_bias, "layer_id": _built} | options
    if case.act == "swigluoai":
        arguments |= {"gemm1_alpha": 1.702, "gemm1_clamp_limit": 7.0}
    elif without_gate(case.act):
        arguments |= {"activation": case.act.removesuffix("_no_mul"), "is_gated": False}
    else:
        arguments.setdefault("activation", case.act)
    with torch.device(device):
        layer = FusedMoE(prefix=f"model.layers.{_built}.mlp.experts", quant_config=case.config(), **arguments)
    experts, hidden, width = (arguments[name] for name in ("num_experts", "hidden_size", "intermediate_size"))
    made = random_weights(case, experts=logical or experts, hidden=hidden, width=width, has_bias=has_bias, seed=seed)
    load(layer, case, made, width)
    if packs:
        layer.quant_method.process_weights_after_loading(layer)
    return Built(layer, *made[1:])


def load(layer: Any, case: Case, made: Any, width: int, without: tuple[Any, ...] = ()) -> None:
    """Fills the layer by SGLang's weight_loader. without: the parameter and expert, or the shard, that does not come."""
    if case.method == "Mxfp4MoEMethod":
        _load_gpt_oss(layer, [rows_in_turn(tensors) for tensors in made.tensors], width)
        return
    for expert, tensors in enumerate(made.tensors):
        for shard, named in tensors.items():
            for ending, tensor in named.items():
                name = f"{'w2' if shard == 'w2' else 'w13'}_{ending}"
                if without not in ((name, expert), (shard,)):
                    _load(layer, name, tensor, shard, expert)


def _load(layer: Any, name: str, tensor: Tensor, shard: str, expert: int) -> None:
    if name.endswith("_bias"):
        # SGLang's models with biases load them for all experts at once.
        _bias(layer, f"{name.removesuffix('_bias')}_weight_bias", tensor, shard, expert)
        return
    parameter = getattr(layer, name)
    parameter.weight_loader(parameter, tensor, f"{layer.layer_name}.{name}", shard, expert)


def _bias(layer: Any, name: str, tensor: Tensor, shard: str, expert: int) -> None:
    rows = getattr(layer, name).data[expert]
    half = len(rows) // 2
    target = rows[half:] if shard == "w3" else rows[:half] if shard == "w1" else rows
    target.copy_(tensor)


def _load_gpt_oss(layer: Any, experts: list[dict[str, dict[str, Tensor]]], width: int) -> None:
    """As SGLang's model of gpt-oss does: it cuts tensors of all experts for ranks, and its loader copies them."""
    local = experts[layer.moe_ep_rank * layer.num_local_experts :][: layer.num_local_experts]
    share = width // layer.moe_tp_size
    first = layer.moe_tp_rank * share
    for matrix in ("w13", "w2"):
        for ending in local[0][matrix]:
            tensor = torch.stack([each[matrix][ending] for each in local])
            if matrix == "w13":
                tensor = tensor[:, 2 * first : 2 * (first + share)]
            elif ending == "bias":
                # One rank adds it.
                tensor = tensor if layer.moe_tp_rank == 0 else torch.zeros_like(tensor)
            else:
                part = {"weight": 2, "weight_scale": 32}[ending]
                tensor = tensor[..., first // part : (first + share) // part]
            name = f"{matrix}_weight_bias" if ending == "bias" else f"{matrix}_{ending}"
            parameter = getattr(layer, name)
            parameter.weight_loader(parameter, tensor, f"{layer.layer_name}.{name}", shard_id=None, expert_id=None)


def inputs(tokens: int, hidden: int = HIDDEN) -> tuple[Tensor, Tensor, Tensor]:
    """x in bf16, ids, and weights in double."""
    x, logits = random_inputs(tokens, hidden=hidden)
    return x, *softmax_top_k(logits, TOP_K, True)


def forward(layer: Any, x: Tensor, ids: Tensor, weights: Tensor) -> Tensor:
    """SGLang's own forward: dispatch, the method, combine."""
    from sglang.srt.layers.moe.topk import StandardTopKOutput

    made: Tensor = layer(x, StandardTopKOutput(weights.float().to(x.device), ids.int().to(x.device), torch.empty(0)))
    return made
