"""ringctl compare with workers on GPUs, which share one here (--share_gpu): its figures mean nothing, its report does."""

import json
import subprocess

from tests import report
from tests.integration.cluster import PATIENCE, Cluster, binary, synthetic_job
from tests.integration.gpu import GPU, GpuTestCase


class GpuCompareTest(GpuTestCase):
    def setUp(self):
        super().setUp()
        self.cluster = self.enterContext(Cluster())
        self.out = self.cluster.directory / "out"

    def compare(self, *flags, **train):
        job = self.cluster.directory / "job.yaml"
        job.write_text(synthetic_job(**train))
        return subprocess.run([binary("ringctl"), "compare", str(job), f"--out={self.out}", "--workers=2", "--repeats=1",
                               f"--bin_dir={self.cluster.bin_dir()}", *flags],
                              capture_output=True, text=True, timeout=2 * PATIENCE, stdin=subprocess.DEVNULL)

    def runs(self):
        """The runs by their mode, each with the theory of its combination."""
        comparison = json.loads((self.out / "comparison.json").read_text())
        theory = {combination["mode"]: combination.get("theory") for combination in comparison["combinations"]}
        return {run["mode"]: {**run, "theory": theory[run["mode"]]} for run in comparison["runs"]}

    def test_nccl_and_a_parameter_server(self):
        result = self.compare(*GPU, "--modes=auto,ring,ps:1", steps=60, bucket_bytes=4096)
        self.assertEqual(result.returncode, 0, result.stderr)
        runs = self.runs()
        self.assertEqual(list(runs), ["auto", "ring", "ps:1"])
        for mode, run in runs.items():
            self.assertEqual(run["failure"], "")
            self.assertEqual(run["is_by_nccl"], mode != "ps:1")
            self.assertAlmostEqual(run["final_loss"], runs["auto"]["final_loss"], delta=1e-3 * run["final_loss"])
            self.assertGreater(run["ranks"][0]["backward_seconds"], 0)
            self.assertIsNone(run["theory"]["step_seconds"])
        self.assertIsNone(runs["ring"]["ranks"][0]["sent_bytes"])
        servers = runs["ps:1"]
        self.assertEqual([rank["role"] for rank in servers["ranks"]], ["worker", "worker", "parameter_server"])
        theory = servers["theory"]["worker_sent_bytes"]
        self.assertAlmostEqual(servers["ranks"][0]["sent_bytes"], theory, delta=0.05 * theory + 2000)
        html = (self.out / "report.html").read_text()
        self.assertIn("one GPU for all", html)
        self.assertIn("No step is predicted", html)

    def test_a_cluster_whose_workers_are_on_gpus(self):
        self.cluster.start_coordinator()
        self.cluster.start_worker("a", *GPU, slots=2)
        self.cluster.await_workers(2)
        there = f"--coordinator={self.cluster.address}"
        result = self.compare(there, "--modes=auto,ps:colocated", steps=40, bucket_bytes=4096)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual({mode: run["is_by_nccl"] for mode, run in self.runs().items()},
                         {"auto": True, "ps:colocated": False})
        result = self.compare(there, "--modes=direct")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--modes: direct is for workers on CPUs", result.stderr)


if __name__ == "__main__":
    report.main()
