# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models with random weights in the shapes of Qwen3-30B-A3B and gpt-oss-20b: configurations, and checkpoints in the formats that
vLLM loads. Each kind is a scheme of moec.

    python3 models.py KIND FOLDER [--layers=4] [--seed=1] [--small]        # writes a checkpoint
"""

import argparse
import json
import pathlib
import sys
from typing import Any

KINDS = ("bf16", "fp8_block", "int4", "mxfp4")
CHECKPOINT_FILES = 4
QWEN: dict[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "hidden_act": "silu",
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "attention_bias": False,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 151936,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
QWEN_SMALL = {
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "moe_intermediate_size": 256,
    "num_experts": 16,
    "num_experts_per_tok": 4,
}
OSS: dict[str, Any] = {
    "architectures": ["GptOssForCausalLM"],
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "experts_per_token": 4,
    "swiglu_limit": 7.0,
    "sliding_window": 128,
    "attention_bias": True,
    "hidden_act": "silu",
    "max_position_embeddings": 131072,
    "initial_context_length": 4096,
    "rms_norm_eps": 1e-5,
    "rope_theta": 150000.0,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 32.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
        "original_max_position_embeddings": 4096,
    },
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 201088,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
}
OSS_SMALL = {
    "hidden_size": 256,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_local_experts": 16,
}
FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def config_of(kind: str, layers: int, vocabulary: int = 0, *, small: bool = False) -> dict[str, Any]:
    """Returns a config.json. vocabulary: 0 means that of the real model."""
    if kind == "mxfp4":
        config = OSS | (OSS_SMALL if small else {})
        config["layer_types"] = ["sliding_attention" if i % 2 == 0 else "full_attention" for i in range(layers)]
        ignored = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
        config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ignored}
    else:
        config = QWEN | (QWEN_SMALL if small else {})
    if kind == "fp8_block":
        ignored = ["lm_head"]
        for i in range(layers):
            ignored += [f"model.layers.{i}.self_attn.{each}_proj" for each in "qkvo"] + [f"model.layers.{i}.mlp.gate"]
        config["quantization_config"] = {
            "quant_method": "fp8",
            "fmt": "e4m3",
            "activation_scheme": "dynamic",
            "weight_block_size": [128, 128],
            "modules_to_not_convert": ignored,
        }
    if kind == "int4":
        weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 128, "dynamic": False}
        group = {"targets": ["Linear"], "weights": weights, "input_activations": None, "output_activations": None}
        config["quantization_config"] = {
            "quant_method": "compressed-tensors",
            "format": "pack-quantized",
            "quantization_status": "compressed",
            "config_groups": {"group_0": group},
            "ignore": ["lm_head", "re:.*self_attn.*", "re:.*mlp.gate$"],
            "kv_cache_scheme": None,
        }
    return config | {"num_hidden_layers": layers, "vocab_size": vocabulary or config["vocab_size"]}


def write_config(folder: pathlib.Path, config: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1))


def fp8_block(w: Any) -> dict[str, Any]:
    """w [n, k] of a linear layer, quantized in blocks of 128 x 128."""
    import torch

    n, k = w.shape
    blocks = w.float().view(n // 128, 128, k // 128, 128)
    scale = blocks.abs().amax((1, 3)) / 448
    codes = (blocks / scale[:, None, :, None]).view(n, k).to(torch.float8_e4m3fn)
    return {"weight": codes, "weight_scale_inv": scale}


def int4(w: Any) -> dict[str, Any]:
    """w [n, k] of a linear layer, in groups of 128 along k. compressed-tensors packs eight codes into an int32."""
    import torch

    n, k = w.shape
    groups = w.float().view(n, k // 128, 128)
    scale = (groups.abs().amax(2) / 7.5).bfloat16()
    codes = (groups / scale.float()[..., None]).round().clamp(-8, 7)
    unsigned = (codes + 8).to(torch.int64).view(n, k // 8, 8)
    words = (unsigned << (4 * torch.arange(8, device=w.device))).sum(2)
    return {"weight_packed": words.to(torch.int32), "weight_scale": scale, "weight_shape": torch.tensor([n, k])}


def mxfp4(w: Any) -> dict[str, Any]:
    """w [experts, n, k], in groups of 32 along k, as the checkpoints of gpt-oss have them."""
    import torch

    experts, n, k = w.shape
    groups = w.float().view(experts, n, k // 32, 32)
    exponent = (groups.abs().amax(3).clamp(min=1e-20).log2().floor() - 2).clamp(-127, 127)
    scaled = groups / exponent.exp2()[..., None]
    values = torch.tensor(FP4, device=w.device)
    codes = torch.bucketize(scaled.abs(), (values[1:] + values[:-1]) / 2) + 8 * (scaled < 0)
    pairs = codes.view(experts, n, k // 32, 16, 2)
    return {"_blocks": (pairs[..., 0] | pairs[..., 1] << 4).to(torch.uint8), "_scales": (exponent + 127).to(torch.uint8)}


class Maker:
    """Makes the tensors of a checkpoint, by name, on the GPU if there is one."""

    def __init__(self, kind: str, config: dict[str, Any], seed: int) -> None:
        import torch

        self.torch, self.kind, self.config = torch, kind, config
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.random = torch.Generator(device=self.device).manual_seed(seed)
        self.made: dict[str, Any] = {}
        self.dense("model.embed_tokens.weight", config["vocab_size"], config["hidden_size"], std=1.0)
        for i in range(config["num_hidden_layers"]):
            self.attention(f"model.layers.{i}")
            (self.oss_experts if kind == "mxfp4" else self.qwen_experts)(f"model.layers.{i}.mlp")
        self.dense("model.norm.weight", config["hidden_size"], std=0.05, mean=1.0)
        # Twice the usual deviation, so that the best token is often clear.
        self.dense("lm_head.weight", config["vocab_size"], config["hidden_size"], std=2 * config["hidden_size"] ** -0.5)

    def normal(self, *shape: int, std: float, mean: float = 0.0) -> Any:
        return (self.torch.randn(shape, generator=self.random, device=self.device) * std + mean).bfloat16()

    def dense(self, name: str, *shape: int, std: float, mean: float = 0.0) -> None:
        self.made[name] = self.normal(*shape, std=std, mean=mean).cpu()

    def attention(self, at: str) -> None:
        c = self.config
        hidden, head, heads, kv = c["hidden_size"], c["head_dim"], c["num_attention_heads"], c["num_key_value_heads"]
        shapes = {"q": (heads * head, hidden), "k": (kv * head, hidden), "v": (kv * head, hidden), "o": (hidden, heads * head)}
        for name, (rows, columns) in shapes.items():
            self.dense(f"{at}.self_attn.{name}_proj.weight", rows, columns, std=columns**-0.5)
            if c["attention_bias"]:
                self.dense(f"{at}.self_attn.{name}_proj.bias", rows, std=0.1)
        if self.kind == "mxfp4":
            self.dense(f"{at}.self_attn.sinks", heads, std=1.0)
        else:
            for name in "qk":
                self.dense(f"{at}.self_attn.{name}_norm.weight", head, std=0.05, mean=1.0)
        for name in ("input", "post_attention"):
            self.dense(f"{at}.{name}_layernorm.weight", hidden, std=0.05, mean=1.0)

    def qwen_experts(self, at: str) -> None:
        c = self.config
        hidden, width, experts = c["hidden_size"], c["moe_intermediate_size"], c["num_experts"]
        self.dense(f"{at}.gate.weight", experts, hidden, std=hidden**-0.5)
        quantize = {"fp8_block": fp8_block, "int4": int4}.get(self.kind, lambda w: {"weight": w})
        for which, rows, columns in (("gate", width, hidden), ("up", width, hidden), ("down", hidden, width)):
            made = self.normal(experts, rows, columns, std=columns**-0.5)
            for expert in range(experts):
                for name, tensor in quantize(made[expert]).items():
                    self.made[f"{at}.experts.{expert}.{which}_proj.{name}"] = tensor.cpu()

    def oss_experts(self, at: str) -> None:
        c = self.config
        hidden, width, experts = c["hidden_size"], c["intermediate_size"], c["num_local_experts"]
        self.dense(f"{at}.router.weight", experts, hidden, std=hidden**-0.5)
        self.dense(f"{at}.router.bias", experts, std=0.3)
        for which, rows, columns in (("gate_up_proj", 2 * width, hidden), ("down_proj", hidden, width)):
            made = self.normal(experts, rows, columns, std=columns**-0.5)
            for name, tensor in mxfp4(made).items():
                self.made[f"{at}.experts.{which}{name}"] = tensor.cpu()
            self.dense(f"{at}.experts.{which}_bias", experts, rows, std=0.1)


def write_checkpoint(kind: str, folder: pathlib.Path, config: dict[str, Any], seed: int) -> int:
    """Writes safetensors, config.json, and at last the file `complete`. Returns bytes."""
    from safetensors.torch import save_file

    write_config(folder, config)
    made = Maker(kind, config, seed).made
    names, files = sorted(made), dict[str, str]()
    for i in range(CHECKPOINT_FILES):
        part, file = names[i::CHECKPOINT_FILES], f"model-{i + 1}-of-{CHECKPOINT_FILES}.safetensors"
        save_file({name: made[name].contiguous() for name in part}, folder / file, {"format": "pt"})
        files |= dict.fromkeys(part, file)
    size = int(sum(each.numel() * each.element_size() for each in made.values()))
    index = {"metadata": {"total_size": size}, "weight_map": files}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "complete").touch()
    return size


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--small", action="store_true", help="narrow layers of 16 experts")
    options = parser.parse_args()
    config = config_of(options.kind, options.layers, options.vocabulary, small=options.small)
    size = write_checkpoint(options.kind, options.folder, config, options.seed)
    print(f"{options.folder}: {size / 2**30:.2f} GiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
