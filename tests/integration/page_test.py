"""The coordinator's page in a real browser: it shows a run, a fault and its recovery as they happen, and outlives its coordinator."""

import contextlib
import http.client
import itertools
import json
import os
import pathlib
import re
import select
import signal
import ssl
import subprocess
import tempfile
import time
import unittest
import urllib.request

from tests import report
from tests.integration.browser import Browser, axe_unavailable, browser_unavailable
from tests.integration.cluster import PATIENCE, Cluster, binary, pki, start_with_page, synthetic_job, tls_flags

USAGE = 2
ENDLESS = 10_000_000
MARKUP = "<img src=x onerror=document.title='taken'><b>bold</b>"


@unittest.skipIf(browser_unavailable(), browser_unavailable())
class PageTest(unittest.TestCase):
    def points(self, browser):
        return int(browser.attribute("#loss-chart", "data-points") or 0)

    def check_is_quiet(self, browser):
        """No script has failed, and the page's policy has forbidden nothing."""
        complaints = [line for line in browser.complaints() if "net::ERR_" not in line and "the server responded with a status of" not in line]
        self.assertEqual(complaints, [])

    def test_a_run_a_fault_and_a_new_coordinator(self):
        with Cluster() as cluster, Browser() as browser:
            coordinator, port = start_with_page(cluster)
            url = f"http://127.0.0.1:{port}/"
            workers = {name: cluster.start_worker(name) for name in "abc"}
            cluster.await_workers(3)
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=2, workers_max=3, evaluate_every=50))
            browser.open(url)
            browser.await_text("#view", job_id)
            browser.await_text("#connection", "live")
            browser.open(f"{url}#/job/{job_id}?log=1&smooth=0.5")
            browser.await_that("a point", lambda: self.points(browser) >= 2)
            before = self.points(browser)
            browser.await_that("more points", lambda: self.points(browser) > before)
            self.assertTrue(browser.run("return document.querySelector('#log-axis').checked"), "the link carries the view")
            self.assertRegex(browser.attribute("#ring svg", "aria-label"), r"3 ranks on 1 host\. rank 0: \w on .*, step [\d,]+, trains")
            self.assertEqual(browser.run("return document.querySelectorAll('#ring .rank.lost').length"), 0)

            workers["b"].kill_group()
            browser.await_that("the loss", lambda: browser.run("return document.querySelectorAll('#ring .rank.lost').length") == 1)
            browser.await_text("#incident-1", "b was lost")
            browser.await_text("#incident-1", "3 → 2")
            browser.await_text("#incident-1 .cost", "first step")
            self.assertIn("Evidence", browser.text("#incident-1"))
            # A new worker makes the ring whole.
            cluster.start_worker("d")
            browser.await_that("the recovery", lambda: browser.run(
                "return document.querySelectorAll('#ring .rank:not(.lost)').length == 3 && !document.querySelector('#ring .rank.lost')"))

            # The next coordinator goes on with the curves of this one.
            first_step = lambda: re.match(r"Loss: loss from \S+ at step ([\d,]+) to ", browser.attribute("#loss-chart", "aria-label"))[1]
            begin = first_step()
            cluster.await_that("the curves on disk", (cluster.directory / "state" / "page_history").exists)

            coordinator.kill_group()
            browser.await_text("#connection", "not connected")
            browser.await_text("#trouble", "what you see is old")
            start_with_page(cluster, page=f"127.0.0.1:{port}", listen=cluster.address)
            browser.await_text("#connection", "live")
            browser.await_that("no trouble", lambda: not browser.text("#trouble"))
            browser.await_text(".badge", "running")
            address = browser.run("return location.href")
            browser.open("about:blank")
            browser.open(address)
            browser.await_that("a curve", lambda: self.points(browser) >= 2)
            self.assertEqual(first_step(), begin)
            self.check_is_quiet(browser)

    def test_users_texts_are_texts_and_old_links_say_so(self):
        with Cluster() as cluster, Browser(width=360, height=740) as browser:
            _, port = start_with_page(cluster)
            url = f"http://127.0.0.1:{port}/"
            job_id = cluster.submit(synthetic_job(name="waits", workers_min=3, workers_max=3))
            browser.open(f"{url}#/job/{job_id}")
            browser.await_text("#explain", "Why it does not train now")
            self.assertEqual(cluster.ringctl("cancel", job_id, f"--reason={MARKUP}").returncode, 0)
            browser.open(f"{url}#/events")
            browser.await_text(".events", MARKUP)
            self.assertEqual(browser.run("return document.querySelectorAll('main img, main b').length"), 0)
            self.assertIn("Events", browser.run("return document.title"))
            # A filter is in the address, and a link leads to its event.
            browser.run("const field = document.querySelector('#filter-q'); field.value = 'submitted'; field.dispatchEvent(new Event('input'))")
            browser.await_that("the filter", lambda: browser.run("return document.querySelectorAll('.event').length") == 1)
            self.assertIn("q=submitted", browser.run("return location.hash"))
            browser.click(".stamp")
            browser.await_that("the linked event", lambda: browser.run("return document.querySelectorAll('.event.linked').length") == 1)
            browser.open(f"{url}#/events?at=1-7")
            browser.await_text("#gone", "Event 7 is not kept any more")
            browser.open(f"{url}#/job/gone-9")
            browser.await_text("#gone", "gone-9")
            # Nothing is wider than a small phone, and everything has a name.
            for view in ("pool", "jobs", "compare", "events", f"job/{job_id}", f"trace/{job_id}"):
                browser.open(f"{url}#/{view}")
                browser.await_that(view, lambda: browser.text("h1"))
                self.assertLessEqual(browser.run("return document.documentElement.scrollWidth"), 360, view)
                self.assertEqual(browser.run("return [...document.querySelectorAll('input, select, canvas, svg[role], progress')]"
                                             ".filter((part) => !part.labels?.length && !part.ariaLabel).map((part) => part.outerHTML)"), [], view)
            self.check_is_quiet(browser)

    def test_the_pool_shows_who_has_what_of_the_quotas(self):
        with Cluster() as cluster, Browser(width=360, height=740) as browser:
            queues = cluster.directory / "queues.yaml"
            queues.write_text("queues: [{name: research, workers: 1, most_workers: 4}, {name: product, workers: 2}]\n")
            _, port = start_with_page(cluster, f"--queues_file={queues}")
            cluster.start_worker("w", slots=3)
            cluster.await_workers(3)
            text = "queue: research\npriority: 2\n" + synthetic_job(steps=ENDLESS, workers_min=2, workers_max=3)
            job_id = cluster.submit(text)
            cluster.await_step(job_id, 1)
            browser.open(f"http://127.0.0.1:{port}/#/pool")
            browser.await_text("#queue-research", "2 borrowed, 1 more than needed, 1 of the quota not used. 1 job with workers, 0 waiting.")
            browser.await_text("#queue-product", "2 of the quota not used.")
            self.assertEqual(browser.attribute("#queue-research .bar-parts", "aria-label"), "2 borrowed, 1 more than needed, 1 of the quota not used")
            self.assertLessEqual(browser.run("return document.documentElement.scrollWidth"), 360)
            browser.open(f"http://127.0.0.1:{port}/#/job/{job_id}")
            browser.await_text("#view", ", queue research, which borrows for it, priority 2")
            self.check_is_quiet(browser)

    def test_a_slow_rank_stands_out(self):
        with Cluster() as cluster, Browser(width=360, height=740) as browser:
            _, port = start_with_page(cluster)
            for name in "abc":
                cluster.start_worker(name)
            cluster.await_workers(3)
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=3, workers_max=3, global_batch=3072))
            cluster.await_step(job_id, 1)
            member = next(member for member in cluster.job(job_id)["members"] if member["worker"] == "b")
            browser.open(f"http://127.0.0.1:{port}/#/job/{job_id}")

            def is_told():
                # It gets a sixth of the time. What the others are late on a busy machine is little beside that.
                for _ in range(3):
                    os.kill(int(member["pid"]), signal.SIGSTOP)
                    time.sleep(0.25)
                    os.kill(int(member["pid"]), signal.SIGCONT)
                    time.sleep(0.05)
                return f"The others wait for rank {member['rank']}, b on" in browser.text("#heat-summary")
            browser.await_that("the slow rank", is_told)
            label = browser.attribute("#heat svg", "aria-label")
            self.assertRegex(label, r"rank 0, \w on .*: .*%; rank 1, ")
            self.assertGreater(browser.run("return document.querySelectorAll('#heat .heat1, #heat .heat2, #heat .heat3, #heat .heat4').length"), 0)
            self.assertLessEqual(browser.run("return document.documentElement.scrollWidth"), 360)
            self.check_is_quiet(browser)

    def check_lets_everybody_in(self, browser, what):
        """No contrast is too low, and no element lacks a name or a role, in either scheme, on a screen and on a phone."""
        for is_dark, width in itertools.product((False, True), (1280, 360)):
            browser.look(is_dark)
            browser.resize(width, 900)
            self.assertEqual(browser.barriers(), [], f"{what}, {'dark' if is_dark else 'light'}, {width} pixels wide")

    @unittest.skipIf(axe_unavailable(), axe_unavailable())
    def test_nobody_is_shut_out(self):
        with Cluster() as cluster, Browser() as browser:
            queues = cluster.directory / "queues.yaml"
            queues.write_text("queues: [{name: research, workers: 1, most_workers: 4}, {name: product, workers: 2}]\n")
            _, port = start_with_page(cluster, f"--queues_file={queues}")
            workers = {name: cluster.start_worker(name) for name in "abc"}
            cluster.await_workers(3)
            job_id = cluster.submit("queue: research\n" + synthetic_job(steps=ENDLESS, workers_min=2, workers_max=3, evaluate_every=50))
            cluster.await_step(job_id, 1)
            waiting = cluster.submit(synthetic_job(name="waits", workers_min=9, workers_max=9))
            cluster.cancel(cluster.submit(synthetic_job(name="gone", workers_min=9, workers_max=9), "gone.yaml"))
            workers["b"].kill_group()
            self.assertEqual(cluster.ringctl("cordon", "c", "--reason=new fan").returncode, 0)
            for view, selector, text in (("pool", "#view", "Cordoned"), ("jobs", "#view", "cancelled"), ("events", "#view", "worker.lost"),
                                         (f"compare?jobs={job_id},{waiting}", "#figures", "Settings that differ"), (f"trace/{job_id}", "#timeline", "2 ranks"),
                                         (f"job/{waiting}", "#explain", "does not train now"), (f"job/{job_id}", "#incident-1 .cost", "first step")):
                browser.open(f"http://127.0.0.1:{port}/#/{view}")
                browser.await_text(selector, text)
                self.check_lets_everybody_in(browser, view)
            browser.click("#cancel")
            self.check_lets_everybody_in(browser, "a dialog")
            # It would be found.
            browser.run("document.querySelector('#action-reason').parentElement.replaceWith(document.querySelector('#action-reason'))")
            self.assertIn("label: <input name=\"reason\"", browser.barriers()[0])

    def test_runs_are_compared(self):
        with Cluster() as cluster, Browser(width=360, height=740) as browser:
            _, port = start_with_page(cluster)
            cluster.start_worker("w", slots=2)
            cluster.await_workers(2)
            first = cluster.run_job(synthetic_job(steps=60, workers_min=2, workers_max=2, evaluate_every=20))["id"]
            second = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=2, workers_max=2, evaluate_every=20, seed=8))
            browser.open(f"http://127.0.0.1:{port}/#/job/{second}")
            browser.await_text("#earlier-runs", "Compare with the earlier run of this name")
            browser.click("#earlier-runs")
            browser.await_text("#figures", second)
            self.assertEqual(browser.run("return location.hash"), f"#/compare?jobs={second}%2C{first}")
            for chart in ("compare-loss", "compare-evaluation", "compare-pace"):
                browser.await_that(chart, lambda: re.search(f"{second} from .* to .*; {first} from .* at step 60$", browser.attribute(f"#{chart}", "aria-label")))
            cells = lambda row: browser.run("return [...[...document.querySelectorAll('#figures tr')].find((row) => row.innerText.startsWith(arguments[0])).cells]"
                                            ".map((cell) => cell.innerText)", row)
            self.assertEqual(cells("Steps")[2], "60 of 60")
            self.assertRegex(cells("Held-out loss")[2], r"^\d[\d.]* at step 60$")
            self.assertRegex(cells("Pace")[1], r"^[\d.,]+ samples/s$")
            self.assertEqual(cells("train.seed"), ["train.seed", "8", "7"])
            self.assertEqual(cells("train.steps"), ["train.steps", str(ENDLESS), "60"])
            self.assertLessEqual(browser.run("return document.documentElement.scrollWidth"), 360)
            # The choice is in the address, and the focus stays with who makes it.
            browser.run("const select = document.querySelector('#compare-by'); select.value = 'time'; select.dispatchEvent(new Event('change'))")
            browser.run("document.querySelector(arguments[0]).focus()", f"#choose-{first}")
            browser.click(f"#choose-{first}")
            browser.await_that("one job", lambda: first not in browser.text("#figures"))
            self.assertEqual(browser.run("return location.hash"), f"#/compare?jobs={second}&by=time")
            self.assertEqual(browser.run("return document.activeElement.id"), f"choose-{first}")
            browser.click(f"#choose-{first}")
            browser.await_text("#figures", first)
            browser.open("about:blank")
            browser.open(f"http://127.0.0.1:{port}/#/compare?jobs={first},gone-9&by=time")
            browser.await_text("#figures", first)
            self.assertEqual(browser.run("return document.querySelector('#compare-by').value"), "time")
            browser.await_text("#view", "gone-9: ")
            self.check_is_quiet(browser)

    def test_a_steps_timeline(self):
        with Cluster() as cluster, Browser(width=360, height=740) as browser:
            _, port = start_with_page(cluster)
            url = f"http://127.0.0.1:{port}/"
            cluster.start_worker("w", slots=2)
            cluster.await_workers(2)
            # Its steps are long enough for the ranks to hold one while somebody looks at it.
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=2, workers_max=2, global_batch=2048))
            cluster.await_step(job_id, 3)
            browser.open(f"{url}#/job/{job_id}")
            browser.await_text("#trace", "Timeline of its newest step")
            browser.click("#trace")
            browser.await_text("#timeline", "2 ranks, ")
            step = int(re.fullmatch(rf"#/trace/{job_id}\?step=(\d+)", browser.run("return location.hash"))[1])
            self.assertEqual(browser.text("#trace-step"), f"Step {step:,}")
            time_ = r"[\d.]+ (µs|ms|s)"
            labels = browser.run("return [...document.querySelectorAll('#timeline [role=img]')].map((row) => row.ariaLabel)")
            for rank, label in enumerate(labels):
                self.assertRegex(label, f"^rank {rank}: ")
                # In the order in which each came first, which is not the same in every step.
                for kind in ("waiting for data", "forward", "backward", "all reduce"):
                    self.assertRegex(label, f"[:,] {kind} {time_}")
            self.assertEqual(len(labels), 2)
            titles = browser.run("return [...document.querySelectorAll('#timeline .span')].map((span) => span.title)")
            self.assertTrue([title for title in titles if re.match(f"all reduce: {time_}, from {time_}, bucket 0, [\\d.]+ KiB", title)], titles)
            self.assertEqual(len(browser.run("return [...document.querySelectorAll('#trace-sums tbody tr')]")), 2)
            self.assertLessEqual(browser.run("return document.documentElement.scrollWidth"), 360)
            browser.await_that("a later step", lambda: browser.run("return !document.querySelector('#step-later').disabled"))
            browser.click("#step-later")
            browser.await_text("#trace-step", f"Step {step + 1:,}")
            browser.await_text("#timeline", "2 ranks, ")
            with urllib.request.urlopen(url + browser.attribute("#trace-file", "href").lstrip("/"), timeout=PATIENCE) as answer:
                self.assertEqual(answer.headers["Content-Disposition"], "attachment")
                spans = [event for event in json.load(answer)["traceEvents"] if event["ph"] == "X"]
            self.assertEqual({event["pid"] for event in spans}, {0, 1})
            self.assertIn(step, {event["args"]["step"] for event in spans})
            browser.open(f"{url}#/trace/{job_id}?step={ENDLESS}")
            browser.await_text("#gone", "No rank holds this step: they hold steps ")
            waiting = cluster.submit(synthetic_job(name="waits", workers_min=9, workers_max=9))
            browser.open(f"{url}#/trace/{waiting}")
            browser.await_text("#gone", "only a job that trains can be traced")
            browser.open(f"{url}#/trace/gone-9")
            browser.await_text("#gone", "gone-9")
            self.check_is_quiet(browser)

    def act(self, browser, button, verb, **fields):
        """Presses a button of the page, fills in its dialog, and confirms."""
        browser.await_that(button, lambda: browser.run("return !!document.querySelector(arguments[0])", button))
        browser.click(button)
        self.assertEqual(browser.run("return document.querySelector('#action button[type=submit]').textContent"), verb)
        for name, value in fields.items():
            browser.run("document.querySelector(arguments[0]).value = arguments[1]", f"#action-{name}", value)
        browser.run("document.querySelector('#action form').requestSubmit()")

    def await_done(self, browser):
        browser.await_that("the action", lambda: not browser.run("return document.querySelector('#action').open"))

    def test_jobs_and_workers_are_changed_on_it(self):
        with Cluster() as cluster, Browser(width=360, height=740) as browser:
            _, port = start_with_page(cluster)
            cluster.start_worker("w", slots=2)
            cluster.await_workers(2)
            job_id = cluster.submit(synthetic_job(steps=ENDLESS, workers_min=1, workers_max=2))
            cluster.await_step(job_id, 1)
            browser.open(f"http://127.0.0.1:{port}/#/job/{job_id}")
            self.act(browser, "#priority", "Set it", priority="7", reason="a deadline")
            self.await_done(browser)
            self.assertEqual(cluster.job(job_id)["priority"], 7)
            # A refusal is told in the dialog, which stays.
            self.act(browser, "#suspend", "Suspend it")
            browser.await_text("#action [role=alert]", "checkpoint")
            self.assertLessEqual(browser.run("return document.documentElement.scrollWidth"), 360)
            browser.run("document.querySelector('#action .plain-button').click()")
            self.await_done(browser)
            browser.open(f"http://127.0.0.1:{port}/#/pool")
            self.act(browser, "[id='drain-w-0']", "Drain it", reason="new fan")
            self.await_done(browser)
            browser.await_text("#view", "Drained")
            cluster.await_that("one worker left", lambda: len(cluster.job(job_id)["members"]) == 1)
            self.act(browser, "[id='uncordon-w-0']", "Use it again")
            self.await_done(browser)
            cluster.await_that("two workers again", lambda: len(cluster.job(job_id)["members"]) == 2)
            browser.open(f"http://127.0.0.1:{port}/#/job/{job_id}")
            self.act(browser, "#cancel", "Cancel it", reason="seen enough")
            self.await_done(browser)
            self.assertIn("seen enough", cluster.await_job(job_id, "CANCELLED")["message"])
            browser.await_that("no actions on what has ended", lambda: browser.run("return !document.querySelector('.actions')"))
            actions = [(entry["action"], entry["object"]) for entry in json.loads(cluster.ringctl("-o", "json", "audit").stdout)["entries"]]
            self.assertIn(("cancel", job_id), actions)
            self.check_is_quiet(browser)

    def test_with_tls_it_asks_for_a_token(self):
        with tempfile.TemporaryDirectory() as keys:
            keys = pathlib.Path(keys)
            pki("init", keys)
            pki("issue", keys, "coordinator", "head", "--hosts=127.0.0.1", "--hosts=localhost")
            entries = [pki("token", role, name, "--out", keys / f"{name}.token") for role, name in (("viewer", "vera"), ("worker", "node"))]
            access = keys / "access.yaml"
            access.write_text("tokens:\n" + "".join(entries))
            access.chmod(0o600)
            with Cluster() as cluster, Browser() as browser:
                _, port = start_with_page(cluster, f"--access_file={access}", *tls_flags(keys, "head"))
                url = f"https://127.0.0.1:{port}/"
                context = ssl.create_default_context(cafile=keys / "ca.pem")
                connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=PATIENCE)
                connection.request("GET", "/api/state")
                answer = connection.getresponse()
                self.assertEqual((answer.status, answer.read()), (401, b"sign in with a token first\n"))
                browser.open(f"{url}#/jobs")
                for name, words in (("node", "viewer"), ("vera", None)):
                    browser.await_that("the form", lambda: browser.run("return !!document.querySelector('#token')"))
                    if words and not axe_unavailable():
                        self.check_lets_everybody_in(browser, "the form")
                    browser.run("document.querySelector('#token').value = arguments[0]; document.querySelector('form').requestSubmit()",
                                (keys / f"{name}.token").read_text())
                    if words:
                        browser.await_text("#login-trouble", words)
                browser.await_text("h1", "Jobs")
                self.assertEqual(browser.run("return document.cookie"), "", "no script reads the login")
                # Whoever may only look has no buttons, and is refused without them as well.
                self.assertEqual(browser.run("return fetch('/api/session').then((answer) => answer.json())"), {"name": "vera", "may": []})
                self.assertEqual(browser.run("return fetch('/api/actions/cancel', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{\"job\": \"x\"}'})"
                                             ".then((answer) => answer.status)"), 403)
                access.write_text("tokens:\n" + entries[1])
                browser.await_text("h1", "Sign in")


class PageAddressTest(unittest.TestCase):
    def refusal(self, *flags):
        with tempfile.TemporaryDirectory() as state:
            result = subprocess.run([binary("coordinator"), "--listen=127.0.0.1:0", f"--state_dir={state}", *flags], capture_output=True,
                                    text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
        self.assertEqual(result.returncode, USAGE, result.stderr)
        [line] = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
        return line

    def test_wrong_addresses_are_one_line(self):
        for flags in (["--page_listen=0.0.0.0:0"], ["--page_listen=0.0.0.0:0", "--insecure"]):
            self.assertIn("without TLS nobody is asked who they are", self.refusal(*flags))
        self.assertIn("--page_listen", self.refusal("--page_listen=here"))
        with Cluster() as cluster:
            cluster.start_coordinator()
            self.assertRegex(self.refusal(f"--page_listen={cluster.address}"),
                             f"--page_listen: cannot listen on {re.escape(cluster.address)}")

    def lines_until(self, stream, pattern):
        """Returns the lines of `stream` up to the first that matches; fails if there is none in time."""
        deadline = time.monotonic() + PATIENCE
        text = b""
        while True:
            lines = text[:text.rfind(b"\n") + 1].decode().splitlines()
            for at, line in enumerate(lines):
                if re.search(pattern, line):
                    return lines[:at + 1]
            is_ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(stream.fileno(), 65536) if is_ready else b""
            self.assertTrue(part, f"no line with {pattern!r}: {text}")
            text += part

    @contextlib.contextmanager
    def run_local(self, *flags, until):
        """Gives what `ringctl local` says until a line matches `until`, and interrupts it afterwards."""
        with tempfile.TemporaryDirectory() as directory, Cluster() as cluster:  # for its programs in one directory
            job = pathlib.Path(directory) / "job.yaml"
            job.write_text(synthetic_job(steps=ENDLESS))
            process = subprocess.Popen([binary("ringctl"), "local", str(job), f"--bin_dir={cluster.bin_dir()}", f"--run_dir={directory}/run", *flags],
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
            try:
                yield self.lines_until(process.stdout, until)
            finally:
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=PATIENCE)

    def test_ringctl_local_prints_the_address(self):
        with self.run_local(until="^page: ") as lines:
            with urllib.request.urlopen(lines[-1].removeprefix("page: "), timeout=PATIENCE) as answer:
                self.assertIn(b"<title>Ringmaster</title>", answer.read())
        with self.run_local("--page_port=-1", until="step|running|generation") as lines:
            self.assertEqual([line for line in lines if line.startswith("page: ")], [])


if __name__ == "__main__":
    report.main()
