"""The manifests fit the programs: flags and variables are theirs, and the programs that they start, with exactly these arguments,
train deploy/kubernetes/job.yaml. A pod is a process in a network namespace, so that ports are those of the manifests too, without rights, as the
manifests' user, and can write to its volumes alone. Only directories differ. `Run` plays the Job's part, by the rules in the manifest, and `Pool` the Deployment's."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from tests import report
from tests.integration.cluster import (Cluster, Hosts, binary, mount_namespaces_unavailable, namespaces_unavailable, pids_of,
                                       step_of)
from tests.kubernetes.manifests import DIRECTORY, OVERLAYS, load

SUCCEEDED, FAILED = "SUCCEEDED", "FAILED"
# Debian's texts, in the place of those in the image.
LICENSES = "/usr/share/common-licenses"


class FlagsTest(unittest.TestCase):
    def test_flags_and_variables_are_the_programs_own(self):
        for overlay in OVERLAYS:
            for pod in load(overlay).pods:
                command = pod.arguments[:1] if pod.is_command else []
                text = subprocess.run([binary(pod.program), *command, "--help"], capture_output=True, text=True, check=True).stdout
                flags, variables = set(re.findall(r"--([a-z_]+)", text)), set(re.findall(r"Environment: (\w+)\.", text))
                with self.subTest(overlay=overlay, pod=pod.owner):
                    self.assertEqual(set(pod.flags) - flags, set())
                    self.assertEqual({name for name in pod.env if name.startswith("RINGMASTER_")} - variables, set())

    def test_the_job_is_a_good_one(self):
        result = subprocess.run([binary("ringctl"), "submit", "--dry-run", str(DIRECTORY / "job.yaml")], capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_ringctl_in_the_coordinators_pod_needs_no_flags(self):
        text = subprocess.run([binary("ringctl"), "--help"], capture_output=True, text=True, check=True).stdout
        for overlay in OVERLAYS:
            pod = load(overlay).pods_of("coordinator")[0]
            self.assertIn(f"127.0.0.1:{pod.port_of('listen')} unless given", text)
            for name in pod.env:
                self.assertIn(f"Environment: {name}.", text)


# Stands for a container's runtime and a securityContext: $1 knows the addresses, $2 is all that can be written to, $3 is the user.
RESTRICTED = """
mount --bind "$1" /etc/hosts && mount --bind "$2" "$2" && mount -o remount,bind,ro / || exit 99
user=$3
shift 3
exec setpriv --reuid="$user" --regid="$user" --clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all "$@"
"""


# The name of the TrainJob, and so of its JobSet.
TRAIN_JOB = "first"
JOBSET_NAME = "metadata.labels['jobset.sigs.k8s.io/jobset-name']"


class Pods:
    """Starts pods: processes in hosts, who know the coordinator by its service's name, or by the one that JobSet gives its pod."""

    def __init__(self, cluster, coordinator_address):
        self.cluster = cluster
        self.hosts_file = cluster.directory / "hosts"
        self.hosts_file.write_text(f"127.0.0.1 localhost\n{coordinator_address} ringmaster-coordinator\n"
                                   f"{coordinator_address} {TRAIN_JOB}-coordinator-0-0.{TRAIN_JOB}\n")
        # Of hosts that are not each a node of its own: {address: the node's name}.
        self.nodes = {}
        # The cluster's directories, and those in their place.
        self.directories = {"/var/lib/ringmaster": f"{cluster.directory}/volume", "/opt/ringmaster/licenses": LICENSES,
                            "/etc/ringmaster/access": f"{cluster.directory}/access", "/etc/ringmaster/job": f"{cluster.directory}/job"}
        (cluster.directory / "volume").mkdir()
        cluster.directory.chmod(0o755)
        # Where a user without rights can run them.
        self.programs = cluster.directory / "programs"
        self.programs.mkdir()
        for name in ("coordinator", "parameter_server", "ringctl", "worker"):
            shutil.copy(binary(name), self.programs)

    def local(self, text):
        for theirs, ours in self.directories.items():
            text = text.replace(theirs, ours)
        return text

    def environment(self, pod, name, address):
        fields = {"metadata.name": name, "status.podIP": address, "spec.nodeName": self.nodes.get(address, f"node-{address}"),
                  JOBSET_NAME: TRAIN_JOB}
        directories = {**self.directories, "/etc/ringmaster/tls": str(self.cluster.directory / pod.component)}
        values = {key: fields.get(value, value) for key, value in pod.env.items()}
        for theirs, ours in directories.items():
            values = {key: value.replace(theirs, ours) for key, value in values.items()}
        return values

    def start(self, pod, name, host):
        context = pod.spec["securityContext"]
        volume = pathlib.Path(self.directories["/var/lib/ringmaster"])
        os.chown(volume, context["fsGroup"], context["fsGroup"])
        environment = self.environment(pod, name, host.address)
        arguments = [re.sub(r"\$\((\w+)\)", lambda match: environment[match[1]], argument) for argument in pod.container["args"]]
        argv = ["unshare", "--mount", "sh", "-c", RESTRICTED, "sh", self.hosts_file, volume, context["runAsUser"],
                self.programs / pod.program, *map(self.local, arguments)]
        return self.cluster.spawn(name, list(map(str, argv)), host, environment)


def make_certificates(manifests, directory):
    """The secrets that cert-manager would make, each in a directory of its own that the pods of a component mount."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=directory)

    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key",
            "-out", "ca.crt", "-subj", "/CN=ringmaster-authority", "-days", "2")
    for pod in manifests.pods:
        secret = pod.mounts["/etc/ringmaster/tls"]["secret"]["secretName"]
        spec = next(each["spec"] for each in manifests.of_kind("Certificate") if each["spec"]["secretName"] == secret)
        names = [f"DNS:{name}" for name in spec["dnsNames"]] + [f"IP:{address}" for address in spec.get("ipAddresses", [])]
        names += [f"URI:{uri}" for uri in spec["uris"]]
        usages = {"digital signature": "digitalSignature", "server auth": "serverAuth", "client auth": "clientAuth"}
        usages = [usages[usage] for usage in spec["usages"]]
        target = directory / pod.component
        target.mkdir()
        (target / "ca.crt").write_text((directory / "ca.crt").read_text())
        (target / "extensions").write_text(f"subjectAltName={','.join(names)}\nkeyUsage=digitalSignature\n"
                                           f"extendedKeyUsage={','.join(usages[1:])}\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{target}/tls.key",
                "-out", f"{target}/csr", "-subj", f"/CN={spec['commonName']}")
        openssl("x509", "-req", "-in", f"{target}/csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                "-out", f"{target}/tls.crt", "-extfile", f"{target}/extensions")
        # Mode 0440, of the pods' group.
        (target / "tls.key").chmod(0o440)
        os.chown(target / "tls.key", 0, pod.spec["securityContext"]["fsGroup"])


def make_access_file(directory):
    """The secret with the access file; returns alice's token."""
    (directory / "access").mkdir()
    token = directory / "alice.token"
    entry = subprocess.run([binary("ringctl"), "pki", "token", "viewer", "alice", "--out", token], check=True, capture_output=True,
                           text=True).stdout
    (directory / "access" / "access.yaml").write_text(f"tokens:\n{entry}" if not entry.startswith("tokens:") else entry)
    return token.read_text().strip()


class Run:
    """A Job's pods, kept up as the Job controller does, each in a host of its own; hosts of pods that ended are used again."""

    def __init__(self, pods, pod, hosts):
        self.pods, self.pod = pods, pod
        self.free = list(hosts)
        self.running = {}  # name -> (index, process, host)
        self.evicted = set()
        self.failures = 0
        self.started = 0
        self.codes = []
        self.state = None
        for index in range(pod.workload["completions"]):
            self.start(index)

    def start(self, index):
        host = self.free.pop(0)
        # A Job's pod has another name each time.
        name = f"ringmaster-worker-{index}-{self.started}"
        self.started += 1
        self.running[name] = (index, self.pods.start(self.pod, name, host), host)

    def evict(self, name):
        """As when its node is drained."""
        self.evicted.add(name)
        self.running[name][1].signal(signal.SIGTERM)

    def action_of(self, name, code):
        for rule in self.pod.workload["podFailurePolicy"]["rules"]:
            if name in self.evicted and any(each["type"] == "DisruptionTarget" for each in rule.get("onPodConditions", [])):
                return rule["action"]
            exit_codes = rule.get("onExitCodes")
            if exit_codes and exit_codes["operator"] == "In" and code in exit_codes["values"]:
                return rule["action"]
        return "Count"

    def reconcile(self):
        """Takes note of pods that ended; returns the Job's state once it has one."""
        for name, (index, process, host) in list(self.running.items()):
            if process.popen.poll() is None:
                continue
            code = process.wait()
            self.codes.append(code)
            del self.running[name]
            self.free.append(host)
            action = self.action_of(name, code)
            if code == 0:
                self.state = self.state or SUCCEEDED
            elif action == "FailJob":
                self.state = self.state or FAILED
            elif self.state is None:
                self.failures += action == "Count"
                assert self.failures <= self.pod.workload["backoffLimit"]
                self.start(index)
        return self.state

    def await_state(self, timeout):
        state = self.pods.cluster.await_that("the run is over", self.reconcile, timeout)
        # The rest are asked to end.
        for _, process, _ in self.running.values():
            process.signal(signal.SIGTERM)
        return state


class Pool:
    """A Deployment's pods, each in a host of its own. The successor of one that is evicted starts while it still leaves."""

    # Fewer than the manifest says, for machines with few cores.
    REPLICAS = 2

    def __init__(self, pods, pod, hosts):
        self.pods, self.pod = pods, pod
        self.free = list(hosts)
        self.running = {}  # name -> process
        self.started = 0
        for _ in range(self.REPLICAS):
            self.start()

    def start(self):
        name = f"ringmaster-worker-5d9c7b-{self.started}"
        self.started += 1
        self.running[name] = self.pods.start(self.pod, name, self.free.pop(0))

    def scale_down(self, name):
        """Returns the process of the pod, which has been asked to end."""
        process = self.running.pop(name)
        process.signal(signal.SIGTERM)
        return process

    def evict(self, name):
        """As when its node is drained; returns as scale_down does."""
        process = self.scale_down(name)
        self.start()
        return process


# Prints the code of the answer, or the error.
PAGE = """
import http.client, socket, ssl, sys
address, name, authority, token = sys.argv[1:]
connection = http.client.HTTPConnection(address, 29480, timeout=20)
try:
    connection.sock = socket.create_connection((address, 29480), 20)
    if authority:
        connection.sock = ssl.create_default_context(cafile=authority).wrap_socket(connection.sock, server_hostname=name)
    connection.request("GET", "/api/state", headers={"Host": name, **({"Authorization": f"Bearer {token}"} if token else {})})
    print(connection.getresponse().status)
except OSError as error:
    print(type(error).__name__)
"""


class PodsTest(unittest.TestCase):
    def setUp(self):
        why = namespaces_unavailable() or mount_namespaces_unavailable()
        if why:
            self.skipTest(why)

    def start(self, cluster, hosts, overlay="cpu", workload=Run, node=None):
        """A coordinator in the first host, workers in the others, which are all of `node` if it is given; returns the Run or Pool."""
        manifests = load(overlay)
        head, *nodes = hosts
        self.coordinator = manifests.pods_of("coordinator")[0]
        self.pods = Pods(cluster, head.address)
        if node:
            self.pods.nodes = {host.address: node for host in nodes}
        if manifests.of_kind("Certificate"):
            make_certificates(manifests, cluster.directory)
            self.token = make_access_file(cluster.directory)
        self.environment = {**os.environ, **self.pods.environment(self.coordinator, "ringmaster-coordinator-0", head.address)}
        cluster.coordinator_host = head
        self.start_coordinator()
        for index, pod in enumerate(manifests.pods_of("parameter-server") * 2):
            self.pods.start(pod, f"ringmaster-parameter-server-{index}", nodes.pop())
        run = workload(self.pods, manifests.pods_of("worker")[0], nodes)
        cluster.await_that("all are there", lambda: len(self.status(cluster).get("workers", [])) == len(hosts) - 1 - len(run.free))
        return run

    def start_coordinator(self):
        self.coordinator_process = self.pods.start(self.coordinator, "ringmaster-coordinator-0", self.pods.cluster.coordinator_host)

    def ringctl(self, cluster, *arguments, stdin=""):
        """As by `kubectl exec -i ringmaster-coordinator-0 -- ringctl`."""
        return subprocess.run([*cluster.coordinator_host.prefix(), binary("ringctl"), *arguments], input=stdin,
                              capture_output=True, text=True, timeout=60, env=self.environment)

    def status(self, cluster):
        """Empty while the coordinator does not answer."""
        result = self.ringctl(cluster, "-o", "json", "status")
        return json.loads(result.stdout) if result.returncode == 0 else {}

    def job(self, cluster, job):
        return next(each for each in self.status(cluster)["jobs"] if each["id"] == job)

    def await_step(self, cluster, job, step):
        cluster.await_that(f"{job} at step {step}", lambda: step_of(self.job(cluster, job)) >= step)

    def submit(self, cluster, *flags, data=LICENSES):
        text = (DIRECTORY / "job.yaml").read_text()
        self.assertIn("/opt/ringmaster/licenses", text)
        self.assertNotEqual(text, self.pods.local(text))
        result = self.ringctl(cluster, "-o", "json", "submit", *flags, "-",
                              stdin=self.pods.local(text.replace("/opt/ringmaster/licenses", data)))
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["id"]

    def metrics(self, cluster):
        """{name: value} of the coordinator's that have no labels, as Prometheus reads them."""
        host = cluster.coordinator_host
        script = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())"
        page = subprocess.run([*host.prefix(), sys.executable, "-c", script, f"http://{host.address}:9464/metrics"],
                              capture_output=True, text=True, timeout=60, check=True).stdout
        return {name: float(value) for name, value in re.findall(r"(?m)^(\w+) (\S+)$", page)}

    def test_the_job_trains_and_a_lost_worker_is_replaced(self):
        with Hosts(4) as hosts, Cluster() as cluster:
            began = time.monotonic()
            run = self.start(cluster, hosts)
            # Enough steps that it does not end before the successor has joined.
            job = self.submit(cluster, "--set=train.steps=2000")
            self.await_step(cluster, job, 20)
            before = pids_of(self.job(cluster, job))
            self.assertEqual(set(before), set(run.running))
            self.assert_ports_answer(run)
            self.assertEqual(self.page(cluster.coordinator_host, "127.0.0.1", "localhost:29480"), "200")
            self.assertEqual(self.page(run.running[min(run.running)][2], hosts[0].address, "localhost:29480"), "ConnectionRefusedError")

            self.assert_restricted(run)

            victim, survivor = sorted(before)
            run.running[victim][1].signal(signal.SIGKILL)
            self.await_successor(run, victim, job)
            self.assertEqual(pids_of(self.job(cluster, job))[survivor], before[survivor], "the survivor has another process")

            self.assertEqual(run.await_state(timeout=240), SUCCEEDED)
            ended = self.job(cluster, job)
            self.assertEqual((ended["state"], step_of(ended), run.failures), ("JOB_STATE_SUCCEEDED", 2000, 1))
            self.assertTrue(list((cluster.directory / "volume" / "checkpoints" / "first").glob("step-*")))
            print(f"trained in {time.monotonic() - began:.0f} s; exit codes {run.codes}")

    def test_a_worker_is_evicted_and_the_coordinator_comes_back(self):
        with Hosts(4) as hosts, Cluster() as cluster:
            run = self.start(cluster, hosts)
            job = self.submit(cluster, "--set=train.steps=1000000")
            self.await_step(cluster, job, 20)
            before = pids_of(self.job(cluster, job))
            self.assertEqual(set(before), set(run.running))
            evicted, survivor = sorted(before)
            run.evict(evicted)
            self.await_successor(run, evicted, job)
            self.coordinator_process.signal(signal.SIGKILL)
            self.coordinator_process.wait()
            self.start_coordinator()
            cluster.await_that("it answers", lambda: self.status(cluster))
            self.await_step(cluster, job, step_of(self.job(cluster, job)) + 20)
            # A run that is cancelled is over, too.
            self.assertEqual(self.ringctl(cluster, "cancel", job).returncode, 0)
            self.assertEqual(run.await_state(timeout=120), SUCCEEDED)
            # Neither counts, and nobody else ended.
            self.assertEqual((run.codes[0], run.failures, run.started), (143, 0, 3))

    def test_parameter_servers_and_workers_train_with_tls(self):
        with Hosts(5) as hosts, Cluster() as cluster:
            run = self.start(cluster, hosts, "everything")
            # The page, as the Ingress and pods of the cluster reach it.
            reader, address = run.running[min(run.running)][2], hosts[0].address
            for name in ("ringmaster.example.com", "ringmaster-page.ringmaster.svc"):
                self.assertEqual(self.page(reader, address, name, cluster.directory / "ca.crt", self.token), "200")
            self.assertEqual(self.page(reader, address, "ringmaster.example.com", cluster.directory / "ca.crt"), "401")
            job = self.submit(cluster, "--set=train.parameter_server.servers=2", "--set=train.steps=60")
            self.assertEqual(run.await_state(timeout=120), SUCCEEDED)
            self.assertEqual(self.job(cluster, job)["state"], "JOB_STATE_SUCCEEDED")
            # Servers stay for the next job.
            cluster.await_that("the servers are idle", lambda: [worker["state"] for worker in self.status(cluster)["workers"]
                                                               if worker["role"] == "ROLE_PARAMETER_SERVER"] ==
                               ["WORKER_STATE_IDLE"] * 2)

    def test_a_pool_serves_one_job_after_another_and_loses_no_step_to_a_drain(self):
        with Hosts(5) as hosts, Cluster() as cluster:
            pool = self.start(cluster, hosts, "pool", Pool)
            self.assertEqual(self.metrics(cluster)["ringmaster_workers_wanted"], 0)
            first = self.submit(cluster, "--set=train.steps=100")
            cluster.await_that("the first job ends", lambda: self.job(cluster, first)["state"] == "JOB_STATE_SUCCEEDED")

            # The same processes serve the next one.
            pids = {worker["name"]: int(worker["pid"]) for worker in self.status(cluster)["workers"]}
            job = self.submit(cluster, "--set=train.steps=1000000")
            self.await_step(cluster, job, 20)
            self.assertEqual(pids_of(self.job(cluster, job)), pids)
            self.assertEqual(set(pids), set(pool.running))
            self.assertEqual(self.metrics(cluster)["ringmaster_workers_wanted"], 2)

            evicted, survivor = sorted(pids)
            self.assertEqual(pool.evict(evicted).wait(), 143)
            cluster.await_that("its successor trains", lambda: set(pids_of(self.job(cluster, job))) == set(pool.running))
            (successor,) = set(pool.running) - {survivor}
            # The autoscaler asks for as many while one is missing.
            self.assertEqual(self.metrics(cluster)["ringmaster_workers_wanted"], 2)

            self.assertEqual(pool.scale_down(survivor).wait(), 143)
            cluster.await_that("it goes on with one", lambda: set(pids_of(self.job(cluster, job))) == {successor})
            self.await_step(cluster, job, step_of(self.job(cluster, job)) + 20)
            self.assertEqual(self.metrics(cluster)["ringmaster_lost_steps_total"], 0)

            # Nor does a job that is cancelled end its workers.
            self.assertEqual(self.ringctl(cluster, "cancel", job).returncode, 0)
            cluster.await_that("its worker is idle", lambda: [worker["state"] for worker in self.status(cluster)["workers"]] ==
                               ["WORKER_STATE_IDLE"])
            self.assertIsNone(pool.running[successor].popen.poll())
            self.assertEqual(self.metrics(cluster)["ringmaster_workers_wanted"], 0)

    def test_the_pods_of_a_node_are_one_host_and_share_no_memory(self):
        with Hosts(3) as hosts, Cluster() as cluster:
            pool = self.start(cluster, hosts, "pool", Pool, node="node-1.internal")
            self.assertEqual([worker["host"] for worker in self.status(cluster)["workers"]], ["node-1.internal"] * 2)
            job = self.submit(cluster, "--set=train.steps=1000000")
            self.await_step(cluster, job, 20)
            # No rank is another's neighbour in memory; frames between them are checked, and encrypted where that is required.
            self.assertEqual([int(member.get("local_rank", 0)) for member in self.job(cluster, job)["members"]], [0, 0])
            for process in pool.running.values():
                self.assertRegex(process.output(), r"mesh\.connected.* shared_memory=0 unix=0 tcp=1\b")
            result = self.ringctl(cluster, "cordon", "node-1.internal")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(self.ringctl(cluster, "cancel", job).returncode, 0)
            cluster.await_that("the job ends", lambda: self.job(cluster, job)["state"] == "JOB_STATE_CANCELLED")
            second = self.submit(cluster, "--set=workers.min=1")
            explanation = self.ringctl(cluster, "explain", second).stdout
            for worker in self.status(cluster)["workers"]:
                self.assertRegex(explanation, rf"{worker['name']}.*cordon")

    def test_a_train_job_submits_its_job_and_ends_with_it(self):
        with Hosts(5) as hosts, Cluster() as cluster:
            *hosts, client = hosts
            run = self.start(cluster, hosts, "trainjob")
            (pod,) = load("trainjob").pods_of("submit")
            job_file = cluster.directory / "job" / "job.yaml"
            job_file.parent.mkdir()
            text = self.pods.local((DIRECTORY / "job.yaml").read_text())

            # A job that is wrong is so for every pod.
            job_file.write_text(text.replace("steps: 6000", "steps: -1"))
            code = self.pods.start(pod, f"{TRAIN_JOB}-submit-0-0-a", client).wait()
            rules = pod.workload["podFailurePolicy"]["rules"]
            self.assertIn(code, next(rule["onExitCodes"]["values"] for rule in rules if rule["action"] == "FailJob"))

            job_file.write_text(text.replace("steps: 6000", "steps: 60"))
            # The second comes as if the first had been lost before it could tell.
            for name in "bc":
                self.assertEqual(self.pods.start(pod, f"{TRAIN_JOB}-submit-0-0-{name}", client).wait(), 0)
            self.assertEqual(run.await_state(timeout=120), SUCCEEDED)
            self.assertEqual([job["state"] for job in self.status(cluster)["jobs"]], ["JOB_STATE_SUCCEEDED"])

    def test_a_job_that_cannot_succeed_fails_the_run(self):
        with Hosts(3) as hosts, Cluster() as cluster:
            run = self.start(cluster, hosts)
            job = self.submit(cluster, data=f"{LICENSES}/nonexistent")
            self.assertEqual(run.await_state(timeout=60), FAILED)
            self.assertEqual(self.job(cluster, job)["state"], "JOB_STATE_FAILED")
            self.assertEqual((run.codes[0], run.failures), (5, 0))

    def page(self, host, address, name, authority="", token=""):
        """How the page at `address` answers somebody in `host` who calls it `name`."""
        return subprocess.run([*host.prefix(), sys.executable, "-c", PAGE, address, name, authority, token], capture_output=True, text=True,
                              timeout=60, check=True).stdout.strip()

    def await_successor(self, run, name, job):
        """Waits until another pod has taken the place of `name`, and trains."""
        before = set(run.running)
        self.pods.cluster.await_that("it is replaced", lambda: run.reconcile() is None and set(run.running) - before)
        newcomer = (set(run.running) - before).pop()
        self.assertNotIn(name, run.running)
        self.pods.cluster.await_that("its successor trains", lambda: newcomer in pids_of(self.job(self.pods.cluster, job)))

    def assert_restricted(self, run):
        for _, process, _ in run.running.values():
            status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines())
            self.assertEqual(status["Uid"].split(), ["65532"] * 4)
            self.assertEqual((int(status["CapEff"], 16), status["NoNewPrivs"]), (0, "1"))

    def assert_ports_answer(self, run):
        """From another host: the ports that the manifests name, and Prometheus' page."""
        script = ("import socket, sys, urllib.request\n"
                  "for port in sys.argv[2:]: socket.create_connection((sys.argv[1], int(port)), 20).close()\n"
                  "print(urllib.request.urlopen(f'http://{sys.argv[1]}:9464/metrics', timeout=20).read().decode())\n")
        coordinator = (self.coordinator, self.pods.cluster.coordinator_host)
        for pod, host in [coordinator] + [(run.pod, host) for _, _, host in run.running.values()]:
            other = next(each for _, _, each in run.running.values() if each is not host)
            page = subprocess.run([*other.prefix(), sys.executable, "-c", script, host.address, *map(str, pod.ports.values())],
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual(page.returncode, 0, f"{pod.owner}: {page.stderr}")
            self.assertIn("ringmaster_build_info", page.stdout)


if __name__ == "__main__":
    report.main()
