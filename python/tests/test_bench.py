# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`moec bench` without torch and without a GPU: processes, tables, refusals. test_torch_bench.py has the numbers."""

import csv
import dataclasses
import json
import os
import pathlib
import re
import time
from typing import Any

import pytest
from conftest import SMALL, SOURCE, run_python

import moec
from moec.bench.case import Case
from moec.bench.systems import SYSTEMS
from moec.bench.table import Rates, Result, rates_of
from moec.bench.worker import Begun, Found, Job, Row, found_of, rows_of
from moec.cli import main


def job(*systems: str) -> Job:
    return Job(SMALL, {}, (1, 8), ("moec", *systems), 0.0, 1)


def row_of(system: str, tokens: int, us: float) -> Row:
    return Row("small", "bf16", tokens, system, us, [us], 0.001, experts=8, layers=4, moved_bytes=10**6, flops=10**6)


def all_rows(job: Job, pipe: Any) -> None:
    for tokens in job.tokens:
        for system in job.systems:
            pipe.send(Begun(system, tokens))
        for system in job.systems:
            pipe.send(row_of(system, tokens, 10.0))
    pipe.send("")


def one_dies(job: Job, pipe: Any) -> None:
    """`bad` ends the process at 8 tokens, after the rows of 1."""
    for tokens in job.tokens:
        for system in job.systems:
            pipe.send(Begun(system, tokens))
            if (system, tokens) == ("bad", 8):
                os._exit(9)
        for system in job.systems:
            pipe.send(row_of(system, tokens, 10.0))
    pipe.send("")


def one_hangs(job: Job, pipe: Any) -> None:
    for tokens in job.tokens:
        for system in job.systems:
            pipe.send(Begun(system, tokens))
            if system == "bad":
                time.sleep(60)
        for system in job.systems:
            pipe.send(row_of(system, tokens, 10.0))
    pipe.send("")


def moec_fails(job: Job, pipe: Any) -> None:
    pipe.send(Begun("moec", 1))
    pipe.send("AcceleratorError: CUDA error: an illegal memory access was encountered")


def ends_before_any(job: Job, pipe: Any) -> None:
    os._exit(7)


def cannot_begin(job: Job, pipe: Any) -> None:
    pipe.send("OutOfMemoryError: the weights do not fit")


def names(rows: list[Row]) -> list[tuple[str, int, bool]]:
    return [(row.system, row.tokens, row.us is not None) for row in rows]


def test_rows_of_all_systems() -> None:
    rows = list(rows_of(job("good"), 60, all_rows))
    assert names(rows) == [("moec", 1, True), ("good", 1, True), ("moec", 8, True), ("good", 8, True)]


def test_a_system_that_ends_its_process_is_left_out() -> None:
    rows = list(rows_of(job("bad", "good"), 60, one_dies))
    assert names(rows) == [
        ("moec", 1, True), ("bad", 1, True), ("good", 1, True), ("bad", 8, False), ("moec", 8, True), ("good", 8, True),
    ]  # fmt: skip
    assert rows[3].refusal == "its process ended with status 9"


def test_a_system_that_hangs_is_left_out() -> None:
    rows = list(rows_of(job("bad"), 5, one_hangs))
    assert names(rows) == [("bad", 1, False), ("moec", 1, True), ("moec", 8, True)]
    assert rows[0].refusal == "no result in 5 s"


def test_an_error_of_moec_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="illegal memory access"):
        list(rows_of(job("good"), 60, moec_fails))


@pytest.mark.parametrize(("target", "told"), [(ends_before_any, "ended with status 7"), (cannot_begin, "the weights do not fit")])
def test_a_process_that_begins_with_no_system_is_an_error(target: Any, told: str) -> None:
    with pytest.raises(RuntimeError, match=told):
        list(rows_of(job("good"), 60, target))


def finds(names: tuple[str, ...], pipe: Any) -> None:
    """`dies` ends the process; `hangs` does not come back; `broken` cannot be imported."""
    for name in names:
        pipe.send(Begun(name, 0))
        if name == "dies":
            os._exit(11)
        if name == "hangs":
            time.sleep(60)
        pipe.send(Found(name, refusal="OSError: undefined symbol") if name == "broken" else Found(name, "1.0"))
    pipe.send("")


def test_systems_that_cannot_be_imported_are_left_out() -> None:
    names = ("first", "dies", "second", "broken", "hangs", "last")
    assert list(found_of(names, 5, finds)) == [
        Found("first", "1.0"), Found("dies", refusal="its process ended with status 11"), Found("second", "1.0"),
        Found("broken", refusal="OSError: undefined symbol"), Found("hangs", refusal="no result in 5 s"), Found("last", "1.0"),
    ]  # fmt: skip


def test_what_installed_packages_do(tmp_path: pathlib.Path) -> None:
    """Three ways to be installed and of no use, and one that is not installed."""
    packages = {
        "torch": "float8_e4m3fn = None",
        "flashinfer": "raise OSError('libflashinfer.so: undefined symbol: _ZN2at4_ops5empty')",
        "sglang": "raise SystemExit('sglang needs a newer driver')",
        "triton_kernels": "",
    }
    for name, text in packages.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(text)
    paths = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    code = (
        "from moec.bench.worker import found_of\n"
        "if __name__ == '__main__':\n"
        " for each in found_of(('humming', 'sglang', 'flashinfer', 'triton_kernels'), 50): print(each.system, each.refusal)"
    )
    (tmp_path / "script.py").write_text(code)
    done = run_python(f"import runpy; runpy.run_path({str(tmp_path / 'script.py')!r}, run_name='__main__')", PYTHONPATH=paths)
    *lines, last = done.stdout.splitlines()
    assert lines == [
        "humming ModuleNotFoundError: No module named 'humming'",
        "sglang SystemExit: sglang needs a newer driver",
        "flashinfer OSError: libflashinfer.so: undefined symbol: _ZN2at4_ops5empty",
    ], done.stderr
    told = "triton_kernels has neither matmul nor matmul_ogs; PyPI's package of this name is another project ("
    assert last.startswith(f"triton_kernels ImportError: {told}")


def result(*rows: Row) -> Result:
    rates = Rates("h200_sxm", 1000, 100, 200)
    return Result("NVIDIA H200", {"moec": "1", "good": "2"}, {"absent": "no module"}, rates, "uniform", list(rows))


def test_table() -> None:
    wrong = dataclasses.replace(row_of("bad", 1, 1.0), us=None, refusal="wrong: off by 0.5 of the reference's norm")
    made = result(row_of("moec", 1, 12.0), row_of("good", 1, 10.0), wrong, row_of("moec", 8, 10.0), row_of("good", 8, 20.0))
    assert str(made).splitlines() == [
        "NVIDIA H200; moec 1, good 2",
        "not timed: absent: no module",
        "layer  scheme  tokens  moec us  good us  bad us  x floor  moec / best",
        "small  bf16         1     12.0     10.0       -    12.00    1.20 good",
        "small  bf16         8     10.0     20.0       -    10.00    0.50 good",
        "bad, bf16 1: wrong: off by 0.5 of the reference's norm",
        "moec is faster in 1 of 2 cells",
        "moec / best: geometric mean 0.77, worst 1.20",
    ]
    assert [each[0] for each in made.ratios()] == [1.2, 0.5]
    assert made.to_csv().splitlines()[:4] == [
        "shape,scheme,tokens,routing,system,us,floor_us,error",
        "small,bf16,1,uniform,moec,12.00,1.00,0.0010",
        "small,bf16,1,uniform,good,10.00,1.00,0.0010",
        "small,bf16,1,uniform,bad,0.00,1.00,wrong",
    ]
    assert json.loads(made.to_json())["rows"][2]["refusal"].startswith("wrong")


def test_schemes_have_cells_of_their_own() -> None:
    rows = [row_of("moec", 8, 10.0), row_of("good", 8, 20.0), row_of("moec", 8, 9.0), row_of("good", 8, 6.0)]
    made = result(*rows[:2], *(dataclasses.replace(row, scheme="int4_w4a16") for row in rows[2:]))
    assert [(key[1], [row.us for row in cell.values()]) for key, cell in made.cells()] == [
        ("bf16", [10.0, 20.0]),
        ("int4_w4a16", [9.0, 6.0]),
    ]
    assert [(ratio, key[1]) for ratio, key, _, _ in made.ratios()] == [(1.5, "int4_w4a16"), (0.5, "bf16")]


def test_rates_are_those_of_the_catalog() -> None:
    assert rates_of("h200_sxm", moec.catalog()) == Rates("h200_sxm", 4583.0, 762.0, 1498.0)
    # The maker's rates, for a GPU without measured ones.
    assert rates_of("b200", moec.catalog()) == Rates("b200", 8000.0, 2250.0, 4500.0)
    assert rates_of("", moec.catalog()) is None


def layer_of(**changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = moec.load(moec.compile(SMALL | changes, arch="sm_90a"), device="host").manifest["layer"]
    return made


def test_case() -> None:
    case = Case.of(layer_of())
    assert dataclasses.asdict(case) == {
        "name": "small", "scheme": "bf16", "num_experts": 8, "first_expert": 0, "experts": 8, "top_k": 2, "hidden": 128,
        "width": 96, "routes": True,
    }  # fmt: skip
    assert case.expert_bytes() == 2 * 3 * 96 * 128
    assert case.moved_bytes(4, 3) == 3 * case.expert_bytes() + 2 * 4 * (2 * 128 + 8)
    assert case.flops(5) == 6 * 5 * 128 * 96
    # Others choose experts by their own rules: they are given moec's.
    assert not Case.of(layer_of(routing_method="topk_sigmoid")).routes
    assert Case.of(layer_of(routing_method="renormalize_naive")).routes


@pytest.mark.parametrize(
    ("scheme", "stored"),
    [
        ("bf16", 2 * 3 * 256 * 128),
        ("fp8_block", 3 * 256 * 128 + 4 * (4 + 2)),
        ("fp8_channel", 3 * 256 * 128 + 4 * (256 + 256)),
        ("int8_channel", 3 * 256 * 128 + 4 * (256 + 256)),
        ("int4_w4a16", 3 * 256 * 128 // 2 + 2 * (256 * 2 + 256)),
        ("mxfp4_w4a16", 3 * 256 * 128 // 2 + 3 * 256 * 128 // 32),
        ("mxfp4_fp8_block", 3 * 256 * 128 // 2 + 3 * 256 * 128 // 32),
        ("nvfp4_w4a16", 3 * 256 * 128 // 2 + 3 * 256 * 128 // 16 + 4 * 3),
    ],
)
def test_bytes_of_an_expert(scheme: str, stored: int) -> None:
    assert Case("", scheme, 8, 0, 8, 2, 256, 128, True).expert_bytes() == stored


def test_layers_that_nobody_else_is_asked_to_compute() -> None:
    with pytest.raises(moec.NotSupported, match=r"the layer has the activation gelu"):
        Case.of(layer_of(activation="gelu"))
    with pytest.raises(moec.NotSupported, match=r"the layer has biases"):
        Case.of(layer_of(has_bias=True))
    with pytest.raises(moec.NotSupported, match=r"random weights of bf16, fp8_block.*; the layer's scheme is int4_w4afp8"):
        Case.of(layer_of(quant_config="int4_w4afp8"))


def test_systems_say_what_they_have() -> None:
    assert len({each.name for each in SYSTEMS}) == len(SYSTEMS)
    case = Case("", "fp8_block", 8, 0, 8, 2, 256, 128, True)
    served = {each.name for each in SYSTEMS if not each.refusal(case)}
    assert served == {"vllm", "deepgemm", "humming", "sglang", "flashinfer", "trtllm"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "moec bench: expected LAYER, got none: a layer JSON"),
        (["a", "--tokens=x"], "--tokens"),
        (["a", "--tokens=0"], "--tokens"),
        (["a", "--passes=0"], "--passes: expected at least 1, got 0"),
        (["a", "--ep"], "--ep: expected --tp=N"),
        (["a", "--system=vllm"], "did you mean --systems?"),
    ],
)
def test_mistakes(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bench", *words])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_without_torch(tmp_path: pathlib.Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    paths = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    (tmp_path / "layer.json").write_text(json.dumps(SMALL))
    words = ["bench", str(tmp_path / "layer.json")]
    done = run_python(f"from moec.cli import main; raise SystemExit(main({words}))", PYTHONPATH=paths)
    assert done.returncode == 1
    assert done.stderr == "moec bench: torch is needed to time layers: no torch here\n"


class Recorded(Rates):
    """The floors of a file of `moec bench --csv`."""

    def __init__(self, floors: dict[int, float]) -> None:
        super().__init__("", 0, 0, 0)
        self.floors = floors

    def floor_us(self, row: Row) -> float:
        return self.floors[row.tokens]


def record_of_the_guide(page: str) -> pathlib.Path:
    """The report of the run whose rows the guide shows: the guide links to the rows, and the list of runs has the run."""
    folder = SOURCE / "bench" / "results"
    linked = re.search(r"results/([\w-]+)\.csv", page)
    assert linked, "docs/how-to/bench.md links to the rows of the run that it shows"
    runs = csv.DictReader((folder / "runs.csv").read_text().splitlines())
    assert linked[1] in {f"{run['date']}-{run['run']}" for run in runs}
    report = folder / f"{linked[1]}.md"
    assert "[`moec bench`]" in report.read_text()
    return report


def test_the_table_of_the_guide() -> None:
    """The guide shows a layer of a recorded run as the command prints it, with its date, GPU, commit and versions."""
    page = (SOURCE / "docs" / "how-to" / "bench.md").read_text()
    path = record_of_the_guide(page)
    report = path.read_text()
    said = re.search(r"^NVIDIA (\w+), .*?, commit (\w+) of moec\.", report, re.MULTILINE)
    assert said, "a report says: NVIDIA GPU, ..., versions, commit HASH of moec."
    device, commit = f"NVIDIA {said[1]}", said[2]
    versions = {
        name.lower(): version
        for name, version in re.findall(r"\b(torch|transformers|vLLM|Humming|SGLang|triton_kernels) ([0-9.]+[0-9])", said[0])
    }
    versions = {"moec": "0.1.0"} | versions
    if "vllm" in versions:
        versions |= dict.fromkeys(("marlin", "deepgemm", "cutlass"), versions["vllm"])
    # The first layer and scheme whose systems all have a version in the report.
    tables: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for line in csv.DictReader(path.with_suffix(".csv").read_text().splitlines()):
        tables.setdefault((line["shape"], line["scheme"], line["routing"]), []).append(line)
    lines = next(lines for lines in tables.values() if all(line["system"] in versions for line in lines))
    rows = [
        Row(line["shape"], line["scheme"], int(line["tokens"]), line["system"], float(line["us"]) or None, error=0.0)
        for line in lines
    ]
    systems = {"torch"} | {row.system for row in rows}
    shown = {name: version for name, version in versions.items() if name in systems}
    floors = {int(line["tokens"]): float(line["floor_us"]) for line in lines}
    printed = str(Result(device, shown, {}, Recorded(floors), lines[0]["routing"], rows))
    assert f"```text\n{printed}\n```" in page, f"docs/how-to/bench.md has another table than {path.name}:\n{printed}"
    for text in (path.name[:10], device.removeprefix("NVIDIA "), commit, f"results/{path.name}", f"results/{path.stem}.csv"):
        assert text in page, text
