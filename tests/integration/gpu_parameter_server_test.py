"""Workers on GPUs whose parameters servers hold, with real processes: they train, are killed, lose their device, hang.

All workers share one GPU, as tests may (--share_gpu); in the emulation of CUDA that is none."""

import os
import signal
import unittest

from tests import report
from tests.integration.cluster import Cluster, synthetic_job
from tests.integration.gpu import GPU, GpuTestCase, await_members, member_of

ENDLESS = 10_000_000


class GpuParameterServerTest(GpuTestCase):
    def test_a_job_ends_as_on_cpus(self):
        losses = {}
        for device, flags in {"cpu": (), "cuda": GPU}.items():
            with Cluster() as cluster:
                cluster.start_coordinator()
                cluster.start_server("s")
                cluster.start_worker("a", *flags, slots=2)
                for servers in ("{servers: 1}", "{colocated: true}"):
                    job = cluster.run_job(synthetic_job(steps=30, workers_min=2, workers_max=2, hash_every=1,
                                                        bucket_bytes=4096, parameter_server=servers,
                                                        precision="float32"))
                    losses.setdefault(servers, []).append(float(job["figures"]["loss"]))
        for cpu, cuda in losses.values():
            self.assertAlmostEqual(cuda, cpu, delta=1e-3 * cpu)

    def test_it_goes_on_after_any_kill(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_server("s", slots=2)
            cluster.start_worker("a", *GPU, slots=2)
            cluster.await_workers(4)
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=1, workers_max=2, hash_every=1, bucket_bytes=4096,
                                                  parameter_server="{servers: 2, replicas: 1}"))
            cluster.await_step(job_id, 5)
            before = cluster.job(job_id)
            self.assertEqual(len(before["members"]), 4)
            for count, role in ((3, "ROLE_WORKER"), (2, "ROLE_PARAMETER_SERVER")):
                victim = next(member for member in before["members"] if member.get("role", "ROLE_WORKER") == role)
                os.kill(int(victim["pid"]), signal.SIGKILL)
                after = await_members(cluster, job_id, before, count)
                self.assertEqual(after["verdict"]["worker"], victim["worker"])
                # Hashes of parameters are compared at every step.
                cluster.await_step(job_id, int(after["figures"]["step"]) + 5)
                before = cluster.job(job_id)
            cluster.start_worker("b", *GPU)
            job = await_members(cluster, job_id, before, 3)
            cluster.await_step(job_id, int(job["figures"]["step"]) + 5)
            self.assertEqual(cluster.events(job_id, "job.rolled_back"), [])
            cluster.cancel(job_id)

    @unittest.skipUnless("RINGMASTER_EMULATED_CUDA_DEVICES" in os.environ, "a real GPU is not broken for a test")
    def test_who_loses_its_device_ends_and_is_started_again(self):
        with Cluster() as cluster:
            loses, job_id = self.start_with_one_that("loses", cluster, {"RINGMASTER_EMULATED_CUDA_FAILING": "3000"})
            cluster.await_output(loses, "accelerator.lost")
            before = cluster.job(job_id)
            cluster.await_step(job_id, int(before["figures"]["step"]) + 20)
            self.assertEqual(cluster.events(job_id, "job.rolled_back"), [])
            cluster.cancel(job_id)

    @unittest.skipUnless("RINGMASTER_EMULATED_CUDA_DEVICES" in os.environ, "a real GPU is not hung for a test")
    def test_whose_device_hangs_is_named_and_started_again(self):
        with Cluster() as cluster:
            hangs, job_id = self.start_with_one_that("hangs", cluster, {"RINGMASTER_EMULATED_CUDA_HANGING": "3000"},
                                                     "--progress_cap=10s", budget="4s")
            cluster.await_step(job_id, 1)
            before = cluster.job(job_id)
            self.assertNotEqual(member_of(before, 0)["worker"], "hangs")
            after = await_members(cluster, job_id, before, len(before["members"]) - 1)
            self.assertEqual(after["verdict"]["worker"], "hangs")
            cluster.await_output(hangs, "worker.ended")
            cluster.await_step(job_id, int(after["figures"]["step"]) + 20)
            cluster.cancel(job_id)

    @staticmethod
    def start_with_one_that(name, cluster, env, *flags, budget="20s"):
        """A job of three workers and a server; the last worker has `env`, which breaks its device once it has trained."""
        cluster.start_coordinator(*flags, budget=budget)
        cluster.start_server("s")
        for other in ("a", "b"):
            cluster.start_worker(other, *GPU)
        process = cluster.start_worker(name, *GPU, "--abort_timeout=3s", restart="always", env=env)
        cluster.await_workers(4)
        return process, cluster.submit(synthetic_job(steps=ENDLESS, workers_min=1, workers_max=3, hash_every=1,
                                                     bucket_bytes=4096, parameter_server="{servers: 1}"))


if __name__ == "__main__":
    report.main()
