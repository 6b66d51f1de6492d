"""PyTorch programs whose lost ranks are replaced: new processes get the others' state and go on with them (ringmaster_torch.attach)."""

import json
import os
import pathlib
import re
import signal
import unittest

from tests import report
from tests.integration.cluster import Cluster
from tests.integration.torch_case import AS_IS, PYTHON, TorchCase

BEGIN = """
import os, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
"""

# Trains on numbered samples. Each rank keeps which it has used for each step; at the end the lowest makes the same steps alone.
SCRIPT = """
import json, os, signal, sys, time, zlib
import torch, torch.distributed as dist
import ringmaster_torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
torch.set_num_threads(1)
settings = json.loads(sys.argv[1])
is_new = "RINGMASTER_GROUP" in os.environ
dist.init_process_group("gloo")
assert "RINGMASTER_GROUP" not in os.environ  # what the script starts is not new
rank, size = dist.get_rank(), dist.get_world_size()
def die():
    os.kill(os.getpid(), signal.SIGKILL)
def network(seed):
    torch.manual_seed(seed)
    layers = [layer for _ in range(4) for layer in (nn.Linear(20, 20), nn.Tanh())]
    return nn.Sequential(nn.Linear(8, 20), *layers, nn.Linear(20, 1)).double()
features = torch.randn(120, 8, dtype=torch.double, generator=torch.Generator().manual_seed(1))
def loss_of(model, indices):
    batch = features[indices]
    return (model(batch) - torch.sin(batch.sum(1, keepdim=True))).square().mean()
def optimizer_of(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 40, 0.5)
# A new process begins with other parameters.
model = network(99 if is_new else 5)
if not settings.get("plain"):
    model = DistributedDataParallel(model, bucket_cap_mb=0.002, **settings.get("ddp", {}))
optimizer, scheduler = optimizer_of(model)
sampler = ringmaster_torch.DistributedSampler(range(120))
loader = DataLoader(torch.arange(120), 2, sampler=sampler)
progress = {"epoch": 0, "step": 0}
def count(name):
    return len([other for other in os.listdir(".") if other.startswith(name)])
if is_new:
    open("again" if os.path.exists(f"begins-{rank}") else f"begins-{rank}", "w").close()
lost = 2 if "other" in settings else 1
if is_new and settings.get("dies") and not os.path.exists("died"):
    # As it has received all, before it has said so.
    def note_and_die(*_, **__):
        open("died", "w").close()
        die()
    torch.zeros = note_and_die
ringmaster_torch.attach(model=model, optimizer=optimizer, sampler=sampler, state=progress, scheduler=scheduler)
if is_new:
    print("joined at", progress["epoch"], progress["step"])
    open(f"joined-{rank}", "w").close()
used = []
is_over = False
while not is_over:
    sampler.set_epoch(progress["epoch"])
    for batch in loader:
        step = progress["step"]
        if not is_new and (rank, step) in ((settings["victim"], 5), (settings.get("other", -1), 9)):
            if settings.get("takes_worker"):
                os.kill(os.getppid(), signal.SIGKILL)
                time.sleep(60)
            die()
        # Epochs go on until others have come: few, if one is about to.
        while step == 12 and count("begins") < lost or os.path.exists("died") and not os.path.exists("again"):
            time.sleep(0.01)
        if count("joined") < lost:
            time.sleep(0.02)
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        if settings.get("plain"):
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
        optimizer.step()
        scheduler.step()
        progress["step"] += 1
        used.append((progress["epoch"], step, batch.tolist()))
        with open(f"new-{rank}", "w") as file:
            json.dump(used, file)
        os.rename(f"new-{rank}", f"used-{rank}-{is_new}.json")
    progress["epoch"] += 1
    joined = torch.tensor(count("joined"))
    dist.all_reduce(joined, op=dist.ReduceOp.MIN)
    is_over = progress["epoch"] >= 2 and int(joined) == lost
print("steps", progress["step"], "loss", float(loss))
moments = [optimizer.state[parameter][name] for parameter in model.parameters() for name in ("exp_avg", "exp_avg_sq")]
print("parameters", zlib.crc32(b"".join(value.detach().numpy().tobytes() for value in [*model.parameters(), *moments])))
dist.barrier()
if rank == 0:
    alone = network(5)
    optimizer, scheduler = optimizer_of(alone)
    steps = {}
    for name in os.listdir("."):
        if name.startswith("used-"):
            for epoch, step, batch in json.load(open(name)):
                steps.setdefault(step, []).append(batch)
    for step in range(progress["step"]):
        optimizer.zero_grad()
        (sum(loss_of(alone, batch) for batch in steps[step]) / len(steps[step])).backward()
        optimizer.step()
        scheduler.step()
    for ours, expected in zip(model.parameters(), alone.parameters()):
        assert torch.allclose(ours, expected, rtol=1e-8, atol=1e-9), (ours - expected).abs().max()
    print("equal")
"""


class ReplacementTest(TorchCase):
    def used(self):
        return {path.stem: json.loads(path.read_text()) for path in self.directory.glob("used-*.json")}

    def check(self, run, ranks=3):
        """All ranks have ended with the same parameters, and each sample was used once in each epoch."""
        self.assertEqual(run.returncode, 0, run.stderr[-3000:])
        ends = dict(re.findall(r"^\[(\d)\] parameters (\d+)$", run.stdout, re.MULTILINE))
        self.assertEqual(len(ends), ranks, run.stdout + run.stderr[-3000:])
        self.assertEqual(len(set(ends.values())), 1, ends)
        self.assertEqual(len(set(re.findall(r"steps (\d+)", run.stdout))), 1, run.stdout)
        self.assertIn("[0] equal", run.stdout)
        for loss in re.findall(r"loss ([\d.e-]+)$", run.stdout, re.MULTILINE):
            self.assertLess(float(loss), 4.0)
        counts = {}
        for steps in self.used().values():
            for epoch, _, batch in steps:
                for index in batch:
                    counts.setdefault(epoch, [0] * 120)[index] += 1
        self.assertGreaterEqual(len(counts), 2)
        for epoch, of_epoch in counts.items():
            self.assertEqual(min(of_epoch), 1, f"epoch {epoch}: {of_epoch.count(0)} samples were not used")
            # So that all ranks have as many.
            self.assertLessEqual(sum(of_epoch) - 120, 2, f"epoch {epoch}")

    def run_script(self, **settings):
        return self.run_here(SCRIPT, arguments=[json.dumps(settings)])

    def test_a_new_process_takes_the_place_of_one_that_was_killed(self):
        run = self.run_script(victim=2, ddp={"find_unused_parameters": True})
        self.check(run)
        self.assertRegex(run.stdout, r"\[2\] joined at \d+ \d+\n")

    def test_one_that_is_killed_as_it_joins_is_lost_like_any_other(self):
        # In a loop that reduces gradients itself.
        run = self.run_script(victim=1, dies=True, plain=True)
        self.check(run)
        self.assertEqual(run.stderr.count("rank 1 was killed by signal 9 (Killed); 2 of 3 ranks go on"), 2, run.stderr)
        self.assertEqual(run.stderr.count("new processes have the places and the state of rank 1; 3 of 3 ranks go on"), 1, run.stderr)

    def test_two_that_are_lost_are_both_replaced(self):
        # Rank 0 and its store are among them.
        run = self.run_script(victim=0, other=2, ddp={"gradient_as_bucket_view": True})
        self.check(run)
        self.assertEqual(run.stdout.count("joined at"), 2)

    def job(self, cluster, script, *arguments):
        path = self.directory / "script.py"
        path.write_text(script)
        return cluster.submit(json.dumps({
            "name": "train", "workers": {"min": 3},
            "external": {"command": [PYTHON, str(path), *arguments], "working_directory": str(self.directory)}}))

    def test_a_free_worker_takes_the_place_of_one_that_is_lost(self):
        with Cluster() as cluster:
            cluster.start_coordinator(budget="2s")
            workers = [cluster.start_worker(name, "--allow_commands") for name in "abcd"]
            cluster.await_workers(4)
            job = self.job(cluster, SCRIPT, json.dumps({"victim": 1, "takes_worker": True}))
            cluster.await_job(job, "SUCCEEDED")
            self.assertEqual(sum('text="joined at ' in worker.output() for worker in workers), 1)
            ends = [end for worker in workers for end in re.findall(r'text="parameters (\d+)"', worker.output())]
            self.assertEqual((len(ends), len(set(ends))), (3, 1))
            self.assertTrue(any('text=equal' in worker.output() for worker in workers))

    def test_without_attach_it_is_said_what_is_missing(self):
        with Cluster() as cluster:
            cluster.start_coordinator(budget="2s")
            workers = [cluster.start_worker(name, "--allow_commands") for name in "abc"]
            cluster.await_workers(3)
            job = self.job(cluster, BEGIN + """
print("pid", os.getpid())
is_over = torch.tensor(0)
while not is_over:
    is_over.fill_(os.path.exists("done"))
    dist.all_reduce(is_over, op=dist.ReduceOp.MAX)
    time.sleep(0.01)
""")
            pids = lambda: {rank: int(pid) for worker in workers for rank, pid in re.findall(r' rank=(\d) text="pid (\d+)"', worker.output())}
            cluster.await_that("all ranks", lambda: len(pids()) == 3)
            os.kill(pids()["1"], signal.SIGKILL)
            cluster.await_event(job, "command.failed")
            missing = ("rank 1 was killed by signal 9 (Killed); 2 of 3 ranks go on; no other takes a lost one's place, since the script does "
                       "not call ringmaster_torch.attach (docs/pytorch.md)")
            self.assertEqual([event["message"] for event in cluster.events(job, "command.failed")], [missing])
            self.assertIn(missing, cluster.ringctl("explain", job).stdout)
            (self.directory / "done").touch()
            cluster.await_job(job, "SUCCEEDED")
            self.assertEqual(len(pids()), 3)

    def test_what_cannot_be_replaced_is_refused_in_one_line(self):
        run = self.run_here(BEGIN + """
from torch import nn
from torch.nn.parallel import DistributedDataParallel
import ringmaster_torch
model = nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=1)
def refused(**arguments):
    try:
        ringmaster_torch.attach(**{"model": model, "optimizer": optimizer, **arguments})
        print("no error")
    except (RuntimeError, TypeError) as error:
        print(error)
refused(sampler=torch.utils.data.SequentialSampler([1]))
refused(model=DistributedDataParallel(model, static_graph=True))
refused(state=lambda: open("/dev/null"))
group = dist.new_group()
refused()
dist.destroy_process_group(group)
sampler = ringmaster_torch.DistributedSampler(range(4))
ringmaster_torch.attach(model=model, optimizer=optimizer, sampler=sampler)
refused()
try:
    next(iter(torch.utils.data.DataLoader(range(4), 2, sampler=sampler, num_workers=1)))
except RuntimeError as error:
    print(error)
try:
    dist.new_group()
except RuntimeError as error:
    print(error)
""", ranks=1)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout.splitlines(), [
            "[0] ringmaster_torch.attach: sampler is to be a ringmaster_torch.DistributedSampler, not a SequentialSampler",
            "[0] ringmaster_torch.attach: no rank can be replaced with static_graph=True",
            "[0] ringmaster_torch.attach: the state cannot be given to a new process: cannot pickle '_io.TextIOWrapper' object",
            "[0] ringmaster_torch.attach: no rank can be replaced in a program that has process groups beside the default one",
            "[0] ringmaster_torch.attach is called once in a process",
            "[0] ringmaster_torch.attach: the DataLoader of its sampler must not read ahead: num_workers=0",
            "[0] ringmaster: no process group can be made after ringmaster_torch.attach: a new process would not have it"])

    def test_elsewhere_attach_does_nothing(self):
        run = self.run_here(BEGIN + """
import ringmaster_torch
model = torch.nn.Linear(2, 2)
progress = {"step": 3}
optimizer = torch.optim.SGD(model.parameters(), lr=1)
print(ringmaster_torch.attach(model=model, optimizer=optimizer, state=progress) is progress)
print(ringmaster_torch.attach(model=model, optimizer=optimizer, state=lambda: 4))
""", AS_IS, ranks=1)
        # Its directory is not in PYTHONPATH then.
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout.splitlines(), ["[0] True", "[0] 4"])


if __name__ == "__main__":
    report.main()
