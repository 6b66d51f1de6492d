"""Checks of pods, each by itself."""

import re

from tests.kubernetes.checklist import check
from tests.kubernetes.manifests import CLUSTER_KINDS, quantity, seconds

ALLOWED_VOLUMES = {"emptyDir", "configMap", "secret", "persistentVolumeClaim", "projected", "downwardAPI", "claimTemplate"}


@check
def namespace_is_restricted(manifests):
    for mode in ("enforce", "audit", "warn"):
        for namespace in manifests.of_kind("Namespace"):
            level = namespace["metadata"]["labels"].get(f"pod-security.kubernetes.io/{mode}")
            if level != "restricted":
                yield f"namespace {namespace['metadata']['name']}: {mode} is {level}"
    names = {each["metadata"]["name"] for each in manifests.of_kind("Namespace")}
    if len(names) != 1:
        yield f"namespaces: {sorted(names)}"
    for each in manifests.objects:
        if {each["metadata"].get("namespace")} != ({None} if each["kind"] in CLUSTER_KINDS else names):
            yield f"{each['kind']} {each['metadata']['name']} is in namespace {each['metadata'].get('namespace')}"


@check
def nobody_talks_to_the_api_server(manifests):
    for each in manifests.objects:
        if "rbac" in each["apiVersion"]:
            yield f"{each['kind']} {each['metadata']['name']}: no role is needed"
    for account in manifests.of_kind("ServiceAccount"):
        if account.get("automountServiceAccountToken") is not False:
            yield f"service account {account['metadata']['name']} mounts its token"
    accounts = {account["metadata"]["name"] for account in manifests.of_kind("ServiceAccount")}
    for pod in manifests.pods:
        if pod.spec.get("automountServiceAccountToken") is not False:
            yield f"{pod.owner} mounts a token"
        if pod.spec.get("serviceAccountName") not in accounts:
            yield f"{pod.owner} runs as service account {pod.spec.get('serviceAccountName')}"


@check
def pods_are_restricted(manifests):
    """The profile "restricted" of Pod Security, and more: a file system that nobody writes to, and one known user."""
    for pod in manifests.pods:
        context = pod.spec.get("securityContext", {})
        wanted = {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
                  "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"}}
        if context != wanted:
            yield f"{pod.owner}: securityContext of the pod is {context}"
        wanted = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        if pod.container.get("securityContext") != wanted:
            yield f"{pod.owner}: securityContext of the container is {pod.container.get('securityContext')}"
        for name in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "initContainers", "hostAliases"):
            if name in pod.spec:
                yield f"{pod.owner} has {name}"
        if len(pod.spec["containers"]) != 1:
            yield f"{pod.owner} has {len(pod.spec['containers'])} containers"
        for port in pod.container.get("ports", []):
            if "hostPort" in port:
                yield f"{pod.owner} has hostPort {port['hostPort']}"
        for name, volume in pod.volumes.items():
            if not set(volume) - {"name"} <= ALLOWED_VOLUMES:
                yield f"{pod.owner}: volume {name} is {sorted(set(volume) - {'name'})}"


@check
def writable_places_are_volumes(manifests):
    for pod in manifests.pods:
        if "emptyDir" not in pod.mounts.get("/tmp", {}):
            yield f"{pod.owner} cannot write to /tmp"
        limit = quantity(pod.container["resources"]["limits"]["ephemeral-storage"])
        total = 0
        for name, volume in pod.volumes.items():
            if volume not in pod.mounts.values():
                yield f"{pod.owner} does not mount its volume {name}"
            if "emptyDir" not in volume:
                continue
            if "sizeLimit" not in (volume["emptyDir"] or {}):
                yield f"{pod.owner}: emptyDir {name} may fill the node's disk"
            elif volume["emptyDir"].get("medium") != "Memory":
                total += quantity(volume["emptyDir"]["sizeLimit"])
        if total > limit:
            yield f"{pod.owner}: its emptyDirs take up to {total:.0f} bytes, more than its limit of ephemeral storage"


@check
def images_are_fixed(manifests):
    for pod in manifests.pods:
        image = pod.container.get("image", "")
        if not re.search(r"(:\d+\.\d+\.\d+(-cuda)?|@sha256:[0-9a-f]{64})$", image):
            yield f"{pod.owner}: image {image} has no version"
        if pod.container.get("imagePullPolicy") != "IfNotPresent":
            yield f"{pod.owner}: imagePullPolicy is {pod.container.get('imagePullPolicy')}"


@check
def services_set_no_flags(manifests):
    for pod in manifests.pods:
        if pod.spec.get("enableServiceLinks") is not False:
            yield f"{pod.owner} gets variables of services, as RINGMASTER_COORDINATOR_PORT, which look like flags"


@check
def nothing_needs_a_shell(manifests):
    for pod in manifests.pods:
        if len(pod.container.get("command", [])) != 1 or \
                pod.program not in ("coordinator", "worker", "parameter_server", "ringctl") or \
                pod.is_command != bool(pod.arguments):
            yield f"{pod.owner} runs {pod.container.get('command')}"
        if "lifecycle" in pod.container:
            yield f"{pod.owner} has lifecycle hooks; the programs mind SIGTERM themselves"
        for argument in pod.container.get("args", []):
            if not re.fullmatch(r"--[a-z_]+(=\S+)?" + (r"|[a-z/.]+" if pod.is_command else ""), argument):
                yield f"{pod.owner}: argument {argument!r}"


@check
def probes_ask_the_health_port(manifests):
    for pod in manifests.pods:
        if pod.is_command:
            continue
        for kind, service in (("startupProbe", ""), ("livenessProbe", ""), ("readinessProbe", "ready")):
            probe = pod.container.get(kind, {})
            if probe.get("grpc") != {"port": pod.port_of("health_listen"), "service": service}:
                yield f"{pod.owner}: {kind} is {probe}"
            elif probe.get("timeoutSeconds", 1) < 2:
                yield f"{pod.owner}: {kind} waits a second only, which a busy node may take"
        startup = pod.container.get("startupProbe", {})
        if startup.get("periodSeconds", 10) * startup.get("failureThreshold", 3) < 60:
            yield f"{pod.owner} has less than a minute to start"
        liveness = pod.container.get("livenessProbe", {})
        if liveness.get("periodSeconds", 10) * liveness.get("failureThreshold", 3) < 30:
            yield f"{pod.owner} is killed after less than 30 seconds without an answer"


@check
def ports_are_those_of_the_flags(manifests):
    for pod in manifests.pods:
        if pod.is_command:
            if pod.ports:
                yield f"{pod.owner} has ports"
            continue
        wanted = {"health": pod.port_of("health_listen"), "metrics": pod.port_of("metrics_listen")}
        if pod.is_member:
            wanted["data"] = pod.data_ports[0]
        else:
            wanted["grpc"] = pod.port_of("listen")
            if not pod.flags.get("page_listen", "127.0.0.1:").startswith("127.0.0.1:"):
                wanted["page"] = pod.port_of("page_listen")
        if pod.ports != wanted:
            yield f"{pod.owner}: ports are {pod.ports}, flags say {wanted}"
        for flag in ("listen", "health_listen", "metrics_listen"):
            if flag in pod.flags and not pod.flags[flag].startswith("0.0.0.0:"):
                yield f"{pod.owner}: --{flag}={pod.flags[flag]} is not to be reached from outside the pod"
        if pod.is_member:
            slots, (first, last) = int(pod.flags["slots"]), pod.data_ports
            if last - first + 1 < slots:
                yield f"{pod.owner}: {slots} slots, but {last - first + 1} ports"


@check
def resources_are_said(manifests):
    for pod in manifests.pods:
        requests, limits = (pod.container.get("resources", {}).get(kind, {}) for kind in ("requests", "limits"))
        for name in ("cpu", "memory", "ephemeral-storage"):
            if name not in requests:
                yield f"{pod.owner} requests no {name}"
        for name in ("memory", "ephemeral-storage"):
            if name not in limits:
                yield f"{pod.owner} has no limit of {name}"
        if "cpu" in limits:
            yield f"{pod.owner} has a limit of cpu: a process that is held back looks like one that froze"
        if pod.is_member and requests.get("memory") != limits.get("memory"):
            yield f"{pod.owner} may use more memory than it has asked for, and be killed first"


@check
def there_is_time_to_leave(manifests):
    for pod in manifests.pods:
        grace = pod.spec.get("terminationGracePeriodSeconds", 30)
        needed = seconds(pod.flags.get("drain_timeout" if pod.is_member else "shutdown_delay", "200ms"))
        if grace < needed + 15:
            yield f"{pod.owner} is killed after {grace} s, but takes up to {needed:g} s to leave, and 15 s to end"


@check
def members_outlive_the_coordinators_absence(manifests):
    for pod in manifests.pods:
        if pod.is_member and seconds(pod.flags.get("coordinator_timeout", "1m")) < 600:
            yield f"{pod.owner} ends when the coordinator is away for less than ten minutes, as when its volume moves to another node"


@check
def ends_are_explained(manifests):
    for pod in manifests.pods:
        if pod.container.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            yield f"{pod.owner}: its last lines are not in its status"


@check
def members_have_names_of_their_own(manifests):
    for pod in manifests.pods:
        if not pod.is_member:
            continue
        if pod.env.get("RINGMASTER_NAME") != "metadata.name":
            yield f"{pod.owner}: a pod's name may be one that is in use, which ends it with 2"
        if pod.env.get("RINGMASTER_NODE") != "spec.nodeName":
            yield f"{pod.owner}: each of its pods counts as a host, whatever node it is on"
        if pod.env.get("RINGMASTER_ADVERTISE") != "status.podIP":
            yield f"{pod.owner} does not tell its own address"


@check
def all_speak_the_same_way(manifests):
    files = {f"RINGMASTER_TLS_{name}_FILE" for name in ("CA", "CERT", "KEY")}
    ways = set()
    for pod in manifests.pods:
        if "insecure" in pod.flags or any(flag.startswith("tls_") for flag in pod.flags):
            yield f"{pod.owner}: flags of TLS are variables, so that ringctl has them too"
        tls = files & set(pod.env)
        ways.add(bool(tls))
        if (pod.env.get("RINGMASTER_INSECURE") == "true") == bool(tls) or (tls and tls != files):
            yield f"{pod.owner}: either RINGMASTER_INSECURE or the files of TLS: {sorted(pod.env)}"
        for name in sorted(tls):
            directory = pod.env[name].rsplit("/", 1)[0]
            if "secret" not in pod.mounts.get(directory, {}):
                yield f"{pod.owner}: {name} is in no mounted secret"
    if len(ways) > 1:
        yield "some pods use TLS, and some do not"


@check
def secrets_are_files_that_few_can_read(manifests):
    for pod in manifests.pods:
        for entry in pod.container.get("env", []):
            if "secretKeyRef" in entry.get("valueFrom", {}):
                yield f"{pod.owner}: {entry['name']} shows a secret to whoever sees the environment"
        if "envFrom" in pod.container:
            yield f"{pod.owner} has envFrom"
        for name, volume in pod.volumes.items():
            if "secret" in volume and volume["secret"].get("defaultMode") != 0o440:
                yield f"{pod.owner}: secret {name} is not of mode 0440"


@check
def pods_are_spread_and_leave_lost_nodes(manifests):
    for pod in manifests.pods:
        lost = {each["key"]: each.get("tolerationSeconds") for each in pod.spec.get("tolerations", [])
                if each.get("effect") == "NoExecute"}
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
            if lost.get(key) is None or lost[key] > 60:
                yield f"{pod.owner} stays on a node that is {key.split('/')[1]} for {lost.get(key, 300)} s"
        spread = [each["topologyKey"] for each in pod.spec.get("topologySpreadConstraints", [])]
        if pod.is_member and spread != ["kubernetes.io/hostname"]:
            yield f"{pod.owner} is spread over {spread}"


@check
def gpus_have_what_nccl_needs(manifests):
    for pod in manifests.pods:
        gpus = pod.container["resources"]["limits"].get("nvidia.com/gpu", 0)
        if (pod.flags.get("device") == "cuda") != bool(gpus):
            yield f"{pod.owner}: --device={pod.flags.get('device')} with {gpus} GPUs"
        if not gpus:
            continue
        shm = pod.mounts.get("/dev/shm", {}).get("emptyDir", {})
        if shm.get("medium") != "Memory":
            yield f"{pod.owner}: /dev/shm has 64 MiB only"
        elif quantity(shm["sizeLimit"]) > quantity(pod.container["resources"]["limits"]["memory"]) / 2:
            yield f"{pod.owner}: /dev/shm may take most of its memory"
        if not any(each["key"] == "nvidia.com/gpu" for each in pod.spec.get("tolerations", [])):
            yield f"{pod.owner} does not tolerate nodes with GPUs"
        for name in ("NCCL_DEBUG", "NCCL_SOCKET_IFNAME", "NCCL_IB_DISABLE"):
            if name not in pod.env:
                yield f"{pod.owner} has no {name}"
        if not pod.env.get("NCCL_SOCKET_IFNAME", "=").startswith("="):
            yield f"{pod.owner}: NCCL_SOCKET_IFNAME is a prefix"
        if int(pod.flags["slots"]) != gpus:
            yield f"{pod.owner}: {pod.flags['slots']} slots for {gpus} GPUs"
