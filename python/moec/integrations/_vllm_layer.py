# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Adds moec to vLLM's quantization methods. vLLM's own method creates the parameters, and vLLM loads them."""

import collections
import functools
from typing import Any

import torch
from vllm.config import get_current_vllm_config
from vllm.distributed.eplb.eplb_state import EplbState
from vllm.model_executor.layers.fused_moe.all2all_utils import maybe_make_prepare_finalize
from vllm.model_executor.layers.fused_moe.config import FUSED_MOE_UNQUANTIZED_CONFIG
from vllm.model_executor.layers.fused_moe.fused_moe_method_base import FusedMoEMethodBase
from vllm.model_executor.layers.fused_moe.routed_experts import RoutedExperts
from vllm.model_executor.model_loader.reload.layerwise import get_layerwise_info
from vllm.model_executor.utils import is_weights_pre_processed

from moec.comm import Communicator
from moec.errors import InvalidArgument, NotSupported
from moec.integrations import _vllm_balance, _vllm_ranks
from moec.integrations._engine import Choice, Refused
from moec.integrations._opaque import OpaqueRun
from moec.integrations._packing import Journal, Packing, expert_rows, not_loaded, parameters_of, taken_class
from moec.integrations._vllm_experts import kernel_of
from moec.integrations._vllm_plan import Plan, plan_of
from moec.integrations._vllm_surface import SURFACE
from moec.integrations.vllm import ENGINE
from moec.layer import Layer

_choice = Choice()


_journal = Journal(ENGINE)


class MoecMethod(FusedMoEMethodBase):  # type: ignore[misc]
    """The base class that taken_class() puts before the class of vLLM's method, so that the method runs moec.

    It is not a wrapper, because vLLM's weight_loader and other code depend on the class, the name and the attributes of a method.
    """

    moec_plan: Plan
    moec_layer: Layer | None
    moec_run: OpaqueRun | None
    """None if the package exchanges tokens itself, or runs in vLLM's modular kernel."""
    moec_comm: Communicator | None
    moec_packing: Packing
    moec_refused: str
    """The reason why reloaded weights are incomplete; "" if they are complete."""

    # Properties take precedence over attributes that vLLM's methods set on their instances.
    @property
    def supports_pre_processed_weights(self) -> bool:
        return False

    @property
    def supports_eplb(self) -> bool:
        return True

    @property
    def supports_internal_mk(self) -> bool:
        """True if vLLM's runner must not move tokens, because vLLM's kernel or moec moves them."""
        return self.moec_plan.moves or self.moe_kernel is not None

    @property
    def is_monolithic(self) -> bool:
        return self.moec_plan.routes

    @property
    def topk_indices_dtype(self) -> torch.dtype | None:
        """The type of ids that the transport requires; None: any type, because moec accepts all."""
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
        """Returns the sizes that moec uses, without the padding for vLLM's own kernels."""
        return hidden_size, self.moec_plan.source["intermediate_size"]

    def get_fused_moe_quant_config(self, layer: Any) -> None:
        """Always None: vLLM's kernels do not run. MoecExperts have their own configuration."""
        return None

    def create_weights(self, layer: Any, *arguments: Any, **options: Any) -> None:
        """Creates the parameters by vLLM's own method, and doubles the element counts of the parameters listed below. vLLM's
        reload counts the elements that it writes, and two shards write the same elements of these parameters."""
        super().create_weights(layer, *arguments, **options)
        for name, dimensions in (("w13_input_scale", 1), ("w13_weight_shape", 2)):
            parameter = getattr(layer, name, None)
            if parameter is not None and parameter.dim() == dimensions and layer.moe_config.is_act_and_mul:
                parameter.weight_loader_numel = 2 * parameter.numel()

    def process_weights_after_loading(self, layer: Any) -> None:
        """Packs the parameters in place and takes over their memory. Weights that vLLM loads again are packed into the same
        memory."""
        if is_weights_pre_processed():
            raise NotSupported(f"layer {layer.layer_name}: another process has packed the weights; moec packs its own")
        if self.moec_layer is not None:
            self._reload(layer, self.moec_layer)
            return
        if layer.moe_config._defer_moe_finalize:
            raise NotSupported(f"layer {layer.layer_name}: moec does not leave the sum over experts to the model")
        plan, bias = self.moec_plan, layer.e_score_correction_bias
        self.moec_comm = _vllm_ranks.communicator(plan.device) if plan.moves else None
        self.moec_packing = Packing(
            _journal,
            layer.layer_name,
            plan,
            biases={"b13": "w13_bias", "b2": "w2_bias"},
            has_bias=self._has_biases(layer, parameters_of(layer)),
            others={"routing_bias": bias.data} if plan.routes and bias is not None else {},
            kept=("e_score_correction_bias",),
            comm=self.moec_comm,
            largest_of_ranks=_vllm_balance.largest_of_ranks if balances(layer) else None,
        )
        self.moec_layer = self.moec_packing.pack(layer)
        self.moec_run = None if plan.moves or plan.modular else OpaqueRun(self.moec_layer)
        if plan.modular:
            self.moe_kernel = _kernel(layer, plan, self.moec_layer)

    def _reload(self, layer: Any, moec_layer: Layer) -> None:
        """Packs weights that vLLM has loaded again. Raises NotSupported if some elements were not loaded; the layer then rejects
        runs until a reload is complete."""
        if balances(layer):
            self.moec_refused = "weights came again, which vLLM places as at the start, whatever experts EPLB has moved since"
        else:
            self.moec_refused = incomplete(layer, self.moec_packing.needed)
        if self.moec_refused:
            raise NotSupported(f"layer {layer.layer_name}: {self.moec_refused}")
        self.moec_packing.reload(layer, moec_layer)

    @staticmethod
    def _has_biases(layer: Any, present: set[str]) -> bool:
        """Returns True if the layer has biases. GPTQ's method creates bias parameters for all layers; the checkpoint decides
        which are used."""
        if layer.moe_config.has_bias:
            if not {"w13_bias", "w2_bias"} <= present:
                raise NotSupported(f"layer {layer.layer_name} has biases, and vLLM's method makes no parameters for them")
            return True
        return bool(layer._loaded_expert_biases)

    def expert_rows(self, layer: Any) -> list[torch.Tensor]:
        """Returns views of the weights, uint8 [local experts, bytes of an expert], whose rows vLLM exchanges between ranks."""
        if self.moec_layer is None:
            raise InvalidArgument(f"layer {layer.layer_name}: its weights were not loaded yet")
        return expert_rows(self.moec_layer, layer.local_num_experts, layer.layer_name)

    def _run(self, layer: Any, x: torch.Tensor, **inputs: torch.Tensor) -> torch.Tensor:
        if self.moec_layer is None:
            raise InvalidArgument(f"layer {layer.layer_name}: its weights were not loaded yet")
        if self.moec_refused:
            raise InvalidArgument(f"layer {layer.layer_name}: {self.moec_refused}")
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        if self.moec_comm is not None:
            _vllm_ranks.run(self.moec_layer, self.moec_comm, x, out, **inputs)
        else:
            assert self.moec_run is not None
            self.moec_run(x, out, layer._expert_map, **inputs)
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
        """Returns [tokens, hidden], computed from x [tokens, hidden] and the router's ids and weights [tokens, top_k].

        Shared experts are computed by the runner, or by vLLM's kernel while the transport waits.
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
        """Returns [tokens, hidden], computed from x [tokens, hidden] and router_logits [tokens, experts]."""
        if getattr(layer, "routing_sink", None) is not None:
            raise NotSupported(f"layer {layer.layer_name}: moec does not report the experts that it chose")
        return self._run(layer, x, logits=router_logits)


def balances(layer: Any) -> bool:
    """Returns True if vLLM moves experts between ranks while the server runs (EPLB)."""
    return bool(layer.moe_config.moe_parallel_config.enable_eplb)


def incomplete(layer: Any, needed: set[str]) -> str:
    """Returns the parameters that vLLM did not load completely in a reload; "" if all were loaded.

    vLLM counts elements, but processes a layer even if its count is too small or too large. `needed`: the parameters that must be
    loaded.
    """
    info = get_layerwise_info(layer)
    if not info.can_load():
        raise NotSupported(f"layer {layer.layer_name}: moec accepts new weights only from vLLM's reload_weights")
    places = None if layer._expert_map is None else layer._expert_map.tolist()
    local = [expert for expert in range(layer.global_num_experts) if places is None or places[expert] >= 0]
    loaded: dict[str, set[Any]] = collections.defaultdict(set)
    for name, given in info.loaded_weights:
        loaded[name].add((given.arguments.get("shard_id"), given.arguments.get("expert_id")))
    return not_loaded(loaded, needed, local, gated=layer.moe_config.is_act_and_mul)


def _kernel(layer: Any, plan: Plan, moec_layer: Layer) -> Any:
    """Returns vLLM's modular kernel with vLLM's own transport and moec's experts."""
    prepare_finalize = maybe_make_prepare_finalize(
        layer.moe_config,
        FUSED_MOE_UNQUANTIZED_CONFIG,
        routing_tables=layer._expert_routing_tables(),
        allow_new_interface=True,
    )
    return kernel_of(layer.moe_config, prepare_finalize, plan, moec_layer)


_classes: dict[Any, Any] = {}


def _asked(layer: Any, prefix: str, method: Any) -> Any:
    """Returns the method with moec's part if moec runs the layer, otherwise the method itself."""
    try:
        if lacking := SURFACE.layer_reason(layer, ENGINE.series_of(ENGINE.version())):
            raise Refused(lacking)
        plan = plan_of(layer, method, get_current_vllm_config(), _choice)
    except Refused as reason:
        _journal.leave(prefix, ENGINE.refuse_or_leave(_choice, prefix, reason), method)
        return method
    method.__class__ = taken_class(MoecMethod, type(method), _classes)
    method.moec_plan, method.moec_layer, method.moec_run, method.moec_comm, method.moec_refused = plan, None, None, None, ""
    _journal.take(prefix, plan)
    return method


def install(choice: Choice) -> None:
    """Makes vLLM ask moec to run each RoutedExperts that vLLM creates from now on.

    vLLM's registry of replaced classes would cover RoutedExperts only, not the subclasses of gpt-oss and other models.
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
    own_weights = RoutedExperts.get_expert_weights

    @functools.wraps(own_weights)
    def expert_weights(self: Any) -> Any:
        method = self.quant_method
        return method.expert_rows(self) if isinstance(method, MoecMethod) else own_weights(self)

    RoutedExperts.get_expert_weights = expert_weights
    own_add = EplbState.add_model

    @functools.wraps(own_add)
    def add_model(self: Any, model: Any, *arguments: Any, **options: Any) -> None:
        own_add(self, model, *arguments, **options)
        layers = [getattr(each, "routed_experts", each) for each in model.moe_layers]
        of_layers = [getattr(each, "quant_method", None) for each in layers]
        made = [method.moec_layer if isinstance(method, MoecMethod) else None for method in of_layers]
        _vllm_balance.check(made, model.expert_weights)

    EplbState.add_model = add_model
