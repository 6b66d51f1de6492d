"""Runs one program, with everything that it starts, for a limited time."""

import collections
import os
import re
import signal
import subprocess
import threading
import time

# status: what exit gave, negative for a signal; None if it was killed because its time was over.
Ended = collections.namedtuple("Ended", "status seconds note")

LAST_WAIT = 5.0  # a process in a driver's call may not end even when killed
TO_CLEAN_UP = 5.0  # for one that is interrupted: it ends what it has started in sessions of their own

_FAILURE = re.compile(r": Failure$|^(FAIL|ERROR): |^Traceback |AddressSanitizer|terminate called")

_lock = threading.Lock()
_running = set()  # guarded by _lock: process groups


def run(command, log, seconds, environment=None, directory=None, stdout=None):
    """Its output goes to the file `log`, its standard output to `stdout` if that is given. When its time is over it is
    interrupted. Kills its whole process group at the end, so that nothing stays on the GPU."""
    started = time.monotonic()
    note = ""
    with open(log, "ab") as output:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout or output, stderr=output,
                                       env=environment, cwd=directory, start_new_session=True)
        except OSError as error:
            return Ended(127, 0.0, f"does not start: {error}")
        with _lock:
            _running.add(process.pid)
        try:
            status = process.wait(timeout=max(seconds, 0.0))
        except subprocess.TimeoutExpired:
            status = None
            interrupt(process)
        finally:
            with _lock:
                _running.discard(process.pid)
            kill(process.pid)
        if status is None:
            try:
                process.wait(timeout=LAST_WAIT)
            except subprocess.TimeoutExpired:
                note = "does not end when killed"
    return Ended(status, time.monotonic() - started, note)


def interrupt(process):
    kill(process.pid, signal.SIGINT)
    try:
        process.wait(timeout=TO_CLEAN_UP)
    except subprocess.TimeoutExpired:
        pass


def kill_all():
    """Ends what run() waits for in other threads."""
    with _lock:
        for group in _running:
            kill(group)


def kill(group, number=signal.SIGKILL):
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        pass


def telling_lines(log, count=10, most=1 << 20):
    """The part of a log worth showing: its first failure, as GoogleTest and unittest write it, or else its end."""
    with open(log, "rb") as file:
        lines = file.read(most).decode(errors="replace").splitlines()
        first = next((number for number, line in enumerate(lines) if _FAILURE.search(line)), None)
        if first is not None:
            return lines[first:first + count]
        file.seek(max(0, os.path.getsize(log) - most))
        return file.read().decode(errors="replace").splitlines()[-count:]


def last_line(log):
    """The last one that has text, or ""."""
    with open(log, "rb") as file:
        file.seek(max(0, os.path.getsize(log) - 10000))
        lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
