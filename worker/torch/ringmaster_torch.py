"""Ringmaster as a back end of torch.distributed: process groups for tensors in host memory.

    import ringmaster_torch
    torch.distributed.init_process_group("ringmaster")

Commands that `ringctl run` starts need neither line: there it takes the place of "gloo" (sitecustomize.py).
"""

import torch
import torch.distributed as dist

from ringmaster_torch import _built_for


def _minor(version):
    return version.split("+")[0].split(".")[:2]


# Another version would crash, not complain.
if _minor(torch.__version__) != _minor(_built_for.TORCH):
    raise ImportError("ringmaster_torch was built for PyTorch %s, and this is %s" % (_built_for.TORCH, torch.__version__))

from ringmaster_torch._C import ProcessGroupRingmaster  # noqa: E402

if not hasattr(dist.Backend, "RINGMASTER"):
    dist.Backend.register_backend("ringmaster", ProcessGroupRingmaster)
