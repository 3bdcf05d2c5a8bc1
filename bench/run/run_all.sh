#!/usr/bin/env bash
#===- run_all.sh - one bench on the machine with the GPU --------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# Runs in a folder that bench/run/compile_cells.py filled; builds nothing. Each
# package is a process of its own, so that one that fails costs only itself.
# Writes to $OUT: bench-<package>.json, thermometer.json, gpu.csv, log; the
# short table is printed last.
#
#   OUT=results ./run_all.sh [--cells=WORD,...] [--tokens=1,8,...] [--limit=SECONDS]
#                            [--no-thermometer] [-- options of moec-bench]
#
# A word of --cells is a shape, a scheme or shape/scheme. --limit (default 60)
# is what one package may take.
#
#===------------------------------------------------------------------------===#
set -uo pipefail

here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
out=${OUT:-$PWD/bench-out}
cells="" tokens="" limit=60 thermometer=1 more=()
while (($#)); do
  case $1 in
  --cells=*) cells=${1#*=} ;;
  --tokens=*) tokens=$1 more+=("$1") ;;
  --limit=*) limit=${1#*=} ;;
  --no-thermometer) thermometer=0 ;;
  --)
    shift
    more+=("$@")
    break
    ;;
  *)
    printf "run_all.sh: unknown option '%s'; expected --cells=, --tokens=, --limit=, --no-thermometer or --\n" "$1" >&2
    exit 2
    ;;
  esac
  shift
done
mkdir -p "$out"
log=$out/log

# selected package: whether a word of --cells names it.
selected() {
  local name=$1 word words
  [[ -z $cells ]] && return 0
  IFS=, read -ra words <<<"$cells"
  for word in "${words[@]}"; do
    case $word in
    '*' | "$name") return 0 ;;
    */*) [[ $name == "${word%%/*}-${word#*/}" ]] && return 0 ;;
    *) [[ $name == "$word"-* || $name == *-"$word" ]] && return 0 ;;
    esac
  done
  return 1
}

if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,temperature.gpu,power.draw --format=csv >"$out/gpu.csv"
fi
[[ -e $here/commit ]] && cp "$here/commit" "$out/commit"

if ((thermometer)); then
  timeout 120 python3 "$here/thermometer.py" --out="$out/thermometer.json" 2>&1 | tee -a "$log"
fi

status=0 reports=()
for package in "$here"/*.moec; do
  name=$(basename "$package" .moec)
  if [[ ! -e $package/manifest.json ]] || ! selected "$name"; then continue; fi
  report=$out/bench-$name.json
  start=$SECONDS
  if ! timeout "$limit" "$here/moec-bench" "$package" --targets="$here/targets.json" --json "${more[@]}" \
    >"$report" 2>"$out/bench-$name.err"; then
    status=1
    printf '%s failed after %s s: %s\n' "$name" $((SECONDS - start)) "$(tail -n 1 "$out/bench-$name.err")" | tee -a "$log"
  fi
  if [[ -s $report ]]; then reports+=("$report"); else rm -f "$report"; fi
  if [[ ! -s $out/bench-$name.err ]]; then rm -f "$out/bench-$name.err"; fi
  printf '%s: %s s\n' "$name" $((SECONDS - start)) >>"$log"
done

if ((${#reports[@]} == 0)); then
  printf 'run_all.sh: no package of %s was timed%s\n' "$here" "${cells:+ (--cells=$cells)}" >&2
  exit 1
fi
[[ -e $out/gpu.csv ]] && tail -n 1 "$out/gpu.csv"
python3 "$here/short_table.py" "${reports[@]}" | tee -a "$log"
exit $status
