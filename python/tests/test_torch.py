# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operations and modules of torch on the processor. It runs where torch is installed."""

import copy
import gc
import pickle
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from conftest import ARCH, SMALL, import_torch
from reference import error, moe, nearest_bf16

import moec

torch = import_torch()

EXPERTS, TOP_K, HIDDEN, INNER = 8, 2, 128, 96


pytestmark = pytest.mark.usefixtures("no_gradients")


def random(*shape: int, seed: int = 0, dtype: Any = torch.bfloat16, scale: float = 1.0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(*shape, generator=generator) * scale).to(dtype)


def weights() -> tuple[Any, Any]:
    return random(EXPERTS, 2 * INNER, HIDDEN, seed=1, scale=0.1), random(EXPERTS, HIDDEN, INNER, seed=2, scale=0.1)


def inputs(tokens: int, dtype: Any = torch.bfloat16) -> tuple[Any, Any, Any]:
    x = random(tokens, HIDDEN, seed=3, dtype=dtype)
    shares, ids = random(tokens, EXPERTS, seed=4, dtype=torch.float32).softmax(-1).topk(TOP_K)
    return x, ids, shares


def wanted(x: Any, ids: Any, shares: Any, w13: Any, w2: Any) -> Any:
    wide = [each.double().numpy() for each in (x, shares, w13, w2)]
    return moe(wide[0], ids=ids.numpy(), weights=wide[1], w13=wide[2], w2=wide[3], rounded=nearest_bf16)


@pytest.fixture(scope="module")
def experts() -> Any:
    from moec.torch import Experts

    return Experts.from_weights(*weights(), top_k=TOP_K, max_tokens=64)


@pytest.fixture(scope="module")
def block() -> Any:
    from moec.torch import MoE

    w13, w2 = weights()
    return MoE.from_config(SMALL, device="cpu", max_tokens=64).load_weights({"w13": w13, "w2": w2})


def test_tensors_without_operations() -> None:
    package = moec.load(moec.compile(SMALL, arch=ARCH, max_tokens=64), device="host")
    w13, w2 = weights()
    layer = package.layer({"w13": torch.nn.Parameter(w13), "w2": w2})
    x, ids, shares = inputs(7)
    out = layer(x, given_ids=ids, given_weights=shares)
    assert isinstance(out, torch.Tensor)
    assert out.dtype == torch.bfloat16
    assert isinstance(layer.weights["w13_packed"], torch.Tensor)
    bits = layer(x.view(torch.uint16).numpy(), given_ids=ids.numpy(), given_weights=shares.numpy())
    assert (out.view(torch.uint16).numpy() == bits).all()
    wide = torch.zeros(7, 2 * HIDDEN, dtype=torch.bfloat16)
    wide[:, :HIDDEN] = x
    assert torch.equal(layer(wide[:, :HIDDEN], given_ids=ids, given_weights=shares), out)
    with pytest.raises(moec.InvalidArgument, match="value 'given_ids': expected strides"):
        layer(x, given_ids=ids.T.contiguous().T, given_weights=shares)
    with pytest.raises(moec.InvalidArgument, match="value 'x': expected bf16.*, got f32"):
        layer(x.float(), given_ids=ids, given_weights=shares)
    with pytest.raises(moec.InvalidArgument, match="expected a strided tensor in host or CUDA memory"):
        layer(x.to("meta"), given_ids=ids, given_weights=shares)


@pytest.mark.parametrize("tokens", [1, 7, 33])
def test_experts(experts: Any, tokens: int) -> None:
    x, ids, shares = inputs(tokens)
    out = experts(x, ids, shares)
    assert error(out.double().numpy(), wanted(x, ids, shares, *weights())) < 2.5e-3
    assert torch.equal(experts(x, ids.int(), shares), out)
    other = torch.empty_like(out)
    torch.ops.moec.run_out(experts.number, x, None, ids, shares, None, other)
    assert torch.equal(other, out)


def test_weights_of_bf16_are_taken(experts: Any) -> None:
    x, ids, shares = inputs(7)
    rounded = shares.bfloat16()
    assert torch.equal(experts(x, ids, rounded), experts(x, ids, rounded.float()))


def test_opcheck(experts: Any, block: Any) -> None:
    x, ids, shares = inputs(7)
    logits = random(7, EXPERTS, seed=5)
    for arguments in ((experts.number, x, None, ids, shares, None), (block.number, x, logits, None, None, None)):
        torch.library.opcheck(torch.ops.moec.run.default, arguments)
        torch.library.opcheck(torch.ops.moec.run_out.default, (*arguments, torch.empty_like(x)))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_fullgraph(block: Any, dynamic: bool) -> None:
    gate = random(EXPERTS, HIDDEN, seed=6)

    def forward(x: Any) -> Any:
        return block(x, x @ gate.T) * 2 + x

    torch._dynamo.reset()
    compiled = torch.compile(forward, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for tokens in (5, 9, 33):
        x = inputs(tokens)[0]
        assert torch.equal(compiled(x), forward(x))


def test_run_out_is_functionalized(experts: Any) -> None:
    """Compiled code sees that run_out writes to its last argument."""

    def forward(x: Any, ids: Any, shares: Any) -> Any:
        out = torch.zeros_like(x)
        before = out + 1
        torch.ops.moec.run_out(experts.number, x, None, ids, shares, None, out)
        return before, out + 1

    torch._dynamo.reset()
    compiled = torch.compile(forward, fullgraph=True, backend="aot_eager")
    x, ids, shares = inputs(7)
    for got, expected in zip(compiled(x, ids, shares), forward(x, ids, shares), strict=True):
        assert torch.equal(got, expected)
    assert (compiled(x, ids, shares)[0] == 1).all()


def test_gradients_are_refused(experts: Any) -> None:
    x, ids, shares = inputs(3)
    with torch.enable_grad():
        with pytest.raises(moec.InvalidArgument, match="value 'x' requires a gradient, and moec computes none"):
            experts(x.requires_grad_(), ids, shares)
        experts(x.detach(), ids, shares)
    with torch.inference_mode():
        assert experts(x, ids, shares).shape == (3, HIDDEN)


def test_equal_layers_share_a_package(experts: Any) -> None:
    same = moec_torch().Experts.from_weights(*weights(), top_k=TOP_K, max_tokens=64)
    assert same.package is experts.package
    assert same.number != experts.number
    other = moec_torch().Experts.from_weights(*weights(), top_k=TOP_K, max_tokens=32)
    assert other.package is not experts.package
    dropped = weakref.ref(other.package)
    del other
    gc.collect()
    assert dropped() is None


def test_a_gpu_gets_a_reserve(block: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU is here: the package says that it is on one."""
    package = block.package
    assert package.reserved is None
    monkeypatch.setattr(package, "gpu", 0)
    reserves = []

    def reserve(comm: Any) -> None:
        assert comm is None
        package.reserved = object()
        reserves.append(package)

    monkeypatch.setattr(package, "reserve", reserve)
    try:
        for number in [moec_torch().register(block.layer) for _ in range(2)]:
            moec_torch().release(number)
    finally:
        package.reserved = None
    assert reserves == [package]


def test_kept_memory_is_of_another_thread(block: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool of a CUDA graph takes what the thread allocates that runs torch.compile's function."""
    from moec import _memory

    threads = []

    def empty(shape: tuple[int, ...], *_: Any, **__: Any) -> Any:
        threads.append(threading.get_ident())
        if shape[0] > 1000:
            raise torch.OutOfMemoryError("there is no GPU")
        return torch.zeros(shape, dtype=torch.uint8)

    monkeypatch.setattr("moec.arrays.empty", empty)
    monkeypatch.setattr(block.package, "gpu", 0)
    address, owner = _memory.kept_memory(block.package, 1000, "workspace")
    assert address == owner.data_ptr()
    assert threads != [threading.get_ident()]
    with pytest.raises(torch.OutOfMemoryError, match="there is no GPU"):
        _memory.kept_memory(block.package, 1001, "workspace")


def test_the_program_for_a_gpu_runs() -> None:
    """As far as it goes without one, and it sees a wrong result."""
    import torch_gpu

    layer = torch_gpu.Layer("cpu")
    said = {name: list(function(layer)) for name, gpu, function in torch_gpu.CHECKS if not gpu}
    assert said["fused_experts"][1] == "hit: equal"
    layer.w2 = layer.w2 * 1.01
    with pytest.raises(AssertionError, match="1 tokens: relative error 0.01"):
        list(torch_gpu.runs(layer))


def test_released_layers() -> None:
    from moec.torch import Experts

    made = Experts.from_weights(*weights(), top_k=TOP_K, max_tokens=8)
    x, ids, shares = inputs(3)
    number = made.number
    made(x, ids, shares)
    del made
    gc.collect()
    for call in (
        lambda: torch.ops.moec.run(number, x, None, ids, shares, None),
        lambda: torch.ops.moec.run(10**6, x, None, ids, shares, None),
        lambda: moec_torch().release(number),
    ):
        with pytest.raises(moec.InvalidArgument, match="it was released, or never registered"):
            call()


def test_numbers_are_not_given_again(block: Any) -> None:
    first = moec_torch().register(block.layer)
    moec_torch().release(first)
    second = moec_torch().register(block.layer)
    assert second > first
    moec_torch().release(second)


def test_the_type_of_the_output() -> None:
    w13, w2 = weights()
    wide = moec_torch().MoE.from_config({**SMALL, "out_dtype": "float32"}, device="cpu", max_tokens=8)
    wide.load_weights({"w13": w13, "w2": w2})
    x, ids, shares = inputs(5)
    out = wide(x, None, ids, shares)
    assert out.dtype == torch.float32
    assert error(out.double().numpy(), wanted(x, ids, shares, w13, w2)) < 2.5e-3
    torch.library.opcheck(torch.ops.moec.run.default, (wide.number, x, None, ids, shares, None))


def test_experts_without_a_gate() -> None:
    w13, w2 = random(EXPERTS, INNER, HIDDEN, seed=1, scale=0.1), weights()[1]
    made = moec_torch().Experts.from_weights(w13, w2, top_k=TOP_K, activation="silu_no_mul", max_tokens=8)
    x, ids, shares = inputs(5)
    out = torch.zeros(5, HIDDEN, dtype=torch.float64)
    for token in range(5):
        for expert, share in zip(ids[token], shares[token], strict=True):
            inner = torch.nn.functional.silu(w13[expert].double() @ x[token].double()).bfloat16().double()
            out[token] += share * (w2[expert].double() @ inner)
    assert error(made(x, ids, shares).double().numpy(), out.numpy()) < 2.5e-3


def moec_torch() -> Any:
    import moec.torch

    return moec.torch


def test_wrong_calls(experts: Any, block: Any) -> None:
    x, ids, shares = inputs(7)
    with pytest.raises(moec.InvalidArgument, match="value 'x': expected 2 dimensions"):
        experts(x[0], ids, shares)
    with pytest.raises(moec.InvalidArgument, match="value 'given_ids': expected .7, 2., got .7, 1."):
        experts(x, ids[:, :1].contiguous(), shares)
    with pytest.raises(moec.InvalidArgument, match="has no input or output 'expert_map'"):
        experts(x, ids, shares, torch.zeros(8, dtype=torch.int32))
    with pytest.raises(moec.InvalidArgument, match="w13, w2: expected"):
        moec_torch().Experts.from_weights(x, x, top_k=2)
    with pytest.raises(moec.InvalidArgument, match="dtype: expected the type of x"):
        moec_torch().Experts.from_weights(weights()[0].to(torch.float8_e4m3fn), weights()[1], top_k=2)
    empty = moec_torch().MoE.from_config(SMALL, device="cpu", max_tokens=8)
    assert "no weights" in repr(empty)
    with pytest.raises(moec.InvalidArgument, match="the module has no weights yet"):
        empty(x)
    with pytest.raises(moec.InvalidArgument, match="device: expected cpu or cuda, got meta"):
        moec_torch().MoE.from_config(SMALL, device="meta")
    assert "small, sm_90a on host, at most 64 tokens" in repr(block)
    assert "<iframe" in block._repr_html_()


def test_modules_are_not_copied(block: Any) -> None:
    assert block.state_dict() == {}
    for call in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a module of moec cannot be"):
            call(block)
    with pytest.raises(TypeError, match=r"objects of libmoec.so cannot be copied or pickled|cannot pickle"):
        copy.deepcopy(block.layer)


def test_quantized_experts() -> None:
    from moec.torch import Experts

    w13, w2 = weights()
    scales = [each.abs().amax(-1).float() / 127 for each in (w13, w2)]
    codes = [(each.float() / scale[..., None]).round().to(torch.int8) for each, scale in zip((w13, w2), scales, strict=True)]
    made = Experts.from_weights(
        *codes,
        top_k=TOP_K,
        quant_config="int8_channel",
        dtype=torch.bfloat16,
        tensors={"w13_scale": scales[0], "w2_scale": scales[1]},
        max_tokens=64,
    )
    x, ids, shares = inputs(33)
    assert error(made(x, ids, shares).double().numpy(), wanted(x, ids, shares, w13, w2)) < 0.03


def test_fp8_of_torch() -> None:
    from moec.torch import Experts

    w13, w2 = (each.to(torch.float8_e4m3fn) for each in weights())
    ones = {"w13_scale": torch.ones(EXPERTS, 2 * INNER), "w2_scale": torch.ones(EXPERTS, HIDDEN)}
    made = Experts.from_weights(w13, w2, top_k=TOP_K, quant_config="fp8_w8a16", dtype=torch.bfloat16, tensors=ones, max_tokens=64)
    x, ids, shares = inputs(7)
    assert error(made(x, ids, shares).double().numpy(), wanted(x, ids, shares, w13, w2)) < 5e-3


@pytest.fixture
def functional() -> Any:
    from moec.torch import functional as module

    module.clear()
    yield module
    module.clear()


def test_fused_experts(functional: Any) -> None:
    w1, w2 = weights()
    x, ids, shares = inputs(7)
    out = functional.fused_experts(x, w1, w2, shares, ids, max_tokens=64)
    assert error(out.double().numpy(), wanted(x, ids, shares, w1, w2)) < 2.5e-3
    assert torch.equal(functional.fused_experts(x, w1, w2, shares, ids, max_tokens=64), out)
    ((_, *kept),) = functional._kept.values()
    assert all(have is given for have, given in zip(kept, (w1, w2), strict=True))
    # A change of the weights is seen, and replaces the copy: w1 was packed, w2 is read where it lies.
    w1[:, INNER:] *= 2
    twice = functional.fused_experts(x, w1, w2, shares, ids, max_tokens=64)
    assert torch.equal(twice, out * 2)
    assert len(functional._kept) == 1
    assert functional.fused_experts(x, w1, w2, shares, ids, inplace=True, max_tokens=64) is x
    assert torch.equal(x, twice)


@pytest.mark.parametrize(
    "option", [{"apply_router_weight_on_input": True}, {"activation": "gelu"}, {"max_tokens": 8}, {"global_num_experts": EXPERTS}]
)
def test_fused_experts_keeps_layers_apart(functional: Any, option: dict[str, Any]) -> None:
    """A copy that was packed for one layer never serves another one of the same weights."""
    w1, w2 = weights()
    x, ids, shares = inputs(7)
    given = (x, w1, w2, shares[:, :1].contiguous(), ids[:, :1].contiguous())
    plain = functional.fused_experts(*given, max_tokens=64)
    other = functional.fused_experts(*given, **{"max_tokens": 64, **option})
    assert torch.equal(functional.fused_experts(*given, max_tokens=64), plain)
    functional.clear()
    assert torch.equal(functional.fused_experts(*given, **{"max_tokens": 64, **option}), other)
    assert torch.equal(plain, other) == (option.keys() <= {"max_tokens", "global_num_experts"})


def test_fused_experts_knows_weights_by_all_that_they_are(functional: Any) -> None:
    """Other numbers in the same memory: rows as columns, experts in another order."""
    x, ids, shares = inputs(7)
    w1 = random(EXPERTS, HIDDEN, HIDDEN, seed=1, scale=0.1)
    w2 = random(EXPERTS, HIDDEN, HIDDEN // 2, seed=2, scale=0.1)
    functional.fused_experts(x, w1, w2, shares, ids, max_tokens=8)
    for other in (w1.transpose(1, 2), w1[:1].expand(EXPERTS, -1, -1)):
        assert other.data_ptr() == w1.data_ptr()
        assert other.shape == w1.shape
        with pytest.raises(moec.InvalidArgument, match="value 'w13': expected strides"):
            functional.fused_experts(x, other, w2, shares, ids, max_tokens=8)


def test_fused_experts_forgets_what_was_used_longest_ago(functional: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functional, "MOST_LAYERS", 2)
    x, ids, shares = inputs(7)
    w2 = weights()[1]
    all_of_w1 = [random(EXPERTS, 2 * INNER, HIDDEN, seed=seed, scale=0.1) for seed in range(4)]
    for used, left in ((0, [0]), (1, [0, 1]), (0, [1, 0]), (2, [0, 2]), (0, [2, 0]), (3, [0, 3])):
        functional.fused_experts(x, all_of_w1[used], w2, shares, ids, max_tokens=8)
        kept = [w1 for _, w1, _ in functional._kept.values()]
        assert len(kept) == len(left)
        assert all(have is all_of_w1[index] for have, index in zip(kept, left, strict=True)), used


def test_fused_experts_keeps_addresses(functional: Any) -> None:
    """Other weights never get the memory of weights whose copy is kept."""
    x, ids, shares = inputs(7)
    w2 = weights()[1]
    addresses = set()
    for seed in range(6):
        w1 = random(EXPERTS, 2 * INNER, HIDDEN, seed=seed, scale=0.1)
        addresses.add(w1.data_ptr())
        out = functional.fused_experts(x, w1, w2, shares, ids, max_tokens=8)
        assert error(out.double().numpy(), wanted(x, ids, shares, w1, w2)) < 2.5e-3
        del w1
        gc.collect()
    assert len(addresses) == 6


def test_fused_experts_of_a_rank(functional: Any) -> None:
    w1, w2 = weights()
    x, ids, shares = inputs(33)
    # Three ranks share 8 experts as 3, 3 and 2.
    for here in ([6, 1, 3], [5, 0]):
        expert_map = torch.full((EXPERTS,), -1, dtype=torch.int32)
        expert_map[here] = torch.arange(len(here), dtype=torch.int32)
        out = functional.fused_experts(
            x, w1[here], w2[here], shares, ids, global_num_experts=EXPERTS, expert_map=expert_map, max_tokens=64
        )
        local = np.where(np.isin(ids.numpy(), here), ids.numpy(), -1)
        assert error(out.double().numpy(), wanted(x, torch.from_numpy(local), shares, w1, w2)) < 2.5e-3
    assert functional.rank_of(10, 4) == {"tp_size": 3, "tp_rank": 0, "use_ep": True}
    assert functional.rank_of(10, 2) == {"tp_size": 4, "tp_rank": 3, "use_ep": True}
    for experts, ours in ((8, 8), (8, 4), (8, 3), (8, 1), (128, 16), (10, 4)):
        assert functional.rank_of(experts, ours)["use_ep"]
    with pytest.raises(moec.InvalidArgument, match="8 experts, spread evenly, never make 7 on a rank"):
        functional.rank_of(8, 7)


def test_fused_experts_refuses(functional: Any) -> None:
    w1, w2 = weights()
    x, ids, shares = inputs(3)
    with pytest.raises(moec.InvalidArgument, match="quant_config: expected None"):
        functional.fused_experts(x, w1, w2, shares, ids, quant_config="fp8")
    with pytest.raises(moec.InvalidArgument, match="expected a map, since w1 has 8 of 16 experts"):
        functional.fused_experts(x, w1, w2, shares, ids, global_num_experts=16)
    with pytest.raises(moec.InvalidArgument, match="topk_ids: expected .tokens, top_k."):
        functional.fused_experts(x, w1, w2, shares, ids[0])
    with torch.inference_mode():
        frozen = weights()[0]
    with pytest.raises(moec.InvalidArgument, match="w1 was made in inference mode"):
        functional.fused_experts(x, frozen, w2, shares, ids)


def test_a_checkpoint(tmp_path: Any) -> None:
    from test_checkpoint import save

    w13, w2 = weights()
    tensors: dict[str, Any] = {}
    for expert in range(EXPERTS):
        prefix = f"model.layers.0.mlp.experts.{expert}."
        gate, up = w13[expert].chunk(2)
        parts = {"gate_proj": gate, "up_proj": up, "down_proj": w2[expert]}
        tensors |= {f"{prefix}{name}.weight": part.view(torch.uint16).numpy() for name, part in parts.items()}
    save(tmp_path / "model.safetensors", tensors)
    block = moec_torch().MoE.from_config(SMALL, device="cpu", max_tokens=8).load_checkpoint(tmp_path)
    x, ids, shares = inputs(5)
    assert error(block(x, None, ids, shares).double().numpy(), wanted(x, ids, shares, w13, w2)) < 2.5e-3


def on_ranks(size: int, work: Any) -> list[Any]:
    """Calls work(comm) in a thread for each rank of the host device. Returns the results."""
    results: list[Any] = [None] * size

    def run(comm: Any) -> None:
        with torch.no_grad():
            results[comm.rank] = work(comm)

    threads = [threading.Thread(target=run, args=(comm,)) for comm in moec.Communicator.threads(size, timeout_ms=20000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_a_module_of_several_ranks(block: Any) -> None:
    from moec.torch import MoE

    w13, w2 = weights()
    x, logits = random(10, HIDDEN, seed=3), random(10, EXPERTS, seed=4, dtype=torch.float32)
    whole = block(x, logits).float()

    def work(comm: Any) -> Any:
        mine, rows = slice(4 * comm.rank, 4 * comm.rank + 4), slice(5 * comm.rank, 5 * comm.rank + 5)
        module = MoE.from_config(SMALL, device="cpu", comm=comm, max_tokens=64)
        assert module.package.max_tokens == 32
        module.load_weights({"w13": w13[mine], "w2": w2[mine]})
        first = module(x[rows], logits[rows])
        # Now by the fast way.
        assert torch.equal(module(x[rows], logits[rows]), first)
        again = MoE.from_config(SMALL, device="cpu", comm=comm, max_tokens=64)
        assert again.package is module.package
        packages.append(weakref.ref(module.package))
        return first

    packages: list[Any] = []
    outs = on_ranks(2, work)
    gc.collect()
    assert [package() for package in packages] == [None, None]
    assert error(torch.cat(outs).float().numpy(), whole.numpy()) < 0.01


def test_experts_of_several_ranks(experts: Any) -> None:
    from moec.torch import Experts

    w13, w2 = weights()
    x, ids, shares = inputs(10)

    def work(comm: Any) -> Any:
        mine, rows = slice(4 * comm.rank, 4 * comm.rank + 4), slice(5 * comm.rank, 5 * comm.rank + 5)
        module = Experts.from_weights(w13[mine], w2[mine], top_k=TOP_K, comm=comm, max_tokens=64)
        assert module.comm is comm
        return module(x[rows], ids[rows], shares[rows])

    outs = on_ranks(2, work)
    assert error(torch.cat(outs).float().numpy(), experts(x, ids, shares).float().numpy()) < 0.01


def test_layers_of_several_packages_share_the_ranks() -> None:
    """Contexts that a communicator keeps are each of one package."""
    from moec.torch import MoE

    w13, w2 = weights()
    x, logits = random(10, HIDDEN, seed=3), random(10, EXPERTS, seed=4, dtype=torch.float32)

    def work(comm: Any) -> Any:
        mine, rows = slice(4 * comm.rank, 4 * comm.rank + 4), slice(5 * comm.rank, 5 * comm.rank + 5)
        given = {"w13": w13[mine], "w2": w2[mine]}
        both = [
            MoE.from_config({**SMALL, "activation": act}, device="cpu", comm=comm, max_tokens=64).load_weights(given)
            for act in ("silu", "gelu")
        ]
        first, second = ([module(x[rows], logits[rows]) for module in both] for _ in range(2))
        assert not torch.equal(*first)
        return all(map(torch.equal, first, second))

    assert on_ranks(2, work) == [True, True]


def test_ranks_that_share_columns(block: Any) -> None:
    """The layout comes from the options."""
    from moec.torch import MoE

    w13, w2 = weights()
    x, logits = random(5, HIDDEN, seed=3), random(5, EXPERTS, seed=4, dtype=torch.float32)

    def work(comm: Any) -> Any:
        half, begin = INNER // 2, comm.rank * INNER // 2
        gate_up = torch.cat([w13[:, at + begin : at + begin + half] for at in (0, INNER)], 1)
        module = MoE.from_config(SMALL, device="cpu", comm=comm, tp=2, max_tokens=64)
        module.load_weights({"w13": gate_up, "w2": w2[:, :, begin : begin + half].contiguous()})
        return module(x, logits)

    outs = on_ranks(2, work)
    assert torch.equal(*outs)
    assert error(outs[0].float().numpy(), block(x, logits).float().numpy()) < 0.01
