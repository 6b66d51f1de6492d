"""Resets of a process's TCP connections, as by a device on the way that forgets them, made without a filter of the kernel.

The process's own socket is borrowed (pidfd_getfd) and dissolved, for which the kernel sends the peer a reset. Needs root.
"""

import contextlib
import ctypes
import os
import socket
import struct

PIDFD_GETFD = 438
_libc = ctypes.CDLL(None, use_errno=True)


def reset(pid, address):
    """Resets all connections of the process with the host at `address`; returns how many there were."""
    count = 0
    for borrowed in _sockets_of(pid):
        with borrowed:
            if _peer_of(borrowed) == address:
                _dissolve(borrowed)
                count += 1
    return count


def _sockets_of(pid):
    pidfd = os.pidfd_open(pid)
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                if not os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                    continue
                fd = _libc.syscall(PIDFD_GETFD, pidfd, int(name), 0)
                if fd >= 0:
                    yield socket.socket(fileno=fd)
    finally:
        os.close(pidfd)


def _peer_of(connection):
    """The address of the host at its other end; None without one."""
    if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
        return None
    with contextlib.suppress(OSError):
        return connection.getpeername()[0].removeprefix("::ffff:")
    return None


def _dissolve(connection):
    """connect() to AF_UNSPEC, which Python's socket does not know."""
    nobody = struct.pack("H14x", socket.AF_UNSPEC)
    if _libc.connect(connection.fileno(), nobody, len(nobody)) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
