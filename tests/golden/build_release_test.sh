#!/bin/bash
# build_release.sh says in one line what it lacks: an unknown release, or a commit that a shallow clone does not have.
set -uo pipefail
SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT
mkdir -p "$SCRATCH/deploy" "$SCRATCH/tests/golden/0.1.0"
cp deploy/common.sh "$SCRATCH/deploy/"
cp tests/golden/build_release.sh "$SCRATCH/tests/golden/"
cp tests/golden/0.1.0/COMMIT "$SCRATCH/tests/golden/0.1.0/"
git init --quiet "$SCRATCH"

STATUS=0
# expect LINE ARGUMENTS...: the script ends with 1 and just that line.
expect() {
  local line=$1 output
  shift
  output=$("$SCRATCH/tests/golden/build_release.sh" "$@" 2>&1)
  if [[ $? != 1 || $output != "$line" ]]; then
    echo "build_release.sh $*: $output; expected: $line"
    STATUS=1
  fi
}

COMMIT=$(<tests/golden/0.1.0/COMMIT)
expect "error: commit $COMMIT, which release 0.1.0 was built from, is not in this clone; git fetch --unshallow brings the whole history" 0.1.0 "$SCRATCH/out"
expect "error: no release 9.9.9 is known: there is no tests/golden/9.9.9/COMMIT" 9.9.9 "$SCRATCH/out"
expect "error: usage: tests/golden/build_release.sh VERSION DIRECTORY" 0.1.0
if [[ -e $SCRATCH/out ]]; then
  echo "it left something behind"
  STATUS=1
fi
exit $STATUS
