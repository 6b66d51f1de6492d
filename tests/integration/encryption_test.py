"""The data plane encrypted: jobs come to the same parameters, what is on the wire says so, and programs whose settings do not
meet are refused with one line."""

import collections
import contextlib
import re
import signal
import socket
import subprocess
import threading
import unittest

from tests import report
from tests.integration.cluster import Cluster, binary, generation_of, step_of, synthetic_job

ENDLESS = 10_000_000
USAGE = 2
ALL_PROTOCOLS = 0x0003
SO_RCVBUFFORCE = 33  # socket(7)
CRC32C = 1
AES_256_GCM = 2


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


class LoopbackSpy:
    """Keeps the TCP payloads on loopback, by the port that they come from or go to."""

    # Of what has arrived and was not read yet; the kernel drops the rest.
    BUFFER = 256 << 20

    def __init__(self):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, self.BUFFER)
        self.socket.bind(("lo", 0))
        self.socket.settimeout(0.1)
        self.payloads = collections.defaultdict(list)
        self.is_over = False
        self.thread = threading.Thread(target=self.keep)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.is_over = True
        self.thread.join()
        self.socket.close()

    def keep(self):
        while not self.is_over:
            try:
                packet = self.socket.recv(1 << 16)[14:]
            except socket.timeout:
                continue
            if packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
                continue
            segment = packet[4 * (packet[0] & 15):]
            payload = segment[4 * (segment[12] >> 4):]
            for port in {int.from_bytes(segment[0:2], "big"), int.from_bytes(segment[2:4], "big")}:
                self.payloads[port].append(payload)

    def integrities(self, ports):
        """The integrities of frames whose headers were seen whole."""
        return {payload[match.start() + 59] for port in ports for payload in self.payloads[port]
                for match in re.finditer(rb"RMRF\x02\x00", payload) if match.start() + 64 <= len(payload)}


def may_spy():
    try:
        LoopbackSpy().socket.close()
    except PermissionError:
        return False
    return True


class EncryptionTest(unittest.TestCase):
    def train(self, setting, integrity, servers=0, **train):
        """The hash of the parameters that three workers on TCP come to; checks that all frames seen have that integrity."""
        with contextlib.ExitStack() as stack:
            spy = stack.enter_context(LoopbackSpy()) if may_spy() else None
            cluster = stack.enter_context(Cluster())
            flag = f"--data_encryption={setting}"
            cluster.start_coordinator(flag)
            for index in range(3):
                cluster.start_worker(f"w{index}", flag)
            for index in range(servers):
                cluster.start_server(f"s{index}", flag)
            cluster.await_workers(3 + servers)
            status = cluster.query("status")
            self.assertEqual(status["coordinator"]["requires_encryption"], setting == "required")
            self.assertEqual("data encryption: required" in cluster.ringctl("status").stdout, setting == "required")
            job = cluster.run_job(synthetic_job(workers_min=3, workers_max=3, collective="{transport: tcp}", **train))
            if spy:
                for role in {worker["role"] for worker in status["workers"]}:
                    ports = [int(worker["data_address"].rsplit(":", 1)[1]) for worker in status["workers"] if worker["role"] == role]
                    self.assertEqual(spy.integrities(ports), {integrity}, role)
            return job["parameters_hash"]

    def test_workers_come_to_the_same_parameters(self):
        self.assertEqual(self.train("required", AES_256_GCM), self.train("off", CRC32C))

    def test_with_parameter_servers_and_their_copies_too(self):
        servers = {"servers": 2, "parameter_server": "{servers: 2, replicas: 1, deterministic: true}", "bucket_bytes": 4096}
        self.assertEqual(self.train("required", AES_256_GCM, **servers), self.train("off", CRC32C, **servers))

    def test_programs_whose_settings_do_not_meet_are_refused(self):
        for required in (True, False):
            with self.subTest(required=required), Cluster() as cluster:
                own, other = ("required", "off") if required else ("off", "required")
                cluster.start_coordinator(f"--data_encryption={own}")
                good = [cluster.start_worker(f"w{index}", f"--data_encryption={own}") for index in range(2)]
                cluster.await_workers(2)
                for odd in (cluster.start_worker("odd", f"--data_encryption={other}"),
                            cluster.start_server("odd-server", f"--data_encryption={other}")):
                    self.assertEqual(odd.wait(), USAGE, odd.output())
                    lines = [line for line in odd.output().splitlines() if "--data_encryption" in line]
                    self.assertEqual(len(lines), 1, odd.output())
                    self.assertIn(f"runs with --data_encryption={other}, this coordinator with --data_encryption={own}", lines[0])
                # The others do not mind.
                cluster.run_job(synthetic_job(workers_min=2, workers_max=2))
                self.assertTrue(all(worker.popen.poll() is None for worker in good))

    def test_a_coordinator_that_is_restarted_with_the_other_setting_costs_nothing(self):
        with Cluster() as cluster:
            coordinator = cluster.start_coordinator("--data_encryption=off", budget="60s")
            workers = [cluster.start_worker(f"w{index}") for index in range(2)]
            cluster.await_workers(2)
            job = cluster.submit(synthetic_job(workers_min=2, workers_max=2, steps=ENDLESS))
            cluster.await_step(job, 10)
            for setting in ("required", "off"):
                coordinator.signal(signal.SIGKILL)
                coordinator.wait()
                coordinator = cluster.start_coordinator(f"--data_encryption={setting}", listen=cluster.address, budget="60s")
                for worker in workers if setting == "required" else ():
                    cluster.await_output(worker, "session.encryption_mismatch")
                if setting == "required":
                    cluster.await_output(coordinator, "session.refused")
            for worker in workers:
                cluster.await_output(worker, "(restarted) again")
                lines = [line for line in worker.output().splitlines() if "--data_encryption" in line]
                self.assertEqual(len(lines), 1, worker.output())
                self.assertIn("runs with --data_encryption=off, this coordinator with --data_encryption=required", lines[0])
            step = step_of(cluster.job(job))
            cluster.await_step(job, step + 10)
            self.assertEqual(generation_of(cluster.job(job)), 1)

    def test_a_coordinator_that_others_reach_needs_tls_for_the_secret(self):
        result = run(binary("coordinator"), "--listen=0.0.0.0:0", "--insecure", "--data_encryption=required")
        self.assertEqual(result.returncode, USAGE, result.stderr)
        self.assertIn("--data_encryption=required needs TLS", result.stderr)
        result = run(binary("worker"), "--coordinator=192.0.2.1:29400", "--insecure", "--data_encryption=required")
        self.assertEqual(result.returncode, USAGE, result.stderr)
        self.assertIn("--data_encryption=required needs TLS", result.stderr)


if __name__ == "__main__":
    report.main()
