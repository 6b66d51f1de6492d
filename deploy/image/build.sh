#!/bin/bash
# Builds an image from the bundle, with whichever tool is there, without a daemon where that is buildah or podman.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

usage() {
  cat <<'EOF2'
usage: deploy/image/build.sh [--device=cpu|cuda] [--tag=NAME:TAG] [--base=IMAGE] [--bundle=FILE] [--tool=docker|podman|buildah]
  --device  cpu: glibc and the programs, nothing else; cuda: on NVIDIA's runtime image, with workers that know --device=cuda
  --tag     what the image is called (ringmaster:VERSION, ringmaster:VERSION-cuda)
  --base    where glibc's files, or CUDA's, come from (that of the Dockerfile)
  --bundle  a bundle that is built already; without it, bazel builds one (for cuda, with the CUDA toolkit of this machine)
  --tool    what builds (the first of docker, podman and buildah that is installed)
Arguments of the tool itself go in RINGMASTER_IMAGE_FLAGS, words separated by spaces.
EOF2
}

VERSION=$(sed -n 's/.*"ringmaster \([0-9.]*\)".*/\1/p' "$ROOT/common/config/version.h")
DEVICE=cpu
SUFFIX=
TAG=
BASE=
BUNDLE=
TOOL=
for argument in "$@"; do
  case $argument in
    --help | -h)
      usage
      exit 0
      ;;
    --device=cpu | --device=cuda) DEVICE=${argument#*=} ;;
    --tag=?*) TAG=${argument#*=} ;;
    --base=?*) BASE=${argument#*=} ;;
    --bundle=?*) BUNDLE=${argument#*=} ;;
    --tool=docker | --tool=podman | --tool=buildah) TOOL=${argument#*=} ;;
    *)
      printf 'error: unknown argument %s; see --help\n' "$argument" >&2
      exit 2
      ;;
  esac
done

DOCKERFILE=$ROOT/deploy/image/Dockerfile
[[ $DEVICE == cpu ]] || DOCKERFILE+=.$DEVICE SUFFIX=-$DEVICE
: "${TAG:=ringmaster:$VERSION$SUFFIX}"

if [[ -z $TOOL ]]; then
  for TOOL in docker podman buildah none; do command -v "$TOOL" >/dev/null && break; done
  [[ $TOOL != none ]] || die "none of docker, podman and buildah is installed; on Debian: apt-get install buildah"
fi
command -v "$TOOL" >/dev/null || die "$TOOL is not installed"

if [[ -z $BUNDLE ]]; then
  "$ROOT/deploy/setup.sh"
  FLAGS=()
  [[ $DEVICE == cpu ]] || FLAGS+=("--config=$DEVICE")
  say "build: //deploy:bundle${FLAGS[*]:+ ${FLAGS[*]}}"
  ringmaster_bazel build "${FLAGS[@]}" //deploy:bundle
  BUNDLE=$(ringmaster_bazel info bazel-bin 2>/dev/null)/deploy/ringmaster.tar.gz
fi
[[ -s $BUNDLE ]] || die "there is no bundle at $BUNDLE"

# The tool sees the bundle and the Dockerfile, nothing else of this tree.
CONTEXT=$(mktemp -d)
trap 'rm -rf "$CONTEXT"' EXIT
cp "$(readlink -f "$BUNDLE")" "$CONTEXT/ringmaster.tar.gz"
cp "$DOCKERFILE" "$CONTEXT/Dockerfile"
COMMIT=$(git -C "$ROOT" rev-parse HEAD 2>/dev/null || echo unknown)
say "image: $TAG"
# shellcheck disable=SC2086  # a list of words
"$TOOL" ${RINGMASTER_IMAGE_FLAGS:-} build ${BASE:+--build-arg "BASE=$BASE"} --build-arg "VERSION=$VERSION" \
  --build-arg "COMMIT=$COMMIT" --tag "$TAG" "$CONTEXT"
