"""Addresses change under running programs, as they do on Kubernetes: names that resolve late, pods that come back under another address.

Hosts are network namespaces, the names come from a name server of the test's own. It prints how long each return took, from the
moment when it became possible: when the name, or the service, leads to an address where somebody listens.
"""

import contextlib
import shutil
import signal
import sqlite3
import subprocess
import time
import unittest

from tests import report
from tests.integration.cluster import (PATIENCE, Cluster, Hosts, binary, mount_namespaces_unavailable, namespaces_unavailable,
                                       pids_of, step_of, steps_in, synthetic_job, with_mount)
from tests.integration.name_server import SERVER_FAILURE, SILENT, NameServer

PORT = 29400
HEAD = "head.test"
SWITCH = "10.77.0.254"
# Ten times what it should take: a busy machine is not a fault, but waiting for a timeout of gRPC's or the kernel's is.
BOUND = 20.0
# They last for some seconds; a job may end while the coordinator is away.
STEPS = 2500
# A service's address, which no host has.
SERVICE = "10.96.0.1"


def run(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def vanish(host, others):
    """Loses packets to the host without an answer from now on, as when its machine has no power."""
    mac = run("ip", "netns", "exec", host.name, "cat", "/sys/class/net/eth0/address").strip()
    for other in others:
        # Otherwise its neighbours would soon find that nobody has that address; behind a router they would not.
        run("ip", "-n", other.name, "neigh", "replace", host.address, "lladdr", mac, "dev", "eth0", "nud", "permanent")
    run("ip", "-n", host.name, "link", "set", "eth0", "down")


class Network(contextlib.ExitStack):
    """Hosts with names, and a cluster whose programs know each other by them."""

    def __init__(self, count):
        super().__init__()
        hosts = Hosts(count)
        self.hosts = self.enter_context(hosts)
        run("ip", "-n", hosts.switch, "addr", "add", f"{SWITCH}/24", "dev", "br0")
        self.names = self.enter_context(NameServer(hosts.switch, SWITCH))
        self.cluster = self.enter_context(Cluster())
        self.resolver = self.cluster.directory / "resolv.conf"
        self.resolver.write_text(f"nameserver {SWITCH}\n")

    def start_coordinator(self, host, budget="4s", **options):
        """Members of a job have to be back one and a half budgets after the first of them."""
        return self.cluster.start_coordinator(host=host, listen=f"{host.address}:{PORT}", budget=budget, **options)

    def start_worker(self, name, host, *flags, coordinator=f"{HEAD}:{PORT}", env=None):
        return self.cluster.start_worker(name, *flags, host=host, address=coordinator, env=env,
                                         mount=["--bind", self.resolver, "/etc/resolv.conf"])

    def spawn_ringctl(self, name, host, coordinator, *args):
        return self.cluster.spawn(name, [*with_mount(["--bind", self.resolver, "/etc/resolv.conf"]), binary("ringctl"),
                                         f"--coordinator={coordinator}", "--insecure", *map(str, args)], host)

    def start_job(self, workers_min=2, steps=STEPS):
        """Starts one for two workers and returns its id and the file where its steps are to be found."""
        checkpoints = self.cluster.directory / "checkpoints"
        text = synthetic_job(steps=steps, workers_min=workers_min, workers_max=2, global_batch=2048,
                             checkpoint=f"{{directory: {checkpoints}}}")
        return self.cluster.submit(text), checkpoints / "metrics.jsonl"


class AddressesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = namespaces_unavailable() or mount_namespaces_unavailable()
        if why:
            raise unittest.SkipTest(why)

    def await_back(self, what, processes, is_back, since):
        """Waits until each process is back, and prints and bounds how long after `since` that was."""
        seconds = {}
        while len(seconds) < len(processes):
            for process in processes:
                if process.name not in seconds and is_back(process.output()):
                    seconds[process.name] = time.monotonic() - since
                if process.popen.poll() not in (None, 0):
                    self.fail(f"{process.name} ended with {process.popen.poll()}: {process.output()}")
            if time.monotonic() > since + BOUND:
                self.fail(f"{what}: within {BOUND} s only {seconds}: " + "\n".join(process.output() for process in processes))
            time.sleep(0.01)
        print(f"{what}: " + ", ".join(f"{name} after {taken:.2f} s" for name, taken in seconds.items()), flush=True)

    def await_steps(self, metrics, count):
        deadline = time.monotonic() + PATIENCE
        while len(steps_in(metrics)) < min(count, STEPS):
            self.assertLess(time.monotonic(), deadline, f"{len(steps_in(metrics))} steps instead of {count}")
            time.sleep(0.02)

    def test_workers_wait_for_a_name(self):
        with Network(4) as network:
            head, *nodes = network.hosts
            cluster, names = network.cluster, network.names
            network.start_coordinator(head)
            names["slow.test"], names["broken.test"] = SILENT, SERVER_FAILURE
            waiting = {name: network.start_worker(name.split(".")[0], node, coordinator=f"{name}:{PORT}")
                       for name, node in zip(("absent.test", "slow.test", "broken.test"), nodes)}
            for name, worker in waiting.items():
                cluster.await_output(worker, "trying again")
                cluster.await_that(f"attempts to resolve {name}", lambda: names.asked(name) >= 8)
            for name, worker in waiting.items():
                names[name] = head.address
                self.await_back(f"joined once {name} resolves", [worker], lambda output: "joined coordinator" in output, time.monotonic())
                self.assertEqual(worker.output().count("does not resolve"), 1, worker.output())
            cluster.await_workers(3)

    def test_a_worker_goes_back_to_its_own_coordinator(self):
        """Its name leads to another one meanwhile, on a copy of the journal that has all generations: nobody could tell."""
        with Network(4) as network:
            old, new, node, _ = network.hosts
            cluster, names = network.cluster, network.names
            names[HEAD] = old.address
            network.start_coordinator(old)
            first = cluster.address
            # Its session breaks with a beat, of which there are five in a budget.
            worker = network.start_worker("a", node, env={"RINGMASTER_FAIL_POINTS": "session.send.beat=error@12"})
            cluster.await_workers(1)
            job_id, metrics = network.start_job(workers_min=1, steps=10**7)
            self.await_steps(metrics, 20)
            copy = cluster.directory / "copy"
            copy.mkdir()
            with contextlib.closing(sqlite3.connect(cluster.directory / "state" / "journal.sqlite3")) as source:
                with contextlib.closing(sqlite3.connect(copy / "journal.sqlite3")) as target:
                    source.backup(target)
            names[HEAD] = new.address
            second = network.start_coordinator(new, state_dir=copy)
            self.assertNotIn("lost the session", worker.output())
            cluster.await_output(worker, "lost the session")
            cluster.await_output(worker, "attached to coordinator")
            cluster.address, cluster.coordinator_host = first, old
            cluster.await_that("the worker at its own coordinator", lambda: any(
                one["name"] == "a" and one["state"] != "WORKER_STATE_DETACHED" for one in cluster.workers()))
            self.assertNotIn("worker.reattached", second.output())
            self.assertNotIn("restarted", worker.output())
            cluster.cancel(job_id)

    def check_return(self, what, go_away, come_back, coordinator=f"{HEAD}:{PORT}"):
        """The coordinator goes away and comes back elsewhere on its state. `go_away(network, others, process)` ends it, where
        `others` are all other hosts; `come_back(network, address)` makes its new address known, and before, its first one."""
        with Network(5) as network:
            old, new, *nodes, user = network.hosts
            cluster = network.cluster
            come_back(network, old.address)
            process = network.start_coordinator(old)
            workers = [network.start_worker(name, node, coordinator=coordinator) for name, node in zip("ab", nodes)]
            cluster.await_workers(2)
            job_id, metrics = network.start_job()
            watch = network.spawn_ringctl("watch", user, coordinator, "watch", job_id)
            follow = network.spawn_ringctl("follow", user, coordinator, "submit", "--watch", self.write_next(cluster))
            cluster.await_output(watch, "step")
            cluster.await_output(follow, "QUEUED")
            self.await_steps(metrics, 100)
            before = cluster.job(job_id)
            made = len(steps_in(metrics))
            go_away(network, [*nodes, user], process)
            network.start_coordinator(new)
            # Training goes on without it, for longer than lost members have to come back, since nobody can come back.
            listens_since = time.monotonic()
            for worker in workers:
                cluster.await_output(worker, "lost the session")
            self.await_steps(metrics, made + 200)
            cluster.await_that("that the members' time would be over", lambda: time.monotonic() > listens_since + self.lag)
            since = time.monotonic()
            come_back(network, new.address)
            self.await_back(what, workers, lambda output: "(restarted) again" in output, since)
            self.await_back(f"{what}, users", [watch, follow],
                            lambda output: "\n" in output.partition("lost the coordinator")[2].strip(), since)
            job = cluster.await_job(job_id, "SUCCEEDED")
            self.assertEqual(job["generation"], before["generation"])
            self.assertEqual(pids_of(job), pids_of(before))
            self.assertEqual(steps_in(metrics), list(range(1, STEPS + 1)))
            for worker in workers:
                self.assertIsNone(worker.popen.poll(), worker.output())
                self.assertEqual(worker.output().count("lost the session"), 1, worker.output())
            self.assertEqual(watch.wait(), 0, watch.output())
            self.assertEqual(follow.wait(), 0, follow.output())

    @staticmethod
    def write_next(cluster):
        """A short job that waits for the first one's end."""
        path = cluster.directory / "next.yaml"
        path.write_text(synthetic_job("next", steps=10))
        return path

    @staticmethod
    def set_name(network, address):
        network.names[HEAD] = address

    @staticmethod
    def delete(network, others, process):
        process.signal(signal.SIGKILL)
        process.wait()

    @staticmethod
    def lose(network, others, process):
        vanish(network.hosts[0], others)
        AddressesTest.delete(network, others, process)

    lag = 0.0

    def test_a_coordinator_that_is_deleted_comes_back_elsewhere(self):
        self.lag = 6.5
        self.check_return("attached at the new address", self.delete, self.set_name)

    def test_a_coordinator_whose_host_is_lost_comes_back_elsewhere(self):
        self.check_return("attached at the new address, the old one is a black hole", self.lose, self.set_name)

    def test_a_service_leads_to_another_coordinator(self):
        iptables = shutil.which("iptables", path="/usr/sbin:/sbin:/usr/bin:/bin")
        if iptables is None:
            self.skipTest("iptables is not installed")

        def lead_to(network, address):
            for host in network.hosts[2:]:
                nat = ["ip", "netns", "exec", host.name, iptables, "-w", "-t", "nat"]
                run("ip", "-n", host.name, "route", "replace", f"{SERVICE}/32", "dev", "eth0")
                run(*nat, "-F", "OUTPUT")
                run(*nat, "-A", "OUTPUT", "-d", SERVICE, "-p", "tcp", "-j", "DNAT", "--to-destination", address)

        self.check_return("attached through the service", self.lose, lead_to, coordinator=f"{SERVICE}:{PORT}")

    def check_worker_return(self, what, is_lost):
        """A worker comes back elsewhere under its name."""
        with Network(4) as network:
            head, stays, old, new = network.hosts
            cluster = network.cluster
            network.names[HEAD] = head.address
            network.start_coordinator(head)
            survivor, lost = network.start_worker("a", stays), network.start_worker("b", old)
            cluster.await_workers(2)
            job_id, metrics = network.start_job(workers_min=1, steps=1_000_000)
            self.await_steps(metrics, 50)
            before = pids_of(cluster.job(job_id))
            if is_lost:
                vanish(old, [head, stays, new])
            lost.signal(signal.SIGKILL)
            lost.wait()
            since = time.monotonic()
            successor = network.start_worker("b", new)
            self.await_back(f"{what}, in the pool", [successor], lambda output: "joined coordinator" in output, since)
            self.await_back(f"{what}, in the job", [successor], lambda output: "mesh.connected" in output, since)
            if is_lost:
                self.assertEqual(successor.output().count("worker name b is in use"), 1, successor.output())

            def trains_on():
                job = cluster.job(job_id)
                return job if len(pids_of(job)) == 2 and step_of(job) > step_of(at_return) else None

            at_return = cluster.job(job_id)
            after = pids_of(cluster.await_that("steps with the worker that came back", trains_on))
            self.assertEqual(after["a"], before["a"])
            self.assertNotEqual(after["b"], before["b"])
            self.assertNotIn("lost the session", survivor.output())
            cluster.cancel(job_id)

    def test_a_worker_that_is_deleted_comes_back_elsewhere(self):
        self.check_worker_return("a deleted worker is back", is_lost=False)

    def test_a_worker_whose_host_is_lost_comes_back_elsewhere(self):
        self.check_worker_return("a lost worker is back", is_lost=True)


if __name__ == "__main__":
    report.main()
