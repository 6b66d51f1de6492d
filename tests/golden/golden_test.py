"""What the programs of earlier releases left behind is read by today's: journals, checkpoints and job files (make.py wrote them).

A later program may show more than an earlier one did, but nothing that it showed differently.
"""

import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from tests import report
from tests.golden.make import faulted_job, mlp_job, write_text_of
from tests.integration.cluster import ENDED, PATIENCE, Cluster, binary, generation_of

RELEASES = sorted(path.parent for path in pathlib.Path("tests/golden").glob("*/jobs.json"))


def differences(then, now, place=""):
    """Where `now` lacks what `then` has, or has it otherwise."""
    if isinstance(then, dict) and isinstance(now, dict):
        return [item for key, value in then.items() for item in differences(value, now.get(key), f"{place}.{key}")]
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        return [item for i, value in enumerate(then) for item in differences(value, now[i], f"{place}[{i}]")]
    return [] if then == now else [f"{place}: {then!r} became {now!r}"]


class GoldenTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name)

    def types_in(self, state):
        """Those of the records that the coordinator's program finds in a journal, beside the coordinator that uses it."""
        dump = subprocess.run([binary("coordinator"), "--dump_journal", f"--state_dir={state}"], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(dump.returncode, 0, dump.stderr)
        return {key for line in dump.stdout.splitlines() for key in json.loads(line) if key != "sequence"}

    def test_there_are_releases(self):
        self.assertIn("0.1.0", [release.name for release in RELEASES])

    def test_a_difference_is_found(self):
        then = {"a": [{"b": 1}], "c": "x"}
        self.assertEqual(differences(then, {"a": [{"b": 1, "new": 2}], "c": "x"}), [])
        self.assertEqual(differences(then, {"a": [{"b": 2}], "c": "x"}), [".a[0].b: 1 became 2"])
        self.assertEqual(differences(then, {"a": [{"b": 1}]}), [".c: 'x' became None"])
        self.assertEqual(differences(then, {"a": [], "c": "x"}), [".a: [{'b': 1}] became []"])

    def test_job_files_mean_what_they_meant(self):
        with Cluster() as cluster:
            cluster.address = "127.0.0.1:1"  # --dry-run asks nobody
            for release in RELEASES:
                for path in sorted((release / "jobs").glob("*.yaml")):
                    with self.subTest(path=str(path)):
                        then = json.loads(path.with_suffix(".json").read_text())
                        self.assertEqual(differences(then, cluster.query("submit", "--dry-run", str(path))), [])

    def test_a_coordinator_goes_on_with_a_journal(self):
        for release in RELEASES:
            with self.subTest(release=release.name), Cluster() as cluster:
                then = json.loads((release / "jobs.json").read_text())
                state = self.directory / release.name
                shutil.copytree(release / "state", state)
                state.chmod(0o700)
                cluster.start_coordinator("--state_wait=1s", state_dir=state, budget="2s")
                # Those that are still needed: a job's end has its last verdict.
                self.assertEqual(self.types_in(state), {"job_created", "generation_formed", "cancel_requested", "job_ended",
                                                        "host_quarantined"})
                for job in then["ended"]:
                    self.assertEqual(differences(job, cluster.job(job["id"])), [], job["id"])
                # The members of the job that ran are gone: others take it over, in a generation that is new.
                for name in ("c", "d"):
                    cluster.start_worker(name)
                cluster.await_step(then["running"], 5)
                self.assertGreater(generation_of(cluster.job(then["running"])), int(then["generation"]))
                # While it runs, those behind it cannot end by themselves.
                jobs = cluster.query("status")["jobs"]
                for job in jobs:
                    if job["id"] != then["running"] and job["state"] not in ENDED:
                        cluster.cancel(job["id"])
                cluster.cancel(then["running"])
                new = cluster.submit(mlp_job("new", steps=5))
                self.assertNotIn(new, [job["id"] for job in jobs])
                cluster.await_job(new, "SUCCEEDED")

    def test_a_job_goes_on_from_a_checkpoint(self):
        for release in RELEASES:
            with self.subTest(release=release.name), Cluster() as cluster:
                checkpoints = self.directory / f"checkpoints-{release.name}"
                shutil.copytree(release / "checkpoint", checkpoints)
                step, = (int(path.name.removeprefix("step-")) for path in checkpoints.glob("step-*"))
                cluster.start_coordinator()
                cluster.start_worker("a", slots=2)
                job = cluster.run_job(faulted_job(write_text_of(self.directory), checkpoints, steps=step + 10))
                loaded, = cluster.events(job["id"], "checkpoint.loaded")
                # Other settings than those it was written with: there are more steps.
                self.assertEqual(loaded["message"], f"starts from {checkpoints}/step-{step:09}; its settings were others")
                self.assertEqual(int(job["figures"]["step"]), step + 10)


if __name__ == "__main__":
    report.main()
