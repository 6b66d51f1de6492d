"""run.sh on bundles of programs that pass, fail, hang and skip; nothing here needs a GPU."""

import json
import os
import pathlib
import signal
import subprocess
import tarfile
import tempfile
import time
import unittest

from tests import report
from tests.gpu import benchmarks
from tests.gpu import cases
from tests.gpu import host
from tests.gpu import programs
from tests.gpu import table

RUN = "tests/gpu/run.sh"
PATIENCE = 50
XML = "<testsuites><testsuite>{}</testsuite></testsuites>"
PASSED = '<testcase name="Works" classname="A" status="run" result="completed"/>'
SKIPPED = '<testcase name="Waits" classname="A" result="skipped"><skipped message="a_test.cc:3&#x0A;no GPU here"/></testcase>'
BROKEN = '<testcase name="Breaks" classname="A" status="run"><failure message="no"/></testcase>'


def writes(*found, then="exit 0"):
    return f"cat >\"$XML_OUTPUT_FILE\" <<'X'\n{XML.format(''.join(found))}\nX\n{then}\n"


class Bundle:
    """A folder as pack.py makes it, with shell scripts for programs."""

    def __init__(self, directory):
        self.root = pathlib.Path(directory) / "ringmaster-gpu"
        self.out = pathlib.Path(directory) / "out"
        (self.root / "bin").mkdir(parents=True)
        self.tests, self.benchmarks = [], []

    def program(self, name, script):
        path = self.root / "bin" / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    def test(self, name, script, seconds=20, **more):
        self.program(name, script)
        self.tests.append({"name": f"//a:{name}", "program": name, "seconds": seconds, "args": [], "is_alone": False, "log": name,
                           "directory": None, **more})

    def benchmark(self, name, script):
        self.program(name, script)
        self.benchmarks.append({"name": name, "program": name, "seconds": 20})

    def write(self):
        manifest = {"commit": "abc", "config": "cuda", "tests": self.tests, "benchmarks": self.benchmarks}
        (self.root / "manifest.json").write_text(json.dumps(manifest))

    def run(self, *arguments, environment=None, bundle=None):
        self.write()
        return subprocess.run([RUN, str(bundle or self.root), f"--out={self.out}", *arguments], capture_output=True, text=True,
                              timeout=PATIENCE, check=False, env=dict(os.environ, **(environment or {})))

    def results(self):
        document = json.loads((self.out / "results.json").read_text())
        return {test["name"][4:]: test for test in document["tests"]}


class RunTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.bundle = Bundle(self.directory)

    def test_each_outcome_is_told_apart_and_counted_by_cases(self):
        self.bundle.test("good", writes(PASSED, PASSED, SKIPPED))
        self.bundle.test("silent", "true")
        self.bundle.test("skips", writes(SKIPPED))
        self.bundle.test("breaks", "echo expected 1 got 2\n" + writes(PASSED, BROKEN, then="exit 1"))
        self.bundle.test("crashes", "kill -SEGV $$")
        self.bundle.test("hangs", "sleep 600 & sleep 600", seconds=1)
        result = self.bundle.run()
        self.assertEqual(result.returncode, 1, result.stderr)
        found = self.bundle.results()
        self.assertEqual({name: test["outcome"] for name, test in found.items()},
                         {"good": "passed", "silent": "passed", "skips": "skipped", "breaks": "failed", "crashes": "failed",
                          "hangs": "hung"})
        self.assertEqual((found["good"]["passed"], found["good"]["skipped"], found["good"]["note"]), (2, 1, "no GPU here"))
        self.assertEqual(found["skips"]["note"], "no GPU here")
        self.assertIn("A.Breaks; see ", found["breaks"]["note"])
        self.assertIn("signal 11", found["crashes"]["note"])
        self.assertIn("had not ended within 1 s", found["hangs"]["note"])
        self.assertIn("expected 1 got 2", result.stdout)  # a failing program's last lines
        self.assertIn("4 passed, 3 failed, 2 skipped, 0 tests not run", result.stdout.splitlines()[-1])
        self.assertEqual((self.bundle.out / "table.md").read_text().splitlines()[-1], result.stdout.splitlines()[-1])

    def test_what_a_hanging_test_started_is_ended_too(self):
        self.bundle.test("hangs", f"sleep 600 & echo $! >{self.directory}/pid; wait", seconds=1)
        self.bundle.run()
        pid = int((self.directory / "pid").read_text())
        deadline = time.monotonic() + 20
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                break
            time.sleep(0.05)
        else:
            self.assertFalse(os.path.exists(f"/proc/{pid}"))

    def test_what_hangs_may_end_what_it_started_in_a_session_of_its_own(self):
        self.bundle.test("hangs", f"trap 'kill $child; echo ended >{self.directory}/child; exit 1' INT\n"
                         "setsid sleep 600 & child=$!; wait", seconds=1)
        self.bundle.run()
        self.assertEqual(self.bundle.results()["hangs"]["outcome"], "hung")
        self.assertEqual((self.directory / "child").read_text(), "ended\n")

    def test_what_has_no_time_is_not_run_and_no_failure(self):
        self.bundle.test("first", "sleep 600")
        self.bundle.test("second", "true")
        result = self.bundle.run("--budget=10", "--tests_share=0.2", "--jobs=1")
        self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
        found = self.bundle.results()
        self.assertEqual({test["outcome"] for test in found.values()}, {"not run"})
        self.assertIn("no time was left", found["first"]["note"])
        self.assertEqual(found["second"]["note"], "no time was left")

    def test_without_a_gpu_benchmarks_are_not_run_and_the_table_says_why(self):
        self.bundle.test("skips", writes(SKIPPED))
        # Also where this host has a GPU.
        result = self.bundle.run(environment={"CUDA_VISIBLE_DEVICES": "-1"})
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = [line for line in result.stdout.splitlines() if line.startswith("| GPT-2 124M") or line.startswith("| all-reduce")]
        self.assertEqual(len(rows), 2, result.stdout)
        for row in rows:
            self.assertEqual(row.count("not run"), 3, row)
            self.assertIn("no GPU: ", row)
        self.assertIn("0 benchmarks ran", result.stdout.splitlines()[-1])

    def test_a_packed_bundle_runs_as_its_folder_does(self):
        self.bundle.test("good", writes(PASSED))
        self.bundle.write()
        packed = self.directory / "bundle.tar.gz"
        with tarfile.open(packed, "w:gz") as file:
            file.add(self.bundle.root, "ringmaster-gpu")
        result = self.bundle.run(bundle=packed)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("1 passed, 0 failed", result.stdout)

    def test_modules_where_it_is_called_from_do_not_matter(self):
        self.bundle.test("good", "true")
        self.bundle.write()
        (self.directory / "tests").mkdir()
        (self.directory / "tests" / "__init__.py").write_text("raise SystemExit('of somebody else')")
        result = subprocess.run([os.path.abspath(RUN), str(self.bundle.root), f"--out={self.bundle.out}"], capture_output=True,
                                text=True, timeout=PATIENCE, check=False, cwd=self.directory)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_a_test_has_its_data_and_its_own_scratch(self):
        data = self.bundle.root / "runfiles" / "a.reads" / "ringmaster"
        data.mkdir(parents=True)
        (data / "golden.txt").write_text("42")
        self.bundle.test("reads", '[[ $(cat golden.txt) == 42 && $(cat "$TEST_SRCDIR/ringmaster/golden.txt") == 42 && -d $TEST_TMPDIR ]]',
                         directory="runfiles/a.reads/ringmaster")
        module = data / "gpu_case.py"
        module.write_text("import os, sys\nassert os.path.exists('golden.txt') and sys.argv[1] == '--quick'\n")
        self.bundle.tests.append({"name": "//a:python", "module": "gpu_case", "seconds": 20, "args": ["--quick"], "is_alone": True,
                                  "log": "python", "directory": "runfiles/a.reads/ringmaster"})
        result = self.bundle.run()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("2 passed", result.stdout)

    def test_an_interrupt_ends_the_tests_and_prints_what_is_known(self):
        self.bundle.test("waits", f"echo >{self.directory}/started; sleep 600", seconds=600)
        self.bundle.write()
        with subprocess.Popen([RUN, str(self.bundle.root), f"--out={self.bundle.out}"], stdout=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + 20
            while not (self.directory / "started").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assertIn("interrupted", output)

    def test_what_is_no_bundle_is_refused_in_one_line(self):
        empty = self.directory / "empty"
        empty.mkdir()
        broken = self.directory / "broken.tar.gz"
        broken.write_bytes(b"no archive")
        for bundle, words in ((empty, "no manifest.json"), (broken, "cannot be unpacked"),
                              (self.directory / "nothing", "make it with tests/gpu/run.sh --build")):
            result = self.bundle.run(bundle=bundle)
            self.assertEqual(result.returncode, 2, result.stdout)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            self.assertIn(words, result.stderr)
        (empty / "manifest.json").write_text("{}")
        self.assertIn("'commit'", self.bundle.run(bundle=empty).stderr)
        self.assertEqual(self.bundle.run("--budget=1").returncode, 2)

    def test_building_without_a_toolkit_is_refused_in_one_line(self):
        result = subprocess.run([RUN, "--build"], capture_output=True, text=True, timeout=PATIENCE, check=False,
                                env=dict(os.environ, CUDA_HOME="/nonexistent"))
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertEqual(result.stderr, "error: --config=cuda needs the CUDA toolkit: there is none in /nonexistent (set CUDA_HOME)\n")
        result = subprocess.run([RUN, "--build", "--fast"], capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertIn("unknown argument '--fast'", result.stderr)


class BenchmarksTest(unittest.TestCase):
    """With a host that says that it has a GPU."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.bundle = Bundle(directory.name)
        self.bundle.out.mkdir()
        self.host = host.Host([{"name": "NVIDIA H200", "memory_gib": 140}], "", "13.0", {}, dict(os.environ))

    def run_one(self, script, seconds=20.0):
        self.bundle.benchmark("bench", script)
        self.bundle.write()
        benchmark = benchmarks.of_bundle(json.loads((self.bundle.root / "manifest.json").read_text()))[-1]
        return benchmarks.run(benchmark._replace(seconds=seconds), self.bundle.root, self.bundle.out, self.host, time.monotonic() + 30)

    def test_rows_are_read_and_other_lines_are_not(self):
        row = {"what": "copy", "unit": "GB/s", "ours": 4000.0, "peer": 2000, "peer_name": "memcpy"}
        rows, outcome, _ = self.run_one(f"echo starting; echo '{json.dumps(row)}'; echo '[1]'; echo '{{\"what\": 1}}'")
        self.assertEqual((rows, outcome), ([benchmarks.Row("copy", "GB/s", 4000.0, 2000, "memcpy", "")], "passed"))
        lines = list(table.render(self.host, {"commit": "a", "config": "cuda"}, [], rows, "end").splitlines())
        self.assertIn("| copy | GB/s | 4,000 | 2,000 | 2.00 | memcpy |  |", lines)

    def test_rows_without_a_figure_are_no_benchmark_that_ran(self):
        row = {"what": "step", "unit": "tokens/s", "ours": None, "peer": None, "note": "no PyTorch"}
        rows, outcome, _ = self.run_one(f"echo '{json.dumps(row)}'")
        self.assertEqual((outcome, rows[0].note), ("not run", "no PyTorch"))

    def test_a_benchmark_finds_the_bundles_modules_and_the_users(self):
        self.host.environment["PYTHONPATH"] = "/opt/torch"
        row = '{\\"what\\": \\"$PYTHONPATH\\", \\"unit\\": \\"\\", \\"ours\\": 1, \\"peer\\": null}'
        rows, _, _ = self.run_one(f'echo "{row}"')
        self.assertEqual(rows[0].what, f"{self.bundle.root}:/opt/torch")

    def test_a_failing_benchmark_keeps_what_it_measured(self):
        row = {"what": "copy", "unit": "GB/s", "ours": 1, "peer": None}
        rows, outcome, _ = self.run_one(f"echo '{json.dumps(row)}'; echo out of memory >&2; exit 3")
        self.assertEqual(outcome, "failed")
        self.assertEqual(rows[0].ours, 1)
        self.assertIn("exit status 3: out of memory", rows[1].note)
        self.assertEqual(self.run_one("true")[1], "failed")  # no rows

    def test_a_hanging_benchmark_is_killed(self):
        rows, outcome, _ = self.run_one("sleep 600", seconds=0.5)
        self.assertEqual(outcome, "hung")
        self.assertIn("killed", rows[0].note)

    def test_what_needs_more_gpus_or_programs_is_not_run(self):
        reduce = next(entry for entry in benchmarks.KNOWN if entry.name == benchmarks.ALL_REDUCE)
        rows, outcome, _ = benchmarks.run(reduce, self.bundle.root, self.bundle.out, self.host, time.monotonic() + 30)
        self.assertEqual((outcome, rows[0].note), ("not run", "not run: it needs 2 GPUs, and here is 1"))
        two = self.host._replace(gpus=self.host.gpus * 2)
        rows, _, _ = benchmarks.run(reduce, self.bundle.root, self.bundle.out, two, time.monotonic() + 30)
        self.assertIn("this bundle has no program", rows[0].note)
        rows, outcome, _ = benchmarks.run(benchmarks.KNOWN[-1], self.bundle.root, self.bundle.out, self.host, time.monotonic() + 1)
        self.assertEqual(outcome, "out of time")

    def test_a_side_of_a_comparison_is_not_run_by_itself(self):
        manifest = {"benchmarks": [{"name": benchmarks.OUR_STEP, "program": benchmarks.OUR_STEP, "seconds": 1}]}
        self.assertEqual(benchmarks.of_bundle(manifest), benchmarks.KNOWN)


class HostTest(unittest.TestCase):
    def test_a_driver_that_hangs_crashes_or_refuses_is_given_up(self):
        self.assertEqual(host.ask_driver("import time; time.sleep(60)", 0.5), (None, "the driver does not answer within 0 s"))
        self.assertEqual(host.ask_driver("import os; os.abort()"), (None, "exit status -6"))
        self.assertEqual(host.ask_driver("import sys; sys.exit('no driver: x')"), (None, "no driver: x"))

    def test_libraries_are_the_users_then_pytorchs_then_the_toolkits(self):
        with tempfile.TemporaryDirectory() as directory:
            places = [os.path.join(directory, name) for name in ("given", "wheel", "cuda/lib64")]
            for place in places:
                os.makedirs(place)
            environment = {"LD_LIBRARY_PATH": f"{places[0]}:", "CUDA_HOME": os.path.join(directory, "cuda")}
            directories = host.library_directories(environment, [places[1]])
            self.assertEqual(directories, places)
            for place in places[1:]:
                pathlib.Path(place, "libnccl.so.2").touch()
            found = host.find_libraries(directories, ("libnccl.so.2", "libcudnn.so.9"))
            self.assertEqual(found, {"libnccl.so.2": os.path.realpath(os.path.join(places[1], "libnccl.so.2")), "libcudnn.so.9": None})

    def test_of_a_log_its_first_failure_is_shown_or_its_end(self):
        with tempfile.TemporaryDirectory() as directory:
            log = pathlib.Path(directory) / "log"
            log.write_text("[ RUN ] A.B\na_test.cc:7: Failure\nExpected: 1\n" + "more\n" * 100 + "[  FAILED  ] A.B\n")
            self.assertEqual(programs.telling_lines(log, 2), ["a_test.cc:7: Failure", "Expected: 1"])
            log.write_text("one\ntwo\nthree\n\n")
            self.assertEqual(programs.telling_lines(log, 3), ["two", "three", ""])
            self.assertEqual(programs.last_line(log), "three")
            log.write_text("")
            self.assertEqual((programs.telling_lines(log), programs.last_line(log)), ([], ""))

    def test_a_program_that_is_not_there_is_a_failure(self):
        with tempfile.TemporaryDirectory() as directory:
            log = os.path.join(directory, "log")
            ended = programs.run(["/nonexistent"], log, 1.0)
            self.assertIn("does not start", cases.judge("t", ended, 1.0, True, None, log).note)


if __name__ == "__main__":
    report.main()
