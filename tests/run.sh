#!/bin/bash
# From a clone to passing tests: installs what is missing, builds, runs all tests, then some again under sanitizers.
#
# usage: tests/run.sh [--full]
#   --full   all that tests can try (RINGMASTER_FULL_TESTS), all tests under both sanitizers, clang's thread-safety
#            analysis, the image, Slurm, programs of earlier releases, and clang-tidy (hours on 2 cores)
#
# Prints a line for each stage; logs go to .logs/ (or $RINGMASTER_LOG_DIR). The last line is always
# "N passed, N failed, N skipped", over the cases of all stages: a case that ran under a sanitizer too counts again.
# Exit status: 0 if nothing failed, 1 otherwise, 130 on Ctrl-C.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../deploy/common.sh"

# The targets of the sanitizers in the short form, chosen so that everything ends within an hour on 2 cores from nothing: tests
# that link no gRPC (no_tsan marks those that do), for its headers make most of the time that an instrumented build takes.
# ThreadSanitizer sees what threads share among hosts (collectives, process groups, servers, checkpoints), AddressSanitizer what comes
# from outside (frames, messages, files) and the kernels; the rest is left to --full.
SHORT_TSAN=(--test_tag_filters=threads,-no_tsan,-gpu --build_tag_filters=threads,-no_tsan,-gpu //common/...
  //worker/parameter_server/... //worker/checkpoint/... //worker/collective/... //worker/torch/...)
SHORT_ASAN=(--test_tag_filters=-no_asan,-no_tsan,-gpu --build_tag_filters=-no_asan,-no_tsan,-gpu //common/...
  //worker/checkpoint/... //worker/collective/... //worker/data/... //worker/nn/... //worker/torch/...)

# A sanitizer of the short form does not begin later than this, in seconds, so that a slow machine ends within 90 minutes, too.
LATEST_TSAN=3600 LATEST_ASAN=4200

# More failures than this among tests of real processes are not a loaded machine's.
MOST_AGAIN=5

FULL=
case ${1:-} in
  --full) FULL=1 ;;
  '') ;;
  *) die "unknown argument '$1'; usage: tests/run.sh [--full]" ;;
esac

LOG_DIR=${RINGMASTER_LOG_DIR:-$ROOT/.logs}
mkdir -p "$LOG_DIR" || exit 1
PASSED=0 FAILED=0 SKIPPED=0

finish() {
  local status=$?
  trap - EXIT
  stop_child
  ((status != 0 && FAILED == 0)) && FAILED=1
  echo "$PASSED passed, $FAILED failed, $SKIPPED skipped"
  ((status == 0 && FAILED > 0)) && status=1
  exit "$status"
}
trap finish EXIT
stop_child_on_signals

# stage NAME BAZEL_ARGS...: one `bazel test`, counted. Where its time went stands in .logs/NAME.profile.gz (for chrome://tracing).
stage() {
  local name=$1 log=$LOG_DIR/$1.log events=$LOG_DIR/$1.events.json started=$SECONDS status=0
  shift
  rm -f "$events"
  run_child "$log" ringmaster_bazel test --keep_going --build_event_json_file="$events" \
    --profile="$LOG_DIR/$name.profile.gz" --experimental_profile_include_primary_output "$@" || status=$?
  # 3: built, but some failed.
  if ((status == 3)); then
    again_alone "$name" "$log" "$events" "$@"
    status=$?
  fi
  count "$name" "$log" "$events" "$status" $((SECONDS - started))
}

# again_alone NAME LOG EVENTS BAZEL_ARGS...: a few tests with real processes, which have limits of time, failed beside compilers
# and other tests, on a machine that may be loaded by others, too. They are run again, one by one, and what they do then counts; a
# line names each, with what had failed. Returns 0 if nothing has failed then.
again_alone() {
  local name=$1 log=$2 events=$3 again=$LOG_DIR/$1.again.log status=0 argument
  shift 3
  local -a all tests options
  mapfile -t all < <(python3 "$ROOT/tests/count_cases.py" "$events" | sed -n 's/^  FAILED  \([^ ]*\) .*/\1/p' | sort -u)
  mapfile -t tests < <(printf '%s\n' "${all[@]}" | grep '^//tests/integration:')
  ((${#tests[@]} > 0 && ${#tests[@]} <= MOST_AGAIN)) || return 3
  python3 "$ROOT/tests/count_cases.py" "$events" | grep '^  FAILED  //tests/integration:' | sed "s/^  FAILED /== $name: run again, alone:/"
  grep -m 20 -E '^(AssertionError|[A-Za-z.]*Error:)' "$log" | sed 's/^/  /' | cut -c 1-300
  for argument in "$@"; do [[ $argument == -* ]] && options+=("$argument"); done
  rm -f "$events.again"
  run_child "$again" ringmaster_bazel test --keep_going --local_test_jobs=1 --build_event_json_file="$events.again" \
    "${options[@]}" "${tests[@]}" || status=$?
  cat "$events.again" >>"$events"
  ((status != 0 || ${#all[@]} == ${#tests[@]})) || status=3
  return $status
}

# not_later SECONDS NAME: false, with a line and a skip, if it is later than that.
not_later() {
  ((SECONDS > $1)) || return 0
  SKIPPED=$((SKIPPED + 1))
  say "$2: not run, since the stages before it took $((SECONDS / 60)) minutes"
  return 1
}

count() {
  local name=$1 log=$2 events=$3 status=$4 seconds=$5 report=$LOG_DIR/$1.cases passed=0 failed=0 skipped=0
  # 4: built, but there are no tests.
  ((status == 4)) && status=0
  [[ -s $events ]] && python3 "$ROOT/tests/count_cases.py" "$events" >"$report" && read -r passed failed skipped <"$report"
  ((status != 0 && failed == 0)) && failed=1
  PASSED=$((PASSED + passed)) FAILED=$((FAILED + failed)) SKIPPED=$((SKIPPED + skipped))
  say "$name: $passed passed, $failed failed, $skipped skipped in $seconds s"
  [[ -s $report ]] && tail -n +2 "$report"
  if ((status != 0)); then
    grep -m 20 -E '^(ERROR|FAIL|TIMEOUT)|error:' "$log"
    say "$name: the whole log is $log"
  fi
  return 0
}

# gpu_bundle: what is carried to machines with a GPU is packed, and runs from the file; one case.
gpu_bundle() {
  local log=$LOG_DIR/gpu_bundle.log started=$SECONDS
  pack_and_run() {
    "$ROOT/tests/gpu/run.sh" --build && "$ROOT/tests/gpu/run.sh" --out="$LOG_DIR/gpu"
  }
  if run_child "$log" pack_and_run; then
    PASSED=$((PASSED + 1))
    say "gpu_bundle: $(tail -n 1 "$log") ($((SECONDS - started)) s with its build)"
  else
    FAILED=$((FAILED + 1))
    say "gpu_bundle: $(tail -n 1 "$log"); the whole log is $log"
  fi
}

# releases: the programs of each earlier release, built from its commit, in jobs with today's.
releases() {
  local commit version log
  for commit in "$ROOT"/tests/golden/*/COMMIT; do
    version=$(basename "$(dirname "$commit")") log=$LOG_DIR/release_$version.build.log
    if run_child "$log" "$ROOT/tests/golden/build_release.sh" "$version" "$LOG_DIR/releases/$version"; then
      stage "release_$version" --test_env=RINGMASTER_RELEASE_BIN_DIR="$LOG_DIR/releases/$version" //tests/integration:mixed_releases_test
    else
      FAILED=$((FAILED + 1))
      say "release_$version: $(tail -n 1 "$log"); the whole log is $log"
    fi
  done
}

# tidy: clang-tidy on every source of ours, except for CUDA's, which needs a toolkit's headers and more of C++20 than
# clang 14 has (std::source_location); one case.
tidy() {
  local log=$LOG_DIR/clang-tidy.log started=$SECONDS
  local -a sources
  mapfile -t sources < <(cd "$ROOT" && git ls-files 'common/*.cc' 'server/*.cc' 'worker/*.cc' | grep -vE '_test\.cc$|/(cuda|nccl)/|/cuda_build\.cc$')
  local generated
  generated=$(ringmaster_bazel info bazel-bin 2>/dev/null)/proto
  tidy_all() {
    (cd "$ROOT" && printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "$(compile_jobs)" \
      sh -c 'clang-tidy-14 --quiet "$2" -- -std=c++20 -xc++ -I. -isystem "$1" -DSPDLOG_COMPILED_LIB -DSPDLOG_FMT_EXTERNAL' \
      tidy "$generated")
  }
  if run_child "$log" tidy_all; then
    PASSED=$((PASSED + 1))
    say "clang-tidy: clean in $((SECONDS - started)) s"
  else
    FAILED=$((FAILED + 1))
    say "clang-tidy: $(grep -c 'error:' "$log") findings in $((SECONDS - started)) s; they are in $log"
  fi
}

"$ROOT/deploy/setup.sh" ${FULL:+--full} || exit 1
# Without it one test is skipped, and says so.
"$ROOT/third_party/axe_core/fetch.sh" || say "the page is not checked with axe-core"
cd "$ROOT" || exit 1

# Tests of real processes mostly wait, so one action more than there are cores keeps these busy.
ACTIONS=$(($(compile_jobs) + 1))
# Tests that have more to try than the short form has time for look at RINGMASTER_FULL_TESTS.
stage all --jobs=$ACTIONS --local_cpu_resources=$ACTIONS ${FULL:+--test_env=RINGMASTER_FULL_TESTS=1} //...
# Only what has CUDA in it is built again. Without a GPU, tests of kernels skip and say so.
if [[ -x ${CUDA_HOME:-/usr/local/cuda}/bin/nvcc ]]; then
  stage cuda --config=cuda --test_tag_filters=gpu //...
  # The same tests with kernels compiled by g++ on an emulated GPU, so that they run where there is none.
  stage cuda_emulated --config=cuda_emulated --test_tag_filters=gpu //...
  # All of it is built by now, so this packs and runs, in about a minute and a half on 2 cores.
  gpu_bundle
fi
if [[ -n $FULL ]]; then
  stage tsan --config=tsan //...
  stage asan --config=asan //...
  stage clang --config=clang //...
  stage image //tests/integration:image_test
  stage slurm //tests/integration:slurm_test
  releases
  tidy
else
  not_later $LATEST_TSAN tsan && stage tsan --config=tsan "${SHORT_TSAN[@]}"
  not_later $LATEST_ASAN asan && stage asan --config=asan "${SHORT_ASAN[@]}"
fi
exit 0
