"""Workers and parameter servers that are started again when they die, by their own supervisor."""

import os
import signal


class Crew:
    """Programs with --restart=always on each host, or all of them on this machine's loopback."""

    def __init__(self, cluster, flags=()):
        self._cluster = cluster
        self._flags = list(flags)
        self.supervisors = {}

    def start(self, name, host=None, is_server=False):
        start = self._cluster.start_server if is_server else self._cluster.start_worker
        self.supervisors[name] = start(name, *self._flags, host=host, restart="always")

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
    """Returns True if the process was there to be signalled."""
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False
