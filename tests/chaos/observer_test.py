"""The observer finds what must not happen: a check that finds nothing is no check."""

import json
import pathlib
import tempfile
import types
import unittest

from tests import report
from tests.chaos import observer


class FakeCluster:
    """Processes whose output the test writes."""

    def __init__(self, directory):
        self._directory = pathlib.Path(directory)
        self.address = "127.0.0.1:1"
        self.coordinator_host = None
        self.processes = []

    def trusting(self, _host):
        return []

    def spawn(self, name, _argv, _host=None):
        path = self._directory / f"{len(self.processes)}-{name}"
        path.touch()
        self.processes.append(types.SimpleNamespace(name=name, log=path, popen=types.SimpleNamespace(poll=lambda: None)))
        return self.processes[-1]


class ObserverTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.cluster = FakeCluster(directory.name)
        self.coordinator = self.cluster.spawn("coordinator", [])
        self.observer = observer.Observer(self.cluster, "job-1")
        self.watch = self.cluster.processes[-1]

    def write(self, process, entry):
        with open(process.log, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        self.observer.poll()

    def update(self, step, generation=1, state="RUNNING", **fields):
        self.write(self.watch, {"state": f"JOB_STATE_{state}", "generation": str(generation),
                                "figures": {"step": str(step)} if step else {}, **fields})

    def event(self, kind, generation=1, step=0, job="job-1", time="2100-01-01T00:00:00.5Z"):
        self.write(self.coordinator, {"time": time, "event": kind, "job": job, "generation": generation, "step": step,
                                      "message": "text"})

    def assert_violation(self, pattern):
        self.assertEqual(len(self.observer.violations), 1, self.observer.violations)
        self.assertRegex(self.observer.violations[0], pattern)

    def test_progress_breaks_no_promise(self):
        self.event("job.assigned", 1, 0)
        self.update(5)
        self.update(0, state="HALTING")  # a coordinator that was started again knows no step at first
        self.event("job.assigned", 2, 6)
        self.update(7, 2)
        self.assertEqual(self.observer.violations, [])
        self.assertEqual((self.observer.step(), self.observer.generation()), (7, 2))

    def test_a_step_that_goes_back_is_found(self):
        self.update(5)
        self.update(4)
        self.assert_violation("step went back from 5 to 4")

    def test_a_generation_that_does_not_rise_is_found(self):
        self.event("job.assigned", 2)
        self.event("job.assigned", 2)
        self.assert_violation("generation 2 follows 2")

    def test_a_resume_below_a_committed_step_is_found(self):
        self.update(9)
        self.event("job.assigned", 2, 8)
        self.assert_violation("goes on after step 8, but step 9 was committed")

    def test_a_rollback_is_found(self):
        self.event("job.rolled_back")
        self.assert_violation("the job went back")

    def test_lost_steps_are_found(self):
        self.update(1)
        self.update(2, incidents=[{"lost_steps": "3"}])
        self.assert_violation("has lost steps")

    def test_events_of_other_jobs_are_not_its(self):
        self.event("job.rolled_back", job="job-2")
        self.assertEqual(self.observer.violations, [])

    def test_a_job_has_resumed_with_a_step_of_a_later_generation(self):
        self.event("job.assigned", 1)
        self.update(5, 1)
        self.event("job.assigned", 2, 5)
        self.update(5, 2)
        self.assertIsNone(self.observer.resumed_at(1, 0.0))
        self.update(6, 2)
        self.assertIsNotNone(self.observer.resumed_at(1, 0.0))

    def test_it_runs_once_the_newest_generation_does(self):
        self.event("job.assigned", 1)
        self.update(5)
        self.assertTrue(self.observer.is_running())
        self.event("job.assigned", 2, 5)
        self.assertFalse(self.observer.is_running())
        self.update(6, 2)
        self.assertTrue(self.observer.is_running())

    def test_stepping_needs_two_steps(self):
        self.update(5)
        self.assertIsNone(self.observer.stepped_at(0.0))
        self.update(6)
        self.assertIsNotNone(self.observer.stepped_at(0.0))

    def test_half_a_line_waits_for_the_rest(self):
        with open(self.watch.log, "a", encoding="utf-8") as file:
            file.write('{"state": "JOB_STATE_RUNNING", "gene')
            file.flush()
            self.observer.poll()
            self.assertIsNone(self.observer.job)
            file.write('ration": "1"}\n')
        self.observer.poll()
        self.assertEqual(self.observer.job["generation"], "1")


class ParseTest(unittest.TestCase):
    def test_times_have_fractions(self):
        self.assertAlmostEqual(observer.seconds_of("1970-01-01T00:00:02.000000250Z"), 2.00000025, places=7)
        self.assertEqual(observer.seconds_of("1970-01-01T00:01:00Z"), 60)

    def test_durations_are_seconds(self):
        self.assertEqual(observer.duration_of("0.250s"), 0.25)
        self.assertIsNone(observer.duration_of(None))


if __name__ == "__main__":
    report.main()
