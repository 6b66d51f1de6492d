"""Workers on GPUs: how tests start them, and whether there is a GPU here, be it emulated."""

import functools
import subprocess

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
