"""Workers that are started again when they die, by their own supervisor."""

import os
import signal


class Crew:
    """`worker --restart=always` on each host, or all of them on this machine's loopback."""

    def __init__(self, cluster, flags=()):
        self._cluster = cluster
        self._flags = list(flags)
        self.supervisors = {}

    def start(self, name, host=None):
        self.supervisors[name] = self._cluster.start_worker(name, *self._flags, host=host, restart="always")

    def stop(self, patience):
        """Asks all of them to end; returns the names of those that did not within `patience` seconds."""
        for supervisor in self.supervisors.values():
            supervisor.signal(signal.SIGTERM)
        hanging = []
        for name, supervisor in self.supervisors.items():
            try:
                supervisor.wait(patience)
            except Exception:  # pylint: disable=broad-except
                hanging.append(name)
        return hanging


def send(pid, number):
    """Whether the process was there to be signalled."""
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False
