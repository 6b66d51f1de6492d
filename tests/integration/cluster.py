"""Real coordinators, workers and ringctl for integration tests, with every wait bounded and every process ended.

    with Cluster() as cluster:
        cluster.start_coordinator()
        worker = cluster.start_worker("a", slots=2)
        job = cluster.submit(SYNTHETIC_JOB)
        cluster.await_job(job, "SUCCEEDED")

A `host` is a network namespace with an address of its own (see Hosts); None is this machine's loopback.
Waits poll the coordinator through ringctl with a deadline: they end as soon as the condition holds and fail with the state
they saw last. Logs of all processes are printed when a test fails.
"""

import functools
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

# bazel runs tests in the runfiles root; RINGMASTER_BIN_DIR is for running a test by hand against installed binaries.
_BINARIES = {
    "coordinator": "server/coordinator/coordinator",
    "parameter_server": "worker/parameter_server/parameter_server",
    "worker": "worker/worker",
    "ringctl": "server/ctl/ringctl",
}

# What jobs may read and write unless a test says otherwise: temporary directories. A worker of another release ignores it.
ROOTS = {"RINGMASTER_ALLOW_READ": tempfile.gettempdir(), "RINGMASTER_ALLOW_WRITE": tempfile.gettempdir()}

# Long enough for a busy machine that runs sanitizer builds beside the test; a hang still ends.
PATIENCE = 60.0


def binary(name, bin_dir=None):
    """The program's path; of another release, where `bin_dir` says so."""
    bin_dir = bin_dir or os.environ.get("RINGMASTER_BIN_DIR")
    path = pathlib.Path(bin_dir) / name if bin_dir else pathlib.Path(_BINARIES[name])
    return str(path.resolve())


def synthetic_job(name="job", steps=40, workers_min=1, workers_max=1, **overrides):
    """A small job as YAML text; `overrides` are extra lines of `train`."""
    train = {"steps": steps, "global_batch": 64, "seed": 7, **overrides}
    lines = [
        f"name: {name}",
        f"workers: {{min: {workers_min}, max: {workers_max}, settle: 300ms}}",
        "train:",
        "  model: {mlp: {window: 8, embedding_dim: 8, hidden_dim: 32, hidden_layers: 1}}",
        "  data: {synthetic: {samples: 4096}}",
        "  optimizer: {adamw: {learning_rate: 0.003}}",
    ]
    if "data" in train:
        lines[4] = f"  data: {train.pop('data')}"
    lines += [f"  {key}: {value}" for key, value in train.items()]
    return "\n".join(lines) + "\n"


def with_mount(mount):
    """Returns the prefix of a command that alone sees a file system; `mount` are arguments of mount(8)."""
    return ["unshare", "--mount", "sh", "-c", f"mount {shlex.join(map(str, mount))} && exec \"$0\" \"$@\""]


def pki(*arguments):
    """`ringctl pki`, which must succeed; returns what it says."""
    result = subprocess.run([binary("ringctl"), "pki", *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE,
                            stdin=subprocess.DEVNULL)
    assert result.returncode == 0, result.stderr
    return result.stdout


def tls_flags(directory, name):
    """What gives a program the certificate `name` of `ringctl pki` in `directory`."""
    return [f"--tls_ca_file={directory}/ca.pem", f"--tls_cert_file={directory}/{name}.pem", f"--tls_key_file={directory}/{name}.key"]


class Process:
    """A child process with its output in a file.

    It leads a process group, but no session: each session is a group of its own for the scheduler, too (autogroup in sched(7)), and
    under Linux 6.18 one waits for seconds for a processor, 42 s once, while threads of another wake each other often.
    """

    def __init__(self, name, argv, log, env=None):
        self.name = name
        self.log = log
        with open(log, "wb") as out:
            self.popen = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                          env=env, process_group=0)

    @property
    def pid(self):
        return self.popen.pid

    def output(self):
        return pathlib.Path(self.log).read_text(errors="replace")

    def signal(self, number):
        self.popen.send_signal(number)

    def wait(self, timeout=PATIENCE):
        """The exit status, as a shell would show it (128 + signal for a killed process)."""
        status = self.popen.wait(timeout)
        return 128 - status if status < 0 else status

    def kill_group(self):
        try:
            os.killpg(self.popen.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.popen.wait()


class Cluster:
    def __init__(self, flags=()):
        """`flags` go to every program, for example those of TLS."""
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ringmaster-test-"))
        self.flags = list(flags)
        self.processes = []
        self.address = None
        self.coordinator_host = None

    def __enter__(self):
        return self

    def __exit__(self, error_type, error, traceback):
        for process in reversed(self.processes):
            process.kill_group()
        if error is not None:
            for process in self.processes:
                print(f"--- {process.name}\n{process.output()[-4000:]}")
        shutil.rmtree(self.directory, ignore_errors=True)

    def trusting(self, host):
        """Flags for a program that has the network: this one is trusted unless `flags` bring certificates."""
        has_tls = any(flag.startswith("--tls_") for flag in self.flags)
        return ["--insecure"] if host and not has_tls else []

    def spawn(self, name, argv, host=None, env=None):
        prefix = host.prefix() if host else []
        process = Process(name, prefix + argv, self.directory / f"{len(self.processes)}-{name}.log",
                          env={**os.environ, **(env or {})})
        self.processes.append(process)
        return process

    def start_coordinator(self, *flags, host=None, listen=None, state_dir=None, budget="20s", env=None, bin_dir=None):
        """Starts one and waits until it serves. The failure budget is generous: a loaded test machine is not a fault."""
        listen = listen or f"{host.address if host else '127.0.0.1'}:0"
        port_file = self.directory / f"port-{len(self.processes)}"
        process = self.spawn("coordinator", [
            binary("coordinator", bin_dir), f"--listen={listen}", f"--state_dir={state_dir or self.directory / 'state'}",
            f"--port_file={port_file}", f"--failure_budget={budget}", *self.trusting(host), *self.flags, *flags], host, env)
        deadline = time.monotonic() + PATIENCE
        while not port_file.exists():
            if process.popen.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"coordinator did not start: {process.output()}")
            time.sleep(0.02)
        self.address = f"{listen.rsplit(':', 1)[0]}:{port_file.read_text().strip()}"
        self.coordinator_host = host
        return process

    def start_worker(self, name, *flags, slots=1, host=None, env=None, address=None, mount=(), prefix=(), restart="never", bin_dir=None,
                     roots=ROOTS):
        """A process that ends stays away, so that a test sees what its end alone causes, unless `restart` says otherwise.

        `mount` are arguments of mount(8), whose file system this worker alone sees; others can through inside(). `prefix` is a
        command that runs the worker's. `roots` are variables that say what its jobs may read and write."""
        prefix = with_mount(mount) if mount else list(prefix)
        return self.spawn(f"worker-{name}", prefix + [
            binary("worker", bin_dir), f"--coordinator={address or self.address}", "--device=cpu", f"--slots={slots}",
            f"--name={name}", f"--restart={restart}", *self.trusting(host), *self.flags, *flags],
            host, {**roots, **(env or {})})

    def start_server(self, name, *flags, slots=1, host=None, env=None, restart="never", bin_dir=None):
        """A parameter server's process; one that ends stays away, unless `restart` says otherwise."""
        return self.spawn(f"server-{name}", [
            binary("parameter_server", bin_dir), f"--coordinator={self.address}", f"--slots={slots}", f"--name={name}",
            f"--restart={restart}", *self.trusting(host), *self.flags, *flags], host, env)

    def ringctl(self, *args, timeout=PATIENCE, host=None, env=None):
        host = host or self.coordinator_host
        prefix = host.prefix() if host else []
        return subprocess.run(prefix + [binary("ringctl"), f"--coordinator={self.address}",
                                        *self.trusting(host), *self.flags, *args],
                              capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})})

    def ringctl_sample(self, *args):
        """`ringctl sample`, which asks the program `worker` beside it and no coordinator."""
        return subprocess.run([binary("ringctl"), "sample", f"--bin_dir={self.bin_dir()}", *args],
                              capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)

    def bin_dir(self):
        """A directory with all programs."""
        bin_dir = self.directory / "bin"
        if not bin_dir.exists():
            bin_dir.mkdir()
            for name in _BINARIES:
                (bin_dir / name).symlink_to(binary(name))
        return bin_dir

    def query(self, *args):
        """The answer as JSON; it has PATIENCE to come, since a loaded test machine is not a fault."""
        result = self.ringctl("-o", "json", f"--timeout={PATIENCE:.0f}s", *args, timeout=2 * PATIENCE)
        if result.returncode != 0:
            raise AssertionError(f"ringctl {args} exited with {result.returncode}: {result.stderr}")
        return json.loads(result.stdout)

    def submit(self, yaml_text, name="job.yaml"):
        """Submits the job and returns its id."""
        path = self.directory / name
        path.write_text(yaml_text)
        return self.query("submit", str(path))["id"]

    def job(self, job_id):
        return self.query("job", job_id)

    def run_job(self, text, state="SUCCEEDED"):
        """Submits the job and waits for its end, which must be `state`; returns the job."""
        return self.await_job(self.submit(text), state)

    def events(self, job_id, event_type=None):
        """The job's events so far, or those of one type."""
        events = self.query("events", job_id).get("events", [])
        return [event for event in events if event_type in (None, event["type"])]

    def await_event(self, job_id, event_type):
        """The job's events of the type, once there are any: they may come a moment after the job's end."""
        return self.await_that(f"{event_type} of {job_id}", lambda: self.events(job_id, event_type))

    def workers(self):
        return self.query("status").get("workers", [])

    def await_that(self, what, condition, timeout=PATIENCE):
        """Polls `condition` until it returns something true, which is returned."""
        deadline = time.monotonic() + timeout
        while True:
            result = condition()
            if result:
                return result
            if time.monotonic() > deadline:
                status = self.ringctl("-o", "json", "status")
                raise AssertionError(f"not within {timeout} s: {what}; status: {(status.stdout or status.stderr)[:4000]}")
            time.sleep(0.05)

    def await_output(self, process, text):
        """Waits until `process` has written `text`."""
        deadline = time.monotonic() + PATIENCE
        while text not in process.output():
            if process.popen.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{process.name} did not write {text!r}: {process.output()}")
            time.sleep(0.02)

    def metrics_address(self, process):
        """The URL from which Prometheus reads the metrics of a process with --metrics_listen."""
        self.await_output(process, "--metrics_listen")
        return re.search(r"monitoring\.listening.*metrics_listen.*address=(\S+)", process.output())[1]

    def await_workers(self, count):
        self.await_that(f"{count} workers", lambda: len(self.workers()) == count)

    def await_step(self, job_id, step):
        def reached():
            job = self.job(job_id)
            if job["state"] in ENDED:
                raise AssertionError(f"job ended before step {step}: {json.dumps(job)}")
            return step_of(job) >= step
        self.await_that(f"{job_id} at step {step}", reached)

    def await_job(self, job_id, state, timeout=PATIENCE):
        """Waits for the end of the job, which must be `state` ("SUCCEEDED", ...); returns the job."""
        def ended():
            job = self.job(job_id)
            return job if job["state"] in ENDED else None
        job = self.await_that(f"the end of {job_id}", ended, timeout)
        assert job["state"] == f"JOB_STATE_{state}", json.dumps(job, indent=1)
        return job

    def cancel(self, job_id):
        """Cancels the job, as a user would; returns it."""
        result = self.ringctl("cancel", job_id)
        assert result.returncode == 0, result.stderr
        return self.await_job(job_id, "CANCELLED")


def start_with_page(cluster, *flags, page="127.0.0.1:0", **options):
    """Starts a coordinator with a page; returns its process and the page's port."""
    port_file = cluster.directory / f"page-port-{len(cluster.processes)}"
    process = cluster.start_coordinator(f"--page_listen={page}", f"--page_port_file={port_file}", *flags, **options)
    return process, int(port_file.read_text())


ENDED = {"JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED"}


def step_of(job):
    return int(job.get("figures", {}).get("step", 0))


def steps_in(path):
    """The steps in metrics.jsonl, in order; its last line may still be on its way."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [int(figures["step"]) for figures in map(json.loads, lines) if figures["kind"] == "step"]


def generation_of(job):
    return int(job.get("generation", 0))


def pids_of(job):
    """{worker: pid} of the job's members."""
    return {member["worker"]: int(member["pid"]) for member in job.get("members", [])}


class Host:
    """A network namespace with one address."""

    def __init__(self, name, address):
        self.name = name
        self.address = address

    def prefix(self):
        return ["ip", "netns", "exec", self.name]


class Hosts:
    """Network namespaces joined by a bridge: several hosts, each with its own address, on one machine. Needs root."""

    def __init__(self, count):
        self.tag = f"rm{os.getpid() % 10000}"
        self.count = count
        self.hosts = []

    def __enter__(self):
        run = lambda *argv: subprocess.run(argv, check=True, capture_output=True)
        self.switch = f"{self.tag}s"
        try:
            # The bridge lives in a namespace of its own, so nothing is left on the machine's own network.
            run("ip", "netns", "add", self.switch)
            run("ip", "-n", self.switch, "link", "add", "br0", "type", "bridge")
            run("ip", "-n", self.switch, "link", "set", "br0", "up")
            for index in range(self.count):
                host = Host(f"{self.tag}h{index}", f"10.77.0.{index + 1}")
                run("ip", "netns", "add", host.name)
                self.hosts.append(host)
                port = f"p{index}"
                run("ip", "-n", self.switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", host.name)
                run("ip", "-n", self.switch, "link", "set", port, "master", "br0", "up")
                run("ip", "-n", host.name, "addr", "add", f"{host.address}/24", "dev", "eth0")
                run("ip", "-n", host.name, "link", "set", "eth0", "up")
                run("ip", "-n", host.name, "link", "set", "lo", "up")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self.hosts

    def __exit__(self, *unused):
        for name in [host.name for host in self.hosts] + [self.switch]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def full_tools_unavailable(*programs):
    """Returns why a test that needs root and these programs (of packages for `tests/run.sh --full`) cannot run here, or None."""
    if os.geteuid() != 0:
        return "needs root"
    for program in programs:
        if shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
            return f"{program} is not installed (deploy/setup.sh --full installs it)"
    return None


@functools.lru_cache(maxsize=None)
def namespaces_unavailable():
    """Returns why hosts cannot be made here, or None."""
    if shutil.which("ip") is None:
        return "iproute2 is not installed"
    try:
        with Hosts(1):
            return None
    except subprocess.CalledProcessError as error:
        return f"cannot make network namespaces: {error.stderr.decode().strip()}"


@functools.lru_cache(maxsize=None)
def mount_namespaces_unavailable():
    """Returns why a process cannot have mounts of its own here, or None."""
    probe = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True)
    return None if probe.returncode == 0 else probe.stderr.strip()


def inside(process, path):
    """`path` as the process sees it, which may have mounts of its own."""
    return pathlib.Path(f"/proc/{process.pid}/root{path}")


def processes_of_group(group):
    """Pids of the living processes of a process group."""
    pids = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, pgrp = stat.read_text().rsplit(")", 1)[1].split()[:3]
        except OSError:
            continue  # ended meanwhile
        if int(pgrp) == group and state != "Z":
            pids.append(int(stat.parent.name))
    return pids
