"""A second coordinator on a copy of the journal, as a volume's snapshot or a pod that was started twice makes it: the members refuse it."""

import signal
import time
import unittest

from tests import report
from tests.integration.cluster import Cluster, generation_of, pids_of, step_of, steps_in, synthetic_job
from tests.integration.service import Service

# More than it has time for: it is cancelled in the end.
STEPS = 1_000_000
BUDGET = "2s"
# Longer than members have to attach again (1.5 budgets), after which a coordinator would go on without them.
HOLD = 4


class TwoClusters(Cluster):
    """The first coordinator, and another one on a copy of its journal; the workers reach either at the service's address."""

    def __init__(self, service):
        super().__init__()
        self.service = service
        self.state, self.copy = self.directory / "state", self.directory / "copy"
        self.first = self.second = None

    def start_first(self):
        process = self.start_coordinator(state_dir=self.state, budget=BUDGET)
        self.first = self.service.target = self.address
        return process

    def start_second(self, *flags):
        """Also returns its process. ringctl goes on to ask the first one, unless at() says otherwise."""
        process = self.start_coordinator(*flags, state_dir=self.copy, budget=BUDGET)
        self.second, self.address = self.address, self.first
        return process

    def at(self, address, *args):
        first, self.address = self.address, address
        try:
            return self.query(*args)
        finally:
            self.address = first

    def start_job(self, steps=STEPS):
        """Starts one on workers a, b and c, of which c is lost after the copy was made, so that it does not know the present generation.

        Returns the job, the processes of a and b, and the file of its steps."""
        workers = {name: self.start_worker(name, address=self.service.address) for name in "abc"}
        self.await_workers(3)
        checkpoints = self.directory / "checkpoints"
        job_id = self.submit(synthetic_job(steps=steps, workers_min=1, workers_max=3, global_batch=2048, hash_every=1,
                                           checkpoint=f"{{directory: {checkpoints}}}"))
        self.await_step(job_id, 20)
        self.copy.mkdir()
        result = self.ringctl("state", "backup", f"--state_dir={self.state}", f"--out={self.copy / 'journal.sqlite3'}")
        assert result.returncode == 0, result.stderr
        before = self.job(job_id)
        workers.pop("c").signal(signal.SIGKILL)

        def re_formed():
            job = self.job(job_id)
            is_running = generation_of(job) > generation_of(before) and job["state"] == "JOB_STATE_RUNNING"
            return job if is_running and step_of(job) > step_of(before) else None
        return self.await_that("the generation of a and b", re_formed), list(workers.values()), checkpoints / "metrics.jsonl"

    def incarnation(self, address):
        return f'{int(self.at(address, "status")["coordinator"]["incarnation"]):016x}'


class TwoCoordinatorsTest(unittest.TestCase):
    def assert_trains_on(self, cluster, job, metrics):
        """The coordinator that ringctl asks has the job, which goes on as it was, and then ends without having made a step twice."""
        made = len(steps_in(metrics))
        cluster.await_step(job["id"], made + 50)
        after = cluster.job(job["id"])
        self.assertEqual((generation_of(after), pids_of(after)), (generation_of(job), pids_of(job)))
        cluster.cancel(job["id"])
        steps = steps_in(metrics)
        self.assertEqual(steps, list(range(1, len(steps) + 1)))

    def test_members_refuse_one_that_does_not_know_their_generation(self):
        with Service() as service, TwoClusters(service) as cluster:
            first = cluster.start_first()
            job, workers, metrics = cluster.start_job()
            incarnation = cluster.incarnation(cluster.first)
            # The first one is cut off from everybody, and the second one is what the members find.
            first.signal(signal.SIGSTOP)
            second = cluster.start_second()
            service.target = cluster.second
            service.reset()
            for worker in workers:
                cluster.await_output(worker, "session.other_coordinator")
                line, = [line for line in worker.output().splitlines() if "session.other_coordinator" in line]
                for text in (incarnation, cluster.incarnation(cluster.second), service.address, f"generation {job['generation']}"):
                    self.assertIn(text, line)
            self.assertIn("coordinator.outdated", second.output())
            made = len(steps_in(metrics))
            cluster.await_that("steps meanwhile", lambda: len(steps_in(metrics)) > made + 50)
            # An idle worker that it gathered would train the job a second time.
            stray = cluster.start_worker("stray", address=cluster.second)
            cluster.await_output(stray, "joined coordinator")
            since = time.monotonic()
            cluster.await_that("that the members' time would be over", lambda: time.monotonic() > since + HOLD)
            status = cluster.at(cluster.second, "status")
            self.assertIn(incarnation, status["coordinator"]["other_coordinator"])
            self.assertEqual({one["name"] for one in status["workers"] if one["state"] != "WORKER_STATE_DETACHED"}, {"stray"})
            self.assertLess(generation_of(status["jobs"][0]), generation_of(job))
            self.assertIn("older copy", cluster.at(cluster.second, "explain", job["id"])["summary"])
            # The members go back by themselves, in the same generation, as if there had been no other.
            first.signal(signal.SIGCONT)
            service.target = cluster.first
            self.assert_trains_on(cluster, job, metrics)
            self.assertEqual(cluster.at(cluster.first, "status")["coordinator"]["other_coordinator"], "")
            self.assertNotIn("assigned", stray.output())

    def test_the_second_one_takes_over_if_an_operator_says_so(self):
        with Service() as service, TwoClusters(service) as cluster:
            first = cluster.start_first()
            job, workers, metrics = cluster.start_job()
            first.signal(signal.SIGKILL)
            cluster.start_second("--take_over")
            service.target = cluster.address = cluster.second
            cluster.await_event(job["id"], "job.rebuilt")
            self.assert_trains_on(cluster, job, metrics)
            self.assertTrue(all("session.other_coordinator" not in worker.output() for worker in workers))


if __name__ == "__main__":
    report.main()
