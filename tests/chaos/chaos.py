"""Runs one job on several hosts and breaks things under it, one fault after another.

    with Hosts(5) as hosts, Cluster() as cluster:
        results = Chaos(cluster, hosts, Options(seconds=60, seed=7)).run()

Every fault must be followed by a committed step within a bound, by a verdict on the right worker with the right evidence,
and by the return of whoever was lost; meanwhile the observer watches what must never happen. Which faults, on whom and
when follows from the seed; what the machine makes of it does not.
"""

import collections
import dataclasses
import itertools
import json
import random
import signal
import sys
import time

from tests.chaos import crew
from tests.chaos import network
from tests.chaos import observer
from tests.chaos import scenarios
from tests.integration import jobs

# Several steps pass between any two events as long as a whole step takes a few milliseconds.
MODEL = {"mlp": {"window": 16, "embedding_dim": 16, "hidden_dim": 192, "hidden_layers": 2}}
CALIBRATION_STEPS = 300
# A pair that is known to be broken is kept out of one ring for this long, and then some.
PAIR_REST = 45.0
# A supervisor starts a process that has ended again and again after this long at most (worker/supervisor/restart_policy.h).
LONGEST_RESTART = 30.0


@dataclasses.dataclass
class Options:
    seconds: float = 60.0
    seed: int = 1
    workers: int = 4
    workers_min: int = 2
    servers: int = 0                  # parameter servers, with a replica of each shard; 0: gradients are all-reduced
    budget: float = 2.0               # seconds, the coordinator's --failure_budget
    bound: float = 30.0               # seconds within which a step must follow a fault
    kinds: tuple = tuple(scenarios.KINDS)
    scripted: bool = True             # one of each kind before the random ones
    faults: int = 10**9               # at most so many
    every: float = 0.0                # seconds from one fault to the next; 0: as soon as the job has all its members again
    spared: tuple = ()                # workers that are never hit
    cancels: bool = False             # cancel the job when it is over; else wait for its last step, which a busy machine reaches late


@dataclasses.dataclass
class Result:
    """The result of a fault."""
    fault: scenarios.Fault
    recovery: float = float("nan")    # seconds from the fault to a committed step
    cost: str = ""                    # as the coordinator tells it, by phase
    failures: list = dataclasses.field(default_factory=list)


class Stuck(Exception):
    """Something did not happen in time, so nothing that follows would mean anything."""


class Ended(Exception):
    """The job ended, as well or badly as it says, so there is nothing left to break."""


class Chaos:
    def __init__(self, cluster, hosts, options):
        self.cluster = cluster
        self.options = options
        self.random = random.Random(options.seed)
        names = [f"w{index}" for index in range(options.workers)] + [f"s{index}" for index in range(options.servers)]
        self.hosts = dict(zip(names, hosts[1:]))
        self.network = network.Network(hosts)
        self.observer = None
        self.results = []
        self.failures = []            # of the run as a whole
        self.seconds = 0.0
        self.rate = 0.0               # steps a second without faults
        self.coordinator_host = hosts[0]
        self._coordinator = None
        self._crew = crew.Crew(cluster)
        self._faults_of = collections.Counter()
        self._pair_rests_until = 0.0

    # For scenarios.

    def members(self):
        """{worker: pid} of the job's members."""
        self.observer.poll()
        return observer.pids_of(self.observer.job)

    def pairs(self):
        """Pairs of members that exchange gradients: a worker and a server, or neighbours of the ring.

        With a server gone, its shards have no second holder, so no other one may go: pairs of workers, then."""
        members = sorted(self.observer.job["members"], key=lambda member: int(member.get("rank", 0)))
        names = [member["worker"] for member in members]
        servers = [name for name in names if is_server(name)]
        workers = [name for name in names if not is_server(name)]
        if servers and len(servers) == self.options.servers:
            return list(itertools.product(workers, servers))
        return list(zip(workers, workers[1:] + workers[:1]))

    def choose(self, count, times=1):
        """Picks members to be hit, `times` each, at random among those that were hit least.

        So no host has most of the faults, for which the coordinator would rightly leave it alone for a while. At most one
        of them is a server, and that only while all servers are there: else a shard may be gone for good."""
        members = self.members()
        names = sorted(set(members) - set(self.options.spared))
        self.random.shuffle(names)
        names.sort(key=lambda name: self._faults_of[name])
        workers = [name for name in members if not is_server(name)]
        servers = [name for name in names if is_server(name)]
        spared = servers[1 if len(servers) == self.options.servers else 0:]
        chosen = [name for name in names if name not in spared][:max(1, min(count, len(workers) - 1))]
        for name in chosen:
            self._faults_of[name] += times
        return chosen

    def signal(self, pid, number):
        crew.send(pid, number)

    def pause(self, seconds):
        """Watches for that time, unless the job ends."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.observer.poll()
            self._look_again_soon()

    def await_that(self, what, condition, timeout=None):
        """Looks every 20 ms until `condition` holds, and returns what it returned; Stuck, with `what`, if that takes too long."""
        deadline = time.monotonic() + (self.options.bound if timeout is None else timeout)
        while True:
            self.observer.poll()
            result = condition()
            if result:
                return result
            if time.monotonic() >= deadline:
                raise Stuck(f"not in time: {what}; last seen: {self._in_short()}")
            self._look_again_soon()

    def await_return(self, what, condition):
        """As await_that, for a process that has yet to be started again."""
        return self.await_that(what, condition, LONGEST_RESTART + self.options.bound)

    def _look_again_soon(self):
        if self.observer.has_ended():
            raise Ended()
        time.sleep(0.02)

    def coordinator_pid(self):
        return self._coordinator.pid

    def kill_coordinator(self):
        self._coordinator.signal(signal.SIGKILL)
        self._coordinator.wait()

    def restart_coordinator(self, after):
        """Kills it, unless it is dead, and starts it again on the same state and address `after` seconds later."""
        if self._coordinator.popen.poll() is None:
            self.kill_coordinator()
        self.pause(after)
        self._start_coordinator(self.cluster.address)

    def note_broken_pair(self):
        self._pair_rests_until = time.monotonic() + PAIR_REST

    # The run.

    def run(self):
        """Returns the results; failures of the run as a whole are in `failures`."""
        started = time.monotonic()
        try:
            self._start()
            started = time.monotonic()
            for kind in self._plan(started):
                self._try(kind)
            if self.options.cancels and not self.observer.has_ended():
                self.cluster.cancel(self._job_id)
            self.await_that("the end", self.observer.has_ended, 2 * self.options.seconds + 60)
        except Ended:
            self.results = [result for result in self.results if result.recovery == result.recovery]
        except (Stuck, AssertionError) as error:
            self.failures.append(str(error))
        self.network.heal()
        self.seconds = time.monotonic() - started
        self._check_end()
        return self.results

    def _start(self):
        options = self.options
        self._start_coordinator(None)
        for name, host in self.hosts.items():
            self._crew.start(name, host, is_server(name))
        self.cluster.await_workers(options.workers + options.servers)
        calibration = self._job("calibration", CALIBRATION_STEPS)
        self.cluster.await_job(self.cluster.submit(calibration), "SUCCEEDED")
        job = self.cluster.query("job", "calibration")
        times = [observer.seconds_of(job[key]) for key in ("start_time", "end_time")]
        self.rate = CALIBRATION_STEPS / max(0.1, times[1] - times[0])
        # One that is cancelled is to outlast its faults, however much faster the machine gets.
        self._steps = int(self.rate * options.seconds) * (1000 if options.cancels else 1) + 100
        self._job_id = self.cluster.submit(self._job("chaos", self._steps))
        self.observer = observer.Observer(self.cluster, self._job_id)
        self._await_strength()
        self.await_that("a first step", lambda: self.observer.step() > 0)

    def _job(self, name, steps):
        servers = {}
        if self.options.servers > 0:
            servers = {"parameter_server": {"servers": self.options.servers, "replicas": 1}}
        return jobs.train_job(MODEL, {"synthetic": {"samples": 4096}}, (self.options.workers_min, self.options.workers),
                              name=name, steps=steps, global_batch=128, hash_every=1, **servers)

    def _start_coordinator(self, listen):
        # The faults of an hour hit each host more often than any pool would let it go on.
        self._coordinator = self.cluster.start_coordinator(
            "--log_format=json", "--quarantine_faults=0", host=self.coordinator_host, listen=listen, budget=f"{self.options.budget:g}s")

    def _plan(self, started):
        """The kinds of faults to try, while there is time and the job is not about to end."""
        scripted = collections.deque(self.options.kinds if self.options.scripted else ())
        while True:
            self.observer.poll()
            is_near_end = self.observer.step() > 0.95 * self._steps
            is_over = is_near_end or len(self.results) >= self.options.faults
            if self.observer.has_ended() or is_over or time.monotonic() - started > self.options.seconds:
                return
            yield scripted.popleft() if scripted else self.random.choice(self.options.kinds)

    def _try(self, kind):
        began = time.monotonic()
        fault = scenarios.KINDS[kind](self)
        result = Result(fault)
        self.results.append(result)
        try:
            result.recovery = self._await_recovery(fault) - fault.at
            self._check(result)
        finally:
            if fault.undo:
                fault.undo()
        self._await_strength()
        self._check_survivors(result)
        self._say(result)
        self.pause(max(self.random.uniform(0.2, 0.8), began + self.options.every - time.monotonic()))

    def _await_recovery(self, fault):
        what = f"a step after {fault}"
        if fault.reforms:
            return self.await_that(what, lambda: self.observer.resumed_at(fault.generation, fault.at))
        return self.await_that(what, lambda: self.observer.stepped_at(fault.at))

    def _check(self, result):
        fault = result.fault
        for event in self.observer.events_of("job.resumed", fault.at)[:1]:
            result.cost = event["message"].rpartition("(")[2].rstrip(")")
        if fault.spares_all:
            return
        if not fault.reforms:
            # A member that comes back meanwhile is a reason for one.
            is_complete = len(fault.survivors) + len(set(fault.victims) & set(self.hosts)) == len(self.hosts)
            if is_complete and self.observer.generation() != fault.generation:
                result.failures.append(f"a new generation although all members lived: {self._in_short()}")
            return
        verdicts = self._verdicts_of(fault, "job.halting")
        if not any(verdict.get("worker") for verdict in verdicts):
            # It struck just as the members paused for others, and was found while they halted for those.
            verdicts += self._verdicts_of(fault, "worker.lost")
        self._check_verdicts(result, verdicts)

    def _verdicts_of(self, fault, event_type):
        return [event["verdict"] for event in self.cluster.events(self._job_id, event_type)
                if observer.seconds_of(event["time"]) >= fault.at - 1.0 and "verdict" in event
                and int(event["verdict"].get("generation", 0)) >= fault.generation]

    def _check_verdicts(self, result, verdicts):
        fault = result.fault
        blamed = [verdict for verdict in verdicts if verdict.get("worker")]
        strangers = {verdict["worker"] for verdict in blamed} - set(fault.victims)
        if strangers:
            result.failures.append(f"{', '.join(sorted(strangers))} blamed for {fault}: "
                                   + "; ".join(verdict["summary"] for verdict in blamed))
        if not blamed and not fault.blames_one:
            result.failures.append(f"nobody was blamed: {[verdict.get('summary') for verdict in verdicts]}")
        for verdict in blamed:
            kinds = {evidence["kind"] for evidence in verdict.get("evidence", [])}
            if not kinds & fault.evidence:
                result.failures.append(f"{verdict['worker']} was blamed on {sorted(kinds)}, not {sorted(fault.evidence)}")

    def _check_survivors(self, result):
        """Members that were not hit are still members, with the same processes."""
        members = self.members()
        for name, pid in result.fault.survivors.items():
            if members.get(name) != pid:
                result.failures.append(f"{name} was pid {pid} and is {members.get(name, 'no member')}, but was not hit")

    def _await_strength(self):
        wanted = len(self.hosts) - (time.monotonic() < self._pair_rests_until)
        self.await_return(f"{wanted} members at work",
                          lambda: self.observer.is_running() and len(self.observer.job["members"]) >= wanted)

    def _check_end(self):
        if self.observer is None:
            return
        self.failures += self.observer.violations
        job = self.observer.job
        if not self.observer.has_ended():
            return
        # Ranks compare their hashes after each step, too.
        if self.options.cancels and job["state"] == "JOB_STATE_CANCELLED":
            pass
        elif job["state"] != "JOB_STATE_SUCCEEDED" or not job.get("parameters_hash"):
            self.failures.append(f"the job did not succeed with one hash: {self._in_short()}")
        elif observer.step_of(job) != self._steps:
            self.failures.append(f"the job ended at step {observer.step_of(job)} of {self._steps}")
        hanging = self._crew.stop(15)
        if hanging:
            self.failures.append(f"did not end on SIGTERM: {', '.join(hanging)}")

    def _say(self, result):
        print(f"{result.fault}: {result.recovery:.3f} s"
              + "".join(f"\n  WRONG: {failure}" for failure in result.failures), file=sys.stderr, flush=True)

    def _in_short(self):
        job = self.observer.job or {}
        return json.dumps({key: job.get(key) for key in ("state", "generation", "message", "verdict")}
                          | {"step": observer.step_of(job), "members": observer.pids_of(job)})


def is_server(name):
    """Returns True if the process of that name is a parameter server."""
    return name.startswith("s")


def failed(chaos):
    return not chaos.results or bool(chaos.failures) or any(result.failures for result in chaos.results)


def table(chaos):
    """The events of the run, as text."""
    lines = ["| fault | victims | recovery, s | by phase | verdict |", "|---|---|---|---|---|"]
    for result in chaos.results:
        fault = result.fault
        lines.append(f"| {fault.kind} | {', '.join(fault.victims)} | {result.recovery:.3f} | {result.cost} "
                     f"| {'; '.join(result.failures) or 'ok'} |")
    if chaos.observer is None:
        return "\n".join(f"WRONG: {failure}" for failure in chaos.failures)
    stalled = sum(result.recovery for result in chaos.results if result.fault.stops_training() and result.recovery == result.recovery)
    step = chaos.observer.step()
    ratio = chaos.observer.job.get("goodput", {}).get("ratio") if chaos.observer.job else None
    lines += ["", f"{len(chaos.results)} faults in {chaos.seconds:.1f} s; {step} steps, {step / chaos.seconds:.0f} a second "
              f"({chaos.rate:.0f} without faults); goodput {max(0.0, 1 - stalled / chaos.seconds):.1%}"
              + (f", {float(ratio):.1%} by the coordinator's account" if ratio is not None else "")]
    lines += [f"WRONG: {failure}" for failure in chaos.failures]
    return "\n".join(lines)
