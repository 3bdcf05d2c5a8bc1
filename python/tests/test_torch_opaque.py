# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs of a plug-in's layer in code that torch.compile traces, as vLLM's engine does on the processor. It needs no engine."""

import gc
from typing import Any

import pytest
from conftest import ARCH, SMALL, import_torch

import moec

torch = import_torch()

EXPERTS, HIDDEN, INNER = 8, 128, 96
pytestmark = pytest.mark.usefixtures("no_gradients")


def run_of(**more: Any) -> Any:
    from moec.integrations._opaque import OpaqueRun

    package = moec.load(moec.compile({**SMALL, **more}, arch=ARCH, max_tokens=64), device="host")
    generator = torch.Generator().manual_seed(0)
    sizes = {"w13": (EXPERTS, 2 * INNER, HIDDEN), "w2": (EXPERTS, HIDDEN, INNER)}
    return OpaqueRun(
        package.layer({name: torch.randn(*size, generator=generator).bfloat16() * 0.1 for name, size in sizes.items()})
    )


class Method:
    """As a plug-in's method keeps its run."""

    def __init__(self, made: Any) -> None:
        self.run = made

    def apply(self, x: Any, **inputs: Any) -> Any:
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        self.run(x, out, None, **inputs)
        return out


def inputs(tokens: int) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(tokens)
    return torch.randn(tokens, HIDDEN, generator=generator).bfloat16(), torch.randn(tokens, EXPERTS, generator=generator)


@pytest.mark.parametrize("dynamic", [False, True])
def test_one_operation_of_compiled_code(dynamic: bool) -> None:
    methods = [Method(run_of()), Method(run_of(routing_method="custom"))]

    def forward(x: Any, logits: Any) -> Any:
        weights, ids = logits.softmax(-1).topk(2)
        x = methods[0].apply(x * 2, logits=logits) + x
        return methods[1].apply(x, topk_ids=ids, topk_weights=weights)

    torch._dynamo.reset()
    compiled = torch.compile(forward, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for tokens in (5, 9, 33):
        given = inputs(tokens)
        assert torch.equal(compiled(*given), forward(*given))
    assert methods[0].apply(inputs(3)[0][:0], logits=inputs(3)[1][:0]).shape == (0, HIDDEN)


def test_maps_are_checked_in_compiled_code() -> None:
    made = run_of()

    def forward(x: Any, logits: Any, expert_map: Any) -> Any:
        out = torch.empty_like(x)
        made(x, out, expert_map, logits=logits)
        return out

    given = (*inputs(3), torch.arange(EXPERTS, dtype=torch.int32))
    with pytest.raises(moec.InvalidArgument, match="expected None, since this rank has all experts"):
        forward(*given)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="since this rank has all experts"):
        torch.compile(forward, fullgraph=True, backend="eager")(*given)


def test_the_operation_ends_with_the_run() -> None:
    from moec.torch import ops

    made = run_of()
    number = made._number
    assert number in ops._layers
    del made
    gc.collect()
    assert number not in ops._layers
