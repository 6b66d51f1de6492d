"""The kinds of faults: what is done, who may be blamed for it, and on what evidence.

Each is a function of a Chaos (chaos.py) that injects the fault and returns a Fault. Victims are drawn by the chaos's own
seeded generator.
"""

import dataclasses
import signal
import time
from typing import Callable, Optional

from tests.chaos import connections

DEAD = {"EVIDENCE_KIND_STREAM_BROKEN", "EVIDENCE_KIND_SUPERVISOR_REPORT", "EVIDENCE_KIND_LEASE_EXPIRED",
        "EVIDENCE_KIND_SUPERSEDED", "EVIDENCE_KIND_PEER_REPORT"}
SILENT = {"EVIDENCE_KIND_LEASE_EXPIRED", "EVIDENCE_KIND_HALT_UNANSWERED", "EVIDENCE_KIND_PEER_REPORT",
          "EVIDENCE_KIND_STREAM_BROKEN", "EVIDENCE_KIND_NO_PROGRESS"}


@dataclasses.dataclass
class Fault:
    kind: str
    victims: list                 # names of workers; "coordinator"
    at: float                     # when the last part of it was injected, in seconds since 1970
    generation: int               # the last one that was assigned before it
    survivors: dict               # {worker: pid} that must go on as they are
    evidence: set = dataclasses.field(default_factory=set)
    reforms: bool = True          # a new generation follows
    blames_one: bool = False      # any one of the victims goes; else all of them
    spares_all: bool = False      # nobody goes; a new generation may follow
    freezes_all: bool = False     # so training stood still, whether or not a new generation followed
    undo: Optional[Callable] = None

    def __str__(self):
        return f"{self.kind} of {', '.join(self.victims)}" if self.victims else self.kind

    def stops_training(self):
        """Returns False if steps go on, so that it is not time lost until one is seen."""
        return self.reforms or self.freezes_all


def _fault(chaos, kind, members, victims, **settings):
    chaos.observer.poll()
    survivors = {name: pid for name, pid in members.items() if name not in victims}
    return Fault(kind, list(victims), time.time(), chaos.observer.generation(), survivors, **settings)


def _kill_all(chaos, kind, members, victims):
    fault = _fault(chaos, kind, members, victims, evidence=DEAD)
    for name in victims:
        chaos.signal(members[name], signal.SIGKILL)
    return fault


def kill(chaos, count=1, kind="kill"):
    """kill -9 of `count` workers at once."""
    return _kill_all(chaos, kind, chaos.members(), chaos.choose(count))


def kill_several(chaos):
    """kill -9 of two workers or more at once; one is left."""
    return kill(chaos, chaos.random.randint(2, max(2, len(chaos.members()) - 1)), "kill_several")


def kill_twice(chaos):
    """kill -9 of a worker, and of another one while the job recovers from the first; of one alone where no second may go."""
    members = chaos.members()
    victims = chaos.choose(2)
    if len(victims) == 1:
        return _kill_all(chaos, "kill_twice", members, victims)
    chaos.signal(members[victims[0]], signal.SIGKILL)
    chaos.pause(chaos.random.uniform(0.0, 0.05))
    fault = _fault(chaos, "kill_twice", members, victims, evidence=DEAD)
    chaos.signal(members[victims[1]], signal.SIGKILL)
    return fault


def kill_newcomer(chaos):
    """kill -9 of a worker, and again as soon as it is a member of a generation again."""
    members = chaos.members()
    victim = chaos.choose(1, times=2)[0]
    chaos.signal(members[victim], signal.SIGKILL)
    chaos.await_return(f"{victim} is a member again",
                       lambda: chaos.members().get(victim, members[victim]) != members[victim])
    again = chaos.members()
    fault = _fault(chaos, "kill_newcomer", members, [victim], evidence=DEAD)
    chaos.signal(again[victim], signal.SIGKILL)
    return fault


def freeze(chaos):
    """SIGSTOP until the worker is evicted, then SIGCONT: it must come back without changing anything."""
    members = chaos.members()
    victim = chaos.choose(1)[0]
    fault = _fault(chaos, "freeze", members, [victim], evidence=SILENT,
                   undo=lambda: chaos.signal(members[victim], signal.SIGCONT))
    chaos.signal(members[victim], signal.SIGSTOP)
    return fault


def _network(chaos, kind, action):
    members = chaos.members()
    victim = chaos.choose(1)[0]
    fault = _fault(chaos, kind, members, [victim], evidence=SILENT, undo=chaos.network.heal)
    action(chaos.hosts[victim])
    return fault


def link_down(chaos):
    """A worker's link goes down, both ways."""
    return _network(chaos, "link_down", chaos.network.link_down)


def mute(chaos):
    """A worker's messages are lost; it still receives."""
    return _network(chaos, "mute", chaos.network.mute)


def deafen(chaos):
    """Messages to a worker are lost; it still sends."""
    return _network(chaos, "deafen", chaos.network.deafen)


def cut_pair(chaos):
    """The link between two that exchange gradients; both reach everybody else. One of them goes."""
    members = chaos.members()
    pair = chaos.random.choice([pair for pair in chaos.pairs() if not set(pair) & set(chaos.options.spared)])
    fault = _fault(chaos, "cut_pair", members, pair, evidence=SILENT, blames_one=True, undo=chaos.network.heal)
    chaos.network.cut_both_ways(chaos.hosts[pair[0]], chaos.hosts[pair[1]])
    chaos.note_broken_pair()
    return fault


def reset(chaos):
    """The connections between two that exchange gradients are reset. All go on; one of the two goes if that happens to them often."""
    members = chaos.members()
    pair = chaos.random.choice([pair for pair in chaos.pairs() if not set(pair) & set(chaos.options.spared)])
    fault = _fault(chaos, "reset", members, pair, evidence=SILENT, blames_one=True)
    connections.reset(members[pair[0]], chaos.hosts[pair[1]].address)
    return fault


def cut_coordinator(chaos):
    """The link between a worker and the coordinator, for longer than a lease: its peers' steps prove that it lives."""
    members = chaos.members()
    victim = chaos.choose(1, times=0)[0]
    fault = _fault(chaos, "cut_coordinator", members, [victim], reforms=False, undo=chaos.network.heal)
    chaos.network.cut_both_ways(chaos.hosts[victim], chaos.coordinator_host)
    chaos.pause(1.2 * chaos.options.budget)
    return fault


def coordinator(chaos):
    """kill -9 of the coordinator, which is started again; training goes on meanwhile."""
    members = chaos.members()
    fault = _fault(chaos, "coordinator", members, ["coordinator"], reforms=False)
    chaos.restart_coordinator(chaos.random.uniform(0.0, 1.0))
    return fault


def coordinator_and_worker(chaos):
    """kill -9 of the coordinator and of a worker."""
    members = chaos.members()
    victim = chaos.choose(1)[0]
    fault = _fault(chaos, "coordinator_and_worker", members, [victim], evidence=DEAD | SILENT)
    chaos.kill_coordinator()
    chaos.signal(members[victim], signal.SIGKILL)
    chaos.restart_coordinator(chaos.random.uniform(0.0, 1.0))
    return fault


def _freeze_for(chaos, pids, seconds):
    """SIGSTOP of several processes at once, and SIGCONT later."""
    for pid in pids:
        chaos.signal(pid, signal.SIGSTOP)
    try:
        chaos.pause(seconds)
    finally:
        for pid in pids:
            chaos.signal(pid, signal.SIGCONT)


def freeze_all(chaos):
    """SIGSTOP of all workers for longer than a lease, as when a host of virtual machines pauses: nobody may go."""
    members = chaos.members()
    _freeze_for(chaos, members.values(), 1.5 * chaos.options.budget)
    return _fault(chaos, "freeze_all", members, [], reforms=False, spares_all=True, freezes_all=True)


def freeze_coordinator(chaos):
    """SIGSTOP of the coordinator, for longer than a lease: its own silence is nobody else's."""
    members = chaos.members()
    _freeze_for(chaos, [chaos.coordinator_pid()], 1.5 * chaos.options.budget)
    return _fault(chaos, "freeze_coordinator", members, [], reforms=False, spares_all=True)


def coordinator_link(chaos):
    """The coordinator's own link goes down, for longer than a lease; the workers reach each other."""
    members = chaos.members()
    chaos.network.link_down(chaos.coordinator_host)
    try:
        chaos.pause(1.5 * chaos.options.budget)
    finally:
        chaos.network.heal()
    return _fault(chaos, "coordinator_link", members, [], reforms=False, spares_all=True)


# In the order in which they are tried first. A broken pair is kept apart for a while, so it comes last.
KINDS = {function.__name__: function for function in (
    kill, kill_newcomer, kill_several, kill_twice, freeze, link_down, mute, deafen, cut_coordinator, coordinator,
    coordinator_and_worker, freeze_all, freeze_coordinator, coordinator_link, reset, cut_pair)}
