"""Users' mistakes, with the real binaries: one clear line, an exit code, nothing lost, no hang."""

import pathlib
import random
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

from tests import report
from tests.integration.cluster import Cluster, ROOTS, binary, mount_namespaces_unavailable, processes_of_group, synthetic_job

USAGE = 2
MISMATCH = 3
UNREADABLE = 5
RETRY = 138
STOPPED = 143


def run(*argv, timeout=60):
    return subprocess.run(argv, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)


class BadInputTest(unittest.TestCase):
    def expect_line(self, result, code, *words):
        """Expects exactly one line of error, with `words` in it."""
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(len(lines), 1, result.stderr)
        for word in words:
            self.assertIn(word, lines[0])

    def test_unknown_flags(self):
        for name in ("coordinator", "worker", "ringctl"):
            self.expect_line(run(binary(name), "--no_such_flag"), USAGE, "--no_such_flag")

    def test_help_and_version(self):
        for name in ("coordinator", "worker", "ringctl"):
            self.assertIn("ringmaster", run(binary(name), "--version").stdout)
            text = run(binary(name), "--help")
            self.assertEqual(text.returncode, 0)
            self.assertGreater(len(text.stdout.splitlines()), 15)

    def test_flags_parse_with_dashes_too(self):
        with Cluster() as cluster:
            coordinator = cluster.start_coordinator("--log-level=warning")
            self.assertEqual(coordinator.output(), "")

    def test_unknown_job_field(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            path = cluster.directory / "bad.yaml"
            path.write_text(synthetic_job().replace("  steps:", "  stepz:"))
            self.expect_line(cluster.ringctl("submit", str(path)), USAGE, "bad.yaml:", "stepz", "steps")
            path.write_text(synthetic_job(steps=0))
            self.expect_line(cluster.ringctl("submit", str(path)), USAGE, "train.steps")
            path.write_text("name: [unclosed")
            self.expect_line(cluster.ringctl("submit", str(path)), USAGE, "bad.yaml")
            self.expect_line(cluster.ringctl("submit", "/no/such.yaml"), USAGE, "/no/such.yaml")
            self.expect_line(cluster.ringctl("job", "no-such-job"), USAGE, "no-such-job")

    def test_coordinator_that_is_not_there(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            refused = f"127.0.0.1:{unused.getsockname()[1]}"
            self.expect_line(run(binary("ringctl"), f"--coordinator={refused}", "status"), RETRY, refused)
            result = run(binary("worker"), f"--coordinator={refused}", "--name=w", "--coordinator_timeout=1s")
            self.assertEqual(result.returncode, RETRY, result.stderr)
            self.assertIn(refused, result.stderr)

    def test_coordinator_that_does_not_resolve(self):
        self.expect_line(run(binary("ringctl"), "--insecure", "--coordinator=no-such-host.invalid:29400", "status"),
                         RETRY, "no-such-host.invalid")
        result = run(binary("worker"), "--insecure", "--coordinator=no-such-host.invalid:29400", "--name=w",
                     "--coordinator_timeout=1s")
        self.assertEqual(result.returncode, RETRY, result.stderr)
        self.assertIn("no-such-host.invalid", result.stderr)

    def test_coordinator_that_is_another_service(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            def answer():
                while True:
                    try:
                        connection, _ = server.accept()
                    except OSError:
                        return
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
                    connection.close()
            threading.Thread(target=answer, daemon=True).start()
            address = f"127.0.0.1:{server.getsockname()[1]}"
            result = run(binary("ringctl"), f"--coordinator={address}", "--timeout=3s", "status")
            self.expect_line(result, result.returncode, address)
            self.assertIn(result.returncode, (USAGE, RETRY))
            result = run(binary("worker"), f"--coordinator={address}", "--name=w", "--coordinator_timeout=1s")
            self.assertIn(result.returncode, (USAGE, RETRY), result.stderr)
            self.assertIn(address, result.stderr)

    def test_insecure_beyond_loopback_must_be_asked_for(self):
        self.expect_line(run(binary("ringctl"), "--coordinator=192.0.2.1:29400", "status"), USAGE, "--insecure")
        self.expect_line(run(binary("coordinator"), "--listen=0.0.0.0:0"), USAGE, "--insecure")

    def test_a_name_in_use_is_refused_and_its_holder_named(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            holder = cluster.start_worker("twin")
            cluster.await_workers(1)
            holder_pid = cluster.workers()[0]["pid"]
            second = cluster.start_worker("twin")
            self.assertEqual(second.wait(), USAGE)
            self.assertIn("twin", second.output())
            self.assertIn(f"pid {holder_pid}", second.output())
            # Once the holder is gone, its name is free at once.
            holder.kill_group()
            cluster.start_worker("twin")
            cluster.await_that("the successor", lambda: [w for w in cluster.workers() if w["pid"] != holder_pid])

    def test_port_taken(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            result = run(binary("coordinator"), f"--listen={cluster.address}", f"--state_dir={cluster.directory}/other")
            self.expect_line(result, USAGE, cluster.address)

    def test_state_directory_in_use(self):
        with Cluster() as cluster:
            coordinator = cluster.start_coordinator()
            result = run(binary("coordinator"), "--listen=127.0.0.1:0", f"--state_dir={cluster.directory}/state")
            self.expect_line(result, USAGE, f"{cluster.directory}/state", str(coordinator.pid))

    def test_state_directory_that_cannot_be_made(self):
        self.expect_line(run(binary("coordinator"), "--listen=127.0.0.1:0", "--state_dir=/proc/nothing"), USAGE,
                         "/proc/nothing")

    def run_job_on_data(self, data, code, *words):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=2)
            job_id = cluster.submit(synthetic_job(workers_min=2, workers_max=2, data=data))
            job = cluster.await_job(job_id, "FAILED")
            self.assertEqual(int(job["exit_code"]), code, job)
            for word in words:
                self.assertIn(word, job["message"])
            # The pool is unchanged.
            again = cluster.submit(synthetic_job("again", steps=10, workers_min=2, workers_max=2))
            cluster.await_job(again, "SUCCEEDED")

    def test_data_path_that_is_missing(self):
        path = f"{tempfile.gettempdir()}/no/such/data"
        self.run_job_on_data(f"{{text: {{path: {path}}}}}", UNREADABLE, path)

    def test_data_path_that_is_empty(self):
        with Cluster() as scratch:
            (scratch.directory / "empty").mkdir()
            path = str(scratch.directory / "empty")
            self.run_job_on_data(f"{{text: {{path: {path}}}}}", UNREADABLE, path)

    @unittest.skipIf(mount_namespaces_unavailable(), mount_namespaces_unavailable())
    def test_data_that_differs_between_two_hosts(self):
        with Cluster() as cluster:
            shared, other = cluster.directory / "data", cluster.directory / "other"
            for directory, text in ((shared, b"what the first host has " * 99), (other, b"what the second host has " * 99)):
                directory.mkdir()
                (directory / "text").write_bytes(text)
            cluster.start_coordinator()
            cluster.start_worker("first")
            # A mount namespace shows the second worker other contents under the same path.
            cluster.spawn("worker-second", [
                "unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', str(other), str(shared),
                binary("worker"), f"--coordinator={cluster.address}", "--name=second"], env=ROOTS)
            job_id = cluster.submit(synthetic_job(workers_min=2, workers_max=2, data=f"{{text: {{path: {shared}}}}}"))
            job = cluster.await_job(job_id, "FAILED")
            self.assertEqual(int(job["exit_code"]), MISMATCH)
            for word in ("first", "second", "data", f"{shared}/text, {99 * 24} bytes", f"{shared}/text, {99 * 25} bytes"):
                self.assertIn(word, job["message"])

    def test_garbage_on_every_port_does_no_harm(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", slots=2)
            job_id = cluster.submit(synthetic_job(steps=10_000_000, workers_min=2, workers_max=2))
            cluster.await_step(job_id, 3)
            job = cluster.job(job_id)
            generation = job["generation"]
            ports = [cluster.address] + [member["data_address"] for member in job["members"]]
            noise = random.Random(1)
            for address in ports:
                host, port = address.rsplit(":", 1)
                for payload in (b"", noise.randbytes(10_000), b"\xff" * 100_000, b"GET / HTTP/1.1\r\n\r\n"):
                    with socket.create_connection((host, int(port)), timeout=10) as connection:
                        try:
                            connection.sendall(payload)
                        except OSError:
                            pass  # refused half-way: as it should be
            step = int(cluster.job(job_id)["figures"]["step"])
            cluster.await_step(job_id, step + 20)
            self.assertEqual(cluster.job(job_id)["generation"], generation)
            cluster.cancel(job_id)

    def test_sigint_stops_each_program(self):
        with Cluster() as cluster:
            coordinator = cluster.start_coordinator()
            idle = cluster.start_worker("idle")
            cluster.await_workers(1)
            job_id = cluster.submit(synthetic_job("waiting", workers_min=5, workers_max=5))
            watch = cluster.spawn("watch", [binary("ringctl"), f"--coordinator={cluster.address}", "watch", job_id])
            cluster.await_output(watch, "waiting")
            watch.signal(signal.SIGINT)
            self.assertEqual(watch.wait(), STOPPED)
            idle.signal(signal.SIGINT)
            self.assertEqual(idle.wait(), STOPPED)
            coordinator.signal(signal.SIGINT)
            self.assertEqual(coordinator.wait(), STOPPED)

    def test_sigint_before_the_coordinator_is_there(self):
        with Cluster() as cluster, socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            worker = cluster.start_worker("early", address=f"127.0.0.1:{unused.getsockname()[1]}")
            cluster.await_output(worker, "127.0.0.1")
            worker.signal(signal.SIGINT)
            self.assertEqual(worker.wait(), STOPPED)

    def local(self, cluster, yaml_text, *flags):
        path = pathlib.Path(cluster.directory) / "local.yaml"
        path.write_text(yaml_text)
        bin_dir = cluster.bin_dir()
        return cluster.spawn("local", [str(bin_dir / "ringctl"), "local", "-n", "2", f"--bin_dir={bin_dir}",
                                       f"--run_dir={cluster.directory}/run", *flags, str(path)])

    def test_local_trains_without_any_set_up(self):
        with Cluster() as cluster:
            local = self.local(cluster, synthetic_job(steps=50, workers_min=2, workers_max=2))
            self.assertEqual(local.wait(), 0, local.output())
            self.assertIn("50/50", local.output())

    def test_sigint_ends_a_local_run_and_its_processes(self):
        with Cluster() as cluster:
            local = self.local(cluster, synthetic_job(steps=10_000_000, workers_min=2, workers_max=2))
            cluster.await_output(local, "step ")
            local.signal(signal.SIGINT)
            self.assertEqual(local.wait(), STOPPED, local.output())
            self.assertEqual(processes_of_group(local.pid), [])

    def test_local_run_with_unreadable_data_ends_with_its_exit_code(self):
        with Cluster() as cluster:
            local = self.local(cluster, synthetic_job(data="{text: {path: /no/such/data}}"))
            self.assertEqual(local.wait(), UNREADABLE, local.output())
            self.assertIn("/no/such/data", local.output())


if __name__ == "__main__":
    report.main()
