"""The report of a test program has every case, also of a class that was skipped or failed as a whole."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

from tests import report

PROGRAM = """
import sys, unittest
sys.path[:0] = %r
from tests import report

class Skipped(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise unittest.SkipTest("no programs")
    def test_nothing(self):
        pass

class Broken(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise OSError("gone")
    def test_nothing(self):
        pass

class Cases(unittest.TestCase):
    def test_good(self):
        pass
    def test_bad(self):
        self.fail("no")
    def test_wrong(self):
        raise OSError("gone")
    def test_skipped(self):
        self.skipTest("why")

report.main()
"""


class ReportTest(unittest.TestCase):
    def test_each_case_has_its_outcome(self):
        with tempfile.TemporaryDirectory() as directory:
            program = pathlib.Path(directory) / "cases.py"
            program.write_text(PROGRAM % [path for path in sys.path if path], encoding="utf-8")
            path = pathlib.Path(directory) / "test.xml"
            result = subprocess.run([sys.executable, str(program)], env={**os.environ, "XML_OUTPUT_FILE": str(path)},
                                    capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 1, result.stderr)
            cases = xml.parse(path).findall(".//testcase")
        outcomes = sorted((case.get("name").split(" ")[0], *(child.tag for child in case)) for case in cases)
        self.assertEqual(outcomes, [("setUpClass", "error"), ("setUpClass", "skipped"), ("test_bad", "failure"), ("test_good",),
                                    ("test_skipped", "skipped"), ("test_wrong", "error")])


if __name__ == "__main__":
    report.main()
