"""Runs the unittest cases of a file and tells Bazel of each of them.

Bazel counts a Python test as one. With this main, every case, and every skip with its reason, is in the test.xml that
Bazel collects, in JUnit's form, as GoogleTest's are.
"""

import os
import sys
import time
import unittest
import xml.etree.ElementTree as xml


class _Result(unittest.TextTestResult):
    """Prints as unittest does and keeps the cases."""

    def __init__(self, *args):
        super().__init__(*args)
        self.suite = xml.Element("testsuite", name=os.path.basename(sys.argv[0]))

    def startTest(self, test):
        super().startTest(test)
        self.case = xml.SubElement(self.suite, "testcase", name=test._testMethodName, classname=type(test).__name__)
        self.started = time.monotonic()

    def stopTest(self, test):
        self.case.set("time", f"{time.monotonic() - self.started:.3f}")
        super().stopTest(test)

    def _case_of(self, test):
        """The case that runs, or one for what unittest reports in place of a whole class that was skipped or has failed."""
        if isinstance(test, unittest.TestCase):
            return self.case
        return xml.SubElement(self.suite, "testcase", name=str(test), classname=type(test).__name__)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        xml.SubElement(self._case_of(test), "skipped", message=reason)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        xml.SubElement(self.case, "failure").text = self.failures[-1][1]

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            is_failure = issubclass(error[0], test.failureException)
            text = (self.failures if is_failure else self.errors)[-1][1]
            xml.SubElement(self.case, "failure" if is_failure else "error").text = text

    def addError(self, test, error):
        super().addError(test, error)
        xml.SubElement(self._case_of(test), "error").text = self.errors[-1][1]


def main():
    runner = unittest.TextTestRunner(resultclass=_Result, verbosity=2)
    program = unittest.main(module="__main__", testRunner=runner, exit=False)
    path = os.environ.get("XML_OUTPUT_FILE")
    if path:
        suites = xml.Element("testsuites")
        suites.append(program.result.suite)
        xml.ElementTree(suites).write(path)
    sys.exit(not program.result.wasSuccessful())
