# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mistakes of callers in Python and in C: each is an exception of moec, or TypeError, that says what was expected and what came,
or a remedy. Those of the command line are in test/driver/Inputs/mistakes.py."""

import ctypes
import json
import pathlib
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from conftest import ARCH, SMALL

import moec
from moec import _abi
from moec._library import library
from moec.bench import bench

HIDDEN, EXPERTS, TOP_K, TOKENS = SMALL["hidden_size"], SMALL["num_experts"], SMALL["top_k"], 7


class Given:
    """A package of 64 tokens, its layer, and right inputs."""

    made: ClassVar["Given | None"] = None

    def __init__(self) -> None:
        random = np.random.default_rng(1)
        self.files = moec.compile(SMALL, arch=ARCH, max_tokens=64)
        self.package = moec.load(self.files, device="host")
        self.weights = {
            name: moec.to_bfloat16(random.standard_normal(self.package.shape(name)) * 0.05)
            for name, value in self.package.values.items()
            if value.role == "stored_weight"
        }
        self.layer = self.package.layer(self.weights)
        self.x = moec.to_bfloat16(random.standard_normal((TOKENS, HIDDEN)))
        self.logits = random.standard_normal((TOKENS, EXPERTS)).astype(np.float32)
        self.ids = np.tile(np.arange(TOP_K, dtype=np.int32), (TOKENS, 1))
        self.shares = np.full((TOKENS, TOP_K), 1 / TOP_K, np.float32)
        self.many = moec.to_bfloat16(random.standard_normal((65, HIDDEN))), np.zeros((65, EXPERTS), np.float32)
        fixed = np.zeros((TOKENS, HIDDEN), np.uint16)
        fixed.flags.writeable = False
        self.fixed = fixed
        self.ranks = moec.compile(SMALL, arch=ARCH, max_tokens=64, tp=2, all_ranks=True)

    def closed(self) -> Any:
        layer = self.package.layer(self.weights)
        layer.close()
        return layer(self.x, self.logits)


def compiled(**options: Any) -> Any:
    return moec.compile(SMALL, arch=ARCH, **options)


def other(**changes: Any) -> Any:
    return moec.compile(SMALL | changes, arch=ARCH)


# (a call with a mistake, texts that the message must have)
CALLS: tuple[tuple[Callable[[Given], Any], tuple[str, ...]], ...] = (
    # Arrays of a run.
    (lambda g: g.layer(moec.from_bfloat16(g.x), g.logits), ("'x'", "expected bf16", "uint16 may hold", "got f32")),
    (lambda g: g.layer(g.x[:, :64].copy(), g.logits), ("'x'", "expected [7, 128]", "got [7, 64]")),
    (lambda g: g.layer(g.x[None], g.logits), ("'x'", "expected 2 dimensions", "got 3")),
    (lambda g: g.layer(np.asfortranarray(g.x), g.logits), ("'x'", "expected strides", "accepted: a contiguous tensor")),
    (lambda g: g.layer(g.x.tolist(), g.logits), ("'x'", "an array of numpy, torch or a library with DLPack", "got list")),
    (lambda g: g.layer(g.x, g.logits[:5]), ("'logits'", "expected [7, 8]", "got [5, 8]")),
    (lambda g: g.layer(g.x, g.logits.astype(np.float64)), ("'logits'", "f32", "got float64")),
    (lambda g: g.layer(g.x), ("either logits, or given_ids and given_weights", "none of them")),
    (lambda g: g.layer(g.x, g.logits, given_ids=g.ids, given_weights=g.shares), ("either logits, or given_ids", "more than one")),
    (lambda g: g.layer(g.x, given_ids=g.ids), ("either logits, or given_ids and given_weights", "incomplete")),
    (lambda g: g.layer(g.x, topk_weights=g.shares), ("either logits, or given_ids and given_weights", "incomplete")),
    (lambda g: g.layer(g.x, topk_ids=g.ids, given_ids=g.ids), ("topk_ids", "given_ids", "expected one of them")),
    (lambda g: g.layer(g.x, given_ids=g.ids[:, :1].copy(), given_weights=g.shares), ("'given_ids'", "[7, 2]", "[7, 1]")),
    (lambda g: g.layer(g.x, given_ids=g.ids.astype(np.int16), given_weights=g.shares), ("'given_ids'", "i32 or i64", "int16")),
    (lambda g: g.layer(g.x, logit=g.logits), ("'logit'", "did you mean logits?", "it has x, logits")),
    (lambda g: g.layer(hidden_states=g.x, logits=g.logits), ("'hidden_states'", "did you mean x?")),
    (lambda g: g.layer(*g.many), ("at most 64 tokens, got 65", "max_tokens of 65 or more")),
    (lambda g: g.layer(g.x, g.logits, tokens=-1), ("0 to 64 tokens", "got -1")),
    (lambda g: g.layer(g.x, g.logits, out=g.fixed), ("'out'", "may be written", "read-only")),
    (lambda g: g.layer(g.x, g.logits, out=np.zeros((5, HIDDEN), np.uint16)), ("'out'", "[7, 128]", "[5, 128]")),
    (lambda g: g.layer(g.x, g.logits, variant="up_to_5"), ("'up_to_5'", "it has up_to_")),
    (lambda g: g.layer(g.x, g.logits, stream=1), ("stream", "host", "give None")),
    (lambda g: g.layer(g.x, g.logits, comm=3), ("comm", "moec.Communicator", "got int")),  # type: ignore[arg-type]
    (lambda g: g.layer(g.x, g.logits, context=g.package), ("context", "Package.context()", "got Package")),  # type: ignore[arg-type]
    (lambda g: g.closed(), ("the layer was closed", "Package.layer() makes another")),
    (lambda g: g.package.context(65), ("at most 64 tokens, got 65", "max_tokens of 65 or more")),
    (lambda g: g.package.shape("x", 65), ("at most 64 tokens, got 65", "max_tokens of 65 or more")),
    (lambda g: g.package.empty("y", 3), ("'y'", "its values are x, logits")),
    (lambda g: moec.from_bfloat16(g.logits), ("bits", "uint16", "to_bfloat16()", "float32")),
    (lambda g: moec.to_bfloat16(g.x), ("array", "expected floats", "uint16")),
    # Weights.
    (
        lambda g: g.package.layer(g.weights | {"w13": g.weights["w13"].transpose(0, 2, 1)}),
        ("'w13'", "[8, 192, 128]", "[8, 128, 192]"),
    ),
    (lambda g: g.package.layer({"w13": g.weights["w2"], "w2": g.weights["w13"]}), ("'w13'", "[8, 192, 128]", "[8, 128, 96]")),
    (lambda g: g.package.layer({"gate_up_proj": g.weights["w13"]}), ("'gate_up_proj'", "did you mean w13?", "w13, w2")),
    (lambda g: g.package.layer({"w13": g.weights["w13"], "down_proj": g.weights["w2"]}), ("'down_proj'", "did you mean w2?")),
    (lambda g: g.package.layer({"w13": g.weights["w13"]}), ("weight 'w2' is missing", "w13, w2")),
    (lambda g: g.package.layer(list(g.weights.values())), ("weights", "a dict of arrays by name", "got list")),  # type: ignore[arg-type]
    (lambda g: g.package.layer(g.weights | {"w2": None}), ("'w2'", "an array of numpy", "got NoneType")),
    (lambda g: g.layer.repack(g.weights, 4, 10), ("experts within [0, 8)", "[4, 14)")),
    (lambda g: moec.Checkpoint("/nowhere/at/all"), ("/nowhere/at/all", "a model's folder", "*.safetensors")),
    # compile().
    (lambda g: compiled(max_token=64), ("'max_token'", "did you mean max_tokens?")),
    (lambda g: compiled(ep=8), ("ep", "true or false", "8")),
    (lambda g: compiled(max_tokens="64"), ("max_tokens", "an integer", '"64"')),
    (lambda g: compiled(max_tokens=0), ("max_tokens of at least 1", "got 0")),
    (lambda g: compiled(scheme="fp8"), ("scheme=fp8", "did you mean fp8_tensor", "fp8_block")),
    (lambda g: compiled(scheme=8), ("scheme", "a string", "8")),
    (lambda g: moec.compile(SMALL, arch="sm90a"), ("'sm90a'", "did you mean sm_90a?", "moec list archs")),
    (lambda g: compiled(gpu="a100"), ("a100_sxm", "sm_80", "expected arch sm_80")),
    (lambda g: compiled(tp=2, rank=2), ("rank=2", "from 0 to 1")),
    (lambda g: compiled(rank=1), ("rank=1", "accepted: tp, pcp or dp")),
    (lambda g: moec.compile(SMALL), ("arch", "no GPU", "arch='sm_90a'")),
    (lambda g: moec.compile([SMALL], arch=ARCH), ("source", "a dict", "got list")),
    (lambda g: moec.compile("Qwen/Qwen3-30B-A3B", arch=ARCH), ("hf download Qwen/Qwen3-30B-A3B config.json",)),
    (
        lambda g: moec.compile("/nowhere/config.json", arch=ARCH),
        ("/nowhere/config.json", "a config.json, a layer JSON or a folder"),
    ),
    (lambda g: other(routed_scaling_factor=float("nan")), ("source.routed_scaling_factor", "a finite number", "nan")),
    (lambda g: other(num_experts_per_tok=4), ("$.num_experts_per_tok", "did you mean", "top_k")),
    (lambda g: moec.compile(SMALL, arch="hopper"), ("'hopper'", "did you mean sm_90a?")),
    (lambda g: moec.compile(SMALL, arch=90), ("arch", "such as 'sm_90a'", "got int")),  # type: ignore[arg-type]
    (lambda g: moec.compile(json.dumps(SMALL), arch=ARCH), ("json.loads()", "a config.json")),
    (lambda g: moec.compile(None, arch=ARCH), ("source", "a dict", "got NoneType")),
    (lambda g: other(quant_config="w4a16"), ("$.quant_config", '"int4_w4a16"', "moec list schemes")),
    (lambda g: moec.explain(SMALL, arch=ARCH, token=[1]), ("'token'", "did you mean tokens?")),
    (lambda g: moec.explain(SMALL, arch=ARCH, tokens="1"), ("tokens", "an array of integers", '"1"')),
    (lambda g: moec.warmup(SMALL, arch=ARCH, layer=0), ("unknown option layer", "layers=")),
    (lambda g: moec.explain(SMALL, arch=ARCH, histogram="zip"), ("histogram: ", "zipf:EXPONENT", "'zip'")),
    (lambda g: moec.explain(SMALL, arch=ARCH, tokens=[0]), ("tokens", "from 1 to 8192", "0")),
    (lambda g: compiled(tp=object()), ("options: expected numbers, words, True, False or lists of words", "object")),
    (
        lambda g: moec.explain(SMALL, arch=ARCH, max_tokens=64).to_html(compare={"other": SMALL}),  # type: ignore[dict-item]
        ("compare: expected reports of moec.explain(), got dict for 'other'",),
    ),
    (lambda g: g.layer(logits=g.logits), ("tokens: expected value 'x', whose extent counts them, or tokens=N",)),
    (lambda g: bench([SMALL], tokens=[1], systems=["vlm"]), ("systems: unknown system 'vlm'; did you mean vllm?", "known: ")),
    (lambda g: bench([SMALL], tokens=[1], skew=-0.5), ("skew: expected 0 or more, got -0.5",)),
    (lambda g: bench([SMALL], tokens=[1], limit_s=0), ("limit_s: expected seconds above 0, got 0",)),
    # load().
    (lambda g: moec.load(g.files, device="host", rank=-1), ("rank: expected 0 or more, got -1",)),
    (lambda g: moec.load(SMALL, device="host"), ("files", "moec.compile()", "dict")),  # type: ignore[arg-type]
    (lambda g: moec.load("/nowhere/at/all", device="host"), ("a folder that moec compile has written", "nothing is")),
    (lambda g: moec.load(__file__, device="host"), ("a folder that moec compile has written", "a file")),
    (lambda g: moec.load(g.files, device="gpu"), ("device", "'cuda:N'", "'gpu'")),
    (lambda g: moec.load(g.files, device="host", arch="sm_80"), ("no target sm_80", "it has sm_90a")),
    (lambda g: moec.load(g.ranks, device="host"), ("ranks 0 and 1", "`rank`", "got none")),
    (lambda g: moec.load(g.ranks, device="host", rank=5), ("ranks 0 and 1", "`rank`", "got 5")),
    (lambda g: moec.load(g.files, device="host", jobs="2"), ("jobs", "an integer", "str")),  # type: ignore[arg-type]
    (lambda g: g.files.write(__file__), ("found a file", "choose another path")),
)


@pytest.fixture(scope="module")
def given() -> Given:
    return Given()


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_calls(given: Given, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    call, texts = CALLS[number]
    monkeypatch.setattr("moec._gpu.current_ordinal", lambda: None)
    monkeypatch.setenv("MOEC_CUDA_DRIVER_PATH", "/nowhere/libcuda.so.1")
    with pytest.raises((moec.MoecError, TypeError)) as caught:
        call(given)
    message = str(caught.value)
    assert all(text in message for text in texts), message
    # Messages name the options of Python.
    assert " --" not in message, message
    assert len(message) < 700, message


def said(status: int) -> str:
    assert status
    return (library().functions.moec_last_error() or b"").decode()


def test_the_c_interface(given: Given, tmp_path: pathlib.Path) -> None:
    """The same mistakes of a C program."""
    functions, made, number = library().functions, ctypes.c_void_p(), ctypes.c_uint64()
    folder, to = str(given.files.write(tmp_path / "package")).encode(), ctypes.byref(made)
    layer, package = json.dumps(SMALL).encode(), given.package.handle

    def load(**fields: Any) -> int:
        options = _abi.LoadOptions(**({"struct_size": ctypes.sizeof(_abi.LoadOptions), "device": _abi.DeviceKind.HOST} | fields))
        return int(functions.moec_package_load(folder, ctypes.byref(options), to))

    def compiled_by_c(options: bytes, config: bytes = layer) -> int:
        return int(functions.moec_compile_config(config, options, to))

    for call, texts in (
        (lambda: functions.moec_package_load(None, None, to), ("moec_package_load", "folder is NULL")),
        (lambda: functions.moec_package_load(folder, None, None), ("moec_package_load", "package is NULL")),
        (lambda: load(struct_size=0), ("struct_size is 0", "sizeof(moec_load_options)")),
        (lambda: load(struct_size=9999), ("struct_size is 9999", "sizeof(moec_load_options)")),
        (lambda: load(device=9), ("device is 9", "MOEC_DEVICE_HOST (1)")),
        (lambda: load(jobs=-1), ("jobs is -1", "0 or more")),
        (lambda: load(rank_plus_one=2), ("rank 0", "got 1", "all_ranks")),
        (lambda: compiled_by_c(b"{arch"), ("options: line 1, column 2", "expected JSON")),
        (lambda: compiled_by_c(b"[]"), ("options", "a JSON object", "an array")),
        (lambda: compiled_by_c(b"{}"), ("no arch is given", "sm_90a")),
        (lambda: compiled_by_c(b'{"arch": "sm_90a", "max_token": 64}'), ("'max_token'", "did you mean max_tokens?")),
        (lambda: compiled_by_c(b'{"arch": "sm_90a", "max_tokens": "64"}'), ("max_tokens", "an integer", '"64"')),
        (lambda: compiled_by_c(b'{"arch": "sm_90a"}', b""), ("expected a config.json", "an empty text")),
        (lambda: compiled_by_c(b'{"arch": "sm_90a"}', b"layer.json"), ("expected JSON", "neither")),
        (lambda: functions.moec_package_workspace_bytes(package, -1, ctypes.byref(number)), ("a token count >= 0", "-1")),
        (
            lambda: functions.moec_package_workspace_bytes(package, 65, ctypes.byref(number)),
            ("at most 64 tokens", "65", "max_tokens of 65"),
        ),
        (
            lambda: functions.moec_context_create(package, None, 100, None, to),
            ("the workspace is NULL", "100 bytes", "give memory"),
        ),
        (lambda: functions.moec_layer_create(package, None, 0, None, None, to), ("weight 'w13' is missing", "w13, w2")),
        (
            lambda: functions.moec_package_value_shape(package, b"y", 1, (ctypes.c_int64 * 8)()),
            ("no value 'y'", "it has x, logits"),
        ),
        (lambda: functions.moec_package_files_read(str(tmp_path).encode(), to), ("manifest.json", "moec compile has written")),
    ):
        message = said(call())
        assert all(text in message for text in texts), (texts, message)
