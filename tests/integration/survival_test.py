"""PyTorch programs whose ranks are killed: the others go on in their own processes.

SURVIVAL_ROUNDS=30 kills each of the scripts in torch_scripts so many times as often, at other moments.
"""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import unittest

from tests import report
from tests.integration.cluster import PATIENCE, Cluster, Hosts, namespaces_unavailable
from tests.integration.torch_case import AS_IS, PYTHON, TorchCase

SCRIPTS = pathlib.Path(__file__).with_name("torch_scripts")
STEPS = {"cnn": 150, "gpt": 100, "trainer": 200, "groups": 200}
# The last step's loss is below this, far from that of a model that learns nothing.
MOST_LOSS = {"cnn": 0.5, "gpt": 1.0, "trainer": 1.2, "groups": 0.9}

# Kills this process a moment after it has printed that it has done a step: the scripts know of nothing.
KILLER = """
import builtins, os, signal, threading
step, milliseconds = dict(item.split(":", 1) for item in os.environ["KILLS"].split(",")).get(os.environ["RANK"], "-1:0").split(":")
shown = builtins.print
def show(*values, **options):
    shown(*values, **options)
    if values[:2] == ("step", int(step)):
        threading.Timer(float(milliseconds) / 1000, os.kill, (os.getpid(), signal.SIGKILL)).start()
builtins.print = show
"""

BEGIN = """
import os, signal, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
def die():
    os.kill(os.getpid(), signal.SIGKILL)
"""


class SurvivalTest(TorchCase):
    def run_killed(self, script, kills, ranks):
        """`kills` has the step and the milliseconds after it by rank."""
        own = self.directory / "killer"
        own.mkdir(exist_ok=True)
        (own / "sitecustomize.py").write_text(KILLER)
        text = ",".join(f"{rank}:{step}:{milliseconds}" for rank, (step, milliseconds) in kills.items())
        return subprocess.run(
            self.command(f"--env=PYTHONPATH={own}", f"--env=KILLS={text}", PYTHON, str(SCRIPTS / f"{script}.py"), str(STEPS[script]),
                         ranks=ranks),
            capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL, cwd=self.directory)

    def test_unchanged_scripts_go_on_without_the_ranks_that_are_killed(self):
        # One rank at least is left of four, and rank 0, whose process has the store, is among the killed of some.
        for number in range(int(os.environ.get("SURVIVAL_ROUNDS", "1"))):
            for script, order in (("cnn", (0, 2)), ("gpt", (1,)), ("trainer", (3, 0)), ("groups", (2, 1, 0))):
                seed = f"{script} {number}"
                choice = random.Random(seed)
                victims = list(order) if number == 0 else choice.sample(range(4), choice.randint(1, 3))
                kills = {rank: (choice.randint(1, STEPS[script] // 2), choice.uniform(0, 8)) for rank in victims}
                with self.subTest(script, seed=seed, kills=kills):
                    run = self.run_killed(script, kills, ranks=4)
                    self.assertEqual(run.returncode, 0, run.stderr[-3000:])
                    ends = dict(re.findall(r"^\[(\d)\] parameters (.*)$", run.stdout, re.MULTILINE))
                    self.assertEqual(sorted(map(int, ends)), sorted(set(range(4)) - set(victims)), run.stderr[-3000:])
                    self.assertEqual(len(set(ends.values())), 1, ends)
                    for rank, loss in re.findall(r"^\[(\d)\] loss (.*)$", run.stdout, re.MULTILINE):
                        self.assertLess(float(loss), MOST_LOSS[script], f"rank {rank}")
                    # Children of those that are killed may complain that they are.
                    self.assertEqual(re.findall(rf"^\[[^{''.join(map(str, victims))}]\] .*Error.*$", run.stderr, re.MULTILINE), [])
                    for rank in victims:
                        self.assertIn(f"rank {rank} was killed by signal 9 (Killed)", run.stderr)

    def test_a_step_is_the_mean_of_the_ranks_that_made_it(self):
        run = self.run_here(BEGIN + """
from torch import nn
from torch.nn.parallel import DistributedDataParallel
def network():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(8, 40), nn.Tanh(), nn.Linear(40, 3)).double()
def loss_of(model, step, of_rank):
    torch.manual_seed(1000 * step + of_rank)
    return model(torch.randn(4, 8, dtype=torch.double)).square().sum()
model = DistributedDataParallel(network(), bucket_cap_mb=0.0005)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
for step in range(12):
    if (rank, step) in ((1, 4), (0, 8)):
        die()
    optimizer.zero_grad()
    loss_of(model, step, rank).backward()
    optimizer.step()
alone = network()
optimizer = torch.optim.SGD(alone.parameters(), lr=0.01, momentum=0.5)
for step in range(12):
    ranks = [of_rank for of_rank in range(4) if not (of_rank == 1 and step >= 4 or of_rank == 0 and step >= 8)]
    optimizer.zero_grad()
    (sum(loss_of(alone, step, of_rank) for of_rank in ranks) / len(ranks)).backward()
    optimizer.step()
for ours, expected in zip(model.parameters(), alone.parameters()):
    assert torch.allclose(ours, expected, rtol=1e-12, atol=1e-12), (ours - expected).abs().max()
print("equal")
""", ranks=4)
        self.assertEqual((run.returncode, sorted(run.stdout.splitlines())), (0, ["[2] equal", "[3] equal"]), run.stderr)

    def test_operations_do_what_they_can_without_those_that_are_lost(self):
        run = self.run_here(BEGIN + """
dist.barrier()
pair = dist.new_group([0, 1])
if rank == 2:
    die()
one = torch.ones(3)
dist.all_reduce(one)
assert one.tolist() == [2, 2, 2], one          # a sum of one's own is of those that are left
dist.all_reduce(one, op=dist.ReduceOp.AVG)
assert one.tolist() == [2, 2, 2], one
flags = torch.tensor([1 << rank], dtype=torch.uint8)
dist.all_reduce(flags, op=dist.ReduceOp.BOR)
assert flags.item() == 3, flags
sparse = torch.sparse_coo_tensor(torch.tensor([[rank]]), torch.ones(1), (4,))
dist.all_reduce(sparse)
assert sparse.to_dense().tolist() == [1, 1, 0, 0], sparse
value = torch.tensor([10.0 + rank])
dist.broadcast(value, src=1)
assert value.item() == 11, value
dist.reduce(value, dst=2)
dist.barrier()
if rank == 0:
    dist.send(torch.arange(4.0), 1)
else:
    received = torch.empty(4)
    dist.recv(received, 0)
    assert received.tolist() == [0, 1, 2, 3]
part = torch.empty(2)
dist.reduce_scatter(part, [torch.full((2,), float(to)) for to in range(3)])
assert part.tolist() == [2.0 * rank, 2.0 * rank], part
both = [torch.empty(1) for _ in range(2)]
dist.all_gather(both, torch.tensor([float(rank)]), group=pair)
assert torch.cat(both).tolist() == [0, 1]
for name, call in {
        "all_gather": lambda: dist.all_gather([torch.empty(1) for _ in range(3)], torch.ones(1)),
        "gather": lambda: dist.gather(torch.ones(1), [torch.empty(1) for _ in range(3)] if rank == 0 else None),
        "all_to_all": lambda: dist.all_to_all_single(torch.empty(3), torch.ones(3)),
        "monitored_barrier": dist.monitored_barrier,
        "broadcast": lambda: dist.broadcast_object_list([rank], src=2),
        "new_group": dist.new_group,
        "new_group of two": lambda: dist.new_group([0, 1])}.items():
    try:
        call()
        print("no error of", name)
    except RuntimeError as error:
        print(error)
try:
    dist.send(torch.ones(1), 2)
    dist.recv(torch.ones(1), 2)
except RuntimeError as error:
    assert "rank 2" in str(error), error
dist.all_reduce(one)                           # and goes on
assert one.tolist() == [4, 4, 4], one
print("end")
""")
        self.assertEqual(run.returncode, 0, run.stderr + run.stdout)
        self.assertEqual(run.stdout.count("ringmaster: no process group can be made once a rank is lost: rank 2 was killed by"), 4, run.stdout)
        for name in ("all_gather", "gather", "all_to_all", "monitored_barrier", "broadcast"):
            for rank in (0, 1):
                self.assertRegex(run.stdout, rf"\[{rank}\] ringmaster: {name} needs the part of ranks that are lost: rank 2 at 127.0.0.1:\d+ "
                                 r"\(rank 2 was killed by signal 9 \(Killed\)\)")
        self.assertEqual(run.stdout.count("] end"), 2)

    def test_stand_ins_that_a_script_allows_and_passes_inside_of_passes(self):
        script = BEGIN + """
from torch.utils.checkpoint import checkpoint
from torch import nn
from torch.nn.parallel import DistributedDataParallel
torch.manual_seed(1)
# The last parameters of its backward pass come in a pass inside of that.
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(30, 30) for _ in range(4))
    def forward(self, batch):
        for layer in self.layers:
            batch = checkpoint(layer, batch)
        return batch
def run(model, step, of_rank):
    batch = torch.randn(4, 30, generator=torch.Generator().manual_seed(10 * step + of_rank), requires_grad=True)
    model(batch).square().sum().backward()
alone = Model()
model = DistributedDataParallel(Model(), bucket_cap_mb=0.001)
model.module.load_state_dict(alone.state_dict())
# Before its buckets are ordered anew by what rank 0 says, in the second pass, or later.
last = 1 if os.environ.get("EARLY") else 10
for step in range(20):
    if (rank, step) == (0, last):
        die()
    model.zero_grad()
    run(model, step, rank)
for of_rank in (1, 2):
    run(alone, 19, of_rank)
for ours, expected in zip(model.parameters(), alone.parameters()):
    assert torch.allclose(ours.grad, expected.grad / 2, rtol=1e-4, atol=1e-5), (ours.grad - expected.grad / 2).abs().max()
state = torch.tensor([rank])
dist.broadcast(state, src=0)
print("end", int(state))
"""
        for flags in ([], ["--env=EARLY=yes"]):
            run = self.run_here(script, "--env=RINGMASTER_TORCH_STAND_INS=yes", *flags)
            self.assertEqual((run.returncode, sorted(run.stdout.splitlines())), (0, ["[1] end 1", "[2] end 1"]), run.stderr)

    def test_a_worker_that_is_killed_takes_only_its_own_rank_with_it(self):
        run = subprocess.Popen(self.command(PYTHON, str(SCRIPTS / "cnn.py"), "1500"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, cwd=self.directory)
        pids, output = {}, []
        for line in run.stdout:
            output.append(line)
            if match := re.match(r"\[(\d)\] pid (\d+)", line):
                pids[int(match[1])] = int(match[2])
            if line.startswith("[1] step 20\n"):
                os.kill(int(pathlib.Path(f"/proc/{pids[1]}/stat").read_text().rsplit(")", 1)[1].split()[1]), signal.SIGKILL)
        errors = run.stderr.read()
        self.assertEqual(run.wait(), 0, errors)
        ends = dict(re.findall(r"^\[(\d)\] parameters (.*)$", "".join(output), re.MULTILINE))
        self.assertEqual(sorted(ends), ["0", "2"], errors)
        self.assertEqual(ends["0"], ends["2"])
        # As long as a process lives, its parameters do: nobody has started again.
        self.assertEqual(len(re.findall(r"\] pid ", "".join(output))), 3)

    def job(self, cluster, script, steps):
        return cluster.submit(json.dumps({
            "name": "train", "workers": {"min": 3},
            "external": {"command": [PYTHON, str(SCRIPTS / f"{script}.py"), str(steps)], "working_directory": str(self.directory)}}))

    def shown(self, workers, what):
        """What each rank has printed behind a word."""
        return {int(rank): value for worker in workers
                for rank, value in re.findall(rf' rank=(\d) text="{what} (.*)"$', worker.output(), re.MULTILINE)}

    def await_step(self, cluster, workers, step):
        cluster.await_that(f"step {step}", lambda: sum(f'text="step {step}"' in worker.output() for worker in workers) == 3)

    def test_a_host_that_is_lost_leaves_the_others_training(self):
        # Fewer than `workers.min` are left, and nobody comes in its place.
        with Cluster() as cluster:
            cluster.start_coordinator(budget="2s")
            workers = [cluster.start_worker(name, "--allow_commands") for name in "abc"]
            cluster.await_workers(3)
            job = self.job(cluster, "gpt", 600)
            self.await_step(cluster, workers, 10)
            victim = cluster.job(job)["members"][1]["worker"]
            next(worker for worker in workers if worker.name == f"worker-{victim}").kill_group()
            cluster.await_job(job, "SUCCEEDED")
            ends = self.shown(workers, "parameters")
            self.assertEqual(sorted(ends), [0, 2])
            self.assertEqual(len(set(ends.values())), 1)
            self.assertEqual([event["message"] for event in cluster.events(job, "command.failed")],
                             ["the worker of rank 1 is lost; 2 of 3 ranks go on; no other takes a lost one's place, since the script does "
                              "not call ringmaster_torch.attach (docs/pytorch.md)"])

    def test_with_fewer_than_min_they_go_on_but_do_not_begin(self):
        with Cluster() as cluster:
            cluster.start_coordinator(budget="2s")
            workers = [cluster.start_worker(name, "--allow_commands") for name in "ab"]
            cluster.await_workers(2)
            script = self.directory / "script.py"
            script.write_text(BEGIN + '''
open(f"began-{rank}-{size}-{os.environ['TORCHELASTIC_RESTART_COUNT']}", "w").close()
while not os.path.exists("fail"):
    dist.barrier()
    time.sleep(0.01)
if not os.path.exists("done"):
    raise ValueError("boom")
''')
            job = cluster.submit(json.dumps({
                "name": "train", "workers": {"min": 2},
                "external": {"command": [PYTHON, str(script)], "working_directory": str(self.directory), "max_restarts": 1}}))
            came = lambda name: cluster.await_that(name, (self.directory / name).exists)
            came("began-0-2-0")
            came("began-1-2-0")
            victim = cluster.job(job)["members"][1]["worker"]
            next(worker for worker in workers if worker.name == f"worker-{victim}").kill_group()
            cluster.await_event(job, "command.failed")
            (self.directory / "fail").touch()
            cluster.await_that("a wait for workers", lambda: cluster.job(job)["state"] == "JOB_STATE_GATHERING")
            (self.directory / "done").touch()
            cluster.start_worker("c", "--allow_commands")
            cluster.await_job(job, "SUCCEEDED")
            came("began-1-2-1")

    @unittest.skipIf(namespaces_unavailable(), namespaces_unavailable())
    def test_a_rank_that_is_cut_off_does_not_go_on_by_itself(self):
        with Hosts(4) as (head, *hosts), Cluster() as cluster:
            cluster.start_coordinator(host=head, budget="2s")
            workers = [cluster.start_worker(f"w{number}", "--allow_commands", host=host) for number, host in enumerate(hosts)]
            cluster.await_workers(3)
            job = self.job(cluster, "gpt", 500)
            self.await_step(cluster, workers, 10)
            pid = int(self.shown(workers, "pid")[2])
            number = int(cluster.job(job)["members"][2]["worker"][1])
            link = lambda state: subprocess.run(["ip", "-n", hosts[number].name, "link", "set", "eth0", state], check=True)
            link("down")
            cluster.await_job(job, "SUCCEEDED")
            self.assertEqual(sorted(self.shown(workers, "parameters")), [0, 1])
            # Its command waits for a view, and ends once its worker hears that the job has.
            self.assertIn('text="step 10"', workers[number].output())
            self.assertNotIn('text="step 499"', workers[number].output())
            self.assertTrue(pathlib.Path(f"/proc/{pid}").exists())
            link("up")
            cluster.await_that("the end of the command that was cut off", lambda: not pathlib.Path(f"/proc/{pid}").exists())

    def test_where_they_cannot_all_start_again(self):
        # One that is told to, or has gloo, or is killed before it has begun to meet.
        script = """
import os, signal
count = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
if os.environ.get("EARLY") and os.environ["RANK"] == "1" and count == 0:
    os.kill(os.getpid(), signal.SIGKILL)
""" + BEGIN + """
if rank == 1 and count == 0:
    die()
dist.all_reduce(torch.ones(1))
print("end", count)
"""
        for flags in (["--env=RINGMASTER_TORCH=restart"], [AS_IS], ["--env=EARLY=yes"]):
            with self.subTest(flags):
                run = self.run_here(script, "--max_restarts=1", *flags, ranks=2)
                self.assertEqual((run.returncode, sorted(run.stdout.splitlines())), (0, ["[0] end 1", "[1] end 1"]), run.stderr)

    def test_a_rank_that_is_killed_before_all_have_met_costs_no_restart(self):
        script = """
import os, signal, sys, time
count, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
import torch.distributed
meet = torch.distributed.distributed_c10d.rendezvous
def meet_and_die(*arguments, **options):
    store = next(meet(*arguments, **options))
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL)
# Rank 0 takes the store with it, which the other sees before it is told.
if rank == count % 2 and count < int(sys.argv[1]):
    torch.distributed.distributed_c10d.rendezvous = meet_and_die
torch.distributed.init_process_group("gloo")
torch.distributed.barrier()
print("end", count)
"""
        path = self.directory / "script.py"
        path.write_text(script)
        for kills, code in ((2, 0), (4, 128 + signal.SIGKILL)):
            run = subprocess.run(self.command(PYTHON, str(path), str(kills), ranks=2), capture_output=True, text=True, timeout=PATIENCE,
                                 stdin=subprocess.DEVNULL, cwd=self.directory)
            self.assertEqual(run.returncode, code, run.stderr)
            self.assertEqual(sorted(run.stdout.splitlines()), ["[0] end 2", "[1] end 2"] if code == 0 else [], run.stderr)

    def test_the_next_step_comes_soon(self):
        run = self.run_here(BEGIN + """
value, steps = torch.ones(1 << 16), []
for step in range(400):
    if (rank, step) == (1, 200):
        die()
    dist.all_reduce(value, op=dist.ReduceOp.AVG)
    steps.append(time.monotonic())
print(max(after - before for before, after in zip(steps, steps[1:])))
""")
        self.assertEqual(run.returncode, 0, run.stderr)
        # 30 ms, but other tests may run beside it.
        for line in run.stdout.splitlines():
            self.assertLess(float(line.split()[1]), 5)


if __name__ == "__main__":
    report.main()
