"""A side of step_vs_torch while it runs: the process, and its answers by their deadlines."""

import json
import os
import queue
import shlex
import signal
import subprocess
import threading
import time

CANNOT_RUN = 2


class SideError(Exception):
    """One line; is_failure is False where the side said that it cannot run here."""

    def __init__(self, text, is_failure=True):
        super().__init__(text)
        self.is_failure = is_failure


class Side:
    """Ends with its whole process group. log: where its standard error goes."""

    def __init__(self, command, log):
        self._command, self._log = command, log
        self._answers = queue.Queue()
        with open(log, "wb") as errors:
            try:
                self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                                                 start_new_session=True)
            except OSError as error:
                raise SideError(f"{shlex.join(command)} does not start: {error}") from None
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._process.stdout:
            try:
                answer = json.loads(line)
            except ValueError:
                continue
            if isinstance(answer, dict):
                self._answers.put(answer)
        self._answers.put(None)

    def _last_words(self):
        with open(self._log, encoding="utf-8", errors="replace") as file:
            lines = [line for line in file.read().splitlines() if line.strip()]
        return lines[-1] if lines else "it says nothing"

    def wait_for(self, kind, seconds):
        """The answer of that kind."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                answer = self._answers.get(timeout=max(deadline - time.monotonic(), 0.0))
            except queue.Empty:
                # Compiling may take longer than there is time; a round that does not end is a hang.
                raise SideError(f"no {kind!r} within {seconds:.0f} s", kind != "ready") from None
            if answer is None:
                status = self._process.wait()
                raise SideError(f"exit status {status}: {self._last_words()}", status != CANNOT_RUN)
            if kind in answer:
                return answer[kind]

    def ask(self, command, seconds):
        try:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # its exit status says more
        return self.wait_for(command, seconds)

    def end(self, seconds):
        """What it says at its end, which this waits for."""
        try:
            self._process.stdin.close()
        except OSError:
            pass
        last = self.wait_for("end", seconds)
        try:
            status = self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise SideError(f"it has not ended within {seconds:.0f} s") from None
        if status != 0:
            raise SideError(f"exit status {status} at its end: {self._last_words()}")
        return last

    def kill(self):
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            pass  # a driver holds it
