"""Jobs whose parameters are held by parameter servers, with real processes: their results, and the cost of losing each kind of member."""

import json
import os
import pathlib
import re
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import unittest

from tests import report
from tests.integration.cluster import PATIENCE, Cluster, binary, generation_of, pids_of, pki, step_of, synthetic_job, tls_flags

ENDLESS = 10_000_000


def server_job(steps, servers="{servers: 2}", workers=(2, 2), **train):
    """A job whose model has several buckets, of which shards are made."""
    return synthetic_job(steps=steps, workers_min=workers[0], workers_max=workers[1], parameter_server=servers,
                         **{"bucket_bytes": 4096, **train})


def is_server(member):
    return member.get("role") == "ROLE_PARAMETER_SERVER"


def servers_of(job):
    return [member for member in job["members"] if is_server(member)]


def workers_of(job):
    return [member for member in job["members"] if not is_server(member)]


def call(port, directory, name, method):
    """Begins a call of `method` with the certificate `name`: HTTP/2 (RFC 9113) by hand, and nothing is read of the answer."""
    def frame(kind, flags, stream, payload=b""):
        return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload

    # Literal fields that are not indexed (RFC 7541, section 6.2.2).
    headers = b"".join(b"\0" + bytes((len(key),)) + key + bytes((len(value),)) + value for key, value in (
        (b":method", b"POST"), (b":scheme", b"https"), (b":path", method.encode()), (b":authority", b"localhost"),
        (b"content-type", b"application/grpc"), (b"te", b"trailers")))
    context = ssl.create_default_context(cafile=f"{directory}/ca.pem")
    context.load_cert_chain(f"{directory}/{name}.pem", f"{directory}/{name}.key")
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as plain, context.wrap_socket(plain, server_hostname="localhost") as tls:
        tls.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + frame(1, 4, 1, headers) + frame(0, 1, 1, bytes(5)))
        tls.recv(1 << 16)


class ParameterServerTest(unittest.TestCase):
    def start(self, cluster, *flags, workers=2, servers=2):
        cluster.start_coordinator(*flags)
        if servers:
            cluster.start_server("s", slots=servers)
        cluster.start_worker("w", slots=workers)
        cluster.await_workers(workers + servers)

    def await_later_generation(self, cluster, job_id, before):
        def later():
            job = cluster.job(job_id)
            return job if generation_of(job) > generation_of(before) and job["state"] == "JOB_STATE_RUNNING" else None
        return cluster.await_that("a later generation", later)

    def final_loss(self, cluster, text):
        return float(cluster.run_job(text)["figures"]["evaluation_loss"])

    def test_each_consistency_learns_what_an_all_reduce_learns(self):
        with Cluster() as cluster:
            self.start(cluster)
            first = self.final_loss(cluster, synthetic_job(steps=1, workers_min=2, workers_max=2))
            all_reduce = self.final_loss(cluster, synthetic_job(steps=120, workers_min=2, workers_max=2))
            bsp = self.final_loss(cluster, server_job(120, hash_every=1))
            self.assertAlmostEqual(bsp, all_reduce, delta=1e-3 * all_reduce)
            for servers in ("{servers: 2, consistency: ssp, staleness: 2}", "{servers: 1, consistency: async}",
                            "{colocated: true}", "{servers: 2, replicas: 1, deterministic: true}"):
                with self.subTest(servers):
                    loss = self.final_loss(cluster, server_job(120, servers, hash_every=20))
                    self.assertLess(loss, first - 0.8 * (first - all_reduce))

    def lose(self, cluster, servers, choose, workers=(1, 2), steps=ENDLESS, **train):
        """Kills the member that `choose` picks of a running job; returns the job's id, and the job before and after."""
        job_id = cluster.submit(server_job(steps, servers, workers, hash_every=1, **train))
        cluster.await_step(job_id, 20)
        before = cluster.job(job_id)
        victim = choose(before)
        os.kill(int(victim["pid"]), signal.SIGKILL)
        after = self.await_later_generation(cluster, job_id, before)
        self.assertEqual(after["verdict"]["worker"], victim["worker"])
        # No other process was touched.
        pids = pids_of(before)
        del pids[victim["worker"]]
        self.assertEqual(pids_of(after), pids)
        return job_id, before, after

    def go_on_without_a_loss(self, cluster, job_id, before, after):
        self.assertEqual(cluster.events(job_id, "job.rolled_back"), [])
        self.assertGreaterEqual(step_of(after), step_of(before))
        cluster.await_step(job_id, step_of(after) + 100)
        cluster.cancel(job_id)

    def test_the_loss_of_any_server_costs_no_step_where_there_are_copies(self):
        for index in (0, 1):
            with self.subTest(server=index), Cluster() as cluster:
                self.start(cluster)
                job_id, before, after = self.lose(cluster, "{servers: 2, replicas: 1}", lambda job: servers_of(job)[index])
                self.assertEqual(len(servers_of(after)), 1)
                self.go_on_without_a_loss(cluster, job_id, before, after)

    def test_lanes_change_nothing_but_the_speed(self):
        lanes = "{connections: 2}"
        with Cluster() as cluster:
            self.start(cluster)
            one = self.final_loss(cluster, server_job(60, hash_every=1))
            for servers in ("{servers: 2, replicas: 1}", "{colocated: true, replicas: 1}"):
                with self.subTest(servers):
                    two = self.final_loss(cluster, server_job(60, servers, hash_every=1, collective=lanes))
                    self.assertAlmostEqual(two, one, delta=1e-3 * one)
            job_id, before, after = self.lose(cluster, "{servers: 2, replicas: 1}", lambda job: servers_of(job)[0], collective=lanes)
            self.go_on_without_a_loss(cluster, job_id, before, after)

    def test_a_server_that_comes_back_takes_copies(self):
        with Cluster() as cluster:
            self.start(cluster)
            job_id, before, after = self.lose(cluster, "{servers: 2, replicas: 1}", lambda job: servers_of(job)[0])
            cluster.start_server("late")
            both = self.await_later_generation(cluster, job_id, after)
            self.assertEqual(len(servers_of(both)), 2)
            # Its copy is as good as the lost one's.
            other = next(member for member in servers_of(both) if member["worker"] != "late")
            cluster.await_step(job_id, step_of(both) + 20)
            before = cluster.job(job_id)
            os.kill(int(other["pid"]), signal.SIGKILL)
            after = self.await_later_generation(cluster, job_id, before)
            self.go_on_without_a_loss(cluster, job_id, before, after)

    def test_a_server_may_be_lost_while_another_takes_its_copies(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            # It dies as the third generation begins, in which it would give copies to the server that is new.
            cluster.start_server("giver", env={"RINGMASTER_FAIL_POINTS": "session.receive.start=crash@3"})
            cluster.await_workers(1)
            for count, server in ((2, "other"), (3, "first")):
                cluster.start_server(server)
                cluster.await_workers(count)
            cluster.start_worker("w")
            cluster.await_workers(4)
            job_id, before, after = self.lose(cluster, "{servers: 3, replicas: 1}",
                                              lambda job: next(member for member in servers_of(job) if member["worker"] == "first"))
            cluster.await_step(job_id, step_of(after) + 20)
            before = cluster.job(job_id)
            cluster.start_server("late")

            def lacks_giver():
                job = cluster.job(job_id)
                names = {member["worker"] for member in servers_of(job)}
                return job if job["state"] == "JOB_STATE_RUNNING" and names == {"other", "late"} else None
            after = cluster.await_that("the generation after the giver's loss", lacks_giver)
            self.go_on_without_a_loss(cluster, job_id, before, after)

    def test_without_copies_the_loss_of_a_server_sets_the_job_back_to_its_checkpoint(self):
        with Cluster() as cluster:
            # Nobody takes the name of the dead, so the coordinator would wait for it.
            self.start(cluster, "--state_wait=0s", servers=1)
            cluster.start_server("spare")
            cluster.await_workers(4)
            directory = cluster.directory / "checkpoints"
            job_id = cluster.submit(server_job(ENDLESS, "{servers: 1}", (1, 2),
                                               checkpoint=f"{{directory: {directory}, every_steps: 10}}"))
            cluster.await_event(job_id, "checkpoint.written")
            before = cluster.job(job_id)
            os.kill(int(servers_of(before)[0]["pid"]), signal.SIGKILL)
            after = self.await_later_generation(cluster, job_id, before)
            self.assertEqual([server["worker"] for server in servers_of(after)], ["spare"])
            self.assertTrue(cluster.await_event(job_id, "job.rolled_back"))
            loaded = cluster.await_event(job_id, "checkpoint.loaded")
            self.assertRegex(loaded[-1]["message"], r"starts from .*/step-")
            cluster.await_step(job_id, step_of(before) + 50)
            cluster.cancel(job_id)

    def test_a_checkpoint_has_what_the_servers_hold(self):
        with Cluster() as cluster:
            self.start(cluster)
            whole = cluster.run_job(server_job(60, "{servers: 2, deterministic: true}"))
            checkpoint = {"checkpoint": f"{{directory: {cluster.directory / 'c'}, every_steps: 30}}"}
            cluster.run_job(server_job(30, "{servers: 2, deterministic: true}", **checkpoint))
            resumed = cluster.run_job(server_job(60, "{servers: 1, deterministic: true}", **checkpoint))
            self.assertAlmostEqual(float(resumed["figures"]["evaluation_loss"]), float(whole["figures"]["evaluation_loss"]),
                                   places=4)

    def test_a_worker_that_dies_while_it_pushes_leaves_nothing_half_done(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_server("s", slots=2)
            cluster.start_worker("stays")
            cluster.start_worker("dies", env={"RINGMASTER_FAIL_POINTS": "train.bucket_ready=crash@41"})
            cluster.await_workers(4)
            job_id = cluster.submit(server_job(ENDLESS, "{servers: 2}", (1, 2), hash_every=1))
            cluster.await_event(job_id, "worker.lost")
            cluster.await_step(job_id, 100)
            job = cluster.job(job_id)
            self.assertEqual([member["worker"] for member in workers_of(job)], ["stays"])
            self.assertEqual(cluster.events(job_id, "job.rolled_back"), [])
            cluster.cancel(job_id)

    def test_workers_that_hold_shards_go_on_without_one_of_them(self):
        with Cluster() as cluster:
            self.start(cluster, workers=3, servers=0)
            job_id, before, after = self.lose(cluster, "{colocated: true, replicas: 1}", lambda job: job["members"][1],
                                              workers=(1, 3))
            self.go_on_without_a_loss(cluster, job_id, before, after)

    def leave(self, cluster, servers, leaver, workers=(2, 2)):
        """Ends the process `leaver`, one of a running job, politely; returns the job's id, and the job before and after."""
        job_id = cluster.submit(server_job(ENDLESS, servers, workers, hash_every=1))
        cluster.await_step(job_id, 20)
        before = cluster.job(job_id)
        leaver.signal(signal.SIGTERM)
        self.assertEqual(leaver.wait(), 143, leaver.output())
        def is_gone():
            job = cluster.job(job_id)
            is_member = any(member["worker"] == "leaves" for member in job["members"])
            return None if is_member or job["state"] != "JOB_STATE_RUNNING" else job
        after = cluster.await_that("a generation without it", is_gone)
        return job_id, before, after

    def test_a_server_that_leaves_hands_its_shards_over(self):
        for servers in ("{servers: 2}", "{servers: 2, replicas: 1}", "{servers: 2, consistency: ssp}"):
            with self.subTest(servers), Cluster() as cluster:
                cluster.start_coordinator()
                cluster.start_server("stays")
                leaver = cluster.start_server("leaves")
                cluster.start_worker("w", slots=2)
                cluster.await_workers(4)
                job_id, before, after = self.leave(cluster, servers, leaver)
                self.assertEqual([server["worker"] for server in servers_of(after)], ["stays"])
                self.assertTrue(cluster.await_event(job_id, "worker.relieved"))
                self.go_on_without_a_loss(cluster, job_id, before, after)

    def test_an_idle_server_relieves_the_only_one(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            leaver = cluster.start_server("leaves")
            cluster.start_worker("w", slots=2)
            cluster.await_workers(3)
            job_id = cluster.submit(server_job(ENDLESS, "{servers: 1}", hash_every=1))
            cluster.await_step(job_id, 20)
            cluster.cancel(job_id)
            cluster.start_server("relieves")
            cluster.await_workers(4)
            job_id, before, after = self.leave(cluster, "{servers: 1}", leaver)
            self.assertEqual([server["worker"] for server in servers_of(after)], ["relieves"])
            self.go_on_without_a_loss(cluster, job_id, before, after)

    def test_a_worker_that_leaves_hands_its_shards_over(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("w", slots=2)
            leaver = cluster.start_worker("leaves")
            cluster.await_workers(3)
            job_id, before, after = self.leave(cluster, "{colocated: true}", leaver, workers=(1, 3))
            self.assertEqual(len(after["members"]), 2)
            self.go_on_without_a_loss(cluster, job_id, before, after)

    def test_where_nobody_can_take_its_shards_a_server_waits_and_leaves_in_the_end(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            leaver = cluster.start_server("leaves", "--drain_timeout=2s")
            cluster.start_worker("w", slots=2)
            cluster.await_workers(3)
            job_id = cluster.submit(server_job(ENDLESS, "{servers: 1}", hash_every=1))
            cluster.await_step(job_id, 20)
            leaver.signal(signal.SIGTERM)
            cluster.await_output(leaver, "waits for a parameter server that takes over step ")
            self.assertEqual(leaver.wait(), 143)
            self.assertTrue(cluster.await_event(job_id, "worker.awaits_successor"))
            cluster.start_server("late")
            cluster.await_event(job_id, "job.rolled_back")
            cluster.await_step(job_id, 5)
            cluster.cancel(job_id)

    def test_where_nobody_can_take_its_shards_a_checkpoint_is_written(self):
        with tempfile.TemporaryDirectory() as checkpoints, Cluster() as cluster:
            cluster.start_coordinator()
            leaver = cluster.start_server("leaves")
            cluster.start_worker("w", slots=2)
            cluster.await_workers(3)
            job_id = cluster.submit(server_job(ENDLESS, "{servers: 1}", hash_every=1, checkpoint={
                "directory": checkpoints, "every_steps": ENDLESS}))
            cluster.await_step(job_id, 20)
            leaver.signal(signal.SIGTERM)
            self.assertEqual(leaver.wait(), 143)
            relieved = cluster.await_event(job_id, "worker.relieved")
            self.assertRegex(relieved[-1]["message"], r"the checkpoint of step \d+ is written")
            cluster.start_server("late")
            cluster.await_event(job_id, "job.resumes")
            cluster.await_event(job_id, "checkpoint.loaded")
            cluster.cancel(job_id)

    def test_what_cannot_be_is_told_in_one_line(self):
        with Cluster() as cluster:
            self.start(cluster, servers=0)
            path = cluster.directory / "job.yaml"
            for servers, more, message in (
                    ("{servers: 1, colocated: true}", {}, "colocated"),
                    ("{servers: 1, consistency: bsp, staleness: 3}", {}, "staleness"),
                    ("{servers: 1, replicas: 1}", {}, "replicas"),
                    ("{servers: 1}", {"collective": "{algorithm: ring}"}, "algorithm")):
                with self.subTest(servers):
                    path.write_text(server_job(10, servers, **more))
                    result = cluster.ringctl("submit", str(path))
                    self.assertEqual(result.returncode, 2, result.stderr)
                    self.assertIn(message, result.stderr)
                    self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
            # Only workers can know that the model has fewer buckets than there are shards.
            cluster.start_server("s", slots=3)
            cluster.await_workers(5)
            job = cluster.run_job(server_job(10, "{servers: 3}", bucket_bytes=1 << 30), "FAILED")
            self.assertRegex(json.dumps(job), r"train\.bucket_bytes")

    def test_wrong_flags_of_a_server_are_told_in_one_line(self):
        def run(*flags):
            return subprocess.run([binary("parameter_server"), *flags], capture_output=True, text=True, timeout=PATIENCE,
                                  stdin=subprocess.DEVNULL)
        for flags, message in (((), "--coordinator"), (("--coordinator=localhost:0",), "port 0"),
                               (("--coordinator=localhost:1", "--threads=2"), "--threads"),
                               (("--coordinator=localhost:1", "--listen=here"), "--listen")):
            result = run(*flags)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(message, result.stderr)
        self.assertIn("parameter_server", run("--help").stdout)

    def test_small_clients_are_served_where_listen_says(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            server = cluster.start_server("s", "--listen=127.0.0.1:0")
            address = cluster.await_that("the address", lambda: re.search(r"parameters\.served .*address=\"?127\.0\.0\.1:(\d+)",
                                                                          server.output()))
            port = int(address.group(1))
            socket.create_connection(("127.0.0.1", port), PATIENCE).close()
            second = cluster.start_server("t", f"--listen=127.0.0.1:{port}")
            self.assertEqual(second.wait(), 2, second.output())
            self.assertIn(f"--listen: cannot listen on 127.0.0.1:{port}", second.output())

    def test_small_clients_need_a_role_that_fits(self):
        with tempfile.TemporaryDirectory() as keys, Cluster() as cluster:
            pki("init", keys)
            pki("issue", keys, "coordinator", "head", "--hosts=127.0.0.1")
            pki("issue", keys, "server", "shards", "--hosts=localhost")
            pki("issue", keys, "viewer", "eve")
            cluster.flags = tls_flags(keys, "head")
            cluster.start_coordinator()
            cluster.flags = tls_flags(keys, "shards")
            server = cluster.start_server("s", "--listen=127.0.0.1:0")
            address = cluster.await_that("the address", lambda: re.search(r"parameters\.served .*127\.0\.0\.1:(\d+)", server.output()))
            call(int(address.group(1)), keys, "eve", "/ringmaster.v1.ParameterService/Push")
            cluster.await_that("the refusal", lambda: "access.refused method=/ringmaster.v1.ParameterService/Push "
                               'error="eve (viewer) may not call' in server.output())

    def test_ringctl_local_starts_the_servers_that_a_job_names(self):
        with Cluster() as cluster:
            path = cluster.directory / "job.yaml"
            path.write_text(server_job(20, "{servers: 2, replicas: 1}"))
            result = subprocess.run([binary("ringctl"), "local", f"--bin_dir={cluster.bin_dir()}",
                                     f"--run_dir={cluster.directory / 'run'}", str(path)],
                                    capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            logs = {log.name for log in pathlib.Path(cluster.directory / "run").glob("*.log")}
            self.assertEqual(logs, {"coordinator.log", "server-0.log", "server-1.log", "worker-0.log", "worker-1.log"})


if __name__ == "__main__":
    report.main()
