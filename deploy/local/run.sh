#!/bin/bash
# From a clone to a trained model on this machine: installs what is missing, builds, then trains the job of
# deploy/local/job.yaml with a coordinator and two workers, and prints its progress.
#
# usage: deploy/local/run.sh [--short] [ARGS...]
#   --short   a few steps only, to see that everything works (what CI does)
#   ARGS      go to `ringctl local` as they are, after ours, for example `-n 4` or another job file
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
stop_child_on_signals

SHORT=
if [[ ${1:-} == --short ]]; then
  SHORT=1
  shift
fi

"$ROOT/deploy/setup.sh" || exit 1

say "build: coordinator, worker, ringctl"
LOG_DIR=$ROOT/.logs
mkdir -p "$LOG_DIR"
TARGETS=(//:coordinator //:worker //:ringctl)
run_child "$LOG_DIR/local-build.log" ringmaster_bazel build "${TARGETS[@]}" || {
  tail -n 30 "$LOG_DIR/local-build.log" >&2
  die "the build failed; the whole log is $LOG_DIR/local-build.log"
}

# The binaries side by side, as they are in an installation: ringctl looks for the others in its own directory.
BIN_DIR=$(mktemp -d "${TMPDIR:-/tmp}/ringmaster-bin.XXXXXX") || exit 1
trap 'rm -rf "$BIN_DIR"' EXIT
BAZEL_BIN=$(ringmaster_bazel info bazel-bin 2>/dev/null)
ln -s "$BAZEL_BIN/server/coordinator/coordinator" "$BAZEL_BIN/worker/worker" "$BAZEL_BIN/server/ctl/ringctl" "$BIN_DIR/"

say "ringctl local -n 2 deploy/local/job.yaml"
run_child - "$BIN_DIR/ringctl" local -n 2 --bindir "$BIN_DIR" ${SHORT:+--short} "$ROOT/deploy/local/job.yaml" "$@"
