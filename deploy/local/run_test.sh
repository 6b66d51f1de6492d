#!/bin/bash
# run.sh: it trains with the programs of a bundle, refuses a wrong one in one line, shows how far installing and building
# are, and ends with all that it started.
#
# usage: run_test.sh BUNDLE.tar.gz
set -uo pipefail

BUNDLE=$(realpath "$1")
TREE=$TEST_TMPDIR/tree
FAILURES=0
fail() {
  echo "FAILED: $*"
  FAILURES=$((FAILURES + 1))
}

# A tree to write to, with the scripts alone.
for file in deploy/common.sh deploy/local/*.sh deploy/local/*.yaml deploy/local/jobs/*.yaml \
  common/config/version.h; do
  install -D "$file" "$TREE/$file"
done
# A test installs nothing.
printf '#!/bin/bash\n' >"$TREE/deploy/setup.sh"
chmod +x "$TREE/deploy/setup.sh"
mkdir -p "$TEST_TMPDIR/bin"
export PATH=$TEST_TMPDIR/bin:$PATH
RUN=$TREE/deploy/local/run.sh
TEXT=$TEST_TMPDIR/text
for line in {1..2000}; do echo "line $line of a text to train on"; done >"$TEXT"
SMALL=(--job "$TREE/deploy/local/jobs/mlp.yaml" -n 1 --set "train.data.text.path=$TEXT" --set train.steps=5
  --set train.evaluation_samples=8)

# expect STATUS PATTERN COMMAND...: the command ends so, and its output, of one line if it is an error, matches.
expect() {
  local wanted=$1 pattern=$2 output status
  shift 2
  output=$("$@" 2>&1 </dev/null)
  status=$?
  # shellcheck disable=SC2053  # a pattern
  [[ $status == "$wanted" && $output == $pattern && ($status == 0 || $output != *$'\n'*) ]] ||
    fail "$*: status $status, expected $wanted and $pattern; output: $output"
}

# Programs of a bundle: named, and lying in deploy/. Nothing is built, for there is no bazel.
printf '#!/bin/bash\necho "bazel was started"\nexit 1\n' >"$TEST_TMPDIR/bin/bazel"
chmod +x "$TEST_TMPDIR/bin/bazel"
expect 0 '*programs of */ringmaster.tar.gz, ringmaster *succeeded*' "$RUN" --bundle "$BUNDLE" "${SMALL[@]}"
cp "$BUNDLE" "$TREE/deploy/ringmaster-1.tar.gz"
expect 0 '*programs of deploy/ringmaster-1.tar.gz, ringmaster *succeeded*' "$RUN" "${SMALL[@]}"
unpacked=("$TREE"/.cache/*)
((${#unpacked[@]} == 1)) || fail "one bundle was unpacked ${#unpacked[@]} times: ${unpacked[*]}"

# Wrong ones.
cp "$BUNDLE" "$TREE/deploy/ringmaster-2.tar.gz"
expect 2 'error: deploy/ has several bundles (ringmaster-1.tar.gz ringmaster-2.tar.gz): keep one *' "$RUN"
rm "$TREE"/deploy/ringmaster-*.tar.gz
expect 2 'error: --bundle: cannot read the file /nowhere; see --help' "$RUN" --bundle=/nowhere
head -c $(($(stat -L -c %s "$BUNDLE") / 2)) "$BUNDLE" >"$TEST_TMPDIR/half.tar.gz"
expect 2 'error: *half.tar.gz is no bundle: it is no whole .tar.gz archive' "$RUN" --bundle="$TEST_TMPDIR/half.tar.gz"

# pack NAME PROGRAM...: a bundle of PROGRAMS, each of which is the script on stdin.
pack() {
  local name=$1 script program
  shift
  script=$(cat)
  mkdir -p "$TEST_TMPDIR/$name/ringmaster/bin"
  for program in "$@"; do
    printf '%s\n' "$script" >"$TEST_TMPDIR/$name/ringmaster/bin/$program"
    chmod +x "$TEST_TMPDIR/$name/ringmaster/bin/$program"
  done
  tar -C "$TEST_TMPDIR/$name" -czf "$TEST_TMPDIR/$name.tar.gz" ringmaster
}
pack part coordinator worker ringctl <<<'#!/bin/sh'
expect 2 'error: *part.tar.gz is no bundle of these programs: it has no ringmaster/bin/parameter_server*' \
  "$RUN" --bundle="$TEST_TMPDIR/part.tar.gz"
pack other coordinator worker parameter_server ringctl <<<$'#!/bin/sh\necho ringmaster 9.9.9'
expect 2 'error: coordinator of *other.tar.gz is of another release: ringmaster 9.9.9; this tree is ringmaster*' \
  "$RUN" --bundle="$TEST_TMPDIR/other.tar.gz"
pack broken coordinator worker parameter_server ringctl <<<$'#!/bin/sh\necho "GLIBC_2.99 not found"; exit 1'
expect 1 'error: coordinator of *broken.tar.gz does not start: GLIBC_2.99 not found*' \
  "$RUN" --bundle="$TEST_TMPDIR/broken.tar.gz"

# Progress, from what Bazel and apt write.
log=$TEST_TMPDIR/log
progress() { bash -c 'source "$1"; read_progress "$2"' - "$TREE/deploy/common.sh" "$log"; }
printf 'Loading: \n[9 / 10] old\n[1,024 / 2,048] Compiling a b.cc; 3s processwrapper-sandbox ... (4 actions)\nINFO: x\n' >"$log"
[[ $(progress) == "1024 2048 Compiling a b.cc" ]] || fail "Bazel's progress: $(progress)"
printf 'dlstatus:1:20.5:Retrieving file 1 of 2\nSetting up\npmstatus:libfoo:40.9:Unpacking libfoo\nnoise\n' >"$log"
[[ $(progress) == "140 200 Unpacking libfoo" ]] || fail "apt's progress: $(progress)"
printf 'Reading package lists...\n' >"$log"
[[ -z $(progress) ]] || fail "progress of nothing: $(progress)"

cat >"$TEST_TMPDIR/shown.sh" <<SHOWN
source $TREE/deploy/common.sh
PROGRESS_PERIOD=1
slow() { echo "[3 / 4] Compiling x.cc; 1s local"; sleep 3; return 7; }
run_with_progress $log build 600 slow
echo "status \$?"
SHOWN
lines=$(bash "$TEST_TMPDIR/shown.sh" 2>&1)
[[ $lines =~ ^"== build: 75 %, about 10 min left"$'\n'.*"status 7"$ && $lines != *$'\033'* ]] || fail "lines: $lines"
bar=$(TERM=xterm script -qec "stty cols 60; bash $TEST_TMPDIR/shown.sh" /dev/null </dev/null 2>&1)
[[ $bar == *$'\r''build [###############     ] 75 %, about 10 min left'*$'\r\033[Kstatus 7'* && $bar != *Terminated* ]] ||
  fail "bar: $bar"
longest=$(tr '\r' '\n' <<<"$bar" | sed 's/\x1b\[K//g' | wc -L)
((longest < 60)) || fail "the bar has $longest columns of 60: $bar"
for variable in TERM=dumb NO_COLOR=1; do
  bar=$(TERM=xterm env $variable script -qec "bash $TEST_TMPDIR/shown.sh" /dev/null </dev/null 2>&1)
  [[ $bar == "== build: 75 %"* && $bar != *$'\033'* ]] || fail "with $variable: $bar"
done

# A signal in the middle of a build, which it said would be long, ends everything.
cat >"$TEST_TMPDIR/bin/bazel" <<BAZEL
#!/bin/bash
echo "[1 / 4] Compiling x.cc"
echo \$\$ >$TEST_TMPDIR/bazel.pid
exec sleep 1000
BAZEL
# Has jobs started with SIGINT as it is in a terminal, in a process group of their own.
set -m
for signal in INT:130 TERM:143; do
  rm -f "$TEST_TMPDIR/bazel.pid"
  "$RUN" "${SMALL[@]}" >"$TEST_TMPDIR/output" 2>&1 </dev/null &
  run=$!
  for ((tries = 0; tries < 300; ++tries)); do
    [[ -s $TEST_TMPDIR/bazel.pid ]] && break
    sleep 0.1
  done
  grep -qE '^== build: nothing is built yet, which takes [0-9]+ to [0-9]+ minutes with [0-9]+ of [0-9]+ cores$' "$TEST_TMPDIR/output" ||
    fail "it does not say that a build is long: $(<"$TEST_TMPDIR/output")"
  kill "-${signal%:*}" "$run"
  wait "$run"
  status=$?
  ((status == ${signal#*:})) || fail "after SIG${signal%:*} it ended with $status"
  ! kill -0 "$(<"$TEST_TMPDIR/bazel.pid")" 2>/dev/null || fail "SIG${signal%:*} left the build behind"
  ! pgrep -g "$run" >/dev/null || fail "SIG${signal%:*} left behind: $(pgrep -ag "$run")"
done

((FAILURES == 0))
