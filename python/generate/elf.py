"""What a shared library needs: names of libraries and the newest glibc, read from
its ELF sections."""
import re
import struct
from collections import namedtuple

Needs = namedtuple("Needs", "libraries glibc machine")
MACHINES = {62: "x86_64", 183: "aarch64"}
DYNAMIC, VERSION_NEEDS = 6, 0x6FFFFFFE  # types of sections


def text_at(data, at):
    return data[at:data.index(b"\0", at)].decode()


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    if data[:6] != b"\x7fELF\x02\x01":
        raise SystemExit("%s: no little-endian ELF file of 64 bits" % path)
    machine = MACHINES[struct.unpack_from("<H", data, 18)[0]]
    start, = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    # type, offset, bytes, section of the texts
    sections = [struct.unpack_from("<4xI16xQQI", data, start + i * size)
                for i in range(count)]
    libraries, versions = [], set()
    for kind, offset, length, link in sections:
        if kind == DYNAMIC:
            texts = sections[link][1]
            for at in range(offset, offset + length, 16):
                tag, value = struct.unpack_from("<QQ", data, at)
                if tag == 1:
                    libraries.append(text_at(data, texts + value))
        elif kind == VERSION_NEEDS:
            texts, at = sections[link][1], offset
            while True:
                entries, _, first, following = struct.unpack_from("<2xHIII", data, at)
                entry = at + first
                for _ in range(entries):
                    name, step = struct.unpack_from("<8xII", data, entry)
                    versions.add(text_at(data, texts + name))
                    entry += step
                if not following:
                    break
                at += following
    glibc = [tuple(map(int, v[6:].split("."))) for v in versions
             if re.fullmatch(r"GLIBC_[\d.]+", v)]
    return Needs(libraries, max(glibc, default=(2, 17))[:2], machine)
