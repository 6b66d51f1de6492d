"""deploy/slurm/train.sbatch on a real Slurm of one node, with the programs of the bundle.

Needs root and Debian's slurmctld and slurmd; `tests/run.sh --full` runs it. Slurm's daemons live in a directory of the test's, on
ports of their own, without munge.
"""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from tests import report
from tests.integration.cluster import PATIENCE, ROOTS, full_tools_unavailable, synthetic_job

SCRIPT = "deploy/slurm/train.sbatch"
NODE = socket.gethostname()
CONFIGURATION = """
ClusterName=test
SlurmctldHost={node}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName={node} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Slurm:
    """A cluster of one node, this machine."""

    def __init__(self, directory):
        self.directory = directory
        for name in ("state", "spool"):
            (directory / name).mkdir()
        configuration = directory / "slurm.conf"
        configuration.write_text(CONFIGURATION.format(
            node=NODE, directory=directory, controller_port=free_port(), node_port=free_port()))
        self.environment = {**os.environ, **ROOTS, "SLURM_CONF": str(configuration)}
        self.daemons = [subprocess.Popen([shutil.which(name, path="/usr/sbin:/sbin"), "-D"], env=self.environment,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                        for name in ("slurmctld", "slurmd")]

    def await_idle(self):
        self.await_that("the node is idle", lambda: "idle" in self.ask("sinfo", "--noheader", "--format=%t", check=False))

    def stop(self):
        # Processes of a job outlive the daemons.
        self.ask("scancel", "--user=root", check=False)
        self.await_that("no job is left", lambda: not self.ask("squeue", "--noheader", check=False).strip())
        for daemon in self.daemons:
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def ask(self, *argv, check=True):
        result = subprocess.run(argv, env=self.environment, capture_output=True, text=True, timeout=PATIENCE)
        if check and result.returncode != 0:
            raise AssertionError(f"{argv}: {result.stderr}")
        return result.stdout

    def await_that(self, what, condition):
        deadline = time.monotonic() + PATIENCE
        while not (result := condition()):
            if time.monotonic() > deadline:
                logs = "".join(path.read_text()[-3000:] for path in self.directory.glob("slurm*.log"))
                raise AssertionError(f"not within {PATIENCE} s: {what}; {self.ask('squeue', '--long', check=False)}{logs}")
            time.sleep(0.1)
        return result


class Batch:
    """A job of Slurm."""

    def __init__(self, slurm, *arguments, home):
        self.slurm = slurm
        self.log = slurm.directory / f"batch-{time.monotonic_ns()}.log"
        slurm.environment["RINGMASTER_HOME"] = str(home)
        self.id = slurm.ask("sbatch", "--parsable", "--nodes=1", "--cpus-per-task=2", f"--output={self.log}",
                            SCRIPT, *map(str, arguments)).strip()

    def output(self):
        return self.log.read_text() if self.log.exists() else ""

    def await_output(self, pattern):
        return self.slurm.await_that(f"{pattern} in {self.output()}", lambda: re.search(pattern, self.output()))

    def shown(self):
        return self.slurm.ask("scontrol", "--oneliner", "show", "job", self.id)

    def await_end(self):
        """(state, exit code)."""
        def ended():
            found = re.search(r"JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL) .*? ExitCode=(\d+):(\d+)", self.shown())
            return found and (found[1], int(found[2]))
        return self.slurm.await_that(f"the end of {self.id}: {self.output()}", ended)

    def await_queued_again(self, times):
        self.slurm.await_that(f"{self.id} is queued again, {times}: {self.output()}",
                              lambda: re.search(rf"JobState=PENDING .*? Restarts={times} ", self.shown()))

    def start_again(self):
        """Starts it in two seconds instead of Slurm's two minutes; not at once, since the credential of the second in which it ended is revoked."""
        self.slurm.ask("scontrol", "update", f"jobid={self.id}", "StartTime=now+2")


class SlurmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = full_tools_unavailable("slurmctld", "slurmd")
        if why:
            raise unittest.SkipTest(why)
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="ringmaster-slurm-"))
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        subprocess.run(["tar", "-xzf", "deploy/ringmaster.tar.gz", "-C", str(cls.directory)], check=True)
        cls.home = cls.directory / "ringmaster"
        cls.slurm = Slurm(cls.directory)
        cls.addClassCleanup(cls.slurm.stop)
        cls.slurm.await_idle()

    def batch(self, *arguments, home=None):
        return Batch(self.slurm, *arguments, home=home or self.home)

    def bundle_with(self, program, script):
        """A bundle with a shell script in a program's place."""
        home = self.directory / f"bundle-{time.monotonic_ns()}"
        shutil.copytree(self.home, home)
        (home / "bin" / program).write_text(f"#!/bin/sh\n{script}\n")
        return home

    def job_file(self, workers_max=2, **train):
        path = self.directory / f"job-{time.monotonic_ns()}.yaml"
        path.write_text(synthetic_job(workers_min=1, workers_max=workers_max, **train))
        return path

    def test_trains_and_starts_a_dead_worker_again(self):
        batch = self.batch(self.job_file(steps=30_000))
        batch.await_output(r"job\.assigned.*rank \d of 2")
        os.kill(int(re.search(r"worker\.started .*pid=(\d+)", batch.output())[1]), signal.SIGKILL)
        batch.await_output(r"worker\.ended(.|\n)*rank \d of 2")
        self.assertEqual(batch.await_end(), ("COMPLETED", 0), batch.output())
        self.assertRegex(batch.output(), "SUCCEEDED|succeeded")

    def test_ends_with_its_job_though_a_worker_had_no_part_in_it(self):
        batch = self.batch(self.job_file(steps=100, workers_max=1))
        self.assertEqual(batch.await_end(), ("COMPLETED", 0), batch.output())

    def test_stops_at_a_step_when_its_time_is_over(self):
        checkpoints = self.directory / "checkpoints"
        batch = self.batch(self.job_file(steps=10_000_000, checkpoint=f"{{directory: {checkpoints}}}"))
        batch.await_output(r"\bstep [1-9]")
        self.slurm.ask("scancel", "--signal=TERM", "--batch", batch.id)
        self.assertEqual(batch.await_end(), ("FAILED", 143), batch.output())
        self.assertTrue(list(checkpoints.glob("step-*")), batch.output())

    def test_ends_with_the_exit_code_of_what_must_be_corrected(self):
        for arguments, code, text in [((self.directory / "none.yaml",), 2, "none.yaml"),
                                      ((self.job_file(steps=-1),), 2, "steps"),
                                      ((), 2, "no job file"),
                                      ((self.job_file(data="{text: {path: /nowhere}}"),), 2, "--allow_read"),
                                      ((self.job_file(data=f"{{text: {{path: {self.directory}/nowhere}}}}"),), 5, "/nowhere")]:
            with self.subTest(arguments=arguments):
                batch = self.batch(*arguments)
                self.assertEqual(batch.await_end(), ("FAILED", code), batch.output())
                self.assertIn(text, batch.output())

    def test_ends_when_no_worker_can_run(self):
        batch = self.batch(self.job_file(), home=self.bundle_with("worker", "exit 2"))
        self.assertEqual(batch.await_end(), ("FAILED", 2), batch.output())

    def test_is_queued_again_where_another_host_may_do(self):
        # The activations take some terabytes.
        job = self.job_file(global_batch=1 << 24)
        job.write_text(job.read_text().replace("hidden_dim: 32, hidden_layers: 1", "hidden_dim: 4096, hidden_layers: 64"))
        batch = self.batch(job)
        batch.await_queued_again(times=1)
        self.slurm.ask("scancel", batch.id)
        self.assertIn("does not fit in memory", batch.output())
        self.assertIn("attempt 1 of 4 ends with 138: to be queued again", batch.output())
        self.assertNotIn("no coordinator listens", batch.output())

    def test_goes_on_from_its_checkpoint_when_it_was_queued_again(self):
        checkpoints = self.directory / "continued"
        worker = self.home / "bin" / "worker"
        home = self.bundle_with("worker", f"""
            [ -z "$SLURM_RESTART_COUNT" ] || exec {worker} "$@"
            {worker} "$@" &
            until ls {checkpoints} | grep -q '^step-[0-9]*$'; do sleep 0.1; done
            kill $!
            wait
            exit 138""")
        checkpoints.mkdir()
        batch = self.batch(self.job_file(steps=30_000, checkpoint=f"{{directory: {checkpoints}, every_steps: 1000}}"), home=home)
        batch.await_queued_again(times=1)
        self.assertNotIn("checkpoint.loaded", batch.output())
        batch.start_again()
        self.assertEqual(batch.await_end(), ("COMPLETED", 0), batch.output())
        self.assertIn("checkpoint.loaded", batch.output())

    def test_is_queued_again_three_times_at_most(self):
        batch = self.batch(self.job_file(), home=self.bundle_with("coordinator", "exit 138"))
        for times in (1, 2, 3):
            batch.await_queued_again(times)
            batch.start_again()
        self.assertEqual(batch.await_end(), ("FAILED", 138), batch.output())

    def test_is_not_queued_again_when_it_was_cancelled(self):
        batch = self.batch(self.job_file(steps=10_000_000))
        batch.await_output(r"\bstep [1-9]")
        self.slurm.ask("scancel", batch.id)
        self.assertEqual(batch.await_end()[0], "CANCELLED", batch.output())
        self.assertIn(" Restarts=0 ", batch.shown())


if __name__ == "__main__":
    sys.exit(report.main())
