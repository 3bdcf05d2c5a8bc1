# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checkpoints of AutoGPTQ and AutoAWQ: their linear modules pack the weights, their configs say how.

The packages import files that fit older transformers alone, so their modules are imported one by one.
"""

import functools
import importlib
import importlib.metadata
import importlib.util
import json
import pathlib
import sys
import types
from typing import Any

import torch
from safetensors.torch import save_file

from written import EXPERTS, LAYERS, PARTS, Case, Tensor, Written, linear, make_model


def module_of(package: str, name: str) -> Any:
    """A module of a package whose own __init__ does not run."""
    if package not in sys.modules:
        found = importlib.util.find_spec(package)
        if found is None or not found.submodule_search_locations:
            raise ImportError(f"no package {package}")
        made = types.ModuleType(package)
        made.__path__ = list(found.submodule_search_locations)
        sys.modules[package] = made
    return importlib.import_module(f"{package}.{name}")


def replace(model: Any, make: Any) -> None:
    """Puts make(linear module) in place of each matrix of an expert."""
    for layer in range(LAYERS):
        for expert in range(EXPERTS):
            for part in PARTS:
                module = linear(model, part, expert, layer)
                parent = model.get_submodule(f"model.layers.{layer}.mlp.experts.{expert}")
                setattr(parent, part, make(module))


def save(model: Any, folder: pathlib.Path, quantization: dict[str, Any]) -> None:
    """As both libraries save: the state of the modules, and a section of config.json."""
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, folder / "model.safetensors")
    model.config.save_pretrained(folder)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": quantization}))


# AutoGPTQ


def gptq_linear(module: Any, bits: int, size: int, symmetric: bool, order: bool) -> Any:
    """AutoGPTQ's module of a linear one. Scales and zero points are those of its Quantizer for each group."""
    qlinear = module_of("auto_gptq", "nn_modules.qlinear.qlinear_cuda")
    quantizer = module_of("auto_gptq", "quantization.quantizer").Quantizer()
    weight = module.weight.data.float()
    rows, columns = weight.shape
    width = columns if size == -1 else size
    group = torch.arange(columns) // width
    if order:
        group = group[torch.randperm(columns, generator=torch.Generator().manual_seed(columns))]
    quantizer.configure(bits, perchannel=True, sym=symmetric)
    scales, zeros = [], []
    for number in range(columns // width):
        quantizer.find_params(weight[:, group == number], weight=True)
        scales.append(quantizer.scale)
        zeros.append(quantizer.zero)
    scale, zero = torch.cat(scales, 1), torch.cat(zeros, 1)
    # Its pack() rounds without a limit: the weights are those that its quantize() gives.
    near = torch.clamp(torch.round(weight / scale[:, group]) + zero[:, group], 0, 2**bits - 1) - zero[:, group]
    plain = torch.nn.Linear(columns, rows, bias=False, dtype=torch.float16)
    scale = scale.half().float()
    plain.weight.data.copy_(near * scale[:, group])
    made = qlinear.QuantLinear(bits, size, columns, rows, False, weight_dtype=torch.float16)
    made.pack(plain, scale.half(), zero.half(), g_idx=group.to(torch.int32))
    return made


def gptq_weight(model: Any, part: str, expert: int) -> Tensor:
    """AutoGPTQ's own forward for processors, in f64: of rows of one matrix the product is the weight."""
    module = linear(model, part, expert)
    scales = module.scales
    module.scales = scales.double()
    made: Tensor = module(torch.eye(module.infeatures, dtype=torch.float64)).T
    module.scales = scales
    return made.double()


def write_gptq(folder: pathlib.Path, bits: int, size: int, symmetric: bool, order: bool) -> Written:
    model = make_model(torch.float16)
    replace(model, functools.partial(gptq_linear, bits=bits, size=size, symmetric=symmetric, order=order))
    # BaseQuantizeConfig.to_dict(), which cannot be imported.
    config = {
        "bits": bits,
        "group_size": size,
        "damp_percent": 0.01,
        "desc_act": order,
        "static_groups": False,
        "sym": symmetric,
        "true_sequential": True,
        "model_name_or_path": None,
        "model_file_base_name": None,
        "is_marlin_format": False,
        "quant_method": "gptq",
    }
    save(model, folder, config)
    return Written(folder, functools.partial(gptq_weight, model))


# AutoAWQ


def awq_linear(module: Any, size: int) -> Any:
    """As AwqQuantizer._apply_quant()."""
    gemm = module_of("awq", "modules.linear.gemm")
    # It would import a package that loads data sets.
    no_data = types.ModuleType("awq.utils.calib_data")
    no_data.get_calib_dataset = None  # type: ignore[attr-defined]
    sys.modules.setdefault(no_data.__name__, no_data)
    quantizer = module_of("awq", "quantize.quantizer").AwqQuantizer
    self = types.SimpleNamespace(group_size=size, zero_point=True, w_bit=4)
    module = module.half()
    module.weight.data, scales, zeros = quantizer.pseudo_quantize_tensor(self, module.weight.data)
    return gemm.WQLinear_GEMM.from_linear(module, 4, size, scales=scales.t().contiguous(), zeros=zeros.t().contiguous())


def awq_weight(model: Any, part: str, expert: int) -> Tensor:
    module = linear(model, part, expert)
    dequantize = module_of("awq", "utils.packing_utils").dequantize_gemm
    made: Tensor = dequantize(module.qweight, module.qzeros, module.scales.double(), 4, module.group_size)
    return made.T


def write_awq(folder: pathlib.Path, size: int) -> Written:
    model = make_model(torch.float16)
    replace(model, functools.partial(awq_linear, size=size))
    config = module_of("awq", "models._config").AwqConfig(q_group_size=size, modules_to_not_convert=["mlp.gate", "self_attn"])
    save(model, folder, config.to_transformers_dict())
    return Written(folder, functools.partial(awq_weight, model))


def cases() -> list[tuple[str, Case]]:
    gptq, awq = (f"{name} {importlib.metadata.version(name)}" for name in ("auto-gptq", "autoawq"))
    made = []
    for bits in (4, 8):
        for size in (128, 32, -1):
            made.append(
                (
                    gptq,
                    Case(
                        f"gptq-{bits}-g{size}", functools.partial(write_gptq, bits=bits, size=size, symmetric=True, order=False)
                    ),
                )
            )
    for bits, symmetric, order, refused in (
        (4, False, False, ""),
        (4, True, True, ""),
        (4, False, True, ""),
        (8, True, True, ""),
        (8, False, False, ""),
        (2, True, False, "bits"),
    ):
        name = f"gptq-{bits}{'' if symmetric else '-asym'}{'-act-order' if order else ''}"
        write = functools.partial(write_gptq, bits=bits, size=128, symmetric=symmetric, order=order)
        made.append((gptq, Case(name, write, refused=refused)))
    made += [(awq, Case(f"awq-g{size}", functools.partial(write_awq, size=size))) for size in (128, 32)]
    return made
