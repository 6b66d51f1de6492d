#!/bin/bash
# Brings axe-core, which finds what shuts people out of a page (//tests/integration:page_test), from the npm registry: its script lies
# beside this file afterwards. It is part of no program.
#
# Does nothing if it is there already. Ends with 1, and one line on the error stream, if it cannot be had.
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/common.sh"

VERSION=4.14.1
SHA256=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
FILE=$ROOT/third_party/axe_core/axe.min.js

is_right() { [[ -f $1 ]] && sha256sum --check --status <<<"$SHA256  $1"; }

is_right "$FILE" && exit 0
command -v npm >/dev/null || die "axe-core cannot be fetched: there is no npm (deploy/setup.sh installs it)"
DIRECTORY=$(mktemp -d "${TMPDIR:-/tmp}/ringmaster-axe.XXXXXX") || exit 1
trap 'rm -rf "$DIRECTORY"' EXIT
cd "$DIRECTORY" || exit 1
npm pack --loglevel=error --ignore-scripts --fetch-retries=0 --fetch-timeout=30000 "axe-core@$VERSION" >log 2>&1 &&
  tar -xzf "axe-core-$VERSION.tgz" package/axe.min.js ||
  die "axe-core $VERSION cannot be fetched from the npm registry: $(head -n 1 log)"
is_right package/axe.min.js || die "axe-core $VERSION of the npm registry is not what it was: its SHA-256 is not $SHA256"
mv package/axe.min.js "$FILE"
