#!/bin/bash
# Writes what is made of the sources: rendered/*.yaml, the output of `kubectl kustomize` for each overlay, for `kubectl apply -f` and for
# reviewers of a change; and the templates of the Helm chart (make_chart.py). A test fails if they differ from what the sources give. Needs
# kubectl >= 1.27 and python3-yaml.
#
# usage: deploy/kubernetes/render.sh [DIRECTORY]     the directory to write rendered/ and chart/ to, if not this one
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
target=${1:-.}
mkdir -p "$target/rendered"
for overlay in overlays/*/; do
  name=$(basename "$overlay")
  {
    echo "# Made by deploy/kubernetes/render.sh of overlays/$name; do not edit."
    kubectl kustomize "$overlay"
  } >"$target/rendered/$name.yaml"
done
python3 make_chart.py "$target/chart/templates"
