"""Writes what the programs of one release leave behind, for later ones to read: see golden_test.py.

    RINGMASTER_BIN_DIR=DIR python3 -m tests.golden.make tests/golden/VERSION      (as root, for network namespaces)

VERSION/jobs/*.yaml are there before: job files with every field; and VERSION/COMMIT, the commit that the programs were built from
(build_release.sh builds them again). Beside each this puts the job with its defaults
(*.json). VERSION/state becomes the journal of a coordinator with a job of each way to end and one that still ran,
VERSION/jobs.json the jobs as the coordinator showed them, and VERSION/checkpoint what one of them wrote.
"""

import json
import pathlib
import shutil
import signal
import sys

from tests.integration.cluster import Cluster, Hosts
from tests.integration.data_files import write_text
from tests.integration.jobs import gpt_job, train_job

ENDLESS = 10_000_000
MLP = {"mlp": {"window": 4, "embedding_dim": 4, "hidden_dim": 8, "hidden_layers": 1}}
GPT = {"window": 8, "layers": 1, "heads": 2, "width": 8}
SYNTHETIC = {"synthetic": {"samples": 256}}


def mlp_job(name, workers=1, **train):
    return train_job(MLP, SYNTHETIC, workers, name=name, **train)


def faulted_job(text, checkpoints, steps):
    """The job whose checkpoint is kept, and which goes on from it."""
    return gpt_job(text, 2, GPT, name="faulted", steps=steps, evaluate_every=10, sample={"prompt": "the", "bytes": 20},
                   checkpoint={"directory": str(checkpoints), "every_steps": 10})


def write_text_of(directory):
    return write_text(directory / "text", 4000)


def write_job_files(cluster, jobs):
    for path in sorted(jobs.glob("*.yaml")):
        filled = cluster.query("submit", "--dry-run", str(path))
        path.with_suffix(".json").write_text(json.dumps(filled, indent=1) + "\n")


def write_state(cluster, hosts, out, scratch):
    """A coordinator's life, which ends while the last job is running."""
    good, bad = hosts
    coordinator = cluster.start_coordinator("--quarantine_faults=1", budget="1s", host=good, state_dir=out / "state")
    dying = cluster.start_worker("dying", host=bad, env={"RINGMASTER_FAIL_POINTS": "train.step=hang@12"})
    cluster.start_worker("a", host=good)
    cluster.start_server("s", host=good)
    faulted = cluster.submit(faulted_job(write_text_of(scratch), scratch / "checkpoints", steps=30))
    cluster.await_step(faulted, 10)
    # With it the job does not need the host of the one that dies, which is left out then.
    cluster.start_worker("b", host=good)
    cluster.await_workers(4)
    dying.signal(signal.SIGKILL)
    jobs = [
        cluster.await_job(faulted, "SUCCEEDED"),
        cluster.run_job(mlp_job("servers", 2, steps=20, parameter_server={"servers": 1})),
        cluster.run_job(mlp_job("diverging", optimizer={"sgd": {"learning_rate": 1e30}}, non_finite={"policy": "fail"}), "FAILED"),
        cluster.run_job(mlp_job("no-data").replace("{synthetic: {samples: 256}}", f"{{text: {{path: {scratch}/no-such-text}}}}"), "FAILED"),
    ]
    cancelled = cluster.submit(mlp_job("cancelled", steps=ENDLESS))
    cluster.await_step(cancelled, 5)
    jobs.append(cluster.cancel(cancelled))
    running = cluster.submit(mlp_job("running", 2, steps=ENDLESS))
    cluster.await_step(running, 5)
    cluster.submit(mlp_job("queued", 2))
    generation = cluster.job(running)["generation"]
    coordinator.signal(signal.SIGTERM)
    coordinator.wait()
    (out / "state/lock").unlink()
    # The rest stands in the journal alone.
    shutil.copytree(out / "state", scratch / "copy")
    cluster.start_coordinator(host=good, state_dir=scratch / "copy")
    ended = [cluster.job(job["id"]) for job in jobs]
    (out / "jobs.json").write_text(json.dumps({"ended": ended, "running": running, "generation": generation}, indent=1) + "\n")
    shutil.copytree(scratch / "checkpoints/step-000000030", out / "checkpoint/step-000000030")


def main(out):
    for name in ("state", "checkpoint"):
        shutil.rmtree(out / name, ignore_errors=True)
    with Cluster() as cluster:
        cluster.address = "127.0.0.1:1"  # --dry-run asks nobody
        write_job_files(cluster, out / "jobs")
        # A host is left out only where there is another.
        with Hosts(2) as hosts:
            write_state(cluster, hosts, out, cluster.directory)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
