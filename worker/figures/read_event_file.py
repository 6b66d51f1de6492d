"""Prints an event file as text, an event a line; exits with 1 where the file is not sound.

A reader that shares no code with the writer: it has checksums bit by bit and protobuf's wire format by hand, so that
a test can compare. Standard library only.
"""
import struct
import sys


def crc32c(data):
    remainder = 0xFFFFFFFF
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82F63B78 if remainder & 1 else 0)
    return remainder ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    while data:
        length, length_crc = struct.unpack("<QI", data[:12])
        if masked(data[:8]) != length_crc:
            sys.exit("wrong checksum of a length")
        content = data[12:12 + length]
        (content_crc,) = struct.unpack("<I", data[12 + length:16 + length])
        if masked(content) != content_crc:
            sys.exit("wrong checksum of a content")
        yield content
        data = data[16 + length:]


def varint(data, at):
    number = shift = 0
    while True:
        number |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return number, at


def fields(data):
    """(field number, value) of a message: int, float or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        wire_type = key & 7
        if wire_type == 0:
            value, at = varint(data, at)
        elif wire_type == 1:
            (value,) = struct.unpack("<d", data[at:at + 8])
            at += 8
        elif wire_type == 5:
            (value,) = struct.unpack("<f", data[at:at + 4])
            at += 4
        elif wire_type == 2:
            length, at = varint(data, at)
            value = data[at:at + length]
            at += length
        else:
            sys.exit("wire type %d" % wire_type)
        yield key >> 3, value


def value_text(data):
    value = dict(fields(data))
    tag = value[1].decode()
    if 2 in value:
        return "%s=%g" % (tag, value[2])
    tensor = dict(fields(value[8]))
    shape = [dict(fields(dim))[1] for _, dim in fields(tensor[2])]
    metadata = dict(fields(value[9]))
    plugin = dict(fields(metadata[1]))[1].decode()
    return "%s=%r dtype=%d shape=%r plugin=%s class=%d" % (
        tag, tensor[8].decode(), tensor[1], shape, plugin, metadata[4])


def event_text(data):
    event = dict(fields(data))
    text = "t=%.3f" % event[1]
    if 2 in event:
        text += " step=%d" % event[2]
    if 3 in event:
        text += " version=" + event[3].decode()
    if 5 in event:
        text += "".join(" " + value_text(value) for _, value in fields(event[5]))
    if 7 in event:
        text += " session=%d" % dict(fields(event[7]))[1]
    return text


with open(sys.argv[1], "rb") as file:
    for record in records(file.read()):
        print(event_text(record))
