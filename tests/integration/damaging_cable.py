"""A cable between a host and the switch (see cluster.Hosts) that changes a byte of a frame on its way, where TCP does not see it.

    with Hosts(3) as hosts, DamagingCable(hosts, 1) as cable:
        cable.damage(at=24)         # of the next frame that host 1 sends: its sequence number

It stands for what TCP's checksum of 16 bits misses, or never covers: memory of a switch or of a network card that checks and
computes it anew. Here a relay moves packets between two packet sockets, as they left the host: their checksum is still to be
computed, so what it changes arrives with a good one.
"""

import select
import socket
import struct
import subprocess
import sys

from tests.integration.cluster import PATIENCE

# linux/if_packet.h, asm/socket.h
_SOL_PACKET = 263
_PACKET_VNET_HDR = 15
_PACKET_IGNORE_OUTGOING = 23
_SO_RCVBUFFORCE = 33
_ETH_P_ALL = 3
_VNET_HEADER = 10
_ETHERNET = 14
_FRAME_MAGIC = b"RMRF"


class DamagingCable:
    """Has to be made before anything on the host connects, and outlives all of that."""

    def __init__(self, hosts, index):
        self.switch = hosts.switch
        self.port, self.inner, self.outer = f"p{index}", f"q{index}", f"r{index}"

    def __enter__(self):
        run = lambda *argv: subprocess.run(["ip", "-n", self.switch, "link", *argv], check=True, capture_output=True)
        run("add", self.inner, "type", "veth", "peer", "name", self.outer)
        run("set", self.port, "nomaster")
        run("set", self.outer, "master", "br0")
        for end in (self.port, self.inner):
            run("set", end, "promisc", "on")
        for end in (self.inner, self.outer):
            run("set", end, "up")
        self.relay = subprocess.Popen(["ip", "netns", "exec", self.switch, sys.executable, __file__, self.port, self.inner],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._await("ready")
        return self

    def __exit__(self, *unused):
        self.relay.kill()
        self.relay.communicate()

    def _await(self, word):
        if not select.select([self.relay.stdout], [], [], PATIENCE)[0]:
            raise AssertionError(f"the cable did not say {word!r} in {PATIENCE} s")
        line = self.relay.stdout.readline()
        assert line.startswith(word), line

    def damage(self, at, least=0):
        """Changes byte `at`, counted from the frame's first, of the next frame of at least `least` bytes of payload that the host
        sends. Returns once it has."""
        print(at, least, file=self.relay.stdin, flush=True)
        self._await("damaged")


def _place(packet, at, least):
    """Where that byte is in a packet of the relay's, or None."""
    network = _VNET_HEADER + _ETHERNET
    if packet[network - 2:network] != b"\x08\x00" or packet[network + 9] != socket.IPPROTO_TCP:
        return None
    transport = network + 4 * (packet[network] & 15)
    begin = transport + 4 * (packet[transport + 12] >> 4)
    while (begin := packet.find(_FRAME_MAGIC, begin)) >= 0:
        if begin + 64 <= len(packet) and begin + at < len(packet) and struct.unpack_from("<I", packet, begin + 60)[0] >= least:
            return begin + at
        begin += 4
    return None


def _open(interface):
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(_ETH_P_ALL))
    end.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    end.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)
    end.bind((interface, _ETH_P_ALL))
    return end


def _relay(inside, outside):
    ends = {inside: outside, outside: inside}
    order = None
    print("ready", flush=True)
    while True:
        for ready in select.select([*ends, sys.stdin], [], [])[0]:
            if ready is sys.stdin:
                order = [int(word) for word in sys.stdin.readline().split()] or sys.exit()
                continue
            try:
                packet = bytearray(ready.recv(1 << 17))
            except BlockingIOError:
                continue
            place = _place(packet, *order) if order and ready is inside else None
            if place is not None:
                packet[place] ^= 0x10
                order = None
                print("damaged", flush=True)
            try:
                ends[ready].send(packet)
            except OSError:
                pass  # No room: lost, as on a cable; TCP sends it again.


if __name__ == "__main__":
    _relay(_open(sys.argv[1]), _open(sys.argv[2]))
