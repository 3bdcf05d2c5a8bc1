# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each status is an exception of its own, and real mistakes raise the right one."""

import json
import pathlib
from typing import Any

import pytest
from conftest import ARCH, SMALL, run_python

import moec
from moec import _abi, _c, errors
from moec._library import library


def test_every_status_has_a_class() -> None:
    codes = {library().status_name(status).decode() for status in _abi.Status if status}
    classes = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, moec.MoecError)]
    classes.remove(moec.MoecError)
    assert {each.code for each in classes} == codes
    assert len(classes) == len(codes)
    for code in codes:
        error = errors.error_of(code, "a message")
        assert type(error) in classes
        assert (error.code, str(error)) == (code, "a message")
        assert isinstance(error, RuntimeError)


def test_a_status_of_a_newer_library() -> None:
    error = errors.error_of("too_hot", "a message")
    assert type(error) is moec.MoecError
    assert str(error) == "too_hot: a message"


def test_an_invalid_argument_is_a_value_error() -> None:
    assert issubclass(moec.InvalidArgument, ValueError)


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return moec.compile(SMALL, arch=ARCH).write(tmp_path / "package")


def test_damaged_package(folder: pathlib.Path) -> None:
    next(folder.rglob("*.cu")).write_text("damaged")
    with pytest.raises(moec.DamagedPackage):
        moec.load(folder, device="host")


def test_invalid_manifest(folder: pathlib.Path) -> None:
    (folder / "manifest.json").write_text("{}")
    with pytest.raises(moec.InvalidManifest):
        moec.Files.read(folder)


def test_file_system(tmp_path: pathlib.Path) -> None:
    with pytest.raises(moec.FileSystemError, match="expected a folder"):
        moec.load(tmp_path / "none", device="host")
    (tmp_path / "file").write_text("")
    with pytest.raises(moec.FileSystemError):
        moec.compile(SMALL, arch=ARCH).write(tmp_path / "file" / "package")


def test_no_matching_target(folder: pathlib.Path) -> None:
    with pytest.raises(moec.NoMatchingTarget, match="sm_80"):
        moec.load(folder, device="host", arch="sm_80")


def test_too_many_tokens(package: Any, make_layer: Any) -> None:
    layer, _ = make_layer(package)
    with pytest.raises(moec.TooManyTokens):
        layer(package.empty("x", 65), package.empty("logits", 65))
    with pytest.raises(moec.TooManyTokens):
        package.context(65)


def test_workspace_too_small(package: Any, make_layer: Any) -> None:
    import numpy as np

    with pytest.raises(moec.WorkspaceTooSmall, match=f"need {package.workspace_bytes(64)} bytes, and 16 were given"):
        package.context(64, workspace=np.empty(16, np.uint8))
    layer, _ = make_layer(package)
    with package_context(package, 1) as context, pytest.raises(moec.WorkspaceTooSmall):
        layer(package.empty("x", 64), package.empty("logits", 64), context=context)


class package_context:  # noqa: N801
    def __init__(self, package: Any, tokens: int) -> None:
        self.context = package.context(tokens)

    def __enter__(self) -> Any:
        return self.context

    def __exit__(self, *_: object) -> None:
        self.context.close()


def test_misaligned(package: Any) -> None:
    import numpy as np

    memory = np.empty(package.workspace_bytes(1) + 512, np.uint8)
    begin = -memory.ctypes.data % 256 + 1
    with pytest.raises(moec.Misaligned):
        package.context(1, workspace=memory[begin : begin + package.workspace_bytes(1)])


def test_numbers_that_c_cannot_hold(package: Any, make_layer: Any) -> None:
    layer, weights = make_layer(package)
    x, logits = package.empty("x", 3), package.empty("logits", 3)
    files = moec.compile(SMALL, arch=ARCH)
    for call in (
        lambda: moec.load(files, device="host", jobs=2**32),
        lambda: moec.load(files, device=f"cuda:{2**32}"),
        lambda: package.shape("x", 2**64 + 3),
        lambda: package.context(2**64 + 3),
        lambda: package.variant_for(2**64 + 3),
        lambda: layer(x, logits, tokens=2**64 + 3),
        lambda: layer.repack(weights, 2**64, 1),
    ):
        with pytest.raises(moec.InvalidArgument, match=r"expected an integer of (32|64) bits, got \d+"):
            call()
    for wrong in (lambda: moec.load(files, device="host", jobs="2"), lambda: package.shape("x", 1.5)):  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="expected an integer, got"):
            wrong()


@pytest.mark.parametrize("bits", [64, 32, 31])
def test_integers_at_their_bounds(bits: int) -> None:
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    for number in (least, most, 0):
        assert _c.integer(number, "n", bits=bits) == number
    for number in (least - 1, most + 1, 2**bits, 2**64):
        with pytest.raises(moec.InvalidArgument, match=f"n: expected an integer of {bits} bits, got {number}"):
            _c.integer(number, "n", bits=bits)


def test_texts_with_a_nul(package: Any, make_layer: Any, tmp_path: pathlib.Path) -> None:
    """C would take what stands before it."""
    layer, _ = make_layer(package)
    (tmp_path / "layer.json").write_text(json.dumps(SMALL) + "\0{")
    files = moec.compile(SMALL, arch=ARCH)
    for call in (
        lambda: moec.compile(tmp_path / "layer.json", arch=ARCH),
        lambda: moec.load(files, device="host", arch="sm_90a\0b"),
        lambda: moec.load("folder\0b", device="host"),
        lambda: moec.Checkpoint("folder\0b"),
        lambda: layer(package.empty("x", 3), package.empty("logits", 3), variant="up_to_4\0"),
    ):
        with pytest.raises(moec.InvalidArgument, match="expected a text without NUL, got one at byte"):
            call()
    (tmp_path / "layer.json").write_bytes(b"\xff")
    with pytest.raises(moec.InvalidArgument, match="expected a text in UTF-8, which .*layer.json is not"):
        moec.compile(tmp_path / "layer.json", arch=ARCH)
    with pytest.raises(moec.FileSystemError, match="cannot be read: Not a directory"):
        moec.compile(tmp_path / "layer.json" / "config.json", arch=ARCH)
    # Who gives the text in place of its path.
    with pytest.raises(
        moec.FileSystemError, match="cannot be read: File name too long; expected a path, or what JSON can say"
    ) as caught:
        moec.compile(json.dumps(SMALL) + " " * 1_000_000, arch=ARCH)
    assert len(str(caught.value)) < 500
    with pytest.raises(moec.InvalidArgument, match="source: expected a path without NUL"):
        moec.compile("layer\0.json", arch=ARCH)


def test_refused() -> None:
    with pytest.raises(moec.NotSupported, match="wgmma") as caught:
        moec.compile(SMALL, arch="sm_75", engine="wgmma")
    reason = caught.value.reasons[0]
    assert (reason.code, reason.arch, reason.engine) == ("feature_missing", "sm_75", "wgmma")
    assert str(reason) == "sm_75 grouped wgmma: engine 'wgmma' needs wgmma, which sm_75 lacks"


def test_a_package_of_ranks_needs_a_communicator() -> None:
    config = {**SMALL, "moe_parallel_config": {"dp_size": 2, "use_ep": True, "all2all_backend": "gather_scatter"}}
    package = moec.load(moec.compile(config, arch=ARCH, max_tokens=64), device="host")
    assert package.max_tokens == 32
    with pytest.raises(moec.NoCommunication, match="between 2 ranks: expected a communicator of them, got none"):
        package.context()


def test_no_driver() -> None:
    code = "import moec; moec.load({!r}, device='cuda')"
    done = run_python(
        "import moec\n"
        f"files = moec.compile({SMALL!r}, arch='sm_90a')\n"
        "for call in (lambda: moec.load(files), lambda: moec.compile({})):\n"
        "    try:\n        call()\n    except moec.NoDriver as error:\n        print('no driver:', error)\n",
        MOEC_CUDA_DRIVER_PATH="/nowhere/libcuda.so.1",
    )
    assert done.stdout.count("no driver: ") == 2, (done, code)
    assert "arch='sm_90a'" in done.stdout


def test_no_compiler_and_strict_miss(tmp_path: pathlib.Path) -> None:
    files = moec.compile(SMALL, arch=ARCH)
    with pytest.raises(moec.NoCompiler, match="expected a libnvrtc"):
        moec.load(files, prebuild=True, arch=ARCH, cache_dir=tmp_path, nvrtc_path=tmp_path)
    with pytest.raises(moec.StrictMiss):
        moec.load(files, prebuild=True, arch=ARCH, cache_dir=tmp_path, strict=True)
