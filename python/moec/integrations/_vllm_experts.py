# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""moec's experts for vLLM's modular kernel, which passes them the tokens that a transport between ranks delivers."""

from typing import Any

import torch
import vllm.model_executor.layers.fused_moe.modular_kernel as mk
from vllm.model_executor.layers.fused_moe.config import FUSED_MOE_UNQUANTIZED_CONFIG
from vllm.model_executor.layers.fused_moe.topk_weight_and_reduce import TopKWeightAndReduceDelegate, TopKWeightAndReduceNoOP
from vllm.platforms import current_platform

from moec.errors import NotSupported
from moec.integrations._opaque import run
from moec.integrations._vllm_plan import TRANSPORTS, Plan
from moec.layer import Layer


class MoecExperts(mk.FusedMoEExpertsModular):  # type: ignore[misc]
    """The packed experts of one layer, between vLLM's prepare and finalize.

    The activations have 16 bits, whatever the scheme, because moec quantizes them itself. vLLM's automatic kernel selection does
    not consider this class, because an instance belongs to one packed layer.
    """

    def __init__(self, moe_config: Any, plan: Plan, moec_layer: Layer, **sizes: int) -> None:
        # Unquantized, so that prepare does not quantize.
        super().__init__(moe_config, FUSED_MOE_UNQUANTIZED_CONFIG, **sizes)
        self._plan, self._moec_layer = plan, moec_layer

    @property
    def expects_unquantized_inputs(self) -> bool:
        return True

    @staticmethod
    def activation_format() -> mk.FusedMoEActivationFormat:
        return mk.FusedMoEActivationFormat.Standard

    @staticmethod
    def _supports_current_device() -> bool:
        return bool(current_platform.is_cuda() or current_platform.is_cpu())

    @staticmethod
    def _supports_no_act_and_mul() -> bool:
        return True

    @staticmethod
    def _supports_quant_scheme(weight_key: Any, activation_key: Any) -> bool:
        """Returns True for unquantized weights and activations. Quantized schemes are handled by the layer's plan."""
        return weight_key is None and activation_key is None

    @staticmethod
    def _supports_activation(activation: Any) -> bool:
        from moec.compiler import catalog

        return activation.value in [row["name"] for row in catalog()["activations"]]

    @staticmethod
    def _supports_parallel_config(moe_parallel_config: Any) -> bool:
        transport = moe_parallel_config.all2all_backend
        return not moe_parallel_config.use_all2all_kernels or transport in TRANSPORTS

    @staticmethod
    def _supports_batch_invariance() -> bool:
        return True

    def moe_problem_size(
        self, a1: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, topk_ids: torch.Tensor
    ) -> tuple[int, int, int, int, int]:
        """Returns the numbers of experts, tokens, columns of w1, hidden size and top_k. The parameters are empty, so the sizes
        come from the plan."""
        source = self._plan.source
        width = 2 * source["intermediate_size"] if self.moe_config.is_act_and_mul else source["intermediate_size"]
        return self.moe_config.num_local_experts, a1.shape[-2], width, a1.shape[-1], topk_ids.shape[1]

    def workspace_shapes(
        self,
        M: int,  # noqa: N803
        N: int,  # noqa: N803
        K: int,  # noqa: N803
        topk: int,
        global_num_experts: int,
        local_num_experts: int,
        expert_tokens_meta: Any,
        activation: Any,
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Returns the shapes of two empty workspaces and of the output. moec uses the memory of its context, whose addresses CUDA
        graphs contain."""
        return (0,), (0,), (M, K)

    def finalize_weight_and_reduce_impl(self) -> Any:
        """Returns a no-op: moec has already weighted and summed the experts of this rank."""
        return TopKWeightAndReduceNoOP()

    def apply(
        self,
        output: torch.Tensor,
        hidden_states: torch.Tensor,
        w1: torch.Tensor,
        w2: torch.Tensor,
        topk_weights: torch.Tensor,
        topk_ids: torch.Tensor,
        activation: Any,
        global_num_experts: int,
        expert_map: torch.Tensor | None,
        a1q_scale: torch.Tensor | None,
        a2_scale: torch.Tensor | None,
        workspace13: torch.Tensor | None,
        workspace2: torch.Tensor | None,
        expert_tokens_meta: Any,
        apply_router_weight_on_input: bool,
    ) -> None:
        """Writes `output` [tokens, hidden], computed from hidden_states [tokens, hidden].

        w1, w2: empty, because moec has packed them.
        topk_weights, topk_ids: [tokens, top_k]. An id that is not an expert, such as -1, adds nothing.
        expert_map: int32 [experts], the local index of each expert, or -1.
        apply_router_weight_on_input: prepare has already multiplied hidden_states by the weights.

        Raises NotSupported if vLLM requests another layer than the packed one.
        """
        self._check(hidden_states, w1, w2, activation, global_num_experts, a1q_scale, a2_scale, apply_router_weight_on_input)
        if apply_router_weight_on_input:
            topk_weights = torch.ones_like(topk_weights)
        run(self._moec_layer, hidden_states, output, expert_map, topk_ids=topk_ids, topk_weights=topk_weights)

    def _check(
        self,
        hidden_states: torch.Tensor,
        w1: torch.Tensor,
        w2: torch.Tensor,
        activation: Any,
        global_num_experts: int,
        a1q_scale: torch.Tensor | None,
        a2_scale: torch.Tensor | None,
        apply_router_weight_on_input: bool,
    ) -> None:
        """Raises NotSupported if vLLM requests another layer than the packed one."""
        source = self._plan.source
        for what, got, expected in (
            ("activation", activation.value, source["activation"]),
            ("global_num_experts", global_num_experts, source["num_experts"]),
            ("apply_router_weight_on_input", apply_router_weight_on_input, self._plan.weights_on_input),
            ("elements of w1 and w2, which moec has packed", w1.numel() + w2.numel(), 0),
            ("type of hidden_states", hidden_states.dtype, self.moe_config.in_dtype),
            ("scales of quantized activations", a1q_scale, None),
            ("scales of the second matmul's activations", a2_scale, None),
        ):
            if got is not expected and (isinstance(got, torch.Tensor) or got != expected):
                shown = "a tensor" if isinstance(got, torch.Tensor) else got
                raise NotSupported(f"moec packed another layer than vLLM runs: {what}: expected {expected}, got {shown}")


class MoecBatchedExperts(MoecExperts):
    """Like MoecExperts, for transports that deliver rows in batched format. The transport weights and sums the resulting rows."""

    @property
    def expects_unquantized_inputs(self) -> bool:
        """Returns False, because these transports reject True. The unquantized configuration already prevents quantization."""
        return False

    @staticmethod
    def activation_format() -> mk.FusedMoEActivationFormat:
        return mk.FusedMoEActivationFormat.BatchedExperts

    def workspace_shapes(
        self,
        M: int,  # noqa: N803
        N: int,  # noqa: N803
        K: int,  # noqa: N803
        topk: int,
        global_num_experts: int,
        local_num_experts: int,
        expert_tokens_meta: Any,
        activation: Any,
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Like MoecExperts.workspace_shapes(). `M` counts the slots of an expert."""
        return (0,), (0,), (local_num_experts, M, K)

    def finalize_weight_and_reduce_impl(self) -> Any:
        """Returns the object by which vLLM leaves the weighted sum over experts to the transport."""
        return TopKWeightAndReduceDelegate()

    def apply(
        self,
        output: torch.Tensor,
        hidden_states: torch.Tensor,
        w1: torch.Tensor,
        w2: torch.Tensor,
        topk_weights: torch.Tensor,
        topk_ids: torch.Tensor,
        activation: Any,
        global_num_experts: int,
        expert_map: torch.Tensor | None,
        a1q_scale: torch.Tensor | None,
        a2_scale: torch.Tensor | None,
        workspace13: torch.Tensor | None,
        workspace2: torch.Tensor | None,
        expert_tokens_meta: Any,
        apply_router_weight_on_input: bool,
    ) -> None:
        """Writes `output` [local experts, slots, hidden], computed from hidden_states of the same shape. Unused slots are not
        written.

        expert_tokens_meta.expert_num_tokens: int32, the number of rows of each expert, local experts first. The transport has
        already used the ids.

        Raises NotSupported if vLLM requests another layer than the packed one.
        """
        self._check(hidden_states, w1, w2, activation, global_num_experts, a1q_scale, a2_scale, apply_router_weight_on_input)
        experts, slots, hidden = hidden_states.shape
        if expert_tokens_meta is None or expert_tokens_meta.expert_num_tokens is None:
            raise NotSupported("expert_num_tokens: expected the number of rows of each expert, got None")
        self._moec_layer(
            hidden_states.reshape(experts * slots, hidden),
            out=output.view(experts * slots, hidden),
            expert_num_tokens=expert_tokens_meta.expert_num_tokens[:experts],
            tokens=slots,
        )


def kernel_of(moe_config: Any, prepare_finalize: Any, plan: Plan, moec_layer: Layer) -> Any:
    """Returns vLLM's modular kernel: a transport's prepare and finalize with moec's experts."""
    if plan.modular == "batched":
        sizes = {
            "max_num_tokens": prepare_finalize.max_num_tokens_per_rank(),
            "num_dispatchers": prepare_finalize.num_dispatchers(),
        }
        return mk.FusedMoEKernel(prepare_finalize, MoecBatchedExperts(moe_config, plan, moec_layer, **sizes))
    return mk.FusedMoEKernel(prepare_finalize, MoecExperts(moe_config, plan, moec_layer))
