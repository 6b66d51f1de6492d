"""Every overlay passes every check, and every check fails where it should."""

import copy
import re
import pathlib
import unittest

from tests import report
# The checks are known once these are loaded.
from tests.kubernetes import checklist, cluster_checks, pod_checks  # noqa: F401
from tests.kubernetes.manifests import CRASH_CODE, OVERLAYS, PERMANENT_CODES, load


class ChecklistTest(unittest.TestCase):
    """Its cases are below: one for each check."""

    def test_permanent_codes_are_the_manual_s(self):
        rows = re.findall(r"(?m)^\| (\d+) \| (.*?) \|$", pathlib.Path("docs/operations.md").read_text())
        self.assertEqual([int(code) for code, _ in rows if 0 < int(code) < 100], [CRASH_CODE, *PERMANENT_CODES])

    def test_every_check_has_been_seen_to_fail(self):
        self.assertEqual({name for name, _, _ in BROKEN}, set(checklist.CHECKS))

    def test_checks_find_what_is_broken(self):
        for name, overlay, breaks in BROKEN:
            manifests = copy.deepcopy(SOUND[overlay])
            breaks(manifests)
            with self.subTest(check=name, overlay=overlay, line=breaks.__code__.co_firstlineno):
                self.assertTrue(list(checklist.CHECKS[name](manifests)))


SOUND = {overlay: load(overlay) for overlay in OVERLAYS}


def _passes(name):
    def test(self):
        for overlay, manifests in SOUND.items():
            with self.subTest(overlay=overlay):
                self.assertEqual(list(checklist.CHECKS[name](manifests)), [])
    return test


for _name in checklist.CHECKS:
    setattr(ChecklistTest, f"test_{_name}", _passes(_name))


def worker(manifests):
    return manifests.pods_of("worker")[0]


def coordinator(manifests):
    return manifests.pods_of("coordinator")[0]


def set_argument(pod, name, value):
    arguments = [each for each in pod.container["args"] if not each.startswith(f"--{name}=")]
    pod.container["args"] = arguments + ([f"--{name}={value}"] if value is not None else [])


def set_env(pod, name, entry):
    pod.container["env"] = [each for each in pod.container["env"] if each["name"] != name]
    if entry is not None:
        pod.container["env"].append({"name": name, **entry})


def policy(manifests, name):
    return manifests.named("NetworkPolicy", name)["spec"]


def autoscaler(manifests):
    return manifests.of_kind("HorizontalPodAutoscaler")[0]["spec"]


def runtime(manifests):
    return manifests.of_kind("ClusterTrainingRuntime")[0]


def run_of(manifests):
    return manifests.job_sets[0][1]


def remove(manifests, kind, name):
    manifests.objects.remove(manifests.named(kind, name))


ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r", "namespace": "ringmaster"}}

# (the check that must complain, an overlay, what breaks it)
BROKEN = [
    ("namespace_is_restricted", "cpu", lambda m: m.of_kind("Namespace")[0]["metadata"]["labels"].update(
        {"pod-security.kubernetes.io/enforce": "baseline"})),
    ("namespace_is_restricted", "everything", lambda m: m.of_kind("PodMonitor")[0]["metadata"].pop("namespace")),
    ("nobody_talks_to_the_api_server", "cpu", lambda m: m.objects.append(ROLE)),
    ("nobody_talks_to_the_api_server", "cpu", lambda m: worker(m).spec.update(automountServiceAccountToken=True)),
    ("nobody_talks_to_the_api_server", "cpu", lambda m: worker(m).spec.pop("serviceAccountName")),
    ("pods_are_restricted", "cpu", lambda m: worker(m).spec["securityContext"].update(runAsNonRoot=False)),
    ("pods_are_restricted", "jobset", lambda m: worker(m).container["securityContext"].update(privileged=True)),
    ("pods_are_restricted", "cpu", lambda m: worker(m).container["securityContext"].pop("readOnlyRootFilesystem")),
    ("pods_are_restricted", "cpu", lambda m: worker(m).spec.update(hostNetwork=True)),
    ("pods_are_restricted", "cpu", lambda m: worker(m).spec["volumes"].append({"name": "h", "hostPath": {"path": "/"}})),
    ("writable_places_are_volumes", "cpu", lambda m: worker(m).container["volumeMounts"].pop()),
    ("writable_places_are_volumes", "cpu", lambda m: worker(m).spec["volumes"][0]["emptyDir"].pop("sizeLimit")),
    ("writable_places_are_volumes", "cpu", lambda m: worker(m).spec["volumes"][0]["emptyDir"].update(sizeLimit="9Gi")),
    ("images_are_fixed", "cpu", lambda m: worker(m).container.update(image="ringmaster:latest")),
    ("images_are_fixed", "cpu", lambda m: worker(m).container.update(image="ringmaster")),
    ("services_set_no_flags", "cpu", lambda m: coordinator(m).spec.pop("enableServiceLinks")),
    ("nothing_needs_a_shell", "cpu", lambda m: worker(m).container.update(command=["sh", "-c", "worker"])),
    ("nothing_needs_a_shell", "cpu", lambda m: worker(m).container.update(lifecycle={})),
    ("probes_ask_the_health_port", "cpu", lambda m: worker(m).container["readinessProbe"]["grpc"].update(service="")),
    ("probes_ask_the_health_port", "cpu", lambda m: set_argument(worker(m), "health_listen", "0.0.0.0:8082")),
    ("probes_ask_the_health_port", "cpu", lambda m: worker(m).container["startupProbe"].update(failureThreshold=3)),
    ("probes_ask_the_health_port", "cpu", lambda m: worker(m).container["livenessProbe"].pop("timeoutSeconds")),
    ("ports_are_those_of_the_flags", "cpu", lambda m: set_argument(worker(m), "metrics_listen", "0.0.0.0:9465")),
    ("ports_are_those_of_the_flags", "cpu", lambda m: set_argument(coordinator(m), "listen", "127.0.0.1:29400")),
    ("ports_are_those_of_the_flags", "cpu", lambda m: set_argument(worker(m), "slots", "200")),
    ("resources_are_said", "cpu", lambda m: worker(m).container["resources"]["limits"].pop("memory")),
    ("resources_are_said", "cpu", lambda m: worker(m).container["resources"]["limits"].update(cpu="1")),
    ("resources_are_said", "cpu", lambda m: worker(m).container["resources"]["requests"].update(memory="1Mi")),
    ("there_is_time_to_leave", "cpu", lambda m: set_argument(worker(m), "drain_timeout", "4m")),
    ("there_is_time_to_leave", "pool", lambda m: worker(m).spec.update(terminationGracePeriodSeconds=120)),
    ("there_is_time_to_leave", "cpu", lambda m: coordinator(m).spec.update(terminationGracePeriodSeconds=1)),
    ("members_outlive_the_coordinators_absence", "cpu", lambda m: set_argument(worker(m), "coordinator_timeout", None)),
    ("ends_are_explained", "cpu", lambda m: worker(m).container.pop("terminationMessagePolicy")),
    ("everything_is_labelled", "cpu", lambda m: m.of_kind("Service")[0]["metadata"]["labels"].pop(
        "app.kubernetes.io/version")),
    ("everything_is_labelled", "cpu", lambda m: worker(m).labels.pop("app.kubernetes.io/instance")),
    ("selectors_select", "cpu", lambda m: m.named("Service", "ringmaster-coordinator")["spec"]["selector"].update(x="y")),
    ("selectors_select", "cpu", lambda m: m.named("Service", "ringmaster-coordinator")["spec"]["selector"].pop(
        "app.kubernetes.io/component")),
    ("there_is_one_coordinator_that_keeps_its_state", "cpu", lambda m: coordinator(m).workload.update(replicas=2)),
    ("there_is_one_coordinator_that_keeps_its_state", "cpu", lambda m: set_argument(coordinator(m), "state_dir", "/tmp/x")),
    ("there_is_one_coordinator_that_keeps_its_state", "jobset", lambda m: coordinator(m).workload.pop(
        "podReplacementPolicy")),
    ("the_coordinator_has_an_address_that_stays", "cpu", lambda m: set_argument(worker(m), "coordinator", "other:29400")),
    ("the_coordinator_has_an_address_that_stays", "cpu", lambda m: m.named("Service", "ringmaster-coordinator")["spec"].pop(
        "publishNotReadyAddresses")),
    ("the_coordinator_has_an_address_that_stays", "cpu", lambda m: remove(m, "Service", "ringmaster-coordinator-pods")),
    ("a_lost_worker_is_replaced_and_nobody_else", "cpu", lambda m: worker(m).workload.update(completions=3)),
    ("a_lost_worker_is_replaced_and_nobody_else", "cpu", lambda m: worker(m).workload.update(backoffLimit=6)),
    ("a_lost_worker_is_replaced_and_nobody_else", "cpu", lambda m: worker(m).workload.pop("successPolicy")),
    ("a_lost_worker_is_replaced_and_nobody_else", "cpu", lambda m: worker(m).workload.update(
        podReplacementPolicy="TerminatingOrFailed")),
    ("a_lost_worker_is_replaced_and_nobody_else", "cpu",
     lambda m: worker(m).workload["podFailurePolicy"]["rules"][1]["onExitCodes"]["values"].insert(0, CRASH_CODE)),
    ("a_lost_worker_is_replaced_and_nobody_else", "jobset", lambda m: worker(m).workload["podFailurePolicy"]["rules"].reverse()),
    ("a_lost_worker_is_replaced_and_nobody_else", "cpu", lambda m: set_argument(worker(m), "jobs", "0")),
    ("the_workers_of_a_pool_outlive_jobs", "pool", lambda m: set_argument(worker(m), "jobs", "1")),
    ("the_workers_of_a_pool_outlive_jobs", "pool", lambda m: worker(m).spec.update(restartPolicy="Never")),
    ("the_workers_of_a_pool_outlive_jobs", "pool", lambda m: worker(m).workload["strategy"]["rollingUpdate"].update(maxSurge=1)),
    ("the_workers_of_a_pool_outlive_jobs", "pool", lambda m: m.named("Deployment", "ringmaster-worker").update(kind="StatefulSet")),
    ("the_workers_of_a_pool_outlive_jobs", "pool", lambda m: m.objects.append(load("cpu").of_kind("Job")[0])),
    ("the_pool_has_as_many_workers_as_somebody_says", "pool", lambda m: worker(m).workload.pop("replicas")),
    ("the_pool_has_as_many_workers_as_somebody_says", "pool-autoscaled", lambda m: worker(m).workload.update(replicas=4)),
    ("the_pool_has_as_many_workers_as_somebody_says", "pool-autoscaled", lambda m: autoscaler(m).update(minReplicas=0)),
    ("the_pool_has_as_many_workers_as_somebody_says", "pool-autoscaled", lambda m: autoscaler(m).update(maxReplicas=1)),
    ("the_pool_has_as_many_workers_as_somebody_says", "pool-autoscaled", lambda m: autoscaler(m)["scaleTargetRef"].update(
        name="ringmaster-workers")),
    ("the_pool_has_as_many_workers_as_somebody_says", "pool-autoscaled", lambda m: autoscaler(m)["metrics"][0]["external"][
        "metric"].update(name="ringmaster_workers")),
    ("the_pool_has_as_many_workers_as_somebody_says", "pool-autoscaled", lambda m: set_argument(worker(m), "slots", "8")),
    ("the_pool_has_as_many_workers_as_somebody_says", "pool-autoscaled", lambda m: autoscaler(m)["behavior"][
        "scaleDown"].update(stabilizationWindowSeconds=0)),
    ("the_pool_has_as_many_workers_as_somebody_says", "pool-autoscaled", lambda m: remove(m, "PodMonitor", "ringmaster")),
    ("finished_runs_are_removed", "cpu", lambda m: worker(m).workload.pop("ttlSecondsAfterFinished")),
    ("finished_runs_are_removed", "jobset", lambda m: worker(m).workload.update(ttlSecondsAfterFinished=1)),
    ("members_have_names_of_their_own", "cpu", lambda m: set_env(worker(m), "RINGMASTER_NAME", {"value": "worker"})),
    ("members_have_names_of_their_own", "cpu", lambda m: set_env(worker(m), "RINGMASTER_NODE", None)),
    ("members_have_names_of_their_own", "everything", lambda m: set_env(m.pods_of("parameter-server")[0],
                                                                        "RINGMASTER_ADVERTISE", None)),
    ("all_speak_the_same_way", "cpu", lambda m: set_env(worker(m), "RINGMASTER_INSECURE", None)),
    ("all_speak_the_same_way", "everything", lambda m: set_env(worker(m), "RINGMASTER_INSECURE", {"value": "true"})),
    ("all_speak_the_same_way", "everything", lambda m: set_env(worker(m), "RINGMASTER_TLS_KEY_FILE", {"value": "/tmp/key"})),
    ("secrets_are_files_that_few_can_read", "everything", lambda m: worker(m).volumes["tls"]["secret"].pop("defaultMode")),
    ("secrets_are_files_that_few_can_read", "cpu", lambda m: set_env(worker(m), "KEY", {"valueFrom": {"secretKeyRef": {}}})),
    ("the_network_lets_through_what_is_needed_and_no_more", "cpu", lambda m: remove(m, "NetworkPolicy", "default-deny")),
    ("the_network_lets_through_what_is_needed_and_no_more", "cpu", lambda m: policy(
        m, "members-reach-each-other")["ingress"][0]["ports"][0].pop("endPort")),
    ("the_network_lets_through_what_is_needed_and_no_more", "cpu", lambda m: policy(
        m, "members-reach-coordinator")["egress"][0].pop("to")),
    ("the_network_lets_through_what_is_needed_and_no_more", "cpu", lambda m: policy(
        m, "coordinator-serves")["ingress"][0]["from"].append({"namespaceSelector": {}})),
    ("the_network_lets_through_what_is_needed_and_no_more", "cpu", lambda m: set_argument(
        worker(m), "data_ports", "29500-29700")),
    ("the_network_lets_through_what_is_needed_and_no_more", "everything", lambda m: remove(
        m, "NetworkPolicy", "prometheus-scrapes")),
    ("evictions_are_bounded", "cpu", lambda m: remove(m, "PodDisruptionBudget", "ringmaster-worker")),
    ("evictions_are_bounded", "cpu", lambda m: m.named("PodDisruptionBudget", "ringmaster-worker")["spec"].update(
        minAvailable="50%")),
    ("evictions_are_bounded", "cpu", lambda m: m.named("PodDisruptionBudget", "ringmaster-coordinator")["spec"].pop(
        "unhealthyPodEvictionPolicy")),
    ("evictions_are_bounded", "pool", lambda m: m.named("PodDisruptionBudget", "ringmaster-worker")["spec"].update(
        maxUnavailable=1)),
    ("pods_are_spread_and_leave_lost_nodes", "cpu", lambda m: worker(m).spec.pop("topologySpreadConstraints")),
    ("pods_are_spread_and_leave_lost_nodes", "gpu", lambda m: worker(m).spec["tolerations"].pop(0)),
    ("gpus_have_what_nccl_needs", "gpu", lambda m: set_argument(worker(m), "device", "cpu")),
    ("gpus_have_what_nccl_needs", "gpu", lambda m: worker(m).mounts["/dev/shm"]["emptyDir"].pop("medium")),
    ("gpus_have_what_nccl_needs", "gpu", lambda m: set_env(worker(m), "NCCL_SOCKET_IFNAME", {"value": "eth"})),
    ("gpus_have_what_nccl_needs", "gpu", lambda m: worker(m).spec["tolerations"].pop()),
    ("nothing_needs_a_shell", "trainjob", lambda m: m.pods_of("submit")[0].container.update(args=["--help"])),
    ("ports_are_those_of_the_flags", "trainjob", lambda m: m.pods_of("submit")[0].container.update(
        ports=[{"name": "x", "containerPort": 1}])),
    ("ports_are_those_of_the_flags", "everything", lambda m: set_argument(coordinator(m), "page_listen", "0.0.0.0:443")),
    ("namespace_is_restricted", "trainjob", lambda m: runtime(m)["metadata"].update(namespace="ringmaster")),
    ("the_coordinator_has_an_address_that_stays", "trainjob", lambda m: set_env(worker(m), "JOBSET_NAME", {"value": "run"})),
    ("the_coordinator_has_an_address_that_stays", "trainjob", lambda m: set_argument(
        m.pods_of("submit")[0], "coordinator", "ringmaster-coordinator:29400")),
    ("the_coordinator_has_an_address_that_stays", "trainjob", lambda m: run_of(m)["network"].update(enableDNSHostnames=False)),
    ("a_lost_worker_is_replaced_and_nobody_else", "trainjob", lambda m: worker(m).workload["podFailurePolicy"]["rules"][1][
        "onExitCodes"].update(containerName="worker")),
    ("finished_runs_are_removed", "trainjob", lambda m: run_of(m).update(ttlSecondsAfterFinished=60)),
    ("the_network_lets_through_what_is_needed_and_no_more", "trainjob", lambda m: remove(
        m, "NetworkPolicy", "submit-reaches-coordinator")),
    ("the_network_lets_through_what_is_needed_and_no_more", "everything", lambda m: remove(m, "NetworkPolicy", "page-serves")),
    ("the_network_lets_through_what_is_needed_and_no_more", "everything", lambda m: policy(
        m, "page-serves")["ingress"][0]["from"].pop()),
    ("a_job_set_ends_with_its_workers", "trainjob", lambda m: run_of(m)["successPolicy"].update(targetReplicatedJobs=["submit"])),
    ("a_job_set_ends_with_its_workers", "trainjob", lambda m: run_of(m)["replicatedJobs"][1].pop("dependsOn")),
    ("a_runtime_is_what_trainer_takes", "trainjob", lambda m: run_of(m)["replicatedJobs"][2]["template"].pop("metadata")),
    ("a_runtime_is_what_trainer_takes", "trainjob", lambda m: worker(m).container.update(name="worker")),
    ("a_runtime_is_what_trainer_takes", "trainjob", lambda m: run_of(m)["replicatedJobs"][2].update(replicas=2)),
    ("a_runtime_is_what_trainer_takes", "trainjob", lambda m: runtime(m)["spec"].update(mlPolicy={"torch": {}})),
    ("a_runtime_is_what_trainer_takes", "trainjob", lambda m: runtime(m)["metadata"]["labels"].pop("trainer.kubeflow.org/framework")),
    ("a_run_that_queues_waits_for_its_turn", "kueue", lambda m: worker(m).workload.pop("suspend")),
    ("a_run_that_queues_waits_for_its_turn", "cpu", lambda m: worker(m).workload.update(suspend=True)),
    ("a_run_that_queues_waits_for_its_turn", "kueue", lambda m: worker(m).workload.update(parallelism=1)),
    ("a_run_that_queues_waits_for_its_turn", "kueue", lambda m: m.of_kind("Job")[0]["metadata"]["annotations"].pop(
        "kueue.x-k8s.io/job-completions-equal-parallelism")),
    ("a_run_that_queues_waits_for_its_turn", "pool", lambda m: m.of_kind("Deployment")[0]["metadata"]["labels"].update(
        {"kueue.x-k8s.io/queue-name": "ringmaster"})),
    ("the_page_asks_those_who_reach_it", "cpu", lambda m: set_argument(coordinator(m), "page_listen", "0.0.0.0:29480")),
    ("the_page_asks_those_who_reach_it", "cpu", lambda m: set_argument(coordinator(m), "page_listen", None)),
    ("the_page_asks_those_who_reach_it", "everything", lambda m: set_argument(coordinator(m), "page_listen", "127.0.0.1:29480")),
    ("the_page_asks_those_who_reach_it", "everything", lambda m: set_argument(coordinator(m), "access_file", "/tmp/access.yaml")),
    ("the_page_asks_those_who_reach_it", "everything", lambda m: remove(m, "Service", "ringmaster-page")),
    ("the_page_asks_those_who_reach_it", "everything", lambda m: m.named(
        "Certificate", "ringmaster-coordinator-tls")["spec"]["dnsNames"].remove("ringmaster-page.ringmaster.svc")),
    ("the_page_asks_those_who_reach_it", "everything", lambda m: m.of_kind("Ingress")[0]["spec"]["rules"][0].update(host="other.example.com")),
    ("the_page_asks_those_who_reach_it", "everything", lambda m: m.of_kind("Ingress")[0]["spec"].pop("tls")),
    ("the_page_asks_those_who_reach_it", "everything", lambda m: m.of_kind("Ingress")[0]["spec"]["rules"][0]["http"]["paths"][0][
        "backend"]["service"].update(name="ringmaster-coordinator")),
    ("all_pods_are_scraped", "everything", lambda m: worker(m).container["ports"].pop()),
    ("all_pods_are_scraped", "everything", lambda m: remove(m, "PrometheusRule", "ringmaster")),
    ("all_pods_are_scraped", "everything", lambda m: m.of_kind("ConfigMap")[0]["metadata"]["labels"].pop("grafana_dashboard")),
    ("a_job_set_ends_with_its_workers", "jobset", lambda m: m.of_kind("JobSet")[0]["spec"].pop("successPolicy")),
    ("a_job_set_ends_with_its_workers", "jobset", lambda m: m.of_kind("JobSet")[0]["spec"]["failurePolicy"]["rules"].pop()),
    ("a_job_set_ends_with_its_workers", "jobset", lambda m: m.of_kind("JobSet")[0]["spec"]["replicatedJobs"][1].pop("dependsOn")),
]


if __name__ == "__main__":
    report.main()
