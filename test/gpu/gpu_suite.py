#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the packages of make_gpu_packages.py on this machine's GPU and says what passed.

Needs Python and the driver alone, compute-sanitizer for the group `sanitizers`, and NVRTC for `rows`. Results go to
--json as they come, a table is printed last. Exit status 1 when anything failed, 77 without a GPU.
"""

import argparse
import concurrent.futures
import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time


def has_gpu():
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int()
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def find_sanitizer():
    candidates = [shutil.which("compute-sanitizer"), "/usr/local/cuda/bin/compute-sanitizer",
                  "/usr/local/cuda/compute-sanitizer/compute-sanitizer"]
    return next((path for path in candidates if path and os.path.exists(path)), None)


# What compute-sanitizer says where kernels ran without it.
NOT_INSTRUMENTED = re.compile(r"before first instrumented|Internal Sanitizer Error|[Nn]ot supported|[Uu]nsupported|"
                              r"[Ff]ailed to (instrument|patch)|No attachable process")


TIMED_OUT = 124
# Seconds after which a fault that may hang a kernel counts as one that does: its checks alone take few.
HANG = 40


def execute(command, folder, timeout):
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as expired:
        printed = (expired.stdout or b"").decode(errors="replace")
        return TIMED_OUT, printed, f"no end after {expired.timeout:.0f} s"


def summary_of(text, sanitizer):
    """What compute-sanitizer counted, or None where it gave no summary."""
    word = r"RACECHECK SUMMARY: (\d+) hazard" if sanitizer == "racecheck" else r"ERROR SUMMARY: (\d+) error"
    found = re.findall(word, text)
    return max(map(int, found)) if found else None


def judge_sanitizer(status, output, errors, sanitizer):
    """As judge(); caught is what the sanitizer itself flagged, not a program that failed under it."""
    text = output + errors
    lines = [line.strip(" =") for line in text.splitlines() if line.startswith("=====")]
    count = summary_of(text, sanitizer)
    if count is None:
        told = next((line for line in lines if "Error" in line), errors.strip()[-200:])
        return False, f"exit {status}, {sanitizer} gave no summary: {told}", {}, False
    if count:
        told = next((line for line in lines if re.search(r"Invalid|Uninitialized|hazard|race|Barrier|divergent", line) and
                     "SUMMARY" not in line), "")
        return False, f"{sanitizer} counts {count}: {told}", {}, True
    blind = next((line for line in lines if NOT_INSTRUMENTED.search(line)), None)
    if blind:
        return False, f"{sanitizer} saw nothing: {blind}", {}, False
    program = "\n".join(line for line in output.splitlines() if not line.startswith("====="))
    passed, told, worst, _ = judge(status, program, errors, None)
    if passed and not any(run.get("tokens") for run in json.loads(program)["runs"]):
        passed, told = False, "no run launched a kernel"
    return passed, told, worst, False


def judge(status, output, errors, sanitizer):
    """(passed, one line, worst numbers, caught) of one call of moec-run. caught: the failure is a check's or the GPU's,
    so it counts where a fault was planted; wrong usage, an unreadable package or a crash of the host never does."""
    if sanitizer:
        return judge_sanitizer(status, output, errors, sanitizer)
    # A run that ends in a driver error has no whole JSON; what it printed before may hold failed cases.
    driver = next((line.strip() for line in errors.splitlines() if "CUDA_ERROR_" in line), None)
    try:
        report = json.loads(output)
    except ValueError:
        return False, f"exit {status}, no JSON: {driver or errors.strip()[-300:]}", {}, status == 1 and bool(driver)
    runs = report.get("runs", [])
    wrong = [run for run in runs if not run.get("passed")]
    worst = {}
    for run in runs:
        bound = run.get("bound") or 0
        if bound:
            worst["whole"] = max(worst.get("whole", 0), (run.get("error") or 0) / bound)
            worst["row"] = max(worst.get("row", 0), (run.get("worst_row") or 0) / bound / 2.5)
            worst["element"] = max(worst.get("element", 0), (run.get("worst_element") or 0) / bound / 16)
    worst["runs"] = len(runs)
    if wrong:
        first = wrong[0]
        return False, (f"tokens {first.get('tokens')} {first.get('routing')} variant {first.get('variant')}: "
                       f"{first.get('text')}"), worst, status == 1
    if status or not runs or report.get("passed") is not True:
        return False, f"exit {status}: {driver or errors.strip()[-300:]}", worst, status == 1 and bool(driver)
    return True, "", worst, False


def limit_of(options):
    """Seconds that a call begun now may take."""
    return max(1.0, min(options.timeout, options.within - (time.time() - options.started)))


def calls_of(entry, root, options, tool):
    """(arguments, status, output, errors, whether it hung where it may) of each run of the entry. A process runs them all,
    since to begin one costs more than most runs; under a sanitizer each has its own, whose summary is its own."""
    runs = entry["runs"] * entry.get("repeat", 1)
    command = [str(root / "bin" / "moec-run"), entry["package"], "--device=cuda", "--json", "--check"]
    if tool:
        for arguments in runs:
            sanitized = [tool, "--tool", entry["sanitizer"], "--error-exitcode", "9", *command, *arguments]
            yield (arguments, *execute(sanitized, root, limit_of(options)), False)
        return
    limit = limit_of(options)
    may_hang = entry.get("hangs") and limit >= min(options.timeout, HANG)
    with tempfile.NamedTemporaryFile("w", suffix=".cases") as file:
        file.write("".join(" ".join(arguments) + "\n" for arguments in runs))
        file.flush()
        status, output, errors = execute([*command, f"--cases={file.name}"], root,
                                         min(limit, HANG) if entry.get("hangs") else limit)
    lines = output.splitlines()
    for i, arguments in enumerate(runs):
        if i < len(lines) and status in (0, 1, 2, TIMED_OUT):
            try:
                report = json.loads(lines[i])
            except ValueError:
                report = {}
            yield arguments, report.get("status", status), lines[i], report.get("error", errors), False
        else:
            yield arguments, status, "", errors, may_hang and status == TIMED_OUT


def run_entry(entry, root, options):
    """A result for the table."""
    started = time.time()
    result = {"group": entry["group"], "name": entry["name"], "passed": True, "text": "", "calls": 0, "worst": {}}
    sanitizer = entry.get("sanitizer")
    if sanitizer:
        result["name"] += f" ({sanitizer})"
        tool = find_sanitizer()
        if not tool:
            return {**result, "passed": None, "text": "no compute-sanitizer here", "seconds": 0}
    red = ""
    for arguments, status, output, errors, hung in calls_of(entry, root, options, tool if sanitizer else None):
        if entry.get("refusable") and status == 2 and "expected" in errors:
            continue
        if options.verbose:
            print(entry["package"], " ".join(arguments), "->", status, flush=True)
        passed, text, worst, caught = judge(status, output, errors, sanitizer)
        caught = caught or hung
        result["calls"] += 1
        for key, value in worst.items():
            result["worst"][key] = max(result["worst"].get(key, 0), value) if key != "runs" else (
                result["worst"].get("runs", 0) + value)
        if not passed:
            red = f"{text} [{' '.join(arguments)}]"
            if not caught:
                red = f"!{red}"
            break
    if entry["expect"] == "fail":
        result["passed"] = bool(red) and not red.startswith("!")
        result["text"] = f"caught: {red}" if result["passed"] else (red.lstrip("!") or "survived: every check is green")
    else:
        result["passed"] = not red
        result["text"] = red.lstrip("!")
    result["seconds"] = round(time.time() - started, 1)
    return result


def is_planted(entry):
    return bool(entry.get("sanitizer")) and entry["expect"] == "fail"


def select(entries, groups, name, tools=(), elsewhere=False):
    """The entries asked for; before them the planted faults that show that their sanitizers see kernels, unless those
    run elsewhere."""
    wanted = [entry for entry in entries if (not groups or entry["group"] in groups) and name in entry["name"] and
              (not tools or entry.get("sanitizer") in tools)]
    if elsewhere:
        return [entry for entry in wanted if not is_planted(entry)]
    tools = {entry.get("sanitizer") for entry in wanted}
    planted = [entry for entry in entries if is_planted(entry) and entry["sanitizer"] in tools]
    return planted + [entry for entry in wanted if not is_planted(entry)]


def unproven(entry, result, entries, proven, elsewhere=False):
    """A sanitizer that flags no planted fault did not instrument kernels: that it is silent says nothing."""
    tool = entry.get("sanitizer")
    if elsewhere and result["passed"] and tool:
        return {**result, "text": f"silent; whether {tool} flags a planted fault, another run says"}
    planted = any(is_planted(other) and other["sanitizer"] == tool for other in entries)
    if result["passed"] and tool and not is_planted(entry) and planted and tool not in proven:
        return {**result, "passed": False, "text": f"{tool} flagged no planted fault: no kernel is known to be instrumented"}
    return result


def judged(done, entries, options):
    """The results so far, sanitizers that flagged no planted fault yet being unproven."""
    proven = {entry["sanitizer"] for entry, result in done if is_planted(entry) and result["passed"]}
    return [unproven(entry, result, entries, proven, options.planted_elsewhere) for entry, result in done]


def slow_first(entry):
    """So that no long entry is begun last, where many run at once."""
    return (entry.get("sanitizer") != "racecheck", entry["group"] != "models")


def run_entries(entries, root, options, index):
    """(results, entries that were not begun)"""
    done, skipped, lock = [], [], threading.Lock()

    def one(entry):
        if time.time() - options.started > min(options.budget, options.within):
            skipped.append(entry)
            return
        result = run_entry(entry, root, options)
        with lock:
            done.append((entry, result))
            results = judged(done, index["entries"], options)
            print(f"{result['name']}: {results[-1]['passed']} {result['seconds']} s {results[-1]['text'][:200]}", flush=True)
            pathlib.Path(options.json).write_text(json.dumps(
                {"arch": index["arch"], "commit": index["commit"], "trees": index["trees"], "results": results,
                 "not_run": [item["name"] for item in skipped]}, indent=1) + "\n")

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, sorted(entries, key=slow_first) if options.jobs > 1 else entries))
    return judged(done, index["entries"], options), skipped


def print_table(results, skipped):
    print(f"\n{'group':<11} {'package':<34} {'result':<7} {'runs':>4} {'whole':>6} {'row':>6} {'elem':>6} {'s':>6}  "
          "(errors as parts of what is allowed)")
    for result in results:
        word = {True: "ok", False: "FAILED", None: "skipped"}[result["passed"]]
        worst = result["worst"]
        numbers = " ".join(f"{worst[key]:6.2f}" if key in worst else "     -" for key in ("whole", "row", "element"))
        print(f"{result['group']:<11} {result['name']:<34} {word:<7} {worst.get('runs', result['calls']):>4} {numbers} "
              f"{result['seconds']:6.1f}  {result['text'][:160] if word != 'ok' or result['text'] else ''}")
    for entry in skipped:
        print(f"{entry['group']:<11} {entry['name']:<34} not run: the time was over")
    count = [sum(result["passed"] is value for result in results) for value in (True, False)]
    unseen = len(skipped) + sum(result["passed"] is None for result in results)
    print(f"{count[0]} passed, {count[1]} failed, {unseen} skipped")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=str(pathlib.Path(__file__).resolve().parent), help="the folder with index.json")
    parser.add_argument("--json", default="gpu_suite.json", help="where the results go")
    parser.add_argument("--group", default="", help="some of rows,random,models,limits,mutants,sanitizers")
    parser.add_argument("--filter", default="", help="only packages with this in their name")
    parser.add_argument("--tools", default="", help="only entries of these sanitizers, memcheck,racecheck say")
    parser.add_argument("--planted-elsewhere", action="store_true", help="leave planted faults to a run beside this one")
    parser.add_argument("--budget", type=float, default=1e9, help="start nothing after this many seconds")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one call of moec-run")
    parser.add_argument("--within", type=float, default=1e9, help="cut off what still runs after this many seconds")
    parser.add_argument("--jobs", type=int, default=1, help="entries at once; times then say little")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--prepare", default="", help="the folder of binaries: make the packages first, where there is a GPU")
    options = parser.parse_args()
    if not has_gpu():
        print("SKIPPED: no GPU (cuInit finds none)")
        sys.exit(77)
    root = pathlib.Path(options.root).resolve()
    if options.prepare:
        maker = pathlib.Path(__file__).resolve().parent / "make_gpu_packages.py"
        command = [sys.executable, maker, "--bin", options.prepare, "--work", root, "--out", root]
        if options.group:
            command += ["--only", options.group]
        subprocess.run(command, check=True)
    index = json.loads((root / "index.json").read_text())
    groups = options.group.split(",") if options.group else []
    tools = options.tools.split(",") if options.tools else []
    entries = select(index["entries"], groups, options.filter, tools, options.planted_elsewhere)
    if entries and not options.prepare:
        os.chmod(root / "bin" / "moec-run", 0o755)
    os.environ.setdefault("MOEC_CACHE_DIR", tempfile.mkdtemp(prefix="moec-cache-"))
    options.started = time.time()
    results, skipped = run_entries(entries, root, options, index)
    print_table(results, skipped)
    sys.exit(1 if not results or any(result["passed"] is False for result in results) else 0)


if __name__ == "__main__":
    main()
