# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small experts modules and models of transformers with random weights."""

import importlib
import inspect
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import torch
import transformers

from moec.integrations.transformers import check

HIDDEN, INNER, EXPERTS, TOP_K = 128, 96, 16, 4
# eager rounds to bf16 more often than moec.
LIMIT = 1.5e-2
LIMIT_F32 = 1e-4
# The names that configurations of transformers have for the sizes of experts.
SIZES = {
    "hidden_size": HIDDEN,
    "routed_expert_hidden_size": HIDDEN,
    "moe_intermediate_size": INNER,
    "expert_ffn_hidden_size": INNER,
    "intermediate_size": INNER,
    "num_experts": EXPERTS,
    "num_local_experts": EXPERTS,
    "n_routed_experts": EXPERTS,
    "moe_num_experts": EXPERTS,
    "num_experts_per_tok": TOP_K,
}
ATTENTION = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 96}
MLA = {
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "vocab_size": 96,
}
# Classes of models and configurations, and sizes.
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "qwen3_moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", ATTENTION),
    "qwen2_moe": ("Qwen2MoeForCausalLM", "Qwen2MoeConfig", {**ATTENTION, "shared_expert_intermediate_size": 64}),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig", ATTENTION),
    "gpt_oss": ("GptOssForCausalLM", "GptOssConfig", ATTENTION),
    "olmoe": ("OlmoeForCausalLM", "OlmoeConfig", {"num_attention_heads": 4, "vocab_size": 96}),
    "deepseek_v3": (
        "DeepseekV3ForCausalLM",
        "DeepseekV3Config",
        {**MLA, "first_k_dense_replace": 1, "n_group": 4, "topk_group": 2},
    ),
    "nemotron_h": (
        "NemotronHForCausalLM",
        "NemotronHConfig",
        {
            **ATTENTION,
            "layers_block_type": ["linear_attention", "moe", "full_attention", "moe"],
            "moe_shared_expert_intermediate_size": INNER,
            "mamba_num_heads": 4,
            "mamba_head_dim": 16,
            "ssm_state_size": 8,
            "n_groups": 2,
        },
    ),
    "gemma4_text": (
        "Gemma4ForCausalLM",
        "Gemma4TextConfig",
        {
            **ATTENTION,
            "enable_moe_block": True,
            "num_experts": EXPERTS,
            "moe_intermediate_size": INNER,
            "top_k_experts": TOP_K,
            "hidden_size_per_layer_input": 0,
            "vocab_size_per_layer_input": 96,
        },
    ),
    "hunyuan_v1_moe": ("HunYuanMoEV1ForCausalLM", "HunYuanMoEV1Config", {**ATTENTION, "moe_topk": [3, 3, 2]}),
    "granitemoe": ("GraniteMoeForCausalLM", "GraniteMoeConfig", {"num_attention_heads": 4, "vocab_size": 96}),
}


def experts_classes() -> Iterator[tuple[str, str]]:
    """(module of transformers.models, class) of all classes with the decorator use_experts_implementation."""
    folder = pathlib.Path(transformers.__file__).parent / "models"
    for path in sorted(folder.glob("*/modeling_*.py")):
        for found in re.finditer(r"^@use_experts_implementation.*\nclass (\w+)", path.read_text(), re.MULTILINE):
            yield path.parent.name, found.group(1)


def small(config: Any) -> Any:
    for key, size in SIZES.items():
        if hasattr(config, key):
            setattr(config, key, [size] * 2 if isinstance(getattr(config, key), list) else size)
    return config


def randomize(module: Any, seed: int = 0, scale: float = 0.15) -> Any:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        biases = [tensor for name, tensor in module.named_buffers() if name.endswith("bias")]
        for tensor in [*module.parameters(), *biases]:
            if tensor.is_floating_point() and tensor.element_size() > 1:
                normal = torch.randn(tensor.shape, generator=generator)
                tensor.copy_(normal * scale if tensor.dim() > 1 else 1 + 0.1 * normal)
    return module


def experts_module(module: str, name: str, dtype: Any = torch.bfloat16) -> Any:
    """A small module of an experts class, of the first configuration of its family that has what it reads."""
    home = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    configs = importlib.import_module(f"transformers.models.{module}.configuration_{module}")
    kind = getattr(home, name)
    more = {"intermediate_size": INNER} if "intermediate_size" in inspect.signature(kind.__init__).parameters else {}
    failures = []
    for _, config in inspect.getmembers(configs, inspect.isclass):
        if not issubclass(config, transformers.PreTrainedConfig) or config.__module__ != configs.__name__:
            continue
        try:
            made = kind(small(config()), **more)
        except (AttributeError, TypeError) as error:
            failures.append(f"{config.__name__}: {error}")
            continue
        return randomize(made.to(dtype))
    raise LookupError(f"no configuration makes {name}: {failures}")


def model(name: str, dtype: Any = torch.bfloat16, layers: int = 3, **more: Any) -> Any:
    """A small model in evaluation mode with eager experts."""
    kind, config_kind, sizes = MODELS[name]
    home = importlib.import_module(f"transformers.models.{name.removesuffix('_text')}.modeling_{name.removesuffix('_text')}")
    config_class = getattr(transformers, config_kind)
    known = set(getattr(config_class, "__dataclass_fields__", {})) | set(getattr(config_class, "attribute_map", {}))
    fields = {key: size for key, size in SIZES.items() if key in known} | {"num_hidden_layers": layers} | sizes | more
    if "layers_block_type" in fields:
        del fields["num_hidden_layers"]
    config = config_class(**fields)
    made = randomize(getattr(home, kind)(config).to(dtype).eval(), scale=0.1)
    made.set_experts_implementation("eager")
    return made


def round_to_fp8(x: Any, group: int) -> Any:
    """x in f32 as activations in e4m3 with a scale for each group of columns give it."""
    columns = x.shape[-1]
    padded = torch.nn.functional.pad(x.float(), (0, -columns % group)).unflatten(-1, (-1, group))
    largest = padded.abs().amax(-1, keepdim=True).clamp(min=1e-10)
    # A GPU multiplies by the reciprocal where the divisor is a number: ties of codes round elsewhere.
    scale = largest / torch.full_like(largest, 448)
    return ((padded / scale).to(torch.float8_e4m3fn).float() * scale).flatten(-2)[..., :columns]


def of_fp8(experts: Any, x: Any, ids: Any, shares: Any, *, group: int) -> Any:
    """The output of FP8Experts in f32, with activations rounded for each token and group."""
    wide = check.in_f32(experts, slice(0, EXPERTS))
    out = torch.zeros(x.shape, device=x.device)
    for expert in ids.unique().tolist():
        token, which = torch.where(ids == expert)
        inner = wide._apply_gate(round_to_fp8(x[token], group) @ wide.gate_up_proj[expert].T)
        rows = round_to_fp8(inner, group) @ wide.down_proj[expert].T
        out.index_add_(0, token, rows * shares[token, which, None].float())
    return out


def fp8_config(**fields: Any) -> Any:
    sizes = {"hidden_size": HIDDEN, "num_experts": EXPERTS, "num_experts_per_tok": TOP_K, "moe_intermediate_size": INNER}
    return transformers.Qwen3MoeConfig(dtype=torch.bfloat16, **sizes | fields)


def fp8_module(config: Any, **options: Any) -> Any:
    """FP8Experts as the quantizer makes them, with random codes and scales."""
    from transformers.integrations import finegrained_fp8 as home

    kind = home.FP8Experts
    for _ in range(2):  # as for a model of two layers
        kind = home.use_experts_implementation(experts_class=kind, experts_interface=home.ALL_FP8_EXPERTS_FUNCTIONS)
    made = kind(config, **options)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, tensor in made.named_parameters():
            normal = torch.randn(tensor.shape, generator=generator)
            if tensor.dtype == torch.int8:
                tensor.data = torch.randint(-128, 128, tensor.shape, generator=generator, dtype=torch.int8)
            elif name.endswith("activation_scale"):
                tensor.fill_(0.02)
            elif "scale" in name:
                tensor.data = (torch.rand(tensor.shape, generator=generator) * 0.002 + 0.0005).to(tensor.dtype)
            else:
                tensor.data = (normal * 60).clamp(-448, 448).to(tensor.dtype)
    return made


def error(got: Any, expected: Any) -> float:
    return float((got.float() - expected.float()).norm() / expected.float().norm())


def routed(tokens: int, experts: int = EXPERTS, top_k: int = TOP_K, seed: int = 3, dtype: Any = torch.bfloat16) -> Any:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, HIDDEN, generator=generator).to(dtype)
    shares, ids = torch.randn(tokens, experts, generator=generator).softmax(-1).topk(top_k)
    return x, ids, shares.to(dtype)


def tokens_of(*shape: int) -> Any:
    return torch.randint(0, 96, shape, generator=torch.Generator().manual_seed(1))


def eager(module: Any, *arguments: Any) -> Any:
    return type(module).forward.__wrapped__(module, *arguments)


def same_bytes(one: Any, other: Any) -> bool:
    return one.dtype == other.dtype and bool(torch.equal(one.view(torch.uint8), other.view(torch.uint8)))
