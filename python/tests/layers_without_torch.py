# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints how the plug-ins of vLLM and SGLang pack, run and reload layers. Torch computes with numpy, the engines are stand-ins.

test_without_torch.py compares the output with layers_without_torch.txt. This writes it, with moec installed:

    python python/tests/layers_without_torch.py >python/tests/layers_without_torch.txt
"""

import importlib
import logging
import sys
from types import SimpleNamespace as Names
from typing import Any

import arrays_as_torch
import numpy as np
from arrays_as_torch import Held, Module, Tensor, tensor
from decisions import FORCE, title, told

torch = arrays_as_torch.install("vllm", "sglang")


def engine_module(name: str, **values: Any) -> Any:
    made = importlib.import_module(name)
    made.__dict__.update(values)
    return made


class MethodBase:
    """A quantization method of an engine."""

    def __init__(self) -> None:
        self.moe_kernel = None

    def create_weights(self, layer: Any, *given: Any, **options: Any) -> None:
        print(f"    the engine creates weights {given} {options}")

    def process_weights_after_loading(self, layer: Any) -> None:
        print("    the engine processes weights")


class Modular:
    def __init__(self, moe_config: Any, quant_config: Any, **sizes: int) -> None:
        print(f"    experts with {quant_config} {sizes}")
        self.moe_config = moe_config


class RoutedExperts(Module):
    def _get_quant_method(self, prefix: str, quant_config: Any, moe_config: Any) -> Any:
        print(f"    the engine's method for {prefix} {quant_config} {moe_config}")
        return self.quant_method

    def get_expert_weights(self) -> Any:
        return "the engine's rows"


class EplbState:
    def add_model(self, model: Any, *given: Any, **options: Any) -> None:
        print(f"    the engine adds a model {given} {options}")


class Combine(Names):
    pass


FUSED = "vllm.model_executor.layers.fused_moe"
parallel = engine_module("vllm.distributed.parallel_state")
context: Any = engine_module("vllm.forward_context")
mk = engine_module(
    f"{FUSED}.modular_kernel",
    FusedMoEExpertsModular=Modular,
    FusedMoEActivationFormat=Names(Standard="standard", BatchedExperts="batched"),
    FusedMoEKernel=lambda prepare, experts: Names(prepare_finalize=prepare, experts=experts),
)
engine_module(f"{FUSED}.config", FUSED_MOE_UNQUANTIZED_CONFIG="unquantized")
engine_module(
    f"{FUSED}.topk_weight_and_reduce", TopKWeightAndReduceNoOP=lambda: "no-op", TopKWeightAndReduceDelegate=lambda: "delegate"
)
engine_module(f"{FUSED}.fused_moe_method_base", FusedMoEMethodBase=MethodBase)
engine_module(f"{FUSED}.routed_experts", RoutedExperts=RoutedExperts)
engine_module("vllm.distributed.eplb.eplb_state", EplbState=EplbState)
engine_module("sglang.srt.layers.quantization.base_config", FusedMoEMethodBase=MethodBase)
engine_module("sglang.srt.layers.moe.token_dispatcher", StandardCombineInput=Combine)
platform = engine_module("vllm.platforms").current_platform

experts: Any
ranks: Any
packing: Any
balance: Any
vllm_layer: Any
vllm_balance: Any
sglang_layer: Any
experts, ranks, packing, balance, vllm_layer, vllm_balance, sglang_layer = (
    importlib.import_module(f"moec.integrations.{name}")
    for name in ("_vllm_experts", "_vllm_ranks", "_packing", "_balance", "_vllm_layer", "_vllm_balance", "_sglang_layer")
)

from moec.integrations._engine import Engine, Refused  # noqa: E402
from moec.integrations._schemes import Scheme  # noqa: E402

logging.basicConfig(stream=sys.stdout, format="    %(levelname)s %(name)s %(message)s", level=logging.INFO)

BF16 = torch.bfloat16


def says(call: Any, *given: Any, **named: Any) -> None:
    print(f"    {told(lambda: call(*given, **named))}")


def zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype).view(Tensor)


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32).view(Tensor)


def shown(each: Any) -> Any:
    return f"{each.dtype}{list(each.shape)}" if isinstance(each, np.ndarray) else each


class Layer(Names):
    """A packed layer."""

    def __call__(self, x: Any, out: Any, **given: Any) -> None:
        rest = ", ".join(f"{name}={shown(each)}" for name, each in given.items())
        print(f"    moec runs {shown(x)} out={shown(out)}, {rest}")
        strides = [each.flags.c_contiguous for each in given.values() if isinstance(each, np.ndarray)]
        sums = [float(each.sum()) for each in (x, *given.values()) if isinstance(each, Tensor)]
        print(f"    contiguous {strides} {x.stride(-1)}; sums {sums}")
        out[...] = np.arange(out.size).reshape(out.shape)

    def reload(self, weights: Any) -> None:
        print(f"    moec reloads { {name: shown(each) for name, each in weights.items()} }")


def package(**values: Any) -> Any:
    given: dict[str, Any] = {"values": {}, "manifest": {"layer": {}}, "gpu": None, "reserved": None, "arch": "a"}
    made = Names(**{**given, **values})
    made.reserve = lambda tokens, comm: print(f"    reserves {tokens} {comm}")
    made.layer = lambda weights, in_place: (
        print(f"    packs { {name: shown(each) for name, each in weights.items()} } in place {in_place}")
        or Layer(package=made, weights=weights, handle=1)
    )
    return made


# ---- runs of vLLM


def of_ranks() -> None:
    title("ranks of vLLM")
    groups = [Names(unique_name=name, device_group=f"group {name}") for name in ("a", "a", "b")]
    ranks.__dict__["Communicator"] = Names(from_group=lambda group, device: [print(f"    a communicator of {group} on {device}")])
    for group in groups:
        ranks.__dict__["get_ep_group"] = lambda group=group: group
        ranks.communicator("cuda:1")
    print(f"    {sorted(ranks._communicators)}")
    ranks.__dict__["pad"] = lambda each, amounts: np.pad(each, ((amounts[2], amounts[3]), (amounts[0], amounts[1]))).view(Tensor)
    torch.full = lambda shape, value, dtype, device: np.full(shape, value, dtype).view(Tensor)
    for counts, tokens in (([3, 5], 3), ([3, 5], 5), ([3, 5], 6), ([0, 0], 0), ([0, 2], 0), (None, 1)):
        given = None if counts is None else Names(num_tokens_across_dp_cpu=tensor(counts, np.int32))
        ranks.__dict__["get_forward_context"] = lambda given=given: Names(dp_metadata=given)
        x, out = ones(4, tokens).T.view(Tensor), np.full((tokens, 4), -2.0, np.float32).view(Tensor)
        print(f"{tokens} tokens of {counts}")
        says(ranks.run, Layer(), "comm", x, out, topk_ids=ones(2, tokens).T.view(Tensor))
        print(f"    {out.tolist()}")


def of_experts() -> None:
    title("experts of vLLM")
    for tokens, values, expert_map in (
        (0, {}, None),
        (2, {}, None),
        (2, {}, zeros(4)),
        (2, {"expert_map": 1}, None),
        (2, {"expert_map": 1}, zeros(4)),
    ):
        print(f"{tokens} tokens, {values}, {shown(expert_map)}")
        moec_layer, out = Layer(package=Names(values=values)), zeros(tokens, 4)
        says(experts.run, moec_layer, ones(4, tokens).T.view(Tensor), out, expert_map, topk_ids=ones(2, tokens).T.view(Tensor))
    for name, row in (("silu", True), ("nonsense", False)):
        assert experts.MoecExperts._supports_activation(Names(value=name)) is row
    for transport in (*experts.TRANSPORTS, "naive"):
        for uses in (True, False):
            config = Names(all2all_backend=transport, use_all2all_kernels=uses)
            print(f"    {transport}, {uses}: {experts.MoecExperts._supports_parallel_config(config)}")
    for cuda, cpu in ((True, False), (False, True), (False, False)):
        platform.is_cuda, platform.is_cpu = (lambda cuda=cuda: cuda), (lambda cpu=cpu: cpu)
        print(f"    cuda {cuda}, cpu {cpu}: {experts.MoecExperts._supports_current_device()}")
    for keys in ((None, None), (1, None), (None, 1)):
        print(f"    keys {keys}: {experts.MoecExperts._supports_quant_scheme(*keys)}")
    source = {"intermediate_size": 24, "activation": "silu", "num_experts": 8}
    plan = Names(source=source, weights_on_input=False, modular="")
    for gated in (True, False):
        config = Names(num_local_experts=4, is_act_and_mul=gated, in_dtype=np.dtype("float32"))
        for modular in ("standard", "batched"):
            plan.modular = modular
            prepare = Names(max_num_tokens_per_rank=lambda: 7, num_dispatchers=lambda: 3)
            kernel = experts.kernel_of(config, prepare, plan, Layer(package=Names(values={})))
            made = kernel.experts
            assert kernel.prepare_finalize is prepare
            print(f"    {type(made).__name__} {made.activation_format()} {made.expects_unquantized_inputs}")
            print(f"    {made._supports_no_act_and_mul()} {made._supports_batch_invariance()}")
            print(f"    {made.finalize_weight_and_reduce_impl()}")
            print(f"    {made.moe_problem_size(zeros(4, 5, 6), None, None, zeros(5, 2))}")
            print(f"    {made.workspace_shapes(11, 12, 13, 14, 15, 16, None, None)}")
            batched = modular == "batched"
            x = ones(4, 5, 6) if batched else ones(5, 6)
            usual: dict[str, Any] = {
                "output": zeros(*x.shape), "hidden_states": x, "w1": zeros(4, 0, 0), "w2": zeros(4, 0, 0),
                "topk_weights": ones(5, 2) / 2, "topk_ids": ones(5, 2), "activation": Names(value="silu"),
                "global_num_experts": 8, "expert_map": None, "a1q_scale": None, "a2_scale": None, "workspace13": None,
                "workspace2": None, "expert_tokens_meta": Names(expert_num_tokens=zeros(6)),
                "apply_router_weight_on_input": False,
            }  # fmt: skip
            torch.ones_like = np.ones_like
            changes: tuple[dict[str, Any], ...] = (
                {},
                {"activation": Names(value="gelu")},
                {"global_num_experts": 9},
                {"w1": zeros(1)},
                {"w2": zeros(2)},
                {"hidden_states": x.astype(np.float16).view(Tensor)},
                {"a1q_scale": zeros(1)},
                {"a2_scale": zeros(1)},
                {"apply_router_weight_on_input": True},
                {"expert_tokens_meta": None},
                {"expert_tokens_meta": Names(expert_num_tokens=None)},
            )
            for change in changes:
                print(f"{modular} { {name: shown(each) for name, each in change.items()} }")
                says(made.apply, **usual | change)
            plan.weights_on_input = True
            says(made.apply, **usual | {"apply_router_weight_on_input": True})
            says(made.apply, **usual)
            plan.weights_on_input = False


# ---- packing


def plan_of(**values: Any) -> Any:
    scheme = Scheme("fp8_block", {}, {"w13": "w13_weight", "w2": "w2_weight"}, unused=("unused",))
    given = {
        "scheme": scheme, "source": {"in_dtype": "f32", "apply_router_weight_on_input": False, "intermediate_size": 24},
        "realization": "native", "never_run": "", "device": "cpu", "max_tokens": 16, "captured_tokens": 0, "routes": False,
        "moves": False, "modular": "", "weights_on_input": False, "factor": 1.0, "expert_map": None,
    }  # fmt: skip
    return Names(**{**given, **values})


def layer_with(names: tuple[str, ...], **values: Any) -> Any:
    made = RoutedExperts()
    for index, name in enumerate(names):
        made._parameters[name] = Held(tensor(np.full((4, index + 2), index)))
    made.register_state_dict_pre_hook = lambda hook: made.__dict__.update(hook=hook)
    made.register_parameter = made._parameters.__setitem__
    config = Names(is_act_and_mul=True, has_bias=False, _defer_moe_finalize=False, moe_parallel_config=Names(enable_eplb=False))
    given: dict[str, Any] = {
        "layer_name": "l", "quant_method": Names(), "moe_config": config, "e_score_correction_bias": None, "_expert_map": None,
        "_loaded_expert_biases": False, "global_num_experts": 4, "local_num_experts": 4, "num_local_experts": 4,
        "expert_map": "map", "apply_router_weight_on_input": False, "activation": "silu", "num_experts": 4, "with_bias": False,
    }  # fmt: skip
    for name, value in {**given, **values}.items():
        object.__setattr__(made, name, value)
    return made


ENGINE = Engine("vLLM", "vllm", "MOEC_VLLM", ("0.31",), logging.getLogger("engine"))


def of_packing() -> None:
    title("the journal")
    journal = packing.Journal(ENGINE)
    journal.take("a", plan_of())
    journal.take("b", plan_of(routes=True))
    journal.take("c", plan_of(never_run="never run"))
    journal.take("d", plan_of())
    method = MethodBase()
    journal.leave("e", "a reason", method)
    journal.leave("f", "a reason", MethodBase())
    journal.leave("g", "another reason", MethodBase())
    method.process_weights_after_loading(None)
    for name in "abcd":
        print(f"packed {name}")
        journal.pack(name, 0.25)
    method = MethodBase()
    journal.leave("e", "a reason", method)
    journal.leave("f", "a reason", MethodBase())
    method.process_weights_after_loading(None)
    method.process_weights_after_loading(None)
    for scheme in ("mxfp4_w4a16", "int8_w8a16", "fp8_block"):
        for realization in ("native", "dequantized"):
            for only in (True, False):
                says(packing.how, Scheme(scheme, {}, {}, weight_only=only), realization)

    title("packing")
    cases: tuple[tuple[dict[str, Any], dict[str, Any], dict[str, Any]], ...] = (
        ({}, {}, {}),
        ({"realization": "weight_only"}, {"gpu": 0}, {"kept": ("kept",)}),
        ({"captured_tokens": 5}, {"gpu": 0}, {"comm": "comm"}),
        ({"captured_tokens": 5}, {"gpu": 0, "reserved": 1}, {}),
        ({"captured_tokens": 5}, {}, {}),
        ({}, {"manifest": {"layer": {"left_out": [{"value": "w2"}]}}}, {"others": {"routing_bias": ones(3)}}),
        ({}, {}, {"has_bias": True}),
        ({}, {}, {"largest_of_ranks": lambda scale: scale * 2}),
    )
    for plans, packages, options in cases:
        names = ("w13_weight", "w2_weight", "unused", "b13_of", "b2_of") + (("kept",) if "kept" in options else ())
        layer = layer_with(names)
        weights = {"w13": layer.w13_weight.data, "w2": layer.w2_weight.data}
        if "largest_of_ranks" in options:
            weights |= {name: ones(1) for name in packing.ACTIVATION_SCALES}
        plan = plan_of(**plans)
        plan.scheme = Names(
            name="s",
            stored=plan.scheme.stored,
            unused=("unused",),
            weight_only=False,
            weights=lambda layer, weights=weights: weights,
        )

        def load_for(device: Any, source: Any, made: Any = packages, **given: Any) -> Any:
            print(f"    loads for {device} {source} {given}")
            return package(**made)

        packing.__dict__["load_for"] = load_for
        journal = Names(engine=ENGINE, pack=lambda name, seconds: print(f"    packed {name} {0 <= seconds < 9}"))
        biases = {"b13": "b13_of", "b2": "b2_of"}
        made = packing.Packing(journal, "l", plan, biases, **{"has_bias": False, **options})
        print(f"{plans} {packages} {sorted(options)}: needs {sorted(made.needed)}")
        packed = made.pack(layer)
        print(f"    left { {name: shown(each.data) for name, each in layer._parameters.items()} }")
        says(layer.w13_weight.weight_loader)
        says(layer.hook, layer, "", False)
        print(f"    {layer.w13_weight.weight_loader.supports_moe_loading}")
        made.reload(layer, packed)
    layer = layer_with(("w13_weight", "w2_weight", "other", "another"), quant_method=MethodBase())
    says(packing.Packing(journal, "l", plan_of(), {}, False)._weights, layer)
    nested = layer_with(("a",))
    nested._parameters["none"] = None
    nested.named_parameters = lambda recurse: [("a", 1), ("none", None)] + ([("inner", 2)] if recurse else [])
    print(f"    {packing.parameters_of(nested)}")
    classes: dict[Any, Any] = {}
    first = packing.taken_class(Names, MethodBase, classes)
    assert packing.taken_class(Names, MethodBase, classes) is first
    print(f"    {first.__name__} {first.__module__ == MethodBase.__module__} {[each.__name__ for each in first.__mro__[1:3]]}")
    for name in ("weight_loader", "_weight_loader"):
        holder = Names(**{name: 1})
        packing.set_loader(holder, 2)
        print(f"    {holder}")

    title("weights that were not loaded")
    whole = {(shard, expert) for shard in ("w1", "w3") for expert in range(3)}
    down = {("w2", expert) for expert in range(3)}
    usual = {"w13_weight": whole, "w13_scale": whole, "w2_weight": down}
    for label, loaded, gated in (
        ("all", usual, True),
        ("none", {}, True),
        (
            "without ups",
            {**usual, "w13_weight": {("w1", each) for each in range(3)}, "w13_scale": {("w1", each) for each in range(3)}},
            True,
        ),
        (
            "without ups, not gated",
            {**usual, "w13_weight": {("w1", each) for each in range(3)}, "w13_scale": {("w1", each) for each in range(3)}},
            False,
        ),
        ("without an expert", {**usual, "w13_scale": whole - {("w3", 2), ("w1", 1)}}, True),
        ("without the scale", {**usual, "w13_scale": set()}, True),
        ("as one tensor", {**usual, "w2_weight": {(None, None)}}, True),
        ("more experts", {**usual, "w2_weight": down | {("w2", 9)}}, True),
        ("not the second", {"w13_weight": whole, "w13_scale": whole}, True),
    ):
        print(f"    {label}: {packing.not_loaded(loaded, set(usual), range(3), gated=gated)!r}")

    title("rows of experts")
    values = [
        {"name": "p13", "role": "packed_weight", "may_alias": "w13", "shape": [4, 6], "element_types": ["f8E4M3FN"]},
        {"name": "w2", "role": "packed_weight", "may_alias": None, "shape": [4, 8], "element_types": ["bf16"]},
        {"name": "own", "role": "packed_weight", "may_alias": "b2", "shape": [4, 1], "element_types": ["f32"]},
        {"name": "out", "role": "output", "may_alias": "w13", "shape": [4], "element_types": ["f32"]},
    ]
    targets = [{"arch": "b", "values": []}, {"arch": "a", "values": values}]
    aligned = {name: Names(alignment=1) for name in ("w13", "w2", "b13", "b2", "w2_scale", "a1_scale", "expert_map")}
    good: dict[str, Any] = {
        "w13": zeros(4, 3, dtype=np.float64), "w2": zeros(4, 8, dtype=np.int16), "b13": zeros(4, 5), "own": zeros(4, 1),
        "a1_scale": zeros(1), "w2_scale": zeros(4, 3),
    }  # fmt: skip
    del good["own"]
    bad: tuple[dict[str, Any], ...] = (
        {},
        {"expert_map": zeros(4)},
        {"b13": zeros(5, 4)},
        {"w13": zeros(4, 1)},
        {"w2_scale": zeros(3, 4)},
        {"w13_scale_of": zeros(4)},
    )
    for change in bad:
        manifest = {"targets": targets, "layer": {}}
        everything = {**good, **change}
        made = Layer(
            package=package(manifest=manifest, values={**aligned, **dict.fromkeys(everything, Names(alignment=1))}),
            weights=everything,
        )
        print(sorted(change))
        says(lambda made=made: [shown(each) for each in packing.expert_rows(made, 4, "l")])
    made.package.values["w2"] = Names(alignment=1 << 40)
    made.weights = good
    says(packing.expert_rows, made, 4, "l")


# ---- load balancing


def of_balance() -> None:
    title("load balancing")
    kernels = [{"name": "pack_a", "text": 1}, {"name": "pack_b", "text": 2}]
    value = {"name": "w", "role": "packed_weight"}

    def target(**changes: Any) -> Any:
        usual = {
            "arch": "a",
            "pack": [{"launches": [{"kernel": "pack_a"}, {}]}],
            "values": [value, {"name": "o", "role": "output"}],
            "kernels": kernels,
        }
        return {**usual, **changes}

    def layer(made: Any, arch: str = "a") -> Any:
        return Layer(package=package(arch=arch, manifest={"targets": [{**target(), "arch": "c"}, made], "layer": {}}))

    first = balance.format_of(layer(target()))
    changed: tuple[dict[str, Any], ...] = (
        {"arch": "b"},
        {"pack": [{"launches": [{"kernel": "pack_b"}]}]},
        {"values": [{**value, "name": "v"}]},
        {"values": [value]},
        {"kernels": [{"name": "pack_a", "text": 3}, kernels[1]]},
        {"kernels": [kernels[0], {"name": "pack_b", "text": 3}]},
    )
    for changes in changed:
        other = layer(target(**changes), changes.get("arch", "a"))
        print(f"    {sorted(changes)} {len(first)}: {balance.format_of(other) == first}")
    print(f"    {balance.format_of(None)!r}")
    rows = [zeros(4, 6), zeros(4, 2)]
    for others in (
        [rows],
        [rows, rows],
        [rows, [zeros(4, 6)]],
        [rows, rows, [zeros(4, 6), zeros(4, 3)]],
        [rows, [zeros(4, 6), zeros(4, 2, dtype=np.int8)]],
        [],
    ):
        says(balance.check_layers, "vLLM", others)
    group = Names(world_size=3, rank_in_group=1, cpu_group="cpu", device_group="gpu")

    answers: list[Any] = []

    def gather(of_ranks: Any, formats: Any, group: Any) -> None:
        print(f"    gathers of {group} {len(of_ranks)}")
        of_ranks[:] = answers

    torch.distributed = Names(
        all_gather_object=gather, ReduceOp=Names(MAX="max"), all_reduce=lambda each, op, group: print(f"    {op} of {group}")
    )
    for given in ([["a"], ["a"], ["a"]], [["a"], ["a"], ["b"]], [["b"], ["a"], ["a"]]):
        answers[:] = given
        says(balance.check_ranks, ["a"], group)
    vllm_balance.__dict__["get_ep_group"] = lambda: group
    scales = ones(3)
    assert vllm_balance.largest_of_ranks(scales) is not scales
    answers[:] = [["", ""], ["", ""], ["", ""]]
    says(vllm_balance.check, [None, None], [rows, [zeros(1)]])
    answers[:] = [[first, ""]] * 3
    says(vllm_balance.check, [layer(target()), None], [rows, rows])
    says(vllm_balance.check, [layer(target()), None], [rows, [zeros(1)]])


# ---- layers of vLLM


def of_vllm() -> None:
    title("layers of vLLM")
    asked = vllm_layer.__dict__
    reasons: list[str] = []
    asked["is_weights_pre_processed"] = lambda: False
    asked["Packing"] = lambda journal, name, plan, **options: (
        print(
            f"    packing {name} {options['biases']} {options['has_bias']} {sorted(options['others'])} {options['kept']} "
            f"{options['comm']} {options['largest_of_ranks'] is not None}"
        )
        or Names(
            pack=lambda layer: Layer(package=Names(values={}, gpu=0), weights={}),
            reload=lambda layer, made: print(f"    reloads {type(layer).__name__} {type(made).__name__}"),
            needed={"w13_weight", "w2_weight"},
        )
    )
    ranks.__dict__["get_ep_group"] = lambda: Names(unique_name="a", device_group="g")
    info = Names(can_load=lambda: True, loaded_weights=[])
    asked["get_layerwise_info"] = lambda layer: info

    def method_of(**plans: Any) -> Any:
        made = MethodBase()
        made.__class__ = packing.taken_class(vllm_layer.MoecMethod, MethodBase, vllm_layer._classes)
        made.moec_plan, made.moec_layer, made.moec_comm, made.moec_refused = plan_of(**plans), None, None, ""  # type: ignore[attr-defined]
        return made

    for plans, kernel in (
        ({}, None),
        ({"moves": True, "routes": True}, None),
        ({}, Names(prepare_finalize=Names(topk_indices_dtype=lambda: "i64"))),
    ):
        method = method_of(**plans)
        method.moe_kernel = kernel
        print(
            f"    {plans} {kernel is None}: {method.supports_pre_processed_weights} {method.supports_eplb} "
            f"{method.supports_internal_mk} {method.is_monolithic} "
            f"{method.topk_indices_dtype} {method.skip_forward_padding} {method.has_unpadded_output} "
            f"{method.maybe_roundup_sizes(1, 2, 3, 4)} {method.get_fused_moe_quant_config(5)}"
        )
    layer = layer_with(("w13_input_scale", "w13_weight_shape"))
    layer._parameters["w13_input_scale"] = Held(zeros(4))
    for gated in (True, False):
        layer.moe_config.is_act_and_mul = gated
        for each in layer._parameters.values():
            each.__dict__.pop("weight_loader_numel", None)
        method_of().create_weights(layer, 1, a=2)
        print(f"    gated {gated}: {[getattr(each, 'weight_loader_numel', None) for each in layer._parameters.values()]}")
    layer._parameters["w13_input_scale"] = Held(zeros(4, 2))
    layer.moe_config.is_act_and_mul = True
    method_of().create_weights(layer)
    print(f"    {[getattr(each, 'weight_loader_numel', None) for each in layer._parameters.values()]}")

    print("runs")
    x, ids, logits = ones(3, 5), ones(3, 2), ones(3, 4)
    torch.empty = lambda shape, dtype, device: np.zeros(shape, dtype).view(Tensor)
    layer = layer_with(("w13_weight", "w2_weight"))
    method = method_of()
    says(method.apply, layer, x, ids, ids, None, None)
    says(method.expert_rows, layer)
    method.process_weights_after_loading(layer)
    says(lambda: method.apply(layer, x, ids, ids / 2, None, None).shape)
    says(lambda: method.apply_monolithic(layer, x, logits).shape)
    layer.routing_sink = None
    says(lambda: method.apply_monolithic(layer, x, logits).shape)
    layer.routing_sink = 1
    says(method.apply_monolithic, layer, x, logits)
    method.moe_kernel = Names(
        apply=lambda *given, **named: [shown(each) for each in given] + [f"{name}={shown(each)}" for name, each in named.items()]
    )
    says(method.apply, layer, x, ids / 2, ids, "shared", "input")
    method.moe_kernel = None
    method.moec_comm = "comm"
    ranks.__dict__["get_forward_context"] = lambda: Names(dp_metadata=Names(num_tokens_across_dp_cpu=tensor([3, 2], np.int32)))
    says(lambda: method.apply(layer, x, ids, ids, None, None).shape)
    method.moec_comm = None

    print("packing")
    bias = Held(ones(4))
    cases: tuple[tuple[dict[str, Any], dict[str, Any], dict[str, Any]], ...] = (
        ({}, {}, {}),
        ({"routes": True}, {"e_score_correction_bias": bias}, {}),
        ({}, {"e_score_correction_bias": bias}, {}),
        ({"routes": True}, {}, {}),
        ({"moves": True}, {}, {}),
        ({"modular": "standard"}, {}, {}),
        ({}, {}, {"_defer_moe_finalize": True}),
        ({}, {}, {"moe_parallel_config": Names(enable_eplb=True)}),
        ({}, {"_loaded_expert_biases": True}, {}),
        ({}, {"biases": ("w13_bias",)}, {"has_bias": True}),
        ({}, {"biases": ("w13_bias", "w2_bias")}, {"has_bias": True}),
    )
    for plans, values, config in cases:
        layer = layer_with(("w13_weight", *values.pop("biases", ())), **values)
        vars(layer.moe_config).update(config)
        layer._expert_routing_tables = lambda: "tables"
        asked["maybe_make_prepare_finalize"] = lambda *given, **named: print(f"    prepares {given[1:]} {named}")
        method = method_of(**plans)
        print(f"{plans} {sorted(values)} {sorted(config)}")
        says(method.process_weights_after_loading, layer)
        print(f"    comm {method.moec_comm is not None}, kernel {method.moe_kernel is not None}")
    asked["is_weights_pre_processed"] = lambda: True
    says(method.process_weights_after_loading, layer)
    asked["is_weights_pre_processed"] = lambda: False

    print("reloads")
    layer, method = layer_with(("w13_weight",)), method_of()
    method.process_weights_after_loading(layer)
    every = [("w13_weight", "w1"), ("w13_weight", "w3"), ("w2_weight", "w2")]

    def told_of(names: Any, local: Any) -> Any:
        return [(name, Names(arguments={"shard_id": shard, "expert_id": each})) for name, shard in names for each in local]

    for label, loaded, places in (
        ("all", told_of(every, range(4)), None),
        ("part", told_of(every, range(3)), None),
        ("of this rank", told_of(every, (1, 3)), [-1, 0, -1, 1]),
        ("of another", told_of(every, (0, 2)), [-1, 0, -1, 1]),
    ):
        info.loaded_weights, layer._expert_map = loaded, None if places is None else tensor(places, np.int32)
        print(label)
        says(method.process_weights_after_loading, layer)
        says(lambda: method._run(layer, x).shape)
        method.moec_refused = ""
    info.can_load = lambda: False
    says(method.process_weights_after_loading, layer)
    layer.moe_config.moe_parallel_config.enable_eplb = True
    says(method.process_weights_after_loading, layer)
    says(method.apply, layer, x, ids, ids, None, None)

    print("what vLLM asks")
    asked["SURFACE"] = Names(layer_reason=lambda layer, series: print(f"    series {series}") or reasons.pop())
    asked["ENGINE"] = Engine("vLLM", "vllm", "MOEC_VLLM", ("0.31",), logging.getLogger("engine"))
    type(asked["ENGINE"]).version = lambda self: "0.31.2"
    plans_of: list[Any] = [plan_of(), Refused("no")]

    def planned(*given: Any) -> Any:
        print(f"    plans {[type(each).__name__ for each in given]}")
        made = plans_of.pop()
        if isinstance(made, Exception):
            raise made
        return made

    asked["plan_of"], asked["get_current_vllm_config"] = planned, Names
    asked["_journal"] = packing.Journal(ENGINE)
    reasons += ["", "", "it lacks a thing"]
    vllm_layer.install(vllm_layer.Choice())
    once = RoutedExperts._get_quant_method
    vllm_layer.install(vllm_layer.Choice())
    assert RoutedExperts._get_quant_method is once
    for _ in range(3):
        layer = layer_with((), quant_method=MethodBase())
        made = layer._get_quant_method("p", "q", "m")
        print(f"    {type(made).__name__} {isinstance(made, vllm_layer.MoecMethod)} {layer.get_expert_weights.__name__}")
        says(layer.get_expert_weights)
    print(f"    {made.moec_layer} {made.moec_comm} {made.moec_refused!r} {asked['_journal'].taken}")
    reasons.append("it lacks a thing")
    vllm_layer.install(FORCE)
    says(layer._get_quant_method, "p", "q", "m")
    checked: list[Any] = []
    vllm_balance.__dict__["check"] = lambda *given: checked.append(given)
    own = MethodBase()
    made.moec_layer = "packed"
    model = Names(
        moe_layers=[Names(quant_method=made), Names(routed_experts=Names(quant_method=own)), Names()], expert_weights="w"
    )
    EplbState().add_model(model, 1, b=2)
    print(f"    {checked}")


# ---- layers of SGLang


def of_sglang() -> None:
    title("layers of SGLang")
    asked = sglang_layer.__dict__
    released: list[int] = []
    eplb, reasons = [False], ["", "", "it lacks a thing"]
    own = {"w13": zeros(4, 2), "w2": zeros(4, 3, dtype=np.int32)}
    rows = [zeros(4, 6, dtype=np.uint8), zeros(4, 2, dtype=np.uint8)]
    layer: Any
    method: Any
    numbers = iter(range(40, 99))
    asked["register"], asked["release"] = lambda layer: next(numbers), released.append
    asked["balances"] = lambda: eplb[0]
    asked["Packing"] = lambda journal, name, plan, biases, has_bias: (
        print(f"    packing {name} {biases} {has_bias}")
        or Names(
            pack=lambda layer: Layer(package=package(), weights=dict(own)),
            reload=lambda layer, made: print(f"    reloads {type(layer).__name__} {type(made).__name__}"),
            needed={"w13_weight", "w2_weight"},
        )
    )

    def method_of(layer: Any, **plans: Any) -> Any:
        made: Any = MethodBase()
        made.__class__ = packing.taken_class(sglang_layer.MoecMethod, MethodBase, sglang_layer._classes)
        made.moec_plan, made.moec_layer, made.moec_loaded, made.moec_refused = plan_of(**plans), None, None, ""
        made.moec_created = sglang_layer._created(layer)
        return made

    def run(number: int, x: Any, logits: Any, ids: Any, weights: Any, expert_map: Any) -> Any:
        print(f"    runs {number} {shown(x)} {logits} {shown(ids)} {weights.tolist()} {expert_map}")
        print(f"    {x.stride(-1)} {ids.flags.c_contiguous} {weights.flags.c_contiguous}")
        return np.full(x.shape, len(x), np.float32).view(Tensor)

    torch.ops = Names(moec=Names(run=run))
    torch.empty_like = np.zeros_like
    asked["TopKOutputChecker"] = Names(format_is_standard=lambda chosen: chosen.format == "standard")

    def layer_of(**values: Any) -> Any:
        made = layer_with(("w13_weight", "w2_weight", "wide"), layer_id=3, **values)
        made.moe_runner_config = Names(is_gated=True, runner_backend="r")
        made._map_global_expert_id_to_local_expert_id = lambda each: each
        return made

    layer = layer_of(with_bias=1)
    method = method_of(layer, factor=2.0, expert_map="map")
    print(f"    {method.get_moe_runner_backend(layer)}")

    def dispatched(tokens: int, kind: str = "standard", scale: Any = None) -> Any:
        weights = (np.arange(tokens * 2, dtype=np.float32).reshape(tokens, 2) / 2).view(Tensor)
        return Names(
            hidden_states=ones(5, tokens).T.view(Tensor),
            hidden_states_scale=scale,
            topk_output=Names(format=kind, topk_ids=ones(tokens, 2), topk_weights=weights),
        )

    says(method.apply, layer, dispatched(2))
    method.process_weights_after_loading(layer)
    for tokens in (0, 1, 3):
        print(f"{tokens} tokens")
        says(lambda tokens=tokens: method.apply(layer, dispatched(tokens)).hidden_states.tolist())
    method.moec_plan.max_tokens = 2
    made = method.apply(layer, dispatched(3))
    print(f"    {type(made).__name__} {made.hidden_states.tolist()}")
    says(lambda: method.apply(layer, dispatched(4)).hidden_states.shape)
    for on_input in (True, False):
        for factor in (1.0, 2.0):
            method.moec_plan.source["apply_router_weight_on_input"], method.moec_plan.factor = on_input, factor
            print(f"weights on the input {on_input}, factor {factor}")
            made = method.apply(layer, dispatched(2))
            print(f"    {made.hidden_states.tolist()}")
    says(method.apply, layer, dispatched(2, "bypassed"))
    says(method.apply, layer, dispatched(2, scale=1))
    for call in (
        "get_triton_quant_info",
        "get_marlin_quant_info",
        "apply_weights_with_router_logits",
        "apply_without_routing_weights",
    ):
        says(getattr(method, call), layer)

    print("reloads")
    says(method.process_weights_after_loading, layer)
    fresh = method_of(layer)
    fresh.restore_weights_before_loading(layer)
    eplb[0] = True
    says(method.restore_weights_before_loading, layer)
    eplb[0] = False
    for name in layer._parameters:
        layer._parameters[name] = Names(data=zeros(0))
    for name, created in sorted(method.moec_created.items()):
        print(f"    created {name} {created.shape} {created.dtype} {created.values is not None}")
        created.loader = lambda *given, **named: print(f"    loads {[shown(each) for each in given]} {named}")
    method.restore_weights_before_loading(layer)
    for name, each in layer._parameters.items():
        mine = any(each.data is one for one in method.moec_layer.weights.values())
        print(f"    {name} {shown(each.data)} {each.data.tolist()} own {mine}")
    says(method.apply, layer, dispatched(2))
    says(method.process_weights_after_loading, layer)
    layer.w13_weight.weight_loader("p", "w", "n", shard_id="w1", expert_id=0, more=1)
    for expert in range(4):
        for name, shard in (("w13_weight", "w1"), ("w13_weight", "w3"), ("w2_weight", "w2")):
            getattr(layer, name).weight_loader("p", "w", "n", shard, expert)
    layer._map_global_expert_id_to_local_expert_id = lambda each: each - 1
    method.moec_loaded["w13_weight"] -= {("w1", 0), ("w3", 0)}
    says(method.process_weights_after_loading, layer)
    print(f"    {method.moec_loaded} {method.moec_refused!r}")
    method.moec_loaded = {"w13_weight": {("w1", each) for each in range(4)}, "w2_weight": {("w2", each) for each in range(4)}}
    says(method.process_weights_after_loading, layer)
    layer.moe_runner_config.is_gated = False
    says(method.process_weights_after_loading, layer)

    print("rows")
    asked["expert_rows"] = lambda made, experts, name: print(f"    rows of {experts} {name}") or rows
    asked["format_of"] = lambda made: "f"
    torch.nn.Parameter = lambda each, requires_grad: Names(data=each, requires_grad=requires_grad)
    eplb[0] = True
    layer = layer_of()
    method = method_of(layer)
    method.process_weights_after_loading(layer)
    print(f"    {[(name, vars(each)['requires_grad']) for name, each in layer._parameters.items() if name.startswith('moec')]}")
    print(f"    balanced {[[size for _, size in key] for key in sglang_layer._balanced]}")
    asked["get_parallel"] = lambda: Names(tp_group="tp")
    asked["check_ranks"] = lambda formats, group: print(f"    checks {formats} {group}")
    says(sglang_layer._check, None, {1: rows, 0: rows})
    says(sglang_layer._check, None, Names(value={1: rows}))
    says(sglang_layer._check, None, {5: rows, 6: [zeros(4, 6)]})
    sglang_layer._balanced.clear()
    says(sglang_layer._check, None, {6: [zeros(4, 6)]})
    eplb[0] = False

    print("what SGLang asks")
    asked["SURFACE"] = Names(layer_reason=lambda layer, series: print(f"    series {series}") or reasons.pop())
    asked["create_moe_dispatcher"] = lambda config, method: f"dispatcher of {config.runner_backend} {type(method).__name__}"
    plans_of: list[Any] = [plan_of(), Refused("no")]

    def planned(*given: Any) -> Any:
        print(f"    plans {[type(each).__name__ for each in given]}")
        made = plans_of.pop()
        if isinstance(made, Exception):
            raise made
        return made

    asked["plan_of"], asked["_journal"] = planned, packing.Journal(sglang_layer.ENGINE)
    for name in ("a", "", "c"):
        layer = layer_of(quant_method=MethodBase(), layer_name=name, runner_backend="r")
        layer._set_runner_flags = lambda: print("    sets flags")
        layer.dispatcher = "own"
        sglang_layer._asked(None, layer, 1, a=2)
        made = layer.quant_method
        print(
            f"    {type(made).__name__} {isinstance(made, sglang_layer.MoecMethod)} {layer.dispatcher} {layer.runner_backend} "
            f"{layer.moe_runner_config.runner_backend}"
        )
    print(f"    {asked['_journal'].taken} {sorted(made.moec_created)} {made.moec_loaded} {made.moec_refused!r}")
    registered: list[Any] = []
    asked["HookType"] = Names(AFTER="after", BEFORE="before")
    asked["HookRegistry"] = Names(
        _hooks={},
        register=lambda *given: registered.append((given[0], given[1] is sglang_layer._asked, given[1].__name__, given[2])),
    )
    sglang_layer.install(FORCE)
    print(f"    {registered}")
    asked["HookRegistry"]._hooks[sglang_layer.TARGET] = [(1, sglang_layer._asked, 2)]
    sglang_layer.install(FORCE)
    print(f"    {len(registered)}")
    reasons.append("it lacks a thing")
    says(sglang_layer._asked, None, layer_of(quant_method=MethodBase()))


# ---- parts of engines


def of_parts() -> None:
    for module in ("_vllm_surface", "_sglang_surface"):
        surface = importlib.import_module(f"moec.integrations.{module}").SURFACE
        title(f"parts of {surface.engine} {surface.tested}")
        for part in surface.used:
            print(f"    {part.place}: given {part.given}, takes {part.takes}, {part.attributes} {part.since}")
        print(f"    {surface.layer} {surface.layer_since}")


of_ranks()
of_experts()
of_packing()
of_balance()
of_vllm()
of_sglang()
of_parts()
