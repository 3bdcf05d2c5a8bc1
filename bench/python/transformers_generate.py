#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokens per second of transformers' generate() with the experts implementations, on one GPU.

The model has the shape of Qwen3-30B-A3B and random weights, which the GPU makes. Its 48 layers take 61 GB in bf16, so --layers
gives it fewer. moec packs in place, so it comes last.

    PYTHONPATH=python MOEC_LIBRARY=build/lib/libmoec.so python3 bench/python/transformers_generate.py --layers 24 --out out.json

| column | meaning |
| --- | --- |
| tokens/s | new tokens of the whole batch, over the time of generate() with its prefill |
| ms/step | (time of generate() - time of generate() for one token) / (new tokens - 1) |
| MoE share | time between events around the MoE blocks, over the time between events around the model, in decode steps |

generate() itself decodes by batched_mm where the implementation is grouped_mm. An implementation that fails has the first line
of its error. The others may take the first half of --budget; what does not fit is left out.
"""

import argparse
import gc
import json
import pathlib
import sys
import time
import traceback
from typing import Any

import torch
import transformers

QWEN3_30B_A3B = {
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
}
SMALL = {
    "hidden_size": 256,
    "intermediate_size": 256,
    "moe_intermediate_size": 128,
    "num_experts": 16,
    "num_experts_per_tok": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 256,
}
ALL_LAYERS = 48


def say(text: str) -> None:
    print(text, flush=True)


def first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}"[:200]


def make_model(options: argparse.Namespace) -> Any:
    """A model with random weights that never were on the processor."""
    shape = SMALL if options.small else QWEN3_30B_A3B
    config = transformers.Qwen3MoeConfig(**shape, num_hidden_layers=options.layers, dtype=torch.bfloat16)
    config.eos_token_id = None
    with torch.device("meta"):
        model = transformers.Qwen3MoeForCausalLM(config).to(torch.bfloat16)
        if options.scheme == "fp8_block":
            with_fp8_experts(model)
    model.to_empty(device=options.device)
    # A buffer that no checkpoint has.
    model.model.rotary_emb = type(model.model.rotary_emb)(config).to(options.device)
    torch.manual_seed(0)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if name.endswith("_scale_inv"):
                tensor.uniform_(0.5, 1.5).mul_(0.02 / 60)
            elif tensor.element_size() == 1:
                for expert in tensor:
                    expert.copy_((torch.randn(expert.shape, device=options.device) * 60).clamp_(-448, 448))
            elif tensor.dim() == 1:
                tensor.fill_(1)
            else:
                tensor.normal_(0, 0.02)
    return model.eval()


def with_fp8_experts(model: Any) -> None:
    """Experts in e4m3 with scales of 128 x 128 blocks. All else stays in bf16: transformers' kernels for it come from a hub."""
    from transformers.integrations import finegrained_fp8 as home

    kind = home.use_experts_implementation(experts_class=home.FP8Experts, experts_interface=home.ALL_FP8_EXPERTS_FUNCTIONS)
    for layer in model.model.layers:
        layer.mlp.experts = kind(model.config, block_size=(128, 128))


class Bench:
    """Measurements of one model, and the rows of the table."""

    def __init__(self, model: Any, options: argparse.Namespace) -> None:
        self.model, self.options = model, options
        self.begin = time.monotonic()
        self.rows: list[dict[str, Any]] = []
        self.is_cuda = options.device.startswith("cuda")

    def left(self) -> float:
        return float(self.options.budget - (time.monotonic() - self.begin))

    def synchronize(self) -> None:
        if self.is_cuda:
            torch.cuda.synchronize()

    def ids(self, batch: int) -> Any:
        generator = torch.Generator().manual_seed(batch)
        made = torch.randint(0, self.model.config.vocab_size, (batch, self.options.prompt), generator=generator)
        return made.to(self.options.device)

    def generate(self, batch: int, tokens: int, compiled: bool) -> float:
        """Seconds. All calls of a batch have a cache of one size, for which code is compiled once."""
        ids = self.ids(batch)
        self.synchronize()
        begin = time.monotonic()
        with torch.no_grad():
            made = self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=tokens,
                min_new_tokens=tokens,
                do_sample=False,
                pad_token_id=0,
                cache_implementation="static",
                disable_compile=not compiled,
            )
        self.synchronize()
        assert made.shape[1] == self.options.prompt + tokens, made.shape
        return time.monotonic() - begin

    def share(self, batch: int) -> float | None:
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

        for module, into in [(self.model.model, whole), *((layer.mlp, blocks) for layer in self.model.model.layers)]:
            before, after = timed(into)
            hooks += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
        try:
            self.generate(batch, 9, compiled=False)
        finally:
            for hook in hooks:
                hook.remove()
        layers = self.options.layers
        times = [sum(begin.elapsed_time(end) for begin, end in part) for part in (blocks[layers:], whole[1:])]
        return times[0] / times[1]

    def measure(self, name: str, batch: int, compiled: bool) -> dict[str, Any]:
        row: dict[str, Any] = {"implementation": name, "compiled": compiled, "batch": batch}
        try:
            # The first call packs, compiles or loads what it needs.
            first = self.generate(batch, self.options.tokens if compiled else 3, compiled)
            tokens = self.options.tokens
            if not compiled:
                step = self.generate(batch, 3, compiled) / 3
                fits = int(min(self.left() / 4, 20) / max(step, 1e-6))
                tokens = max(4, min(tokens, fits))
            one = min(self.generate(batch, 1, compiled) for _ in range(2))
            seconds = self.generate(batch, tokens, compiled)
            row |= {
                "first_s": first,
                "new_tokens": tokens,
                "seconds": seconds,
                "tokens_per_s": batch * tokens / seconds,
                "ms_per_step": (seconds - one) / (tokens - 1) * 1e3,
                "ms_prefill": one * 1e3,
                "moe_share": None if compiled else self.share(batch),
            }
        except Exception as error:
            traceback.print_exc(limit=-3)
            row["error"] = first_line(error)
        return row

    def run(self, name: str, compiled: bool) -> None:
        others_end = 0 if name == "moec" else self.options.budget / 2
        for batch in self.options.batches:
            if compiled:
                torch.compiler.reset()
            # torch.compile takes a minute or more.
            if self.left() < others_end + (60 if compiled else 10):
                row: dict[str, Any] = {"implementation": name, "compiled": compiled, "batch": batch, "error": "left out: budget"}
            else:
                row = self.measure(name, batch, compiled)
            if "error" in row and self.is_cuda:
                gc.collect()
                torch.cuda.empty_cache()
            self.rows.append(row)
            say(f"{self.options.budget - self.left():6.1f} s: {line(row)}")
            if "error" in row and "budget" not in row["error"]:
                break

    def logits(self) -> Any:
        with torch.no_grad():
            return self.model(self.ids(2)).logits.float()


def line(row: dict[str, Any]) -> str:
    name = row["implementation"] + (", compiled" if row["compiled"] else "")
    if "error" in row:
        return f"| {name} | {row['batch']} | {row['error']} | | | |"
    share = "" if row["moe_share"] is None else f"{100 * row['moe_share']:.0f} %"
    return f"| {name} | {row['batch']} | {row['tokens_per_s']:.1f} | {row['ms_per_step']:.2f} | {share} | {row['new_tokens']} |"


HEAD = "| experts | batch | tokens/s | ms/step | MoE share | new tokens |\n| --- | ---: | ---: | ---: | ---: | ---: |"


def agree(bench: Bench, expected: Any) -> dict[str, Any]:
    """moec's logits beside eager's."""
    got = bench.logits()
    found = {
        "relative_error": float((got - expected).norm() / expected.norm()),
        "equal_first_tokens": float((got.argmax(-1) == expected.argmax(-1)).float().mean()),
    }
    say(f"logits of moec and of eager: {found}")
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=24, help="48 are the whole model")
    parser.add_argument("--scheme", choices=("bf16", "fp8_block"), default="bf16")
    parser.add_argument("--batches", type=lambda text: [int(word) for word in text.split(",")], default=[1, 8, 64])
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=64, help="new tokens")
    parser.add_argument("--others", default="grouped_mm,batched_mm,eager", help="implementations beside moec")
    parser.add_argument("--compile", action="store_true", help="also with generate()'s torch.compile")
    parser.add_argument("--budget", type=float, default=220, help="seconds for all")
    parser.add_argument("--out", type=pathlib.Path, help="a JSON file")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="a tiny model, to see that the program works")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    import moec.integrations.transformers as integration

    begin = time.monotonic()
    model = make_model(options)
    bench = Bench(model, options)
    bench.begin = begin
    bench.synchronize()
    name = torch.cuda.get_device_name() if bench.is_cuda else "processor"
    shape = "a tiny model" if options.small else "Qwen3-30B-A3B's shape"
    facts: dict[str, Any] = {
        "device": name,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "model": f"{shape}, {options.layers} of {ALL_LAYERS} layers, random weights",
        "scheme": options.scheme,
        "prompt": options.prompt,
        "new_tokens": options.tokens,
    }
    say(", ".join(f"{key} {value}" for key, value in facts.items()))
    say(f"made in {time.monotonic() - begin:.1f} s")
    expected = None
    try:
        model.set_experts_implementation("eager")
        expected = bench.logits()
    except Exception as error:
        say(f"eager gives no logits: {first_line(error)}")
    for other in options.others.split(",") if options.others else ():
        try:
            model.set_experts_implementation(other)
        except Exception as error:
            bench.rows.append({"implementation": other, "compiled": False, "batch": 0, "error": first_line(error)})
            continue
        bench.run(other, compiled=False)
    if options.compile:
        for other in options.others.split(",") if options.others else ():
            if other != "eager":  # a loop over the experts that were chosen
                model.set_experts_implementation(other)
                bench.run(other, compiled=True)
    try:
        most = max(options.batches) * options.prompt
        report = integration.attach(model, max_tokens=max(most, 64), progress=False)
        errors = [row.error for row in report.rows if row.error is not None]
        facts["attach"] = {"seconds": report.seconds, "packages": report.packages, "largest_error": max(errors)}
        say(f"attach: {facts['attach']}")
        if expected is not None:
            facts["logits"] = agree(bench, expected)
        bench.run("moec", compiled=False)
        if options.compile:
            bench.run("moec", compiled=True)
    except Exception as error:
        traceback.print_exc()
        bench.rows.append({"implementation": "moec", "compiled": False, "batch": 0, "error": first_line(error)})
    facts["seconds"] = time.monotonic() - begin
    if bench.is_cuda:
        facts["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    say("\n" + "\n".join([HEAD, *map(line, bench.rows)]))
    say(f"\n{facts['seconds']:.0f} s in all")
    if options.out:
        options.out.write_text(json.dumps({"facts": facts, "rows": bench.rows}, indent=1) + "\n")
    agreed = facts.get("logits", {}).get("relative_error", 0) < 0.1
    return 0 if agreed and any(row["implementation"] == "moec" and "error" not in row for row in bench.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
