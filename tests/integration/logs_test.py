"""`ringctl logs` on real programs: a job's members, one that was killed, the coordinator, and a job that is followed."""

import os
import re
import signal
import unittest

from tests import report
from tests.integration.cluster import Cluster, binary, pids_of, synthetic_job

LINE = re.compile(r"(?P<worker>\S+) +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d [DIWE] (?P<event>[\w.]+)")


class LogsTest(unittest.TestCase):
    def events_by_worker(self, text):
        events = {}
        for line in text.splitlines():
            match = LINE.match(line)
            self.assertIsNotNone(match, line)
            events.setdefault(match["worker"], []).append(match["event"])
        return events

    def test_logs_of_a_job_with_a_member_that_was_killed(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("w0")
            cluster.start_worker("w1", f"--log_file={cluster.directory}/w1.log")
            cluster.start_worker("w2", "--log_format=json")
            cluster.start_server("s0")
            cluster.await_workers(4)
            job_id = cluster.submit(synthetic_job(
                steps=100000, workers_min=2, workers_max=3, parameter_server="{servers: 1, deterministic: true}",
                emulate_compute="{forward: 1ms, backward: 1ms}"))
            cluster.await_step(job_id, 3)

            result = cluster.ringctl("logs", job_id)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stderr, "")
            events = self.events_by_worker(result.stdout)
            self.assertEqual(set(events), {"w0", "w1", "w2", "s0"})
            for worker in events:
                self.assertIn("session.joined", events[worker])
            times = [re.search(r"\d{4}-\S+", line)[0] for line in result.stdout.splitlines()]
            self.assertEqual(times, sorted(times))

            one = self.events_by_worker(cluster.ringctl("logs", job_id, "--tail=1").stdout)
            self.assertEqual({worker: len(lines) for worker, lines in one.items()}, {"w0": 1, "w1": 1, "w2": 1, "s0": 1})

            os.kill(pids_of(cluster.job(job_id))["w1"], signal.SIGKILL)
            cluster.await_that("w1 is gone", lambda: "w1" not in {worker["name"] for worker in cluster.workers()})
            gone = cluster.ringctl("logs", "w1")
            self.assertEqual(gone.returncode, 2, gone.stdout)
            self.assertRegex(gone.stderr, rf"^error: worker w1 is gone: .*; its log file: \S+:{cluster.directory}/w1.log\n$")

            own = cluster.query("logs", "coordinator", "--severity=warning")
            lines = own["logs"][0]["page"]["lines"]
            self.assertIn("worker.lost", [line["event"] for line in lines])
            self.assertEqual({line["severity"] for line in lines}, {"LOG_SEVERITY_WARNING"})

            nobody = cluster.ringctl("logs", "nobody")
            self.assertEqual((nobody.returncode, nobody.stderr), (2, "error: there is no worker and no job nobody\n"))

    def test_a_worker_that_hangs_is_named_in_time(self):
        with Cluster() as cluster:
            cluster.start_coordinator(budget="60s")
            cluster.start_worker("w0")
            stopped = cluster.start_worker("w1")
            cluster.await_workers(2)
            job_id = cluster.submit(synthetic_job(steps=100000, workers_min=2, workers_max=2,
                                                  emulate_compute="{forward: 1ms, backward: 1ms}"))
            cluster.await_step(job_id, 3)
            stopped.signal(signal.SIGSTOP)
            try:
                result = cluster.ringctl("logs", job_id)
            finally:
                stopped.signal(signal.SIGCONT)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(result.stderr, "note: w1 did not answer within 2s\n")
            self.assertEqual(set(self.events_by_worker(result.stdout)), {"w0"})

    def test_a_job_is_followed_to_its_end(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("w0")
            cluster.await_workers(1)
            job_id = cluster.submit(synthetic_job(steps=100000, emulate_compute="{forward: 1ms, backward: 1ms}"))
            cluster.await_step(job_id, 3)
            follower = cluster.spawn("ringctl", [binary("ringctl"), f"--coordinator={cluster.address}", "logs", job_id, "--follow"])
            cluster.await_output(follower, "session.joined")
            cluster.cancel(job_id)
            self.assertEqual(follower.wait(), 0)
            events = self.events_by_worker(follower.output())["w0"]
            self.assertIn("job.stopping", events)
            self.assertEqual(events.count("session.joined"), 1, "a line came twice")

    def test_log_files_are_rotated_by_size_and_by_others(self):
        with Cluster() as cluster:
            log = cluster.directory / "coordinator.log"
            full = "full\n" * 300000
            log.write_text(full)
            coordinator = cluster.start_coordinator(f"--log_file={log}", "--log_max_mb=1", "--log_max_files=2")
            rotated = cluster.directory / "coordinator.log.1"
            self.assertEqual(rotated.read_text(), full)
            self.assertIn("coordinator.listening", log.read_text())

            # As logrotate does it.
            old = cluster.directory / "coordinator.log.old"
            log.rename(old)
            coordinator.signal(signal.SIGHUP)
            cluster.await_that("the file is there again", log.exists)
            cluster.start_worker("w0")
            cluster.await_workers(1)
            cluster.await_that("it goes on in the new file", lambda: "worker.joined" in log.read_text())
            self.assertNotIn("worker.joined", old.read_text())
            # Together they have all that stderr has.
            cluster.await_that("no line is lost", lambda: old.read_text() + log.read_text() == coordinator.output())

if __name__ == "__main__":
    report.main()
