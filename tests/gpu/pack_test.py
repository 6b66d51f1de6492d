"""pack.py with the results of queries, and a program with a shared library."""

import contextlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import unittest

from tests import report
from tests.gpu import pack

PROGRAM = "tests/gpu/packed_program"
QUERY = """<?xml version="1.1" encoding="UTF-8" standalone="no"?><query version="2">
<rule class="cc_test" name="//a/b:kernel_test"><string name="name" value="kernel_test"/><string name="size" value="small"/>
 <list name="tags"><string value="gpu"/><string value="exclusive"/></list><list name="args"><string value="--quick"/></list></rule>
<rule class="py_test" name="//a:train_test"><string name="size" value="medium"/><string name="timeout" value="long"/>
 <list name="tags"><string value="gpu"/></list><label name="main" value="//a:training.py"/></rule>
<rule class="cc_binary" name="//a:copy_bench"><list name="tags"><string value="gpu_bench"/></list></rule>
<rule class="cc_binary" name="//w:worker"><list name="tags"/></rule>
</query>"""


class PackTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.query = self.directory / "query.xml"
        self.query.write_text(QUERY)
        self.bin = self.directory / "bazel-bin"
        self.out = self.directory / "bundle.tar.xz"

    def build(self):
        """Makes what Bazel would have built, each program a file of its own."""
        for name in ("a/b/kernel_test", "a/copy_bench", "w/worker"):
            path = self.bin / name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROGRAM, path)
        runfiles = self.bin / "a/train_test.runfiles/ringmaster"
        (runfiles / "a").mkdir(parents=True)
        (runfiles / "w").mkdir()
        (runfiles / "a/training.py").write_text("print('trained')\n")
        (runfiles / "w/worker").symlink_to(self.bin / "w/worker")
        extension = runfiles / pack.LEFT_OUT / "_C.so"
        extension.parent.mkdir(parents=True)
        extension.write_text("PyTorch's")
        (self.bin / "a/train_test").write_text("#!/usr/bin/env python3\n")
        kernel = self.bin / "a/b/kernel_test.runfiles/ringmaster/a/b"
        kernel.mkdir(parents=True)
        (kernel / "kernel_test").symlink_to(self.bin / "a/b/kernel_test")

    def pack(self, *arguments):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            status = pack.main([f"--bin={self.bin}", f"--out={self.out}", *arguments, str(self.query)])
        return status, errors.getvalue()

    def test_the_bundle_has_all_that_runs_and_its_libraries(self):
        self.build()
        self.assertEqual(self.pack(), (0, ""))
        with tarfile.open(self.out) as file:
            file.extractall(self.directory)
        top = self.directory / pack.TOP
        manifest = json.loads((top / "manifest.json").read_text())
        kernel, train = manifest["tests"] if manifest["tests"][0]["name"] == "//a/b:kernel_test" else manifest["tests"][::-1]
        self.assertEqual(kernel, {"name": "//a/b:kernel_test", "seconds": 60, "args": ["--quick"], "is_alone": True,
                                  "log": "a.b.kernel_test", "directory": None, "program": "a.b.kernel_test"})
        self.assertEqual((train["module"], train["seconds"], train["directory"]), ("a.training", 900, "runfiles/a.train_test/ringmaster"))
        self.assertEqual(manifest["benchmarks"], [{"name": "copy_bench", "program": "copy_bench", "seconds": 300}])
        # A test's data are links to the one copy.
        worker = top / train["directory"] / "w/worker"
        self.assertTrue(worker.is_symlink())
        self.assertEqual(worker.resolve(), (top / "bin/worker").resolve())
        self.assertFalse((top / train["directory"] / pack.LEFT_OUT).exists())
        self.assertTrue(list((top / "lib").glob("libz.so*")))
        output = subprocess.run([worker], capture_output=True, text=True, check=True, env={}).stdout
        self.assertIn("zlib", output)
        for script in ("tests/gpu/run.sh", "tests/gpu/run.py", "tests/gpu/step_vs_torch/driver.py", "tests/count_cases.py",
                       "deploy/common.sh", "LICENSE"):
            self.assertTrue((top / script).exists(), script)
        # It runs by itself: the programs end with 0, and the Python test runs in its data.
        result = subprocess.run([top / "tests/gpu/run.sh"], capture_output=True, text=True, check=False, cwd="/",
                                env={"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "-1"})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("2 passed, 0 failed", result.stdout)

    def test_a_bundle_that_is_too_large_is_not_written(self):
        self.build()
        status, errors = self.pack("--max_mib=0.001")
        self.assertEqual(status, 1)
        self.assertEqual(len(errors.splitlines()), 1, errors)
        self.assertRegex(errors, r"^error: the bundle has [\d.]+ MiB; at most 0.001 are allowed; the largest: ")
        self.assertFalse(self.out.exists())
        self.assertEqual(list(self.directory.glob("*.partial")), [])

    def test_what_is_not_built_is_named(self):
        self.assertIn("is no program; build it first", self.pack()[1])

    def test_labels_are_those_of_the_query(self):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            self.assertEqual(pack.main(["--list", str(self.query)]), 0)
        self.assertEqual(output.getvalue().split(), ["//a/b:kernel_test", "//a:copy_bench", "//a:train_test", "//w:worker"])

    def test_two_programs_of_one_name_are_refused(self):
        self.build()
        self.query.write_text(QUERY.replace("</query>", '<rule class="cc_binary" name="//v:worker"/></query>'))
        (self.bin / "v").mkdir()
        shutil.copy(PROGRAM, self.bin / "v/worker")
        self.assertIn("two programs have the name worker", self.pack()[1])


if __name__ == "__main__":
    report.main()
