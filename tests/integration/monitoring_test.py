"""Monitoring of real programs: by Prometheus, while a job runs and after a worker was killed, and by systemd."""

import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest
import urllib.request

from tests import report
from tests.integration.cluster import PATIENCE, Cluster, binary, synthetic_job

FLAGS = ("--metrics_listen=127.0.0.1:0", "--health_listen=127.0.0.1:0")


class Watched:
    """A program's metrics."""

    def __init__(self, cluster, process):
        cluster.await_output(process, "--health_listen")
        self.address = cluster.metrics_address(process)

    def read(self):
        """{"name{labels}": value}."""
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=20) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, value in
                (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))}


class ServiceManager:
    """systemd's end of sd_notify."""

    def __init__(self, directory):
        self.path = f"{directory}/notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.environment = {"NOTIFY_SOCKET": self.path, "WATCHDOG_USEC": "300000"}

    def forget(self):
        """Reads all messages that have come, so that there is room for more."""
        self.socket.setblocking(False)
        try:
            while True:
                self.socket.recv(4096)
        except BlockingIOError:
            pass

    def await_message(self, beginning):
        """Reads up to the first message that begins like that; returns it."""
        deadline = time.monotonic() + PATIENCE
        last = "nothing"
        while (left := deadline - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                last = self.socket.recv(4096).decode()
            except TimeoutError:
                break
            if last.startswith(beginning):
                return last
        raise AssertionError(f"{beginning} did not come within {PATIENCE} s; the last message was {last}")

    def await_silence(self, seconds):
        """Reads until nothing has come for that time."""
        deadline = time.monotonic() + PATIENCE
        self.socket.settimeout(seconds)
        while time.monotonic() < deadline:
            try:
                last = self.socket.recv(4096).decode()
            except TimeoutError:
                return
        raise AssertionError(f"messages come on for {PATIENCE} s; the last one is {last}")


class ServiceManagerTest(unittest.TestCase):
    def watch(self, cluster, start, status):
        """Starts a program, follows it through its life, and ends it."""
        directory = cluster.directory / status.split()[0]
        directory.mkdir()
        manager = ServiceManager(directory)
        process = start(manager.environment)
        self.assertIn(f"STATUS={status}", manager.await_message("READY=1"))
        manager.await_message("WATCHDOG=1")
        # A process counts as alive if it answers: a stopped one does not.
        process.signal(signal.SIGSTOP)
        manager.await_silence(2)
        process.signal(signal.SIGCONT)
        manager.await_message("WATCHDOG=1")
        return manager, process

    def test_programs_are_ready_alive_and_stopping(self):
        with Cluster() as cluster:
            coordinator = self.watch(cluster, lambda environment: cluster.start_coordinator(env=environment),
                                     "listens on 127.0.0.1:")
            worker = self.watch(cluster, lambda environment: cluster.start_worker("a", env=environment),
                                "works for coordinator 127.0.0.1:")
            slots = self.watch(cluster, lambda environment: cluster.start_worker("b", slots=2, env=environment),
                               "watches over 2 slots")
            cluster.await_workers(3)
            slots[1].signal(signal.SIGTERM)
            self.assertEqual(slots[1].wait(), 143)
            for manager, process in (worker, coordinator):
                manager.forget()
                process.signal(signal.SIGTERM)
                manager.await_message("STOPPING=1")
                self.assertEqual(process.wait(), 143)

    def test_units_are_valid_and_name_flags_that_exist(self):
        for unit in sorted(pathlib.Path("deploy/systemd").glob("*.service")):
            with self.subTest(unit=unit.name):
                program, flags = re.search(r"(?m)^ExecStart=/opt/ringmaster/bin/(\w+) (.*)$", unit.read_text()).groups()
                help_text = subprocess.run([binary(program), "--help"], capture_output=True, text=True, check=True).stdout
                shown = flags + " " + re.search(r"RINGMASTER_FLAGS=(.*)", unit.read_text())[1]
                for flag in re.findall(r"--[a-z_]+", shown):
                    self.assertIn(flag, help_text)
                # The coordinator's key and state are not for jobs.
                self.assertEqual(re.search(r"(?m)^User=(.*)$", unit.read_text())[1],
                                 "ringmaster" if program == "coordinator" else "ringmaster-worker")
                self.assertIn("\nProtectSystem=strict\nProtectHome=yes\n",
                              re.sub(r"(ReadWritePaths|CacheDirectory|LogsDirectory)=.*\n|# For .*\n", "", unit.read_text()))
                for directory in re.findall(r"--allow_write=(\S+)", shown):
                    self.assertIn(f"\nReadWritePaths=-{directory}\n", unit.read_text())
                if shutil.which("systemd-analyze") is None:
                    self.skipTest("systemd-analyze is not installed")
                with Cluster() as cluster:
                    copy = cluster.directory / unit.name
                    copy.write_text(unit.read_text().replace(f"/opt/ringmaster/bin/{program}", binary(program)))
                    result = subprocess.run(["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True)
                    self.assertEqual((result.returncode, result.stderr), (0, ""))


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
            self.assertGreaterEqual(own["ringmaster_steps_total"], 5)
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
            # A worker reports its own metrics while the coordinator is away.
            cluster.processes[0].signal(signal.SIGKILL)
            cluster.await_that("the worker is alone", lambda: worker.read()["ringmaster_attached"] == 0)

    def test_wrong_addresses_are_refused(self):
        flags = ["--coordinator=127.0.0.1:1", "--log_level=error"]
        for program in ("worker", "parameter_server"):
            for flag in ("--metrics_listen", "--health_listen"):
                for address in ("nowhere", "192.0.2.1:9464"):
                    with self.subTest(program=program, flag=flag, address=address):
                        self.expect_refused([binary(program), *flags, f"{flag}={address}"], flag)
            # One line, not one for each slot.
            for flag in ("--metrics_listen=nowhere", "--health_listen=127.0.0.1:65535"):
                with self.subTest(program=program, flag=flag):
                    self.expect_refused([binary(program), *flags, "--slots=2", flag], flag.split("=")[0])

    def expect_refused(self, argv, flag):
        result = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 2, result.stderr)
        error = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(error), 1, result.stderr)
        self.assertIn(f"{flag}: ", error[0])


if __name__ == "__main__":
    sys.exit(report.main())
