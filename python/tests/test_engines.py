# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values of the plug-ins' variables, versions of engines that are served, and refusals without asking the engine."""

import importlib
import importlib.util
import logging
import os
import pathlib
import re
import subprocess
import sys
import types
from typing import Any

import pytest
from conftest import EMULATED, OTHER_ENGINE, SMALL, SOURCE, import_torch, run_on_gpu, run_python

import moec
from moec.integrations import sglang, vllm
from moec.integrations._surface import Surface, Used

# A plug-in, its engine, the engine's package, its version, and the error that ends a process of the engine.
ENGINES = [(vllm, "vLLM", "vllm", "0.33.0", moec.NotSupported), (sglang, "SGLang", "sglang", "0.5.23", SystemExit)]


@pytest.fixture(params=ENGINES, ids=[name for _, _, name, _, _ in ENGINES])
def engine(request: pytest.FixtureRequest) -> Any:
    names = ("plugin", "name", "package", "version", "error")
    made = types.SimpleNamespace(**dict(zip(names, request.param, strict=True)))
    made.variable = f"MOEC_{made.package.upper()}"
    return made


class Other:
    """Stands for a method that moec does not know."""


@pytest.mark.parametrize("text", ["0", "on", "Force", "only", " 1", "only=fp8_block,nonsense", "only="])
def test_wrong_values(engine: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(moec.InvalidArgument, match=f"{engine.variable}: expected"):
        engine.plugin.choice_of(text)
    monkeypatch.setenv(engine.variable, text)
    error = moec.InvalidArgument if engine.error is not SystemExit else SystemExit
    with pytest.raises(error, match=f"{engine.variable}: expected"):
        engine.plugin.register()


def test_values(engine: Any) -> None:
    plugin = engine.plugin
    assert plugin.choice_of(None) is plugin.choice_of("") is None
    assert plugin.choice_of("1") == plugin.Choice()
    assert plugin.choice_of("force") == plugin.Choice(force=True)
    assert plugin.choice_of("only=fp8_block, mxfp4_w4a16") == plugin.Choice(schemes=frozenset(["fp8_block", "mxfp4_w4a16"]))


@pytest.mark.parametrize("ending", ["", "+cu130", ".post1"])
def test_versions_that_are_tested(engine: Any, ending: str) -> None:
    for version in engine.plugin.TESTED:
        assert engine.plugin.ENGINE.untested(version + ending) == ""
        assert engine.plugin.ENGINE.series_of(version + ending) == version


def test_patch_releases(engine: Any) -> None:
    assert engine.plugin.ENGINE.series_of(f"{engine.plugin.TESTED[-1]}.1.post2") == engine.plugin.TESTED[-1]


@pytest.mark.parametrize("version", ["0.3", "0.330", "0.5.2", "0.5.24", "0.34.0", "{}rc1", "{}.dev3", "1", ""])
def test_versions_that_are_not_tested(engine: Any, version: str) -> None:
    version = version.format(engine.version)
    found = engine.plugin.ENGINE.untested(version)
    assert found.startswith(f"moec was tested with {engine.name} {engine.plugin.TESTED[0]}")
    assert found.endswith(f"and this is {engine.name} {version}")


MADE = """
class Base:
    def apply(self, layer, x): ...
    @property
    def is_on(self): ...
    @staticmethod
    def kind(of): ...
def called(a, b, c=1, *rest, **more): ...
number = 1
"""


@pytest.fixture
def made_module(monkeypatch: pytest.MonkeyPatch) -> str:
    module = types.ModuleType("made_engine")
    exec(MADE, vars(module))
    monkeypatch.setitem(sys.modules, "made_engine", module)
    return "made_engine"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"name": "Base.apply", "takes": ("layer", "x")}, ""),
        ({"name": "Base.is_on", "takes": ()}, ""),
        ({"name": "Base.kind", "takes": ("of",)}, ""),
        ({"name": "called", "given": ("a", "b")}, ""),
        ({"name": "called", "given": ("a", "b", "c")}, ""),
        ({"name": "Base", "attributes": ("apply",)}, ""),
        (
            {"name": "Base.apply", "takes": ("x", "layer")},
            "made_engine.Base.apply: expected a function of (x, layer), found (layer, x)",
        ),
        ({"name": "Base.apply", "takes": ("layer",)}, "made_engine.Base.apply: expected a function of (layer), found (layer, x)"),
        ({"name": "called", "given": ("a",)}, "expected a function of (a), found (a, b, c=1, *rest, **more)"),
        ({"name": "called", "given": ("a", "b", "d")}, "expected a function of (a, b, d), found (a, b, c=1, *rest, **more)"),
        ({"name": "number", "given": ()}, "made_engine.number: expected a function of (), found int"),
        ({"name": "Base.other"}, "made_engine.Base.other: expected it in made_engine, found none"),
        ({"name": "Base", "attributes": ("fast",)}, "made_engine.Base.fast: expected this attribute, found none"),
        ({"name": "Base", "since": (("fast", "2"),)}, "made_engine.Base.fast: expected this attribute, found none"),
    ],
)
def test_what_an_engine_lacks(made_module: str, options: dict[str, Any], reason: str) -> None:
    found = Used(made_module, **options).reason(frozenset())
    assert reason in found
    assert bool(reason) == bool(found)


def test_an_attribute_that_came_later() -> None:
    """Only a tested version may lack it, and only one that came before."""
    surface = Surface("made", ("1", "2"), (Used("sys", since=(("no_such", "2"),)),))
    assert surface.reason("1") == ""
    for series in ("2", ""):
        assert surface.reason(series) == "sys.no_such: expected this attribute, found none"
    assert (
        Surface("made", ("1",), (Used("no_such_engine"),)).reason("1").startswith("no_such_engine: expected a module, found none")
    )
    layer = Surface("made", ("1", "2"), (), layer=("real",), layer_since=(("no_such", "2"),))
    assert layer.layer_reason(1.5, "1") == ""
    assert layer.layer_reason(1.5, "2") == "builtins.float.no_such: expected this attribute of a layer, found none"


@pytest.fixture
def begun(engine: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Any:
    """As the first process of a server begins, with an engine of any version."""
    monkeypatch.delenv(f"{engine.variable}_REASON_FILE", raising=False)
    monkeypatch.setattr("atexit.register", lambda *arguments: None)
    monkeypatch.setattr("importlib.metadata.version", lambda name: engine.version)
    monkeypatch.setenv(engine.variable, "1")
    engine.plugin.LOGGER.propagate = True
    with caplog.at_level(logging.INFO, f"{engine.package}.moec"):
        yield lambda: [record.getMessage() for record in caplog.records]
    pathlib.Path(os.environ.get(f"{engine.variable}_REASON_FILE", os.devnull)).unlink(missing_ok=True)
    monkeypatch.setenv(f"{engine.variable}_REASON_FILE", "")


HAS_ALL = Surface("made", ("1",), (Used("sys"),))
LACKS = Surface("made", ("1",), (Used("sys", "exit", given=("first", "second")),))


def test_the_log_says_once_that_moec_is_on(engine: Any, begun: Any) -> None:
    for _ in range(2):
        assert engine.plugin.ENGINE.admits(engine.plugin.Choice(), HAS_ALL)
    assert [each[:30] for each in begun()] == [f"moec is on ({engine.variable}=1). Lines"[:30]]


def test_a_version_that_no_test_ran_with_is_served_with_one_warning(
    engine: Any, begun: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "7.1")
    for choice in (engine.plugin.Choice(), engine.plugin.Choice(force=True)):
        assert engine.plugin.ENGINE.admits(choice, HAS_ALL)
    assert [each for each in begun() if "7.1" in each] == [
        f"{engine.plugin.ENGINE.untested('7.1')}, which has what moec uses: moec supports it"
    ]


@pytest.mark.parametrize("version", ["tested", "7.1"])
def test_an_engine_that_lacks_something_is_not_served(
    engine: Any, begun: Any, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if version != "tested":
        monkeypatch.setattr("importlib.metadata.version", lambda name: version)
    lacking = r"sys.exit: expected a function of \(first, second\), found \(status=None.*\)"
    assert not engine.plugin.ENGINE.admits(engine.plugin.Choice(), LACKS)
    (said,) = begun()
    assert re.match(f"moec runs no layer: {engine.name} .*: {lacking}", said)
    assert ("; moec was tested with" in said) == (version != "tested")
    with pytest.raises(moec.NotSupported, match=f"{engine.variable}=force: {engine.name} .*: {lacking}"):
        engine.plugin.ENGINE.admits(engine.plugin.Choice(force=True), LACKS)


FORCED = """
import logging, multiprocessing, os
from moec.integrations._engine import Choice, Refused
from moec.integrations._surface import Surface, Used
from moec.integrations.{package} import ENGINE
import importlib.metadata
importlib.metadata.version = lambda name: "{version}"

def child():
    ENGINE.admits(Choice(force=True), Surface("", (), (Used("sys"),)))
    ENGINE.refuse_or_leave(Choice(force=True), "layers.0", Refused("LoRA adapters"))

if __name__ == "__main__":
    ENGINE.admits(Choice(force=True), Surface("", (), (Used("sys"),)))
    process = multiprocessing.get_context("{start}").Process(target=child)
    process.start()
    process.join()
    raise RuntimeError("Engine core initialization failed")
"""


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_with_force_the_reason_is_the_last_line(engine: Any, start: str, tmp_path: Any) -> None:
    """A child refuses the layer; the first process ends with an error of the engine's own."""
    program = tmp_path / "server.py"
    program.write_text(FORCED.format(package=engine.package, version=engine.version, start=start))
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, f"{engine.variable}_REASON_FILE": "", "TMPDIR": str(tmp_path)},
    )
    lines = done.stderr.splitlines()
    assert done.returncode == 1
    assert "RuntimeError: Engine core initialization failed" in lines[-2]
    assert lines[-1] == f"{engine.variable}=force: moec cannot run layer layers.0: LoRA adapters"
    assert list(tmp_path.glob("moec-*")) == []


def test_tests_that_are_required_are_not_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOEC_TEST_REQUIRED", raising=False)
    with pytest.raises(pytest.skip.Exception):
        import_torch("no_such_package", files=lambda: "no files")
    monkeypatch.setenv("MOEC_TEST_REQUIRED", "1")
    with pytest.raises(pytest.fail.Exception, match="is not installed"):
        import_torch("no_such_package")
    pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(pytest.fail.Exception, match="no files"):
        import_torch(files=lambda: "no files")


def test_the_gate_runs_the_versions_that_are_tested(engine: Any) -> None:
    """ci.py fetches a release of each."""
    where = SOURCE / "python" / "ci.py"
    found = importlib.util.spec_from_file_location("moec_ci", where)
    assert found is not None
    assert found.loader is not None
    ci = importlib.util.module_from_spec(found)
    found.loader.exec_module(ci)
    releases = ci.VERSIONS_OF_ENGINES[engine.package]
    assert sorted(engine.plugin.ENGINE.series_of(each) for each in releases) == sorted(engine.plugin.TESTED)


def test_without_the_variable_nothing_happens(engine: Any) -> None:
    code = f"""
import sys
from moec.integrations import {engine.package} as plugin
plugin.register()
assert not {{"torch", "vllm", "sglang", "numpy"}} & set(sys.modules), "imported"
assert "libmoec" not in open("/proc/self/maps").read()
"""
    done = run_python(code, **{engine.variable: ""})
    assert (done.returncode, done.stderr) == (0, "")


def test_realizations(engine: Any) -> None:
    """The value 1 takes no layer that moec emulates; who names a scheme takes it."""
    pytest.importorskip("torch", reason="torch is not installed")
    from moec.integrations import _plan
    from moec.integrations._schemes import Scheme

    plugin = engine.plugin
    assert plugin.Choice(force=True).explicit
    assert plugin.Choice(schemes=frozenset(["nvfp4"])).explicit
    assert not plugin.Choice().explicit
    takes = _plan.takes
    weight_only, quantized = Scheme("", {}, {}, weight_only=True), Scheme("", {}, {})
    assert [takes(weight_only, each) for each in ("native", "dequantized", "emulated")] == [True, True, False]
    assert [takes(quantized, each) for each in ("native", "dequantized", "emulated")] == [True, False, False]
    assert takes(quantized, "weight_only")


def test_the_log_names_how_weights_are_read() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from moec.integrations._packing import how
    from moec.integrations._schemes import Scheme

    for name, bits in (("int4_w4a16", 4), ("int4_zp_w4a16", 4), ("mxfp4_w4a16", 4), ("nvfp4_w4a16", 4), ("int8_w8a16", 8)):
        assert how(Scheme(name, {}, {}, weight_only=True), "dequantized") == f"{bits}-bit weights read by the kernels"
    assert how(Scheme("fp8_block", {}, {}), "native") == "native"
    assert how(Scheme("nvfp4", {}, {}), "weight_only") == "weight_only"


def test_devices_and_schemes_that_are_taken(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from moec.integrations import _plan
    from moec.integrations._engine import Refused
    from moec.integrations._schemes import Scheme

    choice = engine.plugin.Choice
    all_of_them, forced, named = choice(), choice(force=True), choice(schemes=frozenset(["nvfp4"]))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    assert _plan.device_of("cuda", all_of_them) == torch.device("cuda:3")
    assert _plan.device_of("cuda:1", all_of_them) == torch.device("cuda:1")
    for explicit in (forced, named):
        assert _plan.device_of("cpu", explicit) == torch.device("cpu")
    with pytest.raises(Refused, match="the processor, on which moec runs only for tests"):
        _plan.device_of("cpu", all_of_them)
    with pytest.raises(Refused, match="the device meta; moec takes GPUs of NVIDIA"):
        _plan.device_of("meta", forced)
    with monkeypatch.context() as changed:
        changed.setattr(torch.version, "hip", "6.4")
        with pytest.raises(Refused, match="moec takes GPUs of NVIDIA"):
            _plan.device_of("cuda:0", forced)

    nvfp4, other = Scheme("nvfp4", {}, {}), Scheme("fp8_block", {}, {})
    for chosen in (all_of_them, forced):
        _plan.check_named(other, chosen, engine.plugin.ENGINE)
    _plan.check_named(nvfp4, named, engine.plugin.ENGINE)
    with pytest.raises(Refused, match=f"scheme fp8_block, which {engine.variable} does not name"):
        _plan.check_named(other, named, engine.plugin.ENGINE)

    # GPUs that multiply 4-bit floats do so; others leave activations as they are.
    for capability, realizations in (((9, 0), ["weight_only"]), ((10, 0), []), ((12, 1), [])):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, made=capability: made)
        assert _plan.allowed(torch.device("cuda:0")) == realizations
        assert _plan.allowed(torch.device("cpu")) == ["weight_only"]

    answer = types.SimpleNamespace(ok=True, realization=("emulated",), reasons=())
    assert _plan.realization_of(answer, nvfp4, forced) == _plan.realization_of(answer, nvfp4, named) == "emulated"
    with pytest.raises(Refused, match="scheme nvfp4, which moec computes emulated on this GPU"):
        _plan.realization_of(answer, nvfp4, all_of_them)
    none = types.SimpleNamespace(ok=False, realization=(), reasons=("too wide", "too long"))
    with pytest.raises(Refused, match="moec has no kernels: too wide$"):
        _plan.realization_of(none, nvfp4, forced)


def test_the_plug_ins_allow_weight_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVFP4 of W4A4 is computed without quantized activations, unless MOEC_EXCLUDE forbids it."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from moec.integrations import _plan

    source = SMALL | {"quant_config": "nvfp4"}
    monkeypatch.delenv("MOEC_EXCLUDE", raising=False)
    assert _plan.kernels_of(source, torch.device("cpu"), 64).realization == ("weight_only",)
    exact = _plan.kernels_of(source, torch.device("cpu"), 64, leaves_activations=False)
    assert exact.realization == ("emulated",)
    monkeypatch.setenv("MOEC_EXCLUDE", "gemv,weight_only")
    assert _plan.kernels_of(source, torch.device("cpu"), 64).realization == ("emulated",)


def test_one_scale_of_activations_covers_the_largest() -> None:
    """Whether experts store it or its inverse."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from moec.integrations._schemes import inverse_of_largest_for, largest_for

    stored = torch.tensor([4.0, 16.0])
    assert largest_for(3)(stored).tolist() == [16.0] * 3
    assert inverse_of_largest_for(3)(stored).tolist() == [0.25] * 3


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"is_sym": False}, "GPTQ with zero points"),
        ({"is_sym": True, "desc_act": True, "group_size": 128}, "act-order"),
    ],
)
def test_a_gptq_refusal(config: dict[str, Any], reason: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from moec.integrations._engine import Refused
    from moec.integrations._vllm_schemes import _gptq

    config = {"weight_bits": 4, "group_size": 128, "desc_act": False} | config
    method = types.SimpleNamespace(quant_config=types.SimpleNamespace(**config))
    with pytest.raises(Refused, match=reason):
        _gptq(None, method)


@pytest.mark.parametrize(
    ("module", "arguments", "reason"),
    [
        ("_vllm_schemes", (), "vLLM's method Other; moec takes UnquantizedFusedMoEMethod, Fp8MoEMethod"),
        ("_sglang_schemes", ("auto",), "SGLang's method Other; moec takes UnquantizedFusedMoEMethod, Fp8MoEMethod"),
    ],
)
def test_a_method_that_is_unknown(module: str, arguments: tuple[str, ...], reason: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from moec.integrations._engine import Refused

    scheme_of = importlib.import_module(f"moec.integrations.{module}").scheme_of
    with pytest.raises(Refused, match=reason):
        scheme_of(None, Other(), *arguments)


PLUG_IN = """
from types import SimpleNamespace

from moec.integrations._packing import Journal
from moec.integrations._plan import kernels_of, realization_of

scheme = SimpleNamespace(name="nvfp4", weight_only=False)
found = kernels_of({layer!r}, SimpleNamespace(type="cuda"), 64, leaves_activations=False)
realization = realization_of(found, scheme, SimpleNamespace(explicit=False))
journal = Journal(SimpleNamespace(name="vLLM", logger=SimpleNamespace(info=lambda text, *words: print(text % words))))
journal.take("layer 0", SimpleNamespace(scheme=scheme, realization=realization, never_run=found.never_run[0], routes=True))
journal.pack("layer 0", 1.0)
"""


@pytest.mark.parametrize("arch", ["sm_120a", "sm_121a"])
def test_what_the_log_of_an_engine_says(arch: str, tmp_path: pathlib.Path) -> None:
    """Plug-ins take 4-bit floats, and say that no such GPU has run the kernels."""
    pytest.importorskip("torch")
    layer = {**SMALL, "hidden_size": 256, "intermediate_size": 128, "quant_config": "nvfp4"}
    said = run_on_gpu(PLUG_IN.format(layer=layer), arch, tmp_path)
    never_run = f"{EMULATED}. {OTHER_ENGINE.format('mma_sync_scaled')}"
    assert said == f"moec runs 1 of 1 MoE layers: 1 x (nvfp4, native, routing by moec; {never_run}); 1.0 s\n"
