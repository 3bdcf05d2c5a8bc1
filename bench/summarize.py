#!/usr/bin/env python3
# ===- summarize.py - from raw results to the files of bench/results ---------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Makes results/<date>-<name>.json and .md, and <date>-<gpu>-checks.json, from what the programs printed.

  bench/summarize.py --date=2026-11-21 --name=h100-mma_sync --bench=bench.json --load cold.json aot.json \\
      --checks models.json limits.json rows.json mutants.json [--driver=580.1] [--note=TEXT] [--commit=REV]
  bench/summarize.py --markdown=bench/results/2026-11-21-h100-mma_sync.json     # the .md anew from the .json

--bench and --load take what `moec-bench --json` and `load-time --json` printed, --checks what the GPU suite and the
mutants wrote. The tree hashes are those of --commit (default HEAD): name the commit whose programs ran.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
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
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True, text=True).stdout.strip()


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write(path, value):
    text = value if isinstance(value, str) else json.dumps(value, indent=1) + "\n"
    path.write_text(text, encoding="utf-8")
    print(f"wrote {path}")


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


def bench_lines(bench):
    lines = ["## Layers", "", f"Floor: {bench['bandwidth_gbs']:.0f} GB/s and {bench['matmul_tflops']:.0f} TFLOP/s "
             f"({bench['rates_source']})."]
    if bench.get("bandwidth_by") == "read":
        state = "more than 5 % off: the run is **suspect**" if bench["suspect"] else "not marked suspect"
        lines.append(f"A pure read reached {bench['before_gbs']:.0f} GB/s before and {bench['after_gbs']:.0f} GB/s after: {state}.")
    else:
        lines.append("No pure read was timed in this run, so it does not say whether the card was hot.")
    lines.append("")
    for package in bench["packages"]:
        lines += [f"### {package['name']} ({package['layer']['quant']['name']}, {package['arch']})", ""]
        rows = []
        for cell in package["cells"]:
            rows.append((f"{cell['tokens']}", f"{cell['us']:.1f}", f"{cell['floor_us']:.1f}", f"{cell['ratio']:.2f}",
                         f"{cell['tflops']:.1f}", f"{100 * cell['tflops'] / bench['matmul_tflops']:.1f}",
                         f"{cell['touched_experts']:.1f}", cell["variant"], schedules(cell)))
        lines += table(("tokens", "us", "floor us", "ratio", "TFLOP/s", "% of peak", "experts", "variant", "schedules"), rows)
    return lines


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
             "Made by `bench/summarize.py`; what the columns mean: [the bench](../README.md).", ""]
    shown = [(key, str(provenance[key])) for key in ("device", "driver", "date", "commit", "note") if provenance.get(key)]
    lines += table(("what", "value"), shown + [(f"tree of {name}/", provenance[name]) for name in TREES])
    if "bench" in result:
        lines += bench_lines(result["bench"])
    if result.get("loads"):
        lines += ["## Loading", ""]
        for load in result["loads"]:
            lines += load_lines(load)
    if "checks" in result:
        lines += ["## Checks on the GPU", ""]
        rows = [(name, f"{group['passed']}", ", ".join([f"{group['failed']}", *group["failures"]]))
                for name, group in result["checks"]["groups"].items()]
        lines += table(("group", "passed", "failed"), rows)
        lines += [f"Not run: {result['checks']['not_run']}. Each check, with the commit that it ran at: "
                  f"`{result['checks']['file']}`. A mutant passes when its fault is caught.", ""]
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", metavar="RESULT", help="only make the .md of this .json")
    parser.add_argument("--date")
    parser.add_argument("--name", help="<gpu>-<what>")
    parser.add_argument("--bench", help="of moec-bench --json")
    parser.add_argument("--load", nargs="*", default=[], help="of load-time --json")
    parser.add_argument("--checks", nargs="*", default=[])
    parser.add_argument("--driver", default="", help="the driver's version; default: the number in the bench's output")
    parser.add_argument("--note", default="")
    parser.add_argument("--commit", default="HEAD", help="whose programs ran")
    parser.add_argument("--out", default=str(ROOT / "bench" / "results"))
    options = parser.parse_args()
    if options.markdown:
        path = pathlib.Path(options.markdown)
        write(path.with_suffix(".md"), markdown(read(path)))
        return 0
    if not options.date or not options.name or not (options.bench or options.load or options.checks):
        parser.error("expected --date, --name and at least one of --bench, --load, --checks")
    out = pathlib.Path(options.out)
    bench = read(options.bench) if options.bench else None
    version = (bench or {}).get("driver_version", 0)
    provenance = {"date": options.date, "name": options.name, "device": bench["device"] if bench else "",
                  "driver": options.driver or (f"CUDA {version // 1000}.{version % 1000 // 10}" if version else ""),
                  "commit": git("rev-parse", options.commit), "note": options.note}
    provenance.update({name: git("rev-parse", f"{options.commit}:{name}") for name in TREES})
    result = {"moec_result": 1, "provenance": provenance}
    if bench:
        for package in bench["packages"]:
            package.pop("package", None)
        result["bench"] = bench
    result["loads"] = [read(path) for path in options.load]
    if options.checks:
        checks = merge_checks(options.checks)
        name = f"{options.date}-{options.name.split('-')[0]}-checks.json"
        write(out / name, checks)
        result["checks"] = {"file": name, **summary_of_checks(checks)}
    path = out / f"{options.date}-{options.name}.json"
    write(path, result)
    write(path.with_suffix(".md"), markdown(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
