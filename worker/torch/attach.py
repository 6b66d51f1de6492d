"""attach: ranks that are lost are replaced. A new process gets what the others have, and goes on with them from the step that they are at.

Private parts of DistributedDataParallel are used here, of the one version of PyTorch that the back end is built for.
"""

import io
import random
import sys
import types
import zlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ringmaster_torch.sampler import DistributedSampler

_attached = None


def attach(*, model, optimizer, sampler=None, state=None, **others):
    """Has the others' state given to a process that takes the place of a lost rank, and has this one take in such processes later.

    Call it once in every rank, after the model is a DistributedDataParallel, if it is to be one, and before the loop:

        progress = {"epoch": 0, "step": 0}
        ringmaster_torch.attach(model=model, optimizer=optimizer, sampler=sampler, state=progress)

    `sampler` is ringmaster_torch's DistributedSampler. `state` is a dict that the script keeps up to date, or a callable that returns what
    a new process needs; `others` are whatever else has state_dict and load_state_dict, such as a scheduler. Returns the state: in a
    new process that of the others (in the dict itself, if it is one).

    The others take a process in between two steps: after optimizer.step(), when the sampler is asked for more, or at the model's next
    forward pass in training. Where no rank can be replaced (another back end or launcher), it does nothing.
    """
    global _attached
    group = dist.distributed_c10d.GroupMember.WORLD
    if type(group).__name__ != "ProcessGroupRingmaster":
        return state() if callable(state) else state
    if _attached is not None:
        raise RuntimeError("ringmaster_torch.attach is called once in a process")
    if len(dist.distributed_c10d._pg_map) > 1:
        raise RuntimeError("ringmaster_torch.attach: no rank can be replaced in a program that has process groups beside the default one")
    if sampler is not None and not isinstance(sampler, DistributedSampler):
        raise TypeError("ringmaster_torch.attach: sampler is to be a ringmaster_torch.DistributedSampler, not a %s" % type(sampler).__name__)
    if isinstance(model, DistributedDataParallel) and model.static_graph:
        raise RuntimeError("ringmaster_torch.attach: no rank can be replaced with static_graph=True")
    attached = _Attached(group, model, optimizer, sampler, state, others)
    try:
        attached._pack()
    except Exception as error:
        raise RuntimeError("ringmaster_torch.attach: the state cannot be given to a new process: %s" % error) from error
    received = attached.join() if group.is_joining else attached.state()
    if group.take_newcomers():
        attached.watch()
        _attached = attached
    return received


class _Attached:
    def __init__(self, group, model, optimizer, sampler, state, others):
        self._group, self._model, self._optimizer, self._sampler, self._state = group, model, optimizer, sampler, state
        self._parts = {"model": model, "optimizer": optimizer, **others}
        self._has_stepped, self._contributors = False, None

    def state(self):
        return self._state() if callable(self._state) else self._state

    def watch(self):
        """Has the places found where others can be taken in."""
        step = self._optimizer.step

        def step_and_note(optimizer, *arguments, **options):
            result = step(*arguments, **options)
            self._has_stepped, self._contributors = True, self._group.contributors()
            return result

        # Some of its attributes are schedulers'. They expect a method.
        step_and_note.__dict__.update(getattr(step, "__dict__", {}))
        self._optimizer.step = types.MethodType(step_and_note, self._optimizer)
        self._model.register_forward_pre_hook(
            lambda module, _: self.take_in() if module.training and torch.is_grad_enabled() else None)
        if self._sampler is not None:
            self._sampler.follow(self.take_in)

    def take_in(self):
        """Takes in the processes that wait, once after each step: all ranks are at the same place of the program."""
        if not self._has_stepped:
            return
        self._has_stepped = False
        if self._sampler is not None:
            self._sampler.note_step(self._contributors)
        while self._group.admit():
            if self._sampler is not None:
                self._sampler.settle(self._contributors)
            self._exchange(has_state=True)

    def join(self):
        """Waits until the others take this process in, and gets their state; returns the script's."""
        self._warm_up()
        self._group.join()
        received = self._exchange(has_state=False)
        while self._group.admit():
            self._exchange(has_state=True)
        return received

    def _exchange(self, has_state):
        group, rank, size = self._group, self._group.rank(), self._group.size()
        while True:
            payload = self._pack() if has_state and group.lowest_settled() == rank else b""
            # The lowest rank that has the state may be another one by now, and in the next line again.
            header = torch.tensor([rank, len(payload), zlib.crc32(payload)])
            group.broadcast_settled(header).wait()
            root, length, checksum = header.tolist()
            data = torch.empty(length, dtype=torch.uint8)
            if root == rank and length:
                data = torch.frombuffer(bytearray(payload), dtype=torch.uint8)
            if length:
                group.broadcast_settled(data).wait()
            is_good = has_state or (length > 0 and zlib.crc32(data.numpy()) == checksum)
            flags = torch.zeros(size + 1, dtype=torch.int64)
            flags[rank], flags[size] = 1, 0 if is_good else 1
            group.allreduce([flags]).wait()
            if flags[size] == 0:
                break
        received = None if has_state else self._unpack(data.numpy().tobytes())
        group.settle()
        if self._sampler is not None:
            self._sampler.share_among([other for other in range(size) if flags[other]])
        return received

    def _pack(self):
        packed = {name: part.state_dict() for name, part in self._parts.items()}
        packed = {"parts": packed, "state": self.state(), "buckets": self._buckets(),
                  "torch": torch.get_rng_state(), "random": random.getstate()}
        if self._sampler is not None:
            packed["sampler"] = self._sampler.position()
        if "numpy" in sys.modules:
            packed["numpy"] = sys.modules["numpy"].random.get_state()
        buffer = io.BytesIO()
        torch.save(packed, buffer)
        return buffer.getvalue()

    def _unpack(self, payload):
        packed = torch.load(io.BytesIO(payload))
        for name, part in self._parts.items():
            part.load_state_dict(packed["parts"][name])
        self._take_buckets(packed["buckets"])
        if self._sampler is not None:
            self._sampler.go_to(packed["sampler"])
        torch.set_rng_state(packed["torch"])
        random.setstate(packed["random"])
        if "numpy" in sys.modules and "numpy" in packed:
            sys.modules["numpy"].random.set_state(packed["numpy"])
        if not isinstance(self._state, dict):
            return packed["state"]
        self._state.clear()
        self._state.update(packed["state"])
        return self._state

    # DistributedDataParallel orders its buckets anew after the first backward pass, by the order in which gradients came. A new process
    # has to have the same buckets as the others, or sums would be of different parameters.

    def _orders_buckets(self):
        return isinstance(self._model, DistributedDataParallel) and not self._model.find_unused_parameters

    def _parameters(self):
        return self._model._build_params_for_reducer()[0]

    def _buckets(self):
        """The indices of the parameters in each bucket; None: they are as at the start."""
        if not self._orders_buckets() or not self._model._has_rebuilt_buckets:
            return None
        index = {id(parameter): place for place, parameter in enumerate(self._parameters())}
        return [[index[id(parameter)] for parameter in bucket.parameters()]
                for bucket in self._model.reducer._get_zeros_like_grad_buckets()]

    def _warm_up(self):
        """A backward pass without others: only after one are buckets ordered anew."""
        if not self._orders_buckets():
            return
        parameters = self._parameters()
        self._model.reducer.prepare_for_forward()
        self._model.reducer.prepare_for_backward([])
        with torch.enable_grad():
            sum(parameter.sum() * 0 for parameter in parameters).backward()
        for parameter in parameters:
            parameter.grad = None

    def _take_buckets(self, buckets):
        if buckets is None:
            return
        # As rank 0 tells the others.
        order = [place for bucket in buckets for place in bucket]
        self._group.answer([torch.tensor(order + [len(buckets)], dtype=torch.int32),
                            torch.tensor([len(bucket) for bucket in buckets], dtype=torch.int32)])
        self._model._has_rebuilt_buckets = self._model.reducer._rebuild_buckets()
