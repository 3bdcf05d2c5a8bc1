# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's methods with a part that runs moec. vLLM's own method creates the parameters, and vLLM fills them."""

import collections
import functools
import time
from typing import Any

import torch
from vllm.config import get_current_vllm_config
from vllm.model_executor.layers.fused_moe.all2all_utils import maybe_make_prepare_finalize
from vllm.model_executor.layers.fused_moe.config import FUSED_MOE_UNQUANTIZED_CONFIG
from vllm.model_executor.layers.fused_moe.fused_moe_method_base import FusedMoEMethodBase
from vllm.model_executor.layers.fused_moe.routed_experts import RoutedExperts
from vllm.model_executor.utils import is_weights_pre_processed

from moec.errors import InvalidArgument, NotSupported
from moec.integrations._vllm_experts import kernel_of, run
from moec.integrations._vllm_plan import Plan, plan_of
from moec.integrations._vllm_schemes import Refused
from moec.integrations.vllm import LOGGER, Choice
from moec.layer import Layer
from moec.torch.modules import load_for

_choice = Choice()


class _Journal:
    """Counts the layers of a model, for one line in the log when the last of them is packed."""

    def __init__(self) -> None:
        self.said: set[str] = set()
        self._begin()

    def _begin(self) -> None:
        self.taken: dict[str, str] = {}
        self.left = 0
        self.packed: set[str] = set()
        self.seconds = 0.0

    def take(self, name: str, plan: Plan) -> None:
        self.taken[name] = f"{plan.scheme.name}, {plan.realization}, routing by {'moec' if plan.routes else 'vLLM'}"

    def leave(self, name: str, reason: str) -> None:
        self.left += 1
        if reason not in self.said:
            self.said.add(reason)
            LOGGER.warning("moec leaves layer %s to vLLM, and others for the same reason: %s", name, reason)

    def pack(self, name: str, seconds: float) -> None:
        self.packed.add(name)
        self.seconds += seconds
        if self.packed == set(self.taken):
            kinds = ", ".join(f"{count} x ({kind})" for kind, count in collections.Counter(self.taken.values()).items())
            layers = len(self.taken) + self.left
            LOGGER.info("moec serves %d of %d MoE layers: %s; %.1f s", len(self.taken), layers, kinds, self.seconds)
            self._begin()


_journal = _Journal()


class MoecMethod(FusedMoEMethodBase):  # type: ignore[misc]
    """The part of a method that runs moec. _taken() puts it before the class of vLLM's method.

    It is no wrapper: vLLM's weight_loader and others ask for the class, the name and the attributes of a method.
    """

    moec_plan: Plan
    moec_layer: Layer | None

    # Properties come before attributes that vLLM's methods set in their instances.
    @property
    def supports_pre_processed_weights(self) -> bool:
        return False

    @property
    def supports_eplb(self) -> bool:
        return False

    @property
    def is_monolithic(self) -> bool:
        return self.moec_plan.routes

    @property
    def topk_indices_dtype(self) -> torch.dtype | None:
        """The type that the transport needs; None: any, as moec takes."""
        return None if self.moe_kernel is None else self.moe_kernel.prepare_finalize.topk_indices_dtype()

    @property
    def skip_forward_padding(self) -> bool:
        return False

    @property
    def has_unpadded_output(self) -> bool:
        return False

    def maybe_roundup_sizes(
        self, hidden_size: int, intermediate_size_per_partition: int, act_dtype: torch.dtype, moe_parallel_config: Any
    ) -> tuple[int, int]:
        """The sizes that moec computes: vLLM pads for its own kernels."""
        return hidden_size, self.moec_plan.source["intermediate_size"]

    def get_fused_moe_quant_config(self, layer: Any) -> None:
        """None: vLLM's kernels do not run. MoecExperts have a configuration of their own."""
        return None

    def process_weights_after_loading(self, layer: Any) -> None:
        """Packs the parameters in place, and takes their memory.

        The parameters become empty. Code of a model that reads them beside the method fails then, and computes nothing wrong.
        """
        if self.moec_layer is not None or is_weights_pre_processed():
            raise NotSupported(f"layer {layer.layer_name}: moec packs weights once; it cannot load them again")
        if layer.moe_config._defer_moe_finalize:
            raise NotSupported(f"layer {layer.layer_name}: moec does not leave the sum over experts to the model")
        began = time.perf_counter()
        plan = self.moec_plan
        stored, source = dict(plan.scheme.stored), dict(plan.source)
        biases = {"b13": "w13_bias", "b2": "w2_bias"}
        present = {name for name, parameter in layer.named_parameters(recurse=False) if parameter is not None}
        source["has_bias"] = self._has_biases(layer, present)
        weights = plan.scheme.weights(layer)
        if source["has_bias"]:
            stored |= biases
            weights |= {name: getattr(layer, parameter).data.to(layer.moe_config.in_dtype) for name, parameter in biases.items()}
        bias = layer.e_score_correction_bias
        if plan.routes and bias is not None:
            weights["routing_bias"] = bias.data
        known = {*stored.values(), *plan.scheme.unused, *biases.values(), "e_score_correction_bias"}
        if present - known:
            raise NotSupported(
                f"layer {layer.layer_name}: moec does not know the parameters {', '.join(sorted(present - known))} of "
                f"{type(self).__name__}; expected {', '.join(sorted(known))}"
            )
        package = load_for(plan.device, source, max_tokens=plan.max_tokens)
        if package.gpu is not None and plan.captured_tokens and package.reserved is None:
            package.reserve(plan.captured_tokens)
        self.moec_layer = package.layer({name: each.contiguous() for name, each in weights.items()}, in_place=True)
        for name in present - {"e_score_correction_bias"}:
            parameter = getattr(layer, name)
            parameter.data = parameter.data.new_empty(0)
            # vLLM's own class of parameters has a property for its loader.
            setattr(parameter, "_weight_loader" if hasattr(parameter, "_weight_loader") else "weight_loader", _refuse_loading)
        if plan.modular:
            self.moe_kernel = _kernel(layer, plan, self.moec_layer)
        layer.register_state_dict_pre_hook(_refuse_state_dict)
        _journal.pack(layer.layer_name, time.perf_counter() - began)

    @staticmethod
    def _has_biases(layer: Any, present: set[str]) -> bool:
        """Whether the layer has biases. GPTQ's method makes parameters for all layers; its checkpoint says which have some."""
        if layer.moe_config.has_bias:
            if not {"w13_bias", "w2_bias"} <= present:
                raise NotSupported(f"layer {layer.layer_name} has biases, and vLLM's method makes no parameters for them")
            return True
        return bool(layer._loaded_expert_biases)

    def _run(self, layer: Any, x: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
        if self.moec_layer is None:
            raise InvalidArgument(f"layer {layer.layer_name}: its weights were not loaded yet")
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        run(self.moec_layer, x, out, layer._expert_map, **inputs)
        return out

    def apply(
        self,
        layer: Any,
        x: torch.Tensor,
        topk_weights: torch.Tensor,
        topk_ids: torch.Tensor,
        shared_experts: Any,
        shared_experts_input: torch.Tensor | None,
    ) -> torch.Tensor:
        """[tokens, hidden] of x [tokens, hidden] and the router's [tokens, top_k].

        The runner computes shared experts, or vLLM's kernel does while the transport waits.
        """
        if self.moe_kernel is None:
            return self._run(layer, x, topk_ids=topk_ids, topk_weights=topk_weights)
        packed = x.new_empty((layer.local_num_experts, 0, 0))
        made: torch.Tensor = self.moe_kernel.apply(
            x,
            packed,
            packed,
            topk_weights=topk_weights,
            topk_ids=topk_ids,
            activation=layer.activation,
            global_num_experts=layer.global_num_experts,
            expert_map=layer.expert_map,
            apply_router_weight_on_input=layer.apply_router_weight_on_input,
            shared_experts=shared_experts,
            shared_experts_input=shared_experts_input,
        )
        return made

    def apply_monolithic(
        self, layer: Any, x: torch.Tensor, router_logits: torch.Tensor, input_ids: torch.Tensor | None = None
    ) -> torch.Tensor:
        """[tokens, hidden] of x [tokens, hidden] and router_logits [tokens, experts]."""
        if layer.routing_sink is not None:
            raise NotSupported(f"layer {layer.layer_name}: moec does not report the experts that it chose")
        return self._run(layer, x, logits=router_logits)


def _kernel(layer: Any, plan: Plan, moec_layer: Layer) -> Any:
    """vLLM's kernel of its own transport and moec's experts."""
    prepare_finalize = maybe_make_prepare_finalize(
        layer.moe_config,
        FUSED_MOE_UNQUANTIZED_CONFIG,
        routing_tables=layer._expert_routing_tables(),
        allow_new_interface=True,
    )
    return kernel_of(layer.moe_config, prepare_finalize, plan, moec_layer)


def _refuse_state_dict(layer: Any, prefix: str, keep_vars: bool) -> None:
    raise NotSupported(f"layer {layer.layer_name}: its weights are packed for moec; start without MOEC_VLLM to save them")


def _refuse_loading(*args: Any, **options: Any) -> None:
    raise NotSupported("the weights are packed for moec; they cannot be loaded again. Start without MOEC_VLLM to change weights")


# vLLM's loaders ask the function.
_refuse_loading.supports_moe_loading = True  # type: ignore[attr-defined]

_classes: dict[Any, Any] = {}


def _taken(kind: Any) -> Any:
    """The class of a method with moec's part. It keeps the name, by which vLLM's weight_loader knows it."""
    if kind not in _classes:
        _classes[kind] = type(kind.__name__, (MoecMethod, kind), {"__module__": kind.__module__})
    return _classes[kind]


def _asked(layer: Any, prefix: str, method: Any) -> Any:
    """The method with moec's part where moec takes the layer, else as it is."""
    try:
        plan = plan_of(layer, method, get_current_vllm_config(), _choice)
    except Refused as reason:
        if _choice.force:
            raise NotSupported(f"MOEC_VLLM=force: moec cannot serve layer {prefix}: {reason}") from None
        _journal.leave(prefix, str(reason))
        return method
    method.__class__ = _taken(type(method))
    method.moec_plan, method.moec_layer = plan, None
    _journal.take(prefix, plan)
    return method


def install(choice: Choice) -> None:
    """Makes each RoutedExperts of vLLM ask moec, in models that are made from now on.

    vLLM's registry of replaced classes would do for RoutedExperts alone. gpt-oss and others have subclasses, which it misses.
    """
    global _choice  # noqa: PLW0603
    _choice = choice
    own = RoutedExperts._get_quant_method
    if hasattr(own, "__wrapped__"):
        return

    @functools.wraps(own)
    def asked(self: Any, prefix: str, quant_config: Any, moe_config: Any) -> Any:
        return _asked(self, prefix, own(self, prefix, quant_config, moe_config))

    RoutedExperts._get_quant_method = asked
