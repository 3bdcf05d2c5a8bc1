#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokens per second of transformers' generate() with the experts implementations, on one GPU.

The model has random weights, which the GPU makes. The 48 layers of Qwen3-30B-A3B take 61 GB in bf16, so --layers gives it fewer.
moec packs in place. With --two-models it has experts of its own, and the implementations take turns: the speed of a processor
drifts. Without, it comes last. With --scheme mxfp4 moec's experts are codes, of files that the program writes before. Those of
the others are the same numbers in bf16.

    PYTHONPATH=python MOEC_LIBRARY=build/lib/libmoec.so python3 bench/run/transformers_generate.py --layers 24 --out out.json

| column | meaning |
| --- | --- |
| tokens/s | new tokens of the whole batch, over the time of generate() with its prefill; the best of --rounds |
| ms/step | (time of generate() - time of generate() for one token) / (new tokens - 1), of the best |
| MoE share | time between events around the MoE blocks, over the time between events around the model, in decode steps |

"moec, blocks" is replace_blocks(): the routing is moec's, too.
generate() itself decodes by batched_mm where the implementation is grouped_mm. An implementation that fails has the first line
of its error. What does not fit into --budget is left out.
"""

import argparse
import gc
import json
import pathlib
import sys
import tempfile
import time
import traceback
from typing import Any, NamedTuple

import torch
import transformers


class Shape(NamedTuple):
    """A model, and a tiny one of its kind."""

    config: Any
    model: Any
    layers: int
    fields: dict[str, Any]
    small: dict[str, Any]


SHAPES = {
    "qwen3-30b-a3b": Shape(
        transformers.Qwen3MoeConfig,
        transformers.Qwen3MoeForCausalLM,
        48,
        {
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "moe_intermediate_size": 768,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "norm_topk_prob": True,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "head_dim": 128,
            "vocab_size": 151936,
            "max_position_embeddings": 40960,
            "tie_word_embeddings": False,
        },
        {
            "hidden_size": 256,
            "intermediate_size": 256,
            "moe_intermediate_size": 128,
            "num_experts": 16,
            "num_experts_per_tok": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 64,
            "vocab_size": 256,
        },
    ),
    "gpt-oss-20b": Shape(
        transformers.GptOssConfig,
        transformers.GptOssForCausalLM,
        24,
        {
            "hidden_size": 2880,
            "intermediate_size": 2880,
            "num_local_experts": 32,
            "num_experts_per_tok": 4,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "head_dim": 64,
            "vocab_size": 201088,
        },
        {
            "hidden_size": 256,
            "intermediate_size": 256,
            "num_local_experts": 8,
            "num_experts_per_tok": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 64,
            "vocab_size": 256,
        },
    ),
}


def say(text: str) -> None:
    print(text, flush=True)


def first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}"[:200]


def on_meta(options: argparse.Namespace) -> Any:
    """The model without memory. Only its experts are quantized."""
    shape = SHAPES[options.model]
    config = shape.config(
        **(shape.small if options.small else shape.fields), num_hidden_layers=options.layers, dtype=torch.bfloat16
    )
    config.eos_token_id = None
    with torch.device("meta"):
        model = shape.model(config).to(torch.bfloat16)
        if options.scheme == "fp8_block":
            with_fp8_experts(model)
    return model.eval()


def make_model(options: argparse.Namespace) -> Any:
    """A model with random weights that never were on the processor."""
    model = on_meta(options)
    model.to_empty(device=options.device)
    # A buffer that no checkpoint has.
    model.model.rotary_emb = type(model.model.rotary_emb)(model.config).to(options.device)
    torch.manual_seed(0)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if name.endswith("_scale_inv"):
                tensor.uniform_(0.5, 1.5).mul_(0.02 / 60)
            elif tensor.element_size() == 1:
                for expert in tensor:
                    expert.copy_((torch.randn(expert.shape, device=options.device) * 60).clamp_(-448, 448))
            elif tensor.dim() == 1 and name.endswith("norm.weight"):
                tensor.fill_(1)
            else:
                tensor.normal_(0, 0.02)
    return model


def second_model(options: argparse.Namespace, first: Any) -> Any:
    """The same numbers. Only the experts have memory of their own; for codes of files they have none."""
    model = on_meta(options)
    for (name, module), (_, other) in zip(model.named_modules(), first.named_modules(), strict=True):
        for own, parameter in other.named_parameters(recurse=False):
            if ".experts" not in name:
                module._parameters[own] = parameter
            elif options.scheme != "mxfp4":
                module._parameters[own] = torch.nn.Parameter(parameter.detach().clone(), requires_grad=False)
    model.model.rotary_emb = first.model.rotary_emb
    return model


def write_codes(model: Any, folder: pathlib.Path) -> None:
    """Random MXFP4 codes of all experts as files, and their numbers in the model."""
    from safetensors.torch import save_file
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    for number, layer in enumerate(model.model.layers):
        experts, tensors = layer.mlp.experts, {}
        for part in ("gate_up_proj", "down_proj"):
            own = getattr(experts, part).data
            count, columns, rows = own.shape
            blocks = torch.randint(0, 256, (count, rows, columns // 32, 16), dtype=torch.uint8, device=own.device)
            scales = torch.randint(119, 121, (count, rows, columns // 32), dtype=torch.uint8, device=own.device)
            own.copy_(convert_moe_packed_tensors(blocks, scales, dtype=own.dtype))
            bias = getattr(experts, f"{part}_bias").data
            tensors |= {f"{part}_blocks": blocks.cpu(), f"{part}_scales": scales.cpu(), f"{part}_bias": bias.cpu()}
        names = {f"model.layers.{number}.mlp.experts.{name}": tensor for name, tensor in tensors.items()}
        save_file(names, folder / f"model-{number:05}.safetensors")
    config = model.config.to_dict() | {"architectures": [type(model).__name__], "dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "mxfp4"}}))


def with_fp8_experts(model: Any) -> None:
    """Experts in e4m3 with scales of 128 x 128 blocks. All else stays in bf16: transformers' kernels for it come from a hub."""
    from transformers.integrations import finegrained_fp8 as home

    kind = home.use_experts_implementation(experts_class=home.FP8Experts, experts_interface=home.ALL_FP8_EXPERTS_FUNCTIONS)
    for layer in model.model.layers:
        layer.mlp.experts = kind(model.config, block_size=(128, 128))


class Way(NamedTuple):
    """A model and how its experts run."""

    name: str
    model: Any
    implementation: str
    compiled: bool


class Bench:
    """Measurements, and the rows of the table."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.begin = time.monotonic()
        self.rows: list[dict[str, Any]] = []
        self.is_cuda = options.device.startswith("cuda")
        self.folder: pathlib.Path | None = None
        """The folder of files with codes."""

    def left(self) -> float:
        return float(self.options.budget - (time.monotonic() - self.begin))

    def synchronize(self) -> None:
        if self.is_cuda:
            torch.cuda.synchronize()

    def ids(self, model: Any, batch: int) -> Any:
        generator = torch.Generator().manual_seed(batch)
        made = torch.randint(0, model.config.vocab_size, (batch, self.options.prompt), generator=generator)
        return made.to(self.options.device)

    def generate(self, way: Way, batch: int, tokens: int) -> float:
        """Seconds. All calls of a batch have a cache of one size, for which code is compiled once."""
        ids = self.ids(way.model, batch)
        self.synchronize()
        begin = time.monotonic()
        with torch.no_grad():
            made = way.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=tokens,
                min_new_tokens=tokens,
                do_sample=False,
                pad_token_id=0,
                cache_implementation="static",
                disable_compile=not way.compiled,
            )
        self.synchronize()
        assert made.shape[1] == self.options.prompt + tokens, made.shape
        return time.monotonic() - begin

    def share(self, way: Way, batch: int) -> float | None:
        """The share of MoE blocks in decode steps, by events."""
        if not self.is_cuda:
            return None
        blocks: list[Any] = []
        whole: list[Any] = []
        hooks = []

        def timed(into: list[Any]) -> tuple[Any, Any]:
            def before(*_: Any) -> None:
                into.append([torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)])
                into[-1][0].record()

            def after(*_: Any) -> None:
                into[-1][1].record()

            return before, after

        for module, into in [(way.model.model, whole), *((layer.mlp, blocks) for layer in way.model.model.layers)]:
            before, after = timed(into)
            hooks += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
        try:
            self.generate(way, batch, 9)
        finally:
            for hook in hooks:
                hook.remove()
        layers = self.options.layers
        times = [sum(begin.elapsed_time(end) for begin, end in part) for part in (blocks[layers:], whole[1:])]
        return times[0] / times[1]

    def prepare(self, way: Way, batch: int) -> dict[str, Any]:
        """The row of a way, with what is measured once. Nothing runs where the budget ends."""
        row: dict[str, Any] = {"implementation": way.name, "compiled": way.compiled, "batch": batch}
        # torch.compile takes a minute or more.
        if self.left() < (60 if way.compiled else 10):
            return row | {"error": "left out: budget"}
        try:
            # The first call packs, compiles or loads what it needs.
            row["first_s"] = self.generate(way, batch, self.options.tokens if way.compiled else 3)
            row["moe_share"] = None if way.compiled else self.share(way, batch)
        except Exception as error:
            traceback.print_exc(limit=-3)
            row["error"] = first_line(error)
            gc.collect()
            if self.is_cuda:
                torch.cuda.empty_cache()
        return row

    def measure(self, way: Way, row: dict[str, Any]) -> None:
        """Keeps the best in the row."""
        batch, tokens = row["batch"], self.options.tokens
        one = self.generate(way, batch, 1)
        seconds = self.generate(way, batch, tokens)
        if seconds < row.get("seconds", float("inf")):
            row |= {
                "new_tokens": tokens,
                "seconds": seconds,
                "tokens_per_s": batch * tokens / seconds,
                "ms_per_step": (seconds - one) / (tokens - 1) * 1e3,
                "ms_prefill": one * 1e3,
            }
        row.setdefault("all_tokens_per_s", []).append(batch * tokens / seconds)

    def run(self, ways: list[Way]) -> None:
        """The ways in turns, for each batch."""
        for batch in self.options.batches:
            rows = []
            for way in ways:
                way.model.set_experts_implementation(way.implementation)
                if way.compiled:
                    torch.compiler.reset()
                rows.append(self.prepare(way, batch))
                if way.compiled and "error" not in rows[-1]:
                    for _ in range(self.options.rounds):
                        self.measure(way, rows[-1])
            for turn in range(self.options.rounds):
                for way, row in zip(ways, rows, strict=True):
                    if way.compiled or "error" in row or (turn and self.left() < 10):
                        continue
                    way.model.set_experts_implementation(way.implementation)
                    self.measure(way, row)
            for row in rows:
                self.rows.append(row)
                say(f"{self.options.budget - self.left():6.1f} s: {line(row)}")

    def logits(self, model: Any) -> Any:
        with torch.no_grad():
            return model(self.ids(model, 2)).logits.float()


def line(row: dict[str, Any]) -> str:
    name = row["implementation"] + (", compiled" if row["compiled"] else "")
    if "error" in row:
        return f"| {name} | {row['batch']} | {row['error']} | | | |"
    share = "" if row.get("moe_share") is None else f"{100 * row['moe_share']:.0f} %"
    return f"| {name} | {row['batch']} | {row['tokens_per_s']:.1f} | {row['ms_per_step']:.2f} | {share} | {row['new_tokens']} |"


HEAD = "| experts | batch | tokens/s | ms/step | MoE share | new tokens |\n| --- | ---: | ---: | ---: | ---: | ---: |"


def agree(bench: Bench, name: str, model: Any, facts: dict[str, Any]) -> None:
    """Logits beside eager's."""
    expected, got = facts["eager"], bench.logits(model)
    facts["logits"][name] = {
        "relative_error": float((got - expected).norm() / expected.norm()),
        "equal_first_tokens": float((got.argmax(-1) == expected.argmax(-1)).float().mean()),
    }
    say(f"logits of {name} and of eager: {facts['logits'][name]}")


def is_right(logits: dict[str, Any]) -> bool:
    """moec's logits are as near to eager's as those of others: routers make steps of roundings."""
    own = [found["relative_error"] for name, found in logits.items() if name.startswith("moec")]
    others = [found["relative_error"] for name, found in logits.items() if not name.startswith("moec")]
    return not logits or (bool(own) and max(own) < max(0.03, 3 * max(others, default=0)))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=tuple(SHAPES), default="qwen3-30b-a3b")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--scheme", choices=("bf16", "fp8_block", "mxfp4"), default="bf16", help="mxfp4: of gpt-oss-20b")
    parser.add_argument("--batches", type=lambda text: [int(word) for word in text.split(",")], default=[1, 8, 64])
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=64, help="new tokens")
    parser.add_argument("--others", default="grouped_mm,batched_mm,eager", help="implementations beside moec")
    parser.add_argument("--compile", action="store_true", help="with generate()'s torch.compile, and not without")
    parser.add_argument("--blocks", action="store_true", help="also moec with replace_blocks()")
    parser.add_argument("--two-models", action="store_true", help="moec has its own, and all take turns")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=220, help="seconds for all")
    parser.add_argument("--out", type=pathlib.Path, help="a JSON file")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="a tiny model, to see that the program works")
    return parser.parse_args()


def attach(bench: Bench, model: Any, facts: dict[str, Any], *, blocks: bool) -> Way:
    """The model's experts are moec's from now on."""
    import moec.integrations.transformers as integration

    options = bench.options
    arguments: dict[str, Any] = {"max_tokens": max(max(options.batches) * options.prompt, 64), "progress": False}
    if bench.folder:
        report = integration.load_experts(model, bench.folder, device=options.device, **arguments)
    else:
        report = (integration.replace_blocks if blocks else integration.attach)(model, **arguments)
    errors = [row.error for row in report.rows if row.error is not None]
    name = "moec, blocks" if blocks else "moec"
    facts[name] = {"seconds": report.seconds, "packages": report.packages, "largest_error": max(errors, default=None)}
    say(f"{name}: {facts[name]}")
    if "eager" in facts:
        agree(bench, name, model, facts)
    return Way(name, model, "moec", options.compile)


def main() -> int:
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        return run(options, pathlib.Path(folder))


def run(options: argparse.Namespace, folder: pathlib.Path) -> int:
    bench = Bench(options)
    model = make_model(options)
    if options.scheme == "mxfp4":
        write_codes(model, folder)
        bench.folder = folder
    bench.synchronize()
    name = torch.cuda.get_device_name() if bench.is_cuda else "processor"
    shape = f"a tiny {options.model}" if options.small else f"the shape of {options.model}"
    facts: dict[str, Any] = {
        "device": name,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "model": f"{shape}, {options.layers} of {SHAPES[options.model].layers} layers, random weights",
        "scheme": options.scheme,
        "prompt": options.prompt,
        "new_tokens": options.tokens,
    }
    say(", ".join(f"{key} {value}" for key, value in facts.items()))
    say(f"made in {time.monotonic() - bench.begin:.1f} s")
    facts["logits"] = {}
    try:
        for implementation in ("eager", "grouped_mm"):
            model.set_experts_implementation(implementation)
            if implementation == "eager":
                facts["eager"] = bench.logits(model)
            else:
                agree(bench, implementation, model, facts)
    except Exception as error:
        say(f"{implementation} gives no logits: {first_line(error)}")
    others = [Way(other, model, other, options.compile) for other in options.others.split(",") if other]
    if not options.two_models:
        bench.run(others)
        others = []
    own = second_model(options, model) if options.two_models else model
    bench.run([*others, attach(bench, own, facts, blocks=False)])
    if options.blocks:
        import moec.integrations.transformers as integration

        integration.detach(own)
        bench.run([attach(bench, own, facts, blocks=True)])
    facts.pop("eager", None)
    facts["seconds"] = time.monotonic() - bench.begin
    if bench.is_cuda:
        facts["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    say("\n" + "\n".join([HEAD, *map(line, bench.rows)]))
    say(f"\n{facts['seconds']:.0f} s in all")
    if options.out:
        options.out.write_text(json.dumps({"facts": facts, "rows": bench.rows}, indent=1) + "\n")
    served = any(row["implementation"] == "moec" and "error" not in row for row in bench.rows)
    return 0 if served and is_right(facts["logits"]) else 1


if __name__ == "__main__":
    sys.exit(main())
