#!/bin/bash
# The `coordinator` binary's contract with scripts: flags, exit codes, signals, the port file.
set -u
coordinator=server/coordinator/coordinator
dir=$(mktemp -d "${TEST_TMPDIR:-/tmp}/coordinator.XXXXXX")
failures=0

fail() {
  echo "FAILED: $*" >&2
  failures=$((failures + 1))
}

# Waits up to 20 s until the command given succeeds.
await() {
  local i
  for ((i = 0; i < 400; i++)); do
    "$@" 2>/dev/null && return 0
    sleep 0.05
  done
  return 1
}

# start NAME FLAG...: runs a coordinator with a state directory, a port file and a log named after NAME, and waits until
# it listens; sets `pid` and `port`.
start() {
  local name=$1
  shift
  rm -f "$dir/$name.port"
  "$coordinator" --listen=127.0.0.1:0 --port_file="$dir/$name.port" --state_dir="$dir/$name.state" \
    --shutdown_delay=10ms "$@" 2>"$dir/$name.log" &
  pid=$!
  await test -s "$dir/$name.port" || fail "$name does not listen: $(cat "$dir/$name.log")"
  port=$(cat "$dir/$name.port" 2>/dev/null)
}

# expect_end CODE PID WHAT
expect_end() {
  wait "$2"
  local code=$?
  [[ $code == "$1" ]] || fail "$3: exit code $code, expected $1"
}

# refused WHAT TEXT FLAG...: the coordinator ends with 2 and one line that contains TEXT.
refused() {
  local what=$1 text=$2
  shift 2
  timeout 20 "$coordinator" "$@" 2>"$dir/refused.log" >"$dir/refused.out"
  local code=$?
  [[ $code == 2 ]] || fail "$what: exit code $code, expected 2"
  [[ $(wc -l <"$dir/refused.log") == 1 ]] || fail "$what: not one line: $(cat "$dir/refused.log")"
  grep -q -- "$text" "$dir/refused.log" || fail "$what: no '$text' in: $(cat "$dir/refused.log")"
}

# ---- Help and version.
"$coordinator" --version | grep -q '^ringmaster [0-9]' || fail "--version"
"$coordinator" --help >"$dir/help" || fail "--help fails"
for flag in listen port_file state_dir dump_journal failure_budget shutdown_delay tls_cert_file insecure metrics_listen \
  health_listen log_level die_with_parent; do
  grep -q -- "--$flag" "$dir/help" || fail "--help does not show --$flag"
done

# ---- Wrong flags.
refused "a short progress cap" "--progress_cap=1ms is shorter than a lease" --progress_cap=1ms --state_dir="$dir/x"
refused "unknown flag" "listne" --listne=127.0.0.1:0
refused "malformed address" "--listen: " --listen=nowhere --state_dir="$dir/bad"
refused "small budget" "failure_budget" --failure_budget=10ms --state_dir="$dir/bad"
refused "open address without TLS" "insecure" --listen=0.0.0.0:0 --state_dir="$dir/bad"
refused "unknown log level" "log_level" --log_level=loud --state_dir="$dir/bad"
refused "missing certificate" "tls_cert_file" --tls_cert_file="$dir/none.pem" --tls_key_file="$dir/none.pem" \
  --listen=127.0.0.1:0 --state_dir="$dir/bad"
touch "$dir/file"
refused "state directory below a file" "$dir/file/state" --listen=127.0.0.1:0 --state_dir="$dir/file/state"

# ---- What is taken.
start first
[[ $port -gt 0 ]] || fail "no port in the port file: '$port'"
grep -q "coordinator.listening" "$dir/first.log" || fail "does not log where it listens"
refused "taken port" "127.0.0.1:$port.*in use" --listen="127.0.0.1:$port" --state_dir="$dir/second.state"
refused "state directory in use" "$pid" --listen=127.0.0.1:0 --state_dir="$dir/first.state"

# ---- The journal as text: none yet, and none where there is none.
"$coordinator" --dump_journal --state_dir="$dir/first.state" >"$dir/dump" || fail "--dump_journal fails"
[[ ! -s $dir/dump ]] || fail "an empty journal has lines: $(cat "$dir/dump")"
refused "no journal" "there is no journal $dir/none" --dump_journal --state_dir="$dir/none"

# ---- Signals, and the same state again.
kill -TERM "$pid"
expect_end 143 "$pid" "SIGTERM"
grep -q "coordinator.stopping" "$dir/first.log" || fail "does not log that it stops"
grep -q "error" "$dir/first.log" && fail "logs an error on SIGTERM: $(cat "$dir/first.log")"
start first
kill -INT "$pid"
expect_end 143 "$pid" "SIGINT"
# A long budget needs no other flag.
start patient --failure_budget=2m
kill -TERM "$pid"
expect_end 143 "$pid" "SIGTERM with a long budget"
start impatient --shutdown_delay=1h
kill -TERM "$pid"
await grep -q "coordinator.stopping" "$dir/impatient.log" || fail "does not log that it stops"
kill -TERM "$pid"
expect_end 143 "$pid" "second SIGTERM"

# ---- Monitoring.
refused "malformed address for health" "--health_listen: " --listen=127.0.0.1:0 --state_dir="$dir/third.state" \
  --health_listen=nowhere
start watched --metrics_listen=127.0.0.1:0 --health_listen=127.0.0.1:0
refused "taken port for metrics" "--metrics_listen: .*127.0.0.1:$port.*in use" --listen=127.0.0.1:0 \
  --state_dir="$dir/third.state" --metrics_listen="127.0.0.1:$port"
metrics_port=$(sed -n 's/.*monitoring.listening.*metrics_listen.*address=127.0.0.1:\([0-9]*\).*/\1/p' "$dir/watched.log")
exec 3<>"/dev/tcp/127.0.0.1/$metrics_port"
printf 'GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' >&3
cat <&3 >"$dir/metrics"
exec 3>&-
for line in 'ringmaster_coordinator_up 1' 'ringmaster_jobs{state="RUNNING"} 0' 'ringmaster_coordinator_journal_ok 1'; do
  grep -qxF "$line" <(tr -d '\r' <"$dir/metrics") || fail "no '$line' in the metrics: $(cat "$dir/metrics")"
done
kill -TERM "$pid"
expect_end 143 "$pid" "a coordinator with monitoring"

# ---- A killed coordinator leaves nothing behind that stops the next one.
start killed
kill -KILL "$pid"
wait "$pid" 2>/dev/null
start killed
kill -TERM "$pid"
expect_end 143 "$pid" "SIGTERM after a kill"

# ---- It ends with its parent. The child's pid is in the log, as the subshell is gone.
(
  "$coordinator" --listen=127.0.0.1:0 --state_dir="$dir/orphan.state" --port_file="$dir/orphan.port" \
    --shutdown_delay=10ms --die_with_parent 2>"$dir/orphan.log" &
  await test -s "$dir/orphan.port"
)
await grep -q "coordinator.stopping" "$dir/orphan.log" || fail "survives its parent: $(cat "$dir/orphan.log")"

rm -rf "$dir"
[[ $failures == 0 ]] || { echo "$failures failed" >&2; exit 1; }
