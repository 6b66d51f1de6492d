"""`ringctl doctor` with the real programs: its findings on this host, on a coordinator that runs and on one that does not."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from tests import report
from tests.integration.cluster import PATIENCE, Cluster, binary, mount_namespaces_unavailable, processes_of_group, synthetic_job

USAGE = 2
UNREADABLE = 5
RETRY = 138
STOPPED = 143


def doctor(*flags, prefix=(), coordinator=None):
    """Its exit code, and its findings by check."""
    address = [f"--coordinator={coordinator}"] if coordinator else []
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RINGMASTER_COORDINATOR")}
    result = subprocess.run([*prefix, binary("ringctl"), "doctor", "--output=json", "--timeout=20s", *address, *flags],
                            capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, env=environment)
    assert result.stdout, result.stderr
    return result.returncode, {finding["check"]: finding for finding in json.loads(result.stdout)["findings"]}


class DoctorTest(unittest.TestCase):
    def expect(self, finding, level, *words):
        self.assertEqual(finding["level"], level, finding)
        for word in words:
            self.assertIn(word, finding["what"])
        if level != "ok":
            self.assertTrue(finding["why"] and finding["remedy"], finding)

    def test_this_machine_alone(self):
        code, findings = doctor()
        self.assertEqual(code, 0, findings)
        self.expect(findings["coordinator"], "ok", "this machine alone")
        for check in ("program coordinator", "program worker", "cores", "memory", "shared memory", "CUDA", "host name"):
            self.assertIn(check, findings)
        self.assertNotIn("round trip", findings)

    def test_the_bundles_programs_are_found_and_of_one_release(self):
        with Cluster() as cluster:
            code, findings = doctor(f"--bin_dir={cluster.bin_dir()}")
            self.assertEqual(code, 0, findings)
            for name in ("parameter_server", "worker"):
                self.expect(findings[f"program {name}"], "ok", str(cluster.bin_dir() / name))

    def test_a_coordinator_that_answers(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("w")
            cluster.await_workers(1)
            code, findings = doctor(coordinator=cluster.address)
            self.assertEqual(code, 0, findings)
            self.expect(findings["coordinator"], "ok", cluster.address, "in clear text", "1 worker")
            self.expect(findings["coordinator's version"], "ok")
            self.expect(findings["round trip"], "ok")
            self.expect(findings["clock"], "ok", "clocks need not agree")
            self.expect(findings["route"], "ok", "by lo")

    def test_the_table_says_the_same(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            result = cluster.ringctl("doctor")
            self.assertEqual(result.returncode, 0, result.stderr)
            lines = result.stdout.splitlines()
            self.assertTrue(any(line.startswith("ok ") and f"answers at {cluster.address}" in line for line in lines), lines)
            self.assertRegex(lines[-1], r"^0 failures, \d+ warnings?, \d+ ok$")
            self.assertNotIn("\x1b", result.stdout)

    def test_nobody_listens(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{unused.getsockname()[1]}"
            code, findings = doctor(coordinator=address)
        self.assertEqual(code, RETRY)
        self.expect(findings["coordinator"], "failure", f"no coordinator listens at {address}")

    def test_a_name_that_does_not_resolve(self):
        code, findings = doctor("--insecure", coordinator="no-such-host.invalid:29400")
        self.assertEqual(code, RETRY)
        self.expect(findings["coordinator's name"], "failure", "no-such-host.invalid has no address")
        self.assertEqual(findings["coordinator"]["level"], "failure")

    def test_clear_text_to_another_machine_must_be_asked_for(self):
        code, findings = doctor(coordinator="192.0.2.1:29400")
        self.assertEqual(code, USAGE)
        self.expect(findings["coordinator"], "failure", "--insecure")

    def test_ports_in_use(self):
        with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
            port = server.getsockname()[1]
            code, findings = doctor(f"--data_ports={port}-{port}")
            self.assertEqual(code, RETRY)
            self.expect(findings["data ports"], "failure", "0 of 1 free", "in use")

    def test_gpus_that_are_wanted_and_not_to_be_had(self):
        code, findings = doctor("--device=cuda")
        if all(finding["level"] != "failure" for finding in findings.values()):
            self.skipTest("this host and this build have all that GPUs need")
        self.assertEqual(code, USAGE)

    def test_directories(self):
        with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
            code, findings = doctor(f"--state_dir={directory}/state", "--checkpoint=/proc/nothing")
            self.assertEqual(code, USAGE)
            self.assertNotEqual(findings["--state_dir"]["level"], "failure", findings)
            self.assertIn("not there yet", findings["--state_dir"]["what"])
            self.expect(findings["--checkpoint"], "failure", "/proc")
            self.assertEqual(list(pathlib.Path(directory).iterdir()), [])

    def job(self, cluster, **train):
        path = cluster.directory / "job.yaml"
        path.write_text(synthetic_job(workers_min=2, workers_max=3, **train))
        return str(path)

    def test_a_job_that_this_host_can_train(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("w", slots=2)
            cluster.await_workers(2)
            code, findings = doctor(self.job(cluster), f"--bin_dir={cluster.bin_dir()}", "--slots=2",
                                    f"--set=train.checkpoint.directory={cluster.directory}/checkpoints",
                                    coordinator=cluster.address)
            self.assertEqual(code, 0, findings)
            self.expect(findings["job's data"], "ok", "samples to train on")
            self.expect(findings["job's memory"], "ok", "a rank needs", "moments", "2 ranks share")
            self.assertIn("fsync takes", findings["job's checkpoints"]["what"])
            self.expect(findings["job's workers"], "ok", "the pool has 2 workers; the job takes 2 to 3")
            self.expect(findings["workers' ports"], "ok", "2 of 2 connect from here")

    def test_a_job_that_it_cannot(self):
        with Cluster() as cluster:
            code, findings = doctor(self.job(cluster), f"--bin_dir={cluster.bin_dir()}", "--slots=4096",
                                    "--set=train.data.text.path=/nowhere", "--set=train.checkpoint.directory=/proc/nothing")
            self.assertEqual(code, USAGE)
            self.expect(findings["job's data"], "failure", "/nowhere")
            self.assertEqual(findings["job's data"]["exit_code"], UNREADABLE)
            self.expect(findings["job's checkpoints"], "failure", "/proc")
            self.expect(findings["job's cores"], "warning", "4096 workers of 1 thread on")

    def test_a_job_file_that_is_wrong(self):
        with Cluster() as cluster:
            for flags, words in [(["--set=train.steps=-1"], "train.steps"), (["--peers=node"], "--peers")]:
                result = subprocess.run([binary("ringctl"), "doctor", self.job(cluster), *flags], capture_output=True, text=True,
                                        timeout=PATIENCE)
                self.assertEqual(result.returncode, USAGE, result.stderr)
                self.assertIn(words, result.stderr)
        result = subprocess.run([binary("ringctl"), "doctor", "--set=train.steps=1"], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(result.returncode, USAGE, result.stderr)
        self.assertIn("name one: ringctl doctor JOB_FILE", result.stderr)

    def test_peers(self):
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as unused, \
             socket.create_server(("127.0.0.1", 0), backlog=0) as silent, contextlib.ExitStack() as fillers:
            unused.bind(("127.0.0.1", 0))
            # Once its queue is full, nobody is answered, as behind a firewall that drops.
            for _ in range(4):
                filler = fillers.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex(silent.getsockname())
            addresses = [f"127.0.0.1:{end.getsockname()[1]}" for end in (server, unused, silent)]
            code, findings = doctor("--timeout=2s", f"--peers={','.join(addresses)}")
        self.assertEqual(code, RETRY, findings)
        self.expect(findings[f"peer {addresses[0]}"], "ok", "connects")
        self.expect(findings[f"peer {addresses[1]}"], "warning", "refused")
        self.expect(findings[f"peer {addresses[2]}"], "failure", "no connection within")

    @unittest.skipIf(mount_namespaces_unavailable(), mount_namespaces_unavailable())
    def test_a_full_dev_shm_matters_to_gpus_alone(self):
        script = ("mount -t tmpfs -o size=640k none /dev/shm && head -c 600k /dev/zero >/dev/shm/full && exec \"$0\" \"$@\"")
        prefix = ["unshare", "--mount", "sh", "-c", script]
        code, findings = doctor(prefix=prefix)
        self.assertEqual(code, 0, findings)
        self.expect(findings["/dev/shm"], "ok", "No space left on device", "only NCCL uses it")
        code, findings = doctor("--device=cuda", prefix=prefix)
        self.assertEqual(code, USAGE)
        self.expect(findings["/dev/shm"], "failure", "No space left on device")

    def silent_name_server(self):
        """Returns the prefix of a command whose name server never answers."""
        if mount_namespaces_unavailable():
            self.skipTest(mount_namespaces_unavailable())
        # Datagrams go to a socket that nobody reads; the resolver would wait for half a minute.
        silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(silent.close)
        try:
            silent.bind(("127.9.9.9", 53))
        except PermissionError as error:
            self.skipTest(f"cannot be a name server here: {error}")
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        configuration = pathlib.Path(directory.name) / "resolv.conf"
        configuration.write_text("nameserver 127.9.9.9\noptions timeout:30 attempts:1\n")
        return ["unshare", "--mount", "sh", "-c", f"mount --bind {configuration} /etc/resolv.conf && exec \"$0\" \"$@\""]

    def test_a_name_server_that_does_not_answer_is_given_up(self):
        prefix = self.silent_name_server()
        start = time.monotonic()
        code, findings = doctor("--insecure", "--timeout=1s", coordinator="head.example:29400", prefix=prefix)
        self.assertLess(time.monotonic() - start, 20)
        self.assertEqual(code, RETRY)
        self.expect(findings["coordinator's name"], "failure", "no answer within 1s")
        # Others have theirs.
        self.expect(findings["TCP"], "ok")

    def test_a_signal_ends_it_and_all_that_it_waits_for(self):
        process = subprocess.Popen(
            [*self.silent_name_server(), binary("ringctl"), "doctor", "--insecure", "--timeout=10m",
             "--coordinator=head.example:29400"], stdout=subprocess.DEVNULL, process_group=0)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + PATIENCE
        comm = pathlib.Path(f"/proc/{process.pid}/comm")
        while comm.read_text() != "ringctl\n" or len(processes_of_group(process.pid)) < 2:  # itself, and who looks
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(PATIENCE), STOPPED)
        while processes_of_group(process.pid):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_a_flag_that_is_malformed(self):
        for flag, words in [("--data_ports=5", "--data_ports"), ("--coordinator=nowhere", "--coordinator=nowhere"),
                            ("--device=tpu", "tpu")]:
            result = subprocess.run([binary("ringctl"), "doctor", flag], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(result.returncode, USAGE, result.stderr)
            self.assertIn(words, result.stderr)


if __name__ == "__main__":
    report.main()
