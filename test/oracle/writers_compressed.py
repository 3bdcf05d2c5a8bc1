# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checkpoints of compressed-tensors: its schemes, its scales, its ModelCompressor, as llm-compressor saves a model."""

import copy
import functools
import pathlib
from typing import Any

import compressed_tensors
import torch
from compressed_tensors.compressors import BaseCompressor, ModelCompressor
from compressed_tensors.quantization import (
    QuantizationArgs,
    QuantizationConfig,
    QuantizationScheme,
    apply_quantization_config,
    forward_quantize,
    preset_name_to_scheme,
)
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam, is_module_quantized
from safetensors.torch import save_file

from written import HIDDEN, INNER, Case, Tensor, Written, inputs, linear, make_model

IGNORED = ["lm_head", "re:.*mlp.gate$", "re:.*self_attn.*"]


def ranges(weight: Tensor, args: QuantizationArgs) -> tuple[Tensor, Tensor]:
    """The least and the largest of what shares a scale, as observers of llm-compressor hand them over."""
    if args.strategy == "tensor":
        return weight.min().reshape(1), weight.max().reshape(1)
    if args.strategy == "channel":
        return weight.amin(1, keepdim=True), weight.amax(1, keepdim=True)
    if args.strategy in ("group", "tensor_group"):
        groups = weight.unflatten(-1, (-1, args.group_size))
        return groups.amin(-1), groups.amax(-1)
    rows, columns = args.block_structure
    blocks = weight.unflatten(0, (-1, rows)).unflatten(2, (-1, columns))
    return blocks.amin((1, 3)), blocks.amax((1, 3))


def calibrate(module: Any, largest_input: float) -> None:
    """Gives a module the scales that its scheme wants."""
    scheme = module.quantization_scheme
    weights, activations = scheme.weights, scheme.input_activations
    if weights:
        weight = module.weight.data
        whole = None
        if weights.strategy == "tensor_group":
            whole = generate_gparam(weight.float().min(), weight.float().max())
            module.weight_global_scale.data.copy_(whole)
        scale, zero_point = calculate_qparams(*ranges(weight, weights), weights, global_scale=whole)
        module.weight_scale.data.copy_(scale)
        if hasattr(module, "weight_zero_point"):
            module.weight_zero_point.data.copy_(zero_point)
    if activations and activations.dynamic is not True:
        bound = torch.tensor(largest_input)
        if activations.dynamic == "local":
            module.input_global_scale.data.copy_(generate_gparam(-bound, bound))
        else:
            scale, _ = calculate_qparams(-bound, bound, activations)
            module.input_scale.data.copy_(scale)


def save(model: Any, folder: pathlib.Path, quantization_format: str | None = None) -> None:
    """As save_pretrained_wrapper() of llm-compressor."""
    compressor = ModelCompressor.from_pretrained_model(model, quantization_format)
    compressor.compress_model(model)
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, folder / "model.safetensors")
    model.config.save_pretrained(folder)
    compressor.update_config(str(folder))


def weight_of(model: Any, part: str, expert: int) -> Tensor:
    """Decompressed by the library, with scales in f64, so that it does not round again."""
    module = linear(model, part, expert)
    state = {name: tensor.data for name, tensor in module.named_parameters()}
    for name, tensor in state.items():
        if tensor.dtype in (torch.bfloat16, torch.float16, torch.float32):
            state[name] = tensor.double()
    scheme = module.quantization_scheme
    made = BaseCompressor.get_value_from_registry(scheme.format).decompress(state, scheme)
    return made["weight"].double()


def by_token(rows: Tensor, largest: int) -> Tensor:
    """Integers as engines quantize them. The library simulates them with a scale of amax / (largest + 0.5)."""
    scale = rows.abs().amax(1, keepdim=True) / largest
    return (rows / scale).round() * scale


def write(
    folder: pathlib.Path,
    *,
    groups: dict[str, QuantizationScheme],
    ignore: list[str],
    quantization_format: str | None = None,
    dtype: torch.dtype = torch.bfloat16,
    hidden: int = HIDDEN,
    inner: int = INNER,
    emulated: bool = False,
) -> Written:
    """emulated: moec multiplies 16-bit numbers in place of codes, which have one more rounding."""
    model = make_model(dtype, hidden, inner)
    apply_quantization_config(model, QuantizationConfig(config_groups=groups, ignore=ignore), show_progress=False)
    largest = float(inputs(hidden)[0].abs().max())
    # The intermediate of one layer has the same scale for all experts, as engines use the largest of them.
    for name, module in model.named_modules():
        if is_module_quantized(module):
            calibrate(module, 60.0 if name.endswith("down_proj") else largest)
    before = copy.deepcopy(model)
    for _, module in before.named_modules():
        if hasattr(module, "input_scale"):
            # The library rounds its product to the type of the scale.
            module.input_scale.data = module.input_scale.data.float()
    save(model, folder, quantization_format)

    def rounding(rows: Tensor, part: str, expert: int) -> Tensor:
        module = linear(before, part, expert)
        args = module.quantization_scheme.input_activations
        if args.type == "int" and args.dynamic:
            made = by_token(rows, 2 ** (args.num_bits - 1) - 1)
        else:
            # By token means the last axis of three.
            made = forward_quantize(module, rows.float()[None], "input", args)[0]
        return made.to(torch.bfloat16) if emulated else made

    scheme = getattr(linear(before, "up_proj", 0), "quantization_scheme", None)
    is_plain = scheme is None or scheme.input_activations is None

    def weight(part: str, expert: int) -> Tensor:
        made = weight_of(model, part, expert)
        return made.to(torch.bfloat16).double() if emulated else made

    return Written(folder, weight, None if is_plain else rounding)


def of(name: str, targets: list[str] | None = None, **changes: Any) -> QuantizationScheme:
    """A scheme of the library's own, with other weights."""
    scheme = preset_name_to_scheme(name, targets or ["Linear"])
    for key, value in changes.items():
        fields = getattr(scheme, key).model_dump() | value
        setattr(scheme, key, QuantizationArgs(**fields))
    return scheme


def case(name: str, scheme: QuantizationScheme, refused: str = "", ignore: list[str] = IGNORED, **options: Any) -> Case:
    write_it = functools.partial(write, groups={"group_0": scheme}, ignore=ignore, **options)
    return Case(f"ct-{name}", write_it, refused=refused)


def cases() -> list[tuple[str, Case]]:
    channel = {"strategy": "channel", "group_size": None}
    made = [
        case("w4a16", of("W4A16")),
        case("w4a16-g32", of("W4A16", weights={"group_size": 32})),
        case("w4a16-channel", of("W4A16", weights=channel)),
        case("w4a16-actorder-weight", of("W4A16", weights={"actorder": "weight"})),
        case("w4a16-f16", of("W4A16"), dtype=torch.float16),
        case("w4a16-asym", of("W4A16_ASYM")),
        case("w4a16-asym-channel", of("W4A16_ASYM", weights=channel)),
        case("w8a16", of("W8A16")),
        case("w8a16-channel", of("W8A16", weights=channel)),
        case("w8a16-asym", of("W8A16", weights={"symmetric": False})),
        case("w8a8", of("W8A8")),
        case("w8a8-tensor", of("W8A8", weights={"strategy": "tensor"})),
        case("w8a8-static", of("W8A8", input_activations={"strategy": "tensor", "dynamic": False})),
        case("w4a8", of("W4A8"), emulated=True),
        case("w8a8-asym", of("W8A8", weights={"symmetric": False}), emulated=True),
        case("w4a4", of("W4A4"), refused="a1"),
        case("w4afp8", of("W4AFP8"), emulated=True),
        case("fp8", of("FP8")),
        case("fp8-dynamic", of("FP8_DYNAMIC")),
        case("fp8-block", of("FP8_BLOCK")),
        case("nvfp4a16", of("NVFP4A16")),
        case("nvfp4", of("NVFP4"), emulated=True),
        case("mxfp4a16", of("MXFP4A16")),
        case("mxfp4", of("MXFP4")),
        case("mxfp4-fp8", of("MXFP4XFP8"), emulated=True),
        case("mxfp6a16", of("MXFP6A16")),
        case("mxfp6a8", of("MXFP6A8")),
        case("mxfp8a16", of("MXFP8A16")),
        case("mxfp8", of("MXFP8")),
        case("w3a16", of("W3A16"), refused="num_bits"),
        case("w2a16", of("W2A16"), refused="num_bits"),
        case("ignored-experts", of("W4A16", ["re:.*self_attn.*"]), refused="config_groups", ignore=["lm_head"]),
    ]
    two = {"group_0": of("FP8_DYNAMIC", ["re:.*self_attn.*"]), "group_1": of("W4A16", ["re:.*experts.*"])}
    made.append(Case("ct-mixed-groups", functools.partial(write, groups=two, ignore=["lm_head", "re:.*mlp.gate$"])))
    return [(f"compressed-tensors {compressed_tensors.__version__}", each) for each in made]
