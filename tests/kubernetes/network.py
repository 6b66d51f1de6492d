"""What NetworkPolicies let through, by the rules of networking.k8s.io/v1: a connection passes if the sender's egress and the receiver's
ingress both allow it; a pod that no policy of a direction selects allows all."""

import dataclasses
import ipaddress

from tests.kubernetes.manifests import selects


@dataclasses.dataclass
class End:
    """A pod, or an address outside the cluster."""

    labels: dict = dataclasses.field(default_factory=dict)
    namespace: str = "ringmaster"
    namespace_labels: dict = dataclasses.field(default_factory=dict)
    address: str = ""

    def all_namespace_labels(self):
        return {"kubernetes.io/metadata.name": self.namespace, **self.namespace_labels}


def _is_peer(peer, end, policy_namespace):
    if "ipBlock" in peer:
        block = peer["ipBlock"]
        assert set(block) == {"cidr"}, block
        return bool(end.address) and ipaddress.ip_address(end.address) in ipaddress.ip_network(block["cidr"])
    if end.address:
        return False
    if "namespaceSelector" in peer:
        if not selects(peer["namespaceSelector"], end.all_namespace_labels()):
            return False
    elif end.namespace != policy_namespace:
        return False
    return selects(peer.get("podSelector", {}), end.labels)


def _has_port(ports, port, protocol):
    return not ports or any(protocol == each.get("protocol", "TCP") and
                            each["port"] <= port <= each.get("endPort", each["port"]) for each in ports)


def _passes(policies, end, other, port, protocol, direction, peers):
    ours = [policy for policy in policies if policy["metadata"]["namespace"] == end.namespace and
            direction in policy["spec"]["policyTypes"] and selects(policy["spec"]["podSelector"], end.labels)]
    if not ours or end.address:
        return True
    return any(_has_port(rule.get("ports"), port, protocol) and
               (peers not in rule or any(_is_peer(peer, other, end.namespace) for peer in rule[peers]))
               for policy in ours for rule in policy["spec"].get(direction.lower(), []))


def is_allowed(policies, source, target, port, protocol="TCP"):
    return (_passes(policies, source, target, port, protocol, "Egress", "to") and
            _passes(policies, target, source, port, protocol, "Ingress", "from"))
