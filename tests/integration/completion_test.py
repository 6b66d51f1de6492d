"""What `ringctl completion` prints completes command lines in a real bash and a real zsh, each at a terminal."""

import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from tests import report
from tests.integration import cluster

_PROMPT = "ready> "
# Escape sequences of a terminal: CSI, two bytes, and OSC up to its end.
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[ -/]*[0-Z\\-~])")

_SHELLS = {
    "bash": (["bash", "--noprofile", "--norc", "-i"], [
        "bind 'set completion-query-items 0'",
        "bind 'set page-completions off'",
        "bind 'set show-all-if-ambiguous on'",
        "bind 'set enable-bracketed-paste off'",
        "source <(ringctl completion bash)",
    ]),
    "zsh": (["zsh", "-f", "-i"], [
        "unsetopt prompt_cr prompt_sp",
        "LISTMAX=1000; zle_bracketed_paste=()",
        "autoload -U compinit && compinit -u -D",
        "source <(ringctl completion zsh)",
    ]),
}


class Shell:
    """An interactive shell on a pseudo-terminal of 200 columns, in a directory of its own."""

    def __init__(self, name, directory):
        argv, setup = _SHELLS[name]
        path = f"{pathlib.Path(cluster.binary('ringctl')).parent}:/usr/bin:/bin"
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            try:  # The child must not go on as a second run of the tests.
                os.chdir(directory)
                os.execvpe(argv[0], argv, {"PATH": path, "TERM": "xterm", "COLUMNS": "200", "LINES": "200", "HOME": directory,
                                           "PS1": _PROMPT, "LC_ALL": "C"})
            finally:
                os._exit(127)
        try:
            self._set_up(setup)
        except BaseException:
            self.end()
            raise

    def _set_up(self, setup):
        self._read_until(_PROMPT)
        for line in [*setup, f"stty cols 200 rows 200; PS1='{_PROMPT}'"]:
            shown = self.run(line)
            if "rror" in shown or "not found" in shown:
                raise AssertionError(f"the shell says {shown!r}")

    def run(self, line):
        # The line's echo does not hold the mark.
        self._write(line + "; echo do''ne\n")
        return self._read_until("done\r\n", _PROMPT)

    def complete(self, line, expected):
        """What the terminal shows after `line` and the tabulator, once all of `expected` are there; the line is given up."""
        self._write(line + "\t")
        shown = self._read_until(*expected)
        self._write("\x15")  # Ctrl-U: nothing is left of the line
        shown += self.run("true")
        return shown

    def end(self):
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._fd)

    def _write(self, text):
        os.write(self._fd, text.encode())

    def _read_until(self, *marks):
        text = ""
        deadline = time.monotonic() + cluster.PATIENCE
        while True:
            plain = _ESCAPES.sub("", text)
            missing = [mark for mark in marks if mark not in plain]
            if not missing:
                return plain
            if not select.select([self._fd], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"{missing} are not shown; the terminal shows {plain!r}")
            text += os.read(self._fd, 65536).decode(errors="replace")


class Cases:
    """The cases of each shell, which SHELL names."""

    def setUp(self):
        directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, directory)
        pathlib.Path(directory, "a_job.yaml").touch()
        self.shell = Shell(self.SHELL, directory)
        self.addCleanup(self.shell.end)

    def test_commands(self):
        self.shell.complete("ringctl ", ["submit", "status", "checkpoint", "completion"])
        self.assertNotIn("submit", self.shell.complete("ringctl canc", ["ringctl cancel "]))

    def test_commands_of_a_command(self):
        self.assertNotIn("submit", self.shell.complete("ringctl checkpoint ", ["export", "verify", "rm"]))
        self.shell.complete("ringctl checkpoint exp", ["checkpoint export "])

    def test_commands_and_flags_after_an_address(self):
        self.shell.complete("ringctl --coordinator=127.0.0.1:29400 checkpoint export --dt", ["export --dtype"])
        self.shell.complete("ringctl --coordinator 127.0.0.1:29400 statu", ["29400 status"])

    def test_values(self):
        self.shell.complete("ringctl status --output=j", ["--output=json"])
        self.shell.complete("ringctl status -o j", ["-o json"])

    def test_files(self):
        self.shell.complete("ringctl submit a_j", ["a_job.yaml"])


class BashTest(Cases, unittest.TestCase):
    SHELL = "bash"


class ZshTest(Cases, unittest.TestCase):
    SHELL = "zsh"


class RefusalTest(unittest.TestCase):
    def test_another_shell(self):
        result = subprocess.run([cluster.binary("ringctl"), "completion", "fish"], capture_output=True, text=True, timeout=cluster.PATIENCE)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertRegex(result.stderr, r'^error: .*"fish": give bash or zsh\n$')


if __name__ == "__main__":
    report.main()
