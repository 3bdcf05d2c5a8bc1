# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each option of a command of Python reaches its function, and the others have their defaults."""

import json
import logging
import pathlib
import sys
import types
from typing import Any

import pytest
from conftest import ARCH, SMALL

import moec
from moec import _abi, _gpu, _messages, _warmup
from moec.bench import bench, worker
from moec.bench.systems import SYSTEMS
from moec.cli import main


class Called(Exception):
    """Ends a command where its function is called."""


class Recorder:
    def __init__(self) -> None:
        self.arguments: tuple[Any, ...] = ()
        self.options: dict[str, Any] = {}

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.arguments, self.options = arguments, options
        raise Called


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([], {}),
        (["--arch", "sm_80,sm_90a", "h100"], {"arch": ["sm_80", "sm_90a", "h100"]}),
        (["--gpu=h200_sxm"], {"gpu": "h200_sxm"}),
        (["--scheme=fp8_block"], {"scheme": "fp8_block"}),
        (["--dtype=f16"], {"dtype": "f16"}),
        (["--logits-dtype=f32"], {"logits_dtype": "f32"}),
        (["--weights-dtype=bf16"], {"weights_dtype": "bf16"}),
        (["--placement=round_robin"], {"placement": "round_robin"}),
        (["--all-to-all=one_sided"], {"all_to_all": "one_sided"}),
        (["--backend=tensor_core"], {"backend": "tensor_core"}),
        (["--engine=wgmma"], {"engine": "wgmma"}),
        (["--accumulate=fast"], {"accumulate": "fast"}),
        (["--tp=2"], {"tp": 2}),
        (["--pcp=3"], {"pcp": 3}),
        (["--dp=4"], {"dp": 4}),
        (["--sp=5"], {"sp": 5}),
        (["--ep"], {"ep": True}),
        (["--rank=6"], {"rank": 6}),
        (["--all-ranks"], {"all_ranks": True}),
        (["--layer", "7", "9"], {"layers": [7, 9]}),
        (["--max-tokens=10"], {"max_tokens": 10}),
        (["--no-shared-experts"], {"no_shared_experts": True}),
        (["--ignore-field", "a,b", "c"], {"ignore_field": ["a", "b", "c"]}),
        (["--jobs=11"], {"jobs": 11}),
        (["--cache-dir=here"], {"cache_dir": "here"}),
    ],
)
def test_warmup(words: list[str], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    called = Recorder()
    monkeypatch.setattr(_warmup, "warmup", called)
    # Lists end at the next option.
    with pytest.raises(Called):
        main(["warmup", "a model", *words])
    assert called.arguments == ("a model",)
    given = {name: value for name, value in called.options.items() if value not in (None, False, 0)}
    assert given == {"max_tokens": 8192} | options


BENCH = {"tokens": (1, 8, 64, 512, 4096), "schemes": (), "systems": None, "skew": 0.0, "passes": 3, "limit_s": 300}


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([], {}),
        (["--tokens=3,5"], {"tokens": (3, 5)}),
        (["--scheme=bf16,fp8_block"], {"schemes": ("bf16", "fp8_block")}),
        (["--systems=vllm,torch"], {"systems": ("vllm", "torch")}),
        (["--tp=2"], {"tp": 2}),
        (["--tp=2", "--ep"], {"tp": 2, "ep": True}),
        (["--layer=0"], {"layer": 0}),
        (["--skew=0.5"], {"skew": 0.5}),
        (["--passes=7"], {"passes": 7}),
        (["--limit=9.5"], {"limit_s": 9.5}),
    ],
)
def test_bench(words: list[str], options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    called = Recorder()
    monkeypatch.setattr("moec.bench.bench", called)
    with pytest.raises(Called):
        main(["bench", "one", "two", *words])
    assert called.arguments == (["one", "two"],)
    assert callable(called.options.pop("progress"))
    assert called.options == BENCH | options


def test_files_of_bench(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Result:
        def __str__(self) -> str:
            return "a table"

        def to_json(self) -> str:
            return "{}"

        def to_csv(self) -> str:
            return "a,b\n"

    def made(layers: Any, **options: Any) -> Result:
        options["progress"]("a line")
        return Result()

    monkeypatch.setattr("moec.bench.bench", made)
    assert main(["bench", "one", f"--json={tmp_path / 'a.json'}", f"--csv={tmp_path / 'b.csv'}"]) == 0
    assert capsys.readouterr() == ("a table\n", "a line\n")
    assert ((tmp_path / "a.json").read_text(), (tmp_path / "b.csv").read_text()) == ("{}\n", "a,b\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ("cuda", "", (), 600)),
        (["--device=emulated"], ("emulated", "", (), 600)),
        (["--arch=sm_80"], ("cuda", "sm_80", (), 600)),
        (["--only=bf16,fp8"], ("cuda", "", ("bf16", "fp8"), 600)),
        (["--limit=3"], ("cuda", "", (), 3)),
    ],
)
def test_doctor(words: list[str], expected: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    called = Recorder()
    monkeypatch.setattr("moec.card.check", called)
    with pytest.raises(Called):
        main(["doctor", "--gpu", *words])
    assert called.arguments[:4] == expected


def test_jobs_of_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch is a stand-in, and nothing is timed."""
    torch: Any = types.ModuleType("torch")
    torch.__version__ = "9.9"
    torch.cuda = types.SimpleNamespace(is_available=lambda: True, get_device_name=lambda: "a GPU")
    jobs: list[tuple[worker.Job, float]] = []
    said: list[str] = []
    first, second, third = (each.name for each in SYSTEMS[:3])

    def found_of(names: tuple[str, ...], limit_s: float) -> Any:
        assert (names, limit_s) == ((first, second, third), 17)
        return [
            types.SimpleNamespace(system=name, version=f"{name} 1", refusal="" if name != second else "absent") for name in names
        ]

    def rows_of(job: worker.Job, limit_s: float) -> Any:
        jobs.append((job, limit_s))
        yield types.SimpleNamespace(layer="l", scheme="s", tokens=4, system="moec", refusal="", us=1.25)
        yield types.SimpleNamespace(layer="l", scheme="s", tokens=4, system=first, refusal="no", us=0.0)

    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "torch", torch)
        patch.setattr(_gpu, "current_arch", lambda: ARCH)
        patch.setattr(worker, "found_of", found_of)
        patch.setattr(worker, "rows_of", rows_of)
        for system in SYSTEMS:
            patch.setattr(type(system), "refusal", lambda self, case: "not this" if self.name == third else "", raising=False)
        made = bench(
            [SMALL, SMALL | {"name": "other", "intermediate_size": 64}],
            tokens=[4, 6],
            schemes=["bf16", "fp8_block"],
            # In the order of all systems.
            systems=(third, first, second),
            skew=0.5,
            passes=2,
            limit_s=17,
            progress=said.append,
            max_tokens=32,
        )
    assert [limit for _, limit in jobs] == [17] * 4
    assert [(job.source["name"], job.options["scheme"]) for job, _ in jobs] == [
        ("small", "bf16"),
        ("small", "fp8_block"),
        ("other", "bf16"),
        ("other", "fp8_block"),
    ]
    for job, _ in jobs:
        assert job.options == {"max_tokens": 32, "arch": ARCH, "scheme": job.options["scheme"]}
        assert (job.tokens, job.systems, job.skew, job.passes) == ((4, 6), ("moec", first), 0.5, 2)
    assert said == ["l s 4 moec: 1.2 us", f"l s 4 {first}: no"] * 4
    report = json.loads(json.dumps([made.device, made.versions, made.missing, made.routing]))
    assert report == [
        "a GPU",
        {"moec": moec.__version__, "torch": "9.9", first: f"{first} 1", third: f"{third} 1"},
        {second: "absent"},
        "zipf0.5",
    ]


def test_the_folder_of_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MOEC_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/a")
    assert _warmup.cache_folder() == "/home/a/.cache/moec"
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    assert _warmup.cache_folder() == "/b/moec"
    monkeypatch.setenv("MOEC_CACHE_DIR", "/c")
    assert _warmup.cache_folder() == "/c"


def test_levels_of_messages(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "moec"):
        for level in ("ERROR", "WARNING", "INFO", "DEBUG"):
            _messages._log(None, int(_abi.LogLevel[level]), f"of {level}".encode())
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        (level, f"of {level}") for level in ("ERROR", "WARNING", "INFO", "DEBUG")
    ]


def test_progress_of_items() -> None:
    told: list[tuple[str, int, int]] = []
    for item in _messages.each(["a", "b"], "a step", lambda *given: told.append(given)):
        told.append((item, -1, -1))
    assert told == [("a step", 0, 2), ("a", -1, -1), ("a step", 1, 2), ("b", -1, -1), ("a step", 2, 2)]
