# shellcheck shell=bash
# The programs that the scripts here run: those of a bundle, or built from this tree. Sourced after common.sh.

PROGRAMS=(coordinator worker parameter_server ringctl)

# find_ringctl BUNDLE LOG: sets RINGCTL to a ringctl that has the other programs beside it. They come from the file
# BUNDLE; if that is "", from the bundle that lies in deploy/; if none lies there, they are built, with a log in LOG.
find_ringctl() {
  local bundle=$1 log=$2
  if [[ -z $bundle ]]; then
    local -a found=()
    mapfile -t found < <(compgen -G "$ROOT/deploy/ringmaster*.tar.gz")
    ((${#found[@]} < 2)) || misuse "deploy/ has several bundles (${found[*]##*/}): keep one (run.sh also takes --bundle=FILE)"
    bundle=${found[0]-}
  fi
  if [[ -n $bundle ]]; then
    unpack_bundle "$bundle"
  else
    build_programs "$log"
  fi
}

# need_headers ALTERNATIVE: some jobs train on a compiler's headers, which a bundle does not need.
need_headers() {
  [[ -d /usr/include/c++ ]] ||
    misuse "this job trains on /usr/include/c++, which is not here: apt-get install libstdc++-12-dev$1"
}

# A mistake of the user's: one line, and the exit code that the programs have for it.
misuse() {
  printf 'error: %s\n' "$*" >&2
  exit 2
}

# Each bundle is unpacked once, into a directory that is named after its content.
unpack_bundle() {
  local file=$1 sum directory program names version wanted
  names=$(tar -tzf "$file" 2>/dev/null) || misuse "$file is no bundle: it is no whole .tar.gz archive"
  for program in "${PROGRAMS[@]}"; do
    grep -qxF "ringmaster/bin/$program" <<<"$names" ||
      misuse "$file is no bundle of these programs: it has no ringmaster/bin/$program (\`bazel build //deploy:bundle\` makes one)"
  done
  sum=$(sha256sum "$file") || die "cannot read $file"
  directory=$ROOT/.cache/bundle-${sum:0:16}
  if [[ ! -d $directory ]]; then
    mkdir -p "$ROOT/.cache" && UNPACKING=$(mktemp -d "$ROOT/.cache/unpacking.XXXXXX") || exit 1
    trap 'rm -rf "$UNPACKING"' EXIT
    run_child "$UNPACKING/log" tar -C "$UNPACKING" -xzf "$file" ringmaster ||
      die "cannot unpack $file: $(tail -n 1 "$UNPACKING/log")"
    # Another script may have been as fast.
    local why
    why=$(mv -T "$UNPACKING" "$directory" 2>&1) || [[ -d $directory ]] || die "$why"
    rm -rf "$UNPACKING"
    trap - EXIT
  fi
  wanted=$(sed -n 's/.*"\(ringmaster [0-9.]*\)".*/\1/p' "$ROOT/common/config/version.h")
  for program in "${PROGRAMS[@]}"; do
    version=$("$directory/ringmaster/bin/$program" --version 2>&1) ||
      die "$program of $file does not start: ${version##*$'\n'} (it needs a glibc as new as Debian 12's)"
    [[ $version == "$wanted" ]] || misuse "$program of $file is of another release: $version; this tree is $wanted"
  done
  RINGCTL=${directory#"$ROOT"/}/ringmaster/bin/ringctl
  say "programs of ${file#"$ROOT"/}, $wanted"
}

build_programs() {
  local log=$1 expected=0 jobs
  "$ROOT/deploy/setup.sh" || exit
  if [[ ! -e $ROOT/bazel-bin/server/ctl/ringctl ]]; then
    # In CPU seconds, from nothing: docs/benchmarks/build.md; beside other work or on old cores up to twice as many.
    jobs=$(compile_jobs)
    expected=$((500 / jobs + 20))
    say "build: nothing is built yet, which takes $(((expected + 59) / 60)) to $(((2 * expected + 119) / 60)) minutes with" \
      "$jobs of $(nproc) cores"
  fi
  say "build: ${PROGRAMS[*]}"
  mkdir -p "$(dirname "$log")"
  run_with_progress "$log" build "$expected" ringmaster_bazel build --show_progress_rate_limit=1 "${PROGRAMS[@]/#/\/\/:}" || {
    tail -n 30 "$log" >&2
    die "the build failed; the whole log is $log"
  }
  # ringctl knows where the others are from its own place in bazel-bin, which is a link with a shorter name too.
  RINGCTL=$(ringmaster_bazel info bazel-bin 2>/dev/null)/server/ctl/ringctl
  [[ ! $ROOT/bazel-bin/server/ctl/ringctl -ef $RINGCTL ]] || RINGCTL=bazel-bin/server/ctl/ringctl
}
