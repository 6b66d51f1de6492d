#!/bin/bash
# Builds the programs of an earlier release, of the commit that tests/golden/VERSION/COMMIT names, from the history of this clone.
#
# usage: tests/golden/build_release.sh VERSION DIRECTORY
#   DIRECTORY   gets coordinator, worker, parameter_server and ringctl; what is there of the same commit is left as it is
#
# The commit is checked out beside, in a scratch directory, so the clone stays as it is. Takes as long as a first build: four to ten
# minutes on 2 cores.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"

(($# == 2)) || die "usage: tests/golden/build_release.sh VERSION DIRECTORY"
VERSION=$1 OUT=$2
COMMIT=$(cat "$ROOT/tests/golden/$VERSION/COMMIT" 2>/dev/null) || die "no release $VERSION is known: there is no tests/golden/$VERSION/COMMIT"
[[ -e $OUT/COMMIT && $(<"$OUT/COMMIT") == "$COMMIT" ]] && exit 0
git -C "$ROOT" cat-file -e "$COMMIT^{commit}" 2>/dev/null ||
  die "commit $COMMIT, which release $VERSION was built from, is not in this clone; git fetch --unshallow brings the whole history"

SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/ringmaster-$VERSION.XXXXXX") || exit 1
TREE=$SCRATCH/tree
clean_up() {
  [[ -d $TREE ]] && (cd "$TREE" && bazel --output_base="$SCRATCH/bazel" shutdown) >/dev/null 2>&1
  git -C "$ROOT" worktree remove --force "$TREE" 2>/dev/null
  # Bazel takes the right to write from what it has built.
  chmod -R u+w "$SCRATCH" 2>/dev/null
  rm -rf "$SCRATCH"
}
trap clean_up EXIT
stop_child_on_signals

build() {
  git -C "$ROOT" worktree add --quiet --detach "$TREE" "$COMMIT" || return 1
  ROOT=$TREE RINGMASTER_BAZEL_STARTUP="--output_base=$SCRATCH/bazel" \
    ringmaster_bazel build //server/coordinator //server/ctl:ringctl //server/parameter_server //worker
}
run_child - build || die "release $VERSION (commit $COMMIT) does not build"
mkdir -p "$OUT" && rm -f "$OUT/COMMIT" || exit 1
for program in server/coordinator/coordinator server/ctl/ringctl server/parameter_server/parameter_server worker/worker; do
  install "$TREE/bazel-bin/$program" "$OUT/" || exit 1
done
echo "$COMMIT" >"$OUT/COMMIT"
