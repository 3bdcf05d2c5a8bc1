#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Applies seeded faults, one at a time, and demands that the check that each names goes red.

A mutant is a patch whose first lines say what it is:

    Fault: one sentence
    Kind: code | template | protocol
    Program: moec-check          (code: which program holds the mutated .cpp)
    Sources: FILE FILE           (code: the .cpp that take a mutated header of templates/moe/math; the header is the kernels', too)
    Check: conformance REGEX     (code: the cases of conformance.py that must fail)
    Check: checkpoints NAME      (code: the cases of checkpoints.py that must fail)
    Check: fields PATH           (code: the field of a layer JSON for which fields.py must fail)
    Check: unit PROGRAM FILTER   (code: the GoogleTest program and the cases of it that must fail)
    Quick: yes                   (runs by default; the others with --all)
    Text: FILE                   (protocol: of test/templates/configs; its PTX must break conformance/protocol.py)
    Scheme: fp8_block            (template: of the layer that must fail; absent: bf16)
    Engine: wgmma                (template: that multiplies; absent: mma_sync)
    Arch: sm_120f                (template: of its kernels; absent: sm_90a. Others run on the emulated GPU alone)
    Layer: slices                (template: what else it needs, a row of MUTANT_LAYERS of test/gpu/cases.py)
    Slow: yes                    (template: each kernel begins to work late, when its successor runs already)
    Hangs: yes                   (template: a run without end counts as red)
    Deadline: WORDS              (template: kernels have a deadline, and the assertion that fails must say so)
    Sanitizer: synccheck         (template: the tool of compute-sanitizer that must flag it)
    Arguments: --tokens=2000     (template: of moec-check, in place of the usual ones)
    Emulated: --tokens=150       (template: those on the emulated GPU, in place of fewer of these)
    NotEmulated: WORDS           (template: why the emulator cannot show it)

`code` mutants are built beside the tree: the patched .cpp is compiled with its line of compile_commands.json and linked
before the archives, so that the program takes the mutant's functions. Nothing in the source tree or the build changes.
A check must be green before any mutant is believed. `template` mutants need a GPU: test/gpu/make_gpu_packages.py
makes packages of them and test/gpu/gpu_suite.py demands that they fail. `protocol` mutants are compiled by NVRTC alone.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "conformance"))
import builds  # noqa: E402
import moec_testing as testing  # noqa: E402
import nvrtc  # noqa: E402
import protocol  # noqa: E402


class Mutant:
    def __init__(self, path):
        self.path = path
        self.name = path.stem
        self.text = path.read_text()
        head = self.text.split("\n--- ", 1)[0]
        self.fields = dict(re.findall(r"^(\w+): (.+)$", head, re.MULTILINE))
        self.files = re.findall(r"^\+\+\+ b/(\S+)", self.text, re.MULTILINE)
        self.sources = [file for file in self.files if file.endswith(".cpp")] + self.fields.get("Sources", "").split()
        self.kind = self.fields.get("Kind", "")
        self.check = self.fields.get("Check", "").split()
        self.quick = self.fields.get("Quick") == "yes"
        self.arch = self.fields.get("Arch", "sm_90a")


def load_mutants():
    return [Mutant(path) for path in sorted(HERE.glob("*.patch"))]


def apply_patch(mutant, tree):
    """Copies of the patched files in `tree`; raises where the patch does not fit."""
    for file in mutant.files:
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tree / file)
    done = subprocess.run(["patch", "-p1", "--no-backup-if-mismatch", "-F2", "-d", tree, "-i", mutant.path],
                          capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the patch does not fit the sources any more: {done.stdout.strip()}")


class Builder:
    """Compiles and links with the commands of an existing build."""

    def __init__(self, build):
        self.build = pathlib.Path(build)
        self.links = {}
        self.compile = builds.compile_commands(self.build)

    def link_command(self, program):
        if program not in self.links:
            done = subprocess.run(["ninja", "-C", self.build, "-t", "commands", f"bin/{program}"], check=True,
                                  capture_output=True, text=True)
            lines = [line for line in done.stdout.splitlines() if f"-o bin/{program} " in line + " "]
            self.links[program] = lines[-1]
        return self.links[program]

    def run(self, command, folder):
        done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"does not build: {done.stderr.strip()[-1500:] or done.stdout.strip()[-1500:]}")

    def program(self, mutant, tree, program, output):
        if not mutant.sources:
            raise RuntimeError("no .cpp is mutated, and Sources names none")
        entries = {}
        for file in mutant.sources:
            entry = self.compile.get(str(ROOT / file))
            if not entry:
                raise RuntimeError(f"{file} is not compiled by itself: mutate a .cpp, or name one that takes the header in Sources")
            entries[entry["file"]] = entry
        objects, line = [], self.link_command(program)
        for number, entry in enumerate(entries.values()):
            source, target = tree / f"{number}{pathlib.Path(entry['file']).suffix}", tree / f"{number}.o"
            # A file of a unity build names its sources: the mutated ones are taken from the tree.
            text = pathlib.Path(entry["file"]).read_text()
            if builds.is_unity(pathlib.Path(entry["file"])):
                for file in mutant.files:
                    text = text.replace(f'"{ROOT / file}"', f'"{tree / file}"')
                source.write_text(text)
            else:
                mutated = tree / pathlib.Path(entry["file"]).relative_to(ROOT)
                source = mutated if mutated.exists() else pathlib.Path(entry["file"])
            command = entry["command"].replace(shlex.quote(entry["file"]), shlex.quote(str(source)))
            command = command.replace(" -I", f" -I{shlex.quote(str(tree))} -I{shlex.quote(str(tree / 'templates'))} -I", 1)
            made = re.search(r" -o (\S+)", command)[1]
            command = command.replace(f" -o {made}", f" -o {shlex.quote(str(target))}")
            command = re.sub(r" -M[DMTFP]\S* \S+\.d\b| -MD\b| -MT \S+| -MF \S+", "", command)
            self.run(re.sub(r" -O[23]\b", " -O1", command), entry["directory"])
            objects.append(target)
            # The object of the same sources, where it is linked directly, would clash.
            line = line.replace(f" {made} ", " ")
        # The mutant's objects stand before everything else that is linked.
        inserted = " ".join(shlex.quote(str(item)) for item in objects)
        line = re.sub(rf" -o bin/{re.escape(program)}(?= )", f" {inserted} -o {shlex.quote(str(output))}", line)
        line = line.split(" && : ")[0] if line.endswith(" && :") else line
        self.run(line, self.build)


def run_check(check, folder, work):
    """(green, what was seen). Raises for a check that could not run."""
    if check[0] == "conformance":
        status, output, errors = testing.run([sys.executable, HERE.parent / "conformance" / "conformance.py", "--bin", folder,
                                              "--work", work / "check", "--filter", check[1], "--product", "--jobs", "1"])
        if "conformance on the host device: 0 passed, 0 failed" in output or status not in (0, 1):
            raise RuntimeError(f"no case matches or no end: {output[-500:]} {errors[-500:]}")
        failed = re.search(r"^FAILED: (.*)$", output, re.MULTILINE)
        if status and not failed:
            raise RuntimeError(f"it fails without a case: {output[-500:]} {errors[-500:]}")
        return status == 0, failed.group(1)[:200] if failed else ""
    if check[0] == "checkpoints":
        status, output, errors = testing.run([sys.executable, HERE.parent / "conformance" / "checkpoints.py", "--bin", folder,
                                              "--work", work / "check", "--only", check[1], "--jobs", "1"])
        if "checkpoints: 0 passed, 0 failed" in output or status not in (0, 1):
            raise RuntimeError(f"no case matches or no end: {output[-500:]} {errors[-500:]}")
        failed = re.search(r"^FAILED: (.*)$", output, re.MULTILINE)
        if status and not failed:
            raise RuntimeError(f"it fails without a case: {output[-500:]} {errors[-500:]}")
        return status == 0, failed.group(1)[:200] if failed else ""
    if check[0] == "fields":
        status, output, errors = testing.run([sys.executable, HERE.parent / "conformance" / "fields.py", "--bin", folder,
                                              "--work", work / "check", "--only", check[1], "--jobs", "1"])
        if status not in (0, 1):
            raise RuntimeError(f"no end: {output[-500:]} {errors[-500:]}")
        failed = re.search(r"^FAILED: (.*)$", output, re.MULTILINE)
        if status and not failed:
            raise RuntimeError(f"it fails without a case: {output[-500:]} {errors[-500:]}")
        return status == 0, failed.group(1)[:200] if failed else ""
    if check[0] == "unit":
        status, output, errors = testing.run([folder / check[1], f"--gtest_filter={check[2]}"])
        if "Running 0 tests" in output or "[  PASSED  ] 0 tests" in output and "FAILED" not in output:
            raise RuntimeError(f"no test matches {check[2]}")
        failed = re.findall(r"^\[  FAILED  \] (\S+) \(", output, re.MULTILINE)
        return status == 0, ", ".join(failed) or errors.strip()[-200:]
    raise RuntimeError(f"unknown check {check}")


def protocol_violations(mutant, library, trees):
    """Violations of the launch protocol in the mutant's text, its headers taken from the first of the trees that has them."""
    text = (ROOT / "test/templates/configs" / mutant.fields["Text"]).read_text()
    error, log, ptx, _ = library.compile(text, mutant.fields["Text"], {}, [
        "-std=c++20", "-default-device", "-arch=sm_90a", *[f"-I{tree / 'templates'}" for tree in trees]])
    if error:
        raise RuntimeError(f"does not compile: {error}: {log[:1500]}")
    return protocol.violations(ptx, protocol.declares_counters(text))


def test_protocol_mutant(mutant, options, library):
    """As test_mutant."""
    tree = pathlib.Path(options.work) / mutant.name
    shutil.rmtree(tree, ignore_errors=True)
    try:
        apply_patch(mutant, tree)
        sound = protocol_violations(mutant, library, [ROOT])
        if sound:
            return f"the protocol is broken without the mutant: {sound[0]}", ""
        found = protocol_violations(mutant, library, [tree, ROOT])
    except (RuntimeError, OSError) as error:
        return str(error), ""
    shutil.rmtree(tree)
    return ("", f"protocol.py: {found[0]}") if found else ("survived: protocol.py says nothing", "")


def builder_of(builders, program):
    """The build that has a program: runtime tests are built with sanitizers alone where CI compiles each test once."""
    for builder in builders:
        if (builder.build / "bin" / program).exists():
            return builder
    raise RuntimeError(f"no build has {program}")


def test_mutant(mutant, builders, options, baseline):
    """'' where the mutant was caught, else what went wrong; and what was seen."""
    work = pathlib.Path(options.work) / mutant.name
    shutil.rmtree(work, ignore_errors=True)
    tree, folder = work / "tree", work / "bin"
    tree.mkdir(parents=True)
    folder.mkdir()
    try:
        key, program = " ".join(mutant.check), mutant.fields.get("Program") or mutant.check[1]
        builder = builder_of(builders, program)
        programs = builder.build / "bin" if mutant.check[0] == "unit" else pathlib.Path(options.bin)
        if key not in baseline:
            baseline[key] = run_check(mutant.check, programs, work)
        if not baseline[key][0]:
            return f"the check '{key}' is red without the mutant: {baseline[key][1]}", ""
        apply_patch(mutant, tree)
        for item in programs.iterdir():
            if item.name != program:
                (folder / item.name).symlink_to(item.resolve())
        builder.program(mutant, tree, program, folder / program)
        green, seen = run_check(mutant.check, folder, work)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        return str(error), ""
    if green:
        return f"survived: '{key}' stays green", ""
    shutil.rmtree(work)
    return "", f"{key}: {seen}"


def main():
    arguments = testing.parser(__doc__.splitlines()[0])
    arguments.add_argument("--build", required=True, action="append", help="a build folder (Ninja); the first that has a program counts")
    arguments.add_argument("--all", action="store_true", help="the slow ones too")
    arguments.add_argument("--filter", default="", help="only mutants with this in their name")
    options = arguments.parse_args()
    if not (pathlib.Path(options.build[0]) / "build.ninja").exists():
        print("SKIPPED: the build folder is not Ninja's")
        sys.exit(77)
    # bootstrap puts PyPI's safetensors into this folder.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(pathlib.Path(options.build[0]) / "python"), os.environ.get("PYTHONPATH", "")])
    started = time.time()
    builders = [Builder(folder) for folder in options.build if (pathlib.Path(folder) / "build.ninja").exists()]
    failures, baseline, looked_at = [], {}, 0
    path = nvrtc.find()
    library = nvrtc.Nvrtc(path) if path else None
    listed = set(re.findall(r"^\| ([\w-]+) \|", (HERE / "RESULTS.md").read_text(), re.MULTILINE)) - {"mutant", "---"}
    mutants = load_mutants()
    failures += [f"{name}: RESULTS.md has no row of it" for name in sorted({m.name for m in mutants} - listed)]
    failures += [f"{name}: a row of RESULTS.md without a patch" for name in sorted(listed - {m.name for m in mutants})]
    for mutant in mutants:
        if options.filter not in mutant.name:
            continue
        runs = (mutant.kind == "code" or mutant.kind == "protocol" and library) and (options.all or mutant.quick)
        looked_at += bool(runs)
        # Also those that do not run today must fit the sources.
        try:
            apply_patch(mutant, pathlib.Path(options.work) / "fit")
        except (RuntimeError, OSError) as error:
            looked_at += not runs
            failures.append(f"{mutant.name}: {error}")
            continue
        if not runs:
            continue
        if mutant.kind == "protocol":
            failure, seen = test_protocol_mutant(mutant, options, library)
        else:
            failure, seen = test_mutant(mutant, builders, options, baseline)
        print(f"{'NOT CAUGHT' if failure else 'caught'}  {mutant.name}: {failure or seen}", flush=True)
        if failure:
            failures.append(f"{mutant.name}: {failure}")
    shutil.rmtree(pathlib.Path(options.work) / "fit", ignore_errors=True)
    testing.finish("mutants", looked_at, failures, started, time.time())


if __name__ == "__main__":
    main()
