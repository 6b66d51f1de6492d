#!/bin/bash
# From a clone to a trained model on this machine: installs what is missing, builds, then trains the job of
# deploy/local/job.yaml with a coordinator and two workers, and prints its progress.
#
# usage: deploy/local/run.sh [--short] [ARGS...]
#   --short   a few steps only, to see that everything works (what CI does)
#   ARGS      go to `ringctl local` as they are, for example `--set train.steps=1000`. For another job, run ringctl
#             itself: bazel-bin/server/ctl/ringctl local JOB.yaml
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
stop_child_on_signals

ARGS=()
if [[ ${1:-} == --short ]]; then
  ARGS=(--set train.steps=20 --set train.evaluation_samples=256)
  shift
fi
ARGS+=("$@")

"$ROOT/deploy/setup.sh" || exit 1

say "build: coordinator, worker, ringctl"
LOG_DIR=$ROOT/.logs
mkdir -p "$LOG_DIR"
TARGETS=(//:coordinator //:worker //:ringctl)
run_child "$LOG_DIR/local-build.log" ringmaster_bazel build "${TARGETS[@]}" || {
  tail -n 30 "$LOG_DIR/local-build.log" >&2
  die "the build failed; the whole log is $LOG_DIR/local-build.log"
}

# ringctl knows where the other two are from its own place in bazel-bin.
RINGCTL=$(ringmaster_bazel info bazel-bin 2>/dev/null)/server/ctl/ringctl

say "ringctl local -n 2 deploy/local/job.yaml"
export RINGMASTER_RUN_DIR=${RINGMASTER_RUN_DIR:-$LOG_DIR/run-$(date +%Y%m%d-%H%M%S)}
# In the foreground, so that it owns the terminal and sees Ctrl-C itself.
# Paths in the job file start at the root of the repository.
cd "$ROOT" || exit 1
exec "$RINGCTL" local -n 2 deploy/local/job.yaml "${ARGS[@]}"
