"""Python imports this module at its start where its directory is in PYTHONPATH, as it is for commands of `ringctl run`.

If the program imports PyTorch, Ringmaster's back end takes the place of gloo, unless RINGMASTER_TORCH=as_is. A program without
PyTorch notices nothing, and whatever is missing here, the program gets the gloo that it asked for.
"""

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import os
import socket
import sys

_WATCHED = "torch.distributed.distributed_c10d"


def _tell_worker(packet):
    """Of a meeting, which ranks go on after without those that are lost (worker/views/view.h)."""
    name = os.environ.get("RINGMASTER_VIEWS")
    if not name or os.environ.get("RINGMASTER_TORCH") == "restart":
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as worker:
            worker.settimeout(1)
            worker.connect("\0" + name)
            worker.send(packet)
            worker.recv(64)  # else its end would take the packet with it
    except OSError:
        pass  # a rank that is killed then costs a restart


def _default_group(module):
    """Ours, or None."""
    group = module.GroupMember.WORLD
    return group if type(group).__name__ == "ProcessGroupRingmaster" else None


def _telling(module, init):
    """init_process_group, with the worker told that ranks meet, so that one that is killed meanwhile costs no restart."""
    @functools.wraps(init)
    def init_process_group(backend=None, *arguments, **options):
        if os.environ.get("RINGMASTER_GROUP") and str(backend).lower() in ("gloo", "ringmaster"):
            return _init_alone(module, init, backend, options)
        if str(backend).lower() != "gloo":
            return init(backend, *arguments, **options)
        _tell_worker(b"meets")
        init(backend, *arguments, **options)
        group = _default_group(module)
        if group is not None:
            group.tell_met()
        else:
            _tell_worker(b"has_met")

    return init_process_group


def _init_alone(module, init, backend, options):
    """init_process_group of a process that takes the place of a lost rank: the others have met long ago (attach.py)."""
    from torch._C._distributed_c10d import HashStore
    limit = {"timeout": options["timeout"]} if "timeout" in options else {}
    init(backend, store=HashStore(), rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]), **limit)
    # Programs that the script starts take nobody's place.
    os.environ.pop("RINGMASTER_GROUP", None)


class _WatchedStore:
    """For the wait of all ranks in the store, which those that are lost do not end."""

    def __init__(self, module, store):
        self._module, self._store = module, store

    def add(self, key, amount):
        group = _default_group(self._module)
        loss = group.loss_text() if group is not None else ""
        if loss:
            raise RuntimeError("ringmaster: no process group can be made once a rank is lost: " + loss)
        return self._store.add(key, amount)


def _watching(module, barrier):
    """The barrier in the store that ends the making of a group; its arguments behind the store are PyTorch's affair."""
    @functools.wraps(barrier)
    def store_based_barrier(rank, store, *arguments, **options):
        group = _default_group(module)
        if group is not None and getattr(sys.modules.get("ringmaster_torch.attach"), "_attached", None) is not None:
            raise RuntimeError("ringmaster: no process group can be made after ringmaster_torch.attach: a new process would not have it")
        if group is not None and group.is_joining:
            if len(module._pg_map) > 1:
                raise RuntimeError("ringmaster: a process that takes the place of a lost rank has the default process group alone")
            return None
        if group is not None:
            store = _WatchedStore(module, store)
        return barrier(rank, store, *arguments, **options)

    return store_based_barrier


def _load(module):
    """Returns our back end, or None, and why gloo is to be left in its place."""
    if module.torch.cuda.is_available():
        return None, "there is a GPU, whose tensors gloo takes"
    if module.get_debug_level() == module.DebugLevel.DETAIL:
        return None, "TORCH_DISTRIBUTED_DEBUG=DETAIL has gloo check what all ranks do"
    try:
        from ringmaster_torch import back_end
    except ImportError as error:
        print("ringmaster: gloo is left in its place: %s" % error, file=sys.stderr)
        return None, str(error)
    return back_end, None


def _new_group(module, gloo, store, rank, size, timeout):
    """A group of ours; of gloo's if one of the ranks cannot have ours."""
    ours, why = _load(module)
    if ours is None and os.environ.get("RINGMASTER_GROUP"):
        raise RuntimeError("ringmaster: the ranks that are to take this one in have another back end: " + why)
    if ours is not None:
        try:
            return ours.ProcessGroupRingmaster(store, rank, size, timeout=timeout)
        except ours.OthersDecline as error:
            print("ringmaster: gloo is left in its place: %s" % error, file=sys.stderr)
            return gloo(store, rank, size, timeout=timeout)
    # The others look there (rendezvous.h).
    store.set("ringmaster/member/%d" % rank, "declined: " + why)
    if rank == 0:
        store.set("ringmaster/members", "declined: rank 0 uses another back end: " + why)
    return gloo(store, rank, size, timeout=timeout)


def _stand_in(module):
    """Returns a class to be called in the place of gloo's, which loads ours when the first group is made."""
    gloo = module.ProcessGroupGloo

    class Kind(type):
        def __instancecheck__(cls, instance):
            return isinstance(instance, gloo) or type(instance).__name__ == "ProcessGroupRingmaster"

        def __getattr__(cls, name):
            return getattr(gloo, name)

    class ProcessGroupGloo(metaclass=Kind):
        def __new__(cls, store, rank, size, timeout=module.default_pg_timeout):
            return _new_group(module, gloo, store, rank, size, timeout)

    return ProcessGroupGloo


class _Loader(importlib.abc.Loader):
    """Loads the watched module as its own loader does, and puts the stand-in into it."""

    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        if hasattr(module, "ProcessGroupGloo"):
            module.ProcessGroupGloo = _stand_in(module)
            module.init_process_group = _telling(module, module.init_process_group)
            if hasattr(module, "_store_based_barrier"):
                module._store_based_barrier = _watching(module, module._store_based_barrier)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != _WATCHED:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def _import_next():
    """Imports the sitecustomize that Python would have found without this one."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [path for path in sys.path if os.path.abspath(path or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get("RINGMASTER_TORCH", "") != "as_is":
    sys.meta_path.insert(0, _Finder())
_import_next()
