# shellcheck shell=bash
# Shell functions that the scripts of this repository share. Sourced, with bash, never run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# One line of progress.
say() { printf '== %s\n' "$*"; }

# One line that says what is wrong and what to do, then exit status 1.
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# run_child LOG COMMAND...: runs the command, its output going to LOG ("-": where ours goes), in a process group of its
# own, so that stop_child reaches everything it started; returns its status. The script's own traps run at once
# meanwhile, as they would not while a foreground command runs, and print where the script does.
run_child() {
  local log=$1 status
  shift
  set -m
  if [[ $log == - ]]; then
    "$@" &
  else
    "$@" >"$log" 2>&1 &
  fi
  CHILD=$!
  set +m
  wait "$CHILD"
  status=$?
  CHILD=
  return $status
}

# Interrupts the child of run_child, if there is one; kills its group if it has not ended 20 s later.
stop_child() {
  [[ -n ${CHILD:-} ]] || return 0
  kill -INT -- "-$CHILD" 2>/dev/null
  local tries
  for ((tries = 0; tries < 100; ++tries)); do
    kill -0 -- "-$CHILD" 2>/dev/null || return 0
    sleep 0.2
  done
  kill -KILL -- "-$CHILD" 2>/dev/null
}

# Ctrl-C and TERM end the script's child too.
stop_child_on_signals() {
  trap 'stop_child; exit 130' INT
  trap 'stop_child; exit 143' TERM HUP
}

# As many compilations at once as cores, but not more than memory holds: a file that includes gRPC takes over 1 GB.
compile_jobs() {
  local cores memory_mb limit_mb
  cores=$(nproc)
  memory_mb=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
  if limit_mb=$(cat /sys/fs/cgroup/memory.max 2>/dev/null) && [[ $limit_mb =~ ^[0-9]+$ ]]; then
    limit_mb=$((limit_mb / 1024 / 1024))
    ((limit_mb < memory_mb)) && memory_mb=$limit_mb
  fi
  local by_memory=$((memory_mb / 1500))
  ((by_memory < 1)) && by_memory=1
  echo $((cores < by_memory ? cores : by_memory))
}

# bazel COMMAND ARGS..., from anywhere. RINGMASTER_BAZEL_STARTUP and RINGMASTER_BAZEL_FLAGS (words separated by
# spaces) are added before and after the command, for example "--output_base=/scratch/bazel".
ringmaster_bazel() {
  local command=$1
  shift
  # shellcheck disable=SC2086  # the two variables are lists of words
  (cd "$ROOT" && exec bazel ${RINGMASTER_BAZEL_STARTUP:-} "$command" --jobs="$(compile_jobs)" \
    --color=no --curses=no --show_progress_rate_limit=30 ${RINGMASTER_BAZEL_FLAGS:-} "$@")
}
