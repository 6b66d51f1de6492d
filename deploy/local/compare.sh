#!/bin/bash
# From a clone to two reports on how gradients should travel: installs what is missing, builds (unless a bundle of the
# programs lies in deploy/), then trains the same job by ring, in a hierarchy, through one rank and through parameter
# servers, over links of 1 Gbit/s.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
source "$ROOT/deploy/local/programs.sh"
stop_child_on_signals

usage() {
  cat <<'EOF'
usage: deploy/local/compare.sh [--short]
  --short  a run of each kind only, to see that everything works
Writes two reports to a new directory .logs/compare-TIME (RINGMASTER_RUN_DIR: another one), in about a quarter of an
hour on two cores: learning/report.html has losses against time, with two workers that compute; scaling/report.html compares
two, four and eight workers, which wait as long as computing takes, and their memory. Your own: ringctl compare --help
EOF
}

SHORT=
case ${1-} in
  --help | -h)
    usage
    exit 0
    ;;
  --short) SHORT=1 ;;
  '') ;;
  *) misuse "unexpected argument $1; see --help" ;;
esac

RUN_DIR=${RINGMASTER_RUN_DIR:-$ROOT/.logs/compare-$(date +%Y%m%d-%H%M%S)-$$}
[[ $RUN_DIR == /* ]] || RUN_DIR=$PWD/$RUN_DIR
mkdir -p "$RUN_DIR" || exit 1
find_ringctl "" "$RUN_DIR/build.log"
need_headers ""

JOB=deploy/local/jobs/compare.yaml
MODES=ring,hierarchical,gather_broadcast,ps:1,ps:2,ps:colocated
# Each worker is a host of its own, where hierarchical would learn the same as the ring, as fast.
LEARNING_MODES=ring,gather_broadcast,ps:1,ps:2,ps:colocated
WORKERS=2,4,8
STEPS=30
LEARNING_STEPS=150
REPEATS=3
if [[ -n $SHORT ]]; then
  MODES=ring,gather_broadcast
  LEARNING_MODES=ring
  WORKERS=2
  STEPS=10
  LEARNING_STEPS=10
  REPEATS=1
fi

# Paths in the job file start at the root of the repository.
cd "$ROOT" || exit 1
say "two workers that compute"
run_child - "$RINGCTL" compare "$JOB" --out="$RUN_DIR/learning" --modes="$LEARNING_MODES" --workers=2 --link=1gbit --repeats="$REPEATS" \
  --set="train.steps=$LEARNING_STEPS"
LEARNED=$?
((LEARNED == 143)) && exit 143
say "$WORKERS workers that wait as long as computing takes"
run_child - "$RINGCTL" compare "$JOB" --out="$RUN_DIR/scaling" --modes="$MODES" --workers="$WORKERS" --link=1gbit --repeats="$REPEATS" \
  --set="train.steps=$STEPS" --emulate_compute --scale_batch --device_memory=1GiB --vary_modes=ring \
  --vary="16-bit wire:train.collective.wire=bfloat16" \
  --vary="no overlap:train.bucket_bytes=16MiB" \
  --vary="4 micro-batches:train.global_batch=128;train.micro_batch=16;train.steps=$((STEPS / 2))"
SCALED=$?
printf '\nReports:\n  %s\n  %s\n' "$RUN_DIR/learning/report.html" "$RUN_DIR/scaling/report.html"
((SCALED != 0)) && exit "$SCALED"
exit "$LEARNED"
