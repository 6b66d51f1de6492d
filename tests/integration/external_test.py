"""Jobs that run commands, as torchrun does: `external` in a job's file, and `ringctl run`."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import textwrap
import time
import unittest

from tests import report
from tests.integration.cluster import PATIENCE, Cluster, Process, binary, synthetic_job

PYTHON = "/usr/bin/python3"
STOPPED = 143
USAGE = 2

SHOW = """
import os, sys
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "on", os.environ["MASTER_ADDR"], "restart",
      os.environ["TORCHELASTIC_RESTART_COUNT"], "args", sys.argv[1:])
print("to stderr", file=sys.stderr)
"""

BOOM = """
import os, time
def step():
    raise ValueError("boom")
if os.environ["RANK"] == "1":
    step()
time.sleep(600)
"""

# Runs until there is a file `done`; says how often it was started, in a file that is whole once it is there.
LONG = """
import os, pathlib, time
rank, count = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
part = pathlib.Path(f"part-{rank}")
part.write_text(str(os.getpid()))
part.rename(f"began-{rank}-{count}")
while not pathlib.Path("done").exists():
    time.sleep(0.02)
print("restart count", count)
"""

# Saves on SIGTERM, for which rank 1 takes a while; says whether it begins anew.
SAVER = """
import os, pathlib, signal, sys, time
rank = os.environ["RANK"]
saved = pathlib.Path(f"saved-{rank}")
def save(*_):
    time.sleep(2 if rank == "1" else 0)
    saved.write_text("half")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
pathlib.Path(f"began-{rank}-{'anew' if saved.exists() else 'first'}").write_text("")
while not pathlib.Path("done").exists():
    time.sleep(0.02)
"""


class ExternalTest(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ringmaster-external-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)

    def script(self, text, name="train.py"):
        path = self.directory / name
        path.write_text(textwrap.dedent(text))
        return path

    def job(self, script, ranks=2, **external):
        external = {"command": [PYTHON, str(script)], "working_directory": str(self.directory), **external}
        job = {"name": "words", "workers": {"min": ranks, "max": ranks, "settle": "300ms"}, "external": external}
        return json.dumps(job).replace('"300ms"', "300ms")  # a duration, not a text

    def run_here(self, *arguments, timeout=PATIENCE):
        """`ringctl run` on this machine."""
        return subprocess.run([binary("ringctl"), "run", *self.places(), *map(str, arguments)], capture_output=True, text=True,
                              timeout=timeout, stdin=subprocess.DEVNULL, cwd=self.directory)

    def places(self):
        bin_dir = self.directory / "bin"
        if not bin_dir.exists():
            bin_dir.mkdir()
            for name in ("coordinator", "worker"):
                (bin_dir / name).symlink_to(binary(name))
        return [f"--bin_dir={bin_dir}", f"--run_dir={self.directory / 'logs'}"]

    def await_files(self, *names):
        deadline = time.monotonic() + PATIENCE
        while not all((self.directory / name).exists() for name in names):
            self.assertLess(time.monotonic(), deadline, f"{names} are not there")
            time.sleep(0.02)

    def gone(self, pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except OSError:
            return True

    # ---- ringctl run

    def test_runs_a_script_on_every_rank(self):
        result = self.run_here("-n", 2, PYTHON, self.script(SHOW), "--epochs", 3, "-n", 5)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(result.stdout.splitlines()),
                         [f"[{rank}] rank {rank} of 2 on 127.0.0.1 restart 0 args ['--epochs', '3', '-n', '5']" for rank in (0, 1)])
        for rank in (0, 1):
            self.assertIn(f"[{rank}] to stderr\n", result.stderr)

    def test_a_failure_names_rank_code_and_last_words(self):
        result = self.run_here("-n", 2, PYTHON, self.script(BOOM))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("[1] ValueError: boom\n", result.stderr)
        last = result.stderr.splitlines()[-1]
        self.assertIn("rank 1 ended with exit code 1: ValueError: boom (File ", last)
        self.assertIn("line 4, in step)", last)

    def test_the_exit_code_is_that_of_the_command(self):
        result = self.run_here("-n", 2, "--", "sh", "-c", "[ $RANK = 0 ] || exit 7; sleep 600")
        self.assertEqual(result.returncode, 7, result.stderr)
        result = self.run_here("sh", "-c", "kill -9 $$")
        self.assertEqual(result.returncode, 128 + 9, result.stderr)
        self.assertIn("was killed by signal 9 (Killed)", result.stderr.splitlines()[-1])

    def test_restarts_after_a_failure_where_it_may(self):
        result = self.run_here("-n", 2, "--max_restarts=1", "--env=GREETING=hello", "sh", "-c",
                               "echo $GREETING $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 1 ]")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("[1] hello 1\n", result.stdout)

    def test_wrong_input_is_one_line(self):
        (self.directory / "plain").write_text("text")
        for arguments, line, code in [
                ([], "COMMAND", USAGE),
                (["-n", 0, "true"], "--ranks", USAGE),
                (["--env=odd", "true"], "--env", USAGE),
                (["--name=No", "true"], "name must be", USAGE),
                (["--env=RANK=3", "true"], '"RANK" is set by Ringmaster', USAGE),
                (["no-such-program"], "external.command: there is no no-such-program in PATH", USAGE),
                (["./plain"], "external.command: cannot run ./plain: Permission denied", USAGE),
        ]:
            with self.subTest(arguments):
                result = self.run_here(*arguments)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertIn(line, result.stderr.splitlines()[-1])
                self.assertEqual(result.stderr.count("error: "), 1, result.stderr)

    def test_an_interrupt_ends_the_commands(self):
        script = self.script(LONG)
        run = Process("run", [binary("ringctl"), "run", *self.places(), "-n", "2", f"--working_directory={self.directory}", PYTHON,
                              str(script)], self.directory / "run.log")
        try:
            self.await_files("began-0-0", "began-1-0")
            pids = [int((self.directory / f"began-{rank}-0").read_text()) for rank in (0, 1)]
            run.signal(signal.SIGINT)
            self.assertEqual(run.wait(), STOPPED, run.output())
            self.assertTrue(all(map(self.gone, pids)))
        finally:
            run.kill_group()

    # ---- On a cluster

    def test_a_killed_worker_costs_a_restart(self):
        with Cluster() as cluster:
            cluster.start_coordinator(budget="2s")
            for name in "ab":
                cluster.start_worker(name, "--allow_commands", restart="always")
            cluster.await_workers(2)
            job = cluster.submit(self.job(self.script(LONG)))
            self.await_files("began-0-0", "began-1-0")
            member = cluster.job(job)["members"][1]
            orphan = int((self.directory / "began-1-0").read_text())
            os.kill(int(member["pid"]), signal.SIGKILL)
            self.await_files("began-0-1", "began-1-1")
            self.assertTrue(self.gone(orphan), "the command outlived its worker")
            for command in ("explain", "job", "jobs"):
                shown = cluster.ringctl(command, *([] if command == "jobs" else [job])).stdout
                self.assertNotIn("0 of 0", shown)
                self.assertNotIn("loss", shown.lower().replace("loss ", "", 1) if command == "jobs" else shown)
            (self.directory / "done").write_text("")
            ended = cluster.await_job(job, "SUCCEEDED")
            self.assertEqual(ended["message"], "the commands of all ranks have ended with 0")
            self.assertNotIn("figures", ended)
            self.assertEqual(len(ended["incidents"]), 1)
            logs = cluster.ringctl("logs", job)
            self.assertIn("[1] restart count 1", logs.stdout)

    def test_a_worker_that_leaves_takes_its_command_along(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            workers = [cluster.start_worker(name, "--allow_commands") for name in "ab"]
            cluster.await_workers(2)
            job = cluster.submit(self.job(self.script(LONG)).replace('"min": 2', '"min": 1'))
            self.await_files("began-0-0", "began-1-0")
            workers[1].signal(signal.SIGTERM)
            self.assertEqual(workers[1].wait(), STOPPED, workers[1].output())
            self.await_files("began-0-1")
            (self.directory / "done").write_text("")
            cluster.await_job(job, "SUCCEEDED")

    def test_commands_that_may_begin_anew_give_way_and_save_first(self):
        with Cluster() as cluster:
            cluster.start_coordinator(budget="1s")
            for name in "ab":
                cluster.start_worker(name, "--allow_commands")
            cluster.await_workers(2)
            job = cluster.submit(self.job(self.script(SAVER), requeue=True))
            self.await_files("began-0-first", "began-1-first")
            urgent = cluster.submit(synthetic_job("urgent", 20, 2, 2) + "priority: 5\n")
            cluster.await_job(urgent, "SUCCEEDED")
            # Nobody was given up, and each had the time that it took.
            self.assertTrue((self.directory / "saved-1").exists())
            self.assertEqual(cluster.events(job, "worker.lost"), [])
            suspended = cluster.events(job, "job.suspended")
            self.assertEqual([event["message"] for event in suspended],
                             [f"gives way to job {urgent} (priority 5), and its commands have ended; they begin anew once there are "
                              "workers for it"])
            self.await_files("began-0-anew", "began-1-anew")
            (self.directory / "done").write_text("")
            cluster.await_job(job, "SUCCEEDED")

    def test_a_job_can_be_cancelled_and_keeps_secrets(self):
        (self.directory / "token").write_text("open-sesame\n")
        script = self.script("""
            import os, pathlib, time
            pathlib.Path("began-" + os.environ["RANK"]).write_text(os.environ["TOKEN"])
            time.sleep(600)
            """)
        with Cluster() as cluster:
            cluster.start_coordinator()
            workers = [cluster.start_worker(name, "--allow_commands") for name in "ab"]
            cluster.await_workers(2)
            job = cluster.submit(self.job(script, secret_environment={"TOKEN": str(self.directory / "token")}))
            self.await_files("began-0", "began-1")
            cluster.await_that("the secret", lambda: (self.directory / "began-1").read_text() == "open-sesame")
            self.assertEqual(cluster.cancel(job)["exit_code"], STOPPED)
            for text in (cluster.ringctl("-o", "json", "job", job).stdout, *(worker.output() for worker in workers)):
                self.assertNotIn("open-sesame", text)

    def test_ports_are_those_that_the_worker_may_use(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a", "--allow_commands", "--data_ports=23000-23099")
            cluster.await_workers(1)
            job = cluster.submit("name: ports\nexternal: {command: [sh, -c, 'echo $MASTER_PORT $RINGMASTER_DATA_PORTS']}\n")
            cluster.await_job(job, "SUCCEEDED")
            self.assertRegex(cluster.ringctl("logs", job).stdout, r"230\d\d 23000-23099\n")

    def test_a_worker_runs_no_commands_unless_told_to(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("a")
            cluster.await_workers(1)
            job = cluster.submit("name: command\nexternal: {command: ['true']}\n")
            explained = cluster.ringctl("explain", job)
            self.assertIn("workers that run commands (worker --allow_commands): 0 of the 1 in the pool", explained.stdout)
            # It begins with the first that does.
            cluster.start_worker("b", "--allow_commands")
            self.assertEqual([member["worker"] for member in cluster.await_job(job, "SUCCEEDED")["members"]], ["b"])

    def test_a_directory_outside_the_worker_s_roots_is_refused(self):
        with Cluster() as cluster:
            cluster.start_coordinator()
            cluster.start_worker("b", "--allow_commands", roots={})
            cluster.await_workers(1)
            result = cluster.ringctl("run", f"--working_directory={self.directory}", "true")
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("external.working_directory: ", result.stderr.splitlines()[-1])


if __name__ == "__main__":
    report.main()
