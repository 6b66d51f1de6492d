"""Health of a real coordinator is true: out of descriptors, flooded by strangers, with a disk that hangs and a core that hangs."""

import resource
import socket
import sys
import unittest
import urllib.error
import urllib.request

from tests import report
from tests.integration.cluster import Cluster, step_of, synthetic_job

METRICS = "--metrics_listen=127.0.0.1:0"


class Coordinator:
    def __init__(self, cluster, **options):
        self.cluster = cluster
        self.process = cluster.start_coordinator(METRICS, **options)
        self.http = cluster.metrics_address(self.process)

    def probe(self, path):
        """(status, text) of a probe."""
        try:
            with urllib.request.urlopen(f"http://{self.http}{path}", timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name):
        page = self.probe("/metrics")[1]
        return next(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(name))

    def await_probe(self, path, status, text):
        self.cluster.await_that(f"{path}: {status} {text}", lambda: (found := self.probe(path))[0] == status and text in found[1])

    def allow_descriptors(self, count):
        _, most = resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (count, most))

    def connect(self):
        """A stranger's connection, which says nothing."""
        host, port = self.cluster.address.rsplit(":", 1)
        return socket.create_connection((host, int(port)), timeout=60)

    def is_alive_and_ready(self):
        return self.probe("/healthz") == (200, "ok\n") and self.probe("/readyz") == (200, "ok\n")


class HealthTest(unittest.TestCase):
    def await_progress(self, cluster, job):
        cluster.await_step(job, step_of(cluster.job(job)) + 5)

    def test_strangers_keep_nobody_away(self):
        with Cluster() as cluster:
            coordinator = Coordinator(cluster)
            coordinator.allow_descriptors(128)
            cluster.start_worker("a")
            cluster.await_workers(1)
            job = cluster.submit(synthetic_job(steps=1000000))
            cluster.await_step(job, 5)
            strangers = [coordinator.connect() for _ in range(400)]
            try:
                # Its session and its journal go on, users are served, and a worker joins.
                self.await_progress(cluster, job)
                cluster.submit(synthetic_job("next"))
                cluster.start_worker("b")
                cluster.await_workers(2)
                self.assertTrue(coordinator.is_alive_and_ready())
                self.assertGreater(coordinator.metric("ringmaster_coordinator_connections_dropped_total"), 300)
                self.assertLessEqual(coordinator.metric('ringmaster_coordinator_connections{kind="other"}'), 20)
                self.assertEqual(coordinator.metric('ringmaster_coordinator_connections{kind="session"}'), 2)
                cluster.await_output(coordinator.process, "server.connections_dropped")
                self.assertLess(coordinator.process.output().count("server.connections_dropped"), 10)
            finally:
                for stranger in strangers:
                    stranger.close()
            cluster.await_that("strangers are forgotten",
                               lambda: coordinator.metric('ringmaster_coordinator_connections{kind="other"}') < 5)
            self.await_progress(cluster, job)

    def test_it_accepts_again_when_descriptors_are_free(self):
        with Cluster() as cluster:
            coordinator = Coordinator(cluster)
            cluster.start_worker("a")
            cluster.await_workers(1)
            job = cluster.submit(synthetic_job(steps=1000000))
            cluster.await_step(job, 5)
            before = step_of(cluster.job(job))
            # Fewer than it has open now.
            coordinator.allow_descriptors(8)
            with coordinator.connect():
                cluster.await_output(coordinator.process, "server.cannot_accept")
            self.assertIn("Too many open files", coordinator.process.output())
            coordinator.allow_descriptors(1024)
            cluster.await_workers(1)
            cluster.await_step(job, before + 5)
            self.assertEqual(len(cluster.events(job, "job.halting")), 0)
            self.assertTrue(coordinator.is_alive_and_ready())

    def test_a_stranger_that_says_nothing_is_closed(self):
        with Cluster() as cluster:
            coordinator = Coordinator(cluster)
            with coordinator.connect() as stranger:
                while stranger.recv(4096):  # the server's own part of the handshake
                    pass

    def test_a_hung_disk_is_not_ready_and_is_named(self):
        with Cluster() as cluster:
            coordinator = Coordinator(cluster, env={"RINGMASTER_FAIL_POINTS": "journal.append=hang"})
            coordinator.await_probe("/readyz", 200, "ok")
            cluster.start_worker("a")
            cluster.await_workers(1)
            path = cluster.directory / "job.yaml"
            path.write_text(synthetic_job())
            # Answered only once the job is durable.
            self.assertNotEqual(cluster.ringctl("submit", "--timeout=1s", str(path)).returncode, 0)
            coordinator.await_probe("/readyz", 503, f"journal {cluster.directory / 'state'}/journal.sqlite3: a decision has waited")
            self.assertEqual(coordinator.probe("/healthz"), (200, "ok\n"))
            cluster.await_output(coordinator.process, "monitoring.health")
            # Everything else goes on.
            cluster.start_worker("b")
            cluster.await_workers(2)

    def test_a_core_that_hangs_is_not_alive(self):
        with Cluster() as cluster:
            coordinator = Coordinator(cluster, env={"RINGMASTER_FAIL_POINTS": "coordinator.send.welcome=hang"})
            coordinator.await_probe("/healthz", 200, "ok")
            cluster.start_worker("a")
            coordinator.await_probe("/healthz", 503, "the coordinator's thread has not answered for 5s")
            coordinator.await_probe("/readyz", 503, "the coordinator's thread has not answered for 5s")


if __name__ == "__main__":
    sys.exit(report.main())
