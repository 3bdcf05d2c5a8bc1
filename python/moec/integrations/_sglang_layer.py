# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Adds moec to SGLang's quantization methods. SGLang's own method creates the parameters, and SGLang loads them."""

import functools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from sglang.srt.layers.moe.fused_moe_triton.layer import create_moe_dispatcher
from sglang.srt.layers.moe.token_dispatcher import StandardCombineInput
from sglang.srt.layers.moe.topk import TopKOutputChecker
from sglang.srt.layers.quantization.base_config import FusedMoEMethodBase
from sglang.srt.plugins.hook_registry import HookRegistry, HookType
from sglang.srt.runtime_context import get_parallel

from moec.errors import InvalidArgument, NotSupported
from moec.integrations._balance import check_layers, check_ranks, format_of
from moec.integrations._engine import Choice, Refused
from moec.integrations._packing import (
    Journal,
    Packing,
    contiguous,
    expert_rows,
    not_loaded,
    parameters_of,
    set_loader,
    taken_class,
)
from moec.integrations._sglang_plan import Plan, balances, plan_of
from moec.integrations._sglang_surface import SURFACE
from moec.integrations.sglang import ENGINE
from moec.layer import Layer
from moec.torch.ops import register, release

TARGET = "sglang.srt.layers.moe.fused_moe_triton.layer.FusedMoE.__init__"
BIASES = {"b13": "w13_weight_bias", "b2": "w2_weight_bias"}

# Parameters of so few elements per expert keep the values with which SGLang created them.
SMALL = 2
UPDATE = "sglang.srt.eplb.expert_location_updater.ExpertLocationUpdater.update"

_choice = Choice()
_journal = Journal(ENGINE)
# The formats of the layers whose rows SGLang exchanges, by the addresses and sizes of the rows.
_balanced: dict[tuple[tuple[int, int], ...], str] = {}


def _key_of(rows: Sequence[torch.Tensor]) -> tuple[tuple[int, int], ...]:
    return tuple((each.data_ptr(), each.numel() * each.element_size()) for each in rows)


class MoecMethod(FusedMoEMethodBase):  # type: ignore[misc]
    """The base class that taken_class() puts before the class of SGLang's method, so that the method runs moec.

    It is not a wrapper, because SGLang's weight_loader and other code depend on the class, the name and the attributes of a
    method.
    """

    moec_plan: Plan
    moec_layer: Layer | None
    moec_number: int
    moec_packing: Packing
    moec_created: dict[str, "Created"]
    """The parameters before they were loaded, by name."""
    moec_loaded: dict[str, set[Any]] | None
    """The shard and expert of each call of a parameter's loader since a reload began; None if none began."""
    moec_refused: str
    """The reason why the layer has no complete weights; "" if they are complete."""

    def get_moe_runner_backend(self, layer: Any) -> None:
        """Always None: moec does not use SGLang's runners. It receives SGLang's standard choice of experts, with ids of this
        rank."""
        return None

    def process_weights_after_loading(self, layer: Any) -> None:
        """Packs the parameters in place and takes over their memory. Weights that SGLang loads again are packed into the same
        memory."""
        if self.moec_layer is not None:
            self._reload(layer, self.moec_layer)
            return
        self.moec_packing = Packing(_journal, layer.layer_name, self.moec_plan, BIASES, bool(layer.with_bias))
        self.moec_layer = self.moec_packing.pack(layer)
        if balances():
            self._give_rows(layer, self.moec_layer)
        # A torch operation, which torch.compile does not trace into.
        self.moec_number = register(self.moec_layer)
        weakref.finalize(layer, release, self.moec_number)

    def _reload(self, layer: Any, moec_layer: Layer) -> None:
        """Packs weights that SGLang has loaded again. Raises NotSupported if some were not loaded; the layer then rejects runs
        until a reload is complete."""
        if self.moec_loaded is None:
            raise NotSupported(
                f"layer {layer.layer_name}: moec packs weights once, or again after SGLang restored the parameters"
            )
        local = [each for each in range(layer.num_experts) if layer._map_global_expert_id_to_local_expert_id(each) >= 0]
        gated = layer.moe_runner_config.is_gated
        lacking = not_loaded(self.moec_loaded, self.moec_packing.needed, local, gated=gated)
        if lacking:
            self.moec_refused = lacking
            raise NotSupported(f"layer {layer.layer_name}: {lacking}")
        self.moec_packing.reload(layer, moec_layer)
        self.moec_loaded, self.moec_refused = None, ""

    @staticmethod
    def _give_rows(layer: Any, moec_layer: Layer) -> None:
        """Adds the weights as parameters of the layer, uint8 [local experts, bytes of an expert]. SGLang's models collect the
        parameters whose first dimension counts the local experts, and SGLang exchanges their rows between ranks."""
        rows = expert_rows(moec_layer, layer.num_local_experts, layer.layer_name)
        for index, each in enumerate(rows):
            layer.register_parameter(f"moec_rows_{index}", torch.nn.Parameter(each, requires_grad=False))
        _balanced[_key_of(rows)] = format_of(moec_layer)
        weakref.finalize(layer, _balanced.pop, _key_of(rows), None)

    def apply(self, layer: Any, dispatch_output: Any) -> Any:
        """Returns [tokens, hidden], computed from dispatch_output.hidden_states [tokens, hidden] and its choice of experts."""
        plan, x, chosen = self.moec_plan, dispatch_output.hidden_states, dispatch_output.topk_output
        if self.moec_layer is None:
            raise InvalidArgument(f"layer {layer.layer_name}: its weights were not loaded yet")
        if self.moec_refused:
            raise InvalidArgument(f"layer {layer.layer_name}: {self.moec_refused}")
        if dispatch_output.hidden_states_scale is not None:
            raise NotSupported(f"layer {layer.layer_name}: moec quantizes activations itself; it got quantized ones")
        if not TopKOutputChecker.format_is_standard(chosen):
            raise NotSupported(f"layer {layer.layer_name}: expected ids and weights of SGLang's router, got {chosen.format}")
        ids, weights = chosen.topk_ids, chosen.topk_weights
        on_input = plan.source["apply_router_weight_on_input"]
        if plan.factor != 1.0 and not on_input:
            weights = weights * plan.factor
        parts = [
            torch.ops.moec.run(
                self.moec_number,
                contiguous(x[begin : begin + plan.max_tokens]),
                None,
                ids[begin : begin + plan.max_tokens].contiguous(),
                weights[begin : begin + plan.max_tokens].contiguous(),
                plan.expert_map,
            )
            for begin in range(0, x.shape[0], plan.max_tokens)
        ]
        out = torch.empty_like(x) if not parts else parts[0] if len(parts) == 1 else torch.cat(parts)
        if plan.factor != 1.0 and on_input:
            out = out * plan.factor
        return StandardCombineInput(hidden_states=out)

    def restore_weights_before_loading(self, layer: Any) -> None:
        """Gives the parameters their shapes and loaders back, mostly in the layer's memory, and overwrites the packed weights.
        SGLang then loads all of them, and calls process_weights_after_loading()."""
        if self.moec_layer is None:
            return
        if balances():
            raise NotSupported(f"layer {layer.layer_name}: moec does not load weights again with load balancing (EPLB)")
        self.moec_refused, self.moec_loaded = "its weights are being loaded again", {}
        stored = {each: name for name, each in self.moec_plan.scheme.stored.items()}
        for name, created in self.moec_created.items():
            parameter, own = getattr(layer, name), self.moec_layer.weights.get(stored.get(name, ""))
            fits = own is not None and (own.shape, own.dtype) == (created.shape, created.dtype) and own.is_contiguous()
            parameter.data = own if fits else parameter.data.new_empty(created.shape, dtype=created.dtype)
            if created.values is None:
                parameter.data.zero_()
            else:
                parameter.data.copy_(created.values)
            set_loader(parameter, _recording(created.loader, self.moec_loaded.setdefault(name, set())))

    def get_triton_quant_info(self, layer: Any) -> Any:
        raise NotSupported(f"layer {layer.layer_name}: the weights are packed for moec; SGLang's kernels cannot read them")

    get_marlin_quant_info = apply_weights_with_router_logits = apply_without_routing_weights = get_triton_quant_info


@dataclass
class Created:
    """A parameter as SGLang's method created it."""

    shape: torch.Size
    dtype: torch.dtype
    loader: Any
    values: torch.Tensor | None
    """The values of a small parameter; SGLang's loaders of scales compare them. None: zeros."""


def _recording(loader: Any, calls: set[Any]) -> Any:
    """Returns a loader that also adds the shard and the expert of each call to `calls`."""

    @functools.wraps(loader)
    def load(
        param: Any, loaded_weight: Any, weight_name: str = "", shard_id: Any = None, expert_id: Any = None, **options: Any
    ) -> None:
        loader(param, loaded_weight, weight_name, shard_id=shard_id, expert_id=expert_id, **options)
        calls.add((shard_id, expert_id))

    return load


def _created(layer: Any) -> dict[str, Created]:
    made = {}
    for name in parameters_of(layer):
        parameter = getattr(layer, name)
        values = parameter.data.clone() if parameter.numel() <= SMALL * layer.num_experts else None
        made[name] = Created(parameter.shape, parameter.dtype, getattr(parameter, "weight_loader", None), values)
    return made


_classes: dict[Any, Any] = {}


def _asked(result: Any, layer: Any, *args: Any, **options: Any) -> None:
    """Adds moec's part to the layer's method if moec runs the layer. SGLang has created the layer and its parameters."""
    method, name = layer.quant_method, layer.layer_name or f"layer {layer.layer_id}"
    try:
        if lacking := SURFACE.layer_reason(layer, ENGINE.series_of(ENGINE.version())):
            raise Refused(lacking)
        plan = plan_of(layer, method, _choice)
    except Refused as reason:
        _journal.leave(name, ENGINE.refuse_or_leave(_choice, name, reason), method)
        return
    method.__class__ = taken_class(MoecMethod, type(method), _classes)
    method.moec_plan, method.moec_layer, method.moec_loaded, method.moec_refused = plan, None, None, ""
    method.moec_created = _created(layer)
    # SGLang reads these attributes to choose the format of the router's result and the numbering of its ids.
    layer.runner_backend = layer.moe_runner_config.runner_backend = None
    layer._set_runner_flags()
    layer.dispatcher = create_moe_dispatcher(layer.moe_runner_config, method)
    _journal.take(name, plan)


def _check(updater: Any, routed_experts_weights_of_layer: Any, *args: Any, **options: Any) -> None:
    """Raises NotSupported before SGLang exchanges rows, if this would make other weights."""
    if not _balanced:
        return
    # A dict, or SGLang's LazyValue of a dict.
    of_layers = dict(getattr(routed_experts_weights_of_layer, "value", routed_experts_weights_of_layer))
    for layer, rows in of_layers.items():
        if _key_of(rows) not in _balanced:
            raise NotSupported(
                f"EPLB: expected the rows of layers that moec has packed; layer {layer} has others. SGLang or the model's class "
                "runs it or has collected its weights before they were packed"
            )
    check_layers("SGLang", list(of_layers.values()))
    check_ranks([_balanced[_key_of(rows)] for _, rows in sorted(of_layers.items())], get_parallel().tp_group)


for _hook in (_asked, _check):
    _hook.__name__ = "moec"


def install(choice: Choice) -> None:
    """Makes SGLang ask moec to run each FusedMoE that SGLang creates from now on. SGLang itself applies its hooks."""
    global _choice  # noqa: PLW0603
    _choice = choice
    if not any(hook is _asked for _, hook, _ in HookRegistry._hooks.get(TARGET, [])):
        HookRegistry.register(TARGET, _asked, HookType.AFTER)
        HookRegistry.register(UPDATE, _check, HookType.BEFORE)
