# shellcheck shell=bash
# Shell functions that the scripts of this repository share. Sourced, with bash, never run.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Seconds from one line of progress to the next, where no bar can be drawn.
PROGRESS_PERIOD=30

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

# run_with_progress LOG NAME SECONDS COMMAND...: run_child, showing meanwhile how far the command is, as it writes to LOG
# (see read_progress). SECONDS is how long it is expected to take, 0 if that is not known.
run_with_progress() {
  local log=$1 name=$2 expected=$3 status
  shift 3
  : >"$log" || return 1
  set -m
  show_progress "$log" "$name" "$expected" &
  PROGRESS=$!
  set +m
  run_child "$log" "$@"
  status=$?
  end_progress
  return $status
}

# Ends what run_with_progress shows, and clears the line of its bar.
end_progress() {
  [[ -n ${PROGRESS:-} ]] || return 0
  kill -- "-$PROGRESS" 2>/dev/null
  wait "$PROGRESS" 2>/dev/null
  PROGRESS=
  ! draws_bars || printf '\r\033[K'
}

# Returns true if stdout is a terminal on which a line can be drawn anew.
draws_bars() { [[ -t 1 && ${TERM:-dumb} != dumb && -z ${NO_COLOR:-} ]]; }

# read_progress LOG: prints "DONE TOTAL WHAT" of the log's newest line of progress, if there is one: Bazel's
# "[1,024 / 2,048] Compiling x.cc; 3s", or APT::Status-Fd's "dlstatus:N:PERCENT:WHAT" and, after those,
# "pmstatus:PACKAGE:PERCENT:WHAT".
read_progress() {
  tail -c 4096 "$1" | tr '\r' '\n' | awk '
    match($0, /^\[[0-9,]+ \/ [0-9,]+\] /) {
      split(substr($0, 2, RLENGTH - 3), counts, " / ")
      gsub(",", "", counts[1])
      gsub(",", "", counts[2])
      what = substr($0, RLENGTH + 1)
      sub(/;.*/, "", what)
      newest = counts[1] " " counts[2] " " what
    }
    /^(dl|pm)status:[^:]*:[0-9.]+:/ {
      split($0, fields, ":")
      newest = int(fields[3]) + (fields[1] == "pmstatus" ? 100 : 0) " 200 " fields[4]
    }
    END { if (newest != "") print newest }'
}

# time_left SECONDS: in words.
time_left() {
  if (($1 >= 90)); then
    echo "about $((($1 + 59) / 60)) min left"
  elif (($1 > 10)); then
    echo "about $((($1 + 9) / 10 * 10)) s left"
  else
    echo "a few seconds left"
  fi
}

# show_progress LOG NAME SECONDS: how far a command is by its LOG, once a second as a bar where one can be drawn, else as
# a line every PROGRESS_PERIOD, until this is killed. The time left follows from the last two minutes.
show_progress() {
  local log=$1 name=$2 expected=$3 period=$PROGRESS_PERIOD begun=$SECONDS due reached total what percent=0 left text width bar
  local -a times=() counts=()
  ! draws_bars || period=1 bar=1
  due=$((SECONDS + period))
  # Should the script be killed, this ends too.
  while sleep 1 && kill -0 $$ 2>/dev/null; do
    ((SECONDS >= due)) || continue
    due=$((SECONDS + period)) reached=0 total=0 what='' left=''
    read -r reached total what < <(read_progress "$log")
    if ((total > 0)); then
      # It never goes back, though Bazel finds more to do on its way.
      ((percent >= 100 * reached / total)) || percent=$((100 * reached / total))
      times+=("$SECONDS") counts+=("$reached")
      while ((${#times[@]} > 2 && SECONDS - times[0] > 120)); do
        times=("${times[@]:1}") counts=("${counts[@]:1}")
      done
      if ((SECONDS - times[0] >= 20 && reached > counts[0])); then
        left=$(time_left $(((total - reached) * (SECONDS - times[0]) / (reached - counts[0]))))
      fi
    fi
    if [[ -z $left ]] && ((expected > SECONDS - begun)); then
      left=$(time_left $((expected - SECONDS + begun)))
    fi
    text="$percent %${left:+, $left}"
    if [[ -z ${bar:-} ]]; then
      say "$name: $text"
      continue
    fi
    printf -v text '%s [%-20s] %s  %s' "$name" "$(printf '%*s' $((percent / 5)) '' | tr ' ' '#')" "$text" "$what"
    { width=$(stty size <&3 2>/dev/null); } 3<&1 && width=${width#* } && ((width > 8)) || width=80
    ((${#text} < width)) || text=${text:0:width-4}...
    printf '\r%s\033[K' "$text"
  done
}

# Interrupts the child of run_child, if there is one; kills its group if it has not ended 20 s later.
stop_child() {
  end_progress
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
