"""Watches a job from outside, and checks what it must never do.

An observer follows `ringctl watch` and the coordinators' logs. It looks when poll() is called, which every wait does, and
writes down whatever breaks a promise: a step that goes back, a generation that does not rise, a resume below a step that
was reported as committed, a job that ends or rolls back.
"""

import collections
import datetime
import itertools
import json
import time
from typing import NamedTuple

from tests.integration.cluster import ENDED, binary, generation_of, pids_of, step_of


def seconds_of(timestamp):
    """Seconds since 1970 of a protocol's or a log's time."""
    text = timestamp.rstrip("Z")
    whole, _, fraction = text.partition(".")
    at = datetime.datetime.fromisoformat(whole).replace(tzinfo=datetime.timezone.utc)
    return at.timestamp() + (float("0." + fraction) if fraction else 0.0)


def duration_of(text):
    """Seconds of a duration in the protocol's JSON: "0.300s"; None for None."""
    return None if text is None else float(text.rstrip("s"))


class Update(NamedTuple):
    """The job as `ringctl watch` showed it once."""
    at: float            # when it was seen, in seconds since 1970
    generation: int
    state: str
    step: int
    best_step: int       # the greatest one until then


class Tail:
    """Returns the whole lines that a file has got since the last look."""

    def __init__(self, path):
        self._path = path
        self._offset = 0
        self._rest = b""

    def lines(self):
        with open(self._path, "rb") as file:
            file.seek(self._offset)
            self._rest += file.read()
            self._offset = file.tell()
        *whole, self._rest = self._rest.split(b"\n")
        return [line.decode(errors="replace") for line in whole]


class Observer:
    def __init__(self, cluster, job_id):
        self._cluster = cluster
        self._job_id = job_id
        self._watch = cluster.spawn("watch", [
            binary("ringctl"), f"--coordinator={cluster.address}", *cluster.trusting(cluster.coordinator_host),
            "-o", "json", "watch", job_id], cluster.coordinator_host)
        self._watch_tail = Tail(self._watch.log)
        self._log_tails = {}
        self.job = None            # as last seen
        self._updates = collections.deque(maxlen=5000)   # as far as the last fault may look back, oldest first
        self._best_step = 0
        self.events = []           # of the job, from the coordinators' logs
        self.lost_steps = 0        # that incidents have told of
        self.assigned = {}         # generation -> the step after which it goes on
        self.violations = []

    def poll(self):
        is_watch_over = self._watch.popen.poll() is not None  # before its last lines are read
        for line in self._watch_tail.lines():
            if line.startswith("{"):
                self._take_update(json.loads(line))
        for process in self._cluster.processes:
            if process.name == "coordinator":
                for line in self._log_tails.setdefault(process.log, Tail(process.log)).lines():
                    if line.startswith("{"):
                        self._take_event(json.loads(line))
        if is_watch_over and not self.has_ended():
            raise AssertionError(f"ringctl watch ended: {self._watch.output()[-1000:]}")

    def step(self):
        """The greatest step that was reported as committed."""
        return self._best_step

    def generation(self):
        return max(self.assigned, default=0)

    def is_running(self):
        """In the newest generation: the log tells of one before `ringctl watch` shows its members."""
        return (self.job is not None and self.job["state"] == "JOB_STATE_RUNNING"
                and generation_of(self.job) >= self.generation())

    def has_ended(self):
        return self.job is not None and self.job["state"] in ENDED

    def events_of(self, kind, since=0.0):
        return [event for event in self.events if event["event"] == kind and event["seconds"] >= since]

    def resumed_at(self, generation, since):
        """When a step beyond the resume step of a generation above `generation` was known, or None."""
        times = [event["seconds"] for event in self.events_of("job.resumed", since) if event["generation"] > generation]
        times += [update.at for update in self._updates_since(since)
                  if update.generation > generation and update.state == "JOB_STATE_RUNNING"
                  and update.step > self.assigned.get(update.generation, float("inf"))]
        return min(times, default=None)

    def stepped_at(self, since):
        """When the job was first seen to move on, from one step to a later one, after `since`; None if it was not."""
        first = None
        for update in self._updates_since(since):
            if update.step == 0:
                continue
            if first is None:
                first = update.step
            elif update.step > first:
                return update.at
        return None

    def _updates_since(self, since):
        """Oldest first."""
        newest_first = itertools.takewhile(lambda update: update.at >= since, reversed(self._updates))
        return reversed(list(newest_first))

    def _violation(self, text):
        self.violations.append(f"{time.strftime('%H:%M:%S')} {text}")

    def _take_update(self, job):
        generation, step = generation_of(job), step_of(job)
        # A coordinator that was started again has no figures until the members report.
        if step and step < self.step():
            self._violation(f"step went back from {self.step()} to {step} in generation {generation}")
        if self.job is not None and generation < generation_of(self.job):
            self._violation(f"generation went back from {generation_of(self.job)} to {generation}")
        lost = sum(int(incident.get("lost_steps", 0)) for incident in job.get("incidents", []))
        if lost > self.lost_steps:
            self.lost_steps = lost
            self._violation(f"an incident has lost steps: {json.dumps(job['incidents'])}")
        self.job = job
        self._best_step = max(self._best_step, step)
        self._updates.append(Update(time.time(), generation, job["state"], step, self._best_step))

    def _take_event(self, event):
        if event.get("job") != self._job_id:
            return
        event["seconds"] = seconds_of(event["time"])
        self.events.append(event)
        if event["event"] == "job.rolled_back":
            self._violation(f"the job went back: {event['message']}")
        if event["event"] == "job.assigned":
            self._take_assignment(event)

    def _take_assignment(self, event):
        generation, resume = event["generation"], event.get("step", 0)
        if generation <= self.generation():
            self._violation(f"generation {generation} follows {self.generation()}")
        known = next((update.best_step for update in reversed(self._updates) if update.at < event["seconds"]), 0)
        if resume < known:
            self._violation(f"generation {generation} goes on after step {resume}, but step {known} was committed")
        self.assigned[generation] = resume
