"""Faults of the network between hosts (tests/integration/cluster.py), made with iproute2 alone.

A direction between two hosts is cut by a neighbour entry that sends what goes there to a hardware address which nobody
has: packets leave and arrive nowhere, as through a dead port. No error tells the sender, unlike a blackhole route, and
no filter of the kernel is needed. Cuts last until heal().
"""

import subprocess

NOBODY = "02:00:00:00:00:ff"


def _run(*argv):
    subprocess.run(argv, check=True, capture_output=True, text=True)


class Network:
    def __init__(self, hosts):
        self._hosts = hosts
        self._cuts = set()   # (from, to)
        self._down = set()   # hosts whose link is down

    def cut_one_way(self, source, target):
        """Drops everything from `source` to `target`."""
        _run("ip", "-n", source.name, "neigh", "replace", target.address, "lladdr", NOBODY, "dev", "eth0", "nud", "permanent")
        self._cuts.add((source, target))

    def cut_both_ways(self, one, other):
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def mute(self, host):
        """Drops everything that `host` sends."""
        for other in self._hosts:
            if other is not host:
                self.cut_one_way(host, other)

    def deafen(self, host):
        """Drops everything that is sent to `host`."""
        for other in self._hosts:
            if other is not host:
                self.cut_one_way(other, host)

    def link_down(self, host):
        _run("ip", "-n", host.name, "link", "set", "eth0", "down")
        self._down.add(host)

    def heal(self):
        for host in self._down:
            _run("ip", "-n", host.name, "link", "set", "eth0", "up")
        for source, target in self._cuts:
            # With the link down the entry is gone already.
            subprocess.run(["ip", "-n", source.name, "neigh", "del", target.address, "dev", "eth0"], capture_output=True)
        self._down.clear()
        self._cuts.clear()
