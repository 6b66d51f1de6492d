#!/bin/bash
# Feeds count_cases.py the build events and test.xml files of every kind of outcome.
set -uo pipefail

COUNT=$(realpath "$1")
cd "$TEST_TMPDIR" || exit 1
FAILURES=0

# event TARGET STATUS XML [ATTEMPT]: one result of a test program.
event() {
  printf '{"id":{"testResult":{"label":"%s","run":1,"shard":1,"attempt":%d}},"testResult":{"status":"%s","testActionOutput":[%s]}}\n' \
    "$1" "${4:-1}" "$2" "${3:+{\"name\":\"test.xml\",\"uri\":\"file://$TEST_TMPDIR/$3\"\}}" >>events.json
}

# expect WHAT WANTED: compares WANTED with the counts of the events, then forgets them.
expect() {
  local got
  got=$(python3 "$COUNT" events.json)
  if [[ $got != "$2" ]]; then
    printf '%s:\n got: %s\nwant: %s\n' "$1" "$got" "$2"
    FAILURES=$((FAILURES + 1))
  fi
  rm -f events.json
}

cat >mixed.xml <<'X'
<testsuites><testsuite>
<testcase name="Works" classname="A" status="run" result="completed"/>
<testcase name="Breaks" classname="A" status="run" result="completed"><failure message="no"/></testcase>
<testcase name="Waits" classname="A" status="run" result="skipped"><skipped message="a_test.cc:3&#x0A;no GPU"/></testcase>
<testcase name="DISABLED_Later" classname="A" status="notrun" result="suppressed"/>
</testsuite></testsuites>
X
echo '<testsuites><testsuite><testcase name="a" status="run"/></testsuite></testsuites>' >one.xml
echo '<testsuites><testsuite><testcase name="//a:crash"><error message="exited with error code 139"/></testcase></testsuite></testsuites>' >crash.xml
echo 'not xml' >broken.xml

event //a:a_test FAILED mixed.xml
expect "cases of a GoogleTest program" "1 1 2
  FAILED  //a:a_test A.Breaks
  skipped 1: disabled
  skipped 1: no GPU"

event //a:shell PASSED one.xml
event //a:no_xml PASSED ""
event //a:bad_xml PASSED broken.xml
expect "tests without cases count as one" "3 0 0"

event //a:crash FAILED crash.xml
event //a:hang TIMEOUT ""
event //a:exits_late FAILED one.xml
expect "each failure is counted, with or without a failed case" "1 3 0
  FAILED  //a:crash //a:crash
  FAILED  //a:exits_late (FAILED)
  FAILED  //a:hang (TIMEOUT)"

event //a:flaky FAILED mixed.xml 1
event //a:flaky PASSED one.xml 2
expect "the last attempt counts" "1 0 0"

echo '{"id":{"targetCompleted":{"label":"//a:typo"}},"aborted":{"reason":"ANALYSIS_FAILURE"}}' >>events.json
echo '{"id":{"targetCompleted":{"label":"//a:good"}},"completed":{"success":true}}' >>events.json
event //a:good PASSED one.xml
echo '{"id":{"cut off' >>events.json
expect "a target that does not build fails" "1 1 0
  FAILED  //a:typo (does not build)"

((FAILURES == 0))
