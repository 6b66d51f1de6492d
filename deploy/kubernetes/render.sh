#!/bin/bash
# Writes rendered/*.yaml, the output of `kubectl kustomize` for each overlay, for `kubectl apply -f` and for reviewers of a change. A
# test fails if they differ from what the sources give. Needs kubectl >= 1.27.
#
# usage: deploy/kubernetes/render.sh [DIRECTORY]     the directory to write to, if not rendered/
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
target=${1:-rendered}
for overlay in overlays/*/; do
  name=$(basename "$overlay")
  {
    echo "# Made by deploy/kubernetes/render.sh of overlays/$name; do not edit."
    kubectl kustomize "$overlay"
  } >"$target/$name.yaml"
done
