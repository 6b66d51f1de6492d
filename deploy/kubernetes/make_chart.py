#!/usr/bin/env python3
"""Writes the templates of the Helm chart, chart/templates, from what kustomize makes of the overlays: manifests stand once.

A template has what overlays/cpu has. What a component or another overlay changes in that is a condition on a value (FEATURES); what users
set is a value in its place (`parametrize`). The rest of the chart is written by hand: values.yaml, values.schema.json and
templates/checks.yaml, which refuses values that contradict each other. //tests/kubernetes:chart_test compares what the chart gives with
the overlays. Needs kubectl >= 1.27.

usage: deploy/kubernetes/make_chart.py [DIRECTORY]     the directory to write to, if not chart/templates
"""

import copy
import dataclasses
import functools
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

SOURCES = pathlib.Path(__file__).resolve().parent
HEADER = "{{- /* Made by deploy/kubernetes/make_chart.py of the overlays; do not edit. */ -}}\n"
WORKER = {"kind": "Job|Deployment", "name": "ringmaster-worker"}


@dataclasses.dataclass(frozen=True)
class Feature:
    """A choice of the user's, and what makes it in kustomize."""

    condition: str                  # on the chart's values
    resource: str = "cpu"           # the overlay that has it
    component: str = ""
    patches: tuple = ()
    needs: tuple = ()               # features that it changes something of
    stands_alone: bool = False      # only features that need it change what it adds


def _patch(target, *operations):
    return {"target": target, "patch": json.dumps(operations)}


def _merge(target, spec):
    patch = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "any"}, "spec": spec}
    return {"target": target, "patch": json.dumps(patch)}


# In the order in which kustomize applies them.
FEATURES = {
    "gpu": Feature('(eq .Values.workers.device "cuda")', resource="gpu"),
    "claim": Feature(".Values.storage.claim", patches=(_merge(WORKER, {"template": {"spec": {"volumes": [
        {"name": "work", "emptyDir": None, "persistentVolumeClaim": {"claimName": "{{ .Values.storage.claim }}"}}]}}}),)),
    "pool": Feature(".Values.pool.enabled", component="components/pool"),
    "autoscaling": Feature(".Values.pool.autoscaling.enabled", component="components/autoscaling", needs=("pool",), stands_alone=True),
    "parameter-servers": Feature("(gt (int .Values.parameterServers.count) 0)", component="components/parameter-servers"),
    "tls": Feature(".Values.tls.enabled", component="components/tls", stands_alone=True),
    "page": Feature(".Values.page.enabled", component="components/page", needs=("tls",), stands_alone=True),
    "ingress": Feature(".Values.page.ingress.enabled", component="components/page/ingress", needs=("tls", "page"), stands_alone=True),
    "monitoring": Feature(".Values.monitoring.enabled", component="monitoring", stands_alone=True),
    "kueue": Feature(".Values.kueue.queue", component="components/kueue"),
    "kueue-fewer": Feature("(gt (int .Values.kueue.minWorkers) 0)", needs=("kueue",),
                           patches=tuple(yaml.safe_load((SOURCES / "overlays/kueue/kustomization.yaml").read_text())["patches"])),
    "storage-class": Feature(".Values.coordinator.storage.className", patches=(_patch(
        {"kind": "StatefulSet", "name": "ringmaster-coordinator"},
        {"op": "add", "path": "/spec/volumeClaimTemplates/0/spec/storageClassName",
         "value": "{{ .Values.coordinator.storage.className }}"}),)),
}


def closure(names):
    found = set(names)
    for name in names:
        found |= set(FEATURES[name].needs)
    return frozenset(found)


# ---- What users set. ----


class Text(str):
    """A template in place of a string."""


class Number(str):
    """A template in place of a number."""


class Block(str):
    """A template that gives a map."""


class Lines(str):
    """A template that gives items of a list, or none."""


# Strings that are the same everywhere.
TEXTS = {
    "ringmaster.example.com": "{{ .Values.page.ingress.host }}",
    "ringmaster-page-tls": "{{ .Values.page.ingress.tlsSecret }}",
    "ringmaster-access": "{{ .Values.page.accessSecret }}",
}


def _parametrize_texts(value):
    if isinstance(value, dict):
        return {key: _parametrize_texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_parametrize_texts(item) for item in value]
    if isinstance(value, str) and value in TEXTS:
        return Text(TEXTS[value])
    # Names of services with their namespace.
    if isinstance(value, str) and re.fullmatch(r"ringmaster-[a-z]+\.ringmaster(\.svc)?", value):
        return Text(re.sub(r"\.ringmaster", ".{{ .Release.Namespace }}", value))
    return Text(value) if isinstance(value, str) and value.startswith("{{ .Values.") else value


def _parametrize_labels(labels):
    for label, template in (("instance", ".Release.Name"), ("managed-by", ".Release.Service"), ("version", ".Chart.AppVersion")):
        if f"app.kubernetes.io/{label}" in labels:
            labels[f"app.kubernetes.io/{label}"] = Text("{{ " + template + " }}")


def _parametrize_pods(name, template):
    _parametrize_labels(template["metadata"]["labels"])
    (container,) = template["spec"]["containers"]
    value = {"coordinator": "coordinator", "worker": "workers", "parameter-server": "parameterServers"}[container["name"]]
    container["image"] = Text("{{ .Values.image.repository }}:{{ .Values.image.tag }}")
    container["resources"] = Block(f"toYaml .Values.{value}.resources")
    arguments = [argument for argument in container["args"] if not argument.startswith("--failure_budget=")]
    if name == "ringmaster-coordinator":
        arguments.append(Lines("{{- with .Values.coordinator.failureBudget }}\n- --failure_budget={{ . }}\n{{- end }}"))
    if name == "ringmaster-worker":
        arguments = [Text("--slots={{ int .Values.workers.slots }}") if argument == "--slots=1" else argument for argument in arguments]
        data = "{{{{- range .Values.storage.data }}}}\n- {}\n{{{{- end }}}}".format
        arguments += [Lines(data("--allow_read={{ .path }}")),
                      Lines("{{- range .Values.workers.args }}\n- {{ . | quote }}\n{{- end }}")]
        container["volumeMounts"].append(Lines(data("{name: data-{{ .claim }}, mountPath: {{ .path }}, readOnly: true}")))
        for volume in template["spec"]["volumes"]:
            if volume["name"] == "work" and "emptyDir" in volume:
                volume["emptyDir"] = {"sizeLimit": Text("{{ .Values.storage.size }}")}
        template["spec"]["volumes"].append(Lines(data(
            "{name: data-{{ .claim }}, persistentVolumeClaim: {claimName: {{ .claim }}, readOnly: true}}")))
    container["args"] = arguments


def parametrize(each, features):
    """What kustomize makes of an object with `features`, with templates in place of what users set."""
    each = _parametrize_texts(copy.deepcopy(each))
    kind, name, spec = each["kind"], each["metadata"]["name"], each.get("spec", {})
    each["metadata"]["namespace"] = Text("{{ .Release.Namespace }}")
    _parametrize_labels(each["metadata"]["labels"])
    if kind in ("StatefulSet", "Job", "Deployment"):
        _parametrize_pods(name, spec["template"])
    if kind == "Job":
        spec["parallelism"] = spec["completions"] = Number("{{ int .Values.workers.count }}")
        if "kueue" in features:
            each["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = Text("{{ .Values.kueue.queue }}")
        if "kueue-fewer" in features:
            each["metadata"]["annotations"]["kueue.x-k8s.io/job-min-parallelism"] = Text("{{ int .Values.kueue.minWorkers }}")
    if kind == "Deployment" and "autoscaling" not in features:
        spec["replicas"] = Number("{{ int .Values.workers.count }}")
    if name == "ringmaster-parameter-server" and kind == "StatefulSet":
        spec["replicas"] = Number("{{ int .Values.parameterServers.count }}")
    if name == "ringmaster-coordinator" and kind == "StatefulSet":
        spec["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] = Text("{{ .Values.coordinator.storage.size }}")
    if kind == "PodDisruptionBudget" and "minAvailable" in spec:
        spec["minAvailable"] = Number("{{ int .Values.workers.minAvailable }}")
    if kind == "HorizontalPodAutoscaler":
        spec["minReplicas"] = Number("{{ int .Values.pool.autoscaling.min }}")
        spec["maxReplicas"] = Number("{{ int .Values.pool.autoscaling.max }}")
        spec["metrics"][0]["external"]["target"]["averageValue"] = Text("{{ int .Values.workers.slots }}")
    if kind == "Ingress":
        spec["ingressClassName"] = Text("{{ .Values.page.ingress.className }}")
        each["metadata"]["annotations"] = Block("toYaml .Values.page.ingress.annotations")
    if kind == "NetworkPolicy" and name == "prometheus-scrapes":
        spec["ingress"][0]["from"][0]["namespaceSelector"]["matchLabels"] = {
            "kubernetes.io/metadata.name": Text("{{ .Values.monitoring.prometheusNamespace }}")}
    if kind == "NetworkPolicy" and name == "page-serves":
        for peer in spec["ingress"][0]["from"]:
            labels = peer["namespaceSelector"]["matchLabels"]
            if "kubernetes.io/metadata.name" in labels:
                labels["kubernetes.io/metadata.name"] = Text("{{ .Values.page.ingress.controllerNamespace }}")
    return each


# ---- What kustomize makes of features. ----


@functools.cache
def objects(features):
    """{(kind, name): object} with these features; the namespace is made by `helm install`."""
    chosen = [FEATURES[name] for name in FEATURES if name in features]
    kustomization = {
        "resources": [f"../{'gpu' if 'gpu' in features else 'cpu'}"],
        "components": [f"../../{feature.component}" for feature in chosen if feature.component],
        "namespace": "ringmaster",
        "patches": [patch for feature in chosen for patch in feature.patches],
    }
    with tempfile.TemporaryDirectory() as directory:
        sources = shutil.copytree(SOURCES, pathlib.Path(directory) / "sources", ignore=shutil.ignore_patterns("rendered", "chart"))
        overlay = sources / "overlays" / "chart"
        overlay.mkdir()
        (overlay / "kustomization.yaml").write_text(yaml.safe_dump({key: value for key, value in kustomization.items() if value}))
        text = subprocess.run(["kubectl", "kustomize", overlay], check=True, timeout=120, capture_output=True, text=True).stdout
    return {(each["kind"], each["metadata"]["name"]): parametrize(each, features)
            for each in yaml.safe_load_all(text) if each["kind"] != "Namespace"}


# ---- One tree of what all features make of an object. ----

# A condition is a set of (feature, whether it is chosen); all must hold.
ALWAYS = frozenset()


@dataclasses.dataclass
class Choice:
    """A node of the tree that is there under a condition, beside what its parents ask for."""

    node: object        # {key: [Choice]}, [(identity, Choice)] or a leaf
    condition: frozenset = ALWAYS

    def holds(self, features):
        return all((name in features) == is_chosen for name, is_chosen in self.condition)

    def unless(self, feature):
        self.condition |= {(feature, False)}


def identity(item):
    """Equal on items of two lists that are the same thing."""
    if isinstance(item, dict):
        for key in ("name", "key", "mountPath"):
            if key in item:
                return item.get("mountPath", item[key])
    return json.dumps(item, sort_keys=True)


def tree(value):
    if isinstance(value, dict):
        return {key: [Choice(tree(item))] for key, item in value.items()}
    if isinstance(value, list):
        return [(identity(item), Choice(tree(item))) for item in value]
    return value


def present(choices, features):
    (choice,) = [choice for choice in choices if choice.holds(features)]
    return choice


def replace(choice, old, new, before, feature):
    """Brings into `choice` that it becomes `new` with `feature`, and is `old` with the features `before`; returns what is beside it then."""
    if old == new and type(old) is type(new):
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        for key in new:
            choices = choice.node.setdefault(key, [])
            if key not in old:
                choices.append(Choice(tree(new[key]), frozenset({(feature, True)})))
            else:
                choices += replace(present(choices, before), old[key], new[key], before, feature)
        for key in set(old) - set(new):
            present(choice.node[key], before).unless(feature)
        return []
    if isinstance(old, list) and isinstance(new, list):
        replace_items(choice.node, old, new, before, feature)
        return []
    choice.unless(feature)
    return [Choice(tree(new), frozenset({(feature, True)}))]


def replace_items(items, old, new, before, feature):
    there = {identity(item): item for item in old}
    assert len(there) == len(old), old
    place = 0
    for item in new:
        name = identity(item)
        found = next((index for index, (other, choice) in enumerate(items) if other == name and choice.holds(before)), None)
        if name in there:
            beside = replace(items[found][1], there[name], item, before, feature)
            assert not beside, (name, feature)
            place = found + 1
        else:
            items.insert(place, (name, Choice(tree(item), frozenset({(feature, True)}))))
            place += 1
    for name, choice in items:
        if name in there and name not in {identity(item) for item in new} and choice.holds(before):
            choice.unless(feature)


def merged(key):
    """The object in all variants, as one tree with conditions; and its condition."""
    home = next(found for found in [frozenset()] + [closure({name}) for name in FEATURES] if key in objects(found))
    choice = Choice(tree(objects(home)[key]), frozenset((name, True) for name in home))
    for name, feature in FEATURES.items():
        if name in home or any(FEATURES[other].stands_alone and other not in feature.needs for other in home):
            continue
        before = home | set(feature.needs)
        after = before | {name}
        if key not in objects(before):
            continue
        if key not in objects(after):
            choice.unless(name)
            continue
        beside = replace(choice, objects(before)[key], objects(after)[key], before, name)
        assert not beside, key
    return choice


# ---- As text. ----


def condition_text(condition):
    terms = [FEATURES[name].condition if is_chosen else f"(not {FEATURES[name].condition})" for name, is_chosen in sorted(condition)]
    if len(terms) > 1:
        return "and " + " ".join(terms)
    return terms[0][1:-1] if terms[0].startswith("(") else terms[0]


def guarded(entries):
    """The lines of [(condition, lines)]; neighbours under one condition share an `if`, and its opposite is the `else`."""
    blocks = []     # [condition, lines, lines of the else]
    for condition, lines in entries:
        opposite = frozenset((name, not is_chosen) for name, is_chosen in condition)
        if blocks and blocks[-1][0] == condition and not blocks[-1][2]:
            blocks[-1][1] += lines
        elif blocks and len(condition) == 1 and blocks[-1][0] == opposite:
            blocks[-1][2] += lines
        else:
            blocks.append([condition, list(lines), []])
    found = []
    for condition, lines, others in blocks:
        if condition:
            lines = ["{{- if " + condition_text(condition) + " }}", *lines, *(["{{- else }}", *others] if others else []), "{{- end }}"]
        found += lines
    return found


def is_plain(text):
    """YAML reads it as this string without quotes, whatever is in it."""
    return re.fullmatch(r"[\w/=.-][\w/=.,:()+ -]*", text) and ": " not in text and yaml.safe_load(text) == text


def leaf(value, indent):
    """The text after "key:" or "-", in lines; the first goes on there."""
    if isinstance(value, Block):
        return ["{{- " + value + f" | nindent {indent + 2} }}}}"]
    if isinstance(value, Number):
        return [str(value)]
    if isinstance(value, Text):
        return [f'"{value}"']
    if not isinstance(value, str):
        return [json.dumps(value)]
    # Prometheus and Grafana have templates of their own.
    escaped = value.replace("{{", '{{ "{{" }}')
    if "\n" in value or escaped != value:
        assert not value.startswith(" "), value
        lines = escaped.removesuffix("\n").split("\n")
        return ["|" if value.endswith("\n") else "|-", *(" " * (indent + 2) + line if line else "" for line in lines)]
    return [value if is_plain(value) else json.dumps(value, ensure_ascii=False)]


def lines_of(node, indent):
    """The lines of a map or list at this indent."""
    space = " " * indent
    entries = []
    if isinstance(node, dict):
        for key, choices in sorted(node.items()):
            shown = key if re.fullmatch(r"[A-Za-z][A-Za-z0-9_./-]*", key) else json.dumps(key)
            entries += [(choice.condition, entry_lines(f"{space}{shown}:", choice.node, indent)) for choice in choices]
        return guarded(entries)
    for _, choice in node:
        if isinstance(choice.node, Lines):
            item = [line if line.startswith("{{") else space + line for line in choice.node.split("\n")]
        elif isinstance(choice.node, dict) and choice.node:
            item = item_lines(choice.node, indent)
        else:
            item = entry_lines(f"{space}-", choice.node, indent)
        entries.append((choice.condition, item))
    return guarded(entries)


def item_lines(node, indent):
    """A map in a list. Its first line is one without a condition, which the dash stands before."""
    keys = sorted(node, key=lambda key: (any(choice.condition for choice in node[key]), key))
    first, *others = keys
    assert not any(choice.condition for choice in node[first]), node
    head = lines_of({first: node[first]}, indent + 2)
    return [" " * indent + "- " + head[0][indent + 2:], *head[1:], *lines_of({key: node[key] for key in others}, indent + 2)]


def entry_lines(head, node, indent):
    if isinstance(node, dict) and node or isinstance(node, list) and node:
        return [head, *lines_of(node, indent + 2 if isinstance(node, dict) else indent)]
    if isinstance(node, (dict, list)):
        return [f"{head} {json.dumps(node)}"]
    first, *others = leaf(node, indent)
    return [f"{head} {first}", *others]


def write_templates(directory):
    """A file for each component: workloads, network and so on."""
    keys = {key for name in FEATURES for key in objects(closure({name}))} | set(objects(frozenset()))
    files = {}
    for kind, name in sorted(keys):
        choice = merged((kind, name))
        component = choice.node["metadata"][0].node["labels"][0].node["app.kubernetes.io/component"][0].node
        files.setdefault(component, []).append("\n".join(guarded([(choice.condition, ["---", *lines_of(choice.node, 0)])])) + "\n")
    for component, texts in files.items():
        (directory / f"{component}.yaml").write_text(HEADER + "".join(texts))
    return {f"{component}.yaml" for component in files}


def main():
    directory = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCES / "chart" / "templates"
    directory.mkdir(parents=True, exist_ok=True)
    written = write_templates(directory)
    for path in directory.glob("*.yaml"):
        if path.name not in written and path.read_text().startswith(HEADER):
            path.unlink()


if __name__ == "__main__":
    main()
