"""The Helm chart gives what the overlays give, with the values that stand for them; every combination passes the checks of the manifests; every
value has an effect, and a bad one gets a line. `chart_render` renders it as Helm does, which Debian does not have."""

import copy
import itertools
import json
import pathlib
import subprocess
import unittest

import jsonschema
import yaml

from tests import report
# The checks are known once these are loaded.
from tests.kubernetes import checklist, cluster_checks, pod_checks  # noqa: F401
from tests.kubernetes.manifests import DIRECTORY, Manifests, load
from tests.kubernetes.object_schemas import problems_of

CHART = DIRECTORY / "chart"
RENDER = pathlib.Path("tests/kubernetes/chart_render/chart_render")


def read(name):
    return yaml.safe_load((CHART / name).read_text())


DEFAULTS, GPU, SCHEMA = read("values.yaml"), read("gpu.yaml"), read("values.schema.json")

ON = {"enabled": True}
TLS = {"tls": ON}
PAGE = {"tls": ON, "page": ON}
INGRESS = {"tls": ON, "page": {**ON, "ingress": ON}}
POOL = {"pool": ON}
AUTOSCALED = {"pool": {**ON, "autoscaling": ON}, "monitoring": ON}
SERVERS = {"parameterServers": {"count": 2}}
CLAIMS = {"storage": {"claim": "checkpoints", "data": [{"claim": "imagenet", "path": "/data/imagenet"}]}}

# The size of the workers' pods in the overlays that have the base's.
BASE = {"coordinator": {"failureBudget": ""}, "storage": {"size": "3Gi"}, "workers": {"resources": {
    "requests": {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "1Gi"}, "limits": {"memory": "2Gi", "ephemeral-storage": "4Gi"}}}}


def merge(*values):
    """As Helm merges values: maps key by key, a later one over an earlier one."""
    merged = {}
    for each in values:
        for key, value in each.items():
            both_maps = isinstance(value, dict) and isinstance(merged.get(key), dict)
            merged[key] = merge(merged[key], value) if both_maps else copy.deepcopy(value)
    return merged


def violations(values):
    """What the schema says, as Helm shows it."""
    return [f"{'.'.join(map(str, error.absolute_path)) or '(root)'}: {error.message}"
            for error in jsonschema.Draft7Validator(SCHEMA).iter_errors(values)]


def run(values, release="ringmaster", namespace="ringmaster", service="kustomize"):
    return subprocess.run([RENDER, CHART, release, namespace, service], input=json.dumps(values), capture_output=True, text=True,
                          timeout=60)


def render(*values, **release):
    values = merge(DEFAULTS, *values)
    assert violations(values) == [], violations(values)
    result = run(values, **release)
    assert result.returncode == 0, result.stderr
    # libyaml's parser: the dashboard is long.
    return [each for each in yaml.load_all(result.stdout, Loader=yaml.CSafeLoader) if each]


def by_name(objects):
    named = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    assert len(named) == len(objects)
    return named


class ChartTest(unittest.TestCase):
    maxDiff = None

    def test_it_gives_what_the_overlays_give(self):
        for overlay, values in {
            "cpu": [],
            "gpu": [GPU],
            "pool": [POOL, BASE, {"workers": {"count": 4}}],
            "pool-autoscaled": [AUTOSCALED, BASE],
            "everything": [INGRESS, SERVERS, {"monitoring": ON}, BASE],
            "kueue": [{"kueue": {"queue": "ringmaster", "minWorkers": 1}}],
        }.items():
            given, wanted = by_name(render(*values)), by_name(load(overlay).objects)
            # `helm install --create-namespace` makes it.
            del wanted["Namespace", "ringmaster"]
            with self.subTest(overlay=overlay):
                self.assertEqual(set(given), set(wanted))
            for name, each in wanted.items():
                with self.subTest(overlay=overlay, object=name):
                    self.assertEqual(given[name], each)

    def test_all_combinations_pass_all_checks(self):
        namespace = load("cpu").of_kind("Namespace")
        workloads = [{}, POOL, AUTOSCALED, {"kueue": {"queue": "team", "minWorkers": 1}}]
        for values in itertools.product([{}, GPU], workloads, [{}, TLS, PAGE, INGRESS], [{}, merge(SERVERS, {"monitoring": ON}, CLAIMS)]):
            manifests = Manifests(namespace + render(*values))
            for each in manifests.objects:
                self.assertEqual(problems_of(each), [], f"{values}: {each['kind']} {each['metadata']['name']}")
            for name, check in checklist.CHECKS.items():
                self.assertEqual(list(check(manifests)), [], f"{values}: {name}")

    def test_a_claim_takes_the_place_of_the_volume_and_data_may_be_read(self):
        for workload in ({}, POOL):
            (pod,) = Manifests(render(CLAIMS, workload)).pods_of("worker")
            self.assertEqual(pod.mounts["/var/lib/ringmaster"], {"name": "work", "persistentVolumeClaim": {"claimName": "checkpoints"}})
            self.assertEqual(pod.mounts["/data/imagenet"]["persistentVolumeClaim"], {"claimName": "imagenet", "readOnly": True})
            self.assertIn("--allow_read=/data/imagenet", pod.container["args"])

    def test_names_are_the_release_s(self):
        objects = render(INGRESS, SERVERS, {"monitoring": ON}, release="first", namespace="team", service="Helm")
        for each in objects:
            self.assertEqual(each["metadata"]["namespace"], "team")
            labels = each["metadata"]["labels"]
            self.assertEqual((labels["app.kubernetes.io/instance"], labels["app.kubernetes.io/managed-by"]), ("first", "Helm"))
        manifests = Manifests(objects)
        for pod in manifests.pods:
            self.assertEqual(pod.labels["app.kubernetes.io/instance"], "first")
        self.assertEqual(list(checklist.CHECKS["the_page_asks_those_who_reach_it"](manifests)), [])
        names = manifests.named("Certificate", "ringmaster-coordinator-tls")["spec"]["dnsNames"]
        self.assertIn("ringmaster-coordinator.team.svc", names)

    def test_versions_are_those_of_the_overlays(self):
        chart = read("Chart.yaml")
        version = load("cpu").of_kind("Job")[0]["metadata"]["labels"]["app.kubernetes.io/version"]
        self.assertEqual((chart["version"], chart["appVersion"], DEFAULTS["image"]["tag"]), (version, version, version))

    def test_every_value_has_an_effect(self):
        everything = {"workers": {"args": ["--threads=2"]}, "kueue": {"queue": "team", "minWorkers": 1},
                      "coordinator": {"storage": {"className": "fast"}}}
        contexts = [merge(DEFAULTS, INGRESS, SERVERS, {"monitoring": ON}, everything), merge(DEFAULTS, AUTOSCALED), merge(DEFAULTS, CLAIMS),
                    merge(DEFAULTS, TLS)]
        before = [run(values).stdout for values in contexts]
        for path in leaves(DEFAULTS):
            changed = 0
            for values, text in zip(contexts, before):
                result = run(with_other(values, path))
                changed += result.returncode == 0 and result.stdout != text
            self.assertTrue(changed, f"{'.'.join(path)} changes nothing")

    def test_bad_values_get_a_line(self):
        for values, said in [
            ({"wokers": {"count": 2}}, "'wokers'"),
            ({"workers": {"count": "2"}}, "workers.count: '2' is not of type 'integer'"),
            ({"workers": {"count": 0}}, "workers.count: 0 is less than the minimum of 1"),
            ({"workers": {"device": "gpu"}}, "workers.device: 'gpu' is not one of"),
            ({"workers": {"args": ["threads=2"]}}, "workers.args.0: 'threads=2' does not match"),
            ({"workers": {"resources": {"limits": {"memory": "2 GiB"}}}}, "workers.resources.limits.memory: '2 GiB' does not match"),
            ({"coordinator": {"failureBudget": "5"}}, "coordinator.failureBudget: '5' does not match"),
            ({"storage": {"data": [{"claim": "imagenet", "path": "data"}]}}, "storage.data.0.path: 'data' does not match"),
            ({"tls": {"enabled": "true"}}, "tls.enabled: 'true' is not of type 'boolean'"),
            ({"page": {"ingress": {"host": "https://example.com"}}}, "page.ingress.host: 'https://example.com' does not match"),
        ]:
            (found,) = violations(merge(DEFAULTS, values))
            self.assertIn(said, found)

    def test_values_that_contradict_each_other_get_a_line(self):
        for values, said in [
            ({"workers": {"device": "cuda"}}, "workers.device is cuda: workers.resources.limits must have nvidia.com/gpu: 1"),
            (merge(GPU, {"workers": {"slots": 2}}), "nvidia.com/gpu: 2, one for each of workers.slots, and has 1"),
            (merge(GPU, {"workers": {"device": "cpu"}}), "set workers.device to cuda"),
            ({"pool": {"autoscaling": ON}}, "pool.autoscaling.enabled needs pool.enabled"),
            (merge(AUTOSCALED, {"monitoring": {"enabled": False}}), "pool.autoscaling.enabled needs monitoring.enabled"),
            (merge(AUTOSCALED, {"pool": {"autoscaling": {"min": 8}}}), "pool.autoscaling.min is 8"),
            ({"page": ON}, "page.enabled needs tls.enabled"),
            (merge(TLS, {"page": {"ingress": ON}}), "page.ingress.enabled needs page.enabled"),
            (merge(POOL, {"kueue": {"queue": "team"}}), "kueue.queue is for a run"),
            ({"kueue": {"minWorkers": 1}}, "kueue.minWorkers needs kueue.queue"),
            ({"kueue": {"queue": "team", "minWorkers": 2}}, "kueue.minWorkers is 2, and must be less than workers.count, 2"),
        ]:
            values = merge(DEFAULTS, values)
            self.assertEqual(violations(values), [])
            result = run(values)
            with self.subTest(said=said):
                self.assertEqual(result.returncode, 1)
                self.assertIn(said, result.stderr)
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)

    def test_the_schema_knows_all_values_and_no_more(self):
        self.assertEqual(violations(DEFAULTS), [])
        self.assertEqual(violations(merge(DEFAULTS, GPU)), [])
        self.assertEqual(set(leaves(DEFAULTS)) - set(known(SCHEMA)), set())
        self.assertEqual({path for path in known(SCHEMA) if path != ("global",)} - set(leaves(DEFAULTS)), set())


# Maps whose keys are the user's.
FREE = ("requests", "limits", "annotations")


def leaves(values, path=()):
    """The path to each value."""
    for key, value in values.items():
        if isinstance(value, dict) and key not in FREE:
            yield from leaves(value, path + (key,))
        else:
            yield path + (key,)


def known(schema, path=()):
    """The same of the schema."""
    for key, value in schema["properties"].items():
        if "properties" in value:
            yield from known(value, path + (key,))
        else:
            yield path + (key,)


def with_other(values, path):
    """With another value there."""
    values = copy.deepcopy(values)
    inner = values
    for key in path[:-1]:
        inner = inner[key]
    old = inner[path[-1]]
    if isinstance(old, bool):
        new = not old
    elif isinstance(old, int):
        new = old + 1 if path[-1] != "minWorkers" else 0
    elif path[-1] == "device":
        # Which alone contradicts the resources.
        new = "cuda"
        inner["resources"]["limits"]["nvidia.com/gpu"] = 1
    elif isinstance(old, str):
        new = {"size": "7Gi", "failureBudget": "7s"}.get(path[-1], "other")
    elif isinstance(old, list):
        new = []
    else:
        new = {**old, "other": "7"}
    inner[path[-1]] = new
    return values


if __name__ == "__main__":
    report.main()
