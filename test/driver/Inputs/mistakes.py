"""Mistakes of a command line: each ends in a message that names the option or the value, and a remedy.

    mistakes.py SOURCE WORK

A row has the words, and texts that one line of standard error must have all. The exit status is not 0, nothing is printed to
standard output, and WORK stays as it is. Programs that were not built beside `moec` are left out and named.
"""

import concurrent.futures
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

MODEL, LAYER = "examples/models/mixtral-8x7b.json", "{work}/layer.json"
LAYER_TEXT = """{"moec_layer": 1, "name": "small", "num_experts": 4, "experts_per_token": 2, "hidden_dim": 64,
"intermediate_size": 32, "in_dtype": "bf16", "routing_method": "renormalize", "activation": "silu"}"""
COMPILE, EXPLAIN, TUNE = (f"moec {word} {MODEL} --arch=sm_90a" for word in ("compile", "explain", "tune"))

# (words, texts of the message)
MISTAKES = (
    # Commands.
    ("moec complie x.json", "'complie'", "did you mean compile?"),
    ("moec expalin x.json", "'expalin'", "did you mean explain?"),
    ("moec lst", "'lst'", "did you mean list?"),
    ("moec --arch=sm_90a compile x.json", "--arch", "moec compile"),
    ("moec compile", "INPUT", "config.json"),
    (f"moec compile {MODEL} other.json --arch=sm_90a", "other.json", "moec compile --help"),
    # Options that do not exist.
    (f"{COMPILE} --max-token=64", "--max-token;", "did you mean --max-tokens?"),
    (f"moec compile {MODEL} --arhc=sm_90a", "--arhc", "did you mean --arch?"),
    (f"{COMPILE} --no-cubins", "--no-cubins", "did you mean --no-cubin?"),
    (f"{COMPILE} --backends=grouped", "--backends", "did you mean --backend?"),
    (f"{COMPILE} --colour=red", "--colour", "moec compile --help"),
    (f"{COMPILE} --tokens=3", "--tokens", "moec explain"),
    (f"{EXPLAIN} --histogramm=uniform", "--histogramm", "did you mean --histogram?"),
    (f"{TUNE} --token=1", "--token;", "did you mean --tokens?"),
    ("moec-run x --token=3 --device=host", "--token;", "did you mean --tokens?"),
    ("moec-run x --weigths=y --device=host", "--weigths", "did you mean --weights?"),
    ("moec-check x --twise --device=host", "--twise", "did you mean --twice?"),
    ("moec-bench x --repeat=3", "--repeat;", "did you mean --repeats?"),
    ("load-time x --round=3", "--round;", "did you mean --rounds?"),
    ("moec-opt --moe-check-targets x", "moe-check-targets", "--moe-check-target"),
    # Flags with a value.
    (f"{COMPILE} --ep=8", "--ep", "'8'", "whole experts"),
    (f"{COMPILE} --ep=0", "--ep", "'0'", "no value"),
    (f"{COMPILE} --ep=false", "--ep", "'false'", "no value"),
    (f"{COMPILE} --ep 8", "--ep", "'8'", "no value"),
    (f"{COMPILE} --all-ranks=2", "--all-ranks", "'2'", "no value"),
    (f"{COMPILE} --no-cubin=yes", "--no-cubin", "'yes'", "no value"),
    (f"{COMPILE} --no-tuned-store=1", "--no-tuned-store", "'1'", "no value"),
    (f"{EXPLAIN} --json=out.json", "--json", "'out.json'", "no value"),
    (f"{TUNE} --tokens=1 --exhaustive=3", "--exhaustive", "'3'", "no value"),
    ("moec-run x --device=host --check=8", "--check", "'8'", "no value"),
    ("moec-run x --device=host --strict=off", "--strict", "'off'", "no value"),
    ("moec-check x --device=host --chain=2", "--chain", "'2'", "no value"),
    ("moec-bench x --dealt=2", "--dealt", "'2'", "no value"),
    ("load-time x --json=2", "--json", "'2'", "no value"),
    # Options without a value, or with another option for one.
    (f"moec compile {MODEL} --arch", "--arch", "expected a value"),
    (f"{COMPILE} --gpu=", "--gpu", "expected a value"),
    (f"{COMPILE} -o --no-cubin", "-o", "--no-cubin"),
    (f"{COMPILE} -o=out", "-o", "expected -o out"),
    (f"{COMPILE} --tp=2 --tp=4", "--tp", "one value"),
    # Values.
    (f"{COMPILE} --tp=two", "--tp", "two", "an integer"),
    (f"{COMPILE} --rank=3", "--rank=3", "--tp, --pcp or --dp"),
    (f"{COMPILE} --weights-dtype=bf16", "--weights-dtype=bf16", "--scheme=NAME"),
    (f"{COMPILE} --rank=one", "--rank", "'one'", "an integer"),
    (f"{COMPILE} --tp=2 --rank=2", "--rank=2", "from 0 to 1"),
    (f"{COMPILE} --max-tokens=0", "--max-tokens", "from 1"),
    (f"{COMPILE} --emit=ptxx", "--emit", "did you mean ptx?"),
    (f"{COMPILE} --scheme=nvfp5", "--scheme=nvfp5", "did you mean nvfp4?"),
    (f"{COMPILE} --scheme=fp8", "--scheme=fp8", "fp8_block"),
    (f"{COMPILE} --dtype=fp16", "--dtype=fp16", "bf16, f16 or f32"),
    (f"{COMPILE} --ignore-field=expert_sise", "--ignore-field", "expert_sise", "one of its keys"),
    (f"{COMPILE} --no-shared-experts", "--no-shared-experts", "no shared experts", "leave the option out"),
    (f"{COMPILE} --layer=99", "--layer=99", "from 0 to 31"),
    (f"{COMPILE} --placement=liner", "--placement=liner", "linear"),
    (f"moec compile {MODEL} --arch=sm90a", "'sm90a'", "did you mean sm_90a?"),
    (f"moec compile {MODEL} --arch=90", "'90'", "did you mean sm_90 or sm_90a?"),
    (f"moec compile {MODEL} --arch=sm_70", "'sm_70'", "too old", "sm_75"),
    (f"moec compile {MODEL} --arch=hopper", "'hopper'", "moec list gpus"),
    (f"moec compile {MODEL} --arch=native", "native", "sm_90a or h100"),
    (f"moec compile {MODEL} --arch=h200,a100", "h200", "a100", "--gpu"),
    (f"moec compile {MODEL} --emit=stages", "--arch", "moec list archs"),
    (f"{COMPILE} --gpu=h100_sxn", "'h100_sxn'", "did you mean h100_sxm?"),
    (f"{COMPILE} --gpu=a100", "a100_sxm", "sm_80", "sm_90a"),
    (f"{COMPILE} --engine=wgma", "engine 'wgma'", "did you mean wgmma"),
    (f"{COMPILE} --backend=groupd", "backend 'groupd'", "did you mean grouped?"),
    (f"{COMPILE} --exclude=wgmmma", "'wgmmma'", "did you mean wgmma?"),
    (f"{COMPILE} --allow=weightonly", "'weightonly'", "did you mean weight_only?"),
    (f"{EXPLAIN} --bench=x.json", "--bench", "--html"),
    (f"{EXPLAIN} --histogram=zip:2", "zip:2", "zipf"),
    (f"{TUNE} --tokens=1 --device=gpu", "--device", "'gpu'", "cuda or host"),
    (f"{TUNE} --tokens=1 --budget=soon", "--budget", "soon", "a number above 0"),
    ("moec list scheme", "'scheme'", "did you mean schemes?"),
    (f"moec compile {LAYER} --arch=sm_80 --layer=3", "--layer", "describes one layer"),
    ("moec-run x --device=gpu", "--device", "'gpu'", "host, cuda or emulated"),
    ("moec-run x", "--device=host", "--device=cuda"),
    ("moec-run --device=host", "folder of a package"),
    ("moec-run x --device=host --tokens=many", "--tokens", "many", "an integer"),
    ("moec-run x --device=host --seed=abc", "--seed", "abc", "an integer"),
    ("moec-run x --device=host --seed=-1", "--seed", "-1", "from 0"),
    ("moec-run x --device=host --seed=99999999999999999999", "--seed", "99999999999999999999", "an integer from 0"),
    (f"{TUNE} --tokens=1 --seed=-1", "--seed", "-1", "from 0"),
    ("moec-bench x --seed=-1", "--seed", "-1", "from 0"),
    ("moec-run x --device=host --routing=zipff", "--routing", "zipff", "uniform"),
    ("moec-run x --device=host --layer=3", "--layer", "--weights"),
    ("moec-run x --device=host --no-shared-experts", "--no-shared-experts", "--weights"),
    ("moec-run x --device=host --ignore-tensor=scale", "--ignore-tensor", "--weights"),
    ("moec-run x --prebuild --tokens=3", "--tokens", "--prebuild"),
    ("moec-run x --device=host --input=x", "--input", "NAME=FILE"),
    ("moec-bench x --device=gpu", "--device", "'gpu'", "cuda or host"),
    # Environment variables.
    *((f"MOEC_{name}={word} {command}", f"MOEC_{name}", f"did you mean {right}?")
      for command in (EXPLAIN, COMPILE, f"{TUNE} --tokens=1 --device=host")
      for name, word, right in (("ENGINE", "wgma", "wgmma"), ("BACKEND", "groupd", "grouped"), ("EXCLUDE", "wgmmma", "wgmma"))),
    (f"MOEC_JOBS=x moec compile {LAYER} --arch=sm_80 --max-tokens=1 -o {{work}}/p", "MOEC_JOBS", "'x'", "integer"),
    (f"MOEC_STRICT=maybe moec compile {LAYER} --arch=sm_80 --max-tokens=1 -o {{work}}/p", "MOEC_STRICT", "'maybe'", "1, on"),
    (f"MOEC_NVRTC_PATH=/nowhere MOEC_CACHE_DIR={{work}}/c moec compile {LAYER} --arch=sm_80 --max-tokens=1 -o {{work}}/p",
     "MOEC_NVRTC_PATH", "/nowhere", "libnvrtc.so.N"),
    # The command line of the Python package.
    ("python -m moec warmup x --max-token=64", "--max-token;", "did you mean --max-tokens?"),
    ("python -m moec warmup x --ep=8", "--ep", "'8'", "no value"),
    ("python -m moec warmup x --tp=two", "--tp", "two", "integer"),
    ("python -m moec warmup x --rank=1 --all-ranks", "--all-ranks", "--rank"),
    (f"python -m moec warmup {MODEL} --arch=sm_90a --no-shared-experts", "no_shared_experts", "leave the option out"),
    ("python -m moec warmup", "MODEL", "moec warmup --help"),
    (f"python -m moec warmup {MODEL} --arch=sm_90a --jobs=-1", "jobs is -1", "0 or more"),
    ("python -m moec doctor --jsn", "--jsn", "--json"),
    # Commands that other programs serve.
    ("moec run x --token=3 --device=host", "moec run:", "--token;", "did you mean --tokens?"),
    ("moec check x --device=gpu", "moec check:", "--device", "'gpu'", "host, cuda or emulated"),
    ("moec chek x", "'chek'", "did you mean check?"),
    ("moec bnech x", "'bnech'", "did you mean bench?"),
    ("moec opt --no-such-pass /dev/null", "no-such-pass"),
    ("moec cache lst", "lst", "did you mean list?"),
    ("moec cache trim", "--max-size=SIZE", "--older-than=TIME"),
    ("moec cache trim --max-size=2X", "--max-size", "500M, 2G or 1GiB", "'2X'"),
    ("moec cache clear --max-size=2G", "clear removes all", "moec cache trim"),
    ("moec cache --dry-run", "--dry-run", "moec cache trim"),
    ("moec cache trim --older-than=soon", "--older-than", "a number above 0", "soon"),
    ("MOEC_CACHE_SIZE=big moec cache", "MOEC_CACHE_SIZE", "'big'"),
    ("moec completion fish", "fish", "bash or zsh"),
    (f"moec compile {LAYER} --arch=sm_80 --emit=cuda --json", "--json", "--emit=cuda"),
    (f"{EXPLAIN} --brief --json", "--brief", "--json"),
    ("python -m moec warmpu x", "'warmpu'", "did you mean warmup?"),
    ("python -m moec complie x", "'complie'", "did you mean compile?"),
    ("python -m moec warmup {work}/layer.json --arch=sm90a", "sm90a", "did you mean sm_90a?"),
)


def run(row, source, build, work):
    """None, or what is wrong with the answer to a mistake."""
    line, texts = row[0].format(work=work), row[1:]
    words = shlex.split(line)
    environment = dict(os.environ)
    while "=" in words[0]:
        name, value = words.pop(0).split("=", 1)
        environment[name] = value
    if words[0] == "python":
        words[0] = sys.executable
        environment |= {"PYTHONPATH": str(source / "python"), "MOEC_LIBRARY": str(build / "lib" / "libmoec.so")}
    else:
        words[0] = str(next(path for path in (build / "bin" / words[0], build / "bench" / words[0]) if path.exists()))
    done = subprocess.run(words, cwd=source, env=environment, capture_output=True, text=True, timeout=120)
    if done.returncode == 0:
        return f"{line}: taken"
    if done.returncode < 0 or done.returncode > 2:
        return f"{line}: exit status {done.returncode}: {done.stderr}"
    if not any(all(text in said for text in texts) for said in done.stderr.splitlines()):
        return f"{line}: no line has {', '.join(map(repr, texts))}: {done.stderr}"
    return f"{line}: printed {done.stdout!r}" if done.stdout else None


def is_built(row, build):
    words = [word for word in shlex.split(row[0]) if not word.startswith("MOEC_")]
    if words[0] == "python":
        return (build / "lib" / "libmoec.so").exists()
    return any((build / place / words[0]).exists() for place in ("bin", "bench"))


def main():
    source, work = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    build = pathlib.Path(shutil.which("moec") or "").resolve().parents[1]
    (work / "layer.json").write_text(LAYER_TEXT)
    before = sorted(work.rglob("*"))
    rows = [row for row in MISTAKES if is_built(row, build)]
    if missing := sorted({shlex.split(row[0])[0] for row in MISTAKES if row not in rows}):
        print("not built:", ", ".join(missing))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        wrong = [reason for reason in pool.map(lambda row: run(row, source, build, work), rows) if reason]
    if new := [path for path in work.rglob("*") if path not in before and "c" not in path.relative_to(work).parts[:1]]:
        wrong.append(f"written: {', '.join(map(str, new))}")
    print(*wrong, sep="\n")
    print(f"{len(rows)} mistakes, {len(wrong)} wrong")
    sys.exit(1 if wrong or len(rows) < 60 else 0)


main()
