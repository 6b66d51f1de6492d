"""Ringmaster for PyTorch: a back end of torch.distributed for tensors in host memory, and what goes with it.

    import ringmaster_torch
    torch.distributed.init_process_group("ringmaster")

Commands that `ringctl run` starts need neither line: there it takes the place of "gloo" (sitecustomize.py). Where the back end cannot be
loaded, init_process_group does not know its name, and the rest works.
"""

from ringmaster_torch.sampler import DistributedSampler  # noqa: F401

from ringmaster_torch.attach import attach  # noqa: F401

try:
    from ringmaster_torch import back_end  # noqa: F401
except ImportError:
    pass
