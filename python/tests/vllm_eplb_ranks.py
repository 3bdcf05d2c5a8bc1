# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One of the ranks that test_vllm_eplb.py starts: vLLM's EplbState moves experts between processes of data parallel.

    python vllm_eplb_ranks.py RANK RANKS PORT TRANSPORT

vLLM counts the tokens of experts, chooses a new placement, exchanges the rows of two layers by torch.distributed, and commits
its maps. It prints a line of JSON for each check.
"""

import json
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

import vllm_files

NAMES = ("bf16", "fp8 block", "gpt-oss", "GPTQ int4", "fp8 tensor, static")
REDUNDANT = 4
LAYERS = 2
COUNTS = (9, 14)


class Event:
    """In the place of torch.Event, which needs an accelerator."""

    def __init__(self, **options: Any) -> None:
        pass

    def record(self, stream: Any = None) -> None:
        pass

    synchronize = record

    def elapsed_time(self, other: Any) -> float:
        return 0.0


def model_of(runners: list[Any]) -> Any:
    """A model of these layers, with vLLM's own registration of a model's layers."""
    from vllm.model_executor.models.interfaces import MixtureOfExperts

    first = runners[0].routed_experts
    model = types.SimpleNamespace(
        moe_layers=runners,
        num_moe_layers=len(runners),
        num_expert_groups=1,
        num_logical_experts=first.global_num_experts - REDUNDANT,
        num_routed_experts=first.global_num_experts - REDUNDANT,
        num_physical_experts=first.global_num_experts,
        num_local_physical_experts=first.local_num_experts,
        num_redundant_experts=REDUNDANT,
    )
    model.set_eplb_state = types.MethodType(MixtureOfExperts.set_eplb_state, model)
    return model


def runs(engine: Any, rank: int, transport: str) -> Iterator[tuple[str, Any]]:
    import torch
    import vllm_cases as cases
    import vllm_layers as layers
    from vllm.config import set_current_vllm_config
    from vllm.distributed.eplb.eplb_state import EplbState
    from vllm.forward_context import set_forward_context

    from moec.integrations import _vllm_balance

    scales = _vllm_balance.largest_of_ranks(torch.tensor([[1.0, 4.0], [3.0, 2.0]][rank]))
    yield "scales", scales.tolist()
    hidden = 2048 if transport == "deepep_low_latency" else layers.HIDDEN
    more: dict[str, Any] = {"custom_routing_function": layers.given, "hidden_size": hidden}
    more |= {"enable_eplb": True, "num_redundant_experts": REDUNDANT}

    def build(case: Any, placed: list[int]) -> Any:
        return layers.build(engine, case, "cpu", has_bias=case.name == "gpt-oss", placed=placed, **more)

    def forward(runner: Any, x: Any, logits: Any) -> Any:
        with set_forward_context(None, engine, num_tokens=len(x), num_tokens_across_dp=torch.tensor(COUNTS)):
            return runner(x.clone(), logits)

    for case in cases.CASES:
        if case.name not in NAMES:
            continue
        first = EplbState.build_initial_global_physical_to_logical_map(layers.EXPERTS, REDUNDANT)
        built = [build(case, list(first)) for _ in range(LAYERS)]
        state = EplbState(engine.parallel_config, torch.device("cpu"))
        config: Any = types.SimpleNamespace(compute_hash=lambda: "model", model="model")
        with set_current_vllm_config(engine):
            state.add_model(model_of([each.runner for each in built]), config)
        (kept,) = state.model_states.values()
        kept.num_unpadded_tokens_tensors[0].fill_(COUNTS[rank])
        x, logits = layers.random_inputs(COUNTS[rank], hidden=hidden, seed=rank)
        logits[:, layers.EXPERTS - 2] += 3  # an expert that most tokens choose
        wanted = layers.computed(built[0], case, x, *layers.softmax_top_k(logits, layers.TOP_K, True))
        outs = []
        for step in range(3):
            for index, each in enumerate(built):
                outs.append(forward(each.runner, x, logits))
                yield f"{case.name}, step {step}, layer {index}", layers.error(outs[-1], wanted) / case.bound
            counted = int(kept.expert_load_pass.sum())
            yield f"{case.name}, step {step}, counted", counted == LAYERS * layers.TOP_K * sum(COUNTS[rank : rank + 1])
            kept.expert_load_window[:] = kept.expert_load_pass
            kept.expert_load_pass.zero_()
            before = kept.physical_to_logical_map.clone()
            if step < 2:
                if step:  # a placement that the policy would not choose, and that differs by layer
                    new = before.flip(1)
                    new[1] = new[1].roll(1)
                    state.policy = types.SimpleNamespace(rebalance_experts=lambda *arguments, new=new: new)
                state.rearrange()
                yield f"{case.name}, step {step}, moved", bool((kept.physical_to_logical_map != before).any())
        for index, each in enumerate(built):
            placed = kept.physical_to_logical_map[index].tolist()
            fresh = build(case, placed)
            fresh.runner.router.eplb_state = each.runner.router.eplb_state
            same = bool((forward(fresh.runner, x, logits) == outs[index - LAYERS]).all())
            yield f"{case.name}, bits of a fresh layer {index}", same


def main() -> None:
    rank, ranks, port, transport = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    os.environ |= {"MOEC_VLLM": "force", "MOEC_PROGRESS": "0"}
    if missing := vllm_files.prepare("cpu"):
        sys.exit(missing)
    import importlib

    import torch
    import vllm_eplb
    import vllm_layers as layers
    import vllm_transports

    from moec.integrations.vllm import register

    register()
    vllm_transports.install()
    importlib.import_module(vllm_eplb.ROUTER).eplb_map_to_physical_and_record = vllm_eplb.mapped  # type: ignore[attr-defined]
    torch.Event = Event
    with torch.no_grad():
        engine = layers.start("cpu", rank=rank, ranks=ranks, port=port, transport=transport, redundant=REDUNDANT)
        for what, result in runs(engine, rank, transport):
            print(json.dumps({"run": what, "result": result}), flush=True)


if __name__ == "__main__":
    main()
