"""PyTorch programs under `ringctl run`: Ringmaster's back end in the place of gloo, beside gloo itself."""

import json
import signal
import textwrap

from tests import report
from tests.integration.torch_case import AS_IS, PYTHON, TorchCase

# Every script begins with this.
BEGIN = """
import json, os, sys, time
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
def mine(*shape, dtype=torch.float32, offset=0):
    torch.manual_seed(rank + 10 * offset)
    return torch.randint(1, 5, shape).to(dtype)
results = {}
def note(name, *values):
    results[name] = [value.tolist() if isinstance(value, torch.Tensor) else value for value in values]
"""

END = """
with open(f"results-{rank}.json", "w") as file:
    json.dump(results, file)
dist.barrier()
"""

# All that gloo has.
AS_GLOO = """
ops = {op: getattr(dist.ReduceOp, op) for op in ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")}
for dtype in (torch.float32, torch.float64, torch.float16, torch.int32, torch.int64, torch.uint8, torch.int8):
    for name, op in ops.items():
        if name.startswith("B") and dtype.is_floating_point:
            continue
        tensor = mine(7, dtype=dtype)
        dist.all_reduce(tensor, op=op)
        note(f"all_reduce {dtype} {name}", tensor)
transposed = mine(3, 4).t()
dist.all_reduce(transposed)
note("all_reduce of a transposed tensor", transposed)
large = mine(300000)
dist.all_reduce(large)
note("all_reduce large", large.sum(), large[:3])
empty = torch.empty(0)
dist.all_reduce(empty)
scalar = torch.tensor(float(rank))
dist.all_reduce(scalar)
note("all_reduce scalar", scalar)
torch.manual_seed(rank)
sparse = torch.sparse_coo_tensor(torch.tensor([[0, rank + 1, 2]]), mine(3, 2), (size + 3, 2))
dist.all_reduce(sparse)
note("all_reduce sparse", sparse.to_dense())
for root in range(size):
    tensor = mine(5, dtype=torch.int64, offset=root)
    dist.broadcast(tensor, root)
    note(f"broadcast from {root}", tensor)
    flags = torch.tensor([rank == root, True])
    if type(dist.distributed_c10d._get_default_group()).__name__ == "ProcessGroupRingmaster":
        dist.broadcast(flags, root)  # gloo has no bool
    tensor = mine(5, offset=root)
    dist.reduce(tensor, root)
    if rank == root:
        note(f"reduce to {root}", tensor)
    outputs = [torch.empty(2, 3) for _ in range(size)] if rank == root else None
    dist.gather(mine(2, 3, offset=root), outputs, dst=root)
    note(f"gather at {root}", *(outputs or []))
    output = torch.empty(4)
    dist.scatter(output, [mine(4, offset=other) for other in range(size)] if rank == root else None, src=root)
    note(f"scatter from {root}", output)
outputs = [torch.empty(2, 2, dtype=torch.float16) for _ in range(size)]
dist.all_gather(outputs, mine(2, 2, dtype=torch.float16))
note("all_gather", *outputs)
outputs = [torch.empty(50000, 2) for _ in range(size)]
dist.all_gather(outputs, mine(50000, 2))
note("all_gather large", *[tensor[-1] for tensor in outputs], *[tensor.sum() for tensor in outputs])
objects = [None] * size
dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank})
note("all_gather_object", objects)
objects = [{"from": rank}, rank]
dist.broadcast_object_list(objects, src=size - 1)
note("broadcast_object_list", objects)
tensors = [mine(3), mine(2, 2, offset=1)]
dist.all_reduce_coalesced(tensors)
note("all_reduce_coalesced", *tensors)
lists = [[torch.empty(3), torch.empty(2)] for _ in range(size)]
dist.all_gather_coalesced(lists, [mine(3), mine(2)])
note("all_gather_coalesced", *[tensor for of_rank in lists for tensor in of_rank])
rows = sum(other + 1 for other in range(size))
output = torch.empty((rank + 1) * size, 2)
dist.all_to_all_single(output, mine(rows, 2), [rank + 1] * size, [other + 1 for other in range(size)])
note("all_to_all_single", output)
if size > 1:
    # Around a ring, with tags in the other order.
    ahead, behind = (rank + 1) % size, (rank - 1) % size
    works = [dist.isend(mine(3, offset=tag), ahead, tag=tag) for tag in (1, 2)]
    for tag in (2, 1):
        tensor = torch.empty(3)
        dist.recv(tensor, behind, tag=tag)
        note(f"recv {tag}", tensor)
    for work in works:
        work.wait()
    dist.barrier()
    if rank == 0:
        tensor, sources = torch.empty(1), []
        for _ in range(size - 1):
            sources.append(dist.recv(tensor, tag=5))
        note("recv from any", sorted(sources))
    else:
        dist.send(mine(1), 0, tag=5)
dist.monitored_barrier()
group = dist.new_group(sorted({0, size - 1}))
if rank in (0, size - 1):
    tensor = mine(4)
    dist.all_reduce(tensor, group=group)
    note("all_reduce in a group", tensor)
works = [dist.all_reduce(mine(2000, offset=i), async_op=True) for i in range(20)]
for work in reversed(works):
    work.wait()
future = dist.all_reduce(torch.ones(2), async_op=True).get_future()
note("future", future.then(lambda done: done.value()[0] * 2).wait())
"""

# Beyond gloo.
BEYOND_GLOO = """
def all_of(*shape, offset=0):
    tensors = []
    for other in range(size):
        torch.manual_seed(other + 10 * offset)
        tensors.append(torch.randint(1, 5, shape).to(torch.float32))
    return tensors
table = mine(6, 4)
dist.all_reduce(table[:, 1])  # of which gloo would take the wrong elements
assert torch.equal(table[:, 1], sum(all_of(6, 4))[:, 1]) and torch.equal(table[:, 0], mine(6, 4)[:, 0]), table
tensor = mine(6)
dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
assert torch.allclose(tensor, sum(all_of(6)) / size), tensor
for op in (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT):
    output = torch.empty(2)
    dist.reduce_scatter(output, list(mine(size, 2)), op=op)
    whole = torch.stack(all_of(size, 2))[:, rank]
    assert torch.equal(output, whole.sum(0) if op == dist.ReduceOp.SUM else whole.prod(0)), output
output = torch.empty(2)
dist._reduce_scatter_base(output, mine(size * 2))
assert torch.equal(output, sum(all_of(size * 2))[rank * 2:rank * 2 + 2])
output = torch.empty(size * 3)
dist._all_gather_base(output, mine(3))
assert torch.equal(output, torch.cat(all_of(3)))
outputs = [torch.empty(other + 1) for other in range(size)]
dist.all_to_all(outputs, [torch.full((rank + 1,), float(10 * rank + other)) for other in range(size)])
assert all(torch.equal(output, torch.full((other + 1,), 10.0 * other + rank)) for other, output in enumerate(outputs)), outputs
outputs = [torch.empty(300, 200).t() if other == rank else torch.empty(200, 300) for other in range(size)]
dist.all_gather(outputs, mine(200, 300))
assert all(torch.equal(output, other) for output, other in zip(outputs, all_of(200, 300)))
mixed = mine(2, 3, 4, 5)
if rank == 1:
    mixed = mixed.contiguous(memory_format=torch.channels_last)  # the same numbers in another order
dist.all_reduce(mixed)
assert torch.equal(mixed, sum(all_of(2, 3, 4, 5)))
bfloat = mine(5, dtype=torch.bfloat16)
dist.all_reduce(bfloat)
assert torch.equal(bfloat.float(), sum(all_of(5)))
flag = torch.tensor([rank == 0, False])
dist.all_reduce(flag, op=dist.ReduceOp.MAX)
assert flag.tolist() == [True, False]
# A future's callback may begin operations, and wait for them.
def follow(done):
    tensor = done.value()[0].clone()
    dist.all_reduce(tensor)
    return tensor
for count in (2, 1 << 20):
    future = dist.all_reduce(torch.ones(count), async_op=True).get_future().then(follow)
    assert future.wait()[0] == size * size
# Work may be dropped, and may outlive its group.
dist.isend(torch.full((1 << 20,), float(rank)), (rank + 1) % size)
tensor = torch.empty(1 << 20)
dist.recv(tensor, (rank - 1) % size)
assert tensor[-1] == (rank - 1) % size
group = dist.new_group()
work = dist.all_reduce(torch.ones(2), group=group, async_op=True)
work.wait()
dist.destroy_process_group(group)
del group
assert work.wait() and work.is_completed()
for call, words in [
        (lambda: dist.broadcast(torch.ones(2).to_sparse(), 0), "only all_reduce takes tensors of layout Sparse"),
        (lambda: dist.all_reduce(torch.ones(2, dtype=torch.int32), op=dist.ReduceOp.AVG), "an average is of floating point"),
        (lambda: dist.all_to_all_single(torch.empty(1), torch.empty(size + 1)), "rows"),
        (lambda: dist.send(torch.ones(1), size), f"rank {size} in a group of {size}"),
        (lambda: dist.gather(torch.ones(1), dst=99), "rank 99 is to be the root"),
        (lambda: dist.scatter(torch.ones(1), src=-1), "rank -1 is to be the root"),
        (lambda: dist.reduce(torch.ones(1), 99), "rank 99 is to be the root"),
        (lambda: dist.all_reduce(torch.ones(1), op=dist.ReduceOp.BXOR), "bit operations are of integers")]:
    try:
        call()
    except (RuntimeError, ValueError) as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
"""

# Models as people write them; the parameters of all ranks must be equal, and those with gloo.
MODELS = """
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
        self.left, self.right, self.head = nn.Linear(4 * 36, 16), nn.Linear(4 * 36, 16), nn.Linear(16, 10)
    def forward(self, images, uses):
        features = self.features(images)
        return self.head(torch.relu(sum(getattr(self, name)(features) for name in uses)))
def train(name, steps=4, accumulate=1, **options):
    torch.manual_seed(3)
    model = DDP(Net(), **options)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(100 + rank)
    for step in range(steps):
        for part in range(accumulate):
            images, labels = torch.randn(4, 1, 8, 8), torch.randint(0, 10, (4,))
            uses = ["left", "right"] if not options.get("find_unused_parameters") else ["right" if step % 2 else "left"]
            if part + 1 < accumulate:
                with model.no_sync():
                    nn.functional.cross_entropy(model(images, uses), labels).backward()
            else:
                nn.functional.cross_entropy(model(images, uses), labels).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=not options.get("gradient_as_bucket_view", False))
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    all_weights = [torch.empty_like(weights) for _ in range(size)]
    dist.all_gather(all_weights, weights)
    assert all(torch.equal(weights, other) for other in all_weights), name
    note(name, weights.double().sum(), weights[:3], weights.double().square().sum())
train("default")
train("small buckets", bucket_cap_mb=0.001)
train("accumulation", accumulate=3)
train("unused", find_unused_parameters=True)
train("views", gradient_as_bucket_view=True)
train("static", static_graph=True)
torch.manual_seed(4)
embedding = DDP(nn.Sequential(nn.Embedding(50, 4, sparse=True)))
torch.manual_seed(rank)
embedding(torch.randint(0, 50, (6,))).square().sum().backward()
note("sparse gradients", embedding.module[0].weight.grad.to_dense().sum(), embedding.module[0].weight.grad.to_dense()[:2])
"""


class TorchTest(TorchCase):
    def results(self, script, *flags, ranks=3):
        """What each rank has noted, by names."""
        run = self.run_here(BEGIN + script + END, *flags, ranks=ranks)
        self.assertEqual(run.returncode, 0, run.stderr[-3000:])
        return [json.loads((self.directory / f"results-{rank}.json").read_text()) for rank in range(ranks)]

    def assert_equal_results(self, ours, gloos, places):
        """Numbers to `places` decimal places, everything else as it is."""
        def compare(name, a, b):
            if isinstance(a, list) and isinstance(b, list):
                self.assertEqual(len(a), len(b), name)
                for one, other in zip(a, b):
                    compare(name, one, other)
            elif isinstance(a, float):
                self.assertAlmostEqual(a, b, places, msg=name)
            else:
                self.assertEqual(a, b, name)
        for rank, (of_rank, gloos_of_rank) in enumerate(zip(ours, gloos)):
            self.assertEqual(of_rank.keys(), gloos_of_rank.keys())
            for name, values in of_rank.items():
                compare(f"{name} at rank {rank}", values, gloos_of_rank[name])

    def test_does_what_gloo_does(self):
        for ranks in (1, 3):
            with self.subTest(ranks=ranks):
                self.assert_equal_results(self.results(AS_GLOO, ranks=ranks), self.results(AS_GLOO, AS_IS, ranks=ranks), places=6)

    def test_does_more_than_gloo(self):
        self.results(BEYOND_GLOO)

    def test_trains_models_as_gloo_does(self):
        self.assert_equal_results(self.results(MODELS), self.results(MODELS, AS_IS), places=4)

    def test_takes_the_place_of_gloo_unless_told_otherwise(self):
        script = BEGIN + 'print("class", type(dist.distributed_c10d._get_default_group()).__name__, dist.get_backend())'
        for flags, name in [([], "ProcessGroupRingmaster"), ([AS_IS], "ProcessGroupGloo"),
                            (["--env=TORCH_DISTRIBUTED_DEBUG=DETAIL"], "_ProcessGroupWrapper")]:
            with self.subTest(flags):
                run = self.run_here(script, *flags, ranks=2)
                self.assertEqual(sorted(run.stdout.splitlines()), [f"[{rank}] class {name} gloo" for rank in (0, 1)], run.stderr)
        # By its own name, where the script asks for it.
        run = self.run_here("import torch.distributed as dist\nimport ringmaster_torch\ndist.init_process_group('ringmaster')\n"
                            "print(dist.get_backend(), dist.get_world_size())", AS_IS, ranks=2)
        self.assertEqual(sorted(run.stdout.splitlines()), ["[0] ringmaster 2", "[1] ringmaster 2"], run.stderr)

    def test_the_program_s_own_sitecustomize_still_runs(self):
        own = self.directory / "own"
        own.mkdir()
        (own / "sitecustomize.py").write_text("import os\nos.environ['CUSTOMIZED'] = 'yes'\n")
        run = self.run_here("import os; print(os.environ.get('CUSTOMIZED'))", f"--env=PYTHONPATH={own}", ranks=1)
        self.assertEqual(run.stdout, "[0] yes\n", run.stderr)

    def test_a_rank_that_dies_is_named(self):
        run = self.run_here(BEGIN + """
import signal
# Not by the signal that stops the ranks that are left.
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if rank == 1:
    time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)
try:
    dist.all_reduce(torch.ones(4))
except RuntimeError as error:
    print("NAMED", error, flush=True)
    time.sleep(600)
""", "--env=RINGMASTER_TORCH=restart")
        self.assertEqual(run.returncode, 128 + signal.SIGKILL, run.stderr)
        named = [line for line in run.stdout.splitlines() if "NAMED" in line]
        for line in named:
            self.assertIn("rank 1 at ", line)
        self.assertTrue(named, run.stdout)

    def test_ranks_that_differ_are_named(self):
        catch = """
            except RuntimeError as error:
                print("CAUGHT", error, flush=True)
                time.sleep(2)
            """
        for name, body, words in [
                ("size", "dist.all_reduce(torch.ones(4 + rank), group=group)", "count is "),
                ("operation", "dist.all_reduce(torch.ones(4), group=group) if rank == 0 else dist.all_gather([torch.ones(2)] * 2, "
                 "torch.ones(2), group=group)", "op "),
                ("absence", "time.sleep(8) if rank == 1 else dist.all_reduce(torch.ones(4), group=group)", "waited for rank 1 at "),
                ("message", "dist.send(torch.ones(2), 1, group=group) if rank == 0 else dist.recv(torch.ones(3), 0, group=group)",
                 "expected 12 bytes of rank 0"),
                ("group", "time.sleep(3) if rank == 1 else dist.new_group(timeout=second)",
                 "of the 2 ranks of the process group 1 did not come within 1s: rank 1")]:
            with self.subTest(name):
                run = self.run_here(BEGIN + "second = __import__('datetime').timedelta(seconds=1)\n"
                                    "group = dist.new_group(timeout=5 * second)\ntry:\n    " + body +
                                    textwrap.dedent(catch), ranks=2)
                self.assertIn("CAUGHT", run.stdout, run.stderr)
                self.assertIn(words, run.stdout)

    def test_a_long_wait_is_told_of(self):
        run = self.run_here(BEGIN + "time.sleep(4) if rank == 1 else None\ndist.all_reduce(torch.ones(4))\ntime.sleep(2)\n",
                            "--env=RINGMASTER_TORCH_PATIENCE=1s", ranks=2)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stderr, r"\[0\] ringmaster: rank 0 has waited \d s for rank 1 in all_reduce, collective 1 of its process group\n")
        self.assertRegex(run.stderr, r"\[0\] ringmaster: rank 0 goes on after \d s\n")
        self.assertNotIn("ringmaster: rank 1 goes on", run.stderr)
        run = self.run_here(BEGIN + "time.sleep(3) if rank == 1 else None\ndist.new_group()\n", "--env=RINGMASTER_TORCH_PATIENCE=1s", ranks=2)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("[0] ringmaster: rank 0 has waited to make a process group with rank 1 for 1 s\n", run.stderr)

    def test_sums_may_travel_in_half_the_bytes(self):
        script = """
small, large = torch.full((4,), 1.0 + 2 ** -12), torch.full((1 << 15,), 1.0 + 2 ** -12)
for tensor in (small, large):
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM)
note("exact", small[0])
note("rounded", large[0])
"""
        self.assertEqual(self.results(script, "--env=RINGMASTER_TORCH_WIRE=bfloat16", ranks=2)[0],
                         {"exact": [2 + 2 ** -11], "rounded": [2.0]})

    def test_a_wrong_variable_is_one_line(self):
        for variable, words in [("RINGMASTER_TORCH_WIRE=int8", "RINGMASTER_TORCH_WIRE is neither float16 nor bfloat16"),
                                ("RINGMASTER_TORCH_PATIENCE=soon", "RINGMASTER_TORCH_PATIENCE is no duration like 30s"),
                                ("RINGMASTER_DATA_PORTS=5", "RINGMASTER_DATA_PORTS: "),
                                ("GLOO_SOCKET_IFNAME=no-such", "no-such")]:
            with self.subTest(variable):
                run = self.run_here(BEGIN, f"--env={variable}", ranks=1)
                self.assertEqual(run.returncode, 1, run.stderr)
                self.assertIn(f"RuntimeError: ringmaster: ", run.stderr)
                self.assertIn(words, run.stderr.splitlines()[-1])

    def test_after_an_error_nothing_goes_on_as_if(self):
        # Rank 1's part of the exchange fails; its next operation would fit into what rank 0 still waits in.
        results = self.results("""
errors = []
for call in (lambda: dist.all_to_all_single(torch.empty(2 + rank), torch.ones(2), [1 + rank, 1], [1, 1]),
             lambda: dist.all_reduce(torch.ones(2))):
    try:
        call()
    except RuntimeError as error:
        errors.append(str(error))
note("errors", errors)
with open(f"results-{rank}.json", "w") as file:
    json.dump(results, file)
sys.exit(0)
""", ranks=2)
        # Rank 0 may have been done with the first.
        *_, at_first = results[0]["errors"][0]
        at_second, later = results[1]["errors"][0]
        self.assertIn("rank 1 expected 8 bytes of rank 0", at_second)
        self.assertIn(at_second.replace("ringmaster: ", ""), later)
        self.assertIn("rank 1", at_first)

    def test_a_limit_of_a_wait_holds(self):
        results = self.results("""
from datetime import timedelta
if rank == 1:
    time.sleep(3)
work = dist.all_reduce(torch.ones(2), async_op=True)
begin = time.monotonic()
try:
    work.wait(timedelta(milliseconds=200 if rank == 0 else 60000))
    late = False
except RuntimeError as error:
    late = "is not over after 200 ms" in str(error)
took = time.monotonic() - begin
work.wait()
note("late", late, took < 2)
""", ranks=2)
        self.assertEqual(results, [{"late": [True, True]}, {"late": [False, True]}])

    def test_a_rank_that_ends_leaves_its_part(self):
        # It does not wait for the operation, which the others need.
        run = self.run_here(BEGIN + """
if rank == 0:
    time.sleep(2)
work = dist.reduce(torch.ones(1 << 20), 0, async_op=True)
if rank == 0:
    work.wait()
    print("done")
""", ranks=3)
        self.assertEqual((run.returncode, run.stdout), (0, "[0] done\n"), run.stderr)

    def test_all_take_gloo_if_one_cannot_have_ours(self):
        for declining in (0, 1):
            with self.subTest(declining):
                run = self.run_here(f"""
import os, sys
if os.environ["RANK"] == "{declining}":
    sys.modules["ringmaster_torch.back_end"] = None  # an ImportError
""" + BEGIN + """
dist.all_reduce(torch.ones(2))
print(type(dist.distributed_c10d._get_default_group()).__name__)
""")
                self.assertEqual(sorted(run.stdout.splitlines()), [f"[{rank}] ProcessGroupGloo" for rank in range(3)], run.stderr)
                self.assertEqual(run.stderr.count("ringmaster: gloo is left in its place: "), 3)

    def test_an_epoch_goes_on_with_other_ranks(self):
        script = """
from ringmaster_torch import DistributedSampler
data, sampler = range(103), None
def epoch(number, parts, **options):
    # A part has a number of ranks, and of samples that each of them uses before it ends; None: to the end.
    used, seen = 0, []
    for ranks, count in parts:
        of_ranks = []
        for r in range(ranks):
            sampler = DistributedSampler(data, ranks, r, **options)
            sampler.set_epoch(number, used)
            indices = list(sampler)
            assert len(indices) == len(sampler)
            of_ranks.append(indices if count is None else indices[:count])
        assert len({len(indices) for indices in of_ranks}) == 1
        seen += [index for indices in of_ranks for index in indices]
        used += sum(map(len, of_ranks))
    return seen
whole = [(4, 5), (3, 7), (5, None)]
note("once", sorted(epoch(1, [(4, 5), (3, 7), (2, None)])) == list(range(103)))
seen = epoch(1, whole)
note("all", sorted(set(seen)) == list(range(103)), len(seen) - 103)
note("dropped", len(set(epoch(1, whole, drop_last=True))), len(epoch(1, whole, drop_last=True)))
note("orders", epoch(1, whole) == epoch(1, whole), epoch(1, [(1, None)]) == epoch(2, [(1, None)]), epoch(1, [(1, None)], shuffle=False) == list(range(103)))
from torch.utils.data import DataLoader
sampler = DistributedSampler(data)
sampler.set_epoch(0, used=3)
batches = list(DataLoader(data, batch_size=7, sampler=sampler))
counts = torch.bincount(torch.cat(batches), minlength=103)
dist.all_reduce(counts)
note("loader", int(counts.sum()), int(counts.max()))
for bad in (lambda: DistributedSampler(data, 2, 2), lambda: sampler.set_epoch(0, -1)):
    try:
        bad()
    except ValueError:
        continue
    raise AssertionError("no error")
"""
        results = self.results(script, ranks=2)
        for rank in (0, 1):
            self.assertEqual(results[rank], {"once": [True], "all": [True, 3], "dropped": [101, 101], "orders": [True, False, True],
                                             "loader": [100, 1]})

    def test_a_script_may_have_children(self):
        results = self.results("""
from torch.utils.data import DataLoader
loader = DataLoader(torch.arange(16.0), batch_size=4, num_workers=2)
total = torch.zeros(1)
for batch in loader:
    part = batch.sum().reshape(1)
    dist.all_reduce(part)
    total += part
note("total", total)
""", ranks=2)
        self.assertEqual(results[0]["total"], [[240.0]])


if __name__ == "__main__":
    report.main()
