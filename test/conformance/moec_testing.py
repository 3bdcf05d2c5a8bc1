# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Helpers of the row-driven tests: finding programs, layers as JSON, cases.

A case is one (scheme, backend, engine, activation, routing, bias, shape). All names come from the catalog's tables
(bin/moec-catalog-rows); nothing here lists them.
"""

import argparse
import atexit
import concurrent.futures
import ctypes
import hashlib
import itertools
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys

# Odd on purpose: no tile divides H or I, K does not divide E, one expert alone, more experts than tokens. H is 64 or more: the
# error of a row of fewer numbers is not that of many.
SHAPES = [
    {"num_experts": 5, "top_k": 3, "hidden_size": 72, "intermediate_size": 40},
    {"num_experts": 1, "top_k": 1, "hidden_size": 104, "intermediate_size": 24},
    {"num_experts": 60, "top_k": 4, "hidden_size": 88, "intermediate_size": 56},
    {"num_experts": 8, "top_k": 8, "hidden_size": 136, "intermediate_size": 72},
]


# The same for operands of 8 bits, whose rows are multiples of 16: groups of 128 that end within H and I, gate and up rows
# that begin blocks of their own, tiles that cross a block.
SHAPES_OF_BYTES = [
    {"num_experts": 5, "top_k": 3, "hidden_size": 272, "intermediate_size": 144},
    {"num_experts": 1, "top_k": 1, "hidden_size": 112, "intermediate_size": 400},
    {"num_experts": 60, "top_k": 4, "hidden_size": 144, "intermediate_size": 48},
    {"num_experts": 8, "top_k": 8, "hidden_size": 400, "intermediate_size": 208},
]
SIZES = ("hidden_size", "latent_hidden_size", "intermediate_size", "shared_intermediate_size", "stored_hidden_size",
         "stored_intermediate_size_per_partition")
# Fields of another method than a layer's.
NO_METHOD = dict.fromkeys(("num_expert_group", "topk_group", "hash_vocabulary", "routed_scaling_factor", "apply_routed_scale_to_output",
                           "e_score_correction_bias", "num_sink_experts"))
FLOATS = ("f32", "f16", "bf16")
# Seconds for a file of lines of moec-check: far more than they take.
RUN_LIMIT = 1200
# Bytes in memory for the packages of a test: far more than they need.
ROOM = 1 << 30


def is_emulated(scheme):
    """Whether activations are quantized and dequantized at once."""
    return scheme["dequantizes"] and scheme["a1"] not in FLOATS


def may_multiply_codes(scheme):
    """Whether activations are emulated only where no engine multiplies the codes of both operands."""
    return (scheme["a1"], scheme["a1_columns"], scheme["w1"], scheme["w1_columns"]) == ("f8E4M3FN", -1, "f4E2M1FN", 32)


def multiplied(scheme):
    """The element type of what matmuls multiply."""
    return "bf16" if is_emulated(scheme) else scheme["a1"]


def is_plain(scheme):
    """Whether activations are multiplied as they come, or as what their codes stand for."""
    return multiplied(scheme) in FLOATS


def quantizes_x(scheme):
    """Whether x may come quantized."""
    return scheme["a1"] not in FLOATS


def may_be_ordered(scheme):
    """Whether columns may be in groups that an index says (group_index)."""
    return is_dequantized(scheme) and not is_emulated(scheme) and scheme["w1_columns"] > 0


def shapes(scheme):
    return SHAPES if is_plain(scheme) else SHAPES_OF_BYTES


def is_dequantized(scheme):
    """Whether weights become numbers of the activations' type before they are multiplied."""
    return scheme["dequantizes"]


def reads_fragments(rows, engine):
    """Whether the engine of all tokens reads weights in fragments alone."""
    return any(row["name"] == engine and row["orders"] == ["fragment"] and not row["most_tokens"] for row in rows["engines"])


def takes(rows, engine, activation):
    """Whether the engine serves the activation: one that reads fragments has no registers for some functions without gates."""
    heavy = activation["function"] in ("gelu", "clamped_relu2")
    return not (reads_fragments(rows, engine) and heavy and not activation["gated"])


def in_blocks(layer, scheme=None):
    """The layer's fields with sizes of whole blocks of fragments: 128 columns where codes are multiplied by 8 bits, else 64."""
    block = 128 if scheme and (multiplied(scheme) not in FLOATS or may_multiply_codes(scheme)) else 64
    return {name: -(-value // block) * block if name in SIZES and value else value for name, value in layer.items()}


def sized_for(rows, engine, layer, scheme=None):
    """A layer, or some of its fields, in blocks where the engine reads its weights in fragments alone."""
    few = scheme and is_of_few_tokens(rows, engine) and scheme["w1"] != multiplied(scheme)  # converted weights in fragments
    return in_blocks(layer, scheme) if few or reads_fragments(rows, engine) else layer


def may_read_fragments(rows, engine, scheme):
    """Whether an engine that also reads rows reads the scheme's weights in fragments, where they are whole blocks."""
    return is_dequantized(scheme) and not is_emulated(scheme) and multiplied(scheme) in FLOATS and any(
        row["name"] == engine and set(row["orders"]) == {"rows", "fragment"} for row in rows["engines"])


def shapes_of_way(rows, engine, scheme):
    """The shapes of a scheme for an engine; every second one in blocks where it reads rows and fragments."""
    both = may_read_fragments(rows, engine, scheme)
    return [in_blocks(shape) if both and number % 2 else sized_for(rows, engine, shape, scheme)
            for number, shape in enumerate(shapes(scheme))]


def shared_shape(scheme):
    """A layer that 7 ranks may share by experts or by its intermediate size: then blocks of 128 must be whole."""
    shape = SHAPES[2] if is_plain(scheme) else SHAPES_OF_BYTES[2]
    return {**shape, "intermediate_size": 7 * 128} if scheme["w1"] not in FLOATS else shape


class Tools:
    """The programs under test, in one folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.moec = str(self.folder / "moec")
        self.moec_run = str(self.folder / "moec-run")
        self.moec_check = str(self.folder / "moec-check")
        self.catalog_rows = str(self.folder / "moec-catalog-rows")
        self.library = str(self.folder.parent / "lib" / "libmoec.so")

    def rows(self):
        return json.loads(subprocess.run([self.catalog_rows], check=True, capture_output=True, text=True).stdout)


def parser(description):
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--bin", required=True, help="the folder with moec, moec-run, moec-check and moec-catalog-rows, beside lib")
    result.add_argument("--work", required=True, help="a folder for what is made; kept, so that a failure can be looked at")
    result.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    return result


def runs_all():
    """Whether ./bootstrap test-all runs the tests, which takes its time."""
    return os.environ.get("MOEC_TEST_ALL") == "1"


def run(command, timeout=300, **environment):
    """Exit status, output and errors of a command; a timeout is status 124, and what was printed before it stays."""
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL, env={**os.environ, **environment})
    except subprocess.TimeoutExpired as expired:
        return 124, (expired.stdout or b"").decode(errors="replace"), f"no end after {timeout} s"
    return done.returncode, done.stdout, done.stderr


class Scratch:
    """A folder for packages, in memory where there is room: each of a package's files waits for the disk. It is empty at the start and gone
    at the end; what failed is kept in `work`."""

    def __init__(self, work):
        self.work = self.folder = pathlib.Path(work).resolve()
        self.work.mkdir(parents=True, exist_ok=True)
        memory = pathlib.Path("/dev/shm")
        if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > ROOM:
            self.folder = memory / f"moec-test-{os.getuid()}-{hashlib.sha256(str(self.work).encode()).hexdigest()[:16]}"
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(mode=0o700)
            atexit.register(shutil.rmtree, self.folder, True)

    def keep(self, name, fault):
        """The sentence, None if nothing is wrong, with the folder of this name where it is kept."""
        if fault and self.folder != self.work and (self.folder / name).exists():
            shutil.rmtree(self.work / name, ignore_errors=True)
            shutil.move(self.folder / name, self.work / name)
            fault = fault.replace(str(self.folder), str(self.work))
        return fault


class Library:
    """The compiler in this process."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        self.library.moec_last_error.restype = ctypes.c_char_p
        self.library.moec_package_files_write.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        self.library.moec_package_files_destroy.argtypes = [ctypes.c_void_p]

    def compile(self, layer, words, max_tokens, folder, arch="sm_90a", cubins=False):
        """(exit status, what moec said), as of `moec compile` with these words."""
        options = {"arch": [arch], "max_tokens": max_tokens, "cubin": cubins}
        for word in words:
            name, _, value = word.removeprefix("--").partition("=")
            options[name.replace("-", "_")] = value
        files = ctypes.c_void_p()
        status = self.library.moec_compile_config(json.dumps(layer).encode(), json.dumps(options).encode(), ctypes.byref(files))
        if not status:
            status = self.library.moec_package_files_write(files, str(folder).encode())
            self.library.moec_package_files_destroy(files)
        return (1, self.library.moec_last_error().decode()) if status else (0, "")


def logits_of(routing, dtype):
    """That the logits of a run are of this type, for a method that has some."""
    return [] if routing["select"] == "given" else [f"--logits-dtype={dtype}"]


def fault_of(report, may_lack):
    """None, or what is wrong with the report of a line of moec-check. may_lack: a kind of run that the layer does not have, which is
    refused as usage, is nothing wrong."""
    if may_lack and report["status"] == 2 and "expected" in report.get("error", ""):
        return None
    wrong = [entry for entry in report["runs"] if not entry["passed"]]
    if wrong:
        return str(wrong[0].get("text", wrong[0]))
    if report["status"] or not report["runs"]:
        return f"exit {report['status']}: {report.get('error', '').strip()[-300:]}"
    return None


def emulator_settings(arch, scheme, timing):
    """The words of MOEC_EMULATOR for a package. scheme: its name, or a checkpoint's quantization. Of those, kernels of e2m1 to f16 branch
    on scales of stages that were never filled, and drop what follows."""
    is_sound = scheme is None or isinstance(scheme, str)
    return f"arch={arch} timing={timing} checks={'all' if is_sound else 'races'}"


def run_lines(moec_check, lines, file, may_lack=False, emulator=""):
    """For each line, (package, arguments), None or what is wrong with its checked runs on the host device. One process runs the lines;
    where it ends before they do, a new one goes on behind the line that ended it. emulator: settings of emulated GPUs that run them in
    place of the host device."""
    faults, done = [None] * len(lines), 0
    while done < len(lines):
        file.write_text("".join(" ".join([str(package), *arguments]) + "\n" for package, arguments in lines[done:]))
        device = "emulated" if emulator else "host"
        status, output, errors = run([moec_check, f"--device={device}", "--check", "--json", f"--cases={file}", "--at-once=1"],
                                     RUN_LIMIT, MOEC_JOBS="1", MOEC_EMULATOR=emulator)
        reports = [line for line in errors.splitlines() if line.startswith("emulator:")]
        seen = set()
        for text in output.splitlines():
            try:
                report = json.loads(text)
            except ValueError:
                break
            seen.add(report["line"] - 1)
            fault = fault_of(report, may_lack)
            faults[done + report["line"] - 1] = f"{fault} {reports[0][:300]}" if fault and reports else fault
        missing = [i for i in range(len(lines) - done) if i not in seen]
        if not missing:
            break
        # Lines are told in order: the process ended in the first that was not.
        faults[done + missing[0]] = f"moec-check exited with {status}: {errors.strip()[-300:]}"
        done += missing[0] + 1
    return faults


def compile_lines(moec, lines, file, verb="compile", common=()):
    """For each line, the words of a case, (exit status, what moec said: its text or the error). One process compiles the lines; where it
    ends before they do, a new one goes on behind the line that ended it."""
    outcomes, done = [None] * len(lines), 0
    while done < len(lines):
        file.write_text("".join(" ".join(map(str, words)) + "\n" for words in lines[done:]))
        status, output, errors = run([moec, verb, *common, f"--cases={file}"], RUN_LIMIT)
        if status == 2:
            return [(status, errors.strip())] * len(lines)
        answered = 0
        for text in output.splitlines():
            try:
                answer = json.loads(text)
            except ValueError:
                break  # the process ended within it
            outcomes[done + answered] = answer["status"], answer["error" if answer["status"] else "text"]
            answered += 1
        done += answered
        if done < len(lines):
            outcomes[done] = status, f"moec ended with {status}: {errors.strip()[-300:]}"
            done += 1
    return outcomes


def in_chunks(items, size):
    """The items in lists of at most so many."""
    return [items[i:i + size] for i in range(0, len(items), size)]


def routing_json(shape, routing, more):
    """The options that the method's row takes, as far as the shape allows; `more`: also options beside the method's numbers."""
    experts, topk = shape["num_experts"], shape["top_k"]
    options, fields = routing["options"], {}
    if "scale" in options:
        fields["routed_scaling_factor"] = 2.5
    if "groups" in routing["needs"]:
        fields["num_expert_group"] = math.gcd(experts, topk)
    elif "groups" in options and experts > 1:
        groups = next(n for n in range(2, experts + 1) if experts % n == 0)
        fields["num_expert_group"] = groups
        fields["topk_group"] = max(-(-topk * groups // experts), min(2, groups - 1))
    if more and "expert_scale" in options:
        fields["per_expert_scale"] = True
    if more and "table" in options:
        fields["hash_vocabulary"] = 50
    if more and "scale" in options:
        fields["apply_routed_scale_to_output"] = True
    if "bias" in options and "hash_vocabulary" not in fields:
        fields["e_score_correction_bias"] = True
    if "weight_on_input" in routing["needs"]:
        fields["top_k"] = 1
    if "sinks" in routing["options"]:
        fields["num_sink_experts"] = min(2, max(1, topk - 1))
        fields["top_k"] = max(2, topk)
        fields["num_experts"] = max(2, experts)
    return fields


# How checkpoints store integers; layers of such a scheme have one after the other.
STORED_LAYOUTS = {"i4": ("rows", "gptq", "awq", "pack_quantized", "gptq_v2"), "i8": ("rows", "gptq", "columns", "pack_quantized")}


def stored_layout(name, scheme):
    """The field of a layer of this name and scheme; layers whose names count up share none with their neighbours."""
    layouts = STORED_LAYOUTS.get(scheme["w1"], ("rows",))
    layout = layouts[sum(name.encode()) % len(layouts)]
    return {} if layout == "rows" else {"stored_layout": layout}


def layer_json(name, shape, scheme, activation, routing, bias, logits_type=None):
    """A layer in moec's JSON; `scheme`, `activation` and `routing` are rows."""
    layer = {"moec_layer": 1, "name": name, **shape, "in_dtype": multiplied(scheme) if is_plain(scheme) else "bf16", "activation": activation["name"],
             "routing_method": routing["name"], "quant_config": scheme["name"], "has_bias": bias, **routing_json(shape, routing, bias),
             **stored_layout(name, scheme),
             **({"swiglu_limit": 1.5} if "limit" in activation["parameters"] and (bias or "limit" in activation["needs"]) else {})}
    if logits_type:
        layer["router_logits_dtype"] = logits_type
    return layer


def pairs(rows, every):
    """(activation, method): every pair, or each of both at least once. They are in different kernels."""
    activations, methods = rows["activations"], rows["routing"]
    if every:
        return list(itertools.product(activations, methods))
    return [(activations[i % len(activations)], methods[i % len(methods)])
            for i in range(max(len(activations), len(methods)))]


def ways(rows, scheme, formats=("standard",)):
    """(backend, engine) pairs whose rows admit the scheme's element types, of backends for layers of these formats; the compiler
    has the last word. Engines that multiply only operands with scales of blocks, and those whose accumulators are in tensor memory, have
    cases of their own (block_ways, tensor_memory_ways)."""
    for backend in (row for row in rows["backends"] if row["format"] in formats):
        for engine in rows["engines"]:
            if engine["name"] not in [*backend["engines"], backend["few_tokens"]] or multiplied(scheme) not in engine["elements"]:
                continue
            if not engine["multiplies_plain"] or has_tensor_memory(engine):
                continue
            is_native = scheme["w1"] == multiplied(scheme)
            if engine["most_tokens"] and not is_native and (is_emulated(scheme) or multiplied(scheme) not in ("bf16", "f16")):
                continue  # it converts weights for activations of 16 bits
            if "rows" not in engine["orders"] and not engine["most_tokens"] and (is_native or is_emulated(scheme)):
                continue  # it reads converted weights alone, and activations as they are
            if is_native or scheme["w1"] in engine["weights"]:
                yield backend["name"], engine["name"]


def scales_blocks(scheme, engine):
    """Whether the engine multiplies the scheme's operands with the scales of their blocks."""
    return engine in scheme["block_engines"]


def block_ways(rows):
    """(scheme, backend, engine) of the engines that multiply both operands with the scales of their blocks, and no others."""
    engines = [engine["name"] for engine in rows["engines"] if not engine["multiplies_plain"]]
    for scheme in rows["schemes"]:
        for backend in rows["backends"]:
            for engine in scheme["block_engines"]:
                if engine in engines and engine in backend["engines"]:
                    yield scheme, backend, engine


def has_tensor_memory(engine):
    """Whether the engine's accumulators are in tensor memory."""
    return "tcgen05" in engine["features"]


def tensor_memory_ways(rows, arch):
    """(scheme, backend, engine) of the engines of an arch whose accumulators are in tensor memory."""
    for engine in rows["engines"]:
        if not has_tensor_memory(engine) or not set(engine["features"]) <= set(arch["features"]):
            continue
        for scheme in rows["schemes"]:
            for backend in rows["backends"]:
                is_multiplied = scheme["w1"] == multiplied(scheme) in engine["elements"] or scales_blocks(scheme, engine["name"])
                if engine["name"] in backend["engines"] and is_multiplied:
                    yield scheme, backend, engine["name"]


def ways_on(rows, scheme, arch, formats=("standard",)):
    """The ways whose engine has what it needs of the arch, as a list."""
    features = {row["name"]: row["features"] for row in rows["engines"]}
    return [way for way in ways(rows, scheme, formats) if set(features[way[1]]) <= set(arch["features"])]


def needs(rows, engine, feature):
    """Whether an engine needs this feature of a GPU."""
    return any(row["name"] == engine and feature in row["features"] for row in rows["engines"])


def is_of_few_tokens(rows, engine):
    """Whether the engine serves variants of few tokens alone, beside the one of the others."""
    return any(row["name"] == engine and row["most_tokens"] for row in rows["engines"])


def engine_options(rows, engine):
    """The compiler's options that select the engine; the few-token engine is selected when none is named."""
    return [] if is_of_few_tokens(rows, engine) else [f"--engine={engine}"]


def parallel(function, items, jobs):
    """function(item) for all items on `jobs` threads, results in order."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=jobs) as pool:
        return list(pool.map(function, items))


def finish(name, total, failures, started, now):
    for failure in failures[:20]:
        print(f"FAILED: {failure[:600]}")
    if len(failures) > 20:
        print(f"... and {len(failures) - 20} more")
    print(f"{name}: {total - len(failures)} passed, {len(failures)} failed, {now - started:.1f} s")
    sys.exit(1 if failures or total == 0 else 0)
