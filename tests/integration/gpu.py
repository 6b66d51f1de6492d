"""Workers on GPUs: how tests start them, and whether there is a GPU here, be it emulated."""

import functools
import subprocess
import unittest

from tests.integration.cluster import PATIENCE, binary

# All slots share one GPU, as tests may.
GPU = ("--device=cuda", "--share_gpu")


@functools.cache
def reason_to_skip():
    """Why workers here have no GPU; None if they have one."""
    # Nobody listens there, but the device is opened first.
    result = subprocess.run([binary("worker"), "--coordinator=127.0.0.1:1", "--insecure", "--device=cuda",
                             "--coordinator_timeout=1ms"], capture_output=True, text=True, timeout=PATIENCE)
    lines = [line for line in result.stderr.splitlines() if "--device=cuda" in line]
    return lines[-1] if lines else None


class GpuTestCase(unittest.TestCase):
    """Skips where workers have no GPU."""

    def setUp(self):
        reason = reason_to_skip()
        if reason:
            self.skipTest(reason)


def member_of(job, rank):
    return next(member for member in job["members"] if int(member.get("rank", 0)) == rank)


def await_members(cluster, job_id, before, count):
    """The job once it runs with `count` members, in a generation after that of `before`."""
    def reached():
        job = cluster.job(job_id)
        later = int(job["generation"]) > int(before["generation"]) and job["state"] == "JOB_STATE_RUNNING"
        return job if later and len(job["members"]) == count else None
    return cluster.await_that(f"a generation of {count}", reached)
