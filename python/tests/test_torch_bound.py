# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs of torch's operations whose tensors are like those that came before. It runs where torch is installed."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from conftest import import_torch

import moec

torch = import_torch()

EXPERTS, TOP_K, HIDDEN, INNER = 8, 2, 128, 96


def inputs(tokens: int, seed: int) -> tuple[Any, Any, Any]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, HIDDEN, generator=generator).bfloat16()
    shares, ids = torch.randn(tokens, EXPERTS, generator=generator).softmax(-1).topk(TOP_K)
    return x, ids, shares


@pytest.fixture(scope="module")
def experts() -> Any:
    from moec.torch import Experts

    generator = torch.Generator().manual_seed(1)
    w13 = torch.randn(EXPERTS, 2 * INNER, HIDDEN, generator=generator) * 0.1
    w2 = torch.randn(EXPERTS, HIDDEN, INNER, generator=generator) * 0.1
    return Experts.from_weights(w13.bfloat16(), w2.bfloat16(), top_k=TOP_K, max_tokens=64)


@pytest.fixture
def slow_runs(experts: Any, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The token counts of runs that took the long way. Nothing is known at the start."""
    from moec.torch.ops import registered

    bound = registered(experts.number).run
    bound._known.clear()
    taken: list[int] = []
    call: Callable[..., Any] = type(experts.layer).__call__

    def counted(layer: Any, x: Any, *others: Any, **options: Any) -> Any:
        taken.append(x.shape[0])
        return call(layer, x, *others, **options)

    monkeypatch.setattr(type(experts.layer), "__call__", counted)
    return taken


def run(experts: Any, *given: Any) -> Any:
    with torch.no_grad():
        return experts(*given)


def test_the_second_run_is_bound(experts: Any, slow_runs: list[int]) -> None:
    wanted = {}
    for seed in range(3):
        for tokens in (1, 7):
            x, ids, shares = inputs(tokens, seed)
            out = run(experts, x, ids, shares)
            wanted[tokens, seed] = out.clone()
            with torch.no_grad():
                assert torch.equal(experts.layer(x, topk_ids=ids, topk_weights=shares), out)
    # Half of them are those of this test.
    assert slow_runs.count(1) == slow_runs.count(7) == 1 + 3
    for (tokens, seed), out in wanted.items():
        assert torch.equal(run(experts, *inputs(tokens, seed)), out)
    assert len(slow_runs) == 8


def test_a_run_has_its_tensors_alone(experts: Any, slow_runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread runs as many tokens while the library is being called, and its tensors are elsewhere."""
    from types import SimpleNamespace

    from moec._library import library
    from moec.torch import bound

    both = [inputs(7, seed) for seed in (1, 2)]
    wanted = [run(experts, *given) for given in both]
    assert not torch.equal(*wanted)
    assert len(slow_runs) == 1
    whole, results = library(), []

    def interrupted(*arguments: Any) -> Any:
        monkeypatch.setattr(bound, "library", lambda: whole)
        thread = threading.Thread(target=lambda: results.append(run(experts, *both[1])))
        thread.start()
        thread.join()
        return whole.run(*arguments)

    for _ in range(3):
        monkeypatch.setattr(bound, "library", lambda: SimpleNamespace(run=interrupted, check=whole.check))
        assert torch.equal(run(experts, *both[0]), wanted[0])
        assert torch.equal(results.pop(), wanted[1])
    assert len(slow_runs) == 1


def test_other_tensors_are_seen(experts: Any, slow_runs: list[int]) -> None:
    x, ids, shares = inputs(7, 5)
    wanted = run(experts, x, ids, shares)
    strided = torch.zeros(7, 2 * HIDDEN, dtype=torch.bfloat16)
    strided[:, :HIDDEN] = x
    misaligned = torch.zeros(7 * HIDDEN + 1, dtype=torch.bfloat16)[1:].reshape(7, HIDDEN)
    misaligned.copy_(x)
    for name, given in {
        "ids of 32 bits": (x, ids.int(), shares),
        "rows with gaps": (strided[:, :HIDDEN], ids, shares),
        "an address that is not aligned": (misaligned, ids, shares),
    }.items():
        run(experts, x, ids, shares)
        before = len(slow_runs)
        assert torch.equal(run(experts, *given), wanted), name
        assert len(slow_runs) == before + 1, name
    run(experts, x, ids, shares)
    for text, given in {
        "value 'x': expected bf16.*, got f32": (x.float(), ids, shares),
        "given_ids.*expected.*got": (x, ids[:, :1].contiguous(), shares),
        "given_weights.*expected.*got": (x, ids, shares[:6]),
        "expert_map": (x, ids, shares, torch.arange(EXPERTS, dtype=torch.int32)),
    }.items():
        with pytest.raises(moec.InvalidArgument, match=text):
            run(experts, *given)
    with pytest.raises(moec.InvalidArgument, match="requires a gradient"):
        experts(x.requires_grad_(), ids, shares)


def test_few_counts_are_kept(experts: Any, slow_runs: list[int]) -> None:
    from moec.torch import bound
    from moec.torch.ops import registered

    known = registered(experts.number).run._known
    for tokens in range(1, 65):
        run(experts, *inputs(tokens, tokens))
    assert len(known) == bound.MOST_COUNTS == len(slow_runs)
    with torch.no_grad():
        assert experts(*inputs(0, 0)).shape == (0, HIDDEN)
    assert len(known) == 1


def test_threads(experts: Any, slow_runs: list[int]) -> None:
    given = [inputs(7, seed) for seed in range(8)]
    wanted = [run(experts, *each) for each in given]
    wrong: list[int] = []

    def runs(which: int) -> None:
        for _ in range(50):
            if not torch.equal(run(experts, *given[which]), wanted[which]):
                wrong.append(which)

    threads = [threading.Thread(target=runs, args=(which,)) for which in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert slow_runs == [7]


def test_a_failed_run(experts: Any, slow_runs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    from moec._library import library

    given = inputs(7, 9)
    wanted = run(experts, *given)
    with monkeypatch.context() as patch:
        patch.setattr(library(), "run", lambda *_: 1)
        with pytest.raises(moec.MoecError):
            run(experts, *given)
    assert torch.equal(run(experts, *given), wanted)
    experts.layer.close()
    with pytest.raises(moec.InvalidArgument, match="the layer was closed"):
        run(experts, *given)
