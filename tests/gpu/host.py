"""Finds the machine's GPUs, driver, and CUDA libraries that our programs load while they run."""

import collections
import glob
import importlib.util
import json
import os
import subprocess
import sys

# Loaded by our programs, in the versions that CUDA 13 has; CUPTI only to tell time by kernel.
WANTED = ("libcublasLt.so.13", "libcudnn.so.9", "libnccl.so.2", "libcupti.so.13")
PATIENCE = 60.0  # of a driver: it may hang

# gpus: [{"name", "memory_gib"}]; trouble: why there is none, or ""; libraries: {soname: path or None}
Host = collections.namedtuple("Host", "gpus trouble cuda libraries environment")

# In a process of its own, because a driver may hang or crash.
_ASK_DRIVER = """
import ctypes, json, sys
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    sys.exit(f"no driver: {error}")
error = cuda.cuInit(0)
if error:
    text = ctypes.c_char_p()
    cuda.cuGetErrorString(error, ctypes.byref(text))
    sys.exit(f"cuInit: {text.value.decode() if text.value else error}")
version, count = ctypes.c_int(), ctypes.c_int()
cuda.cuDriverGetVersion(ctypes.byref(version))
cuda.cuDeviceGetCount(ctypes.byref(count))
gpus = []
for ordinal in range(count.value):
    device, size, name = ctypes.c_int(), ctypes.c_size_t(), ctypes.create_string_buffer(128)
    cuda.cuDeviceGet(ctypes.byref(device), ordinal)
    cuda.cuDeviceGetName(name, 128, device)
    cuda.cuDeviceTotalMem_v2(ctypes.byref(size), device)
    gpus.append({"name": name.value.decode(), "memory_gib": round(size.value / 2**30)})
if not gpus:
    sys.exit("the driver shows no GPU (look at CUDA_VISIBLE_DEVICES)")
print(json.dumps({"cuda": f"{version.value // 1000}.{version.value % 1000 // 10}", "gpus": gpus}))
"""


def ask_driver(code=_ASK_DRIVER, patience=PATIENCE):
    """({"cuda", "gpus"}, "") or (None, why)."""
    try:
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=patience, check=False)
    except subprocess.TimeoutExpired:
        return None, f"the driver does not answer within {patience:.0f} s"
    if result.returncode != 0:
        return None, result.stderr.strip().splitlines()[-1] if result.stderr.strip() else f"exit status {result.returncode}"
    return json.loads(result.stdout), ""


def wheel_directories():
    """lib/ of the wheels of NVIDIA that PyTorch brings along."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        spec = None
    places = spec.submodule_search_locations if spec and spec.submodule_search_locations else []
    return [directory for place in places for directory in sorted(glob.glob(os.path.join(place, "*", "lib")))]


def library_directories(environment, wheels):
    """In the order in which the loader looks: the user's, PyTorch's (so that both sides use the same), the toolkit's."""
    given = [directory for directory in environment.get("LD_LIBRARY_PATH", "").split(":") if directory]
    toolkit = os.path.join(environment.get("CUDA_HOME", "/usr/local/cuda"), "lib64")
    return list(dict.fromkeys(given + wheels + ([toolkit] if os.path.isdir(toolkit) else [])))


def find_libraries(directories, wanted=WANTED):
    def first(soname):
        paths = (os.path.join(directory, soname) for directory in directories)
        return next((os.path.realpath(path) for path in paths if os.path.exists(path)), None)
    return {soname: first(soname) for soname in wanted}


def python_path(host, *first):
    """For PYTHONPATH: ours before the user's."""
    given = host.environment.get("PYTHONPATH")
    return ":".join([*map(str, first)] + ([given] if given else []))


def look():
    answer, trouble = ask_driver()
    directories = library_directories(os.environ, wheel_directories())
    environment = dict(os.environ, LD_LIBRARY_PATH=":".join(directories))
    return Host(answer["gpus"] if answer else [], trouble, answer["cuda"] if answer else None, find_libraries(directories),
                environment)
