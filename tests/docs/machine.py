"""A machine for the commands of the documents: namespaces with the programs, in which all the documents' host names are this machine.

    with Machine() as machine:
        write_jobs(machine)
        start_cluster(machine)
        machine.require("ringctl submit JOB.yaml")

The functions behind it make what documents take for granted, such as checkpoints or a job that has lost a worker. Needs root.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

from tests.integration.cluster import PATIENCE, binary, synthetic_job
from tests.integration.data_files import write_text
from tests.integration.jobs import gpt_job

PROGRAMS = ("coordinator", "parameter_server", "ringctl", "worker")
HOSTS = {name: f"10.0.0.{number}" for number, name in enumerate(("head", "node-1", "node1", "node2", "node3", "laptop"), 1)}
OWN_NAME = "node-7"  # with Debian's line in /etc/hosts
# A command may take as long on a busy machine.
LIMIT = 60.0


class Machine:
    """Namespaces with a working directory, and the programs that run there."""

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ringmaster-docs-"))
        self.work = self.directory / "work"
        self.background = []  # what goes on: command lines, which may be the same on several hosts, processes, files of their output
        self.environment = {"PATH": f"{self.work}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.work), "LANG": "C.UTF-8"}
        (self.work / "bin").mkdir(parents=True)
        for name in PROGRAMS:
            shutil.copy(binary(name), self.work / "bin")  # ringctl looks for the others beside its own file
        hosts = self.directory / "hosts"
        names = {"localhost": "127.0.0.1", OWN_NAME: "127.0.1.1", **HOSTS}
        hosts.write_text("".join(f"{address} {name}\n" for name, address in names.items()))
        addresses = "".join(f"ip addr add {address}/24 dev eth0 && " for address in HOSTS.values())
        mounts = "".join(f"mkdir -p {path} && mount -t tmpfs none {path} && " for path in ("/var/lib/ringmaster", "/data", "/backup"))
        self.root = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", "sh", "-c",
             f"ip link set lo up && ip link add eth0 type veth peer name peer0 && ip link set eth0 up && ip link set peer0 up && {addresses}"
             f"hostname {OWN_NAME} && mount --bind {hosts} /etc/hosts && {mounts} echo ready && exec sleep 600"],
            stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert self.root.stdout.readline() == "ready\n", "the namespaces cannot be made"

    def __enter__(self):
        return self

    def __exit__(self, error_type, error, traceback):
        for _, process, _ in reversed(self.background):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        if error is not None:
            for command, _, log in self.background:
                print(f"--- {command}\n{log.read_text(errors='replace')[-3000:]}")
        os.killpg(self.root.pid, signal.SIGKILL)
        self.root.wait()
        self.root.stdout.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def argv(self, command, own_name=False):
        """The arguments of a process for the command line; with `own_name` on a host whose name it may set."""
        return ["nsenter", f"--target={self.root.pid}", "--net", "--mount", "--uts", *(["unshare", "--uts"] if own_name else []),
                "bash", "-o", "pipefail", "-c", 'cd "$0" && eval "$1"', str(self.work), command]

    def run(self, command):
        """The exit status and all output of a command that ends by itself."""
        process = subprocess.Popen(self.argv(command), env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        try:
            output, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            raise AssertionError(f"it did not end within {LIMIT} s; it printed:\n{output}")
        return process.returncode, output

    def require(self, command):
        status, output = self.run(command)
        assert status == 0, f"{command}: exit status {status}:\n{output}"
        return output

    def start(self, command, host=""):
        """Starts a command that goes on, on a host of that name; returns its process and the file of its output."""
        log = self.directory / f"{len(self.background)}.log"
        argv = self.argv(f"{f'hostname {host} && ' if host else ''}exec {command}", own_name=bool(host))
        with open(log, "wb") as out:
            process = subprocess.Popen(argv, env=self.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                       start_new_session=True)
        self.background.append((command, process, log))
        return process, log

    def await_that(self, what, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"not within {PATIENCE} s: {what}"
            time.sleep(0.05)

    def start_program(self, command, host=""):
        """Starts a coordinator, worker or server and waits until it is in service."""
        process, log = self.start(command, host)
        ready = "coordinator.listening" if program_of(command) == "coordinator" else "session.joined"

        def is_ready():
            assert process.poll() is None, log.read_text(errors="replace")
            return ready in log.read_text(errors="replace")
        self.await_that(f"{ready} of {command}", is_ready)


def program_of(command):
    """The name of the program that the command line runs first."""
    return pathlib.Path(shlex.split(command, comments=True)[0]).name


def goes_on(command):
    return program_of(command) in ("coordinator", "worker", "parameter_server") and "--dump_journal" not in command


# ---- What documents take for granted.


def write_jobs(machine):
    """JOB.yaml and job.yaml, which end soon, and checkpoints of three steps in DIR."""
    text = write_text(machine.work / "text")
    (machine.work / "JOB.yaml").write_text(synthetic_job(workers_max=2))
    (machine.work / "job.yaml").write_text(gpt_job(text, workers=(1, 4), name="cpp-gpt"))
    (machine.work / "dir.yaml").write_text(gpt_job(text, steps=180, checkpoint={"directory": "DIR", "every_steps": 60, "keep": 10}))
    machine.require("ringctl local -n 1 dir.yaml")


def start_cluster(machine):
    machine.environment.update(RINGMASTER_COORDINATOR="head:29400", RINGMASTER_INSECURE="true")
    machine.start_program("coordinator --listen=0.0.0.0:29400 --state_dir=/var/lib/ringmaster")
    for name in ("w0", "w1", "w2", "w3"):
        machine.start_program(f"worker --device=cpu --name={name} --restart=always --allow_write=.")


def pid_of(machine, worker):
    workers = json.loads(machine.require("ringctl -o json workers"))["workers"]
    return next((int(w["pid"]) for w in workers if w["name"] == worker), None)


def write_words(machine, steps):
    """The job file words.yaml; steps take about a millisecond."""
    (machine.work / "words.yaml").write_text(synthetic_job("words", steps=steps, workers_min=2, workers_max=4))


def start_words(machine):
    """The job words-1, which takes some seconds."""
    write_words(machine, steps=3000)
    machine.require("ringctl submit words.yaml")


def lose_a_worker(machine):
    """The job words-1 loses its worker w3, which comes back."""
    machine.await_that("steps", lambda: re.search(r"step [1-9]", machine.require("ringctl job words-1")))
    pid = pid_of(machine, "w3")
    os.kill(pid, signal.SIGKILL)
    machine.await_that("the return of w3", lambda: pid_of(machine, "w3") not in (None, pid))
