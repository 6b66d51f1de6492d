"""What those see who watch over real programs: metrics while a job runs and after a worker was killed, and wrong addresses."""

import re
import signal
import subprocess
import sys
import unittest
import urllib.request

from tests import report
from tests.integration.cluster import Cluster, binary, synthetic_job

FLAGS = ("--metrics_listen=127.0.0.1:0", "--health_listen=127.0.0.1:0")


class Watched:
    """A program's metrics."""

    def __init__(self, cluster, process):
        cluster.await_output(process, "--metrics_listen")
        cluster.await_output(process, "--health_listen")
        self.address = re.search(r"monitoring\.listening.*metrics_listen.*address=(\S+)", process.output())[1]

    def read(self):
        """{"name{labels}": value}."""
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=20) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, value in
                (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))}


class MonitoringTest(unittest.TestCase):
    def test_metrics_tell_of_a_job_and_of_a_fault(self):
        with Cluster() as cluster:
            coordinator = Watched(cluster, cluster.start_coordinator(*FLAGS))
            idle = coordinator.read()
            self.assertEqual(idle["ringmaster_coordinator_up"], 1)
            self.assertEqual(idle['ringmaster_workers{role="WORKER",state="IDLE"}'], 0)

            process = cluster.start_worker("a", *FLAGS)
            victim = cluster.start_worker("b")
            worker = Watched(cluster, process)
            cluster.await_workers(2)
            cluster.await_that("the worker is attached", lambda: worker.read()["ringmaster_attached"] == 1)
            job = cluster.submit(synthetic_job(steps=100000, workers_max=2))
            cluster.await_step(job, 5)
            run = f'{{run="{job}"}}'
            metrics = coordinator.read()
            self.assertEqual(metrics[f"ringmaster_world_size{run}"], 2)
            self.assertGreaterEqual(metrics[f"ringmaster_step{run}"], 5)
            self.assertGreater(metrics[f"ringmaster_loss{run}"], 0)
            self.assertEqual(metrics[f'ringmaster_run_state{{run="{job}",state="RUNNING"}}'], 1)
            own = worker.read()
            self.assertGreaterEqual(own["ringmaster_rank_applied_step"], 5)
            self.assertGreater(own["ringmaster_rank_generation"], 0)
            self.assertGreater(own["ringmaster_rank_sent_bytes_total"], 0)

            victim.signal(signal.SIGKILL)
            def recovered():
                metrics = coordinator.read()
                return metrics if metrics.get('ringmaster_recovery_duration_seconds_count{phase="total"}') == 1 else None
            metrics = cluster.await_that("the recovery is counted", recovered)
            # Its stream broke, or its peer was faster to say so.
            faults = [value for name, value in metrics.items() if name.startswith("ringmaster_faults_total")]
            self.assertEqual(faults, [1])
            self.assertEqual(metrics["ringmaster_lost_steps_total"], 0)
            self.assertEqual(metrics[f"ringmaster_world_size{run}"], 1)

            cluster.cancel(job)
            metrics = coordinator.read()
            self.assertEqual(metrics[f'ringmaster_run_state{{run="{job}",state="CANCELLED"}}'], 1)
            # A worker tells of itself while the coordinator is away.
            cluster.processes[0].signal(signal.SIGKILL)
            cluster.await_that("the worker is alone", lambda: worker.read()["ringmaster_attached"] == 0)

    def test_wrong_addresses_are_refused(self):
        for program, flags in [("worker", ["--coordinator=127.0.0.1:1"]), ("parameter_server", ["--coordinator=127.0.0.1:1"])]:
            for flag in ("--metrics_listen", "--health_listen"):
                for address in ("nowhere", "192.0.2.1:9464"):
                    with self.subTest(program=program, flag=flag, address=address):
                        result = subprocess.run([binary(program), *flags, f"{flag}={address}", "--log_level=error"],
                                                capture_output=True, text=True, timeout=60)
                        self.assertEqual(result.returncode, 2, result.stderr)
                        error = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
                        self.assertEqual(len(error), 1, result.stderr)
                        self.assertIn(f"{flag}: ", error[0])


if __name__ == "__main__":
    sys.exit(report.main())
