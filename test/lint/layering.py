#!/usr/bin/env python3
# ===- layering.py - which room may include which ---------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Quoted includes are spelled from the root of the tree and go only where RULES lets them; see docs/architecture.md.
No header of a product needs a library header that takes a second to parse."""

import re
import sys

from lintlib import CPP, Finding, main, read_lines

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
LLVM = ("mlir/", "llvm/", "mlir-c/", "llvm-c/")
ANY = ("",)

# (files that begin with this, what they may include with quotes, what they may not include at all); the first
# row that fits a file holds.
RULES = [
    # The vocabulary: plain tables. Those of manifests hold lists of words as well.
    ("dialect/catalog/", ("dialect/catalog/", "runtime/support/WordList.h"), LLVM),
    ("dialect/", ("dialect/",) + LLVM, ()),
    # The C ABI of libmoec.so compiles kernels and loads layers, so it meets the whole runtime.
    ("compiler/capi/", ("compiler/", "dialect/", "runtime/", "moec/") + LLVM, ()),
    # The command moec asks the runtime what is here, and shows its cache.
    ("compiler/command/", ("compiler/", "dialect/", "runtime/") + LLVM, ()),
    # The tuner starts processes and compiles kernels as a load does.
    ("compiler/tune/", ("compiler/", "dialect/", "runtime/") + LLVM, ()),
    # Engines and plans know nothing of passes and emitters; emitters print what passes decided.
    ("compiler/matmul/", ("compiler/matmul/", "dialect/catalog/", "dialect/Schedules.h", "runtime/package/", "runtime/support/"), LLVM),
    ("compiler/plan/", ("compiler/matmul/", "compiler/plan/", "dialect/", "runtime/package/", "runtime/support/") + LLVM, ()),
    ("compiler/kernels/", ("compiler/kernels/", "compiler/matmul/", "compiler/plan/", "dialect/", "runtime/package/", "runtime/support/") + LLVM, ()),
    (
        "compiler/emit/",
        ("compiler/emit/", "compiler/kernels/", "compiler/matmul/", "compiler/plan/", "dialect/", "runtime/package/", "runtime/support/") + LLVM,
        (),
    ),
    # A report says what passes decided.
    ("compiler/explain/", ("compiler/CompileOptions.h", "compiler/matmul/", "compiler/explain/", "compiler/html/Numbers.h", "compiler/plan/", "dialect/", "runtime/package/", "runtime/support/") + LLVM, ()),
    # A page is a function of the report's text.
    ("compiler/html/", ("compiler/html/", "compiler/plan/Embedded.h", "dialect/catalog/", "runtime/support/"), LLVM),
    ("compiler/", ("compiler/", "dialect/", "runtime/package/", "runtime/support/") + LLVM, ()),
    # The arithmetic of values also compiles on a host: this header brings what NVRTC has.
    ("templates/moe/math/host.h", ("moe/math/",), LLVM),
    ("templates/moe/math/", ("moe/math/",), ANY),
    # Kernels know nothing but each other.
    ("templates/", ("moe/",), ANY),
    ("runtime/include/", ("moec/",), LLVM),
    ("runtime/support/", ("runtime/support/",), LLVM),
    ("runtime/package/", ("runtime/package/", "runtime/support/"), LLVM),
    # Kernels and the runtime share what ranks tell each other.
    (
        "runtime/comm/",
        ("runtime/comm/", "runtime/cuda/", "runtime/package/", "runtime/support/", "templates/moe/math/exchange.cuh"),
        LLVM,
    ),
    # The host device computes values as kernels do.
    ("runtime/host/", ("runtime/", "moec/", "templates/moe/math/host.h"), LLVM),
    ("runtime/", ("runtime/", "moec/"), LLVM),
    ("tools/device/", ("tools/device/", "runtime/"), LLVM),
    # moec-run --check compares with the reference.
    ("tools/moec-run/", ("tools/device/", "tools/moec-run/", "runtime/", "test/reference/"), LLVM),
    # moec-measure is moec-run for a tuner.
    ("tools/moec-measure/", ("tools/device/", "tools/moec-measure/", "tools/moec-run/", "runtime/"), LLVM),
    ("tools/", ("tools/", "compiler/", "dialect/", "runtime/") + LLVM, ()),
    # The reference shares no code with what it judges.
    ("test/reference/", ("test/reference/", "runtime/package/", "runtime/support/"), LLVM),
    ("test/templates/configs/", ("moe/",), ANY),
    # moec-check is moec-run with the checks that tests need.
    ("test/check/", ("test/check/", "test/reference/", "tools/device/", "tools/moec-run/", "runtime/"), LLVM),
    ("test/tools/", ("test/", "tools/", "runtime/"), LLVM),
    ("test/bench/", ("test/", "bench/", "tools/device/", "runtime/", "moec/", "dialect/") + LLVM, ()),
    # Conversions by integer arithmetic are tested on the host.
    ("test/templates/", ("test/", "tools/device/", "runtime/", "templates/"), LLVM),
    ("test/", ("test/", "runtime/", "moec/", "compiler/", "dialect/") + LLVM, ()),
    ("bench/", ("bench/", "test/reference/", "tools/device/", "runtime/", "moec/", "compiler/", "dialect/") + LLVM, ()),
    # Over the C ABI alone, as an engine would.
    ("examples/", ("examples/", "moec/"), LLVM),
]
# Exceptions, each with its reason.
ALLOWED = {
    # Cubins ahead of time come from the same recipe, cache and NVRTC as at load.
    ("compiler/Compiler.cpp", "runtime/jit/"),
    # The default of --gpu is the GPU that is here.
    ("compiler/TargetNames.cpp", "runtime/cuda/"),
}
# Rooms in which no file needs itself: a source and its header are one file.
ACYCLIC = ("dialect/", "compiler/", "runtime/", "tools/")
# Opened with dlopen; their headers would make a build need a toolkit.
TOOLKIT = re.compile(r"^(cuda(_\w+)?\.h|nvrtc\.h|nccl\.h|nvJitLink\.h|cuda/.*)$")
# A header that needs one of these costs every source a second; the light header suffices for declarations.
HEAVY = {"nlohmann/json.hpp": "nlohmann/json_fwd.hpp", "fmt/format.h": "fmt/core.h", "fmt/ranges.h": "fmt/core.h"}
LIGHT_HEADERS = ("dialect/", "compiler/", "runtime/", "tools/", "bench/", "test/reference/")
ROOMS = ("dialect/", "compiler/", "runtime/", "templates/", "test/", "bench/", "examples/", "tools/")


def circles(root, files):
    """The includes of a file that lead back to it."""
    includes = {}  # of a file without its suffix: (path, line, file)
    for path in files:
        if path.startswith(ACYCLIC) and path.endswith((".h", ".cpp")):
            for number, line in enumerate(read_lines(root, path), 1):
                match = INCLUDE.match(line)
                if match and match.group(2).startswith(ACYCLIC) and match.group(2).endswith(".h"):
                    includes.setdefault(path.rsplit(".", 1)[0], []).append((path, number, match.group(2)[:-2]))
    reached = {}
    for start in includes:
        seen, pending = set(), [start]
        while pending:
            for _, _, name in includes.get(pending.pop(), ()):
                if name not in seen:
                    seen.add(name)
                    pending.append(name)
        reached[start] = seen
    for start, its in includes.items():
        for path, number, name in its:
            if name != start and start in reached.get(name, ()):
                yield Finding(path, number, f'includes "{name}.h", which needs {start}: two files that need each other are one, or three')


def heavy_headers(root, files):
    """Headers that include one of HEAVY, directly or through other headers."""
    headers = [path for path in files if path.endswith(".h")]
    includes = {}  # of a header: (line, quote, name)
    for path in headers:
        matches = ((number, INCLUDE.match(line)) for number, line in enumerate(read_lines(root, path), 1))
        includes[path] = [(number, *match.groups()) for number, match in matches if match]

    def reached(path, seen):
        """(line of path, heavy header) for each include that leads to one."""
        for number, quote, name in includes.get(path, ()):
            if quote == "<" and name in HEAVY:
                yield number, name
            elif quote == '"' and name not in seen:
                seen.add(name)
                for _, heavy in reached(name, seen):
                    yield number, heavy

    for path in headers:
        if path.startswith(LIGHT_HEADERS):
            for number, heavy in reached(path, {path}):
                yield Finding(path, number, f"needs <{heavy}>, which every source that includes it then parses; declare with <{HEAVY[heavy]}>")


def check(root, files):
    yield from heavy_headers(root, files)
    yield from circles(root, files)
    existing = set(files)
    for path in files:
        if not path.endswith(CPP):
            continue
        rule = next((rule for rule in RULES if path.startswith(rule[0])), None)
        if rule is None:
            yield Finding(path, 1, "C++ outside of the rooms that RULES in test/lint/layering.py names")
            continue
        _, allowed, forbidden = rule
        lines = read_lines(root, path)
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, name = match.groups()
            # Tests may compare our declarations with the toolkit's, where there is one.
            optional = path.startswith("test/") and f"__has_include(<{name}>)" in lines[number - 2]
            if TOOLKIT.match(name) and not optional:
                yield Finding(path, number, f"includes {name}: the toolkit is opened at run time, its declarations are our own")
            elif quote == "<":
                if name.startswith(ROOMS):
                    yield Finding(path, number, f"includes <{name}>: our own headers take quotes")
                elif forbidden and name.startswith(forbidden):
                    yield Finding(path, number, f"includes <{name}>: {rule[0]} may include only {', '.join(allowed)}")
            elif any(path == file and name.startswith(prefix) for file, prefix in ALLOWED):
                continue
            elif not name.startswith(allowed):
                yield Finding(path, number, f'includes "{name}": {rule[0]} may include only {", ".join(allowed)}')
            elif name.startswith(ROOMS) and name not in existing and not name.endswith(".inc"):
                yield Finding(path, number, f'includes "{name}", which does not exist (spell it from the root of the tree)')


if __name__ == "__main__":
    sys.exit(main(check))
