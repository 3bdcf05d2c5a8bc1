# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints how the plug-ins of vLLM and SGLang read the parameters of many layers. Torch and the engines are stand-ins.

test_without_torch.py compares the output with schemes_without_torch.txt. This writes it, with moec installed:

    python python/tests/schemes_without_torch.py >python/tests/schemes_without_torch.txt
"""

from types import SimpleNamespace as Names
from typing import Any

import numpy as np
from standins import Tensor, install

install("torch", "vllm", "sglang")
from decisions import BF16, F8, F16, F32, Differences, Enumerated, changed, columns, of_class, title, told  # noqa: E402

from moec.integrations import _sglang_schemes, _vllm_schemes  # noqa: E402


def printed(scheme: Any) -> str:
    """All members of a scheme, and what the conversions make of small tensors."""
    lines = [f"{scheme.fields} weight_only={scheme.weight_only} leaves={scheme.leaves_activations} multiple={scheme.multiple}"]
    lines += [f"    {name} = {parameter}" for name, parameter in scheme.stored.items()]
    lines += [f"    unused {' '.join(scheme.unused)}"] if scheme.unused else []
    for name, change in scheme.changed.items():
        for shape in ((2,), (2, 2, 1), (2, 3)):
            given = Tensor(np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape) / 4)
            try:
                made = change(given)
            except (ValueError, IndexError):
                continue
            numbers = [round(float(number), 3) for number in made.array.flatten()]
            lines.append(f"    {name} of {list(given.shape)}: {list(made.shape)} {numbers}")
    return "\n".join(lines)


# ---- schemes of vLLM

VLLM_LAYER = Names(
    params_dtype=BF16,
    global_num_experts=3,
    moe_config=Names(in_dtype=BF16, has_bias=False, intermediate_size_per_partition=96),
)
FP8_WORDS: dict[str, tuple[Any, ...]] = {
    "block_quant": (True,),
    "quant_config.activation_scheme": ("static",),
    "per_act_token_quant": (True,),
}
COMPRESSED = dict(
    weight_quant=Names(strategy=Enumerated("CHANNEL")),
    input_quant=Names(strategy="token"),
    weight_block_size=[128, 128],
    static_input_scales=False,
)
WNA16 = dict(input_quant=None, weight_quant=Names(actorder=None), num_bits=4, symmetric=True, strategy="group", group_size=64)
VLLM_METHODS: dict[str, tuple[dict[str, Any], dict[str, tuple[Any, ...]]]] = {
    "UnquantizedFusedMoEMethod": ({}, {}),
    "Fp8MoEMethod": (
        dict(
            block_quant=False,
            weight_scale_refine=None,
            weight_block_size=[128, 128],
            quant_config=Names(activation_scheme="dynamic"),
        ),
        FP8_WORDS,
    ),
    "ModelOptFp8MoEMethod": ({}, {}),
    "CompressedTensorsW8A8Fp8MoEMethod": (
        COMPRESSED,
        {
            "weight_quant.strategy": ("block", "tensor"),
            "input_quant.strategy": ("tensor", Enumerated("Token")),
            "weight_block_size": ([64, 128],),
        },
    ),
    "CompressedTensorsW8A8Int8MoEMethod": (dict(static_input_scales=False), {"static_input_scales": (True,)}),
    "GptOssMxfp4MoEMethod": (
        dict(mxfp4_backend=Names(name="MARLIN")),
        {
            "mxfp4_backend.name": (
                "TRITON",
                "TRITON_UNFUSED",
                "BATCHED_MARLIN",
                "EMULATION",
                "CPU",
                "FLASHINFER_TRTLLM_BF16",
                "FLASHINFER_TRTLLM_MXFP8",
            ),
            "activation_key": ("mxfp8",),
        },
    ),
    "Mxfp4MoEMethod": (dict(mxfp4_backend=Names(name="MARLIN")), {}),
    "AutoGPTQMoEMethod": (
        dict(quant_config=Names(weight_bits=4, group_size=128, is_sym=True, desc_act=False)),
        {
            "quant_config.weight_bits": (8,),
            "quant_config.group_size": (-1,),
            "quant_config.is_sym": (False,),
            "quant_config.desc_act": (True,),
        },
    ),
    "AutoAWQMoEMethod": (dict(quant_config=Names(group_size=64, zero_point=True)), {"quant_config.zero_point": (False,)}),
    "CompressedTensorsWNA16MoEMethod": (
        WNA16,
        {
            "num_bits": (8, 2),
            "symmetric": (False,),
            "strategy": (Enumerated("Channel"),),
            "input_quant": (Names(),),
            "weight_quant.actorder": ("group", Enumerated("DYNAMIC"), Enumerated("weight")),
        },
    ),
    "ModelOptNvFp4FusedMoE": (
        dict(use_a16=False, nvfp4_backend=Names(name="MARLIN")),
        {"use_a16": (True,), "nvfp4_backend.name": ("CUTLASS",), "per_token_activation": (True,)},
    ),
    "CompressedTensorsW4A4Nvfp4MoEMethod": (dict(use_a16=False), {"use_a16": (True,)}),
    "QuarkMoEMethod": ({}, {}),
}


# Several members of a method, and of a layer, at once.
VLLM_TOGETHER: tuple[tuple[str, dict[str, Any]], ...] = (
    ("CompressedTensorsW8A8Fp8MoEMethod", {"weight_quant.strategy": "block", "weight_block_size": [64, 128]}),
    ("CompressedTensorsW8A8Fp8MoEMethod", {"weight_quant.strategy": "tensor", "input_quant.strategy": "tensor"}),
    (
        "CompressedTensorsW8A8Fp8MoEMethod",
        {"weight_quant.strategy": "tensor", "input_quant.strategy": "tensor", "static_input_scales": True},
    ),
    ("CompressedTensorsWNA16MoEMethod", {"num_bits": 8, "symmetric": False}),
    ("AutoGPTQMoEMethod", {"quant_config.desc_act": True, "quant_config.group_size": -1}),
    ("Fp8MoEMethod", {"quant_config.activation_scheme": "static", "per_act_token_quant": True}),
)
SGLANG_TOGETHER: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("GPTQMarlinMoEMethod", {}, {"moe_tp_size": 2, "intermediate_size_per_partition": 80}),
    ("GPTQMarlinMoEMethod", {}, {"moe_tp_size": 2}),
    ("GPTQMarlinMoEMethod", {"quant_config.group_size": -1}, {"moe_tp_size": 2, "intermediate_size_per_partition": 80}),
    ("GPTQMarlinMoEMethod", {"quant_config.group_size": -1, "quant_config.desc_act": True}, {}),
)


def vllm_schemes() -> None:
    title("schemes of vLLM")
    for kind, together in VLLM_TOGETHER:
        method = of_class(kind, "vllm.x", **VLLM_METHODS[kind][0])
        for path, value in together.items():
            method = changed(method, path, value)
        print(f"{kind}, {together}: {told(lambda method=method: printed(_vllm_schemes.scheme_of(VLLM_LAYER, method)))}")
    for kind, (values, changes) in VLLM_METHODS.items():
        difference = Differences()
        base = of_class(kind, "vllm.model_executor.x", **values)
        for label, path, value in columns(kind, changes):
            method = changed(base, path, value) if path else base
            if label.endswith("block_quant True"):
                split = changed(method, "weight_scale_refine", 2)
                print(
                    f"{label}, split:{difference(told(lambda split=split: printed(_vllm_schemes.scheme_of(VLLM_LAYER, split))))}"
                )
            print(f"{label}:{difference(told(lambda method=method: printed(_vllm_schemes.scheme_of(VLLM_LAYER, method))))}")
        biased = changed(VLLM_LAYER, "moe_config.has_bias", True)
        print(f"{kind} with biases: {told(lambda base=base, biased=biased: _vllm_schemes.scheme_of(biased, base).name)}")
        narrow = changed(VLLM_LAYER, "moe_config.intermediate_size_per_partition", 80)
        print(f"{kind} of 80 columns: {told(lambda base=base, narrow=narrow: _vllm_schemes.scheme_of(narrow, base).name)}")
        foreign = of_class(kind, "other.vllm.x", **values)
        print(f"{kind} of another package: {told(lambda foreign=foreign: _vllm_schemes.scheme_of(VLLM_LAYER, foreign).name)}")
    for weights in (BF16, F16, F32, F8):
        for inputs in (BF16, F16, F32, F8):
            layer = changed(changed(VLLM_LAYER, "params_dtype", weights), "moe_config.in_dtype", inputs)
            method = of_class("UnquantizedFusedMoEMethod", "vllm.x")
            print(
                f"{weights} with {inputs}: {told(lambda layer=layer, method=method: _vllm_schemes.scheme_of(layer, method).name)}"
            )


# ---- schemes of SGLang

SGLANG_LAYER = of_class(
    "FusedMoE",
    "sglang.x",
    w13_weight=Tensor(np.zeros((3, 8, 4), np.float32), BF16),
    w2_weight=Tensor(np.zeros((3, 8, 48), np.uint8)),
    w13_scales=Tensor(np.zeros((3, 8), np.float32), BF16),
    params_dtype=BF16,
    num_experts=3,
    with_bias=False,
    hidden_size_unpadded=64,
    intermediate_size_per_partition=96,
    moe_tp_size=1,
    scheme=of_class("CompressedTensorsW8A8Fp8MoE", "sglang.x", **COMPRESSED),
)
INTEGERS = of_class("CompressedTensorsWNA16MoE", "sglang.x", sym=True, actorder=None, num_bits=4, group_size=32)
SGLANG_METHODS: dict[str, tuple[dict[str, Any], dict[str, tuple[Any, ...]]]] = {
    "UnquantizedFusedMoEMethod": ({}, {}),
    "Fp8MoEMethod": (
        dict(
            quant_config=Names(is_checkpoint_fp8_serialized=True, activation_scheme="dynamic"),
            use_mxfp8=False,
            is_fp4_expert=False,
            block_quant=False,
            weight_block_size=[128, 128],
        ),
        {
            "block_quant": (True,),
            "quant_config.activation_scheme": ("static",),
            "quant_config.is_checkpoint_fp8_serialized": (False,),
            "use_mxfp8": (True,),
            "is_fp4_expert": (True,),
        },
    ),
    "CompressedTensorsFusedMoEMethod": ({}, {}),
    "Mxfp4MoEMethod": (dict(hidden_size=64), {"hidden_size": (128,)}),
    "GPTQMarlinMoEMethod": (
        dict(quant_config=Names(weight_bits=4, group_size=48, is_sym=True, desc_act=False)),
        {
            "quant_config.weight_bits": (8,),
            "quant_config.group_size": (-1, 64),
            "quant_config.is_sym": (False,),
            "quant_config.desc_act": (True,),
        },
    ),
    "AWQMoEMethod": (dict(quant_config=Names(group_size=64, zero_point=True)), {"quant_config.zero_point": (False,)}),
    "MoeWNA16Method": ({}, {}),
}
SGLANG_LAYERS: dict[str, tuple[Any, ...]] = {
    "with_bias": (True,),
    "moe_tp_size": (2,),
    "w13_scales": (Tensor(np.zeros((3, 8), np.float32), F16),),
    "params_dtype": (F16,),
    "intermediate_size_per_partition": (80,),
    "scheme": (
        INTEGERS,
        changed(INTEGERS, "sym", False),
        changed(INTEGERS, "actorder", "group"),
        changed(INTEGERS, "num_bits", 8),
        changed(INTEGERS, "num_bits", 3),
        of_class("CompressedTensorsWNA16TritonMoE", "sglang.x", **vars(INTEGERS)),
        of_class("CompressedTensorsMxInt4MoE", "sglang.x"),
    ),
}


def sglang_schemes() -> None:
    title("schemes of SGLang")

    def of(layer: Any, method: Any, runner: str = "triton") -> str:
        made = _sglang_schemes.scheme_of(layer, method, runner)
        # All stored weights come through their conversions, and no other tensor does.
        parameters = {parameter: Tensor(np.full((2, 1), number)) for number, parameter in enumerate(made.stored.values())}
        weights = made.weights(Names(**parameters))
        shown = " ".join(f"{name}:{tensor.array.flatten().tolist()}" for name, tensor in weights.items())
        return f"{printed(made)}\n    weights {shown}\n    intermediate {_sglang_schemes.intermediate_of(layer, made)}"

    for kind, together, layers in SGLANG_TOGETHER:
        method, layer = of_class(kind, "sglang.x", **SGLANG_METHODS[kind][0]), SGLANG_LAYER
        for path, value in together.items():
            method = changed(method, path, value)
        for path, value in layers.items():
            layer = changed(layer, path, value)
        print(f"{kind}, {together}, {layers}: {told(lambda method=method, layer=layer: of(layer, method))}")
    for kind, (values, changes) in SGLANG_METHODS.items():
        difference = Differences()
        base = of_class(kind, "sglang.srt.x", **values)
        for label, path, value in columns(kind, changes):
            method = changed(base, path, value) if path else base
            print(f"{label}:{difference(told(lambda method=method: of(SGLANG_LAYER, method)))}")
        for path, given in SGLANG_LAYERS.items():
            if path == "scheme" and not kind.startswith("Compressed"):
                continue
            for number, value in enumerate(given):
                layer = changed(SGLANG_LAYER, path, value)
                print(f"{kind}, {path} {number}:{difference(told(lambda base=base, layer=layer: of(layer, base)))}")
        for runner in ("auto", "triton", "marlin", "triton_kernel", "cutlass"):
            print(f"{kind} with {runner}: {told(lambda base=base, runner=runner: len(of(SGLANG_LAYER, base, runner)) > 0)}")
        first = changed(base, "load_up_proj_weight_first", True)
        print(f"{kind}, ups first: {told(lambda first=first: of(SGLANG_LAYER, first))}")
        foreign = of_class(kind, "other", **values)
        print(f"{kind} of another package: {told(lambda foreign=foreign: of(SGLANG_LAYER, foreign))}")


vllm_schemes()
sglang_schemes()
