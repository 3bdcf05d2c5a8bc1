#!/usr/bin/env python3
# ===- summarize.py - from raw results to a page of bench/results -----------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Writes the page bench/results/<date>-<name>.md from what the programs printed. The numbers of the page, and each check, go to
<date>-<name>.json and <date>-<gpu>-checks.json in --raw, for plot.py and for a later --markdown.

  bench/run/summarize.py --date=2026-11-21 --name=h100-mma_sync --bench bench-*.json --thermometer=thermometer.json \\
      --load cold.json aot.json --checks models.json limits.json rows.json mutants.json \\
      [--driver=580.1] [--note=TEXT] [--commit=REV]
  bench/run/summarize.py --markdown=2026-11-22-h100_order.json     # the page again, from the .json

--bench and --load take what `moec-bench --json` and `load-time --json` printed, --thermometer what bench/run/thermometer.py
wrote, --checks what the GPU suite and the mutants wrote. The tree hashes are those of --commit (default HEAD): name the
commit whose programs ran.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import benchlib
import thermometer

TREES = ("templates", "runtime", "compiler")
PHASES = (
    ("ready_ms", "call to all functions loaded"),
    ("package_ms", "of that: config.json to package"),
    ("read_ms", "of that: reading"),
    ("nvrtc_open_ms", "of that: opening NVRTC"),
    ("compile_ms", "of that: cubins (NVRTC, or the cache)"),
    ("module_load_ms", "of that: module load"),
    ("process_start_ms", "before: process start"),
    ("library_open_ms", "before: opening libmoec.so"),
    ("driver_open_ms", "before: opening the driver"),
    ("cuinit_ms", "before: cuInit"),
    ("context_ms", "before: context"),
)


def git(*words):
    return subprocess.run(["git", "-C", str(benchlib.ROOT), *words], check=True, capture_output=True, text=True).stdout.strip()


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write(path, value):
    text = value if isinstance(value, str) else json.dumps(value, indent=1) + "\n"
    path.write_text(text, encoding="utf-8")
    print(f"wrote {path}")


def merge_bench(paths):
    """One bench of several processes: their packages, each with the reads before and after it."""
    reports = [read(path) for path in paths]
    merged = {**reports[0], "packages": []}
    for report, path in zip(reports, paths):
        for key in ("moec_bench", "device", "bandwidth_gbs", "matmul_tflops", "fp8_tflops", "seed"):
            if report.get(key) != merged.get(key):
                sys.exit(f"summarize.py: expected one {key} in all of --bench, got {merged.get(key)} in {paths[0]} and "
                         f"{report.get(key)} in {path}")
        own = {key: report[key] for key in ("before_gbs", "after_gbs", "suspect")} if len(reports) > 1 else {}
        merged["packages"] += [{**package, **own} for package in report["packages"]]
    merged["after_gbs"] = reports[-1]["after_gbs"]
    merged["suspect"] = any(report["suspect"] for report in reports)
    for package in merged["packages"]:
        package.pop("package", None)
    return merged


def merge_checks(paths):
    """One list of results; each says which of the sources (arch, commit, trees) it was run with."""
    merged = {"moec_checks": 1, "sources": [], "results": [], "not_run": []}
    for path in paths:
        part = read(path)
        source = {key: part[key] for key in ("arch", "commit", "trees") if key in part}
        if source not in merged["sources"]:
            merged["sources"].append(source)
        number = merged["sources"].index(source)
        merged["results"] += [{**result, "source": number} for result in part["results"]]
        merged["not_run"] += part.get("not_run", [])
    return merged


def summary_of_checks(checks):
    groups = {}
    for result in checks["results"]:
        group = groups.setdefault(result["group"], {"passed": 0, "failed": 0, "failures": []})
        group["passed" if result["passed"] else "failed"] += 1
        if not result["passed"]:
            group["failures"].append(result["name"])
    return {"groups": groups, "not_run": len(checks["not_run"])}


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def schedules(cell):
    """Raw results of format 1 have entries only, which carry the tile."""
    if "schedules" in cell:
        return cell["schedules"]
    return ", ".join(entry.split("_")[-2] for entry in cell["kernels"] if entry.startswith("moec_grouped_matmul"))


def against(package, cell, known):
    """(target, theirs, ours/theirs, peer) as text; a result that says nothing of it is held against today's files."""
    row = cell.get("against")
    if row is None:
        found = known.get((package["shape"], package["layer"]["quant"]["name"], cell["tokens"]))
        if not found or not cell["ratio"]:
            return "", "", "", ""
        row = {**found.get("baseline", {}), "target": found["target"], "met": cell["ratio"] <= found["limit"]}
    mark = "" if row["met"] else " missed"
    if "peer" not in row:
        return f"{row['target']:.2f}{mark}", "", "", ""
    return f"{row['target']:.2f}{mark}", f"{row['ratio']:.2f}", f"{cell['ratio'] / row['ratio']:.2f}", row["peer"]


def reads(report, packages):
    before = [part["before_gbs"] for part in (*packages, report) if part.get("before_gbs")]
    after = [part["after_gbs"] for part in (*packages, report) if part.get("after_gbs")]
    every = before + after
    return f"{min(every):.0f} GB/s" if min(every) == max(every) else f"{min(every):.0f} to {max(every):.0f} GB/s"


def bench_lines(bench):
    eight = f", {bench['fp8_tflops']:.0f} TFLOP/s where both operands have 8 bits" if "fp8_tflops" in bench else ""
    lines = ["## Layers", "", f"Floor: {bench['bandwidth_gbs']:.0f} GB/s and {bench['matmul_tflops']:.0f} TFLOP/s{eight} "
             f"({bench['rates_source']})."]
    if bench.get("bandwidth_by") == "read":
        state = "more than 5 % off: the run is **suspect**" if bench["suspect"] else "not marked suspect"
        lines.append(f"Pure reads before and after reached {reads(bench, bench['packages'])}: {state}.")
    else:
        lines.append("No pure read was timed in this run, so it does not say whether the card was hot.")
    lines.append("")
    rows = benchlib.shapes()
    gpu = benchlib.gpu_of(bench["device"])
    known = {(cell["shape"], cell["scheme"], cell["tokens"]): cell
             for cell in read(benchlib.DATA / "targets.json")["cells"] if cell["gpu"] == gpu}
    for package in bench["packages"]:
        package = {**package, "shape": package.get("shape") or benchlib.shape_of(package["layer"], rows)}
        scheme = package["layer"]["quant"]["name"]
        hot = ", **suspect**" if package.get("suspect") else ""
        lines += [f"### {package['name']} ({scheme}, {package['arch']}{hot})", ""]
        body = []
        for cell in package["cells"]:
            rate = bench["fp8_tflops" if scheme.startswith("fp8") else "matmul_tflops"]
            body.append((f"{cell['tokens']}", f"{cell['us']:.1f}", f"{cell['floor_us']:.1f}", f"{cell['ratio']:.3f}",
                         *against(package, cell, known), f"{cell['tflops']:.1f}", f"{100 * cell['tflops'] / rate:.1f}",
                         f"{cell['touched_experts']:.1f}", cell.get("regime", ""), cell["variant"], schedules(cell)))
        lines += table(("tokens", "us", "floor us", "ratio", "target", "theirs", "ours/theirs", "peer", "TFLOP/s",
                        "% of peak", "experts", "regime", "variant", "schedules"), body)
        lines += [f"* {error['tokens']} tokens: {error['error']}" for error in package.get("errors", [])]
    return lines


def thermometer_lines(result):
    state = "**More than 5 % off**: " if result["off"] else ""
    lines = ["## Thermometer", "", f"{state}PyTorch {result['torch']} in the same run, beside the baseline's card and the "
             "floor's rates.", ""]
    return lines + [f"* {line}" for line in thermometer.lines(result)] + [""]


def load_lines(load):
    kinds = [kind for kind in ("cold", "warm", "ahead_of_time") if kind in load]
    rows = []
    for key, words in PHASES:
        values = [load[kind]["phases"].get(key) for kind in kinds]
        if any(value is not None for value in values):
            rows.append((words, *("" if value is None else f"{value:.1f}" for value in values)))
    for key, words in (("best_ms", "best round"), ("worst_ms", "worst round")):
        rows.append((words, *(f"{load[kind][key]:.1f}" for kind in kinds)))
    lines = [f"Medians in ms of {load[kinds[0]]['rounds']} fresh processes of each kind, {load['usable_threads']} usable "
             f"threads, from `{pathlib.PurePath(load['input']).name}`.", ""]
    return lines + table(("", *(kind.replace("_", " ") for kind in kinds)), rows)


def markdown(result):
    provenance = result["provenance"]
    lines = [f"# {provenance['date']} {provenance['name']}", "",
             "Made by `bench/run/summarize.py`; what the columns mean: [the bench](../README.md).", ""]
    shown = [(key, str(provenance[key])) for key in ("device", "driver", "date", "commit", "note") if provenance.get(key)]
    lines += table(("what", "value"), shown + [(f"tree of {name}/", provenance[name]) for name in TREES])
    if "bench" in result:
        lines += bench_lines(result["bench"])
    if "thermometer" in result:
        lines += thermometer_lines(result["thermometer"])
    if result.get("loads"):
        lines += ["## Loading", ""]
        for load in result["loads"]:
            lines += load_lines(load)
    if "checks" in result:
        lines += ["## Checks on the GPU", ""]
        rows = [(name, f"{group['passed']}", ", ".join([f"{group['failed']}", *group["failures"]]))
                for name, group in result["checks"]["groups"].items()]
        lines += table(("group", "passed", "failed"), rows)
        lines += [f"Not run: {result['checks']['not_run']}. A mutant passes when its fault is caught.", ""]
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", metavar="RESULT", help="only write the page of this .json")
    parser.add_argument("--date")
    parser.add_argument("--name", help="<gpu>-<what>")
    parser.add_argument("--bench", nargs="*", default=[], help="of moec-bench --json")
    parser.add_argument("--thermometer", help="of bench/run/thermometer.py")
    parser.add_argument("--load", nargs="*", default=[], help="of load-time --json")
    parser.add_argument("--checks", nargs="*", default=[])
    parser.add_argument("--driver", default="", help="the driver's version; default: the number in the bench's output")
    parser.add_argument("--note", default="")
    parser.add_argument("--commit", default="HEAD", help="whose programs ran")
    parser.add_argument("--out", type=pathlib.Path, default=benchlib.BENCH / "results", help="a folder for the page")
    parser.add_argument("--raw", type=pathlib.Path, default=pathlib.Path(), help="a folder for .json; default: the current one")
    options = parser.parse_args()
    if options.markdown:
        result = read(options.markdown)
        write(options.out / f"{pathlib.Path(options.markdown).stem}.md", markdown(result))
        return 0
    if not options.date or not options.name or not (options.bench or options.load or options.checks):
        parser.error("expected --date, --name and at least one of --bench, --load, --checks")
    bench = merge_bench(options.bench) if options.bench else None
    version = (bench or {}).get("driver_version", 0)
    provenance = {"date": options.date, "name": options.name, "device": bench["device"] if bench else "",
                  "driver": options.driver or (f"CUDA {version // 1000}.{version % 1000 // 10}" if version else ""),
                  "commit": git("rev-parse", options.commit), "note": options.note}
    provenance.update({name: git("rev-parse", f"{options.commit}:{name}") for name in TREES})
    result = {"moec_result": 1, "provenance": provenance}
    if bench:
        result["bench"] = bench
    if options.thermometer:
        result["thermometer"] = read(options.thermometer)
    result["loads"] = [read(path) for path in options.load]
    if options.checks:
        checks = merge_checks(options.checks)
        name = f"{options.date}-{options.name.split('-')[0]}-checks.json"
        write(options.raw / name, checks)
        result["checks"] = summary_of_checks(checks)
    name = f"{options.date}-{options.name}"
    write(options.raw / f"{name}.json", result)
    write(options.out / f"{name}.md", markdown(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
