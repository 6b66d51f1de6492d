#!/bin/bash
# Packs programs with all shared libraries they need, except glibc's own, into a .tar.gz that runs from any directory of
# any Linux whose glibc is at least as new as the one here.
#
# usage: make_bundle.sh OUT.tar.gz LICENSE FILE...
#   FILE: programs, units for systemd (*.service), scripts for Slurm (*.sbatch), Python modules (below a directory python/)
#
# bin/ has the programs, systemd/ the units, slurm/ the scripts, python/ the modules, and lib/ the libraries, found through an RPATH relative to each file. (RPATH and not the newer
# RUNPATH: it wins over LD_LIBRARY_PATH, in which clusters like to keep other versions of everything.)
# licenses/ has the copyright file of each Debian package that a library comes from.
set -euo pipefail

(($# >= 3)) || { echo "usage: make_bundle.sh OUT.tar.gz LICENSE FILE..." >&2; exit 1; }
OUT=$1 LICENSE=$2
shift 2

# glibc must be the system's: it is tied to the kernel, the loader and the name service.
GLIBC='^(ld-linux.*|lib(c|m|mvec|pthread|dl|rt|util|resolv|anl|nsl|nss_.*))\.so'

STAGE=$(mktemp -d)
trap 'rm -rf "$STAGE"' EXIT
TOP=$STAGE/ringmaster
mkdir -p "$TOP/bin" "$TOP/lib" "$TOP/licenses" "$TOP/systemd" "$TOP/slurm"
cp "$LICENSE" "$TOP/LICENSE"

copy_license() {
  local file=$1 package
  # With a merged /usr, dpkg may know the file by either of its two names.
  package=$(dpkg-query -S "$file" 2>/dev/null || dpkg-query -S "${file#/usr}" 2>/dev/null || dpkg-query -S "/usr$file" 2>/dev/null) ||
    { echo "make_bundle.sh: no package owns $file, so its license is unknown" >&2; exit 1; }
  package=${package%%:*}
  cp --no-preserve=mode "/usr/share/doc/$package/copyright" "$TOP/licenses/$package"
}

for program in "$@"; do
  case $program in
    *.service) install -m 644 "$program" "$TOP/systemd/"; continue ;;
    *.sbatch) install -m 755 "$program" "$TOP/slurm/"; continue ;;
    # An extension's libraries are those of the programs and, in the process that loads it, PyTorch's.
    */python/*) install -D -m 644 "$program" "$TOP/python/${program##*/python/}"; continue ;;
  esac
  install -m 755 "$program" "$TOP/bin/"
  libraries=$(ldd "$program")
  if grep 'not found' <<<"$libraries" >&2; then
    echo "make_bundle.sh: $program has missing libraries" >&2
    exit 1
  fi
  while read -r name _ path _; do
    [[ $path == /* && ! $name =~ $GLIBC ]] || continue
    [[ -e $TOP/lib/$name ]] && continue
    install -m 644 "$path" "$TOP/lib/$name"
    # The alternatives system may be in between: libopenblas.so.0 is a link to a link.
    copy_license "$(readlink -f "$path")"
  done <<<"$libraries"
done

mapfile -t EXTENSIONS < <(find "$TOP" -path '*/python/*.so')
for file in "$TOP"/bin/* "$TOP"/lib/* "${EXTENSIONS[@]}"; do
  strip --strip-debug "$file"
done
patchelf --force-rpath --set-rpath '$ORIGIN/../lib' "$TOP"/bin/*
for extension in "${EXTENSIONS[@]}"; do
  patchelf --force-rpath --set-rpath '$ORIGIN/../../lib' "$extension"
done
patchelf --force-rpath --set-rpath '$ORIGIN' "$TOP"/lib/*

# The same inputs give the same bytes.
tar -C "$STAGE" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -c ringmaster | gzip -6n >"$OUT"
