"""The coordinator's page over a long time and with a large pool: hours of updates make it no larger, and no update takes it long."""

import copy
import json
import unittest
import urllib.request

from tests import report
from tests.integration.browser import Browser, browser_unavailable
from tests.integration.cluster import PATIENCE, Cluster, start_with_page, synthetic_job
from tests.integration.replayed_page import ReplayedPage

# Five hours' worth.
UPDATES = 36_000
WORKERS, JOBS, RANKS = 1000, 100, 10
# The parts of a status that are others in each update.
STEP, TIME = "7654321", "2026-01-02T03:04:05.678Z"


def time_of(update):
    return f"2026-01-02T{update // 3600 % 24:02}:{update // 60 % 60:02}:{update % 60:02}.{update // 86400:03}Z"


def variant(status, update):
    """The JSON of `status` as of its `update`-th look."""
    return status.replace(STEP, str(1000 + 7 * update)).replace(TIME, time_of(update))


def record():
    """A status of a real coordinator, the answer about its job, and the policy that it serves the page under."""
    with Cluster() as cluster:
        _, port = start_with_page(cluster)
        cluster.start_worker("w", slots=2)
        cluster.await_workers(2)
        job_id = cluster.submit(synthetic_job(steps=10_000_000, workers_min=2, workers_max=2, evaluate_every=50))
        cluster.await_step(job_id, 60)
        get = lambda path: urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE)
        status = cluster.await_that("a status with steps", lambda: (
            lambda state: state if int(state["jobs"][0]["figures"]["step"]) > 0 else None)(json.load(get("/api/state"))))
        return status, json.load(get(f"/api/jobs/{job_id}")), get("/").headers["Content-Security-Policy"]


def mark(status):
    """Puts STEP and TIME in the places that change."""
    status["time"] = TIME
    for worker in status["workers"]:
        worker["step"] = STEP
    for job in status["jobs"]:
        job["figures"]["step"] = STEP
        for member in job["members"]:
            member["step"] = member["figures"]["steps"] = STEP
            member["figures"]["duration"] = f"{STEP}s"
    return status


def large(status):
    """A status with many workers and jobs, made of one with a few."""
    [job], [worker, *_] = status["jobs"], status["workers"]
    many = {**status, "workers": [], "jobs": []}
    for index in range(WORKERS):
        many["workers"].append({**worker, "name": f"w-{index}", "host": f"host-{index // 8}", "incarnation": str(index + 1),
                                "job_id": f"job-{index // RANKS}", "rank": index % RANKS})
    for index in range(JOBS):
        members = [{**copy.deepcopy(job["members"][0]), "rank": rank, "worker": f"w-{RANKS * index + rank}"} for rank in range(RANKS)]
        many["jobs"].append({**copy.deepcopy(job), "id": f"job-{index}", "members": members})
    return many


def start_counting(browser):
    """From now on metrics() counts; times are the processor's."""
    browser.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})


def metrics(browser):
    """The browser's counters of its page, after it has collected garbage."""
    browser.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
    return {entry["name"]: entry["value"] for entry in browser.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]}


def script_ms(browser):
    """The time that the page's thread has taken so far, but for layout and style: of scripts, and for them."""
    now = metrics(browser)
    return 1000 * (now["TaskDuration"] - now["LayoutDuration"] - now["RecalcStyleDuration"])


@unittest.skipIf(browser_unavailable(), browser_unavailable())
class PageReplayTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.status, cls.job, cls.policy = record()
        cls.job_id = cls.job["job"]["id"]

    def await_update(self, browser, update):
        browser.await_that(f"update {update}", lambda: browser.attribute("#footer time", "datetime") == time_of(update))

    def test_hours_of_updates_do_not_make_it_grow(self):
        status = json.dumps(mark(copy.deepcopy(self.status)))
        begin = 1_767_323_045_000
        point = lambda index: [begin + 1000 * index, 7 * index, 3 + index % 5]
        curves = {name: [point(index) for index in range(801)] for name in ("loss", "evaluation_loss", "samples_per_second", "exposed_ratio")}
        answer = json.dumps({**self.job, "curves": curves})
        with ReplayedPage(self.policy, {f"/api/jobs/{self.job_id}": answer}) as page, Browser() as browser:
            page.greet(variant(status, 0))
            start_counting(browser)
            browser.open(f"{page.url}#/job/{self.job_id}")
            browser.await_that("the curves", lambda: browser.attribute("#loss-chart", "data-points") == "801")
            for update in range(1, 200):
                page.send(variant(status, update))
            self.await_update(browser, 199)
            before = metrics(browser)
            for update in range(200, UPDATES):
                page.send(variant(status, update))
            self.await_update(browser, UPDATES - 1)
            after = metrics(browser)
            self.assertLess(after["JSHeapUsedSize"] - before["JSHeapUsedSize"], 20e6)
            self.assertLess(after["Nodes"] - before["Nodes"], 2000)
            self.assertEqual(browser.complaints(), [])

    def test_a_large_pool_is_there_soon_and_an_update_takes_little(self):
        status = json.dumps(mark(large(self.status)))
        with ReplayedPage(self.policy, {}) as page, Browser() as browser:
            page.greet(variant(status, 0))
            browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": """
                new MutationObserver(() => { if (document.querySelector("#view h1")) window.firstView ??= performance.now(); })
                  .observe(document, {childList: true, subtree: true})"""})
            # A busy machine is in the way only now and then.
            loads = []
            while len(loads) < 20 and not any(load < 300 for load in loads):
                browser.open("about:blank")
                browser.open(page.url)
                loads.append(browser.await_that("the pool", lambda: browser.run("return window.firstView")))
            self.assertLess(min(loads), 300, loads)
            start_counting(browser)
            update = 0
            for view in ("pool", "jobs", "events"):
                browser.open(f"{page.url}#/{view}")
                browser.await_that(view, lambda: browser.text("h1"))
                times = []
                for _ in range(10):
                    before = script_ms(browser)
                    update += 1
                    page.send(variant(status, update))
                    self.await_update(browser, update)
                    times.append(script_ms(browser) - before)
                self.assertLess(min(times), 50, (view, times))
                if view == "pool":
                    self.assertEqual(browser.text("#host-host-0 .step"), f"{1000 + 7 * update:,}")
            self.assertEqual(browser.complaints(), [])

    def test_it_never_gives_up(self):
        status = json.dumps(mark(copy.deepcopy(self.status)))
        with ReplayedPage(self.policy, {}) as page, Browser() as browser:
            page.refusal = "the journal hangs"
            browser.open(page.url)
            browser.await_text("#connection", "not connected")
            browser.await_text("#trouble", "the journal hangs")
            page.greet(variant(status, 1))
            page.refusal = None
            browser.await_text("#connection", "live")
            self.await_update(browser, 1)


if __name__ == "__main__":
    report.main()
