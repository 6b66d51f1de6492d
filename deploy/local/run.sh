#!/bin/bash
# From a clone to a trained model on this machine: installs what is missing, builds, then trains a small GPT on the
# machine's C++ headers with a coordinator and four workers, and shows what it writes.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
source "$ROOT/deploy/local/programs.sh"
stop_child_on_signals

usage() {
  cat <<'EOF'
usage: deploy/local/run.sh [--short] [--job FILE] [--bundle FILE] [ARGS...]
  --short        train for a few seconds only, to see that everything works (what CI does)
  --job FILE     train another job; deploy/local/jobs/ has some. Default: deploy/local/job.yaml
  --bundle FILE  run the programs of this bundle (`bazel build //deploy:bundle`); nothing is installed or built.
                 Default: deploy/ringmaster*.tar.gz, if it is there
  ARGS           go to `ringctl local` as they are: -n 2, --threads 2, --set train.steps=500
Logs, checkpoints and figures go to a new directory .logs/run-TIME (RINGMASTER_RUN_DIR: another one); a job of --job
keeps its own directory of checkpoints. All flags of ringctl: ringctl local --help
EOF
}

JOB=
SHORT=
BUNDLE=
while (($#)); do
  case $1 in
    --help | -h)
      usage
      exit 0
      ;;
    --short) SHORT=1 ;;
    --job | --job=* | --bundle | --bundle=*)
      FLAG=${1%%=*}
      if [[ $1 == "$FLAG" ]]; then
        (($# > 1)) || misuse "$FLAG needs a file; see --help"
        shift
      fi
      FILE=${1#"$FLAG"=}
      [[ -f $FILE && -r $FILE ]] || misuse "$FLAG: cannot read the file ${FILE:-\"\"}; see --help"
      FILE=$(realpath "$FILE")
      if [[ $FLAG == --job ]]; then JOB=$FILE; else BUNDLE=$FILE; fi
      ;;
    -*) break ;;
    *) misuse "unexpected argument $1; another job is given as --job FILE; see --help" ;;
  esac
  shift
done

RUN_DIR=${RINGMASTER_RUN_DIR:-$ROOT/.logs/run-$(date +%Y%m%d-%H%M%S)-$$}
[[ $RUN_DIR == /* ]] || RUN_DIR=$PWD/$RUN_DIR
CHECKPOINTS=
ARGS=()
if [[ -z $JOB ]]; then
  JOB=$ROOT/deploy/local/job.yaml
  # Each run begins anew, in a directory of its own.
  CHECKPOINTS=$RUN_DIR/checkpoints
  ARGS=(--set "train.checkpoint.directory=$CHECKPOINTS")
fi
if [[ -n $SHORT ]]; then
  ARGS+=(--set train.steps=40 --set train.evaluation_samples=32 --set train.optimizer.schedule.warmup_steps=10)
fi
ARGS+=("$@")
for argument in "${ARGS[@]}"; do
  argument=${argument#--set=}
  [[ $argument != train.checkpoint.directory=* ]] || CHECKPOINTS=${argument#*=}
done

find_ringctl "$BUNDLE" "$ROOT/.logs/local-build.log"
if grep -qs /usr/include/c++ "$JOB" && [[ ${ARGS[*]} != *train.data.text.path=* ]]; then
  need_headers ", or --set train.data.text.path=DIR"
fi

# Paths in the job file start at the root of the repository.
START_DIR=$PWD
cd "$ROOT" || exit 1
export RINGMASTER_RUN_DIR=$RUN_DIR
say "ringctl local ${JOB#"$ROOT"/}"
# In this process group, so that it draws on the terminal and sees Ctrl-C itself; waited for, so that a signal to this
# script alone reaches it too.
(
  trap - INT
  exec "$RINGCTL" local "$JOB" "${ARGS[@]}"
) <&0 &
RUN=$!
trap 'SIGNALLED=1' INT
trap 'SIGNALLED=1; kill -TERM "$RUN" 2>/dev/null' TERM HUP
SIGNALLED=1
while [[ -n $SIGNALLED ]]; do  # a signal ends `wait` early
  SIGNALLED=
  wait "$RUN"
  STATUS=$?
done

if [[ -n $CHECKPOINTS ]] && compgen -G "$CHECKPOINTS/step-*" >/dev/null; then
  CHECKPOINTS=${CHECKPOINTS#"$ROOT"/}
  [[ $START_DIR == "$ROOT" ]] || printf '\nIn %s:' "$ROOT"
  cat <<EOF

Let the model write more:
  $RINGCTL sample --checkpoint=$CHECKPOINTS --prompt='namespace std' --bytes=600
Train on from there, for longer:
  deploy/local/run.sh --set train.checkpoint.directory=$CHECKPOINTS --set train.steps=5000
Figures of every step:
  $CHECKPOINTS/metrics.jsonl, or: tensorboard --logdir=$CHECKPOINTS
EOF
fi
exit "$STATUS"
