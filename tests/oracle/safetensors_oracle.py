#!/usr/bin/python3
"""Malformed safetensors files against two other readers.

usage: safetensors_oracle.py NABLA_QUANT

Writes some 1500 files, most of them broken in one way each, and runs
`nabla-quant verify` on every one. A reader written here from the format's
description, with Python's json, says which files are good: the tool must agree
on each. It must end with 0 for a good file and 1, 3 or 6 for a bad one, never
by a signal, within one second of processor time. Where the Python package
`safetensors` can be imported, all that the tool accepts must load there too, and
what loads there and is refused here is in docs/FORMAT.md.
"""
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile

BITS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8,
        "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
        "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
        "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64,
        "U64": 64}
MAX_HEADER = 100_000_000
MAX_NAME, MAX_RANK, MAX_STRING, MAX_DEPTH = 4096, 32, 1 << 22, 32
LIMIT = 1 << 64
SEEN = set()  # rows of STRICTER
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                       "../../docs/FORMAT.md"), encoding="utf-8") as page:
    FORMAT = page.read()


class Bad(Exception):
    """What the reader below says of a bad file."""


def need(holds, why):
    if not holds:
        raise Bad(why)


def pairs(items):
    """An object, as the list of its pairs: a dict would hide duplicates."""
    return ("object", items)


def no_constant(text):
    raise Bad("JSON has no " + text)


def real(text):
    need(len(text) <= 64, "a long number")
    need(abs(float(text)) != float("inf"), "out of range")
    return float(text)


def whole(text):
    need(len(text) <= 64, "a long number")
    return int(text) if text[0] != "-" else -1  # -0 is no unsigned integer


def check_texts(value, depth=1):
    """Refuses what Python's json lets pass and the format does not."""
    if isinstance(value, str):
        need("\0" not in value, "U+0000")
        try:
            need(len(value.encode()) <= MAX_STRING, "long string")
        except UnicodeEncodeError:
            raise Bad("lone surrogate") from None
    elif isinstance(value, tuple):
        need(depth <= MAX_DEPTH, "depth")
        for key, item in value[1]:
            check_texts(key)
            check_texts(item, depth + 1)
    elif isinstance(value, list):
        need(depth <= MAX_DEPTH, "depth")
        for item in value:
            check_texts(item, depth + 1)


def fields_of(value, what):
    need(isinstance(value, tuple), what + " is no object")
    keys = [key for key, _ in value[1]]
    need(len(set(keys)) == len(keys), "duplicate key in " + what)
    return dict(value[1])


def number(value):
    need(isinstance(value, int) and not isinstance(value, bool), "no integer")
    need(0 <= value < LIMIT, "not an unsigned 64-bit integer")
    return value


def read_tensor(name, value):
    need(len(name.encode()) <= MAX_NAME, "long name")
    # other fields may stand twice: nothing reads them
    need(isinstance(value, tuple), "tensor is no object")
    known = ("dtype", "shape", "data_offsets")
    fields = fields_of(pairs([p for p in value[1] if p[0] in known]), "tensor")
    need(all(key in fields for key in known), "missing field")
    dtype, shape, offsets = (fields[key] for key in known)
    need(isinstance(dtype, str) and dtype in BITS, "dtype")
    need(isinstance(shape, list) and len(shape) <= MAX_RANK, "shape")
    need(isinstance(offsets, list) and len(offsets) == 2, "offsets")
    begin, end = (number(offset) for offset in offsets)
    bits = 1
    for dimension in shape:
        bits *= number(dimension)
        need(bits < LIMIT, "overflow")
    bits *= BITS[dtype]
    need(bits < LIMIT and bits % 8 == 0, "bits")
    need(end - begin == bits // 8, "size")
    return begin, end


def check(data):
    """Raises Bad unless `data` is a good file."""
    need(len(data) >= 8, "short")
    length = struct.unpack("<Q", data[:8])[0]
    need(0 < length <= MAX_HEADER and length + 8 <= len(data), "length")
    try:
        text = data[8:8 + length].decode()
        header = json.loads(text, object_pairs_hook=pairs, parse_int=whole,
                            parse_float=real,
                            parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise Bad(str(error)) from None
    check_texts(header)
    spans = []
    for key, value in fields_of(header, "header").items():
        if key == "__metadata__":
            metadata = fields_of(value, "metadata")
            need(all(isinstance(v, str) for v in metadata.values()), "value")
        else:
            spans.append(read_tensor(key, value))
    end = 0
    for begin, stop in sorted(spans):
        need(begin == end, "hole or overlap")
        end = stop
    need(8 + length + end == len(data), "end of file")


def pack(text, size, length=None):
    raw = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + \
        bytes(size)


def tensor(dtype='"U8"', shape="[4]", offsets="[0,4]", more=""):
    return '{"dtype":%s,"shape":%s,"data_offsets":%s%s}' % (
        dtype, shape, offsets, more)


def one(body, size=4):
    return pack('{"a":%s}' % body, size)


def two(a, b, size):
    return pack('{"a":%s,"b":%s}' % (a, b), size)


EDGES = sorted({0, 1, 2, 3, 4, 5, 8, LIMIT, LIMIT * LIMIT} | {
    (1 << power) + delta for power in (8, 16, 31, 32, 53, 61, 62, 63, 64)
    for delta in (-1, 0, 1)})
ODD = ["-1", "-0", "-9223372036854775808", "0.0", "4.0", "4e0", "1e400", "-1e309", "1e308", "1e-400", "0x4",
       "04", "+4", "4.", ".4", "NaN", "Infinity", "true", "false", "null",
       '""', '"4"', '"U8"', "[]", "[4]", "[[4]]", "{}", '{"a":4}', "",
       "[0,4]", "4,4", "4 4", "'4'", "\x00", "\x1f"]
VALUES = [str(edge) for edge in EDGES] + ODD


def field_values():
    """Each field, and each number in one, set to each value."""
    for value in VALUES:
        yield one(tensor(dtype=value))
        yield one(tensor(shape=value))
        yield one(tensor(shape="[%s]" % value))
        yield one(tensor(shape="[%s,4]" % value))
        yield one(tensor(shape="[4,%s]" % value))
        yield one(tensor(shape="[0,%s]" % value, offsets="[0,0]"), 0)
        yield one(tensor(shape="[%s,0]" % value, offsets="[0,0]"), 0)
        yield one(tensor(offsets=value))
        yield one(tensor(offsets="[%s,4]" % value))
        yield one(tensor(offsets="[0,%s]" % value))
        yield one(tensor(offsets="[0,4,%s]" % value))
        yield one(tensor(more=',"extra":%s' % value))
        yield one(value)
        yield pack(value, 0)
        yield pack('{"__metadata__":%s}' % value, 0)
        yield pack('{"__metadata__":{"k":%s}}' % value, 0)
        yield two(tensor(), tensor(shape="[4]", offsets="[%s,8]" % value), 8)
    for edge in EDGES:
        if edge < LIMIT:
            yield pack("{}", 0, edge)
            yield pack("{}", 64, edge)
            for dtype in ("F4", "U8", "F64"):
                size = edge * BITS[dtype] // 8
                yield one(tensor('"%s"' % dtype, "[%d]" % edge,
                                 "[0,%d]" % size))
            yield one(tensor(shape="[%d,%d]" % (edge, edge)))


def dtypes():
    for dtype, bits in BITS.items():
        for count in range(5):
            size = (count * bits + 7) // 8
            for stored in {size, size + 1, max(size, 1) - 1}:
                yield one(tensor('"%s"' % dtype, "[%d]" % count,
                                 "[0,%d]" % stored), stored)
        yield one(tensor('"%s"' % dtype.lower()))
        yield one(tensor('"%s "' % dtype))
    yield one(tensor('"F\\u0033\\u0032"', "[1]"))


def layouts():
    """Two tensors at each pair of places: holes, overlap, order."""
    spans = [(b, e) for b in range(5) for e in range(b, 5)]
    for first in spans:
        for second in spans:
            body = [tensor(shape="[%d]" % (e - b), offsets="[%d,%d]" % (b, e))
                    for b, e in (first, second)]
            yield two(body[0], body[1], 4)
    for size in (0, 1, 3, 5, 8):
        yield one(tensor(), size)


def structure():
    good = tensor()
    for text in (
            "", " ", "{", "}", "[]", "{}{}", "{},", "{} x", "//\n{}", "{,}",
            "\ufeff{}", "{}\0", "\0{}", '{"a"}', '{"a":}', '{a:1}', "'{}'",
            '{"a":%s,}' % good, '{"a":%s "b":%s}' % (good, good),
            '{"a":%s,"a":%s}' % (good, tensor(offsets="[4,8]")),
            '{"a":%s,"\\u0061":%s}' % (good, tensor(offsets="[4,8]")),
            '{"__metadata__":{},"__metadata__":{},"a":%s}' % good,
            '{"__metadata__":{"k":"v","k":"v"},"a":%s}' % good,
            '{"__metadata__":{"k":"v","\\u006b":"v"},"a":%s}' % good,
            '{"a":%s}' % tensor(more=',"dtype":"U8"'),
            '{"a":%s}' % tensor(more=',"shape":[4]'),
            '{"a":%s}' % tensor(more=',"data_offsets":[0,4]'),
            '{"a":%s}' % tensor(more=',"x":1,"x":1'),
            '{"a":["U8",[4],[0,4]]}', '{"a":{"dtype":{"U8":null}}}',
            '{"a":{"shape":[4],"data_offsets":[0,4]}}',
            '{"a":{"dtype":"U8","data_offsets":[0,4]}}',
            '{"a":{"dtype":"U8","shape":[4]}}',
            '{"\\ud83d\\ude00":%s}' % good, '{"\\ud83d":%s}' % good,
            '{"\\ude00":%s}' % good, '{"\\ud83d\\ud83d":%s}' % good,
            '{"\\u0000":%s}' % good, '{"\\x41":%s}' % good, '{"":%s}' % good,
            '{"\u20ac":%s}' % good, '{"a\n":%s}' % good, '{"\x7f":%s}' % good,
            " \t\r\n{}\n", '{"a":%s}   ' % good, '\n{"a":%s}' % good):
        for size in (0, 4, 8):
            yield pack(text, size)
    for raw in (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80",
                b"\xe2\x82", b"\x80", b"\xf0\x9f\x98\x80"):
        yield pack(b'{"' + raw + b'":' + good.encode() + b"}", 4)
        yield pack(raw + b"{}", 0)
        yield pack(b"{}" + raw, 0)
    for depth in (1, 28, 29, 30, 31, 32, 33, 100, 1000):
        nested = "[" * depth + "]" * depth
        yield one(tensor(more=',"x":' + nested))
        yield one(tensor(more=',"x":' + "[" * depth))
        yield pack('{"a":' * depth + "{}" + "}" * depth, 0)
    for length in (4095, 4096, 4097, MAX_STRING, MAX_STRING + 1):
        yield pack('{"%s":%s}' % ("n" * length, good), 4)
        yield pack('{"__metadata__":{"k":"%s"}}' % ("v" * length), 0)
    for rank in (0, 1, 31, 32, 33, 300):
        yield one(tensor(shape="[%s]" % ",".join(["1"] * rank),
                         offsets="[0,1]"), 1)


def cuts():
    """A good file cut at every byte, longer by some, and each byte changed."""
    good = pack('{"__metadata__":{"k":"v"},"a":%s,"b":%s}' % (
        tensor(), tensor('"F32"', "[]", "[4,8]")), 8)
    yield good
    for size in range(len(good)):
        yield good[:size]
    for size in (1, 7, 8, 4096):
        yield good + bytes(size)
    for at in range(len(good) - 8):
        for flip in (0x01, 0x20, 0x80):
            yield good[:at] + bytes([good[at] ^ flip]) + good[at + 1:]


# What the package reads and we refuse: what our message has, and the words of
# docs/FORMAT.md that say so.
STRICTER = {
    "a second ": "repeated names, fields or keys of metadata",
    "U+0000": "U+0000 in a string",
    "object of strings as __metadata__": "a `__metadata__` that is null; if it exists, it must be an object of strings",
    "expected an object with dtype": "a tensor must be an object",
    "expected the name of a dtype": "its dtype a string",
    "nested deeper than": "JSON nested more than 32 deep",
    "a number has more than": "a number of more than 64 characters",
    "dimensions": "| dimensions of a tensor | 32 |",
    "a tensor name of": "| tensor name | 4096 bytes |",
    "a string is longer than": "4 MiB per value",
}


def stricter():
    """At least one file for each row of STRICTER."""
    yield pack('{"a":%s,"a":%s}' % (tensor(), tensor()), 4)
    yield pack('{"__metadata__":{"k":"1","k":"2"},"a":%s}' % tensor(), 4)
    yield pack('{"__metadata__":null,"a":%s}' % tensor(), 4)
    yield pack('{"a\\u0000":%s}' % tensor(), 4)
    yield pack('{"a":["U8",[4],[0,4]]}', 4)
    yield one(tensor(dtype='{"U8":null}'))
    yield one(tensor(more=',"x":' + "[" * 40 + "]" * 40))
    yield one(tensor(more=',"x":' + "1" * 80))


def undocumented(text):
    """A file that the package reads: whether FORMAT.md says that we do not."""
    for message, words in STRICTER.items():
        if message in text:
            SEEN.add(message)
            return None if words in FORMAT else "not in FORMAT.md: " + words
    return "the package reads it, and no row of STRICTER says why we do not"


def reference():
    """The package's reader, or None where it is not installed."""
    try:
        import safetensors
    except ImportError:
        return None

    def accepts(data):
        try:
            safetensors.deserialize(data)
            return True
        except safetensors.SafetensorError:
            return False
    return accepts


def run(tool, path):
    """Exit code, processor seconds and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([tool, "verify", path], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=60, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.returncode, seconds, done.stdout.decode(errors="replace")


def judge(tool, path, data, accepts):
    """Returns what is wrong, or None."""
    try:
        check(data)
        good = True
        why = ""
    except Bad as bad:
        good = False
        why = str(bad)
    code, seconds, text = run(tool, path)
    if code not in ((0,) if good else (1, 3, 6)):
        return "exit %d for a %s file (%s): %s" % (
            code, "good" if good else "bad", why, text)
    if seconds > 1:
        return "%.2f s" % seconds
    if not good and not text.strip():
        return "refused without a word"
    if not good and accepts and accepts(data):
        wrong = undocumented(text)
        return wrong and wrong + ": " + text
    if good and accepts and not accepts(data):
        return "the safetensors package refuses what we accept"
    return None


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    accepts = reference()
    files = {}  # in order, each once
    for source in (field_values, dtypes, layouts, structure, cuts, stricter):
        for data in source():
            files[data] = source.__name__
    findings = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.safetensors")
        for data, source in files.items():
            with open(path, "wb") as out:
                out.write(data)
            wrong = judge(sys.argv[1], path, data, accepts)
            if wrong:
                findings += 1
                print("%s %r...: %s" % (source, data[:120], wrong))
    if accepts and SEEN != set(STRICTER):
        findings += 1
        print("no file shows: %s" % (set(STRICTER) - SEEN))
    print("figure: malformed_files_compared %d" % len(files))
    print("%d findings; package safetensors: %s" % (
        findings, "compared" if accepts else "not installed"))
    sys.exit(1 if findings or len(files) < 500 else 0)


if __name__ == "__main__":
    main()
