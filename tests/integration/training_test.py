"""Jobs that go well, with real processes: learning, equality over worker counts, queueing, several hosts."""

import json
import pathlib
import re
import signal
import ssl
import tempfile
import time
import unittest
import urllib.request

from tests import report
from tests.integration.cluster import Cluster, Hosts, generation_of, namespaces_unavailable, pids_of, pki, synthetic_job, tls_flags


class TrainingTest(unittest.TestCase):
    def test_four_workers_learn_and_agree(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            worker = cluster.start_worker("a", slots=4)
            job_id = cluster.submit(synthetic_job(steps=120, workers_min=4, workers_max=4, evaluate_every=40))
            job = cluster.await_job(job_id, "SUCCEEDED")
            self.assertEqual(int(job["figures"]["step"]), 120)
            # With 256 bytes, log(256) = 5.55 is the loss of a model that has learnt nothing.
            self.assertLess(job["figures"]["loss"], 4.5)
            self.assertLess(job["figures"]["evaluation_loss"], 4.5)
            self.assertRegex(job["parameters_hash"], r"^[0-9a-f]{16}$")
            self.assertEqual([int(m.get("rank", 0)) for m in job["members"]], [0, 1, 2, 3])
            # Ranks of one host all share memory.
            self.assertEqual(len(re.findall(r"mesh.connected.* shared_memory=3 unix=0 tcp=0", worker.output())), 4)

    def test_losses_do_not_depend_on_the_number_of_workers(self):
        finals = []
        for workers in (1, 2, 3):
            with Cluster() as cluster:
                cluster.start_coordinator()
                cluster.start_worker("a", slots=workers)
                job_id = cluster.submit(synthetic_job(steps=60, workers_min=workers, workers_max=workers))
                finals.append(cluster.await_job(job_id, "SUCCEEDED")["figures"]["evaluation_loss"])
        for loss in finals[1:]:
            self.assertAlmostEqual(loss, finals[0], delta=1e-3)

    def test_jobs_run_one_after_another(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            first = cluster.submit(synthetic_job("first", steps=30))
            second = cluster.submit(synthetic_job("second", steps=30))
            self.assertEqual(cluster.job(second)["state"], "JOB_STATE_QUEUED")
            cluster.start_worker("a")
            cluster.await_job(first, "SUCCEEDED")
            cluster.await_job(second, "SUCCEEDED")

    def test_min_workers_start_after_the_settle_time(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=2)
            job_id = cluster.submit(synthetic_job(steps=20, workers_min=2, workers_max=8))
            job = cluster.await_job(job_id, "SUCCEEDED")
            self.assertEqual(len(job["members"]), 2)

    def test_cancel_stops_at_an_agreed_step(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=2)
            job_id = cluster.submit(synthetic_job(steps=10_000_000, workers_min=2, workers_max=2))
            cluster.await_step(job_id, 5)
            self.assertEqual(cluster.ringctl("cancel", job_id).returncode, 0)
            job = cluster.await_job(job_id, "CANCELLED")
            self.assertGreaterEqual(int(job["figures"]["step"]), 5)
            again = cluster.submit(synthetic_job("again", steps=10, workers_min=2, workers_max=2))
            cluster.await_job(again, "SUCCEEDED")

    def test_workers_of_one_job_end_with_it(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            a, b = (cluster.start_worker(name, "--jobs=1") for name in "ab")
            job_id = cluster.submit(synthetic_job(steps=10_000_000, workers_min=1, workers_max=3))
            cluster.await_step(job_id, 5)
            # A worker that dies is replaced; the replacement ends with the job, too.
            b.signal(signal.SIGKILL)
            b.wait()
            c = cluster.start_worker("c", "--jobs=1", slots=2)
            cluster.await_that("c trains", lambda: len(pids_of(cluster.job(job_id))) == 3)
            cluster.cancel(job_id)
            self.assertEqual((a.wait(), c.wait()), (0, 0))
            self.assertIn("is over", a.output())
            cluster.await_workers(0)

            # The exit code is that of the failed job, or of the last of several.
            pool = cluster.start_worker("pool")
            two = cluster.start_worker("two", "--jobs=2")
            cluster.run_job(synthetic_job("good", steps=10, workers_min=2, workers_max=2))
            cluster.run_job(synthetic_job("bad", workers_min=2, workers_max=2, data=f"{{text: {{path: {cluster.directory}/nowhere}}}}"), "FAILED")
            self.assertEqual(two.wait(), 5)
            pool.signal(signal.SIGTERM)
            self.assertEqual(pool.wait(), 143)

    def test_trace_shows_reductions_inside_backward(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=2)
            job_id = cluster.submit(synthetic_job(steps=20, workers_min=2, workers_max=2, bucket_bytes=8192))
            cluster.await_job(job_id, "SUCCEEDED")
            result = cluster.ringctl("trace", job_id)
            self.assertEqual(result.returncode, 0, result.stderr)
            names = {event["name"] for event in json.loads(result.stdout)["traceEvents"]}
            self.assertLessEqual({"forward", "backward", "all_reduce", "commit", "optimizer"}, names)
            result = cluster.ringctl("trace", job_id, "--first_step=1000")
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertRegex(result.stderr, r"has no trace of step 1000 and later yet: its ranks hold steps \d+ to \d+\n$")

    def test_ipv6_alone_is_enough(self):
        with Cluster() as cluster:
            cluster.start_coordinator(listen="[::1]:0")
            cluster.start_worker("a", slots=2)
            job_id = cluster.submit(synthetic_job(steps=20, workers_min=2, workers_max=2))
            job = cluster.await_job(job_id, "SUCCEEDED")
            for member in job["members"]:
                self.assertTrue(member["data_address"].startswith("[::1]:"), member)

    def test_peers_use_an_advertised_address(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", "--advertise=127.0.0.2", "--data_listen=0.0.0.0:0", slots=2)
            job_id = cluster.submit(synthetic_job(steps=20, workers_min=2, workers_max=2))
            job = cluster.await_job(job_id, "SUCCEEDED")
            for member in job["members"]:
                self.assertTrue(member["data_address"].startswith("127.0.0.2:"), member)

    def test_everybody_has_a_role_of_their_own(self):
        with tempfile.TemporaryDirectory() as directory, Cluster() as cluster:
            pki("init", directory)
            pki("issue", directory, "coordinator", "head", "--hosts=127.0.0.1")
            for role, name in (("worker", "node"), ("submitter", "alice"), ("submitter", "bob"), ("operator", "olga"), ("viewer", "vera")):
                pki("issue", directory, role, name)
            cluster.flags = tls_flags(directory, "head")
            cluster.start_coordinator()
            cluster.flags = tls_flags(directory, "node")
            cluster.start_worker("a", slots=2)
            cluster.flags = tls_flags(directory, "alice")
            job_id = cluster.submit(synthetic_job(steps=20, workers_min=2, workers_max=2))
            self.assertEqual(cluster.await_job(job_id, "SUCCEEDED")["owner"], "alice")
            endless = cluster.submit(synthetic_job("endless", steps=10**6, workers_min=2, workers_max=2))
            cluster.await_that("it trains", lambda: cluster.job(endless)["state"] == "JOB_STATE_RUNNING")
            # Whoever has no role for it, no certificate, or no TLS, gets one line that says so and nothing else.
            cluster.flags = []
            refused = ((tls_flags(directory, "vera"), "vera (viewer) may not call"), (tls_flags(directory, "node"), "node (worker) may not call"),
                       (tls_flags(directory, "bob"), f"job {endless} is alice's"), (tls_flags(directory, "vera")[:1], ""), ([], ""))
            for flags, why in refused:
                result = cluster.ringctl(*flags, "--timeout=5s", "cancel", endless)
                self.assertNotEqual(result.returncode, 0)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                self.assertIn(why, result.stderr)
            cluster.flags = tls_flags(directory, "olga")
            self.assertEqual(cluster.ringctl("cancel", endless).returncode, 0)
            entries = json.loads(cluster.ringctl("-o", "json", "audit").stdout)["entries"]
            self.assertEqual([(entry["action"], entry["object"], entry["caller"]["name"]) for entry in entries],
                             [("cancel", endless, "olga"), ("submit", endless, "alice"), ("submit", job_id, "alice")])

    def test_a_renewed_certificate_is_used_while_a_job_trains(self):
        with tempfile.TemporaryDirectory() as directory, Cluster() as cluster:
            for arguments in (("init", directory), ("issue", directory, "coordinator", "head", "--hosts=127.0.0.1"),
                              ("issue", directory, "worker", "node"), ("issue", directory, "operator", "olga")):
                self.assertEqual(cluster.ringctl("pki", *arguments).returncode, 0)
            cluster.flags = tls_flags(directory, "head")
            coordinator = cluster.start_coordinator("--trust_domain=ringmaster.internal", "--metrics_listen=127.0.0.1:0")
            cluster.flags = tls_flags(directory, "node")
            worker = cluster.start_worker("a")
            cluster.flags = tls_flags(directory, "olga")
            job_id = cluster.submit(synthetic_job(steps=10**6))
            cluster.await_step(job_id, 1)
            host, port = cluster.address.rsplit(":", 1)

            def shown():
                return ssl.get_server_certificate((host, int(port)))

            first = shown()
            for name in ("head", "node"):
                self.assertEqual(cluster.ringctl("pki", "renew", directory, name).returncode, 0)
            cluster.await_that("the coordinator shows the new certificate", lambda: shown() != first)
            cluster.await_output(worker, "certificate.renewed")
            second = shown()
            pathlib.Path(directory, "head.pem").write_text(first[:500])
            cluster.await_output(coordinator, "certificate.refused")
            self.assertEqual(shown(), second)
            self.assertEqual(generation_of(cluster.job(job_id)), 1)
            # In 90 days, unless `ringctl pki` has another default.
            with urllib.request.urlopen(f"http://{cluster.metrics_address(coordinator)}/metrics", timeout=20) as answer:
                end = re.search(r'ringmaster_certificate_expiry_timestamp_seconds\{file="[^"]*head.pem",subject="CN=head[^"]*"\} (\S+)', answer.read().decode())[1]
            self.assertGreater(float(end), time.time() + 80 * 24 * 3600)
            self.assertRegex(cluster.ringctl("doctor").stdout, r"certificate +\S*olga.pem expires on \d{4}-\d\d-\d\d, in \d\d days")

    def test_an_authority_is_replaced_while_a_job_trains(self):
        with tempfile.TemporaryDirectory() as directory, Cluster() as cluster:
            keys = pathlib.Path(directory)
            old, new = keys / "old", keys / "new"
            for authority in (old, new):
                pki("init", authority)
                pki("issue", authority, "worker", "node")
            pki("issue", new, "coordinator", "head", "--hosts=127.0.0.1")
            pki("issue", new, "operator", "olga")

            def put(name, authority):
                for suffix in ("key", "pem"):
                    (keys / f"{name}.{suffix}").write_bytes((authority / f"{name}.{suffix}").read_bytes())
                    (keys / f"{name}.{suffix}").chmod(0o600)

            (keys / "ca.pem").write_text((old / "ca.pem").read_text() + (new / "ca.pem").read_text())
            put("head", new)
            put("olga", new)
            put("node", old)
            cluster.flags = tls_flags(keys, "head")
            coordinator = cluster.start_coordinator()
            cluster.flags = tls_flags(keys, "node")
            worker = cluster.start_worker("a")
            cluster.flags = tls_flags(keys, "olga")
            job_id = cluster.submit(synthetic_job(steps=10**6))
            cluster.await_step(job_id, 1)
            put("node", new)
            cluster.await_output(worker, "certificate.renewed")
            (keys / "ca.pem").write_bytes((new / "ca.pem").read_bytes())
            # Its session was opened by the old one's certificate, and is opened anew by its present one.
            cluster.await_output(coordinator, "access.ended")
            cluster.await_output(worker, "session.attached")
            # That costs a new generation and no step.
            cluster.await_output(coordinator, "job.resumed")
            self.assertNotIn("job.rolled_back", coordinator.output())

    @unittest.skipIf(namespaces_unavailable(), namespaces_unavailable())
    def test_three_hosts_train_one_model(self):
        with Hosts(3) as hosts, Cluster() as cluster:
            cluster.start_coordinator(host=hosts[0])
            workers = [cluster.start_worker(f"host{index}", slots=2 if index == 1 else 1, host=host)
                       for index, host in enumerate(hosts)]
            job_id = cluster.submit(synthetic_job(steps=60, workers_min=4, workers_max=4))
            job = cluster.await_job(job_id, "SUCCEEDED")
            addresses = [member["data_address"].rsplit(":", 1)[0] for member in job["members"]]
            self.assertEqual(set(addresses), {host.address for host in hosts})
            # Ranks of one host are neighbours.
            first = addresses.index(hosts[1].address)
            self.assertEqual(addresses[first + 1], hosts[1].address)
            self.assertEqual(int(job["members"][first + 1]["local_rank"]), 1)
            self.assertRegex(workers[0].output(), r"mesh.connected.* shared_memory=0 unix=0 tcp=3")
            self.assertRegex(workers[1].output(), r"mesh.connected.* shared_memory=1 unix=0 tcp=2")


if __name__ == "__main__":
    report.main()
