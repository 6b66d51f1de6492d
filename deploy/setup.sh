#!/bin/bash
# Installs the Debian packages that building needs (deploy/packages.txt), if any is missing. Runs apt-get only then.
#
# usage: deploy/setup.sh [--full]      --full also installs what `tests/run.sh --full` needs
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

FULL=
case ${1:-} in
  --full) FULL=1 ;;
  '') ;;
  *) die "unknown argument '$1'; usage: deploy/setup.sh [--full]" ;;
esac

wanted() {
  local package condition
  while read -r package condition; do
    case $condition in
      full) [[ -n $FULL ]] || continue ;;
      unless:*) ! command -v "${condition#unless:}" >/dev/null || continue ;;
    esac
    echo "$package"
  done < <(grep '^[^#]' "$ROOT/deploy/packages.txt")
}

missing() {
  local package
  for package in $(wanted); do
    [[ $(dpkg-query --showformat='${db:Status-Status}' --show "$package" 2>/dev/null) == installed ]] || echo "$package"
  done
}

command -v dpkg-query >/dev/null || die "this is not a Debian system; use a Debian 12 container"
mapfile -t MISSING < <(missing)
((${#MISSING[@]} == 0)) && exit 0

AS_ROOT=()
if ((EUID != 0)); then
  command -v sudo >/dev/null ||
    die "missing packages and neither root nor sudo; have an administrator run: apt-get install ${MISSING[*]}"
  # The child that installs is in the background of the terminal and cannot ask for a password.
  sudo -n true 2>/dev/null || sudo -v || exit 1
  AS_ROOT=(sudo)
fi

LOG=$(mktemp "${TMPDIR:-/tmp}/ringmaster-setup.XXXXXX") || exit 1
stop_child_on_signals
install_packages() {
  "${AS_ROOT[@]}" apt-get -q update &&
    "${AS_ROOT[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get -q -o APT::Status-Fd=1 install --yes --no-install-recommends "${MISSING[@]}"
}
say "setup: installing ${#MISSING[@]} Debian packages"
run_with_progress "$LOG" setup 0 install_packages ||
  die "apt-get could not install ${MISSING[*]}: $(grep -m1 '^E:' "$LOG" || tail -n 1 "$LOG") (whole log: $LOG)"
rm -f "$LOG"
