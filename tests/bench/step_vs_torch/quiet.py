"""Says whether other programs used the cores during a measurement.

  watch = Quiet()                    # some tenths of a second: learns what the probe takes at best
  before = watch.begin()
  ... run and wait for child processes ...
  reason = watch.disturbance(before) # None if it was quiet

Two things are looked at. A probe as in tests/bench/allreduce_vs_peers: a fixed piece of arithmetic on every core at once takes no more
than 1.3 times its best, before and after. And, as a step lasts long enough to be disturbed in its middle, the kernel's
account of all processors: what children of this process did not use is somebody else's.
"""

import collections
import hashlib
import os
import resource
import threading
import time

MAX_PROBE = 1.3
MAX_OTHERS = 0.05  # of all cores

Account = collections.namedtuple("Account", "wall busy own probe")


def _busy_seconds():
    """Busy time of all processors since boot, stolen time included."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq, steal = (int(field) for field in file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own_seconds():
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


class Quiet:
    def __init__(self, max_others=MAX_OTHERS):
        self._max_others = max_others
        self._best = min(self._probe() for _ in range(100))

    def _probe(self):
        """Seconds of the slowest core. hashlib lets the other threads run."""
        cores = sorted(os.sched_getaffinity(0))
        block = bytes(1 << 20)
        barrier = threading.Barrier(len(cores))
        took = []

        def work(core):
            os.sched_setaffinity(0, {core})  # of this thread
            barrier.wait()
            started = time.perf_counter()
            hashlib.sha256(block).digest()
            took.append(time.perf_counter() - started)

        threads = [threading.Thread(target=work, args=(core,)) for core in cores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return max(took)

    def begin(self):
        probe = min(self._probe() for _ in range(5))
        return Account(time.monotonic(), _busy_seconds(), _own_seconds(), probe)

    def disturbance(self, before):
        """Returns None, or says what else ran since `before`. All children that ran must have been waited for."""
        wall = time.monotonic() - before.wall
        others = (_busy_seconds() - before.busy) - (_own_seconds() - before.own)
        share = others / (wall * os.cpu_count())
        if share > self._max_others:
            return f"others had {share:.0%} of the cores"
        probe = max(before.probe, min(self._probe() for _ in range(5)))
        if probe > MAX_PROBE * self._best:
            return f"the probe took {probe / self._best:.1f} times its best"
        return None
