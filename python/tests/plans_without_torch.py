# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints what the plug-ins of vLLM and SGLang decide for many layers. Torch and the engines are stand-ins.

test_without_torch.py compares the output with plans_without_torch.txt. This writes it, with moec installed:

    python python/tests/plans_without_torch.py >python/tests/plans_without_torch.txt
"""

import importlib
from types import SimpleNamespace as Names
from typing import Any

import numpy as np
from standins import Tensor, install

install("torch", "vllm", "sglang")
import torch  # noqa: E402
import vllm.envs  # noqa: E402
from decisions import BF16, F8, F16, FORCE, Differences, changed, members, of_class, title, told  # noqa: E402

from moec.integrations import _plan, _sglang_plan, _vllm_plan  # noqa: E402
from moec.integrations._engine import Choice  # noqa: E402
from moec.integrations._schemes import Scheme  # noqa: E402
from moec.integrations.vllm import ENGINE as ENGINE_OF_VLLM  # noqa: E402
from moec.torch.functional import rank_of  # noqa: E402

# ---- what both engines share

asked: list[Any] = []


class Found(Names):
    def __bool__(self) -> bool:
        return bool(self.ok)


def supports(source: Any, *, arch: Any, max_tokens: int, allow: Any) -> Any:
    asked.append((source, arch, max_tokens, allow))
    return answer(source)


def answer(source: Any) -> Any:
    return Found(ok=True, reasons=("none", "other"), realization=("native", "other"), never_run=("never", "other"))


def shared() -> None:
    title("devices, realizations and ranks")
    scheme, weight_only = Scheme("bf16", {}, {}), Scheme("mxfp4_w4a16", {}, {}, weight_only=True)
    for name, choice in (("1", Choice()), ("force", FORCE), ("only", Choice(schemes=frozenset(["bf16"])))):
        for given in ("cpu", "cuda", "cuda:1", "xpu"):
            print(f"{name} on {given}: {told(lambda given=given, choice=choice: _plan.device_of(given, choice))}")
        for each in (scheme, weight_only):
            print(
                f"{name}, {each.name}: {told(lambda each=each, choice=choice: _plan.check_named(each, choice, ENGINE_OF_VLLM))}"
            )
            for realization in ("native", "dequantized", "weight_only", "emulated"):
                found = Names(ok=True, realization=(realization, "other"))
                told_is = told(lambda found=found, each=each, choice=choice: _plan.realization_of(found, each, choice))
                print(f"{name}, {each.name} {realization}: {told_is}")
        refused = Names(ok=False, reasons=("the first", "the second"))
        print(f"{name}: {told(lambda refused=refused, choice=choice: _plan.realization_of(refused, scheme, choice))}")
    torch.version.hip = "6"
    print(f"hip: {told(lambda: _plan.device_of('cuda', FORCE))}")
    torch.version.hip = None
    for capability in ((8, 0), (9, 0), (10, 0), (12, 0)):
        torch.cuda.get_device_capability = lambda device, capability=capability: capability
        for device in ("cpu", "cuda:0"):
            for leaves in (True, False):
                asked.clear()
                _plan.kernels_of({"a": 1}, torch.device(device), 7, leaves_activations=leaves)
                print(f"{capability} on {device}, leaves {leaves}: {asked}")
    torch.cuda.get_device_capability = lambda device: (9, 0)
    for experts in (1, 2, 3, 7, 8):
        for local in range(experts + 2):
            print(f"{local} of {experts}: {told(lambda experts=experts, local=local: rank_of(experts, local))}")


# ---- layers of vLLM

PARALLEL = Names(
    all2all_backend="allgather_reducescatter",
    dp_size=1,
    enable_eplb=False,
    ep_size=1,
    pcp_size=1,
    sp_size=1,
    use_all2all_kernels=False,
    use_ep=False,
)
VLLM = of_class(
    "RoutedExperts",
    "vllm.x",
    global_num_experts=8,
    local_num_experts=8,
    top_k=2,
    params_dtype=BF16,
    apply_router_weight_on_input=False,
    _expert_map=None,
    expert_placement_strategy="linear",
    swiglu_limit=None,
    swiglu_alpha=None,
    swiglu_beta=None,
    custom_routing_function=None,
    e_score_correction_bias=None,
    use_grouped_topk=False,
    routed_scaling_factor=1.0,
    scoring_func="softmax",
    num_expert_group=2,
    topk_group=1,
    expert_map_manager=Names(num_fused_shared_experts=0),
    moe_config=Names(
        device="cuda:1",
        is_lora_enabled=False,
        num_experts=8,
        num_logical_experts=8,
        tp_shard_with_padding=False,
        intermediate_pad=None,
        in_dtype=BF16,
        hidden_dim=64,
        has_bias=False,
        intermediate_size_per_partition=96,
        max_num_tokens=100,
        max_capture_size=40,
        swiglu_limit=None,
        swiglu_alpha=None,
        swiglu_beta=None,
        activation=Names(value="silu"),
        activation_situ_beta=None,
        activation_situ_linear_beta=None,
        require_decomposed_backend=False,
        has_hash_routing=False,
        routing_method=Names(name="Default"),
        moe_parallel_config=PARALLEL,
    ),
)
ENGINE = Names(
    parallel_config=Names(use_ubatching=False, enable_elastic_ep=False),
    offload_config=Names(uva=Names(cpu_offload_gb=0), prefetch=Names(offload_group_size=0)),
    aux_output_config=Names(enable_return_routed_experts=False),
)
MOE, RANKS = "moe_config", "moe_config.moe_parallel_config"
EXPERTS_OF_A_RANK = {f"{RANKS}.use_ep": True, "_expert_map": "map", "local_num_experts": 4}
GATHERED = {**EXPERTS_OF_A_RANK, f"{RANKS}.dp_size": 2, f"{RANKS}.ep_size": 2}
HIGH = {**GATHERED, f"{RANKS}.all2all_backend": "deepep_high_throughput", f"{RANKS}.use_all2all_kernels": True}
LOW = {**HIGH, f"{RANKS}.all2all_backend": "deepep_low_latency"}
VLLM_CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {f"{MOE}.device": "cpu"},
    {f"{MOE}.in_dtype": F8, "params_dtype": F8},
    {f"{MOE}.is_lora_enabled": True},
    {f"{RANKS}.enable_eplb": True},
    {f"{MOE}.num_experts": 9},
    {"expert_map_manager.num_fused_shared_experts": 1},
    {"engine.parallel_config.use_ubatching": True},
    {"engine.parallel_config.enable_elastic_ep": True},
    {"engine.offload_config.uva.cpu_offload_gb": 0.5},
    {"engine.offload_config.prefetch.offload_group_size": 1},
    {"engine.offload_config": None},
    {f"{RANKS}.use_all2all_kernels": True, f"{RANKS}.all2all_backend": "mori"},
    {f"{RANKS}.all2all_backend": "mori"},
    {f"{RANKS}.use_passthrough_all2all": True},
    {f"{RANKS}.use_ep": True},
    {f"{MOE}.tp_shard_with_padding": True},
    {f"{MOE}.intermediate_pad": 0},
    {f"{MOE}.has_bias": True},
    {"apply_router_weight_on_input": True},
    {"envs.VLLM_BATCH_INVARIANT": True},
    {f"{MOE}.max_capture_size": None},
    {f"{MOE}.max_capture_size": 101},
    {f"{RANKS}.dp_size": 2, f"{RANKS}.pcp_size": 3},
    EXPERTS_OF_A_RANK,
    GATHERED,
    {**GATHERED, f"{MOE}.max_capture_size": None},
    {**GATHERED, f"{MOE}.max_capture_size": 200},
    {**GATHERED, f"{MOE}.device": "cpu"},
    {**GATHERED, f"{RANKS}.ep_size": 4},
    {**GATHERED, f"{RANKS}.all2all_backend": "naive"},
    {**GATHERED, "expert_placement_strategy": "round_robin"},
    {**GATHERED, "answer": "moe_parallel_config"},
    HIGH,
    {**HIGH, f"{RANKS}.sp_size": 3},
    {**HIGH, "apply_router_weight_on_input": True},
    {**HIGH, f"{MOE}.in_dtype": F16, "params_dtype": F16},
    {**HIGH, f"{RANKS}.ep_size": 3},
    {**HIGH, f"{RANKS}.pcp_size": 2},
    {**HIGH, f"{MOE}.hidden_dim": 96},
    LOW,
    {**LOW, f"{MOE}.max_capture_size": None},
    {**LOW, "apply_router_weight_on_input": True},
    {"answer": "routing_method"},
    {"answer": "all"},
)
SWIGLU = ("swiglu_limit", "swiglu_alpha", "swiglu_beta")
ACTIVATIONS = ("silu", "gelu", "swigluoai", "swigluoai_uninterleave", "swiglustep", "situ", "silu_no_mul")


def vllm_plan(changes: dict[str, Any], method: Any = None) -> str:
    global answer  # noqa: PLW0603
    layer, engine, refuses = VLLM, ENGINE, ""
    vllm.envs.VLLM_BATCH_INVARIANT = vllm.envs.VLLM_MOE_ROUTING_SIMULATION_STRATEGY = ""
    for path, value in changes.items():
        first, _, rest = path.partition(".")
        if first == "engine":
            engine = changed(engine, rest, value)
        elif first == "envs":
            setattr(vllm.envs, rest, value)
        elif first == "answer":
            refuses = value
        else:
            layer = changed(layer, path, value)

    def answer(source: Any) -> Any:
        custom = source["routing_method"] == "custom"
        bad = refuses == "all" or (refuses == "routing_method" and not custom)
        bad |= refuses == "moe_parallel_config" and "dp_size" in source.get("moe_parallel_config", {})
        return Found(
            ok=not bad, reasons=("r0", "r1"), realization=("native", "x"), never_run=(f"never {'c' if custom else 'r'}", "x")
        )

    def plan() -> str:
        made = _vllm_plan.plan_of(layer, method or of_class("UnquantizedFusedMoEMethod", "vllm.x"), engine, FORCE)
        return members(made)

    return told(plan)


def vllm_layers() -> None:
    title("layers of vLLM")
    helper = "vllm.model_executor.layers.fused_moe.all2all_utils"
    importlib.import_module(helper).__dict__["maybe_roundup_layer_hidden_size"] = lambda size, dtype, parallel: (
        -(-size // 64) * 64
    )
    difference = Differences()
    for changes in VLLM_CHANGES:
        short = {path.replace(f"{RANKS}.", "ranks.").replace(f"{MOE}.", "moe."): value for path, value in changes.items()}
        print(f"{short}:{difference(vllm_plan(changes))}")
    for name in (*_vllm_plan.EXPERTS_CLASSES, "LoRAExperts"):
        layer = of_class(name, "vllm.x", **vars(VLLM))
        print(f"{name}: {told(lambda layer=layer: _vllm_plan._refuse_features(layer, ENGINE))}")
    gpt_oss = of_class("GptOssMxfp4MoEMethod", "vllm.x", mxfp4_backend=Names(name="MARLIN"))
    print(f"padded:{difference(vllm_plan({f'{MOE}.intermediate_size_per_partition': 129}, gpt_oss))}")
    static = of_class("ModelOptFp8MoEMethod", "vllm.x")
    print(f"static scales:{difference(vllm_plan(GATHERED, static))}")
    nvfp4 = of_class("ModelOptNvFp4FusedMoE", "vllm.x", use_a16=False)
    print(f"static second scales:{difference(vllm_plan(GATHERED, nvfp4))}")
    for name in ACTIVATIONS:
        for key in SWIGLU:
            for value in (0.0, 1.0, 1.702, 7):
                layer = changed(changed(VLLM, f"{MOE}.activation.value", name), key, value)
                print(f"{name}, {key} {value}: {told(lambda layer=layer: _vllm_plan._activation(layer))}")
    both = changed(changed(VLLM, f"{MOE}.swiglu_limit", 5.0), "swiglu_limit", 0.0)
    print(f"the layer's limit before the configuration's: {_vllm_plan._activation(both)}")
    print(f"the configuration's limit: {_vllm_plan._activation(changed(VLLM, f'{MOE}.swiglu_limit', 5.0))}")
    bare = changed(changed(VLLM, f"{MOE}.activation.value", "situ"), f"{MOE}.activation_situ_beta", None)
    print(f"situ without beta: {told(lambda: _vllm_plan._activation(bare))}")
    for linear in (None, 0.5):
        layer = changed(changed(VLLM, f"{MOE}.activation.value", "situ"), f"{MOE}.activation_situ_beta", 2.0)
        layer = changed(layer, f"{MOE}.activation_situ_linear_beta", linear)
        print(f"situ {linear}: {_vllm_plan._activation(layer)}")


# ---- layers of SGLang

CONFIG = Names(
    no_combine=False,
    silu_mul_keep_fp32=False,
    activation="silu",
    gemm1_alpha=None,
    gemm1_beta=None,
    gemm1_clamp_limit=None,
    swiglu_limit=None,
    is_gated=True,
    gate_up_interleaved=False,
    apply_router_weight_on_input=False,
    routed_scaling_factor=2.5,
)
SGLANG = of_class(
    "FusedMoE",
    "sglang.x",
    **{
        "w13_weight": Tensor(np.zeros(3, np.float32), BF16),
        "params_dtype": BF16,
        "with_bias": False,
        "intermediate_size_per_partition": 96,
        "moe_runner_config": CONFIG,
        "num_fused_shared_experts": 0,
        "supports_deferred_finalize": False,
        "top_k": 2,
        "hidden_size": 64,
        "num_experts": 4,
        "moe_ep_size": 1,
        "num_local_experts": 4,
        "should_fuse_routed_scaling_factor_in_topk": False,
        "parameters": lambda: iter([Names(device="cuda:1")]),
    },
)
WORLD = Names(
    transport="none",
    runner="triton",
    exec=Names(
        moe=Names(
            enable_eplb=False,
            ep_num_redundant_experts=0,
            init_expert_location="trivial",
            elastic_ep_backend=None,
            ep_join_mode=None,
        ),
        overlap=Names(enable_two_batch_overlap=False, enable_single_batch_overlap=False),
        offload=Names(cpu_offload_gb=0, offload_group_size=0),
        graph=Names(
            cuda_graph_config=Names(
                decode=Names(backend="full", max_bs=10), prefill=Names(backend="disabled", max_bs=500, bs=[600])
            )
        ),
    ),
    lora=Names(enable_lora=False, lora_paths=None),
    parallel=Names(dwdp_size=1, attn_dp_size=1),
    schedule=Names(chunked_prefill_size=3000, max_prefill_tokens=5000),
    spec=Names(speculative_num_draft_tokens=None),
)
GRAPHS = "exec.graph.cuda_graph_config"
SGLANG_CHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"transport": "deepep"},
    {"lora.enable_lora": True},
    {"lora.lora_paths": ["a"]},
    {"exec.moe.enable_eplb": True},
    {"exec.moe.ep_num_redundant_experts": 1},
    {"exec.moe.init_expert_location": None},
    {"exec.moe.init_expert_location": "file"},
    {"exec.moe.elastic_ep_backend": "mooncake"},
    {"exec.moe.ep_join_mode": "scale"},
    {"exec.overlap.enable_two_batch_overlap": True},
    {"exec.overlap.enable_single_batch_overlap": True},
    {"exec.offload.cpu_offload_gb": 1},
    {"exec.offload.offload_group_size": 1},
    {"parallel.dwdp_size": 2},
    {"parallel.attn_dp_size": 3},
    {"spec.speculative_num_draft_tokens": 4},
    {GRAPHS: None},
    {f"{GRAPHS}.decode.backend": "disabled"},
    {f"{GRAPHS}.decode.max_bs": None},
    {f"{GRAPHS}.prefill.backend": "full"},
    {f"{GRAPHS}.prefill.backend": "full", f"{GRAPHS}.prefill.bs": None},
    {f"{GRAPHS}.prefill.backend": "full", f"{GRAPHS}.decode.max_bs": 700},
    {f"{GRAPHS}.prefill.backend": "full", f"{GRAPHS}.prefill.max_bs": 20000},
    {"schedule.chunked_prefill_size": -1},
    {"schedule.chunked_prefill_size": None},
    {"schedule.chunked_prefill_size": 0, "schedule.max_prefill_tokens": 0},
    {"schedule.chunked_prefill_size": 20000},
    {"schedule.chunked_prefill_size": 1},
    {"schedule.chunked_prefill_size": 1, "parallel.attn_dp_size": 3},
    {"runner": "cutlass"},
    {"layer.num_fused_shared_experts": 1},
    {"layer.supports_deferred_finalize": True},
    {"layer.moe_runner_config.no_combine": True},
    {"layer.moe_runner_config.silu_mul_keep_fp32": True},
    {"layer.moe_runner_config.routed_scaling_factor": None},
    {"layer.moe_runner_config.apply_router_weight_on_input": True},
    {"layer.should_fuse_routed_scaling_factor_in_topk": True},
    {"layer.moe_ep_size": 2, "layer.num_local_experts": 2},
    {"layer.with_bias": True},
    {"layer.params_dtype": F8, "layer.w13_weight": Tensor(np.zeros(3, np.float32), F8)},
)


def sglang_layers() -> None:
    title("layers of SGLang")
    difference = Differences()
    for changes in SGLANG_CHANGES:
        layer, world = SGLANG, WORLD
        for path, value in changes.items():
            first, _, rest = path.partition(".")
            layer = changed(layer, rest, value) if first == "layer" else layer
            world = world if first == "layer" else changed(world, path, value)
        for name in ("exec", "lora", "parallel", "schedule", "spec"):
            setattr(_sglang_plan, f"get_{name}", lambda world=world, name=name: getattr(world, name))
        _sglang_plan.__dict__["get_moe_a2a_backend"] = lambda world=world: Names(value=world.transport)
        _sglang_plan.__dict__["get_moe_runner_backend"] = lambda world=world: Names(value=world.runner)

        def plan(layer: Any = layer) -> str:
            made = _sglang_plan.plan_of(layer, of_class("UnquantizedFusedMoEMethod", "sglang.x"), FORCE)
            return members(made)

        shown = {path: "..." if isinstance(value, Tensor) else value for path, value in changes.items()}
        print(f"{shown}:{difference(told(plan))}")
    other = of_class("EpMoE", "sglang.x", **vars(SGLANG))
    print(f"EpMoE: {told(lambda: _sglang_plan._refuse_features(other))}")
    for gated in (True, False):
        for name in ("silu", "gelu", "gelu_tanh", "relu2", "situ", "none"):
            for numbers in (
                {},
                {"gemm1_alpha": 1.5},
                {"gemm1_clamp_limit": 7},
                {"swiglu_limit": 6},
                {"gemm1_alpha": 1.5, "gemm1_clamp_limit": 7},
                {"gemm1_alpha": 1.5, "gemm1_clamp_limit": 7, "gate_up_interleaved": True},
                {"gemm1_clamp_limit": 7, "swiglu_limit": 6},
                {"gemm1_alpha": 1.5, "gemm1_clamp_limit": 7, "swiglu_limit": 6},
                {"gemm1_beta": 1.0},
            ):
                config = Names(**{**vars(CONFIG), "activation": name, "is_gated": gated, **numbers})
                print(f"{name}, gated {gated}, {numbers}: {told(lambda config=config: _sglang_plan._activation(config))}")


torch.cuda.get_device_capability = lambda device: (9, 0)
torch.cuda.current_device = lambda: 3
torch.version.hip = None
_plan.__dict__["supports"] = supports
shared()
answer_before = answer
vllm_layers()
answer = answer_before
sglang_layers()
