"""PyTorch scripts under `ringctl run`, for tests."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

from tests.integration.cluster import PATIENCE, binary

# PyTorch is of Debian's interpreter.
PYTHON = "/usr/bin/python3"
AS_IS = "--backend=as_is"


class TorchCase(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ringmaster-torch-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        bin_dir = self.directory / "bin"
        bin_dir.mkdir()
        for name in ("coordinator", "worker"):
            (bin_dir / name).symlink_to(binary(name))

    def command(self, *words, ranks=3):
        """`words` are flags of `ringctl run`, and the arguments of Python behind them."""
        return [binary("ringctl"), "run", f"--bin_dir={self.directory / 'bin'}", f"--run_dir={self.directory / 'logs'}", "-n", str(ranks),
                *words]

    def run_here(self, script, *flags, arguments=(), ranks=3, timeout=PATIENCE):
        path = self.directory / "script.py"
        path.write_text(script)
        return subprocess.run(self.command(*flags, PYTHON, str(path), *arguments, ranks=ranks), capture_output=True, text=True,
                              timeout=timeout, stdin=subprocess.DEVNULL, cwd=self.directory)
