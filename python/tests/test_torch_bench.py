# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The random layers of `moec bench` and their reference, held against moec on the host device."""

import pytest
from conftest import ARCH, SMALL, import_torch

import moec
from moec.bench import bench, case
from moec.errors import InvalidArgument, NoDriver

torch = import_torch()

WIDE = {"num_experts": 16, "top_k": 4, "hidden_size": 512, "intermediate_size": 256}


def package_of(scheme: str, **options: object) -> moec.Package:
    return moec.load(moec.compile(SMALL | WIDE | {"quant_config": scheme}, arch=ARCH, **options), device="host")  # type: ignore[arg-type]


@pytest.mark.parametrize("scheme", list(case.TOLERANCE))
@pytest.mark.parametrize("ranks", [1, 2])
def test_reference(scheme: str, ranks: int) -> None:
    package = package_of(scheme, **({"tp": 2, "ep": True, "rank": 1} if ranks > 1 else {}))
    made = case.Case.of(package.manifest["layer"])
    assert (made.experts, made.first_expert) == ((16, 0) if ranks == 1 else (8, 8))
    torch.manual_seed(1)
    weights, inputs = case.random_weights(made, "cpu"), case.random_inputs(made, 9, device="cpu")
    layer, wanted = package.layer(weights.named()), case.reference(weights, inputs)
    assert 0.05 < float(wanted.abs().mean()) < 1
    for out in (layer(inputs.x, inputs.logits), layer(inputs.x, given_ids=inputs.ids, given_weights=inputs.weights)):
        assert case.error_of(out, wanted) < case.TOLERANCE[scheme]
    # The bound sees one wrong expert of one token.
    inputs.ids[0, 0], inputs.ids[0, 1] = inputs.ids[0, 1], inputs.ids[0, 0]
    if case.error_of(case.reference(weights, inputs), wanted):
        assert case.error_of(layer(inputs.x, given_ids=inputs.ids, given_weights=inputs.weights), wanted) > case.TOLERANCE[scheme]


def test_rows_of_local_experts() -> None:
    made = case.Case("", "bf16", 16, 8, 8, 2, 16, 16, True)
    ids = torch.tensor([[1, 9], [9, 15], [3, 8]])
    assert made.local(case.Inputs(None, None, ids, None)) == {8: 1, 9: 2, 15: 1}


def test_a_token_without_experts_here() -> None:
    zeros = torch.zeros(1, 8)
    assert case.error_of(zeros, zeros) == 0
    assert case.error_of(zeros + 1, zeros) > 1


def test_skewed_inputs() -> None:
    made = case.Case("", "bf16", 64, 0, 64, 4, 16, 16, True)
    torch.manual_seed(1)
    even, skewed = (case.random_inputs(made, 256, skew, "cpu") for skew in (0.0, 1.2))
    assert even.ids.unique(return_counts=True)[1].max() < 50
    counts = torch.bincount(skewed.ids.flatten().long(), minlength=64)
    assert counts[0] > 150
    assert counts[0] > counts[1] > counts[8] > counts[40]


@pytest.mark.skipif(torch.cuda.is_available(), reason="without a GPU")
def test_without_a_gpu() -> None:
    with pytest.raises(NoDriver, match="moec explain predicts times without one"):
        bench([SMALL], tokens=[1])


def test_unknown_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(InvalidArgument, match=r"unknown system 'fastest'; known: torch, transformers, vllm"):
        bench([SMALL], tokens=[1], systems=["fastest"])
