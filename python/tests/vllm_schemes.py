# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schemes as checkpoints store them for vLLM, and the numbers that they mean. They share no code with moec or vLLM."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch

Tensor: TypeAlias = torch.Tensor
Rounding: TypeAlias = Callable[[Tensor], Tensor]
Store: TypeAlias = "Callable[[Tensor, torch.Generator], Stored]"

E4M3 = torch.float8_e4m3fn
FP4 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], dtype=torch.float64)
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


class Stored(NamedTuple):
    """A matrix [rows, columns] as a checkpoint stores it, and the numbers that it means."""

    tensors: dict[str, Tensor]
    """By the end of the parameter's name: "weight", "weight_scale", ..."""
    numbers: Tensor


class Case(NamedTuple):
    """A scheme of vLLM, and moec's name for it."""

    name: str
    scheme: str
    method: str
    """vLLM's class."""
    config: Callable[[], Any]
    """vLLM's configuration of quantization; None for none."""
    store: Store
    rounded: Rounding
    """What the matmuls read of a row of activations."""
    bound: float
    """Of the error of the whole output."""
    act: str = "silu"


def to_bf16(numbers: Tensor) -> Tensor:
    return numbers.to(torch.bfloat16).double()


def _e4m3(quotients: Tensor, scale: Tensor) -> Tensor:
    """The nearest e4m3 numbers times the scale. Quotients are f32, because their last bit decides ties."""
    return quotients.clamp(-448, 448).to(E4M3).double() * scale.double()


def _of_one_scale(rows: Tensor, scale: Tensor) -> Tensor:
    """vLLM's kernels multiply by the reciprocal here. They divide where rows or groups have scales."""
    return _e4m3(rows.float() * (1 / scale), scale)


def of_groups(columns: int) -> Rounding:
    """e4m3 with a scale for so many columns of a row; 0: for the row."""

    def rounded(rows: Tensor) -> Tensor:
        grouped = rows.reshape(len(rows), -1, columns or rows.shape[1])
        scale = grouped.float().abs().amax(-1, keepdim=True).clamp_min(1e-10) / 448
        return _e4m3(grouped.float() / scale, scale).reshape(rows.shape)

    return rounded


def of_tensor(scale: float) -> Rounding:
    """e4m3 with a scale that the checkpoint has."""
    return lambda rows: _of_one_scale(rows, torch.tensor(scale, dtype=torch.float32))


def dynamic_tensor(rows: Tensor) -> Tensor:
    """e4m3 with one scale for all rows. The caller gives all rows at once."""
    return _of_one_scale(rows, rows.float().abs().amax().clamp_min(1e-10) / 448)


def int8_rows(rows: Tensor) -> Tensor:
    scale = rows.float().abs().amax(-1, keepdim=True).clamp_min(1e-10) / 127
    return (rows.float() / scale).round().clamp(-127, 127).double() * scale


def store_bf16(matrix: Tensor, random: torch.Generator) -> Stored:
    weight = matrix.to(torch.bfloat16)
    return Stored({"weight": weight}, weight.double())


def _codes(matrix: Tensor, scale: Tensor) -> Tensor:
    return (matrix / scale).clamp(-448, 448).float().to(E4M3)


def store_fp8_block(name: str) -> Store:
    def store(matrix: Tensor, random: torch.Generator) -> Stored:
        blocks = tuple(-(-extent // 128) for extent in matrix.shape)
        scale = torch.rand(blocks, generator=random).float() * 2e-4 + 2e-4
        wide = scale.double().repeat_interleave(128, 0).repeat_interleave(128, 1)[: matrix.shape[0], : matrix.shape[1]]
        codes = _codes(matrix, wide)
        return Stored({"weight": codes, name: scale}, codes.double() * wide)

    return store


def store_fp8_tensor(inputs: float | None) -> Store:
    def store(matrix: Tensor, random: torch.Generator) -> Stored:
        scale = torch.rand((), generator=random).float() * 2e-4 + 2e-4
        codes = _codes(matrix, scale.double())
        tensors = {"weight": codes, "weight_scale": scale}
        if inputs is not None:
            tensors["input_scale"] = torch.tensor(inputs, dtype=torch.float32)
        return Stored(tensors, codes.double() * scale.double())

    return store


def store_fp8_channel(matrix: Tensor, random: torch.Generator) -> Stored:
    scale = torch.rand((len(matrix), 1), generator=random).float() * 2e-4 + 2e-4
    codes = _codes(matrix, scale.double())
    return Stored({"weight": codes, "weight_scale": scale}, codes.double() * scale.double())


def store_int8_channel(matrix: Tensor, random: torch.Generator) -> Stored:
    scale = torch.rand((len(matrix), 1), generator=random).float() * 1e-3 + 1e-3
    codes = (matrix / scale.double()).round().clamp(-127, 127).to(torch.int8)
    return Stored({"weight": codes, "weight_scale": scale}, codes.double() * scale.double())


def _fp4_codes(matrix: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Codes, two in a byte, and the numbers that they mean with the scale of each element."""
    magnitude = (matrix / scale).abs()
    nearest = (magnitude[..., None] - FP4).abs().argmin(-1)
    codes = nearest + 8 * (matrix < 0)
    numbers = torch.where(matrix < 0, -FP4[nearest], FP4[nearest]) * scale
    return (codes[:, ::2] | (codes[:, 1::2] << 4)).to(torch.uint8), numbers


def store_mxfp4(matrix: Tensor, random: torch.Generator) -> Stored:
    exponent = torch.randint(122, 125, (matrix.shape[0], matrix.shape[1] // 32), generator=random)
    wide = (2.0 ** (exponent.double() - 127)).repeat_interleave(32, 1)
    packed, numbers = _fp4_codes(matrix, wide)
    return Stored({"weight": packed, "weight_scale": exponent.to(torch.uint8)}, to_bf16(numbers))


def store_nvfp4(names: tuple[str, str, str], *, inverse: bool, inputs: float) -> Store:
    """names: of the codes, of the second scale and of the activations' second scale. inverse: it is stored inverse."""

    def store(matrix: Tensor, random: torch.Generator) -> Stored:
        scale = (torch.rand((matrix.shape[0], matrix.shape[1] // 16), generator=random) * 200 + 50).to(E4M3)
        second = torch.tensor(2.0**-12, dtype=torch.float32)
        packed, numbers = _fp4_codes(matrix, (scale.double() * second.double()).repeat_interleave(16, 1))
        of_inputs = torch.tensor(1 / inputs if inverse else inputs, dtype=torch.float32)
        tensors = {names[0]: packed, "weight_scale": scale, names[1]: 1 / second if inverse else second, names[2]: of_inputs}
        return Stored(tensors, to_bf16(numbers))

    return store


def nvfp4_groups(second: float) -> Rounding:
    """e2m1 with an e4m3 scale for 16 columns, beside a second scale."""

    def rounded(rows: Tensor) -> Tensor:
        grouped = rows.float().reshape(len(rows), -1, 16)
        scale = (grouped.abs().amax(-1, keepdim=True) / 6 / second).clamp(max=448).to(E4M3).double() * second
        quotients = (grouped.double() / scale.clamp_min(1e-30)).abs()
        # Of two codes equally near, the even one.
        odd = torch.arange(len(FP4)) % 2
        distance = (quotients[..., None] - FP4).abs() + odd * 1e-9
        numbers = FP4[distance.argmin(-1)] * scale * grouped.sign()
        return to_bf16(numbers.reshape(rows.shape))

    return rounded


def _words(codes: Tensor, axis: int, bits: int, order: tuple[int, ...] = ()) -> Tensor:
    """Codes in 32-bit words along an axis. order: which of a word's codes each place has, from the lowest bits."""
    order = order or tuple(range(32 // bits))
    moved = codes.long().movedim(axis, -1).unflatten(-1, (-1, 32 // bits))
    words = torch.stack([moved[..., which] << (bits * place) for place, which in enumerate(order)]).sum(0)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32).movedim(-1, axis)


def store_integers(layout: str, group: int, *, bits: int = 4, zero_points: bool = False) -> Store:
    """Codes of 4 or 8 bits with scales for groups of columns. group: -1 is all columns."""
    middle = 2 ** (bits - 1)

    def store(matrix: Tensor, random: torch.Generator) -> Stored:
        rows, columns = matrix.shape
        size = columns if group < 0 else group
        shape = (rows, columns // size)
        scale = ((torch.rand(shape, generator=random) * 0.005 + 0.01) * 8 / middle).to(torch.bfloat16)
        zero = torch.randint(middle - 4, middle + 4, shape, generator=random) if zero_points else torch.full(shape, middle)
        wide, wide_zero = scale.double().repeat_interleave(size, 1), zero.double().repeat_interleave(size, 1)
        codes = (matrix / wide + wide_zero).round().clamp(0, 2**bits - 1)
        numbers = to_bf16((codes - wide_zero) * wide)
        if layout == "gptq":
            zeros = _words((zero - 1).t(), 1, bits)
            tensors = {"qweight": _words(codes.t(), 0, bits), "scales": scale.t().contiguous(), "qzeros": zeros}
        elif layout == "awq":
            tensors = {
                "qweight": _words(codes.t(), 1, bits, AWQ_ORDER),
                "scales": scale.t().contiguous(),
                "qzeros": _words(zero.t(), 1, bits, AWQ_ORDER),
            }
        else:
            tensors = {"weight_packed": _words(codes, 1, bits), "weight_scale": scale}
            tensors["weight_shape"] = torch.tensor([rows, columns])
            if zero_points:
                tensors["weight_zero_point"] = _words(zero, 0, bits)
        return Stored(tensors, numbers)

    return store


def _of(module: str, name: str, **config: Any) -> Callable[[], Any]:
    def make() -> Any:
        import importlib

        where = importlib.import_module(f"vllm.model_executor.layers.quantization.{module}")
        return getattr(where, name).from_config(config)

    return make


def _compressed(kind: str, weights: dict[str, Any], inputs: dict[str, Any] | None) -> Callable[[], Any]:
    group = {"targets": ["Linear"], "weights": {"dynamic": False, "symmetric": True, **weights}, "input_activations": inputs}
    return _of(
        "compressed_tensors.compressed_tensors",
        "CompressedTensorsConfig",
        quant_method="compressed-tensors",
        format=kind,
        config_groups={"group_0": group},
        ignore=[],
    )


def _fp8(**config: Any) -> Callable[[], Any]:
    return _of("fp8", "Fp8Config", quant_method="fp8", **config)


def _gptq(bits: int, group: int) -> Callable[[], Any]:
    return _of("auto_gptq", "AutoGPTQConfig", quant_method="gptq", bits=bits, group_size=group, desc_act=False, sym=True)


def _modelopt(kind: str, algorithm: str, **more: Any) -> Callable[[], Any]:
    config = {"quant_algo": algorithm, "kv_cache_quant_algo": None, "exclude_modules": [], **more}
    return _of("modelopt", kind, quant_method="modelopt", quantization=config)


_AWQ = _of("auto_awq", "AutoAWQConfig", quant_method="awq", bits=4, group_size=32, zero_point=True, version="gemm")
_TOKEN = {"num_bits": 8, "type": "float", "strategy": "token", "symmetric": True, "dynamic": True}
_CHANNEL = {"num_bits": 8, "type": "float", "strategy": "channel"}
_TENSOR = {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True}
_BLOCK = {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}
_FP8_GROUP = {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 128, "symmetric": True, "dynamic": True}
_INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}
_NVFP4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
_MODELOPT_NVFP4 = ("weight", "weight_scale_2", "input_scale")
_CT_NVFP4 = ("weight_packed", "weight_global_scale", "input_global_scale")
_CT_FP8, _CT_WNA16 = "CompressedTensorsW8A8Fp8MoEMethod", "CompressedTensorsWNA16MoEMethod"
_PACKED = "pack-quantized"
# Relative Frobenius errors that the package's other tests allow, by what is multiplied.
_OF_BF16, _OF_WEIGHTS, _OF_8_BITS = 2.5e-3, 5e-3, 6e-3
# One code of 4 bits that rounds otherwise is a large part of a row.
_OF_4_BITS = 2e-2

CASES = (
    Case("bf16", "bf16", "UnquantizedFusedMoEMethod", lambda: None, store_bf16, to_bf16, _OF_BF16),
    Case(
        "fp8 block",
        "fp8_block",
        "Fp8MoEMethod",
        _fp8(activation_scheme="dynamic", weight_block_size=[128, 128]),
        store_fp8_block("weight_scale_inv"),
        of_groups(128),
        _OF_8_BITS,
    ),
    Case(
        "fp8 tensor, dynamic",
        "fp8_tensor_dynamic",
        "Fp8MoEMethod",
        _fp8(activation_scheme="dynamic"),
        store_fp8_tensor(None),
        dynamic_tensor,
        _OF_8_BITS,
    ),
    Case(
        "fp8 tensor, static",
        "fp8_tensor",
        "Fp8MoEMethod",
        _fp8(activation_scheme="static"),
        store_fp8_tensor(0.01),
        of_tensor(0.01),
        _OF_8_BITS,
    ),
    Case(
        "ModelOpt fp8",
        "fp8_tensor",
        "ModelOptFp8MoEMethod",
        _modelopt("ModelOptFp8Config", "FP8"),
        store_fp8_tensor(0.01),
        of_tensor(0.01),
        _OF_8_BITS,
    ),
    Case(
        "compressed fp8 channel",
        "fp8_channel",
        _CT_FP8,
        _compressed("float-quantized", _CHANNEL, _TOKEN),
        store_fp8_channel,
        of_groups(0),
        _OF_8_BITS,
    ),
    Case(
        "compressed fp8 tensor, static",
        "fp8_tensor",
        _CT_FP8,
        _compressed("float-quantized", _TENSOR, _TENSOR | {"dynamic": False}),
        store_fp8_tensor(0.01),
        of_tensor(0.01),
        _OF_8_BITS,
    ),
    Case(
        "compressed fp8 block",
        "fp8_block",
        _CT_FP8,
        _compressed("float-quantized", _BLOCK, _FP8_GROUP),
        store_fp8_block("weight_scale"),
        of_groups(128),
        _OF_8_BITS,
    ),
    Case(
        "compressed int8 channel",
        "int8_channel",
        "CompressedTensorsW8A8Int8MoEMethod",
        _compressed("int-quantized", _CHANNEL | {"type": "int"}, _TOKEN | {"type": "int"}),
        store_int8_channel,
        int8_rows,
        _OF_8_BITS,
    ),
    Case("GPTQ int4", "int4_w4a16", "AutoGPTQMoEMethod", _gptq(4, 32), store_integers("gptq", 32), to_bf16, _OF_WEIGHTS),
    Case("GPTQ int8", "int8_w8a16", "AutoGPTQMoEMethod", _gptq(8, 32), store_integers("gptq", 32, bits=8), to_bf16, _OF_WEIGHTS),
    Case("GPTQ by channel", "int4_w4a16", "AutoGPTQMoEMethod", _gptq(4, -1), store_integers("gptq", -1), to_bf16, _OF_WEIGHTS),
    Case("AWQ", "int4_zp_w4a16", "AutoAWQMoEMethod", _AWQ, store_integers("awq", 32, zero_points=True), to_bf16, _OF_WEIGHTS),
    Case(
        "compressed int4",
        "int4_w4a16",
        _CT_WNA16,
        _compressed(_PACKED, _INT4, None),
        store_integers("rows", 32),
        to_bf16,
        _OF_WEIGHTS,
    ),
    Case(
        "compressed int4, zero points",
        "int4_zp_w4a16",
        _CT_WNA16,
        _compressed(_PACKED, _INT4 | {"symmetric": False}, None),
        store_integers("rows", 32, zero_points=True),
        to_bf16,
        _OF_WEIGHTS,
    ),
    Case(
        "compressed int8",
        "int8_w8a16",
        _CT_WNA16,
        _compressed(_PACKED, _INT4 | {"num_bits": 8}, None),
        store_integers("rows", 32, bits=8),
        to_bf16,
        _OF_WEIGHTS,
    ),
    Case(
        "gpt-oss",
        "mxfp4_w4a16",
        "GptOssMxfp4MoEMethod",
        _of("mxfp4", "GptOssMxfp4Config", quant_method="mxfp4"),
        store_mxfp4,
        to_bf16,
        _OF_WEIGHTS,
        "swigluoai",
    ),
    Case(
        "MXFP4",
        "mxfp4_w4a16",
        "Mxfp4MoEMethod",
        _of("mxfp4", "Mxfp4Config", quant_method="mxfp4"),
        store_mxfp4,
        to_bf16,
        _OF_WEIGHTS,
    ),
    Case(
        "ModelOpt NVFP4 weights",
        "nvfp4_w4a16",
        "ModelOptNvFp4FusedMoE",
        _modelopt("ModelOptNvFp4Config", "W4A16_NVFP4", group_size=16),
        store_nvfp4(_MODELOPT_NVFP4, inverse=False, inputs=1),
        to_bf16,
        _OF_WEIGHTS,
    ),
    Case(
        "ModelOpt NVFP4",
        "nvfp4",
        "ModelOptNvFp4FusedMoE",
        _modelopt("ModelOptNvFp4Config", "NVFP4", group_size=16),
        store_nvfp4(_MODELOPT_NVFP4, inverse=False, inputs=2.0**-9),
        nvfp4_groups(2.0**-9),
        _OF_4_BITS,
    ),
    Case(
        "compressed NVFP4 weights",
        "nvfp4_w4a16",
        "CompressedTensorsW4A4Nvfp4MoEMethod",
        _compressed("nvfp4-pack-quantized", _NVFP4, None),
        store_nvfp4(_CT_NVFP4, inverse=True, inputs=1),
        to_bf16,
        _OF_WEIGHTS,
    ),
    Case(
        "compressed NVFP4",
        "nvfp4",
        "CompressedTensorsW4A4Nvfp4MoEMethod",
        _compressed("nvfp4-pack-quantized", _NVFP4, _NVFP4 | {"symmetric": True, "dynamic": "local"}),
        store_nvfp4(_CT_NVFP4, inverse=True, inputs=2.0**-9),
        nvfp4_groups(2.0**-9),
        _OF_4_BITS,
    ),
)
