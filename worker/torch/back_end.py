"""The back end itself; fails with ImportError where this PyTorch is not the one that it was built for."""

import functools

import torch
import torch.distributed as dist

from ringmaster_torch import _built_for


_VERSION = ".".join(_built_for.TORCH.split(".")[:2])

# Another PyTorch would crash, not complain. Debian's libraries have their version in their names, those of other builds do not.
with open("/proc/self/maps", encoding="utf-8", errors="replace") as _maps:
    if not any("/libtorch_python.so.%s" % _VERSION in line for line in _maps):
        raise ImportError("ringmaster_torch was built for Debian's PyTorch %s, and this is PyTorch %s of %s" % (
            _built_for.TORCH, torch.__version__, torch.__path__[0]))

from ringmaster_torch import _C  # noqa: E402
from ringmaster_torch._C import OthersDecline, ProcessGroupRingmaster  # noqa: E402,F401



def _with_stand_ins(call):
    @functools.wraps(call)
    def wrapped(*arguments, **options):
        _C.set_roots_have_stand_ins(True)
        try:
            return call(*arguments, **options)
        finally:
            _C.set_roots_have_stand_ins(False)

    return wrapped


# DistributedDataParallel's broadcasts, of parameters and buffers and of the order of gradients: any rank's are as good as those of one
# that is lost.
dist._broadcast_coalesced = _with_stand_ins(dist._broadcast_coalesced)
dist.Reducer._rebuild_buckets = _with_stand_ins(dist.Reducer._rebuild_buckets)
dist._verify_params_across_processes = _with_stand_ins(dist._verify_params_across_processes)

if not hasattr(dist.Backend, "RINGMASTER"):
    dist.Backend.register_backend("ringmaster", ProcessGroupRingmaster)
