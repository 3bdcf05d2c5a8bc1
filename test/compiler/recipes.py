#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Follows docs/how-to/add-an-engine.md, add-a-stage.md and add-other-things.md with stubs. The files that a recipe names are written to a
folder that is searched before the tree, and the files that depend on them are compiled with -fsyntax-only. Then each member or step is left
out, and the first error must name it. test/templates/contract.py has the half of an engine that is in templates/."""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENGINE_ROW = '    {.name = "stub", .elements = "bf16", .policy = "moe::mma::Stub", .priority = -2},\n'
# Each virtual member that Engine.h asks for.
ENGINE_MEMBERS = {
    "tileRules": "std::span<const TileRule> tileRules() const override { return kRules; }",
    "possibleTileRows": 'std::string possibleTileRows(const MatmulProblem &) const override { return "64"; }',
    "candidates": "std::vector<Schedule> candidates(const MatmulProblem &, const Hardware &) const override { return {}; }",
    "whyIllegal": "std::optional<std::string> whyIllegal(const MatmulProblem &, const Schedule &) const override { return {}; }",
    "whyGroupsApart": "std::optional<std::string> whyGroupsApart(const MatmulProblem &) const override { return {}; }",
    "isPersistent": "bool isPersistent() const override { return false; }",
    "sharedBytes": "int64_t sharedBytes(const MatmulProblem &, const Schedule &) const override { return 0; }",
    "registers": "int64_t registers(const MatmulProblem &, const Schedule &) const override { return 64; }",
    "ctasPerSm": "int64_t ctasPerSm(const MatmulProblem &, const Schedule &, const Hardware &) const override { return 1; }",
    "cost": "EngineCost cost(const MatmulProblem &, const Schedule &, const Hardware &, const MatmulWork &) const override { return {}; }",
    "mma": 'std::string mma(const MatmulProblem &, const Schedule &, std::string_view, bool) const override { return "moe::mma::Stub"; }',
    "setWarps": "void setWarps(Schedule &, const ScheduleChoice &, const MatmulProblem &, const Hardware &) const override {}",
}
STAGE_ROW = '    {.op = "stub", .operands = "source", .results = "destination", .attributes = "rows:integer"},\n'
KIND_ROW = ('    {.name = "stub", .header = "stub.cuh", .function = "stub", .stages = "stub", .arguments = "source destination tokens",\n'
            '     .members = "Input:source rows", .grid = "{rows}"},\n')
KIND_FILE = """#include "compiler/kernels/Kind.h"
using namespace moec;
using namespace moec::compiler;
static void planStub(moe::KernelOp, LaunchPlan &plan) { plan.grid = Expression(1); }
constexpr Kind compiler::kernels::stub = {.names = "stub", .plan = planStub};
"""
OP = """
def Moe_StubOp : Moe_StageOp<"stub", [Pure]> {
  let summary = "a stage that a test adds";
  let arguments = (ins Moe_IntAttr:$rows, Moe_Int32s:$source);
  let results = (outs Moe_Int32s:$destination);
  let assemblyFormat = "`rows` `=` $rows $source attr-dict `:` functional-type(operands, results)";
}
"""
STAGE_FUNCTION = """#include "runtime/host/KernelRun.h"
#include "dialect/catalog/Kernels.h"
using namespace moec;
using namespace moec::host;
static_assert(catalog::find(catalog::kKernelKinds, "stub"), "no row of Kernels.h has the stage");
Result<void> stages::stub(KernelRun &run) {
  View source = TRY(run.needed("source", 1, run.integer("rows")));
  (void)source;
  return {};
}
"""


def engine_class(left_out=""):
    members = "\n  ".join(text for name, text in ENGINE_MEMBERS.items() if name != left_out)
    return f"""class Stub final : public Engine {{
public:
  Stub() : Engine("stub") {{}}
  static constexpr TileRule kRules[] = {{{{.when = {{}}, .then = {{.rows = 64}}}}}};
  {members}
}};
"""


class Overlay:
    """Files of the tree with additions, in a folder that the compiler looks into first."""

    def __init__(self, folder, compiler, build):
        self.folder, self.command = pathlib.Path(folder), [
            compiler, "-std=c++20", "-fsyntax-only", f"-I{folder}", f"-I{ROOT}", f"-I{ROOT / 'runtime/include'}", f"-I{build}"]

    def write(self, path, text):
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return target

    def add(self, path, after, addition):
        """A copy of the tree's file with more text after the first place of `after`."""
        text = (ROOT / path).read_text(encoding="utf-8")
        if after not in text:
            sys.exit(f"{path}: expected {after!r}, which the recipe of this test adds to")
        return self.write(path, text.replace(after, after + addition, 1))

    def errors(self, path):
        """The errors of the compiler, each with its notes."""
        done = subprocess.run([*self.command, str(path)], capture_output=True, text=True)
        said = re.split(r"^(?=\S+: (?:fatal )?error: )", done.stderr, flags=re.M)[1:]
        return said if done.returncode else []


def check_engine(overlay):
    header = re.sub("//.*", "", (ROOT / "compiler/matmul/Engine.h").read_text(encoding="utf-8"))
    asked = set(re.findall(r"(\w+)\([^;{}]*\)\s*const = 0;", header))
    if asked != set(ENGINE_MEMBERS):
        yield f"Engine.h asks for {sorted(asked - set(ENGINE_MEMBERS))}, this test has {sorted(set(ENGINE_MEMBERS) - asked)} in addition"
    names = [path.stem for path in sorted((ROOT / "compiler/matmul").glob("[a-z]*.cpp"))]
    registry = overlay.write("compiler/matmul/Engines.inc", "".join(f"MOEC_ENGINE({name})\n" for name in [*names, "stub"]))
    begin = '#include "compiler/matmul/Engine.h"\nusing namespace moec;\nusing namespace moec::compiler;\n'
    make = "static const Stub engine;\n  return engine;\n}\n"
    stub = overlay.write("compiler/matmul/stub.cpp", begin + engine_class() + "const Engine &engines::stub() {\n  " + make)
    engine = ROOT / "compiler/matmul/Engine.cpp"

    # A file without a row, a row without a file.
    yield from expect("an engine without a row", overlay.errors(engine), "compiler/matmul/stub.cpp has no row in Engines.h")
    overlay.add("dialect/catalog/Engines.h", "inline constexpr Engine kEngines[] = {\n", ENGINE_ROW)
    for path in (stub, engine):
        yield from (f"with the stub engine: {error}" for error in overlay.errors(path))
    registry.write_text("".join(f"MOEC_ENGINE({name})\n" for name in names))
    yield from expect("an engine without a file", overlay.errors(engine), "a row of Engines.h has no file in compiler/matmul")

    # One class for each member that is left out; one compilation of all.
    missing = "".join(f"namespace without_{name} {{\n{engine_class(name)}const Engine &make() {{\n  {make}}}\n" for name in ENGINE_MEMBERS)
    errors = overlay.errors(overlay.write("compiler/matmul/missing.cpp", begin + missing))
    for name in ENGINE_MEMBERS:
        of_class = [error for error in errors if re.search(rf"without_{name}\b", error.splitlines()[0])]
        yield from expect(f"an engine without {name}", of_class, f"{name}(")


def mlir_headers(tablegen):
    return pathlib.Path(tablegen).resolve().parent.parent / "include"


def check_stage(overlay, tablegen):
    path = "runtime/package/Stages.h"
    table, names = "inline constexpr StageKind kStageKinds[] = {\n", "#define MOEC_STAGES(STAGE) \\\n"
    text = re.sub(r"(#define MOEC_STAGES\(STAGE\)) +\\\n", r"\1 \\\n", (ROOT / path).read_text(encoding="utf-8"))
    with_row, with_both = text.replace(table, table + STAGE_ROW, 1), text.replace(table, table + STAGE_ROW, 1)
    with_both = with_both.replace(names, names + "  STAGE(stub) \\\n", 1)
    host = overlay.write("runtime/host/Stub.cpp", STAGE_FUNCTION)
    overlay.write(path, with_both)
    yield from expect("a stage without a kind of kernel", overlay.errors(host), "no row of Kernels.h has the stage")
    overlay.add("dialect/catalog/Kernels.h", "inline constexpr KernelKind kKernelKinds[] = {\n", KIND_ROW)
    yield from (f"with the stub stage: {error}" for error in overlay.errors(host))
    overlay.write(path, with_row)
    yield from expect("a stage without its name in MOEC_STAGES", overlay.errors(host), "each row has a function of the host device")
    overlay.write(path, text.replace(names, names + "  STAGE(stub) \\\n", 1))
    yield from expect("a stage without a row in Stages.h", overlay.errors(host), "MOEC_STAGES has stub, and kStageKinds has no row of it")

    if not tablegen:
        return
    ops = overlay.write("dialect/MoeStageOps.td", (ROOT / "dialect/MoeStageOps.td").read_text(encoding="utf-8").replace(
        "\ndef Moe_AmaxOp", OP + "\ndef Moe_AmaxOp", 1))
    # An include is looked for in the working folder first.
    command = [tablegen, "-gen-op-decls", f"-I{overlay.folder}", f"-I{ROOT}", f"-I{mlir_headers(tablegen)}",
               str(ROOT / "dialect/MoeOps.td")]
    done = subprocess.run(command, cwd=overlay.folder, capture_output=True, text=True)
    if done.returncode or "class StubOp" not in done.stdout:
        yield f"mlir-tblgen makes no StubOp: {done.stderr[:500]}"
    ops.write_text(ops.read_text(encoding="utf-8").replace("$source attr-dict", "$sauce attr-dict", 1))
    done = subprocess.run(command[:1] + ["-gen-op-defs"] + command[2:], cwd=overlay.folder, capture_output=True, text=True)
    yield from expect("an op whose format names no operand", done.stderr.split("error: ")[1:], "sauce")


def check_kind(overlay, tablegen):
    overlay.command += ["-isystem", str(mlir_headers(tablegen))]
    row = "inline constexpr KernelKind kKernelKinds[] = {\n"
    path = "compiler/kernels/stub.cpp"
    overlay.write("compiler/kernels/Kinds.inc", "MOEC_KERNEL(stub)\n")
    stub = overlay.write(path, KIND_FILE)
    yield from expect("rules of a kind without a row", overlay.errors(stub), "no row of Kernels.h has the name")
    overlay.add("dialect/catalog/Kernels.h", row, KIND_ROW)
    yield from (f"with the stub kind: {error}" for error in overlay.errors(stub))


def expect(what, errors, wanted):
    if not errors:
        yield f"{what} compiles"
    elif wanted not in errors[0]:
        yield f"{what}: expected the first error to say '{wanted}', got: {errors[0][:600]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler", default="c++", help="a C++ compiler")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the build folder, for headers that it generates")
    parser.add_argument("--tablegen", default="", help="mlir-tblgen; without it the op and the kind are left out")
    options = parser.parse_args()
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        overlay = Overlay(folder, options.compiler, options.build)
        failures += check_engine(overlay)
    with tempfile.TemporaryDirectory() as folder:
        failures += check_stage(Overlay(folder, options.compiler, options.build), options.tablegen)
    with tempfile.TemporaryDirectory() as folder:
        failures += check_kind(Overlay(folder, options.compiler, options.build), options.tablegen) if options.tablegen else []
    print("\n".join(failures))
    print(f"recipes: {len(ENGINE_MEMBERS)} members of an engine, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
