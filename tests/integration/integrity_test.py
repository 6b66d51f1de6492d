"""A byte of a frame changes on its way between two hosts, and TCP does not see it: the frame is found out before a sum uses it,
the members begin again, and the job comes to the same parameters, bit for bit, as if nothing had happened."""

import pathlib
import tempfile
import unittest

from tests import report
from tests.integration.cluster import Cluster, Hosts, generation_of, namespaces_unavailable, synthetic_job
from tests.integration.damaging_cable import DamagingCable

ENDLESS = 10_000_000
# Where frames between hosts are large: the header, its checksum, the first bytes of a payload and some in the middle.
PLACES = (24, 60, 66, 72, 4000)


def job_text(steps, **train):
    return synthetic_job(steps=steps, workers_min=2, workers_max=2, hash_every=1, **train).replace("hidden_dim: 32", "hidden_dim: 256")


def last_checkpoint(directory):
    """The step of the newest checkpoint, and its parameters as they lie on disk."""
    newest = max(directory.glob("step-*"))
    return int(newest.name.removeprefix("step-")), (newest / "model.safetensors").read_bytes()


class IntegrityTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = namespaces_unavailable()
        if why:
            raise unittest.SkipTest(why)

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name)

    def start(self, network, cluster, servers=False):
        cluster.start_coordinator(host=network[0])
        for index in (1, 2):
            cluster.start_worker(f"w{index}", host=network[index])
        if servers:
            cluster.start_server("s", host=network[3])
        cluster.await_workers(3 if servers else 2)

    def begins_again(self, cluster, job_id, before):
        def later():
            job = cluster.job(job_id)
            self.assertNotEqual(job["state"], "JOB_STATE_FAILED", job.get("message"))
            return job if generation_of(job) > before and job["state"] == "JOB_STATE_RUNNING" else None
        return cluster.await_that("another generation", later)

    def damage_and_check(self, cluster, cable, job_id, text, **frame):
        """The members begin again, all of them, and the verdict has the frame in its evidence."""
        before = cluster.job(job_id)
        cable.damage(**frame)
        job = self.begins_again(cluster, job_id, generation_of(before))
        self.assertEqual({member["worker"] for member in job["members"]}, {member["worker"] for member in before["members"]})
        evidence = [each["detail"] for each in job["verdict"]["evidence"]]
        self.assertTrue(any(text in detail for detail in evidence), evidence)
        # Faults without a step between them are taken for a link that is bad for good.
        cluster.await_step(job_id, int(job["figures"]["step"]) + 5)

    def test_a_changed_byte_between_workers_costs_a_generation(self):
        hosts = Hosts(3)
        with hosts as network, DamagingCable(hosts, 1) as cable, Cluster() as cluster:
            self.start(network, cluster)
            directory = self.directory / "damaged"
            job_id = cluster.submit(job_text(ENDLESS, collective="{algorithm: ring}", checkpoint=f"{{directory: {directory}}}"))
            cluster.await_step(job_id, 20)
            ranks = {member["worker"]: int(member.get("rank", 0)) for member in cluster.job(job_id)["members"]}
            for at in PLACES:
                with self.subTest(at=at):
                    self.damage_and_check(cluster, cable, job_id, f"damaged frame of rank {ranks['w1']} to rank {ranks['w2']}",
                                          at=at, least=4096)
            cluster.cancel(job_id)
            step, parameters = last_checkpoint(directory)
            directory = self.directory / "undisturbed"
            cluster.run_job(job_text(step, collective="{algorithm: ring}", checkpoint=f"{{directory: {directory}}}"))
            self.assertEqual(last_checkpoint(directory), (step, parameters))

    def test_a_changed_byte_on_the_way_to_a_parameter_server_costs_a_generation(self):
        hosts = Hosts(4)
        with hosts as network, DamagingCable(hosts, 1) as cable, Cluster() as cluster:
            self.start(network, cluster, servers=True)
            job_id = cluster.submit(job_text(ENDLESS, parameter_server="{servers: 1, deterministic: true}"))
            cluster.await_step(job_id, 20)
            for at, least in ((24, 0), (80, 48), (4000, 4096)):
                with self.subTest(at=at):
                    self.damage_and_check(cluster, cable, job_id, "damaged frame of rank", at=at, least=least)
            cluster.cancel(job_id)


if __name__ == "__main__":
    report.main()
