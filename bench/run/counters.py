#!/usr/bin/env python3
# ===- counters.py - what each kernel moved and multiplied --------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Runs Nsight Compute on one layer of moec-bench and prints, kernel by kernel, the time, the bytes between memory, L2 and
SMs, and how busy the tensor cores were, beside the bytes that the floor counts.

  bench/run/counters.py PACKAGE --tokens=128,8192 [--bench=./moec-bench] [--ncu=ncu] [--keep=FOLDER] [--json=FILE]
  bench/run/counters.py PACKAGE --tokens=128 --csv=FILE     reads what an earlier run kept; needs no GPU

Each kernel is run by itself with an empty L2 cache, some times over: what one kernel leaves in the cache for the next is not
seen, and the times are not those of moec-bench, in which kernels overlap. Clocks are left as they are. Metrics that the GPU
does not have are left out. All token counts are one run of the program. What bounds a kernel is said by the rule of bound_by().
Exit status 77 where there is no Nsight Compute."""

import argparse
import csv
import json
import os
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# The counters to ask for, if the GPU has them: (key, metric).
METRICS = (
    ("ns", "gpu__time_duration.sum"),
    ("memory_read", "dram__bytes_read.sum"),
    ("memory_written", "dram__bytes_write.sum"),
    ("l2_sectors_read", "lts__t_sectors_op_read.sum"),
    ("l2_sectors_written", "lts__t_sectors_op_write.sum"),
    ("l2_hit_percent", "lts__t_sector_hit_rate.pct"),
    ("l2_to_sm_bytes", "l1tex__m_xbar2l1tex_read_bytes.sum"),
    ("tensor_percent", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"),
    ("l2_percent", "lts__t_sectors.avg.pct_of_peak_sustained_elapsed"),
    ("fabric_percent", "l1tex__m_xbar2l1tex_read_sectors.avg.pct_of_peak_sustained_elapsed"),
    ("shared_read_percent", "l1tex__data_bank_reads.avg.pct_of_peak_sustained_elapsed"),
    ("shared_write_percent", "l1tex__data_bank_writes.avg.pct_of_peak_sustained_elapsed"),
    ("shared_lsu_percent", "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed"),
    ("issue_percent", "smsp__issue_active.avg.pct_of_peak_sustained_elapsed"),
    ("sm_active_percent", "sm__cycles_active.avg.pct_of_peak_sustained_elapsed"),
)
# Samples of what warps wait for; one pass for all reasons, which Nsight Compute's listing does not name.
STALL_GROUP = "group:smsp__pcsamp_warp_stall_reasons"
STALL = re.compile(r"^smsp__pcsamp_warps_issue_stalled_(?!selected|not_selected)(\w+?)(?<!_not_issued)$")
SM_COUNT = "device__attribute_multiprocessor_count"
# GB/s of a kernel that only reads, on an H100 SXM (bench/program/read.cu).
PURE_READ = 3080
# Every GPU since sm_70 has these; they serve if it refuses the others.
CERTAIN = ("ns", "memory_read", "memory_written", "l2_sectors_read", "l2_sectors_written")
SECTOR = 32
# Factors from the units that Nsight Compute prints to bytes or nanoseconds.
UNITS = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "nsecond": 1, "usecond": 1e3, "msecond": 1e6, "second": 1e9,
         "ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "sector": 1, "Ksector": 1e3, "Msector": 1e6}
BITS = {"f32": 32, "i32": 32, "bf16": 16, "f16": 16, "f8E4M3FN": 8, "i64": 64}


def available(listing, metrics=METRICS):
    """The metrics whose base name stands in the output of `ncu --query-metrics`."""
    names = {line.split()[0] for line in listing.splitlines() if line.split()}
    return [(key, metric) for key, metric in metrics if metric.split(".")[0] in names]


def parse_csv(text, metrics=METRICS):
    """[{"entry": kernel, key: number}] of `ncu --csv`, pages `raw` and `details`, in the order of the launches."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        told = [line for line in lines if "==ERROR==" in line or "==WARNING==" in line]
        raise ValueError("Nsight Compute wrote no table" + (f": {told[0]}" if told else ""))
    rows = list(csv.DictReader(line for line in lines[start:] if line.startswith('"')))
    keys = {metric: key for key, metric in metrics}
    launches = {}

    def note(row, metric, unit, value):
        entry = launches.setdefault(int(row["ID"]), {"entry": row["Kernel Name"].split("(")[0].strip()})
        stall = STALL.match(metric)
        try:
            number = float(value.replace(",", "")) * UNITS.get(unit, 1)
        except ValueError:
            return  # "n/a", or a counter that this pass could not read
        if stall:
            entry.setdefault("stalls", {})[stall[1]] = number
        else:
            entry[keys[metric]] = number
        if row.get("Grid Size"):
            entry["ctas"] = math.prod(map(int, re.findall(r"\d+", row["Grid Size"])))

    if rows and "Metric Name" in rows[0]:
        for row in rows:
            if row["Metric Name"] in keys or STALL.match(row["Metric Name"]):
                note(row, row["Metric Name"], row["Metric Unit"], row["Metric Value"])
    elif rows:
        units = rows[0]  # the second line of page raw has them, and no ID
        for row in rows[1:]:
            for metric in row:
                if row[metric] and (metric in keys or STALL.match(metric)):
                    note(row, metric, units[metric], row[metric])
            if row.get(SM_COUNT) and int(row["ID"]) in launches:
                launches[int(row["ID"])]["sms"] = int(row[SM_COUNT])
    return [launches[index] for index in sorted(launches)]


def target_of(manifest, arch=None):
    for target in manifest["targets"]:
        if arch in (None, target["arch"]):
            return target
    raise ValueError(f"the package has no target {arch}")


def variant_of(target, tokens, name=""):
    for variant in target["variants"]:
        if variant["name"] == name or not name and variant["min_tokens"] <= tokens <= variant["max_tokens"]:
            return variant
    raise ValueError(f"no variant {name or f'for {tokens} tokens'}")


def launches_of(target, variant):
    """[(short name, entry, stages)] in the order they run."""
    kernels = {kernel["name"]: kernel for kernel in target["kernels"]}
    result = []
    for launch in variant["launches"]:
        kernel = kernels[launch["kernel"]]
        short = kernel["name"]
        for other in target["variants"]:  # a kernel that variants share is named after one of them
            short = short.removeprefix(other["name"] + "_")
        result.append((short, kernel["entry"], kernel["stages"]))
    return result


def scale_bytes(attributes):
    """The bytes of an expert's scales: f32, one for each group of `rhs_group_rows` x `rhs_group_columns`."""
    rows, columns = (max(attributes.get(f"rhs_group_{side}", 0), 0) for side in ("rows", "columns"))
    if not rows and not columns:
        return 0
    return 4 * -(-attributes["n"] // (rows or attributes["n"])) * -(-attributes["k"] // (columns or attributes["k"]))


def is_of_x(stage):
    """Whether a stage quantizes x: t is quantized by sorted row, or where it is made."""
    return "offsets" not in stage["operands"] and not stage["operands"].get("input", "").startswith("%")


def floor_bytes(stages, layer, tokens, touched, weight_bits):
    """The bytes that the floor counts of a launch: weights and scales of the touched experts, x, logits and out; no intermediates."""
    counted = 0
    input_bits = BITS.get(layer.get("in_dtype"), 16)
    for stage in stages:
        attributes = stage["attributes"]
        if stage["op"] == "grouped_matmul":
            counted += touched * (attributes["n"] * attributes["k"] * weight_bits // 8 + scale_bytes(attributes))
            if attributes.get("gather") and "lhs_scale" not in stage["operands"]:
                counted += tokens * attributes["k"] * input_bits // 8
        elif stage["op"] == "quantize" and is_of_x(stage):
            counted += tokens * layer["hidden_size"] * input_bits // 8
        elif stage["op"] == "route":
            counted += tokens * layer["num_experts"] * BITS.get(layer.get("router_logits_dtype"), 16) // 8
        elif stage["op"] in ("combine", "combine_normed", "combine_constants"):
            counted += tokens * layer["hidden_size"] * input_bits // 8
    return counted


def weight_bits_of(target, manifest):
    for value in [*target.get("values", []), *manifest.get("values", [])]:
        if value["role"] == "packed_weight" or value["role"] == "stored_weight" and value["name"] == "w13":
            return BITS.get(value["element_types"][0], 16)
    return BITS.get(manifest["layer"].get("in_dtype"), 16)


def kernels_of(manifest, tokens, rows, touched, arch=None, variant=""):
    """The table: each launch with its counters. Launches that were not seen are left out."""
    target = target_of(manifest, arch)
    bits = weight_bits_of(target, manifest)
    rest, table = list(rows), []
    for short, entry, stages in launches_of(target, variant_of(target, tokens, variant)):
        row = next((row for row in rest if row["entry"] == entry), None)
        if not row:
            continue
        rest.remove(row)
        kernel = {"kernel": short, **row}
        for side in ("read", "written"):
            if f"l2_sectors_{side}" in kernel:
                kernel[f"l2_{side}"] = kernel.pop(f"l2_sectors_{side}") * SECTOR
        if touched is not None:
            kernel["floor_bytes"] = floor_bytes(stages, manifest["layer"], tokens, touched, bits)
        if kernel.get("ns"):
            kernel["memory_gbs"] = (kernel.get("memory_read", 0) + kernel.get("memory_written", 0)) / kernel["ns"]
        if shared_percent(kernel) is not None:
            kernel["shared_percent"] = shared_percent(kernel)
        kernel["bound_by"] = bound_by(kernel)
        table.append(kernel)
    return table


def shared_percent(kernel):
    """The busy share of shared memory: that of its banks or of its load-store pipe, whichever is more."""
    banks = [kernel[key] for key in ("shared_read_percent", "shared_write_percent") if key in kernel]
    every = ([sum(banks)] if banks else []) + ([kernel["shared_lsu_percent"]] if "shared_lsu_percent" in kernel else [])
    return max(every) if every else None


def waits_of(kernel, most=2):
    """"long_scoreboard 41, barrier 20": the commonest reasons for which warps did not issue, in % of the samples."""
    stalls = kernel.get("stalls", {})
    total = sum(stalls.values())
    first = sorted(stalls, key=lambda name: -stalls[name])[:most] if total else []
    return ", ".join(f"{name} {100 * stalls[name] / total:.0f}" for name in first)


def bound_by(kernel, pure_read=PURE_READ):
    """The bound of a kernel, by its counters alone; the first that holds:

    memory     read and written at 90 % of a pure read or more
    L2         its sectors, or the way from it to the SMs, busy 80 % or more
    shared     shared memory busy 80 % or more
    tensor     tensor cores active 80 % or more
    issue      a warp issued in 80 % of the cycles or more
    few CTAs   fewer CTAs than SMs, or SMs without any for a third of the time
    latency    none of these: warps wait, and what is nearest to a limit is named
    """
    limits = {"memory": 100 * kernel.get("memory_gbs", 0) / pure_read,
              "L2": max(kernel.get("l2_percent", 0), kernel.get("fabric_percent", 0)), "shared": shared_percent(kernel) or 0,
              "tensor": kernel.get("tensor_percent", 0), "issue": kernel.get("issue_percent", 0)}
    for name, percent in limits.items():
        if percent >= (90 if name == "memory" else 80):
            return name
    nearest = max(limits, key=limits.get)
    word = "latency"
    if kernel.get("ctas", math.inf) < kernel.get("sms", 0) or kernel.get("sm_active_percent", 100) < 67:
        word = "few CTAs"
    return f"{word} ({nearest} {limits[nearest]:.0f} %)"


COLUMNS = (("us", "ns", 1e3, 1), ("mem rd MB", "memory_read", 1e6, 1), ("mem wr MB", "memory_written", 1e6, 1),
           ("floor MB", "floor_bytes", 1e6, 1), ("GB/s", "memory_gbs", 1, 0), ("L2 rd MB", "l2_read", 1e6, 1),
           ("L2 wr MB", "l2_written", 1e6, 1), ("L2>SM MB", "l2_to_sm_bytes", 1e6, 1), ("L2 hit %", "l2_hit_percent", 1, 1),
           ("L2 %", "l2_percent", 1, 1), ("shared %", "shared_percent", 1, 1), ("tensor %", "tensor_percent", 1, 1),
           ("issue %", "issue_percent", 1, 1), ("SMs %", "sm_active_percent", 1, 1))


def lines(report):
    touched = report.get("touched_experts")
    yield (f"{report['name']} {report['scheme']}, {report['tokens']} tokens" +
           (f", {touched:.0f} experts touched" if touched is not None else ""))
    yield f"  {'kernel':<16}" + "".join(f"{title:>10}" for title, *_ in COLUMNS) + "  bound by; warps wait for"
    for kernel in report["kernels"]:
        waits = waits_of(kernel)
        yield f"  {kernel['kernel']:<16}" + "".join(
            f"{kernel[key] / scale:>10.{digits}f}" if key in kernel else f"{'-':>10}" for _, key, scale, digits in COLUMNS
        ) + f"  {kernel['bound_by']}" + (f"; {waits}" if waits else "")
    sums = {key: sum(kernel.get(key, 0) for kernel in report["kernels"])
            for key in ("ns", "memory_read", "memory_written", "floor_bytes")}
    yield (f"  all: {sums['ns'] / 1e3:.1f} us one after another, {sums['memory_read'] / 1e6:.1f} MB read and "
           f"{sums['memory_written'] / 1e6:.1f} MB written; the floor counts {sums['floor_bytes'] / 1e6:.1f} MB")


def split(rows, launches):
    """The rows of each token count, where {count: its launches} ran one after another."""
    result, rest = {}, list(rows)
    for count, expected in launches.items():
        result[count], rest = rest[:len(expected)], rest[len(expected):]
        entries = [entry for _, entry, _ in expected]
        seen = [row["entry"] for row in result[count]]
        if seen != entries[:len(seen)]:
            raise ValueError(f"{count} tokens: expected the launches {', '.join(entries)}, got {', '.join(seen)}")
    return result


def run_ncu(options, manifest, tokens, metrics, keep):
    """{token count: (counters of its launches, touched experts or None)} of one run of the program."""
    target = target_of(manifest, options.arch)
    launches = {count: launches_of(target, variant_of(target, count, options.variant)) for count in tokens}
    words = ",".join(map(str, tokens))
    log = keep / f"counters-{pathlib.Path(options.package).name}-{words.replace(',', '-')}.csv"
    log.unlink(missing_ok=True)
    names = "|".join(sorted({entry for every in launches.values() for _, entry, _ in every}))
    # Nothing is timed: each layer runs once, to count its experts.
    command = [options.ncu, "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base", "--kernel-name-base",
               "function", "--kernel-name", f"regex:^({names})$", "--launch-count", str(sum(map(len, launches.values()))),
               "--metrics", ",".join(metrics), "--log-file", str(log), options.bench, options.package,
               f"--tokens={words}", "--repeats=1", "--passes=0", "--json"]
    command += [f"--variant={options.variant}"] if options.variant else []
    done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout, check=False)
    rows = split(parse_csv(log.read_text(encoding="utf-8") if log.exists() else done.stdout + done.stderr), launches)
    touched = {}
    try:
        cells = json.loads(done.stdout[done.stdout.index("{"):done.stdout.rindex("}") + 1])["packages"][0]["cells"]
        touched = {cell["tokens"]: cell["touched_experts"] for cell in cells}
    except (ValueError, KeyError, IndexError):
        pass  # the counters are whole all the same
    return {count: (rows[count], touched.get(count)) for count in tokens}


def measure(options, manifest, tokens, keep):
    listed = options.metrics and options.metrics.exists()
    listing = options.metrics.read_text(encoding="utf-8") if listed else subprocess.run(
        [options.ncu, "--query-metrics"], capture_output=True, text=True, timeout=120, check=False).stdout
    if options.metrics and not listed:
        options.metrics.write_text(listing, encoding="utf-8")
    certain = [metric for key, metric in METRICS if key in CERTAIN]
    found = [metric for _, metric in available(listing)] or certain
    tries = [[*found, STALL_GROUP], found, certain]
    for index, metrics in enumerate(tries):
        try:
            return run_ncu(options, manifest, tokens, metrics, keep)
        except (ValueError, subprocess.TimeoutExpired) as error:
            if index + 1 == len(tries) or isinstance(error, subprocess.TimeoutExpired):
                raise
            print(f"counters.py: {error}; once more with fewer metrics", file=sys.stderr)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", help="a folder that moec compile wrote")
    parser.add_argument("--tokens", default="128", help="token counts, separated by commas")
    parser.add_argument("--bench", default="./moec-bench")
    parser.add_argument("--ncu", default="ncu")
    parser.add_argument("--variant", default="", help="forces a variant")
    parser.add_argument("--arch", help="the package's target; default: its first")
    parser.add_argument("--csv", type=pathlib.Path, help="a recorded table, of one token count, in place of a run")
    parser.add_argument("--touched", type=float, help="with --csv: local experts that were touched")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for Nsight Compute's tables")
    parser.add_argument("--json", type=pathlib.Path, help="a file for the numbers")
    parser.add_argument("--metrics", type=pathlib.Path, help="a file for the list of the GPU's metrics; read where it is there")
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one run of the program")
    options = parser.parse_args()
    try:
        tokens = [int(word) for word in options.tokens.split(",")]
    except ValueError:
        parser.error(f"expected --tokens as numbers separated by commas, got {options.tokens}")
    if options.csv and len(tokens) != 1:
        parser.error("--csv is of one token count: name it with --tokens=")
    path = pathlib.Path(options.package) / "manifest.json"
    if not path.exists():
        parser.error(f"expected a package with manifest.json, got {options.package}")
    manifest = json.loads(path.read_text(encoding="utf-8"))
    if not options.csv and not (shutil.which(options.ncu) or os.path.exists(options.ncu)):
        print(f"SKIPPED: no Nsight Compute ({options.ncu})")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        keep = options.keep or pathlib.Path(folder)
        keep.mkdir(parents=True, exist_ok=True)
        reports = []
        try:
            if options.csv:
                rows = parse_csv(options.csv.read_text(encoding="utf-8"))
                measured = {tokens[0]: (rows, options.touched)}
            else:
                measured = measure(options, manifest, tokens, keep)
            for count, (rows, touched) in measured.items():
                kernels = kernels_of(manifest, count, rows, touched, options.arch, options.variant)
                if not kernels:
                    raise ValueError(f"no kernel of the package was seen among {len(rows)} launches")
                reports.append({"name": manifest["name"], "scheme": manifest["layer"].get("quant", {}).get("name", ""),
                                "tokens": count, "touched_experts": touched, "kernels": kernels})
                print("\n".join(lines(reports[-1])), flush=True)
        except (ValueError, OSError, subprocess.TimeoutExpired) as error:
            print(f"counters.py: {error}", file=sys.stderr)
            return 1
        finally:
            if options.json:
                options.json.write_text(json.dumps({"moec_counters": 1, "layers": reports}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
