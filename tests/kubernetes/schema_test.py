"""Every object has only fields that its API knows, of the types that it takes."""

import copy
import unittest

import jsonschema
import yaml

from tests import report
from tests.kubernetes.manifests import DIRECTORY, OVERLAYS, load
from tests.kubernetes.object_schemas import SCHEMAS, problems_of

def places(value, path=()):
    """The path to each object in it."""
    if isinstance(value, dict):
        yield path
        for key, item in value.items():
            yield from places(item, path + (key,))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, path + (index,))


class SchemaTest(unittest.TestCase):
    def test_the_schemas_are_schemas(self):
        self.assertEqual(len(SCHEMAS), 5)
        for schema in SCHEMAS.values():
            jsonschema.Draft7Validator.check_schema(schema)

    def test_every_object_fits(self):
        for overlay in OVERLAYS:
            for each in load(overlay).objects:
                with self.subTest(overlay=overlay, kind=each["kind"], name=each["metadata"]["name"]):
                    self.assertEqual(problems_of(each), [])

    def test_the_train_job_fits_its_runtime(self):
        train_job = yaml.safe_load((DIRECTORY / "trainjob.yaml").read_text())
        self.assertEqual(problems_of(train_job), [])
        broken = copy.deepcopy(train_job)
        broken["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["suspend"] = True
        self.assertTrue(problems_of(broken))

        manifests = load("trainjob")
        (runtime,) = manifests.of_kind("ClusterTrainingRuntime")
        self.assertEqual(train_job["spec"]["runtimeRef"], {"name": runtime["metadata"]["name"]})
        # The account and the policies that its pods need are here.
        self.assertEqual(train_job["metadata"]["namespace"], manifests.of_kind("Namespace")[0]["metadata"]["name"])
        # A patch of another name would add a volume that nothing mounts.
        (patch,) = train_job["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        (submit,) = manifests.pods_of("submit")
        self.assertTrue(submit.owner.endswith(f", {patch['name']}"))
        (volume,) = patch["template"]["spec"]["template"]["spec"]["volumes"]
        self.assertEqual(set(submit.volumes[volume["name"]]), set(volume))

    def test_a_field_that_nobody_knows_is_found_wherever_it_is(self):
        free = {"labels", "annotations", "matchLabels", "selector", "nodeSelector", "data", "requests", "limits"}
        seen = []
        for overlay in OVERLAYS:
            for each in load(overlay).objects:
                # Most are the same in several.
                if each in seen:
                    continue
                seen.append(each)
                for path in places(each):
                    if path and path[-1] in free:
                        continue
                    broken = copy.deepcopy(each)
                    inner = broken
                    for key in path:
                        inner = inner[key]
                    inner["unknownField"] = 1
                    self.assertTrue(problems_of(broken), f"{overlay}: {each['kind']}: {path}")

    def test_wrong_values_are_found(self):
        wrong = [("StatefulSet", "replicas", "1"), ("Job", "completionMode", "indexed"), ("Service", "ports", []),
                 ("PodDisruptionBudget", "maxUnavailable", 1.5), ("NetworkPolicy", "policyTypes", ["Out"]),
                 ("Job", "backoffLimit", -1), ("StatefulSet", "serviceName", "Upper"),
                 ("Deployment", "strategy", {"type": "Rolling"}), ("Deployment", "serviceName", "pods"),
                 ("HorizontalPodAutoscaler", "maxReplicas", 0), ("HorizontalPodAutoscaler", "metrics", []),
                 ("Job", "suspend", "yes"), ("Ingress", "rules", []), ("ClusterTrainingRuntime", "mlPolicy", {"numNodes": "2"})]
        for kind, field, value in wrong:
            objects = [each for overlay in ("cpu", "pool-autoscaled", "everything", "trainjob") for each in load(overlay).of_kind(kind)]
            broken = copy.deepcopy(objects[0])
            broken["spec"][field] = value
            with self.subTest(kind=kind, field=field):
                self.assertTrue(problems_of(broken))


if __name__ == "__main__":
    report.main()
