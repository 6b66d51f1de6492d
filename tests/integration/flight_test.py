"""Flight records: who holds the others up in which collective, with real processes that hang, stop and die."""

import json
import os
import signal
import unittest

from tests import report
from tests.integration.cluster import Cluster, synthetic_job

ENDLESS = 10_000_000
NOT_ENTERED = "COLLECTIVE_ENTRY_NOT_ENTERED"
ENTERED = "COLLECTIVE_ENTRY_ENTERED"


def rank_of(job, worker):
    return next(int(member["rank"]) for member in job["members"] if member["worker"] == worker)


def incident_with_record(cluster, job_id, number):
    """The incident, once its record names somebody."""
    incidents = {incident["number"]: incident for incident in cluster.job(job_id)["incidents"]}
    incident = incidents.get(number)
    return incident if incident and incident["hold_ups"] else None


class FlightTest(unittest.TestCase):
    def test_a_rank_that_hangs_is_named_on_demand_and_in_the_incident(self):
        with Cluster() as cluster:
            cluster.start_coordinator("--progress_cap=5s", budget="4s")
            cluster.start_worker("a", slots=2)
            cluster.start_worker("odd", env={"RINGMASTER_FAIL_POINTS": "train.step=hang@30"})
            cluster.await_workers(3)
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=2, workers_max=3))
            # Its process lives and its beats come; the others wait for it in the first collective of step 30.
            now = cluster.await_that("that it holds the others up", lambda: self.held_up(cluster, job_id))
            job = cluster.job(job_id)
            odd = rank_of(job, "odd")
            hold_up = now["hold_ups"][0]
            self.assertEqual((hold_up["rank"], hold_up["worker"], hold_up["entry"], hold_up["step"]), (odd, "odd", NOT_ENTERED, "30"))
            self.assertEqual(hold_up["waiting_ranks"], [rank for rank in range(3) if rank != odd])
            self.assertIn(f"rank {odd} (worker odd) has not entered {hold_up['collective']} {hold_up['sequence']} of step 30", hold_up["summary"])
            self.assertEqual((now["incident"], now["missing"]), (0, []))
            self.assertEqual([rank["rank"] for rank in now["ranks"]], [0, 1, 2])
            for rank in now["ranks"]:
                self.assertEqual({span["step"] for span in rank["spans"]} - {"0"}, {str(step) for step in range(1, 31 if rank["rank"] != odd else 30)})
                self.assertEqual(rank["spans"][-1]["state"], "SPAN_STATE_UNSPECIFIED" if rank["rank"] == odd else "SPAN_STATE_UNDER_WAY")
            # The incident says the same once the job goes on without it.
            incident = cluster.await_that("the record of the incident", lambda: incident_with_record(cluster, job_id, 1))
            self.assertEqual(incident["verdict"]["worker"], "odd")
            first = incident["hold_ups"][0]
            for field in ("rank", "worker", "entry", "collective", "sequence", "step", "waiting_ranks"):
                self.assertEqual(first[field], hold_up[field])
            self.assertIn("had not entered", first["summary"])
            self.assertIn(first["summary"], [event["message"] for event in cluster.events(job_id, "job.held_up")])
            explained = " ".join(cluster.ringctl("explain", job_id).stdout.split())
            self.assertIn(f"held up: {first['summary']}", explained)
            kept = cluster.query("flight", job_id, "--incident=1")
            self.assertEqual((kept["incident"], kept["hold_ups"]), (1, incident["hold_ups"]))
            table = cluster.ringctl("flight", job_id, "--incident=1")
            self.assertRegex(table.stdout, rf" {hold_up['collective']} {hold_up['sequence']} +30 .* broken off .* rank ")
            cluster.cancel(job_id)

    @staticmethod
    def held_up(cluster, job_id):
        record = cluster.query("flight", job_id)
        return record if record["hold_ups"] else None

    def test_the_others_tell_of_ranks_that_stop_or_die(self):
        with Cluster() as cluster:
            cluster.start_coordinator(budget="4s")
            cluster.start_worker("a", slots=2)
            frozen = cluster.start_worker("frozen")
            dies = cluster.start_worker("dies")
            cluster.await_workers(4)
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=1, workers_max=4))
            cluster.await_step(job_id, 80)
            rank = rank_of(cluster.job(job_id), "frozen")
            frozen.signal(signal.SIGSTOP)
            incident = cluster.await_that("the record of the incident", lambda: incident_with_record(cluster, job_id, 1))
            hold_up = incident["hold_ups"][0]
            self.assertEqual((hold_up["rank"], hold_up["worker"]), (rank, "frozen"))
            # It stopped somewhere between two instructions.
            self.assertIn(hold_up["entry"], (NOT_ENTERED, ENTERED))
            self.assertEqual(int(hold_up["waiting_count"]), 3)
            self.assertGreater(float(hold_up["waited"].rstrip("s")), 0.1)
            record = cluster.query("flight", job_id, "--incident=1")
            self.assertEqual([(missing["rank"], missing["reason"]) for missing in record["missing"]], [(rank, "was lost")])
            for trace in record["ranks"]:
                last = trace["spans"][-1]
                self.assertEqual(last["state"], "SPAN_STATE_BROKEN_OFF")
                # One may have all that it needs of a step which another still waits in.
                self.assertIn(int(last["step"]) - int(hold_up["step"]), (0, 1))
                # As many steps as are kept.
                self.assertEqual(int(trace["spans"][0]["step"]), int(last["step"]) - 63)
            # A process that is killed takes its own record with it.
            job = cluster.job(job_id)
            rank = rank_of(job, "dies")
            os.kill(dies.pid, signal.SIGKILL)
            record = cluster.await_that("the record of the kill", lambda: self.record_of(cluster, job_id, 2))
            self.assertEqual([(missing["rank"], missing["worker"]) for missing in record["missing"]], [(rank, "dies")])
            self.assertEqual(record["generation"], job["generation"])
            self.assertTrue(all(trace["spans"] for trace in record["ranks"]))
            self.assertEqual({hold_up["worker"] for hold_up in record["hold_ups"]} - {"dies"}, set())
            refused = cluster.ringctl("flight", job_id, "--incident=9")
            self.assertEqual(refused.returncode, 2)
            self.assertIn("has had 2 incidents only", refused.stderr)
            cluster.cancel(job_id)

    @staticmethod
    def record_of(cluster, job_id, incident):
        """The record of the incident; None while there is none."""
        answer = cluster.ringctl("-o", "json", "flight", job_id, f"--incident={incident}")
        return json.loads(answer.stdout) if answer.returncode == 0 else None


if __name__ == "__main__":
    report.main()
