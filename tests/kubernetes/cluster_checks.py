"""Checks of what is around the pods: workloads, services, policies."""

from tests.kubernetes.checklist import check
from tests.kubernetes.manifests import PERMANENT_CODES, selects
from tests.kubernetes.network import End, is_allowed

LABELS = ["name", "instance", "version", "component", "part-of", "managed-by"]


@check
def everything_is_labelled(manifests):
    for each in manifests.objects:
        for label in LABELS:
            if f"app.kubernetes.io/{label}" not in each["metadata"].get("labels", {}):
                yield f"{each['kind']} {each['metadata']['name']} has no label {label}"
    for pod in manifests.pods:
        for label in LABELS:
            # A version in a template would restart what need not be restarted.
            if label != "version" and f"app.kubernetes.io/{label}" not in pod.labels:
                yield f"the pods of {pod.owner} have no label {label}"


@check
def selectors_select(manifests):
    """Every selector takes the pods of exactly one workload."""
    selectors = []
    for service in manifests.of_kind("Service"):
        selectors.append((f"Service {service['metadata']['name']}", {"matchLabels": service["spec"]["selector"]}))
    for kind in ("StatefulSet", "Deployment", "PodDisruptionBudget"):
        for each in manifests.of_kind(kind):
            selectors.append((f"{kind} {each['metadata']['name']}", each["spec"]["selector"]))
    for pod in manifests.pods:
        for constraint in pod.spec.get("topologySpreadConstraints", []):
            selectors.append((f"the spread of {pod.owner}", constraint["labelSelector"]))
    for what, selector in selectors:
        taken = [pod.owner for pod in manifests.pods if selects(selector, pod.labels)]
        if len(taken) != 1:
            yield f"{what} selects {taken}"


@check
def there_is_one_coordinator_that_keeps_its_state(manifests):
    coordinators = manifests.pods_of("coordinator")
    if len(coordinators) != 1:
        yield f"coordinators: {[pod.owner for pod in coordinators]}"
        return
    pod = coordinators[0]
    if pod.workload.get("replicas", pod.workload.get("parallelism")) != 1:
        yield "there is more than one coordinator"
    state = pod.flags.get("state_dir", "")
    volume = next((volume for path, volume in pod.mounts.items() if state.startswith(f"{path}/")), None)
    if volume is None:
        yield f"{pod.owner}: --state_dir={state} is in no volume"
    elif pod.owner.startswith("StatefulSet"):
        if "claimTemplate" not in volume:
            yield f"{pod.owner}: --state_dir={state} is not in a claimed volume"
        if pod.workload.get("persistentVolumeClaimRetentionPolicy") != {"whenDeleted": "Retain", "whenScaled": "Retain"}:
            yield f"{pod.owner}: its volume goes with it"
    elif pod.workload.get("podReplacementPolicy") != "Failed":
        yield f"{pod.owner}: there may be two at once"


@check
def the_coordinator_has_an_address_that_stays(manifests):
    pod = manifests.pods_of("coordinator")[0]
    port = pod.port_of("listen")
    for member in manifests.pods:
        if member is pod or member.component == "coordinator":
            continue
        name, _, said = member.flags.get("coordinator", "").partition(":")
        if member.owner.startswith("ClusterTrainingRuntime"):
            # There is a coordinator for each TrainJob, whose JobSet has its name.
            label = "metadata.labels['jobset.sigs.k8s.io/jobset-name']"
            if name != "$(JOBSET_NAME)-coordinator-0-0.$(JOBSET_NAME)" or said != str(port) or member.env.get("JOBSET_NAME") != label:
                yield f"{member.owner} looks for the coordinator at {name}:{said}, with JOBSET_NAME {member.env.get('JOBSET_NAME')}"
            continue
        services = [each for each in manifests.of_kind("Service") if each["metadata"]["name"] == name]
        if not services or said != str(port):
            yield f"{member.owner} looks for the coordinator at {name}:{said}"
            continue
        spec = services[0]["spec"]
        if spec.get("clusterIP") == "None" or not spec.get("publishNotReadyAddresses"):
            yield f"service {name} has no address that stays, or only when the coordinator is ready"
        if spec["ports"] != [{"name": "grpc", "port": port, "targetPort": "grpc", "appProtocol": "grpc"}]:
            yield f"service {name}: ports are {spec['ports']}"
    for owner, job_set in manifests.job_sets:
        if job_set.get("network") != {"enableDNSHostnames": True, "publishNotReadyAddresses": True}:
            yield f"{owner}: its pods have no names, or only when they are ready: {job_set.get('network')}"
    for workload in manifests.of_kind("StatefulSet"):
        name = workload["spec"]["serviceName"]
        own = [each for each in manifests.of_kind("Service") if each["metadata"]["name"] == name]
        if not own or own[0]["spec"].get("clusterIP") != "None":
            yield f"StatefulSet {workload['metadata']['name']} has no headless service {name}"


@check
def a_lost_worker_is_replaced_and_nobody_else(manifests):
    for pod in manifests.pods_of("worker"):
        if pod.stays:
            continue
        spec = pod.workload
        if spec.get("completionMode") != "Indexed" or spec.get("completions") != spec.get("parallelism"):
            yield f"{pod.owner} is not an Indexed Job with as many completions as pods"
        if spec.get("successPolicy") != {"rules": [{"succeededCount": 1}]}:
            yield f"{pod.owner} waits for workers that come after the end"
        if spec.get("backoffLimit", 6) < 100 or pod.spec.get("restartPolicy") != "Never":
            yield f"{pod.owner} gives up after {spec.get('backoffLimit', 6)} lost workers, or restarts in place"
        # With a podFailurePolicy the API takes no other.
        if spec.get("podReplacementPolicy") != "Failed":
            yield f"{pod.owner}: podReplacementPolicy is {spec.get('podReplacementPolicy')}"
        rules = spec.get("podFailurePolicy", {}).get("rules", [])
        wanted = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                  {"action": "FailJob", "onExitCodes": {"containerName": pod.container["name"], "operator": "In",
                                                        "values": PERMANENT_CODES}}]
        if rules != wanted:
            yield f"{pod.owner}: podFailurePolicy is {rules}"
        if pod.flags.get("jobs") != "1":
            yield f"{pod.owner}: --jobs={pod.flags.get('jobs')}: its pods do not end with the job"


@check
def the_workers_of_a_pool_outlive_jobs(manifests):
    workers = manifests.pods_of("worker")
    if len(workers) != 1:
        yield f"workers are of {[pod.owner for pod in workers]}"
    for pod in workers:
        if not pod.stays:
            continue
        # A StatefulSet waits for the end of a pod before it starts the next.
        if not pod.owner.startswith("Deployment"):
            yield f"{pod.owner}: a worker that leaves has no successor yet"
        if "jobs" in pod.flags:
            yield f"{pod.owner}: --jobs={pod.flags['jobs']}: its pods end with jobs"
        if pod.spec.get("restartPolicy") != "Always":
            yield f"{pod.owner}: the API takes no restartPolicy {pod.spec.get('restartPolicy')}"
        if pod.workload.get("strategy") != {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}:
            yield f"{pod.owner}: an update takes several workers at once, or waits for room: {pod.workload.get('strategy')}"


@check
def the_pool_has_as_many_workers_as_somebody_says(manifests):
    """That is the manifest, or an autoscaler which follows what jobs want."""
    scalers = manifests.of_kind("HorizontalPodAutoscaler")
    pools = {pod.owner: pod for pod in manifests.pods_of("worker") if pod.stays}
    targets = ["{kind} {name}".format(**scaler["spec"]["scaleTargetRef"]) for scaler in scalers]
    if not set(targets) <= set(pools) or len(targets) != len(set(targets)):
        yield f"autoscalers are of {targets}"
        return
    for owner, pod in pools.items():
        if (owner in targets) == ("replicas" in pod.workload):
            yield f"{owner}: either replicas or an autoscaler, not {pod.workload.get('replicas')}"
    for scaler, target in zip(scalers, targets):
        spec = scaler["spec"]
        if not 1 <= spec.get("minReplicas", 1) < spec["maxReplicas"]:
            yield f"the autoscaler of {target} has from {spec.get('minReplicas')} to {spec['maxReplicas']} pods"
        metrics = [each.get("external") for each in spec["metrics"]]
        if metrics != [{"metric": {"name": "ringmaster_workers_wanted"},
                        "target": {"type": "AverageValue", "averageValue": pools[target].flags["slots"]}}]:
            yield f"the autoscaler of {target} follows {metrics}"
        if spec.get("behavior", {}).get("scaleDown", {}).get("stabilizationWindowSeconds", 300) < 300:
            yield f"the autoscaler of {target} takes workers away between two jobs"
    if scalers and not manifests.of_kind("PodMonitor"):
        yield "nobody scrapes the metric that the autoscaler follows"


@check
def finished_runs_are_removed(manifests):
    for each in manifests.of_kind("Job") + manifests.of_kind("JobSet"):
        if "ttlSecondsAfterFinished" not in each["spec"]:
            yield f"{each['kind']} {each['metadata']['name']} stays for ever"
    for owner, job_set in manifests.job_sets:
        for job in job_set["replicatedJobs"]:
            if "ttlSecondsAfterFinished" in job["template"]["spec"]:
                yield f"{owner}: its Job {job['name']} would go before it"
        # Trainer makes another one for a TrainJob that has none.
        if owner.startswith("ClusterTrainingRuntime") and "ttlSecondsAfterFinished" in job_set:
            yield f"{owner}: a TrainJob that has ended would begin again"


@check
def the_network_lets_through_what_is_needed_and_no_more(manifests):
    policies = manifests.of_kind("NetworkPolicy")
    deny = [policy for policy in policies if policy["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}]
    if len(deny) != 1:
        yield "there is no policy that denies everything else"
    namespace = manifests.of_kind("Namespace")[0]["metadata"]["name"]
    ends = {pod.component: End(labels=pod.labels, namespace=namespace) for pod in manifests.pods}
    members = {pod.component: pod for pod in manifests.pods if pod.is_member}
    ends |= {
        "user": End(namespace="team", namespace_labels={"ringmaster-client": "true"}),
        "stranger": End(namespace="default"),
        "stranger in the namespace": End(namespace=namespace, labels={"app": "x"}),
        "dns": End(namespace="kube-system", labels={"k8s-app": "kube-dns"}),
        "dns of the node": End(address="169.254.20.10"),
        "internet": End(address="192.0.2.1"),
        "API server": End(address="10.96.0.1"),
        "ingress controller": End(namespace="ingress-nginx"),
        "prometheus": End(namespace="monitoring", labels={"app.kubernetes.io/name": "prometheus"}),
    }
    coordinator = manifests.pods_of("coordinator")[0].port_of("listen")
    wanted = {("user", "coordinator", coordinator, "TCP")}
    for name, pod in members.items():
        wanted |= {(name, other, port, "TCP") for other in members for port in pod.data_ports}
    for name in {pod.component for pod in manifests.pods} - {"coordinator"}:
        wanted |= {(name, dns, 53, protocol) for dns in ("dns", "dns of the node") for protocol in ("TCP", "UDP")}
        wanted.add((name, "coordinator", coordinator, "TCP"))
    page = manifests.pods_of("coordinator")[0].ports.get("page")
    if page:
        wanted.add(("user", "coordinator", page, "TCP"))
    if manifests.of_kind("Ingress"):
        wanted.add(("ingress controller", "coordinator", page, "TCP"))
    if manifests.of_kind("PodMonitor"):
        wanted |= {("prometheus", pod.component, pod.port_of("metrics_listen"), "TCP") for pod in manifests.pods}
    # NCCL takes any port.
    any_port = any(pod.flags.get("device") == "cuda" for pod in manifests.pods)
    ports = sorted({port for *_, port, _ in wanted} | {22, 443, 8081, 9464, 29480, 29499, 29600, 40000})
    inside = {pod.component for pod in manifests.pods}
    for source in ends:
        for target in ends:
            if source not in inside and target not in inside:
                continue
            for port in ports:
                for protocol in ("TCP", "UDP"):
                    is_open = is_allowed(policies, ends[source], ends[target], port, protocol)
                    if any_port and {source, target} <= set(members) and protocol == "TCP":
                        is_wanted = port >= 1024
                    else:
                        is_wanted = (source, target, port, protocol) in wanted
                    if is_open != is_wanted:
                        yield f"{source} -> {target} {protocol} {port} is {'open' if is_open else 'closed'}"


@check
def evictions_are_bounded(manifests):
    budgets = {pod.component: [each["spec"] for each in manifests.of_kind("PodDisruptionBudget")
                               if selects(each["spec"]["selector"], pod.labels)] for pod in manifests.pods}
    for pod in manifests.pods:
        if pod.is_command:
            continue
        if len(budgets[pod.component]) != 1:
            yield f"{pod.owner} has {len(budgets[pod.component])} budgets"
            continue
        budget = budgets[pod.component][0]
        if budget.get("unhealthyPodEvictionPolicy") != "AlwaysAllow":
            yield f"{pod.owner}: a pod that is not ready cannot be evicted"
        if pod.component == "worker" and pod.stays:
            # Draining a node waits for no room elsewhere, if workers are on two.
            if budget.get("maxUnavailable") != "50%" or "minAvailable" in budget:
                yield f"{pod.owner}: its budget says {budget}"
        elif pod.component == "worker":
            # A Job has no scale, without which only a number of pods that must stay means anything.
            if type(budget.get("minAvailable")) is not int or "maxUnavailable" in budget:
                yield f"{pod.owner}: its budget says {budget}"
        elif budget.get("maxUnavailable") != 1 or "minAvailable" in budget:
            yield f"{pod.owner}: its budget says {budget}"


@check
def all_pods_are_scraped(manifests):
    for monitor in manifests.of_kind("PodMonitor"):
        port = monitor["spec"]["podMetricsEndpoints"][0]["port"]
        for pod in manifests.pods:
            if not selects(monitor["spec"]["selector"], pod.labels) or port not in pod.ports:
                yield f"{pod.owner} is not scraped"
    if bool(manifests.of_kind("PodMonitor")) != bool(manifests.of_kind("PrometheusRule")):
        yield "either both, a PodMonitor and alerts, or none"
    for board in manifests.of_kind("ConfigMap"):
        if board["metadata"]["labels"].get("grafana_dashboard") != "1":
            yield f"ConfigMap {board['metadata']['name']} is not found by Grafana"


@check
def a_job_set_ends_with_its_workers(manifests):
    for owner, spec in manifests.job_sets:
        names = {job["template"]["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]: job["name"]
                 for job in spec["replicatedJobs"]}
        if spec.get("successPolicy") != {"operator": "All", "targetReplicatedJobs": [names["worker"]]}:
            yield f"{owner}: successPolicy is {spec.get('successPolicy')}"
        rules = spec.get("failurePolicy", {}).get("rules", [])
        if not rules or rules[0].get("action") != "FailJobSet" or rules[0].get("onJobFailureReasons") != ["PodFailurePolicy"]:
            yield f"{owner}: a permanent exit code restarts the JobSet"
        for job in spec["replicatedJobs"]:
            wanted = None if job["name"] == names["coordinator"] else [{"name": names["coordinator"], "status": "Ready"}]
            if job.get("dependsOn") != wanted:
                yield f"{owner}: {job['name']} waits for {job.get('dependsOn')}, not for {wanted}"


@check
def a_runtime_is_what_trainer_takes(manifests):
    """What Trainer's webhooks and plug-ins ask for."""
    for each in manifests.of_kind("ClusterTrainingRuntime"):
        steps = {}
        for job in each["spec"]["template"]["spec"]["replicatedJobs"]:
            step = job["template"].get("metadata", {}).get("labels", {}).get("trainer.kubeflow.org/trainjob-ancestor-step")
            steps.setdefault(step, []).append(job)
        if [job["name"] for job in steps.get("trainer", [])] != ["node"] or set(steps) != {None, "trainer"}:
            yield f"the steps of the run are {[(step, job['name']) for step, jobs in steps.items() for job in jobs]}"
            continue
        (node,) = steps["trainer"]
        pods = node["template"]["spec"]
        if node.get("replicas") != 1 or [container["name"] for container in pods["template"]["spec"]["containers"]] != ["node"]:
            yield "Trainer counts the pods of one Job, and sets the resources of its container `node`"
        if each["spec"].get("mlPolicy") != {"numNodes": pods["completions"]}:
            yield f"mlPolicy is {each['spec'].get('mlPolicy')}, for {pods['completions']} workers"
        if "trainer.kubeflow.org/framework" not in each["metadata"]["labels"]:
            yield "Trainer's clients do not see which framework it is"


@check
def a_run_that_queues_waits_for_its_turn(manifests):
    """Kueue's labels."""
    for each in manifests.objects:
        queue = each["metadata"].get("labels", {}).get("kueue.x-k8s.io/queue-name")
        name = f"{each['kind']} {each['metadata']['name']}"
        if (queue is not None) != each.get("spec", {}).get("suspend", False):
            yield f"{name}: queue {queue}, and suspend is {each.get('spec', {}).get('suspend')}"
        if queue is not None and each["kind"] not in ("Job", "JobSet"):
            yield f"{name} has a queue, and is no run"
        annotations = each["metadata"].get("annotations", {})
        fewest = annotations.get("kueue.x-k8s.io/job-min-parallelism")
        if fewest is None:
            continue
        if queue is None or not 1 <= int(fewest) < each["spec"]["parallelism"]:
            yield f"{name}: Kueue takes no job-min-parallelism {fewest}"
        # An Indexed Job with more completions than pods would begin anew with those that are missing.
        if annotations.get("kueue.x-k8s.io/job-completions-equal-parallelism") != "true":
            yield f"{name}: with fewer workers it has completions that nobody makes"


@check
def the_page_asks_those_who_reach_it(manifests):
    """On loopback without TLS, where only `kubectl port-forward` leads; or with TLS and tokens."""
    for pod in manifests.pods_of("coordinator"):
        is_local = pod.flags.get("page_listen", "").startswith("127.0.0.1:")
        has_tls = "RINGMASTER_TLS_KEY_FILE" in pod.env
        if "page_listen" not in pod.flags:
            if not has_tls:
                yield f"{pod.owner} has no page"
        elif is_local == has_tls:
            yield f"{pod.owner}: a page at {pod.flags['page_listen']}, {'with' if has_tls else 'without'} TLS"
        if not is_local and "page_listen" in pod.flags:
            directory = pod.flags.get("access_file", "").rsplit("/", 1)[0]
            if "secret" not in pod.mounts.get(directory, {}):
                yield f"{pod.owner}: the page's tokens are in no mounted secret"
        services = [each for each in manifests.of_kind("Service")
                    if any(port.get("targetPort") == "page" for port in each["spec"]["ports"])]
        if len(services) != int("page" in pod.ports):
            yield f"{pod.owner}: {len(services)} services lead to the page"
            continue
        names = {name for each in manifests.of_kind("Certificate") for name in each["spec"].get("dnsNames", [])
                 if each["metadata"]["name"] == "ringmaster-coordinator-tls"}
        for service in services:
            called = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"
            if called not in names:
                yield f"the page does not answer to {called}"
        for ingress in manifests.of_kind("Ingress"):
            spec = ingress["spec"]
            hosts = {rule["host"] for rule in spec["rules"]}
            if not hosts <= names:
                yield f"the page does not answer to {sorted(hosts - names)}"
            if {host for entry in spec.get("tls", []) for host in entry["hosts"]} != hosts:
                yield f"Ingress {ingress['metadata']['name']}: clear text for one of {sorted(hosts)}"
            for rule in spec["rules"]:
                for path in rule["http"]["paths"]:
                    backend = path["backend"]["service"]
                    if not any(service["metadata"]["name"] == backend["name"] and
                               service["spec"]["ports"][0]["name"] == backend["port"].get("name") for service in services):
                        yield f"Ingress {ingress['metadata']['name']} leads to {backend}"
