"""Takes the pictures of the coordinator's page, of a real run with a fault.

usage: RINGMASTER_BIN_DIR=DIR python3 -m tests.docs.page_pictures [OUTPUT_DIR]

DIR holds the four programs; the pictures go to docs/images unless OUTPUT_DIR says otherwise. Needs the packages of deploy/setup.sh.
"""

import pathlib
import sys

from tests.integration.browser import Browser
from tests.integration.cluster import ROOTS, Cluster, synthetic_job

JOB = """\
name: cpp-gpt
workers: {min: 2, max: 8, settle: 2s}
train:
  steps: 3000
  global_batch: 24
  model: {gpt: {window: 32, layers: 2, heads: 2, width: 32}}
  data: {text: {path: /usr/include/c++/12/bits}}
  optimizer: {adamw: {learning_rate: 0.003}}
  evaluate_every: 50
  sample: {prompt: "template <", bytes: 160}
"""


def has_points(browser, count):
    return lambda: int(browser.attribute("#loss-chart", "data-points") or 0) >= count


def take(browser, out, name, url, width, height, is_dark=False, is_ready=lambda: True):
    browser.resize(width, height)
    browser.look(is_dark)
    browser.open("about:blank")
    browser.open(url)
    browser.await_that(f"the view for {name}", lambda: browser.text("h1") and browser.text("#connection") == "live" and is_ready())
    browser.run("return new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    browser.picture(out / f"{name}.png")


QUEUES = "queues: [{name: research, workers: 2, weight: 2}, {name: product, workers: 3, most_workers: 6}]\n"


def start(cluster, *flags):
    """A coordinator with a page; returns the page's address."""
    port_file = cluster.directory / "page-port"
    cluster.start_coordinator("--page_listen=127.0.0.1:0", f"--page_port_file={port_file}", *flags, budget="2s")
    return f"http://127.0.0.1:{port_file.read_text().strip()}/"


def take_queues(out):
    with Cluster() as cluster, Browser() as browser:
        path = cluster.directory / "queues.yaml"
        path.write_text(QUEUES)
        url = start(cluster, f"--queues_file={path}")
        cluster.start_worker("w", slots=7)
        cluster.await_workers(7)
        for name, queue, most in (("gpt", "research", 2), ("words", "research", 3), ("rank", "product", 2)):
            cluster.await_step(cluster.submit(f"queue: {queue}\n{synthetic_job(name, 10_000_000, 2, most)}"), 2)
        cluster.submit(f"queue: product\n{synthetic_job('nightly', 10, 2, 2)}")
        take(browser, out, "page-queues", f"{url}#/pool", 1000, 410, is_ready=lambda: "1 waiting" in browser.text("#queue-product"))


def main(out):
    roots = {**ROOTS, "RINGMASTER_ALLOW_READ": "/usr/include"}
    with Cluster() as cluster, Browser() as browser:
        url = start(cluster)
        names = [f"node-{index}" for index in range(6)]
        workers = {name: cluster.start_worker(name, roots=roots) for name in names}
        cluster.await_workers(len(names))
        job_id = cluster.submit(JOB)
        cluster.submit(synthetic_job(name="next", workers_min=8, workers_max=8), "next.yaml")
        cluster.await_step(job_id, 220)
        workers["node-3"].kill_group()
        cluster.await_event(job_id, "job.resumed")
        cluster.await_step(job_id, 420)
        job = f"{url}#/job/{job_id}?smooth=0.6"
        take(browser, out, "page-job", job, 1280, 1120, is_ready=has_points(browser, 20))
        take(browser, out, "page-job-dark", job, 1280, 1120, is_dark=True, is_ready=has_points(browser, 20))
        take(browser, out, "page-job-phone", job, 360, 1100, is_dark=True, is_ready=has_points(browser, 20))
        take(browser, out, "page-pool-phone", f"{url}#/pool", 360, 1100)
        take(browser, out, "page-timeline", f"{url}#/trace/{job_id}", 1000, 560, is_ready=lambda: browser.text("#timeline"))
        cluster.cancel(job_id)
        slower = cluster.submit(JOB.replace("0.003", "0.001"))
        cluster.await_step(slower, 420)
        take(browser, out, "page-compare", f"{url}#/compare?jobs={slower},{job_id}&smooth=0.6", 1000, 900,
             is_ready=lambda: job_id in browser.text("#figures") and slower in browser.text("#figures"))
    take_queues(out)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
