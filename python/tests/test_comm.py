# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks that are threads of the host device give the bits of the whole layer's tokens; ranks on GPUs connect by a fake NCCL."""

import ctypes
import gc
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import ARCH, BUILD, SMALL, SOURCE, run_python
from reference import error
from support import random_value

import moec
from moec.comm import _Calls
from moec.layer import Layer

LAYER = {**SMALL, "in_dtype": "f32", "quant_config": "f32"}
TOKENS = 5


def compile_ranks(
    layer: dict[str, Any] = LAYER, all_to_all: str = "gather_scatter", max_tokens: int = 64, **parallel: Any
) -> Any:
    return moec.compile(layer, arch=ARCH, max_tokens=max_tokens, all_ranks=True, all_to_all=all_to_all, **parallel)


@pytest.mark.parametrize("size", [0, -1, 4097, 2**31 - 1])
def test_a_group_has_as_many_ranks_as_a_process_has_threads(size: int) -> None:
    with pytest.raises(moec.InvalidArgument, match=f"expected a group of 1 to 4096 ranks, .*got {size}"):
        moec.Communicator.threads(size)


def on_threads(size: int, work: Callable[[int], Any]) -> list[Any]:
    """For each rank its result, or the exception that it ends with."""
    results: list[Any] = [None] * size

    def run(rank: int) -> None:
        try:
            results[rank] = work(rank)
        except Exception as caught:
            results[rank] = caught

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def given(results: list[Any]) -> list[Any]:
    for each in results:
        if isinstance(each, Exception):
            raise each
    return results


def share(array: Any, package: Any, name: str) -> Any:
    """A rank's experts, or its columns of the intermediate: gate and up are halves of the rows of w13."""
    layer = package.manifest["layer"]
    begin = layer["local_experts"]["begin"]
    array = array[begin : begin + package.shape(name)[0]]
    first = layer["intermediate_begin"]
    if name == "w2":
        return np.ascontiguousarray(array[:, :, first : first + package.shape(name)[2]])
    half, mine = array.shape[1] // 2, package.shape(name)[1] // 2
    return np.concatenate([array[:, at + first : at + first + mine] for at in (0, half)], axis=1)


def layer_of(files: Any, rank: int, weights: Any) -> Any:
    package = moec.load(files, device="host", rank=rank)
    return package.layer({name: share(array, package, name) for name, array in weights.items()})


@pytest.fixture(scope="module")
def whole() -> Any:
    package = moec.load(moec.compile(LAYER, arch=ARCH, max_tokens=64), device="host")
    weights = {name: random_value(package, name) for name in ("w13", "w2")}
    return package.layer(weights), weights


@pytest.mark.parametrize(
    ("parallel", "size", "same"),
    [
        ({"dp": 2, "ep": True}, 2, 1),
        ({"dp": 3, "ep": True}, 3, 1),
        ({"tp": 2}, 2, 2),
        ({"tp": 3, "ep": True}, 3, 3),
        ({"dp": 2, "ep": True, "all_to_all": "one_sided"}, 2, 1),
        ({"dp": 3, "ep": True, "all_to_all": "one_sided"}, 3, 1),
    ],
    ids=["ep2", "ep3", "tp2", "tp3_ep", "ep2_one_sided", "ep3_one_sided"],
)
def test_ranks_give_the_whole_layer(parallel: dict[str, Any], size: int, same: int, whole: Any) -> None:
    layer, weights = whole
    owners = size // same
    x, logits = (random_value(layer.package, name, owners * TOKENS) for name in ("x", "logits"))
    wanted = layer(x, logits)
    assert np.abs(wanted).max() > 0
    files = compile_ranks(**parallel)
    ends = moec.Communicator.threads(size)

    def work(rank: int) -> Any:
        mine = layer_of(files, rank, weights)
        rows = slice(rank // same * TOKENS, (rank // same + 1) * TOKENS)
        out = mine(x[rows], logits[rows], comm=ends[rank])
        context = mine.package.context(TOKENS, comm=ends[rank])
        assert context.comm is ends[rank]
        again = mine(x[rows], logits[rows], context=context)
        assert (again == out).all()
        assert (mine(x[rows], logits[rows], context=context, comm=ends[rank]) == out).all()
        assert error(out, wanted[rows]) < 1e-6
        return out

    outs = given(on_threads(size, work))
    if owners > 1:
        assert (outs[0] != outs[1]).any()


@pytest.mark.parametrize("all_to_all", ["gather_scatter", "one_sided"])
def test_tokens_that_pad(all_to_all: str, whole: Any) -> None:
    layer, weights = whole
    x, logits = (random_value(layer.package, name, 2 * TOKENS) for name in ("x", "logits"))
    files = compile_ranks(dp=2, ep=True, all_to_all=all_to_all)
    ends = moec.Communicator.threads(2)
    real = (3, 0)

    def work(rank: int) -> Any:
        rows = slice(rank * TOKENS, (rank + 1) * TOKENS)
        valid = np.array([real[rank]], np.int32)
        return layer_of(files, rank, weights)(x[rows], logits[rows], valid_tokens=valid, comm=ends[rank])

    outs = given(on_threads(2, work))
    assert error(outs[0][:3], layer(x[:3], logits[:3])) < 1e-6
    assert not outs[0][3:].any()
    assert not outs[1].any()


def test_what_a_run_refuses(whole: Any) -> None:
    _, weights = whole
    layer = layer_of(compile_ranks(dp=2, ep=True), 0, weights)
    x, logits = (random_value(layer.package, name, TOKENS) for name in ("x", "logits"))
    with pytest.raises(moec.NoCommunication, match="moves tokens and sums between 2 ranks: expected a communicator of them"):
        layer(x, logits)
    with pytest.raises(moec.InvalidArgument, match="is for 2 ranks, and the communicator connects 3"):
        layer(x, logits, comm=moec.Communicator.threads(3)[0])
    ends = moec.Communicator.threads(2, timeout_ms=30)
    with pytest.raises(moec.InvalidArgument, match="loaded for rank 0, and the communicator is of rank 1"):
        layer.package.context(TOKENS, comm=ends[1])
    ends[0].close()
    assert repr(ends[0]) == "<moec.Communicator closed>"
    assert repr(ends[1]) == "<moec.Communicator rank 1 of 2>"
    with pytest.raises(moec.InvalidArgument, match="the communicator was closed"):
        layer(x, logits, comm=ends[0])


def test_each_rank_connects_on_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    connected: dict[int, int] = {}
    monkeypatch.setattr(
        moec.Communicator, "_connect", lambda _, rank, size, *, ordinal_plus_one, **o: connected.update({rank: ordinal_plus_one})
    )
    moec.Communicator.threads(3, devices=["cuda:0", "cuda:2", "cuda:1"])
    assert connected == {0: 1, 1: 3, 2: 2}


def test_a_closed_communicator_keeps_no_contexts(whole: Any) -> None:
    layer, _ = whole
    (mine,) = moec.Communicator.threads(1)
    mine.contexts[layer.package, 0] = [layer.package.context(1)]
    context = weakref.ref(mine.contexts[layer.package, 0][0])
    mine.close()
    gc.collect()
    assert context() is None
    with pytest.raises(moec.InvalidArgument, match="the communicator was closed"):
        mine.check()


def test_the_cause_is_of_the_call_that_failed() -> None:
    def fails(_: bytes) -> list[bytes]:
        raise ZeroDivisionError

    calls = _Calls(fails, None, 2)
    mine = ctypes.create_string_buffer(8)

    def gathers() -> None:
        assert calls.gather(None, ctypes.addressof(mine), 8, 0) == 1
        raise KeyError

    with pytest.raises(KeyError) as first, calls:
        gathers()
    assert isinstance(first.value.__cause__, ZeroDivisionError)
    with pytest.raises(KeyError) as second, calls:
        raise KeyError
    assert second.value.__cause__ is None


def test_contexts_of_ranks_stay(whole: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Smaller contexts go when a larger one is made, but those whose windows other ranks reach for."""
    package = whole[0].package
    monkeypatch.setattr(type(package), "context", lambda _, most, comm=None: SimpleNamespace(max_tokens=most))
    comm: Any
    for comm, left in ((None, []), (SimpleNamespace(contexts={}), [1, 2])):
        for tokens in (1, 2):
            package.give_context(-7, SimpleNamespace(max_tokens=tokens), comm)
        assert package.take_context(-7, 3, comm).max_tokens == 4
        assert [each.max_tokens for each in package._free_contexts(-7, comm)] == left


def test_what_a_communicator_refuses() -> None:
    with pytest.raises(TypeError, match="unique_id: expected bytes, got str"):
        moec.Communicator("id", 0, 2)  # type: ignore[arg-type]
    with pytest.raises(moec.InvalidArgument, match=r"expected 128 bytes of Communicator.unique_id\(\), got 3"):
        moec.Communicator(b"abc", 0, 2)
    with pytest.raises(moec.InvalidArgument, match="expected a GPU, 'cuda' or 'cuda:N', got the host"):
        moec.Communicator(bytes(128), 0, 2, device="host")
    with pytest.raises(moec.InvalidArgument, match="expected a rank from 0 to ranks - 1, got rank 2 of 2"):
        moec.Communicator(bytes(128), 2, 2, device="cuda:0")
    with pytest.raises(moec.InvalidArgument, match="timeout_ms: expected milliseconds, or 0 for 60000, got -1"):
        moec.Communicator.threads(2, timeout_ms=-1)
    with pytest.raises(
        moec.InvalidArgument, match="expected a group of 1 to 4096 ranks, which are threads of this process, got 0"
    ):
        moec.Communicator.threads(0)
    with pytest.raises(moec.NoCommunication, match="NCCL could not be opened: /nowhere/libnccl"):
        moec.Communicator.unique_id("/nowhere/libnccl.so.2")


# A process group of two threads; torch itself connects processes.
GROUP = """
import sys, threading, types
meeting = threading.Barrier(2)
shared = [None, None]
class Group:
    def __init__(self, rank, lent):
        self.rank, self.lent = rank, lent
    def _get_backend(self, device):
        if not self.lent:
            raise RuntimeError("no backend of cuda")
        return types.SimpleNamespace(_comm_ptr=lambda: self.lent)
def all_gather_object(to, mine, group):
    shared[group.rank] = mine
    meeting.wait()
    to[:] = shared
    meeting.wait()
distributed = types.ModuleType("torch.distributed")
distributed.get_rank = lambda group: group.rank
distributed.get_world_size = lambda group: 2
distributed.all_gather_object = all_gather_object
torch = types.ModuleType("torch")
torch.distributed, torch.device = distributed, str
sys.modules.update({"torch": torch, "torch.distributed": distributed})
"""


@pytest.mark.parametrize("way", ["unique_id", "lent", "lent by one"])
def test_groups_of_torch(way: str) -> None:
    """Each rank learns its number, and each way takes all options. The fake NCCL counts communicators that live."""
    code = GROUP + textwrap.dedent(f"""
        import ctypes
        import moec
        path = {str(BUILD / "lib" / "libmoec-fake-nccl.so")!r}
        nccl = ctypes.CDLL(path)
        class Fake(ctypes.Structure):
            _fields_ = [("version", ctypes.c_int)]
        nccl.fakeNccl.restype = ctypes.POINTER(Fake)
        nccl.fakeNccl().contents.version = 22907
        class Id(ctypes.Structure):
            _fields_ = [("bytes", ctypes.c_char * 128)]
        ids, made, asked = Id(), [None, None], []
        nccl.ncclGetUniqueId(ctypes.byref(ids))
        connect = moec.Communicator._connect
        def noted(self, *ranks, **fields):
            asked.append((fields["timeout_ms"], bool(fields["nccl_path"]), fields["nccl_windows"]))
            connect(self, *ranks, **fields)
        moec.Communicator._connect = noted
        def work(rank):
            lender = ctypes.c_void_p()
            if {way!r} != "unique_id":
                assert nccl.ncclCommInitRank(ctypes.byref(lender), 2, ids, rank) == 0
            lends = {way!r} == "lent" or ({way!r} == "lent by one" and rank == 1)
            group = Group(rank, lender.value if lends else 0)
            made[rank] = moec.Communicator.from_group(group, device="cuda:0", timeout_ms=5000, nccl_path=path, nccl_windows=True)
        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(*made)
        assert asked == [(5000, True, True)] * 2, asked
        for each in made: each.close()
        """)
    ran = run_python(code, MOEC_CUDA_DRIVER_PATH=str(BUILD / "lib" / "libmoec-fake-cuda.so"))
    assert ran.stdout == "<moec.Communicator rank 0 of 2> <moec.Communicator rank 1 of 2>\n", ran.stderr


# Two ranks that are threads, and the address of memory of each.
MEETING = """
import threading
import moec
meeting = threading.Barrier(2)
shared, made, said = [None, None], [None, None], [None, None]
def gather(rank):
    def work(mine):
        shared[rank] = mine
        meeting.wait()
        gathered = list(shared)
        meeting.wait()
        return gathered
    return work
def on_ranks(work):
    def run(rank):
        try:
            work(rank)
        except moec.MoecError as error:
            said[rank] = error
    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""


def on_fake_gpu(code: str) -> Any:
    return run_python(MEETING + textwrap.dedent(code), MOEC_CUDA_DRIVER_PATH=str(BUILD / "lib" / "libmoec-fake-cuda.so"))


@pytest.mark.parametrize("all_to_all", ["gather_scatter", "one_sided"])
def test_what_runs_on_gpus_read(all_to_all: str) -> None:
    """A launch may be a collective, which has no kernel."""
    package = moec.load(compile_ranks(all_to_all=all_to_all, dp=2, ep=True), device="host", rank=0)
    on_gpu = SimpleNamespace(gpu=0, arch=package.arch, manifest=package.manifest, values=package.values)
    weights = {name: np.zeros(0) for name, value in package.values.items() if value.role == "stored_weight"}
    assert Layer._read_by_runs(SimpleNamespace(package=on_gpu), weights) == set(weights)  # type: ignore[arg-type]


def test_gpus_without_nccl() -> None:
    """Communicators on a fake GPU; what kernels do with them is in the C++ tests."""
    ran = on_fake_gpu("""
        def work(rank):
            made[rank] = moec.Communicator.from_callbacks(gather(rank), rank, 2, device="cuda:0")
            made[rank].check()
        on_ranks(work)
        print(*made)
        made[0].abort()
        try:
            made[0].check()
        except moec.PeerLost as error:
            print(error)
        print(*moec.Communicator.threads(2, devices=["cuda:0", "cuda"]))
        try:
            moec.Communicator.threads(2, devices=["cuda:0"])
        except moec.InvalidArgument as error:
            print(error)
        """)
    assert ran.stdout.splitlines() == [
        "<moec.Communicator rank 0 of 2> <moec.Communicator rank 1 of 2>",
        "moec_comm_abort was called",
        "<moec.Communicator rank 0 of 2> <moec.Communicator rank 1 of 2>",
        "devices: expected one for each of 2 ranks, got 1",
    ], ran.stderr


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        ("lambda mine: 1 / 0", "division by zero"),
        ("lambda mine: [mine]", "all_gather: expected 8 bytes of each of 2 ranks, got 8"),
        ("lambda mine: [mine, b'']", "all_gather: expected 8 bytes of each of 2 ranks, got 8, 0"),
    ],
)
def test_a_gather_that_fails(function: str, cause: str) -> None:
    ran = on_fake_gpu(f"""
        try:
            moec.Communicator.from_callbacks({function}, 0, 2, device="cuda:0")
        except moec.PeerLost as error:
            print(error)
            print(error.__cause__)
        """)
    assert ran.stdout.splitlines() == ["all_gather of rank 0 failed while ranks connect", cause], ran.stderr


def is_nan(array: Any) -> bool:
    return bool(np.isnan(array).all())


@pytest.mark.parametrize(
    ("all_to_all", "said"),
    [
        ("gather_scatter", "rank 0 waited 200 ms for rank 1 to do all_gather"),
        ("one_sided", "rank 0 waited 200 ms for rank 1 to send its tokens in run 1 of the context"),
    ],
)
def test_a_rank_that_does_not_come(all_to_all: str, said: str, whole: Any) -> None:
    """The outputs are NaN, the communicator serves no more, and a layer of one rank runs in the same process."""
    layer, weights = whole
    x, logits = (random_value(layer.package, name, TOKENS) for name in ("x", "logits"))
    wanted = layer(x, logits)
    files = compile_ranks(dp=2, ep=True, all_to_all=all_to_all)
    ends = moec.Communicator.threads(2, timeout_ms=200)
    outs = [np.zeros_like(wanted) for _ in range(2)]

    def work(rank: int) -> Any:
        mine = layer_of(files, rank, weights)
        context = mine.package.context(TOKENS, comm=ends[rank])
        ends[rank].check()
        if rank == 0:
            mine(x, logits, out=outs[rank], context=context)
        return mine, context

    caught, (late, context) = on_threads(2, work)
    assert isinstance(caught, moec.PeerLost)
    assert str(caught) == said
    assert is_nan(outs[0])
    # A window is one context's: the communicator itself has not failed.
    told = "rank 0 waited 200 ms" if all_to_all == "gather_scatter" else "another rank ended the exchange of rank 1"
    if all_to_all == "gather_scatter":
        with pytest.raises(moec.PeerLost, match=told):
            ends[1].check()
    with pytest.raises(moec.PeerLost, match=told):
        late(x, logits, out=outs[1], context=context)
    with pytest.raises(moec.PeerLost, match=told):
        ends[1].check()
    assert is_nan(outs[1])
    assert (layer(x, logits) == wanted).all()


def test_another_thread_ends_a_wait(whole: Any) -> None:
    layer, weights = whole
    x, logits = (random_value(layer.package, name, TOKENS) for name in ("x", "logits"))
    mine = layer_of(compile_ranks(dp=2, ep=True), 0, weights)
    ends = moec.Communicator.threads(2)
    timer = threading.Timer(0.05, ends[1].abort)
    timer.start()
    with pytest.raises(moec.PeerLost, match="rank 1 ended it"):
        mine(x, logits, comm=ends[0])
    timer.join()


def test_another_thread_ends_a_wait_in_a_window(whole: Any) -> None:
    layer, weights = whole
    x, logits = (random_value(layer.package, name, TOKENS) for name in ("x", "logits"))
    files = compile_ranks(dp=2, ep=True, all_to_all="one_sided")
    ends = moec.Communicator.threads(2)
    outs = [np.zeros_like(layer(x, logits)) for _ in range(2)]

    def work(rank: int) -> None:
        mine = layer_of(files, rank, weights)
        context = mine.package.context(TOKENS, comm=ends[rank])
        if rank == 0:
            timer = threading.Timer(0.05, ends[1].abort)
            timer.start()
            try:
                mine(x, logits, out=outs[0], context=context)
            finally:
                timer.join()

    caught, _ = on_threads(2, work)
    assert isinstance(caught, moec.PeerLost)
    assert str(caught) == ("rank 0 was told to end, while it waited for rank 1 to send its tokens in run 1 of the context")
    assert is_nan(outs[0])


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"intermediate_size": 64}, "intermediate_size 96, and rank 1 has intermediate_size 64"),
        ({"in_dtype": "bf16", "quant_config": "bf16"}, 'in_dtype "f32", and rank 1 has in_dtype "bf16"'),
        ({"routing_method": "default"}, "routing "),
        ({"name": "another"}, "package small, and rank 1 has package another"),
        ({"max_tokens": 128}, "max_tokens 64, and rank 1 has max_tokens 128"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_other_packages_of_peers(other: dict[str, Any], told: str) -> None:
    ends = moec.Communicator.threads(2, timeout_ms=5000)

    def work(rank: int) -> None:
        changed = other if rank else {}
        layer = {**LAYER, **{name: value for name, value in changed.items() if name != "max_tokens"}}
        files = compile_ranks(layer, max_tokens=changed.get("max_tokens", 64), dp=2, ep=True)
        moec.load(files, device="host", rank=rank).context(TOKENS, comm=ends[rank])

    first, second = on_threads(2, work)
    assert isinstance(first, moec.PeerMismatch)
    assert isinstance(second, moec.PeerMismatch)
    assert f"rank 0 has {told}" in str(first)
    assert "rank 1 has " in str(second)


@pytest.mark.parametrize("all_to_all", ["gather_scatter", "one_sided"])
def test_other_token_counts_of_peers(all_to_all: str, whole: Any) -> None:
    layer, weights = whole
    files = compile_ranks(dp=2, ep=True, all_to_all=all_to_all)
    ends = moec.Communicator.threads(2)
    outs = [np.zeros((TOKENS + rank, LAYER["hidden_size"]), np.float32) for rank in range(2)]

    def work(rank: int) -> Any:
        mine = layer_of(files, rank, weights)
        context = mine.package.context(TOKENS + 1, comm=ends[rank])
        x, logits = (random_value(layer.package, name, TOKENS + rank) for name in ("x", "logits"))
        return mine(x, logits, out=outs[rank], context=context)

    for rank, caught in enumerate(on_threads(2, work)):
        if all_to_all == "gather_scatter":
            assert isinstance(caught, moec.PeerMismatch)
            assert "rank 0 does a run of 5 tokens" in str(caught)
            assert "rank 1 does a run of 6 tokens" in str(caught)
        elif isinstance(caught, moec.PeerMismatch):
            own, its = TOKENS + rank, TOKENS + 1 - rank
            assert str(caught) == f"rank {rank} runs with {own} tokens, and rank {1 - rank} with {its}, in run 1 of the context"
        else:
            # The other one has seen it first.
            assert isinstance(caught, moec.PeerLost)
        assert is_nan(outs[rank])


@pytest.mark.parametrize(("ranks", "all_to_all"), [(2, "gather_scatter"), (3, "gather_scatter"), (2, "one_sided")])
def test_the_example(ranks: int, all_to_all: str) -> None:
    """examples/python/several_gpus.py, as docs/how-to/several-gpus.md shows its output."""
    example = SOURCE / "examples" / "python" / "several_gpus.py"
    command = [sys.executable, str(example), "--host", f"--ranks={ranks}", f"--all-to-all={all_to_all}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert lines[-1] == "the ranks give the layer's output"
    held = {2: (16, 16), 3: (11, 11, 10)}[ranks]
    for rank, count in enumerate(held):
        assert any(line.startswith(f"rank {rank} of {ranks} on host: {count} experts, largest difference 0.0") for line in lines)
