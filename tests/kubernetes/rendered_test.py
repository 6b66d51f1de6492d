"""The files in deploy/kubernetes/rendered are what `kubectl kustomize` makes of the sources now."""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from tests import report
from tests.kubernetes.manifests import DIRECTORY, OVERLAYS, rendered


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

    def test_it_is_what_the_sources_give(self):
        why = why_not_here()
        if why:
            self.skipTest(why)
        with tempfile.TemporaryDirectory() as directory:
            # kustomize reads no file through a link that leads out of its directory, and tests see links.
            sources = shutil.copytree(DIRECTORY, pathlib.Path(directory) / "sources")
            target = pathlib.Path(directory) / "rendered"
            target.mkdir()
            subprocess.run([sources / "render.sh", target], check=True, timeout=120)
            for overlay in OVERLAYS:
                with self.subTest(overlay=overlay):
                    self.assertEqual((target / f"{overlay}.yaml").read_text(), rendered(overlay).read_text(),
                                     "run deploy/kubernetes/render.sh")


if __name__ == "__main__":
    report.main()
