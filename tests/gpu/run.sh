#!/bin/bash
# Runs every GPU test and benchmark on a machine that has a GPU and Python, but need not have Bazel, gRPC or a network.
#
# usage: tests/gpu/run.sh --build [--config=NAME] [--out=FILE]
#        tests/gpu/run.sh [BUNDLE] [--out=DIR] [--budget=SECONDS] [--jobs=N]
#   --build   builds with --config=cuda (no GPU is needed) what has the tag "gpu" or "gpu_bench" and our programs, and packs them
#             with all libraries but CUDA's into FILE (.gpu/ringmaster-gpu.tar.xz), of at most 64 MiB
#   BUNDLE    that file, or the folder into which it was unpacked; without it, the folder that this script was unpacked
#             in, else .gpu/ringmaster-gpu.tar.xz
#   --out     where logs, table.md and results.json go (.gpu/out)
#   --budget  all of it takes no longer (570); what has no time is "not run"
#
# Prints a line for each test and benchmark, then one table. Exit status: 0 if nothing failed (a skip is no failure, its
# reason is in the table), 1 if something failed or hung, 2 if it cannot start, 3 if nothing failed but time ran out.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"

# Packed beside tests and benchmarks.
PROGRAMS=(//server/coordinator:coordinator //worker/parameter_server:parameter_server //server/ctl:ringctl //worker:worker)
TAGGED='attr(tags, "\b(gpu|gpu_bench)\b", kind("(test|binary) rule", //...))'

build() {
  local config=cuda out=$ROOT/.gpu/ringmaster-gpu.tar.xz argument
  for argument in "$@"; do
    case $argument in
      --config=*) config=${argument#*=} ;;
      --out=*) out=$(realpath -m "${argument#*=}") ;;
      *) die "unknown argument '$argument' to --build; it takes --config=NAME and --out=FILE" ;;
    esac
  done
  [[ $config != cuda || -x ${CUDA_HOME:-/usr/local/cuda}/bin/nvcc ]] ||
    die "--config=cuda needs the CUDA toolkit: there is none in ${CUDA_HOME:-/usr/local/cuda} (set CUDA_HOME)"
  command -v patchelf >/dev/null || die "no patchelf; run deploy/setup.sh"
  local work labels bin
  work=$(mktemp -d) || exit 1
  # shellcheck disable=SC2064  # the directory of now
  trap "rm -rf '$work'" EXIT
  query "$TAGGED" >"$work/tagged.xml" || die "bazel query failed"
  query "set(${PROGRAMS[*]})" >"$work/programs.xml" || die "bazel query failed"
  labels=$(python3 "$ROOT/tests/gpu/pack.py" --list "$work"/*.xml) || exit 1
  say "building $(wc -w <<<"$labels") targets with --config=$config"
  # shellcheck disable=SC2086  # a list of words
  ringmaster_bazel build --config="$config" $labels || die "the build failed"
  bin=$(ringmaster_bazel info --config="$config" bazel-bin 2>/dev/null) || die "bazel info failed"
  mkdir -p "$(dirname "$out")" || exit 1
  python3 "$ROOT/tests/gpu/pack.py" --bin="$bin" --config="$config" --out="$out" "$work"/*.xml
}

query() {
  # shellcheck disable=SC2086  # a list of words
  (cd "$ROOT" && exec bazel ${RINGMASTER_BAZEL_STARTUP:-} query --noshow_progress --output=xml "$1")
}

if [[ ${1:-} == --build ]]; then
  shift
  build "$@"
  exit
fi
command -v python3 >/dev/null || { echo "error: no python3 here; it must be on the PATH" >&2; exit 2; }
export PYTHONPATH=$ROOT${PYTHONPATH:+:$PYTHONPATH} PYTHONDONTWRITEBYTECODE=1
# By its path: with -m, a directory tests/ where we are called from would come first.
exec python3 "$ROOT/tests/gpu/run.py" "$@"
