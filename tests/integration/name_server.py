"""A name server whose answers a test sets while it runs, in a network namespace of its own.

    with NameServer("ns", "10.77.0.254") as names:
        names["head.test"] = "10.77.0.1"
        names["head.test"] = SILENT

A name that was never set does not exist (NXDOMAIN). It knows IPv4 addresses alone: a name that exists has no others.
"""

import contextlib
import ctypes
import os
import socket
import struct
import threading

SILENT = "silent"
SERVER_FAILURE = "server failure"
NO_SUCH_NAME = "no such name"

_CLONE_NEWNET = 0x40000000
_TYPE_A = 1
# Bits of a response to which recursion is available, and its codes.
_RESPONSE = 0x8180
_CODES = {SERVER_FAILURE: 2, NO_SUCH_NAME: 3}


def _question(query):
    """Returns the name asked for, the type of record, and the offset of the question's end."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode())
        at += 1 + query[at]
    return ".".join(labels).lower(), struct.unpack_from("!H", query, at + 1)[0], at + 5


def answer_to(query, records):
    """Returns the response to `query`, or None for no response."""
    name, kind, end = _question(query)
    record = records.get(name, NO_SUCH_NAME)
    if record == SILENT:
        return None
    code = _CODES.get(record, 0)
    address = socket.inet_aton(record) if code == 0 and kind == _TYPE_A else b""
    header = query[:2] + struct.pack("!HHHHH", _RESPONSE | code, 1, 1 if address else 0, 0, 0)
    # The record's name is a pointer to the question's; it may not be kept.
    resource = struct.pack("!HHHIH", 0xC00C, _TYPE_A, 1, 0, len(address)) + address if address else b""
    return header + query[12:end] + resource


class NameServer:
    def __init__(self, namespace, address):
        self.address = address
        self._namespace = namespace
        self._records = {}
        self._asked = {}
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._serve)
        self._socket = None

    def __enter__(self):
        self._socket = self._listen()
        self._thread.start()
        return self

    def __exit__(self, *unused):
        # Wakes the thread, which sees an empty datagram; it does not matter that the socket is not connected.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def __setitem__(self, name, record):
        with self._lock:
            self._records[name] = record

    def asked(self, name):
        """Returns how many questions came for the name."""
        with self._lock:
            return self._asked.get(name, 0)

    def _listen(self):
        """A socket belongs to the namespace that its thread was in when it was made."""
        made = []

        def make():
            libc = ctypes.CDLL(None, use_errno=True)
            with open(f"/run/netns/{self._namespace}", "rb") as namespace:
                if libc.setns(namespace.fileno(), _CLONE_NEWNET) != 0:
                    made.append(OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno())))
                    return
            server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            server.bind((self.address, 53))
            made.append(server)

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        if not made or isinstance(made[0], OSError):
            raise made[0] if made else AssertionError(f"no name server at {self.address}")
        return made[0]

    def _serve(self):
        while True:
            try:
                query, sender = self._socket.recvfrom(4096)
            except OSError:
                return
            if not query:
                return
            with self._lock:
                name = _question(query)[0]
                self._asked[name] = self._asked.get(name, 0) + 1
                answer = answer_to(query, self._records)
            if answer:
                self._socket.sendto(answer, sender)
