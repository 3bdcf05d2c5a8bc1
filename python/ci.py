#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds the wheel, tests it and lints the sources, each in an environment of its own below the build folder.

environments  downloads the tools and what tests need, by hash
wheel         writes the wheel into --out from the libmoec.so of --build
test          builds the wheel, installs it into an environment that has numpy and pytest alone, and runs python/tests there;
              --python=PATH runs the tests of torch with an interpreter that has torch, numpy and pytest. Those of vLLM and
              SGLang also need transformers, and the engine's files: MOEC_TEST_VLLM=FOLDER and MOEC_TEST_SGLANG=FOLDER, which
              tests/vllm_files.py and tests/sglang_files.py fill
transformers  installs the wheel with PyPI's torch and transformers into an environment of its own, and runs the example and the
              tests of torch and transformers there; exit status 77 where PyPI does not give them
engines       fetches the files of each version of vLLM and SGLang that the plug-ins were tested with, and runs the tests of the
              plug-ins with each. A test that would be skipped fails. Exit status 77 where PyPI is out of reach
lint          runs ruff and mypy --strict
"""

import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
import venv

SOURCE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
# Several GB, of no fixed version: what a user gets today.
USERS_PACKAGES = ("torch", "transformers", "numpy", "pytest")
TESTS_OF_TORCH = (
    "test_torch*.py",
    "test_transformers*.py",
    "test_engines.py",
    "test_vllm*.py",
    "test_sglang*.py",
    "test_docs.py",
)
# The plug-ins' tests ran with this torch. moec/integrations/vllm.py and sglang.py name the versions of the engines.
PACKAGES_OF_ENGINES = ("torch==2.11.0", "transformers==5.17.0", "numpy", "pytest")
VERSIONS_OF_ENGINES = {"vllm": ("0.33.0", "0.32.0", "0.31.0"), "sglang": ("0.5.23",)}
FILES_OF_ENGINES = ("MOEC_TEST_VLLM", "MOEC_TEST_SGLANG")
# requirements-test.txt stands in both: mypy reads numpy and pytest.
ENVIRONMENTS = {
    "tools": ("requirements-test.txt", "requirements-tools.txt"),
    "test": ("requirements-test.txt",),
}


def folder_of(build: pathlib.Path, name: str) -> pathlib.Path:
    return build / "python-package" / f"environment-{name}"


def stamp_of(name: str) -> str:
    """A hash of all that an environment is made from."""
    texts = [sys.version, *((SOURCE / file).read_text() for file in ENVIRONMENTS[name])]
    return hashlib.sha256("".join(texts).encode()).hexdigest()


def is_ready(build: pathlib.Path, name: str) -> bool:
    stamp = folder_of(build, name) / "made-from"
    return stamp.exists() and stamp.read_text() == stamp_of(name)


def make(build: pathlib.Path, name: str) -> None:
    """An environment without pip, which the one of the tools serves."""
    folder = folder_of(build, name)
    if is_ready(build, name):
        return
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=name == "tools", symlinks=True)
    pip = [folder_of(build, "tools") / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    requirements = [word for file in ENVIRONMENTS[name] for word in ("--requirement", SOURCE / file)]
    subprocess.run(
        [*pip, "--python", folder / "bin" / "python", "install", "--quiet", "--retries=2", "--no-deps", "--only-binary=:all:"]
        + ["--require-hashes", *requirements],
        check=True,
    )
    (folder / "made-from").write_text(stamp_of(name))


def environments(options: argparse.Namespace) -> int:
    for name in ENVIRONMENTS:
        make(options.build, name)
    return 0


def build_wheel(build: pathlib.Path, out: pathlib.Path) -> pathlib.Path:
    """Into an empty folder first, so that what was there stays where the build fails."""
    stage = build / "python-package" / "wheel"
    shutil.rmtree(stage, ignore_errors=True)
    environment = dict(os.environ, MOEC_BUILD=str(build))
    subprocess.run(
        [folder_of(build, "tools") / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
        + ["--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", stage, SOURCE],
        check=True,
        env=environment,
    )
    (made,) = stage.glob("*.whl")
    if out == stage:
        return made
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("moec-*.whl"):
        old.unlink()
    return pathlib.Path(shutil.copy2(made, out))


def wheel(options: argparse.Namespace) -> int:
    made = build_wheel(options.build, options.out.resolve())
    print(f"{made}: {made.stat().st_size / 2**20:.1f} MiB")
    return 0


def test(options: argparse.Namespace) -> int:
    made = build_wheel(options.build, options.build / "python-package" / "wheel")
    tools = folder_of(options.build, "tools") / "bin"
    if options.python:
        return test_torch(options, made, tools)
    python = folder_of(options.build, "test") / "bin" / "python"
    subprocess.run(
        [tools / "python", "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "--quiet", "--no-index"]
        + ["--no-deps", "--force-reinstall", made],
        check=True,
    )
    return run_tests(options, python, made, [SOURCE / "tests"])


def test_torch(options: argparse.Namespace, made: pathlib.Path, tools: pathlib.Path) -> int:
    """The interpreter is somebody else's: the wheel lies in a folder beside it."""
    unpacked = options.build / "python-package" / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    subprocess.run([tools / "python", "-m", "zipfile", "-e", made, unpacked], check=True)
    return run_tests(options, options.python, made, tests_of_torch(), PYTHONPATH=str(unpacked))


def tests_of_torch() -> list[pathlib.Path | str]:
    found = [path for name in TESTS_OF_TORCH for path in sorted((SOURCE / "tests").glob(name))]
    return [*found, "-m", "sweep or not sweep"]


def transformers(options: argparse.Namespace) -> int:
    """As a user installs them together."""
    made = build_wheel(options.build, options.build / "python-package" / "wheel")
    tools, folder = folder_of(options.build, "tools") / "bin", folder_of(options.build, "transformers")
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, symlinks=True)
    pip = [tools / "python", "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "--quiet"]
    if subprocess.run([*pip, "--retries=2", "--upgrade", *USERS_PACKAGES], check=False).returncode:
        print(f"PyPI does not give {', '.join(USERS_PACKAGES)}")
        return SKIPPED
    subprocess.run([*pip, "--no-index", "--no-deps", "--force-reinstall", made], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MOEC_", "PYTHON"))}
    example = SOURCE.parent / "examples" / "python" / "transformers_moe.py"
    failed = subprocess.run([python, example], cwd=options.build, env=environment, check=False).returncode
    return max(failed, run_tests(options, python, made, tests_of_torch()))


def pypi_answers() -> bool:
    try:
        with urllib.request.urlopen("https://pypi.org/simple/pip/", timeout=20) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, TimeoutError):
        return False


def engines(options: argparse.Namespace) -> int:
    """A file that PyPI has and does not give is a failure."""
    if not pypi_answers():
        print("PyPI is out of reach")
        return SKIPPED
    made = build_wheel(options.build, options.build / "python-package" / "wheel")
    tools, folder = folder_of(options.build, "tools") / "bin", folder_of(options.build, "engines")
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, symlinks=True, with_pip=True)
    pip = [tools / "python", "-m", "pip", "--disable-pip-version-check", "--python", python, "install", "--quiet"]
    subprocess.run([*pip, "--retries=2", *PACKAGES_OF_ENGINES], check=True)
    subprocess.run([*pip, "--no-index", "--no-deps", "--force-reinstall", made], check=True)
    failed = 0
    for engine, versions in VERSIONS_OF_ENGINES.items():
        tests = sorted((SOURCE / "tests").glob(f"test_{engine}*.py"))
        for version in versions:
            files = options.build / "python-package" / f"{engine}-{version}"
            stamp = files / "complete"
            if not stamp.exists():
                shutil.rmtree(files, ignore_errors=True)
                subprocess.run([python, SOURCE / "tests" / f"{engine}_files.py", files, version], check=True)
                stamp.touch()
            print(f"{engine} {version}", flush=True)
            given = {f"MOEC_TEST_{engine.upper()}": str(files), "MOEC_TEST_REQUIRED": "1"}
            failed = max(failed, run_tests(options, python, made, [SOURCE / "tests" / "test_engines.py", *tests], **given))
    return failed


def run_tests(
    options: argparse.Namespace, python: pathlib.Path, made: pathlib.Path, tests: list[pathlib.Path | str], **more: str
) -> int:
    tools = folder_of(options.build, "tools") / "bin"
    environment = {
        name: value for name, value in os.environ.items() if name in FILES_OF_ENGINES or not name.startswith(("MOEC_", "PYTHON"))
    }
    # Only the tests of the emulated GPU compile kernels.
    if nvrtc := os.environ.get("MOEC_NVRTC_PATH"):
        environment["MOEC_TEST_NVRTC"] = nvrtc
    environment |= more
    environment |= {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MOEC_TEST_BUILD": str(options.build),
        "MOEC_TEST_WHEEL": str(made),
        "MOEC_TEST_SOURCE": str(SOURCE.parent),
        "MOEC_CACHE_DIR": str(options.build / "python-package" / "cache"),
    }
    # Not in the folder of the sources, whose moec would be imported.
    command = [python, "-m", "pytest", "-c", SOURCE / "pyproject.toml", *tests, *options.rest]
    return subprocess.run(command, cwd=options.build / "python-package", env=environment, check=False).returncode


def lint(options: argparse.Namespace) -> int:
    tools = folder_of(options.build, "tools") / "bin"
    cache = options.build / "python-package"
    commands = (
        [tools / "ruff", "check", "--quiet", f"--cache-dir={cache / 'ruff'}", "."],
        [tools / "ruff", "format", "--quiet", "--check", "--diff", f"--cache-dir={cache / 'ruff'}", "."],
        [tools / "mypy", f"--cache-dir={cache / 'mypy'}", f"--python-executable={tools / 'python'}"],
    )
    # All of them, so that one run shows all that is wrong.
    return max([subprocess.run(command, cwd=SOURCE, check=False).returncode for command in commands])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = {
        "environments": environments,
        "wheel": wheel,
        "test": test,
        "transformers": transformers,
        "engines": engines,
        "lint": lint,
    }
    parser.add_argument("command", choices=commands)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder of a finished build")
    parser.add_argument("--out", type=pathlib.Path, default=SOURCE.parent / "dist", help="where the wheel goes")
    parser.add_argument("--python", type=pathlib.Path, help="an interpreter that has torch")
    options, options.rest = parser.parse_known_args()
    options.build = options.build.resolve()
    if options.command != "environments":
        missing = [name for name in ENVIRONMENTS if not is_ready(options.build, name)]
        if missing:
            print(f"SKIPPED: {' and '.join(missing)}: no such environment below {options.build}; ./bootstrap test downloads it")
            return SKIPPED
    return commands[options.command](options)


if __name__ == "__main__":
    sys.exit(main())
