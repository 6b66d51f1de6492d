"""Workers on GPUs with real processes: they train, are killed, lose their device, and refuse what does not go together.

All slots share one GPU, as tests may (--share_gpu); in the emulation of CUDA that is none."""

import os
import signal
import unittest

from tests import report
from tests.integration.cluster import Cluster, synthetic_job
from tests.integration.gpu import GPU, GpuTestCase, await_members, member_of

ENDLESS = 10_000_000


class GpuTrainingTest(GpuTestCase):
    def test_a_job_ends_as_on_cpus(self):
        losses = {}
        for device, flags in {"cpu": (), "cuda": GPU}.items():
            with Cluster() as cluster:
                cluster.start_coordinator()
                cluster.start_worker("a", *flags, slots=2)
                job = cluster.run_job(synthetic_job(steps=30, workers_min=2, workers_max=2, hash_every=1, precision="float32"))
                losses[device] = float(job["figures"]["loss"])
                kinds = {worker["device"]["kind"] for worker in cluster.workers()}
                self.assertEqual(kinds, {f"DEVICE_KIND_{device.upper()}"})
        self.assertAlmostEqual(losses["cuda"], losses["cpu"], delta=1e-3 * losses["cpu"])

    def test_survivors_go_on_after_a_kill_and_a_newcomer_joins(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", *GPU, slots=3)
            cluster.await_workers(3)
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=1, workers_max=3, hash_every=1))
            cluster.await_step(job_id, 5)
            before = cluster.job(job_id)
            self.assertEqual(len(before["members"]), 3)
            victim = member_of(before, 1)
            os.kill(int(victim["pid"]), signal.SIGKILL)
            job = await_members(cluster, job_id, before, 2)
            self.assertEqual(job["verdict"]["worker"], victim["worker"])
            cluster.await_step(job_id, int(job["figures"]["step"]) + 5)
            cluster.start_worker("b", *GPU)
            job = await_members(cluster, job_id, job, 3)
            # Hashes of parameters are compared at every step.
            cluster.await_step(job_id, int(job["figures"]["step"]) + 5)
            self.assertEqual(cluster.events(job_id, "job.rolled_back"), [])
            cluster.cancel(job_id)

    @unittest.skipUnless("RINGMASTER_EMULATED_CUDA_DEVICES" in os.environ, "a real GPU is not broken for a test")
    def test_who_loses_its_device_ends_and_is_started_again(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("stays", *GPU)
            # Far enough to have trained; each process gets that far.
            loses = cluster.start_worker("loses", *GPU, restart="always",
                                         env={"RINGMASTER_EMULATED_CUDA_FAILING": "3000"})
            cluster.await_workers(2)
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=1, workers_max=2, hash_every=1))
            cluster.await_output(loses, "accelerator.lost")
            # The error comes from the first library that uses the device after the fault: CUDA or cuBLASLt.
            self.assertRegex(loses.output(), "cudaErrorIllegalAddress|CUBLAS_STATUS_EXECUTION_FAILED")
            before = cluster.job(job_id)
            cluster.await_step(job_id, int(before["figures"]["step"]) + 20)
            self.assertEqual(cluster.events(job_id, "job.rolled_back"), [])
            cluster.cancel(job_id)

    @unittest.skipUnless("RINGMASTER_EMULATED_CUDA_DEVICES" in os.environ, "a real GPU is not hung for a test")
    def test_whose_device_hangs_is_named_and_started_again(self):
        with Cluster() as cluster:
            cluster.start_coordinator("--progress_cap=10s", budget="4s")
            for name in ("a", "b"):
                cluster.start_worker(name, *GPU)
            hangs = cluster.start_worker("hangs", *GPU, "--abort_timeout=3s", restart="always",
                                         env={"RINGMASTER_EMULATED_CUDA_HANGING": "3000"})
            cluster.await_workers(3)
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=1, workers_max=3, hash_every=1))
            cluster.await_step(job_id, 1)
            before = cluster.job(job_id)
            self.assertNotEqual(member_of(before, 0)["worker"], "hangs")
            after = await_members(cluster, job_id, before, 2)
            self.assertEqual(after["verdict"]["worker"], "hangs")
            cluster.await_output(hangs, "worker.ended")
            cluster.await_step(job_id, int(after["figures"]["step"]) + 20)
            cluster.cancel(job_id)

    def test_gpus_and_cpus_do_not_train_together(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("gpu", *GPU)
            cluster.start_worker("cpu")
            cluster.await_workers(2)
            job = cluster.run_job(synthetic_job(steps=30, workers_min=2, workers_max=2), "FAILED")
            self.assertRegex(job["message"], "(bfloat16 GPU against .*float32 CPU|float32 CPU against .*bfloat16 GPU)")
            self.assertEqual(int(job["exit_code"]), 3)

    def test_two_workers_on_one_gpu_are_told_so(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            for name in ("a", "b"):
                cluster.start_worker(name, "--device=cuda", env={"CUDA_VISIBLE_DEVICES": "0"})
            cluster.await_workers(2)
            job = cluster.run_job(synthetic_job(steps=30, workers_min=2, workers_max=2), "FAILED")
            self.assertIn("both use GPU-", job["message"])
            self.assertIn("rank 0", job["message"])
            self.assertIn("rank 1", job["message"])
            self.assertEqual(int(job["exit_code"]), 2)

    def test_what_gpus_do_not_do_is_refused_in_one_line(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", *GPU)
            for name, refused in {"collective": {"collective": "{wire: bfloat16}"},
                                  "precision": {"precision": "float16",
                                                "parameter_server": "{colocated: true}"}}.items():
                job = cluster.run_job(synthetic_job(name=name, steps=30, **refused), "FAILED")
                self.assertIn(f"train.{name}", job["message"])
                self.assertNotIn("\n", job["message"].strip())
                self.assertEqual(int(job["exit_code"]), 2)


if __name__ == "__main__":
    report.main()
