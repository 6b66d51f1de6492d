"""Reads and writes safetensors files (the format of https://github.com/huggingface/safetensors) as NumPy arrays.

A file is the length of its header in 8 bytes, little-endian; the header, a JSON object of
{name: {dtype, shape, data_offsets}} and "__metadata__", an object of strings; and the tensors' bytes, without holes.
"""

import json
import struct

import numpy

_DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "|u1"}
_NAMES = {numpy.dtype(dtype): name for name, dtype in _DTYPES.items()}


def write(path, tensors, metadata=None):
    """`tensors` is {name: array}, `metadata` {string: string}. Wide types come first, then names, as the library does."""
    arrays = {name: numpy.ascontiguousarray(array).reshape(numpy.shape(array)) for name, array in tensors.items()}
    header = {"__metadata__": metadata} if metadata else {}
    offset = 0
    names = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    for name in names:
        array = arrays[name]
        header[name] = {"dtype": _NAMES[array.dtype], "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":"), sort_keys=False).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for name in names:
            file.write(arrays[name].tobytes())


def read(path):
    """Returns ({name: array}, metadata). ValueError names the file and what is wrong with it."""
    with open(path, "rb") as file:
        content = file.read()
    if len(content) < 8:
        raise ValueError(f"{path}: {len(content)} bytes are no safetensors file")
    (length,) = struct.unpack_from("<Q", content)
    if length > len(content) - 8:
        raise ValueError(f"{path}: the header should have {length} bytes, the file has {len(content)}")
    header = json.loads(content[8:8 + length])
    metadata = header.pop("__metadata__", {})
    body = content[8 + length:]
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] not in _DTYPES:
            raise ValueError(f"{path}: {name} has dtype {entry['dtype']}, not one of {', '.join(_DTYPES)}")
        dtype = numpy.dtype(_DTYPES[entry["dtype"]])
        begin, end = entry["data_offsets"]
        elems = int(numpy.prod(entry["shape"], dtype=numpy.int64))
        if end - begin != elems * dtype.itemsize or not 0 <= begin <= end <= len(body):
            raise ValueError(f"{path}: {name} of shape {entry['shape']} does not fit bytes {begin} to {end}")
        tensors[name] = numpy.frombuffer(body[begin:end], dtype=dtype).reshape(entry["shape"])
    return tensors, metadata
