# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decisions of the integrations and of the bench that need no tensor, where torch and the engines are not installed.

Each test runs in an interpreter of its own, in which torch and the engines are stand-ins.
"""

import os
import pathlib
import sys

import pytest
from conftest import run_python

HERE = pathlib.Path(__file__).parent
STANDINS = """
import sys

import standins

standins.install("torch", "vllm", "sglang", "transformers")
"""


def run(code: str) -> None:
    ended = run_python(STANDINS + code, PYTHONPATH=os.pathsep.join([*filter(None, sys.path), str(HERE)]))
    assert ended.returncode == 0, ended.stderr[-3000:]


@pytest.mark.parametrize("name", ["experts", "layers", "plans", "runs", "schemes"])
def test_decisions(name: str) -> None:
    """Plug-ins decide the scheme of a layer, its layer JSON and token counts, or refuse it. moec.torch runs it.

    Experts modules of transformers are recognized, packed and restored.
    """
    code = (HERE / f"{name}_without_torch.py").read_text()
    ended = run_python(code, PYTHONPATH=os.pathsep.join([*filter(None, sys.path), str(HERE)]))
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert ended.stdout == (HERE / f"{name}_without_torch.txt").read_text()


def test_routing_of_vllm() -> None:
    """moec routes only as vLLM does: another factor, bias, group or score stays with vLLM."""
    run("""
from types import SimpleNamespace as Names

import torch, vllm.envs
from moec.integrations import _vllm_plan

vllm.envs.VLLM_MOE_ROUTING_SIMULATION_STRATEGY = ""
sys.modules["vllm"].envs = vllm.envs
BIAS = Names(dtype=torch.float32)


def routing(method, score, engine=False, balanced=False, **changes):
    config = dict(moe_parallel_config=Names(enable_eplb=balanced))
    config |= dict(require_decomposed_backend=False, has_hash_routing=False, num_experts=8, routing_method=Names(name=method))
    layer = dict(custom_routing_function=None, apply_router_weight_on_input=False, e_score_correction_bias=None,
                 use_grouped_topk=False, routed_scaling_factor=1.0, scoring_func=score, num_expert_group=2, topk_group=1)
    for name, value in changes.items():
        (config if name in config else layer)[name] = value
    engine = Names(aux_output_config=Names(enable_return_routed_experts=engine))
    return _vllm_plan._routing(Names(moe_config=Names(**config), **layer), engine)


for method, score, name in (("Default", "softmax", "default"), ("RenormalizeNaive", "softmax", "renormalize_naive"),
                            ("Sigmoid", "sigmoid", "sigmoid"), ("SigmoidRenorm", "sigmoid", "sigmoid_renorm")):
    assert routing(method, score) == {"routing_method": name}
    other = "sigmoid" if score == "softmax" else "softmax"
    for kept in (dict(routed_scaling_factor=2.5), dict(routed_scaling_factor=0.5), dict(use_grouped_topk=True),
                 dict(e_score_correction_bias=BIAS), dict(scoring_func=other), dict(custom_routing_function=print),
                 dict(apply_router_weight_on_input=True), dict(has_hash_routing=True), dict(require_decomposed_backend=True),
                 dict(engine=True), dict(balanced=True)):
        assert routing(method, kept.pop("scoring_func", score), **kept) is None, (method, kept)
assert routing("Llama4", "sigmoid") is None
grouped = dict(e_score_correction_bias=BIAS, routed_scaling_factor=2.5, use_grouped_topk=True)
assert routing("DeepSeekV3", "sigmoid", **grouped) == {
    "routing_method": "deepseek_v3", "routed_scaling_factor": 2.5, "num_expert_group": 2, "topk_group": 1}
for kept in (dict(num_expert_group=3), dict(num_expert_group=8), dict(use_grouped_topk=False),
             dict(e_score_correction_bias=Names(dtype=torch.bfloat16)), dict(e_score_correction_bias=None)):
    assert routing("DeepSeekV3", "sigmoid", **grouped | kept) is None, kept
assert routing("DeepSeekV3", "softmax", **grouped) is None
alone = dict(e_score_correction_bias=BIAS, routed_scaling_factor=0.5)
assert routing("MiniMax2", "sigmoid", **alone) == {"routing_method": "deepseek_v3", "routed_scaling_factor": 0.5}
assert routing("MiniMax2", "sigmoid", **alone, use_grouped_topk=True) is None
vllm.envs.VLLM_MOE_ROUTING_SIMULATION_STRATEGY = "uniform"
assert routing("Default", "softmax") is None
""")


def test_changes_of_packed_tensors() -> None:
    """A change of any tensor that the layer has copied is found: its weights, and those of the router."""
    run("""
from types import SimpleNamespace as Names

from moec.integrations.transformers import prepared

prepared.call_before = lambda number, function: called.append(function)
called = []


class Tensor:
    def __init__(self):
        self.address, self._version = id(self), 3

    def data_ptr(self):
        return self.address

    def is_inference(self):
        return False


def made():
    module = Names(_parameters={name: Tensor() for name in ("w13", "w2", "bias")})
    others = {"first": Tensor(), "second": Tensor()}
    layer = prepared.Prepared(Names(name="mlp"), None, 2, Names(package=Names(max_tokens=4), _number=1))
    layer.watch(module, ["w13", "w2"], others)
    return layer, module, others


def says(call, *words):
    try:
        call()
    except prepared.Stale as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError(words)


layer, module, _ = made()
layer.check_versions()
layer.check_versions(module)
for name in ("w13", "w2", "first", "second"):
    for change in ("version", "address"):
        layer, module, others = made()
        tensor = {**module._parameters, **others}[name]
        if change == "version":
            tensor._version += 1
        else:
            tensor.address += 1
        says(called[-1], f"mlp.{name} has changed")
        says(layer.check_versions, f"mlp.{name} has changed")
        says(lambda: layer.check_versions(module), f"mlp.{name} has changed")
for name in ("w13", "w2"):
    layer, module, _ = made()
    module._parameters[name] = Tensor()
    layer.check_versions()
    says(lambda: layer.check_versions(module), "its parameters are others")
layer, module, _ = made()
module._parameters["bias"]._version += 1  # which was not copied
layer.check_versions(module)
""")


def test_experts_of_the_bench() -> None:
    """The reference of a rank takes the tokens of the experts that the rank has."""
    run("""
from types import SimpleNamespace as Names

from moec.bench import case

asked = []


class Ids:
    def __eq__(self, expert):
        asked.append(expert)
        none = Names(numel=lambda: 0)
        return Names(nonzero=lambda as_tuple: (none, none))

    def unique(self, return_counts):
        return Names(tolist=lambda: [0, 3, 4, 5]), Names(tolist=lambda: [7, 8, 9, 10])


numbers = dict(name="a", scheme="bf16", num_experts=8, top_k=2, hidden=64, width=32, routes=True)
inputs = Names(x=Names(float=lambda: 0), ids=Ids(), weights=None)
for first, count in ((0, 8), (3, 2), (7, 1)):
    asked.clear()
    case.reference(Names(case=case.Case(first_expert=first, experts=count, **numbers)), inputs)
    assert asked == list(range(first, first + count)), asked
assert case.Case(first_expert=3, experts=2, **numbers).local(inputs) == {3: 8, 4: 9}
""")
