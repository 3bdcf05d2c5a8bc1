#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the packages of make_gpu_packages.py on this machine's GPU and says what passed.

Needs Python and the driver alone, compute-sanitizer for the group `sanitizers`, and NVRTC for `rows`. First all cores
compile what the packages lack, each into the cache. Then three things run side by side: one process of moec-check for all
that should pass, many lines at once; one for planted faults, a line at a time, so that none counts as caught for what
another wrote; and sanitizers, and what has an environment of its own, a process each. Where a process ends before its lines do, a new one goes on behind the
line that ended it. Results go to --json as they come, a table is printed last. Exit status 1 when anything failed, 77
without a GPU.
"""

import argparse
import concurrent.futures
import ctypes
import hashlib
import json
import os
import pathlib
import queue
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


# compute-sanitizer's messages if kernels ran without it.
NOT_INSTRUMENTED = re.compile(r"before first instrumented|Internal Sanitizer Error|[Nn]ot supported|[Uu]nsupported|"
                              r"[Ff]ailed to (instrument|patch)|No attachable process")


TIMED_OUT = 124
# Seconds on the device after which a line hangs: its kernels take milliseconds. A fault that may hang one is caught so.
HANG = 40
# That this process may use.
CORES = len(os.sched_getaffinity(0))
# moec-check's statuses after a verdict on what was asked for.
STATUSES = (0, 1, 2)


def execute(command, folder, timeout, environment=None):
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})})
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as expired:
        printed = (expired.stdout or b"").decode(errors="replace")
        return TIMED_OUT, printed, f"no end after {expired.timeout:.0f} s"


def summary_of(text, sanitizer):
    """compute-sanitizer's count, or None if it gave no summary."""
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
    """(passed, one line, worst numbers, caught) of one call of moec-check. caught: the failure is a check's or the GPU's,
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


def command_of(root, options, *arguments):
    return [str(root / "bin" / "moec-check"), f"--device={options.device}", "--json", "--check", *arguments]


def lines_of(entry):
    """The arguments of its runs."""
    return entry["runs"] * entry.get("repeat", 1)


def write_lines(file, entries):
    file.write("".join(" ".join([entry["package"], *arguments]) + "\n" for entry in entries for arguments in lines_of(entry)))
    file.flush()
    return [f"--cases={file.name}"]


def call_of(entry, arguments, line, report):
    """A line's report as run_entry() takes it: (arguments, status, output, errors, whether it hung where it may)."""
    return (arguments, report.get("status", 1), line, report.get("error", ""),
            bool(report.get("hung")) and bool(entry.get("hangs")))


def calls_of(entry, root, options, tool):
    """The calls of each run of the entry alone. A process runs them all; under a sanitizer each has its own, whose
    summary is its own."""
    runs = lines_of(entry)
    if tool:
        for arguments in runs:
            sanitized = [tool, "--tool", entry["sanitizer"], "--error-exitcode", "9",
                         *command_of(root, options, entry["package"], *arguments)]
            yield (arguments, *execute(sanitized, root, limit_of(options)), False)
        return
    limit = limit_of(options)
    may_hang = entry.get("hangs") and limit >= min(options.timeout, HANG)
    with tempfile.NamedTemporaryFile("w", suffix=".cases") as file:
        status, output, errors = execute(command_of(root, options, *write_lines(file, [entry])), root,
                                         min(limit, HANG) if entry.get("hangs") else limit, entry.get("environment"))
    lines = output.splitlines()
    for i, arguments in enumerate(runs):
        if i < len(lines) and status in (*STATUSES, TIMED_OUT):
            try:
                report = json.loads(lines[i])
            except ValueError:
                report = {}
            # The driver itself prints which assertion of a kernel failed.
            heard = {"error": errors + report.get("error", "")} if entry.get("says") else {}
            yield call_of(entry, arguments, lines[i], {"status": status, "error": errors, **report, **heard})
        else:
            yield arguments, status, "", errors, may_hang and status == TIMED_OUT


def judge_calls(entry, calls, options):
    """A result for the table."""
    started = time.time()
    result = {"group": entry["group"], "name": entry["name"], "passed": True, "text": "", "calls": 0, "worst": {}}
    sanitizer = entry.get("sanitizer")
    red = ""
    for arguments, status, output, errors, hung in calls:
        if entry.get("refusable") and status == 2 and "expected" in errors:
            continue
        if options.verbose:
            print(entry["package"], " ".join(arguments), "->", status, flush=True)
        passed, text, worst, caught = judge(status, output, errors, sanitizer)
        caught = caught or hung
        if not passed and entry.get("says") and entry["says"] not in errors:
            caught, text = False, f"nothing says '{entry['says']}': {text}"
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


def run_entry(entry, root, options):
    """The result of an entry that has a process of its own."""
    sanitizer = entry.get("sanitizer")
    tool = find_sanitizer() if sanitizer else None
    if sanitizer and not tool:
        result = {"group": entry["group"], "name": entry["name"], "passed": None, "text": "no compute-sanitizer here",
                  "calls": 0, "worst": {}, "seconds": 0}
    else:
        result = judge_calls(entry, calls_of(entry, root, options, tool), options)
    result["name"] = name_of(entry)
    return result


class Together:
    """Entries whose lines one process runs, so many at once; after it has ended, the rest of them."""

    def __init__(self, entries, root, options, at_once, finish):
        """`finish(entry, result)` is called for each entry that was judged."""
        self.root, self.options, self.at_once, self.finish = root, options, at_once, finish
        self.waiting = list(entries)
        self.unjudged = []  # those that the time did not suffice for

    def run(self):
        while self.waiting:
            if limit_of(self.options) <= 1:
                self.unjudged += self.waiting
                return
            suspects = self.run_process()
            for entry in suspects:
                if limit_of(self.options) <= 1:
                    self.unjudged.append(entry)
                else:
                    self.finish(entry, run_entry(entry, self.root, self.options))

    def run_process(self):
        """Runs what waits, as far as the process gets; those of which one has ended it, where it does not say which."""
        self.reports = {}  # of entries by their place: of runs by theirs
        self.owners = [(i, j) for i, entry in enumerate(self.waiting) for j in range(len(lines_of(entry)))]
        self.begun, self.red, self.judged = time.time(), [], set()
        with tempfile.NamedTemporaryFile("w", suffix=".cases") as file, tempfile.TemporaryFile() as errors:
            limits = [f"--device-limit={HANG}"] if self.options.device == "cuda" else []
            command = command_of(self.root, self.options, f"--at-once={self.at_once}", *limits,
                                 *write_lines(file, self.waiting))
            process = subprocess.Popen(command, cwd=self.root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                                       text=True)
            lines = queue.Queue()
            reader = threading.Thread(target=self.read, args=(process, lines), daemon=True)
            reader.start()
            killer, cut = None, False
            while True:
                try:
                    line = lines.get(timeout=limit_of(self.options))
                except queue.Empty:
                    cut = time.time() - self.options.started >= self.options.within - 1
                    process.kill()
                    break
                if line is None:
                    break
                killer = self.take(line) or killer
            status = process.wait()
            reader.join()
            process.stdout.close()
        left = [i for i in range(len(self.waiting)) if i not in self.judged]
        if killer is not None and killer in left:
            self.judge(killer)
            left.remove(killer)
        entries, red = self.waiting, self.red
        suspects = [] if killer is not None or not left else left[:self.at_once]
        if cut:
            for i in left:
                self.judge_in_part(i)
            self.waiting, suspects = [], []
        else:
            self.waiting = [entries[i] for i in left if i not in suspects]
        if not left and status not in STATUSES and not cut:
            self.finish({**entries[-1], "expect": "pass"}, {
                "group": entries[-1]["group"], "name": "the process of all", "passed": False, "calls": 0, "worst": {},
                "text": f"ended with status {status} behind its last line", "seconds": round(time.time() - self.begun, 1)})
        self.look_again(red)
        return [entries[i] for i in suspects]

    @staticmethod
    def read(process, lines):
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    def take(self, line):
        """Notes a line's report; the entry's place where the process ends of it."""
        try:
            report = json.loads(line)
            i, j = self.owners[report["line"] - 1]
        except (ValueError, KeyError, IndexError, TypeError):
            return None  # what is no report, a crash may have left
        reports = self.reports.setdefault(i, {})
        reports[j] = (line, report)
        if report.get("driver_failed") or report.get("hung"):
            return i
        if len(reports) == len(lines_of(self.waiting[i])):
            self.judge(i)
        return None

    def result_of(self, i):
        """The result of the runs that have a report; runs behind one that ended the process were not run."""
        entry, reports = self.waiting[i], self.reports[i]
        runs = lines_of(entry)
        result = judge_calls(entry, [call_of(entry, runs[j], *reports[j]) for j in sorted(reports)], self.options)
        result["seconds"] = round(sum(report.get("wall_ms", 0) for _, report in reports.values()) / 1e3, 1)
        result["device_seconds"] = round(sum(report.get("on_device_ms", 0) for _, report in reports.values()) / 1e3, 2)
        return result

    def judge(self, i):
        entry, result = self.waiting[i], self.result_of(i)
        self.judged.add(i)
        if result["passed"] is False and self.at_once > 1:
            self.red.append((entry, result))
        else:
            self.finish(entry, result)

    def judge_in_part(self, i):
        """When the time is over: a run that failed stays known."""
        entry, reports = self.waiting[i], self.reports.get(i, {})
        result = self.result_of(i) if reports else None
        if result and result["passed"] is (entry["expect"] == "fail"):
            self.finish(entry, result)
        else:
            self.unjudged.append(entry)

    def look_again(self, red):
        """An entry that failed beside others is run alone, which says whether it was its own fault. It stays a failure, unless
        others had left no memory for it."""
        for entry, result in red:
            if limit_of(self.options) > 1:
                alone = run_entry(entry, self.root, self.options)
                result["passed"] = bool(alone["passed"]) and "CUDA_ERROR_OUT_OF_MEMORY" in result["text"]
                result["text"] = f"{result['text']}; alone: {'passes' if alone['passed'] else alone['text']}"
            self.finish(entry, result)


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


def name_of(entry):
    """As results have it."""
    return entry["name"] + (f" ({entry['sanitizer']})" if entry.get("sanitizer") else "")


def without(entries, results):
    """The entries that did not pass in these results, and planted faults, which say that their tools see kernels here."""
    passed = {(result["group"], result["name"]) for result in results if result["passed"]}
    return [entry for entry in entries if is_planted(entry) or (entry["group"], name_of(entry)) not in passed]


def part_of(entries, part, parts):
    """So that each part has some of all: of each group as many, shuffled alike everywhere, since neighbours are alike."""
    mine = []
    for group in dict.fromkeys(entry["group"] for entry in entries):
        plain = [entry for entry in entries if entry["group"] == group and not is_planted(entry)]
        mine += sorted(plain, key=lambda entry: hashlib.sha256(name_of(entry).encode()).digest())[part - 1::parts]
    return [entry for entry in entries if is_planted(entry) or entry in mine]


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
    return (entry.get("sanitizer") != "racecheck", entry["group"] not in ("limits", "models"))


def run_entries(entries, root, options, index):
    """(results, entries that were not begun or not ended in time)"""
    done, skipped, lock = [], [], threading.Lock()

    def finish(entry, result):
        with lock:
            done.append((entry, result))
            results = judged(done, index["entries"], options)
            print(f"{result['name']}: {results[-1]['passed']} {result['seconds']} s {results[-1]['text'][:200]}", flush=True)
            write_results(results, skipped)

    def write_results(results, skipped):
        pathlib.Path(options.json).write_text(json.dumps(
            {"arch": index["arch"], "commit": index["commit"], "trees": index["trees"], "results": results,
             "not_run": [item["name"] for item in skipped]}, indent=1) + "\n")

    def together(of, at_once):
        lane = Together(sorted(of, key=slow_first), root, options, at_once, finish)
        lane.run()
        return lane.unjudged

    def alone(of):
        return sum(map(one, of), [])

    def one(entry):
        if time.time() - options.started > options.within:
            return [entry]
        finish(entry, run_entry(entry, root, options))
        return []

    def sanitized(of):
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            return sum(pool.map(one, sorted(of, key=slow_first) if options.jobs > 1 else of), [])

    own = [entry for entry in entries if entry.get("environment")]
    shared = [entry for entry in entries if not entry.get("sanitizer") and entry not in own]
    sound = [entry for entry in shared if entry["expect"] == "pass"]
    faults = [entry for entry in shared if entry["expect"] == "fail"]
    with concurrent.futures.ThreadPoolExecutor(4) as lanes:
        ended = [lanes.submit(together, sound, options.at_once), lanes.submit(together, faults, 1), lanes.submit(alone, own),
                 lanes.submit(sanitized, [entry for entry in entries if entry.get("sanitizer")])]
        for lane in ended:
            skipped += lane.result()
    results = judged(done, index["entries"], options)
    write_results(results, skipped)
    return results, skipped


def prebuild(entries, root, options, arch):
    """Compiles what packages bring no cubin of, by a process each: NVRTC is slow under threads."""
    packages = dict.fromkeys(entry["package"] for entry in entries)
    for entry in entries:
        packages.update(dict.fromkeys(argument.removeprefix("--against=") for run in entry["runs"] for argument in run
                                      if argument.startswith("--against=")))

    def lacks(package):
        manifest = json.loads((root / package / "manifest.json").read_text())
        if "shares" in manifest:  # an index: packages of ranks in folders
            return any(lacks(pathlib.Path(package) / share["folder"]) for share in manifest["shares"])
        return any(not kernel.get("cubin") for target in manifest["targets"] if target["arch"] == arch
                   for kernel in target["kernels"])

    def one(package):
        if time.time() - options.started > options.within:
            return None
        status, _, errors = execute([str(root / "bin" / "moec-check"), package, "--prebuild", f"--arch={arch}", "--jobs=1"], root,
                                    limit_of(options))
        if status:
            print(f"{package} is not compiled: {errors.strip()[-200:]}", flush=True)
        return status

    with concurrent.futures.ThreadPoolExecutor(options.prebuild) as pool:
        done = list(pool.map(one, filter(lacks, packages)))
    print(f"compiled: {done.count(0)} of {len(done)} packages in {time.time() - options.started:.0f} s", flush=True)


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
    parser.add_argument("--group", default="", help="some of rows,random,types,options,parts,ranks,models,limits,delays,mutants,sanitizers")
    parser.add_argument("--filter", default="", help="only packages with this in their name")
    parser.add_argument("--tools", default="", help="only entries of these sanitizers, memcheck,racecheck say")
    parser.add_argument("--planted-elsewhere", action="store_true", help="leave planted faults to a run beside this one")
    parser.add_argument("--without", default="", help="results of earlier runs, a.json,b.json: leave out what passed")
    parser.add_argument("--part", default="1/1", help="2/3: of three parts of the entries the second; planted faults are in all")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one call of moec-check, or without news of one")
    parser.add_argument("--within", type=float, default=1e9, help="cut off what still runs after this many seconds")
    parser.add_argument("--at-once", type=int, default=CORES, help="runs at once, in the one process of many")
    parser.add_argument("--jobs", type=int, default=1, help="sanitizers at once")
    parser.add_argument("--prebuild", type=int, default=CORES, help="compilers at once, before all; 0: none")
    parser.add_argument("--device", default="cuda", choices=["cuda", "host"], help="host shows how the suite itself works")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--prepare", default="", help="the folder of binaries: make the packages first, where there is a GPU")
    options = parser.parse_args()
    if options.device == "cuda" and not has_gpu():
        print("SKIPPED: no GPU (cuInit finds none)")
        sys.exit(77)
    root = pathlib.Path(options.root).resolve()
    if options.prepare:
        maker = pathlib.Path(__file__).resolve().parent / "make_gpu_packages.py"
        command = [sys.executable, maker, "--bin", options.prepare, "--work", root, "--out", root]
        if options.group:
            command += ["--only", options.group]
        if options.filter:
            command += ["--filter", re.escape(options.filter)]
        subprocess.run(command, check=True)
    index = json.loads((root / "index.json").read_text())
    groups = options.group.split(",") if options.group else []
    tools = options.tools.split(",") if options.tools else []
    entries = select(index["entries"], groups, options.filter, tools, options.planted_elsewhere)
    if options.device == "host":  # it captures no graphs
        entries = [{**entry, "runs": [run for run in entry["runs"] if "--capture" not in run]} for entry in entries
                   if not entry.get("sanitizer")]
    for path in filter(None, options.without.split(",")):
        entries = without(entries, json.loads(pathlib.Path(path).read_text())["results"])
    entries = part_of(entries, *map(int, options.part.split("/")))
    if entries and not options.prepare:
        os.chmod(root / "bin" / "moec-check", 0o755)
    os.environ.setdefault("MOEC_CACHE_DIR", tempfile.mkdtemp(prefix="moec-cache-"))
    options.started = time.time()
    if options.prebuild and options.device == "cuda":
        prebuild(entries, root, options, index["arch"])
    results, skipped = run_entries(entries, root, options, index)
    print_table(results, skipped)
    sys.exit(1 if not results or any(result["passed"] is False for result in results) else 0)


if __name__ == "__main__":
    main()
