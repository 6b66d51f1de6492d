#!/bin/bash
# Unpacks the bundle and checks that it runs where nothing but glibc is installed.
#
# usage: bundle_test.sh BUNDLE.tar.gz PROGRAM...     (names of programs in its bin/)
set -uo pipefail

# chroot is there, which Bazel's PATH for tests leaves out.
PATH=$PATH:/usr/sbin

BUNDLE=$1
shift
MAX_BYTES=$((50 * 1024 * 1024))
# Debian 12's. Ubuntu 24.04 has 2.39.
MAX_GLIBC=2.36

FAILURES=0
fail() {
  echo "FAILED: $*"
  FAILURES=$((FAILURES + 1))
}

ROOT=$TEST_TMPDIR/root
mkdir -p "$ROOT/opt"
tar -C "$ROOT/opt" -xzf "$BUNDLE" || exit 1
TOP=$ROOT/opt/ringmaster

bytes=$(stat -L -c %s "$BUNDLE")
echo "size: $((bytes / 1024)) KiB packed, $(du -sk "$TOP" | cut -f1) KiB unpacked"
((bytes <= MAX_BYTES)) || fail "the bundle has $bytes bytes; at most $MAX_BYTES are allowed"

# Every library that a file asks for is glibc's or in lib/, and every file looks for it there. Those of PyTorch are in the process that
# loads the extension.
for file in "$TOP"/bin/* "$TOP"/lib/* "$TOP"/python/ringmaster_torch/_C.so; do
  dynamic=$(readelf -dW "$file")
  others='^$'
  rpath='$ORIGIN'
  case $file in
    */bin/*) rpath='$ORIGIN/../lib' ;;
    */python/*) rpath='$ORIGIN/../../lib' others='^lib(torch(_cpu|_python)?|c10)\.so' ;;
  esac
  for needed in $(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic"); do
    [[ $needed =~ ^(ld-linux.*|lib(c|m|mvec|pthread|dl|rt|util|resolv))\.so || -e $TOP/lib/$needed || $needed =~ $others ]] ||
      fail "${file#"$TOP"/} needs $needed, which is not in lib/"
  done
  grep -F '(RPATH)' <<<"$dynamic" | grep -qF "[$rpath]" || fail "${file#"$TOP"/} has no RPATH $rpath"
done

glibc=$(cat "$TOP"/bin/* "$TOP"/lib/* | grep -aoE 'GLIBC_2\.[0-9]+' | sort -uV | tail -n 1)
echo "newest glibc symbols: $glibc"
[[ $(printf '%s\n' "$glibc" "GLIBC_$MAX_GLIBC" | sort -V | tail -n 1) == "GLIBC_$MAX_GLIBC" ]] ||
  fail "it needs $glibc; Debian 12 has $MAX_GLIBC"

for unit in coordinator worker parameter-server; do
  [[ -s $TOP/systemd/ringmaster-$unit.service ]] || fail "systemd/ringmaster-$unit.service is missing"
done
for module in sitecustomize.py ringmaster_torch/{__init__,_built_for,back_end,sampler}.py; do
  [[ -s $TOP/python/$module ]] || fail "python/$module is missing"
done
[[ -s $TOP/LICENSE && -n $(ls "$TOP/licenses") ]] || fail "license texts are missing"

# A root directory with the bundle and glibc alone, entered by root or in a user namespace.
for library in libc libm libmvec libpthread libdl librt libresolv; do
  path=$(find /lib/x86_64-linux-gnu/ -name "$library.so.*" | head -n 1)
  [[ -z $path ]] || install -D "$path" "$ROOT$path"
done
install -D /lib64/ld-linux-x86-64.so.2 "$ROOT/lib64/ld-linux-x86-64.so.2"
mkdir -p "$ROOT/proc"
NAMESPACES=(--mount)
((EUID == 0)) || NAMESPACES+=(--map-root-user)
enter() {
  # With /proc, because the loader learns from it where the program, the $ORIGIN of its RPATH, lies.
  unshare "${NAMESPACES[@]}" sh -c 'mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"' "$ROOT" "$@"
}
probe=$(enter /lib64/ld-linux-x86-64.so.2 --version 2>&1) && can_enter=1 || can_enter=
[[ -n $can_enter ]] || echo "no chroot here (${probe##*$'\n'}): running the programs outside of one"

for program in "$@"; do
  if [[ -n $can_enter ]]; then
    output=$(enter "/opt/ringmaster/bin/$program" --version 2>&1) || fail "$program --version in a bare root: $output"
  else
    output=$(env -i "$TOP/bin/$program" --version 2>&1) || fail "$program --version: $output"
  fi
  echo "$program --version: $output"
  [[ -n $output ]] || fail "$program --version prints nothing"
  outside=$(env -i ldd "$TOP/bin/$program" | awk '$3 ~ /^\// { print $3 }' |
    grep -vE "^$TOP/|/(ld-linux.*|lib(c|m|mvec|pthread|dl|rt|util|resolv))\.so")
  [[ -z $outside ]] || fail "$program loads libraries from outside the bundle: $outside"
done

((FAILURES == 0))
