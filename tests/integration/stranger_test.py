"""What somebody who was given nothing learns: from the ports of an installation as docs/security.md sets it up, and from what it prints and writes."""

import base64
import json
import pathlib
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import unittest

from tests import report
from tests.integration import port_scan
from tests.integration.cluster import Cluster, Hosts, namespaces_unavailable, pki, synthetic_job, tls_flags

# A record of TLS with an alert of two bytes, and nothing behind it (RFC 8446, 5.1).
ALERT = re.compile(r"15030[1-3]0002\w{4}\Z")

# Planted in the environment of every program, as those that people export.
ENVIRONMENT = {"AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMIplantedEXAMPLEKEY", "HF_TOKEN": "hf_planted7Qm2VbYw9XzR"}


class StrangerTest(unittest.TestCase):
    @unittest.skipIf(namespaces_unavailable(), namespaces_unavailable())
    def test_no_port_answers_beyond_an_alert(self):
        with tempfile.TemporaryDirectory() as directory, Hosts(3) as (head, node, stranger), Cluster() as cluster:
            pki("init", directory)
            pki("issue", directory, "coordinator", "head", f"--hosts={head.address}")
            for role, name in (("worker", "node"), ("server", "shards"), ("submitter", "alice")):
                pki("issue", directory, role, name)
            cluster.flags = tls_flags(directory, "head")
            cluster.start_coordinator(host=head)
            for index, host in enumerate((head, node)):
                cluster.flags = tls_flags(directory, "node")
                cluster.start_worker(f"w{index}", host=host)
                cluster.flags = tls_flags(directory, "shards")
                cluster.start_server(f"s{index}", f"--listen={host.address}:0", host=host)
            cluster.flags = tls_flags(directory, "alice")
            # One job over the ring, one through servers: all that ever listens does.
            for servers in ([], ["parameter_server: {servers: 2}"]):
                job = cluster.submit(synthetic_job(steps=10**6, workers_min=2, workers_max=2, bucket_bytes=4096) + "".join(f"  {line}\n" for line in servers))
                cluster.await_step(job, 5)
                before = cluster.job(job)
                members = before["members"]
                for host in (head, node):
                    expected = {member["data_address"].rpartition(":")[2] for member in members if member["data_address"].startswith(f"{host.address}:")}
                    self.assertTrue(expected)
                    self.check_ports(stranger, host, expected | ({cluster.address.rpartition(":")[2]} if host is head else set()))
                # Nobody who trains has noticed.
                after = cluster.job(job)
                self.assertEqual((after["state"], after["generation"]), (before["state"], before["generation"]), after)
                cluster.cancel(job)

    def check_ports(self, stranger, host, expected):
        scan = subprocess.run(stranger.prefix() + [sys.executable, port_scan.__file__, host.address], capture_output=True, text=True, timeout=200)
        self.assertEqual(scan.returncode, 0, scan.stderr)
        answers = json.loads(scan.stdout)
        self.assertLessEqual(expected, set(answers))
        for port, said in answers.items():
            for words, answer in said.items():
                if words == "TLS" and answer.startswith("alert: "):
                    continue
                self.assertTrue(answer == "" or ALERT.match(answer), f"{host.address}:{port} says {answer!r} to {words}")
        udp = subprocess.run(host.prefix() + ["ss", "--no-header", "--udp", "--all"], capture_output=True, text=True, check=True)
        self.assertEqual(udp.stdout, "")

    def test_no_secret_is_printed_or_kept(self):
        with tempfile.TemporaryDirectory() as keys, Cluster() as cluster:
            keys = pathlib.Path(keys)
            pki("init", keys)
            pki("issue", keys, "coordinator", "head", "--hosts=127.0.0.1")
            pki("issue", keys, "worker", "node")
            entries = [pki("token", role, name, "--out", keys / f"{name}.token") for role, name in (("submitter", "alice"), ("operator", "olga"))]
            access = keys / "access.yaml"
            access.write_text("tokens:\n" + "".join(entries))
            access.chmod(0o600)
            secrets = dict(ENVIRONMENT)
            for path in keys.glob("*.token"):
                secrets[path.name] = path.read_text().strip()
            for path in keys.glob("*.key"):
                secrets[path.name] = path.read_text().splitlines()[2]

            cluster.flags = tls_flags(keys, "head")
            cluster.start_coordinator(f"--access_file={access}", "--log_level=debug", env=ENVIRONMENT)
            cluster.flags = tls_flags(keys, "node")
            cluster.start_worker("a", "--log_level=debug", slots=2, env=ENVIRONMENT)
            cluster.flags = [f"--tls_ca_file={keys}/ca.pem", f"--token_file={keys}/alice.token"]
            ended = cluster.run_job(synthetic_job("ended", steps=20, workers_min=2, workers_max=2))["id"]
            endless = cluster.submit(synthetic_job("endless", steps=10**6, workers_min=2, workers_max=2))
            cluster.await_step(endless, 5)

            said = {}
            def listen_to(*arguments):
                result = cluster.ringctl(*arguments, env=ENVIRONMENT)
                said[" ".join(arguments)] = result.stdout + result.stderr

            for command in ("status", "jobs", f"job {endless}", f"events {endless}", f"trace {endless}", f"flight {endless}", f"logs {endless}",
                            f"describe {endless}", f"explain {endless}", "doctor"):
                listen_to(*command.split())
                listen_to("-o", "json", *command.split())
            listen_to("bundle", endless, f"--out={cluster.directory}/bundle.tar.gz")
            listen_to(f"--token_file={keys}/olga.token", "-o", "json", "audit")
            listen_to(f"--token_file={keys}/head.key", "status")
            without_alice = keys / "access.new"
            without_alice.write_text("tokens:\n" + entries[1] + entries[0].replace("}", ", revoked: true}"))
            without_alice.chmod(0o600)
            without_alice.replace(access)
            refused = cluster.await_that("alice is refused", lambda: (result := cluster.ringctl("jobs")).returncode != 0 and result)
            self.assertIn("alice", refused.stderr)
            said["refused"] = refused.stderr + cluster.ringctl("cancel", endless).stderr
            cluster.processes[1].signal(signal.SIGKILL)

            for path in sorted(cluster.directory.rglob("*")):
                if path.name.endswith(".tar.gz"):
                    with tarfile.open(path) as bundle:
                        said.update({f"{path.name}/{member.name}": bundle.extractfile(member).read().decode("latin1")
                                     for member in bundle if member.isfile()})
                elif path.is_file() and not path.is_symlink():
                    said[str(path)] = path.read_bytes().decode("latin1")
            self.assertTrue(any("alice" in text for name, text in said.items() if name.endswith("audit")), "the search saw what was said")
            self.assertTrue(any(ended in text for name, text in said.items() if "/state/" in name), "the search saw what was kept")
            self.assertTrue(any("tar.gz/" in name for name in said), sorted(said))
            for where, text in said.items():
                for name, secret in secrets.items():
                    for form in (secret, secret.encode().hex(), base64.b64encode(secret.encode()).decode()[:-4]):
                        self.assertNotIn(form, text, f"{name} stands in {where}")


if __name__ == "__main__":
    report.main()
