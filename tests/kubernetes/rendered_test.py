"""The files in deploy/kubernetes/rendered, and the templates of the chart, are what `kubectl kustomize` makes of the sources now, and components
combine in an overlay of one's own."""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

from tests import report
# The checks are known once these are loaded.
from tests.kubernetes import checklist, cluster_checks, pod_checks  # noqa: F401
from tests.kubernetes.manifests import DIRECTORY, OVERLAYS, Manifests, rendered


def why_not_here():
    if shutil.which("kubectl") is None:
        return "kubectl is not installed"
    version = json.loads(subprocess.run(["kubectl", "version", "--client", "-o", "json"], capture_output=True, text=True,
                                        check=True).stdout)["clientVersion"]
    if (int(version["major"]), int(re.match(r"\d+", version["minor"])[0])) < (1, 27):
        return f"kubectl is {version['gitVersion']}, older than 1.27"
    return None


class RenderedTest(unittest.TestCase):
    def test_there_is_one_for_each_overlay(self):
        overlays = {path.parent.name for path in (DIRECTORY / "overlays").glob("*/kustomization.yaml")}
        self.assertEqual(overlays, set(OVERLAYS))
        self.assertEqual({path.stem for path in (DIRECTORY / "rendered").glob("*")}, overlays)


class KustomizeTest(unittest.TestCase):
    def setUp(self):
        why = why_not_here()
        if why:
            self.skipTest(why)

    def test_it_is_what_the_sources_give(self):
        with tempfile.TemporaryDirectory() as directory:
            # kustomize reads no file through a link that leads out of its directory, and tests see links.
            sources = shutil.copytree(DIRECTORY, pathlib.Path(directory) / "sources")
            target = pathlib.Path(directory) / "made"
            subprocess.run([sources / "render.sh", target], check=True, timeout=240)
            for overlay in OVERLAYS:
                with self.subTest(overlay=overlay):
                    self.assertEqual((target / "rendered" / f"{overlay}.yaml").read_text(), rendered(overlay).read_text(),
                                     "run deploy/kubernetes/render.sh")
            # Beside these is what is written by hand.
            by_hand = {"checks.yaml"}
            made = {path.name: path.read_text() for path in (target / "chart" / "templates").iterdir()}
            there = {path.name: path.read_text() for path in (DIRECTORY / "chart" / "templates").iterdir()}
            self.assertEqual(set(made) | by_hand, set(there))
            for name, text in made.items():
                with self.subTest(template=name):
                    self.assertEqual(text, there[name], "run deploy/kubernetes/render.sh")

    def test_a_pool_of_gpus_with_tls_passes_all_checks(self):
        for components in (("tls", "pool", "autoscaling"), ("pool", "autoscaling", "tls")):
            manifests = Manifests(yaml.safe_load_all(self.render({
                "resources": ["../gpu"], "namespace": "ringmaster",
                "components": [f"../../components/{each}" for each in components] + ["../../monitoring"]})))
            (worker,) = manifests.pods_of("worker")
            self.assertEqual((worker.owner, worker.flags["device"]), ("Deployment ringmaster-worker", "cuda"))
            self.assertIn("RINGMASTER_TLS_KEY_FILE", worker.env)
            for name, check in checklist.CHECKS.items():
                with self.subTest(check=name, components=components):
                    self.assertEqual(list(check(manifests)), [])

    def test_other_combinations_pass_all_checks(self):
        for kustomization in ({"resources": ["../jobset"], "components": ["../../components/kueue"]},
                              {"resources": ["../gpu"], "components": ["../../components/trainjob"]},
                              {"resources": ["../gpu"], "components": ["../../components/tls", "../../components/page"]}):
            manifests = Manifests(yaml.safe_load_all(self.render(kustomization)))
            for name, check in checklist.CHECKS.items():
                with self.subTest(check=name, **kustomization):
                    self.assertEqual(list(check(manifests)), [])
            for each in manifests.of_kind("JobSet"):
                self.assertTrue(each["spec"]["suspend"])

    def render(self, kustomization):
        """What kustomize makes of an overlay beside ours."""
        with tempfile.TemporaryDirectory() as directory:
            sources = shutil.copytree(DIRECTORY, pathlib.Path(directory) / "sources")
            overlay = sources / "overlays" / "mine"
            overlay.mkdir()
            (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
            return subprocess.run(["kubectl", "kustomize", overlay], check=True, timeout=120, capture_output=True, text=True).stdout


if __name__ == "__main__":
    report.main()
