"""Alerts fire when they should and are quiet when they should be; they, the dashboard and the autoscaler's rule ask for metrics that our
programs have, and the manual has a section on each alert."""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import urllib.request

import yaml

from tests import report
from tests.integration.cluster import Cluster, synthetic_job
from tests.kubernetes.manifests import DIRECTORY, OVERLAYS, load

GROUPS = load("everything").of_kind("PrometheusRule")[0]["spec"]["groups"]
ALERTS = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
# prometheus-adapter's configuration.
ADAPTER = yaml.safe_load((DIRECTORY / "components/autoscaling/prometheus_adapter.yaml").read_text())
DASHBOARD = json.loads(load("everything").of_kind("ConfigMap")[0]["data"]["ringmaster.json"])

RUN = 'namespace="ringmaster",run="gpt-1"'
RUNNING = {f'ringmaster_run_state{{{RUN},state="RUNNING"}}': "1x200"}
FAULTS = 'ringmaster_faults_total{namespace="ringmaster",reason="STREAM_BROKEN"}'
CERTIFICATE = {"namespace": "ringmaster", "pod": "ringmaster-coordinator-0", "file": "/tls/tls.crt", "subject": "CN=head"}
EXPIRY, START = (f"ringmaster_certificate_{what}_timestamp_seconds{{" + ",".join(f'{key}="{value}"' for key, value in CERTIFICATE.items()) + "}"
                 for what in ("expiry", "start"))
MEMBER = 'ringmaster_member_certificate_expiry_timestamp_seconds{namespace="ringmaster",worker="node-1"}'

# alert: ((series, a value a minute), when it is looked at, labels besides severity, or None where it must be quiet), ...
CASES = {
    "RingmasterCoordinatorDown": [
        ({"ringmaster_coordinator_up": "1x10 0x10"}, "9m", None),
        ({"ringmaster_coordinator_up": "1x10 0x10"}, "13m", {}),
        ({"something_else": "1x10"}, "5m", {}),
        ({"ringmaster_coordinator_up": "1x5 _x20"}, "15m", {}),
    ],
    "RingmasterCoordinatorNotDurable": [
        ({'ringmaster_coordinator_journal_ok{namespace="ringmaster"}': "1x10 0x10"}, "9m", None),
        ({'ringmaster_coordinator_journal_ok{namespace="ringmaster"}': "1x10 0x10"}, "13m", {"namespace": "ringmaster"}),
    ],
    "RingmasterRestartLoop": [
        ({FAULTS: "0+1x4 4x60"}, "20m", {"namespace": "ringmaster"}),
        ({FAULTS: "0+1x4 4x60"}, "50m", None),
        ({FAULTS: "0+1x2 2x60"}, "20m", None),
    ],
    "RingmasterHostQuarantined": [
        ({'ringmaster_quarantined_hosts{namespace="ringmaster"}': "0x5 2x10"}, "4m", None),
        ({'ringmaster_quarantined_hosts{namespace="ringmaster"}': "0x5 2x10"}, "9m", {"namespace": "ringmaster"}),
    ],
    "RingmasterCertificateExpiring": [
        # It began long ago and ends in 20 days from the first minute on.
        ({EXPIRY: "1728000x9000", START: "-8640000x9000"}, "8600m", None),
        ({EXPIRY: "1728000x9000", START: "-8640000x9000"}, "8700m", CERTIFICATE),
        # It was renewed.
        ({EXPIRY: "1728000x8650 9504000x350", START: "-8640000x9000"}, "8700m", None),
        # One that lasts a day is warned of in its last quarter.
        ({EXPIRY: "86400x1500", START: "0x1500"}, "1070m", None),
        ({EXPIRY: "86400x1500", START: "0x1500"}, "1090m", CERTIFICATE),
    ],
    "RingmasterMemberCertificateExpiring": [
        ({MEMBER: "86400x60"}, "10m", {"namespace": "ringmaster", "worker": "node-1"}),
        # It was renewed, so nobody says that it is soon.
        ({MEMBER: "86400x10 _x50"}, "20m", None),
    ],
    "RingmasterNoProgress": [
        ({**RUNNING, f"ringmaster_step{{{RUN}}}": "0+5x30 150x60"}, "30m", None),
        ({**RUNNING, f"ringmaster_step{{{RUN}}}": "0+5x30 150x60"}, "45m", {"namespace": "ringmaster", "run": "gpt-1"}),
        # It waits for workers, which is another alert's.
        ({f'ringmaster_run_state{{{RUN},state="RUNNING"}}': "1x30 0x60", f"ringmaster_step{{{RUN}}}": "0+5x30 150x60"}, "45m",
         None),
        # It has just begun.
        ({f'ringmaster_run_state{{{RUN},state="RUNNING"}}': "1x60", f"ringmaster_step{{{RUN}}}": "0x60"}, "8m", None),
    ],
    "RingmasterBelowMinimum": [
        ({f'ringmaster_run_state{{{RUN},state="GATHERING"}}': "0x5 1x30"}, "9m", None),
        ({f'ringmaster_run_state{{{RUN},state="GATHERING"}}': "0x5 1x30"}, "12m", {"namespace": "ringmaster", "run": "gpt-1"}),
        ({f'ringmaster_run_state{{{RUN},state="QUEUED"}}': "1x30"}, "20m", None),
    ],
    "RingmasterWorkerLost": [
        ({**RUNNING, f"ringmaster_world_size{{{RUN}}}": "4x20 3x100"}, "18m", None),
        ({**RUNNING, f"ringmaster_world_size{{{RUN}}}": "4x20 3x100"}, "35m", {"namespace": "ringmaster", "run": "gpt-1"}),
        ({**RUNNING, f"ringmaster_world_size{{{RUN}}}": "4x20 3x3 4x100"}, "35m", None),
    ],
    "RingmasterCheckpointStale": [
        ({**RUNNING, f"ringmaster_step{{{RUN}}}": "0+5x200", f"ringmaster_checkpoint_step{{{RUN}}}": "100x200"}, "70m",
         {"namespace": "ringmaster", "run": "gpt-1"}),
        ({**RUNNING, f"ringmaster_step{{{RUN}}}": "0+5x200", f"ringmaster_checkpoint_step{{{RUN}}}": "0+5x200"}, "70m", None),
        # It writes none at all.
        ({**RUNNING, f"ringmaster_step{{{RUN}}}": "0+5x200", f"ringmaster_checkpoint_step{{{RUN}}}": "0x200"}, "70m", None),
        # It is a job's beginning.
        ({**RUNNING, f"ringmaster_step{{{RUN}}}": "0+5x200", f"ringmaster_checkpoint_step{{{RUN}}}": "100x200"}, "30m", None),
    ],
    "RingmasterStragglerPersistent": [
        ({f'ringmaster_straggler_wait_ratio{{{RUN},rank="3",worker="w3"}}': "0.5x60"}, "20m",
         {"namespace": "ringmaster", "run": "gpt-1", "rank": "3", "worker": "w3"}),
        ({f'ringmaster_straggler_wait_ratio{{{RUN},rank="3",worker="w3"}}': "0.5x10 _x50"}, "20m", None),
        ({f'ringmaster_straggler_wait_ratio{{{RUN},rank="3",worker="w3"}}': "0.15x60"}, "20m", None),
    ],
    "RingmasterGoodputLow": [
        ({**RUNNING, f"ringmaster_goodput_ratio{{{RUN}}}": "0.5x200"}, "59m", None),
        ({**RUNNING, f"ringmaster_goodput_ratio{{{RUN}}}": "0.5x200"}, "65m", {"namespace": "ringmaster", "run": "gpt-1"}),
        ({**RUNNING, f"ringmaster_goodput_ratio{{{RUN}}}": "0.9x200"}, "65m", None),
    ],
    "RingmasterLossNotFinite": [
        ({f"ringmaster_loss{{{RUN}}}": "2x10" + " NaN" * 10}, "9m", None),
        ({f"ringmaster_loss{{{RUN}}}": "2x10" + " NaN" * 10}, "13m", {"namespace": "ringmaster", "run": "gpt-1"}),
        ({f"ringmaster_loss{{{RUN}}}": "Inf" + " Inf" * 10}, "5m", {"namespace": "ringmaster", "run": "gpt-1"}),
    ],
}


def metrics_in(expression):
    return set(re.findall(r"\b(?:ringmaster|process)_[a-z_]+\b", expression))


def panels():
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def adapter_queries():
    """{metric: the query that prometheus-adapter makes of its rule for an autoscaler in our namespace}."""
    queries = {}
    for rule in ADAPTER["externalRules"]:
        name = re.search(r'__name__="(\w+)"', rule["seriesQuery"])[1]
        queries[name] = rule["metricsQuery"].replace("<<.Series>>", name).replace("<<.LabelMatchers>>", 'namespace="ringmaster"')
    return queries


def expressions():
    """(where, expression) of all alerts, panels and the adapter's rules."""
    yield from adapter_queries().items()
    yield from ((name, rule["expr"]) for name, rule in ALERTS.items())
    yield from ((panel["title"], target["expr"]) for panel in panels() for target in panel["targets"])
    yield from (("annotations", each["expr"]) for each in DASHBOARD["annotations"]["list"])
    yield from ((each["name"], each["query"]["query"]) for each in DASHBOARD["templating"]["list"] if each["type"] == "query")


def base_name(metric):
    return re.sub(r"_(bucket|sum|count)$", "", metric)


def promtool(test, *arguments):
    if shutil.which("promtool") is None:
        test.skipTest("promtool is not installed (deploy/setup.sh --full installs it)")
    result = subprocess.run(["promtool", *arguments], capture_output=True, text=True)
    test.assertEqual(result.returncode, 0, result.stdout + result.stderr)


class AlertsTest(unittest.TestCase):
    def test_rules_are_rules(self):
        with tempfile.TemporaryDirectory() as directory:
            rules = pathlib.Path(directory) / "rules.yaml"
            rules.write_text(yaml.safe_dump({"groups": GROUPS}))
            promtool(self, "check", "rules", "--lint=all", "--lint-fatal", str(rules))

    def test_each_alert_fires_when_it_should_and_only_then(self):
        self.assertEqual(set(CASES), set(ALERTS))
        tests = []
        for name, cases in CASES.items():
            self.assertTrue(any(labels is None for *_, labels in cases) and any(labels is not None for *_, labels in cases), name)
            # Its annotations are expanded by promtool below, from these labels.
            for series, when, labels in cases:
                tests.append({
                    "name": f"{name} at {when}",
                    "interval": "1m",
                    "input_series": [{"series": each, "values": values} for each, values in series.items()],
                    "alert_rule_test": [{"eval_time": when, "alertname": name, "exp_alerts": [] if labels is None else [
                        {"exp_labels": {**ALERTS[name]["labels"], **labels}}]}],
                })
        with tempfile.TemporaryDirectory() as directory:
            # promtool compares annotations too, which are text: the rules that it runs have none.
            groups = [{**group, "rules": [{key: value for key, value in rule.items() if key != "annotations"}
                                          for rule in group["rules"]]} for group in GROUPS]
            rules, cases = pathlib.Path(directory) / "rules.yaml", pathlib.Path(directory) / "tests.yaml"
            rules.write_text(yaml.safe_dump({"groups": groups}))
            cases.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}))
            promtool(self, "test", "rules", str(cases))

    def test_each_says_what_it_is_about(self):
        for name, rule in ALERTS.items():
            with self.subTest(alert=name):
                texts = rule["annotations"]["summary"] + rule["annotations"]["description"]
                # Every label that a text names is in the result of the alert's expression.
                firing = [labels for *_, labels in CASES[name] if labels is not None]
                for label in re.findall(r"\$labels\.(\w+)", texts):
                    self.assertIn(label, firing[0])
                for label in {"run", "worker"} & set(firing[0]):
                    self.assertIn(f"$labels.{label}", texts)

    def test_the_manual_has_a_section_on_each(self):
        manual = pathlib.Path("docs/operations.md").read_text()
        sections = re.findall(r"(?m)^### (Ringmaster\w+)$", manual)
        self.assertEqual(sorted(sections), sorted(ALERTS))
        for name, rule in ALERTS.items():
            with self.subTest(alert=name):
                self.assertEqual(rule["annotations"]["runbook_url"], f"docs/operations.md#{name.lower()}")
                section = manual.split(f"### {name}\n", 1)[1].split("\n#", 1)[0]
                self.assertTrue(re.search(r"`(ringctl|kubectl) ", section), "it names no command to look with")


class DashboardTest(unittest.TestCase):
    def test_each_panel_has_a_title_a_unit_and_expressions(self):
        self.assertGreater(len(panels()), 25)
        self.assertEqual(len({panel["id"] for panel in DASHBOARD["panels"]}), len(DASHBOARD["panels"]))
        for panel in panels():
            with self.subTest(panel=panel.get("title")):
                self.assertTrue(panel["title"])
                self.assertTrue(panel["fieldConfig"]["defaults"]["unit"])
                for target in panel["targets"]:
                    self.assertTrue(target["expr"] and target["legendFormat"])
                    self.assertEqual(target["expr"].count("{"), target["expr"].count("}"))

    def test_panels_do_not_overlap(self):
        taken = {}
        for panel in DASHBOARD["panels"]:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
            for x in range(place["x"], place["x"] + place["w"]):
                for y in range(place["y"], place["y"] + place["h"]):
                    self.assertNotIn((x, y), taken, f"{panel['title']} lies on {taken.get((x, y))}")
                    taken[x, y] = panel["title"]

    def test_expressions_are_promql(self):
        queries = [target["expr"].replace("$__rate_interval", "5m") for panel in panels() for target in panel["targets"]]
        queries += [annotation["expr"] for annotation in DASHBOARD["annotations"]["list"]]
        rules = [{"record": f"panel:{index}:x", "expr": query} for index, query in enumerate(queries)]
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "rules.yaml"
            path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
            promtool(self, "check", "rules", str(path))


class AdapterTest(unittest.TestCase):
    def test_it_serves_what_autoscalers_ask_for(self):
        asked = {each["external"]["metric"]["name"] for overlay in OVERLAYS
                 for scaler in load(overlay).of_kind("HorizontalPodAutoscaler") for each in scaler["spec"]["metrics"]}
        self.assertEqual(set(adapter_queries()), asked)
        self.assertTrue(asked)

    def test_its_rules_have_fields_that_it_knows(self):
        self.assertEqual(set(ADAPTER), {"externalRules"})
        for rule in ADAPTER["externalRules"]:
            self.assertEqual(set(rule), {"seriesQuery", "resources", "metricsQuery"})
            # Where this is missing, an autoscaler's namespace selects nothing.
            self.assertEqual(rule["resources"], {"overrides": {"namespace": {"resource": "namespace"}}})
            self.assertIn("<<.LabelMatchers>>", rule["metricsQuery"])

    def test_a_coordinator_that_moves_is_counted_once(self):
        series = [{"series": f'ringmaster_workers_wanted{{namespace="{namespace}",instance="{instance}"}}', "values": values}
                  for namespace, instance, values in (("ringmaster", "old", "6x10"), ("ringmaster", "new", "8x10"), ("other", "x", "99x10"))]
        query = adapter_queries()["ringmaster_workers_wanted"]
        case = {"input_series": series, "interval": "1m",
                "promql_expr_test": [{"expr": query, "eval_time": "5m", "exp_samples": [{"labels": "{}", "value": 8}]}]}
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "tests.yaml"
            path.write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [case]}))
            promtool(self, "test", "rules", str(path))


class MetricsTest(unittest.TestCase):
    def test_alerts_and_panels_ask_for_metrics_that_there_are(self):
        types = self.types_while_a_job_runs()
        manual = pathlib.Path("docs/operations.md").read_text()
        # Those that are there only sometimes: with a straggler, held-out samples, stale parameter servers, TLS.
        sometimes = {"ringmaster_certificate_expiry_timestamp_seconds": "gauge", "ringmaster_certificate_start_timestamp_seconds": "gauge",
                     "ringmaster_member_certificate_expiry_timestamp_seconds": "gauge", "ringmaster_straggler_wait_ratio": "gauge", "ringmaster_evaluation_loss": "gauge",
                     "ringmaster_evaluation_accuracy_ratio": "gauge", "ringmaster_staleness_steps": "histogram",
                     "ringmaster_faults_total": "counter", "ringmaster_recovery_duration_seconds": "histogram"}
        for name in sometimes:
            self.assertIn(f"`{name}`", manual)
        types = {**sometimes, **types}
        for where, expression in expressions():
            with self.subTest(where=where, expression=expression):
                for metric in metrics_in(expression):
                    self.assertIn(base_name(metric) if base_name(metric) in types else metric, types)
                for function, metric in re.findall(r"\b(rate|increase|changes)\((ringmaster_\w+)", expression):
                    counts = types[base_name(metric) if base_name(metric) in types else metric] in ("counter", "histogram")
                    self.assertEqual(counts, function != "changes", f"{function} of {metric}")

    def types_while_a_job_runs(self):
        """{metric: type} of a coordinator."""
        with Cluster() as cluster:
            coordinator = cluster.start_coordinator("--metrics_listen=127.0.0.1:0")
            address = cluster.metrics_address(coordinator)
            cluster.start_worker("a")
            cluster.await_workers(1)
            cluster.await_step(cluster.submit(synthetic_job(steps=100000)), 5)
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=20) as answer:
                return dict(re.findall(r"(?m)^# TYPE (\w+) (\w+)$", answer.read().decode()))


if __name__ == "__main__":
    report.main()
