# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random MoE layers for vLLM's factory, and what they compute in double precision. They share no code with moec or vLLM.

A Case is a scheme as checkpoints store it. vllm_files.prepare() comes first.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812

Tensor: TypeAlias = torch.Tensor
Rounding: TypeAlias = Callable[[Tensor], Tensor]

EXPERTS, TOP_K, HIDDEN, INTERMEDIATE = 8, 2, 256, 128
MOST_TOKENS, MOST_CAPTURED = 256, 64
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
    store: Callable[[Tensor, torch.Generator], Stored]
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


def store_fp8_block(name: str) -> Callable[[Tensor, torch.Generator], Stored]:
    def store(matrix: Tensor, random: torch.Generator) -> Stored:
        blocks = tuple(-(-extent // 128) for extent in matrix.shape)
        scale = torch.rand(blocks, generator=random).float() * 2e-4 + 2e-4
        wide = scale.double().repeat_interleave(128, 0).repeat_interleave(128, 1)[: matrix.shape[0], : matrix.shape[1]]
        codes = _codes(matrix, wide)
        return Stored({"weight": codes, name: scale}, codes.double() * wide)

    return store


def store_fp8_tensor(inputs: float | None) -> Callable[[Tensor, torch.Generator], Stored]:
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


def store_nvfp4(names: tuple[str, str, str], inverse: bool) -> Callable[[Tensor, torch.Generator], Stored]:
    def store(matrix: Tensor, random: torch.Generator) -> Stored:
        scale = (torch.rand((matrix.shape[0], matrix.shape[1] // 16), generator=random) * 200 + 50).to(E4M3)
        second = torch.tensor(2.0**-12, dtype=torch.float32)
        packed, numbers = _fp4_codes(matrix, (scale.double() * second.double()).repeat_interleave(16, 1))
        kept = 1 / second if inverse else second
        tensors = {names[0]: packed, "weight_scale": scale, names[1]: kept, names[2]: torch.tensor(1.0)}
        return Stored(tensors, to_bf16(numbers))

    return store


def _words(codes: Tensor, axis: int, order: tuple[int, ...], bits: int = 4) -> Tensor:
    """Codes in 32-bit words along an axis. order: which of a word's codes each place has, from the lowest bits."""
    moved = codes.long().movedim(axis, -1).unflatten(-1, (-1, 32 // bits))
    words = torch.stack([moved[..., which] << (bits * place) for place, which in enumerate(order)]).sum(0)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32).movedim(-1, axis)


def store_int4(layout: str, group: int, zero_points: bool = False) -> Callable[[Tensor, torch.Generator], Stored]:
    plain = tuple(range(8))

    def store(matrix: Tensor, random: torch.Generator) -> Stored:
        rows, columns = matrix.shape
        groups = columns // group
        scale = (torch.rand((rows, groups), generator=random) * 0.005 + 0.01).to(torch.bfloat16)
        zero = torch.randint(4, 12, (rows, groups), generator=random) if zero_points else torch.full((rows, groups), 8)
        wide, wide_zero = scale.double().repeat_interleave(group, 1), zero.double().repeat_interleave(group, 1)
        codes = (matrix / wide + wide_zero).round().clamp(0, 15)
        numbers = to_bf16((codes - wide_zero) * wide)
        if layout == "gptq":
            zeros = _words((zero - 1).t(), 1, plain)
            tensors = {"qweight": _words(codes.t(), 0, plain), "scales": scale.t().contiguous(), "qzeros": zeros}
        elif layout == "awq":
            tensors = {
                "qweight": _words(codes.t(), 1, AWQ_ORDER),
                "scales": scale.t().contiguous(),
                "qzeros": _words(zero.t(), 1, AWQ_ORDER),
            }
        else:
            tensors = {"weight_packed": _words(codes, 1, plain), "weight_scale": scale}
            tensors["weight_shape"] = torch.tensor([rows, columns])
            if zero_points:
                tensors["weight_zero_point"] = _words(zero, 0, plain)
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


_AWQ = _of("auto_awq", "AutoAWQConfig", quant_method="awq", bits=4, group_size=32, zero_point=True, version="gemm")
_GPTQ = _of("auto_gptq", "AutoGPTQConfig", quant_method="gptq", bits=4, group_size=32, desc_act=False, sym=True)
_MODELOPT_NVFP4 = {"quant_algo": "W4A16_NVFP4", "group_size": 16, "kv_cache_quant_algo": None, "exclude_modules": []}
_TOKEN = {"num_bits": 8, "type": "float", "strategy": "token", "symmetric": True, "dynamic": True}
_CHANNEL = {"num_bits": 8, "type": "float", "strategy": "channel"}
_INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}
_CT_FP8, _CT_WNA16 = "CompressedTensorsW8A8Fp8MoEMethod", "CompressedTensorsWNA16MoEMethod"

CASES = (
    Case("bf16", "bf16", "UnquantizedFusedMoEMethod", lambda: None, store_bf16, to_bf16, 2.5e-3),
    Case(
        "fp8 block",
        "fp8_block",
        "Fp8MoEMethod",
        _fp8(activation_scheme="dynamic", weight_block_size=[128, 128]),
        store_fp8_block("weight_scale_inv"),
        of_groups(128),
        6e-3,
    ),
    Case(
        "fp8 tensor, dynamic",
        "fp8_tensor_dynamic",
        "Fp8MoEMethod",
        _fp8(activation_scheme="dynamic"),
        store_fp8_tensor(None),
        dynamic_tensor,
        6e-3,
    ),
    Case(
        "fp8 tensor, static",
        "fp8_tensor",
        "Fp8MoEMethod",
        _fp8(activation_scheme="static"),
        store_fp8_tensor(0.01),
        of_tensor(0.01),
        6e-3,
    ),
    Case(
        "fp8 channel",
        "fp8_channel",
        _CT_FP8,
        _compressed("float-quantized", _CHANNEL, _TOKEN),
        store_fp8_channel,
        of_groups(0),
        6e-3,
    ),
    Case(
        "int8 channel",
        "int8_channel",
        "CompressedTensorsW8A8Int8MoEMethod",
        _compressed("int-quantized", _CHANNEL | {"type": "int"}, _TOKEN | {"type": "int"}),
        store_int8_channel,
        int8_rows,
        6e-3,
    ),
    Case("GPTQ", "int4_w4a16", "AutoGPTQMoEMethod", _GPTQ, store_int4("gptq", 32), to_bf16, 5e-3),
    Case("AWQ", "int4_zp_w4a16", "AutoAWQMoEMethod", _AWQ, store_int4("awq", 32, zero_points=True), to_bf16, 5e-3),
    Case(
        "compressed int4",
        "int4_w4a16",
        _CT_WNA16,
        _compressed("pack-quantized", _INT4, None),
        store_int4("rows", 32),
        to_bf16,
        5e-3,
    ),
    Case(
        "compressed int4, zero points",
        "int4_zp_w4a16",
        _CT_WNA16,
        _compressed("pack-quantized", _INT4 | {"symmetric": False}, None),
        store_int4("rows", 32, zero_points=True),
        to_bf16,
        5e-3,
    ),
    Case(
        "MXFP4",
        "mxfp4_w4a16",
        "GptOssMxfp4MoEMethod",
        _of("mxfp4", "GptOssMxfp4Config", quant_method="mxfp4"),
        store_mxfp4,
        to_bf16,
        5e-3,
        "swigluoai",
    ),
    Case(
        "NVFP4 W4A16",
        "nvfp4_w4a16",
        "ModelOptNvFp4FusedMoE",
        _of("modelopt", "ModelOptNvFp4Config", quant_method="modelopt", quantization=_MODELOPT_NVFP4),
        store_nvfp4(("weight", "weight_scale_2", "input_scale"), False),
        to_bf16,
        5e-3,
    ),
)


def start(device: str) -> Any:
    """vLLM's configuration, with a process group of one rank."""
    from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config
    from vllm.distributed import init_distributed_environment, initialize_model_parallel
    from vllm.distributed.parallel_state import model_parallel_is_initialized

    engine = VllmConfig(device_config=DeviceConfig(device))
    # Few variants of kernels to compile, and small graphs.
    engine.scheduler_config.max_num_batched_tokens = MOST_TOKENS
    engine.compilation_config.max_cudagraph_capture_size = MOST_CAPTURED
    if not model_parallel_is_initialized():
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        with set_current_vllm_config(engine):
            init_distributed_environment(1, 0, "tcp://127.0.0.1:29877", 0, "gloo")
            initialize_model_parallel(1, 1)
    return engine


@contextlib.contextmanager
def any_backend() -> Iterator[None]:
    """vLLM's choice among its own kernels, none of which is here, takes one that pads nothing."""
    import importlib
    from unittest import mock

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


class Built(NamedTuple):
    """vLLM's layer with random weights, and the numbers that these mean."""

    runner: Any
    w13: Tensor
    """[experts, gates then ups, hidden], double."""
    w2: Tensor
    b13: Tensor | None
    b2: Tensor | None


def _of_rank(layer: Any, name: str, tensor: Tensor, width: int, rank: int) -> Tensor:
    """A rank's part of a tensor of all experts, as vLLM's model of gpt-oss cuts it: in whole blocks of 32 columns."""
    if layer._expert_map is not None:
        return tensor[layer._expert_map.cpu() >= 0]
    share = -(-(width // 32) // layer.moe_config.tp_size) * 32
    begin, end = min(rank * share, width), min((rank + 1) * share, width)
    if name.startswith("w13"):
        return tensor[:, 2 * begin : 2 * end]
    if name == "w2_bias":
        return tensor if rank == 0 else torch.zeros_like(tensor)
    columns = 32 if name.endswith("scale") else 2
    return tensor[..., begin // columns : end // columns]


_built = 0


def build(engine: Any, case: Case, device: str, *, has_bias: bool = False, tp_rank: int = 0, **options: Any) -> Built:
    """Makes the layer by vLLM's factory, and fills it by vLLM's weight_loader. local: the experts of this rank."""
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.layers.fused_moe.layer import FusedMoEFactory

    global _built  # noqa: PLW0603
    _built += 1
    random = torch.Generator().manual_seed(7)
    arguments = {"num_experts": EXPERTS, "top_k": TOP_K, "hidden_size": HIDDEN, "intermediate_size": INTERMEDIATE}
    arguments |= {"params_dtype": torch.bfloat16, "activation": case.act, "has_bias": has_bias} | options
    with set_current_vllm_config(engine), any_backend(), torch.device(device):
        runner = FusedMoEFactory(prefix=f"model.layers.{_built}.mlp.experts", quant_config=case.config(), **arguments)
    experts, hidden, width = (arguments[name] for name in ("num_experts", "hidden_size", "intermediate_size"))
    layer = runner.routed_experts
    shapes = {"w1": (width, hidden), "w3": (width, hidden), "w2": (hidden, width)}
    numbers: dict[str, list[Tensor]] = {shard: [] for shard in shapes}
    biases: dict[str, list[Tensor]] = {shard: [] for shard in shapes}
    fused: dict[str, dict[str, list[Tensor]]] = {}
    for expert in range(experts):
        for shard, shape in shapes.items():
            stored = case.store(torch.randn(shape, generator=random, dtype=torch.float64) * 0.05, random)
            numbers[shard].append(stored.numbers)
            tensors = dict(stored.tensors)
            if has_bias:
                tensors["bias"] = (torch.randn(shape[0], generator=random) * 0.1).to(torch.bfloat16)
                biases[shard].append(tensors["bias"].double())
            for ending, tensor in tensors.items():
                name = f"{'w2' if shard == 'w2' else 'w13'}_{ending}"
                if case.method == "GptOssMxfp4MoEMethod":
                    fused.setdefault(name, {}).setdefault(shard, []).append(tensor)
                    continue
                parameter = getattr(layer, name)
                parameter.weight_loader(parameter, tensor.to(device), f"{layer.layer_name}.{name}", shard, expert)
    # gpt-oss stores all experts in one tensor, with the rows of gates and ups in turn.
    for name, shards in fused.items():
        whole = {shard: torch.stack(each) for shard, each in shards.items()}
        tensor = whole["w2"] if "w2" in whole else torch.stack([whole["w1"], whole["w3"]], 2).flatten(1, 2)
        tensor = _of_rank(layer, name, tensor, width, tp_rank)
        parameter = getattr(layer, name)
        parameter.weight_loader(parameter, tensor.to(device), f"{layer.layer_name}.{name}", None, None)
    layer.quant_method.process_weights_after_loading(layer)

    def joined(parts: dict[str, list[Tensor]]) -> tuple[Tensor, Tensor]:
        return torch.cat([torch.stack(parts["w1"]), torch.stack(parts["w3"])], 1), torch.stack(parts["w2"])

    b13, b2 = joined(biases) if has_bias else (None, None)
    return Built(runner, *joined(numbers), b13, b2)


def activation(name: str, gate: Tensor, up: Tensor) -> Tensor:
    if name == "swigluoai":
        gate, up = gate.clamp(max=7), up.clamp(-7, 7)
        return gate * torch.sigmoid(1.702 * gate) * (up + 1)
    if name == "gelu":
        return F.gelu(gate) * up
    assert name == "silu"
    return F.silu(gate) * up


def computed(built: Built, case: Case, x: Tensor, ids: Tensor, weights: Tensor, experts: list[int] | None = None) -> Tensor:
    """[tokens, hidden], double. experts: those of this rank; None: all."""
    x, ids, weights = x.cpu().double(), ids.cpu().long(), weights.cpu().double()
    pairs = [(t, k) for t in range(len(ids)) for k in range(ids.shape[1]) if experts is None or int(ids[t, k]) in experts]
    out = torch.zeros_like(x)
    if not pairs:
        return out
    rows = case.rounded(x)
    made = []
    for token, k in pairs:
        expert = int(ids[token, k])
        both = built.w13[expert] @ rows[token]
        both = both if built.b13 is None else both + built.b13[expert]
        made.append(activation(case.act, *both.chunk(2)))
    # All rows at once: a scheme may have one scale for all of them.
    middle = case.rounded(torch.stack(made))
    for (token, k), row in zip(pairs, middle, strict=True):
        expert = int(ids[token, k])
        down = built.w2[expert] @ row
        out[token] += weights[token, k] * (down if built.b2 is None else down + built.b2[expert])
    return out


def softmax_top_k(logits: Tensor, top_k: int, renormalize: bool) -> tuple[Tensor, Tensor]:
    """Ids, and weights in double."""
    shares, ids = logits.double().softmax(-1).topk(top_k)
    return ids, shares / shares.sum(-1, keepdim=True) if renormalize else shares


def error(got: Tensor, wanted: Tensor) -> float:
    return float((got.cpu().double() - wanted).norm() / wanted.norm())
