# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""MoE layers of vLLM's factory with random weights.

vllm_files.prepare() comes before the import.
"""

import contextlib
import importlib
import os
import socket
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from engine_layers import (
    EXPERTS,
    HIDDEN,
    INTERMEDIATE,
    MOST_CAPTURED,
    MOST_TOKENS,
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
from engine_schemes import Tensor

__all__ = ["EXPERTS", "HIDDEN", "INTERMEDIATE", "MOST_CAPTURED", "MOST_TOKENS", "TOP_K", "Built", "Kernel"]
__all__ += ["any_backend", "build", "computed", "error", "given", "random_inputs", "softmax_top_k", "start"]


def start(device: str, *, rank: int = 0, ranks: int = 1, port: int = 0, transport: str = "", redundant: int | None = None) -> Any:
    """vLLM's configuration, with a process group of this rank, or of ranks of data parallel that split the experts.

    redundant: the number of redundant experts of vLLM's load balancing (EPLB); None without it.
    """
    from vllm.config import DeviceConfig, ParallelConfig, VllmConfig, set_current_vllm_config
    from vllm.config.parallel import EPLBConfig
    from vllm.distributed import init_distributed_environment, initialize_model_parallel
    from vllm.distributed.parallel_state import model_parallel_is_initialized

    if not port:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
    engine = VllmConfig(device_config=DeviceConfig(device))
    if ranks > 1:
        engine.parallel_config = ParallelConfig(
            data_parallel_size=ranks,
            data_parallel_rank=rank,
            data_parallel_master_ip="127.0.0.1",
            enable_expert_parallel=True,
            all2all_backend=transport,
        )
        engine.parallel_config._data_parallel_master_port_list = [port]
    if redundant is not None:
        # vLLM's check asks for a GPU.
        engine.parallel_config.enable_eplb = True
        engine.parallel_config.eplb_config = EPLBConfig(
            num_redundant_experts=redundant, window_size=4, use_async=False, communicator="torch_nccl"
        )
    # Few variants of kernels to compile, and small graphs.
    engine.scheduler_config.max_num_batched_tokens = MOST_TOKENS
    engine.compilation_config.max_cudagraph_capture_size = MOST_CAPTURED
    if not model_parallel_is_initialized():
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        with set_current_vllm_config(engine):
            # vLLM makes the rank and the size from those of data parallel.
            init_distributed_environment(1, 0, f"tcp://127.0.0.1:{port}", 0, "gloo" if device == "cpu" else "nccl")
            initialize_model_parallel(1, 1)
    if device == "cuda":
        from vllm.v1.worker.workspace import init_workspace_manager

        # The modular kernel takes its output from it.
        init_workspace_manager(torch.device("cuda", torch.cuda.current_device()))
    return engine


@contextlib.contextmanager
def any_backend() -> Iterator[None]:
    """vLLM's choice among its own kernels, none of which is here, takes one that pads nothing."""
    layers = "vllm.model_executor.layers"
    ct = f"{layers}.quantization.compressed_tensors.compressed_tensors_moe.compressed_tensors_moe"
    choices = (
        ("fused_moe.oracle.unquantized.UnquantizedMoeBackend.TRITON", "select_unquantized_moe_backend",
         [f"{layers}.fused_moe.unquantized_fused_moe_method"]),
        ("fused_moe.oracle.fp8.Fp8MoeBackend.TRITON", "select_fp8_moe_backend",
         [f"{layers}.quantization.fp8", f"{ct}_w8a8_fp8", f"{layers}.quantization.modelopt"]),
        ("fused_moe.oracle.int8.Int8MoeBackend.TRITON", "select_int8_moe_backend", [f"{ct}_w8a8_int8"]),
        ("fused_moe.oracle.int_wna16.WNA16MoEBackend.MARLIN", "select_wna16_moe_backend",
         [f"{layers}.quantization.auto_gptq", f"{layers}.quantization.auto_awq", f"{ct}_wna16"]),
        ("fused_moe.oracle.mxfp4.Mxfp4MoeBackend.MARLIN", "select_mxfp4_moe_backend", [f"{layers}.quantization.mxfp4"]),
        ("fused_moe.oracle.mxfp4.Mxfp4MoeBackend.MARLIN", "select_deepseek_v4_mxfp4_moe_backend",
         [f"{layers}.quantization.mxfp4"]),
        ("fused_moe.oracle.nvfp4.NvFp4MoeBackend.MARLIN", "select_nvfp4_moe_backend",
         [f"{layers}.quantization.modelopt", f"{ct}_w4a4_nvfp4"]),
    )  # fmt: skip
    with contextlib.ExitStack() as stack:
        for backend, function, modules in choices:
            module, kind, member = backend.rsplit(".", 2)
            made = getattr(importlib.import_module(f"{layers}.{module}"), kind)[member]
            for each in modules:
                importlib.import_module(each)
                stack.enter_context(mock.patch(f"{each}.{function}", lambda *a, _made=made, **o: (_made, None)))
        stack.enter_context(mock.patch(f"{ct}_wna16.check_moe_marlin_supports_config", return_value=True))
        yield


def given(hidden_states: Tensor, gating_output: Tensor, topk: int, renormalize: bool) -> tuple[Tensor, Tensor]:
    """A router of the model's own, so that vLLM routes and moec gets ids and weights. vLLM's compiled one is absent."""
    ids, weights = softmax_top_k(gating_output, topk, renormalize)
    return weights.float(), ids.int()


_built = 0


def of_parameters(case: Case, made: Any) -> Iterator[tuple[int, str, str, Tensor]]:
    """The tensors of a checkpoint: the expert, the shard, the name of the parameter and the tensor."""
    for expert, tensors in enumerate(made.tensors):
        if case.method == "GptOssMxfp4MoEMethod":
            tensors = {f"gpt_oss_{matrix}": named for matrix, named in rows_in_turn(tensors).items()}  # noqa: PLW2901
        for shard, named in tensors.items():
            for ending, tensor in named.items():
                yield expert, shard, f"{'w2' if shard.endswith('w2') else 'w13'}_{ending}", tensor


def build(
    engine: Any,
    case: Case,
    device: str,
    *,
    has_bias: bool = False,
    packs: bool = True,
    placed: Sequence[int] | None = None,
    **options: Any,
) -> Built:
    """Makes the layer by vLLM's factory, fills it by vLLM's weight_loader, and packs it. options: the factory's.

    placed: the logical expert of each physical one, with EPLB. None: the experts in order.
    """
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.layers.fused_moe.layer import FusedMoEFactory

    global _built  # noqa: PLW0603
    _built += 1
    arguments: dict[str, Any] = {"num_experts": EXPERTS, "top_k": TOP_K, "hidden_size": HIDDEN, "intermediate_size": INTERMEDIATE}
    arguments |= {"params_dtype": torch.bfloat16, "activation": case.act, "has_bias": has_bias} | options
    if case.method == "GptOssMxfp4MoEMethod":
        # The model's own class, whose weight_loader cuts tensors for ranks.
        from vllm.model_executor.models.gpt_oss import GptOssRoutedExperts

        arguments["routed_experts_cls"] = GptOssRoutedExperts
    if without_gate(case.act):
        arguments["ckpt_names"] = ("up_proj", "down_proj", None)
    with set_current_vllm_config(engine), any_backend(), torch.device(device):
        runner = FusedMoEFactory(prefix=f"model.layers.{_built}.mlp.experts", quant_config=case.config(), **arguments)
    experts, hidden, width = (arguments[name] for name in ("num_experts", "hidden_size", "intermediate_size"))
    layer = runner.routed_experts
    made = random_weights(case, experts=experts, hidden=hidden, width=width, has_bias=has_bias)
    for expert, shard, name, tensor in of_parameters(case, made):
        parameter = getattr(layer, name)
        for place in [expert] if placed is None else [at for at, logical in enumerate(placed) if logical == expert]:
            parameter.weight_loader(parameter, tensor.to(device), f"{layer.layer_name}.{name}", shard, place)
    if packs:
        layer.quant_method.process_weights_after_loading(layer)

    return Built(runner, *made[1:])


class Kernel:
    """vLLM's modular kernel over the packed experts of a layer, with the arguments that vLLM's methods give."""

    def __init__(self, built: Built) -> None:
        from vllm.model_executor.layers.fused_moe.prepare_finalize import make_moe_prepare_and_finalize_no_dp_ep

        from moec.integrations._vllm_experts import kernel_of

        self.layer = built.runner.routed_experts
        method, transport = self.layer.quant_method, make_moe_prepare_and_finalize_no_dp_ep(False)
        self.kernel = kernel_of(self.layer.moe_config, transport, method.moec_plan, method.moec_layer)
        self.experts = self.kernel.fused_experts

    def __call__(self, x: Tensor, weights: Tensor, ids: Tensor, **other: Any) -> Any:
        """[tokens, hidden]. other: arguments in place of those of the layer."""
        empty = x.new_empty(self.layer.local_num_experts, 0, 0)
        arguments: dict[str, Any] = {"w1": empty, "w2": empty, "activation": self.layer.activation}
        arguments |= {"global_num_experts": self.layer.global_num_experts, "expert_map": self.layer.expert_map}
        arguments |= {"apply_router_weight_on_input": False} | other
        return self.kernel.apply(x, topk_weights=weights, topk_ids=ids, **arguments)
