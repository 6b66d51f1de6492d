"""What deploy/kubernetes makes of its overlays, as objects, and the pods in it."""

import dataclasses
import pathlib
import re

import yaml

DIRECTORY = pathlib.Path("deploy/kubernetes")
OVERLAYS = ("cpu", "everything", "gpu", "jobset", "kueue", "pool", "pool-autoscaled", "trainjob")
# Kinds that belong to the cluster, not to a namespace.
CLUSTER_KINDS = ("Namespace", "ClusterTrainingRuntime")

# From the table of docs/operations.md; the rest is worth another pod: 1 is a crash of one worker, which others survive.
CRASH_CODE = 1
PERMANENT_CODES = [2, 3, 4, 5]


def rendered(overlay):
    return DIRECTORY / "rendered" / f"{overlay}.yaml"


def load(overlay):
    return Manifests(yaml.safe_load_all(rendered(overlay).read_text()))


def seconds(duration):
    """Of a flag: "1.5s", "2m", "1m30s"."""
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    parts = re.findall(r"([\d.]+)(ms|s|m|h)", duration)
    assert parts and "".join(number + unit for number, unit in parts) == duration, duration
    return sum(float(number) * units[unit] for number, unit in parts)


def quantity(text):
    """Bytes or CPUs: "512Mi", "500m", "2"."""
    units = {"": 1, "m": 0.001, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
    number, unit = re.fullmatch(r"([\d.]+)(m|Ki|Mi|Gi|)", str(text)).groups()
    return float(number) * units[unit]


@dataclasses.dataclass
class Pod:
    """A pod template with one container, and the workload that makes pods of it."""

    owner: str          # "Job ringmaster-worker"
    workload: dict      # the spec that has the template
    template: dict

    @property
    def spec(self):
        return self.template["spec"]

    @property
    def labels(self):
        return self.template["metadata"]["labels"]

    @property
    def component(self):
        return self.labels.get("app.kubernetes.io/component")

    @property
    def container(self):
        return self.spec["containers"][0]

    @property
    def program(self):
        return self.container["command"][0]

    @property
    def stays(self):
        """It outlives jobs."""
        return self.owner.startswith(("Deployment", "StatefulSet"))

    @property
    def is_member(self):
        return self.program in ("worker", "parameter_server")

    @property
    def is_command(self):
        """It does one thing and ends: nobody connects to it."""
        return self.program == "ringctl"

    @property
    def arguments(self):
        """Those that are no flags."""
        return [argument for argument in self.container.get("args", []) if not argument.startswith("-")]

    @property
    def flags(self):
        """{name: value} of its arguments."""
        return dict(argument[2:].partition("=")[::2] for argument in self.container.get("args", []) if argument.startswith("--"))

    @property
    def env(self):
        """{name: value, or the field's path}."""
        return {entry["name"]: entry.get("value", entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath"))
                for entry in self.container.get("env", [])}

    @property
    def ports(self):
        return {port["name"]: port["containerPort"] for port in self.container.get("ports", [])}

    @property
    def volumes(self):
        """{name: volume}, those of claim templates included."""
        claims = {claim["metadata"]["name"]: {"name": claim["metadata"]["name"], "claimTemplate": claim["spec"]}
                  for claim in self.workload.get("volumeClaimTemplates", [])}
        return {**{volume["name"]: volume for volume in self.spec.get("volumes", [])}, **claims}

    @property
    def mounts(self):
        """{path: volume}."""
        return {mount["mountPath"]: self.volumes[mount["name"]] for mount in self.container.get("volumeMounts", [])}

    def port_of(self, flag):
        return int(self.flags[flag].rsplit(":", 1)[1])

    @property
    def data_ports(self):
        first, last = self.flags["data_ports"].split("-")
        return int(first), int(last)


class Manifests:
    def __init__(self, objects):
        self.objects = [each for each in objects if each]

    def of_kind(self, kind):
        return [each for each in self.objects if each["kind"] == kind]

    def named(self, kind, name):
        return next(each for each in self.of_kind(kind) if each["metadata"]["name"] == name)

    @property
    def pods(self):
        found = []
        for each in self.of_kind("StatefulSet") + self.of_kind("Job") + self.of_kind("Deployment"):
            found.append(Pod(f"{each['kind']} {each['metadata']['name']}", each["spec"], each["spec"]["template"]))
        for owner, job_set in self.job_sets:
            for job in job_set["replicatedJobs"]:
                spec = job["template"]["spec"]
                found.append(Pod(f"{owner}, {job['name']}", spec, spec["template"]))
        return found

    @property
    def job_sets(self):
        """[(owner, spec)] of JobSets, and of those that a runtime makes for each TrainJob."""
        return ([(f"JobSet {each['metadata']['name']}", each["spec"]) for each in self.of_kind("JobSet")] +
                [(f"ClusterTrainingRuntime {each['metadata']['name']}", each["spec"]["template"]["spec"])
                 for each in self.of_kind("ClusterTrainingRuntime")])

    def pods_of(self, component):
        return [pod for pod in self.pods if pod.component == component]


def selects(selector, labels):
    """Whether a label selector (None: nothing; {}: everything) takes `labels`."""
    if selector is None:
        return False
    assert set(selector) <= {"matchLabels"}, selector
    return all(labels.get(name) == value for name, value in selector.get("matchLabels", {}).items())
