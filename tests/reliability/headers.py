#!/usr/bin/env python3
"""Valid headers that are made to hurt: as many tensors without data as fit. Each
verb takes at most 4 times the input and 64 MiB of memory, and for a header of
100 MB a second of CPU time (verify, plan) or four (all others); for a smaller
one the time, and the 64 MiB down to 20, are that much less. Every tensor stands
in what it prints or writes. A machine that is busy, or slower than that, gets the
time by which Python's parser is slower."""

import argparse
import os
import re
import sys
import tempfile
import time

import common

WHOLE = 100_000_000  # bytes of the largest header that the format allows
MEMORY_TIMES, MEMORY_MIB = 4, 64
LEAST_MIB = 20  # of a small header
FAST, SLOW = 1.0, 4.0  # seconds for a header of 100 MB
START = 0.05  # seconds that a process takes for nothing
BUSY = 1.5  # times: a core that another process shares is slower than that says
# It parses 10 MB in PARSER_SECONDS on the machine that the limits are for.
PARSER = (sys.executable, "-c", "import json; json.loads('{\"%s\": [0, 1]}' %"
          " ('a\": [0, 1], \"a' * 714285))")
PARSER_SECONDS = 0.2


def entry(name, shape, dtype="F32"):
    return '"%s":{"dtype":"%s","shape":%s,"data_offsets":[0,0]}' % (name, dtype,
                                                                   shape)


# What a tensor is, from its number: the shortest; kept for their size; names
# that are long; shapes and dtypes that no two neighbours share; spaces and the
# keys in another order, as other writers have them.
KINDS = {
    "short names":
    lambda i: entry("%x" % i, "[0,1]"),
    "weights":
    lambda i: entry("%x.weight" % i, "[0,64]"),
    "long names":
    lambda i: entry("%s%d.weight" % ("n" * 900, i), "[0,64]"),
    "shapes":
    lambda i: entry("%x" % i, "[0,%d]" % i, ("F32", "F16", "I64")[i % 3]),
    "escaped names":
    lambda i: entry("\\u00e9\\n%x" % i, "[1,0]"),
    "spaces":
    lambda i:
    '"%x": {"shape": [0 , 2], "data_offsets": [ 0, 0], "dtype": "BF16"}' % i,
}


MOST = "short names"  # the most tensors


def write_header(path, kind, size):
    """In a process of its own: what this one has in memory when it starts the
    tool counts as the tool's peak. Gives the number of tensors."""
    build, count = KINDS[kind], 0
    child = os.fork()
    if child == 0:
        with open(path, "wb") as file:
            file.write(bytes(8) + b"{")
            at = 1
            while True:
                piece = (build(count) if count == 0 else "," +
                         build(count)).encode()
                if at + len(piece) + 1 > size:
                    break
                file.write(piece)
                at += len(piece)
                count += 1
            file.write(b"}")
            file.seek(0)
            file.write((at + 1).to_bytes(8, "little"))
        os._exit(0)
    os.waitpid(child, 0)
    length = os.path.getsize(path)
    return length, count_in(path, b'"dtype"')


def count_in(path, text):
    """How often a text occurs in a file that may be larger than memory."""
    count, rest = 0, b""
    with open(path, "rb") as file:
        while True:
            piece = file.read(1 << 20)
            if not piece:
                return count
            rest += piece
            count += rest.count(text)
            keep = len(text) - 1
            rest = rest[len(rest) - keep:] if keep else b""


def lines_of(path):
    return count_in(path, b"\n")


def tail_of(path, size=2000):
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - size))
        return file.read().decode(errors="replace")


def says(pattern):
    """A check: the count that the end of the output names."""

    def check(output, count):
        found = re.search(pattern, tail_of(output))
        return found is not None and int(found.group(1)) == count

    return check


def rows(more, pattern):
    """A check: a line for each tensor, `more` others, and the count."""
    return lambda output, count: (lines_of(output) == count + more and says(
        pattern)(output, count))


def json_rows(pattern):
    return lambda output, count: (count_in(output, b'"name": ') == count and
                                  lines_of(output) == 1 and says(pattern)
                                  (output, count))


def verbs(tool, model, written):
    """(name, seconds, arguments, check of the output, file that is written)"""
    out = ["-o", written, "--force"]
    return (
        ("verify", FAST, ["verify", model], says(r"ok, (\d+) tensors"), None),
        ("verify --json", FAST, ["verify", "--json", model],
         says(r'"tensors": (\d+)'), None),
        ("plan", FAST, ["plan", model], rows(3, r"0 of (\d+) tensors"), None),
        ("plan --json", SLOW, ["plan", "--json", model],
         json_rows(r'"totals": {"tensors": (\d+)'), None),
        ("inspect", SLOW, ["inspect", model], rows(5, r"\n(\d+) tensors"),
         None),
        ("inspect --json", SLOW, ["inspect", "--json", model],
         lambda output, count: count_in(output, b'"elements": ') == count,
         None),
        ("diff", SLOW, ["diff", model, model],
         rows(3, r"\n(\d+) tensors, \1 equal"), None),
        ("diff --json", SLOW, ["diff", "--json", model, model],
         json_rows(r'"summary": {"tensors": (\d+), "equal": \1,'), None),
        ("quantize", SLOW, ["quantize", model, *out], None, written),
        ("quantize --json", SLOW, ["quantize", "--json", model, *out],
         says(r'"tensors": (\d+), "changed": 0'), written),
        ("dequantize", SLOW, ["dequantize", model, *out], None, written),
    )


def slowness():
    """How many times slower than the machine of the limits this one is now."""
    return max(1.0, common.measure(PARSER)[2] / PARSER_SECONDS)


def run(tool, verb, share, output):
    """The last of up to five runs, and the CPU time that it may take."""
    for _ in range(5):
        limit = START + verb[1] * share
        result = common.measure([tool, *verb[2]], output)
        if result[2] <= limit:
            break
        limit *= BUSY * slowness()
        if result[2] <= limit:
            break
        time.sleep(1)
    return *result, limit


def check_kind(options, report, folder, kind, size):
    model = folder / "model.safetensors"
    written = folder / "written.safetensors"
    length, count = write_header(model, kind, size)
    share = length / WHOLE
    most = MEMORY_TIMES * length / (1 << 20) + max(LEAST_MIB,
                                                   MEMORY_MIB * share)
    for verb in verbs(options.tool, model, written):
        name, _, _, check, product = verb
        label = "%s, %s" % (kind, name)
        with tempfile.NamedTemporaryFile(dir=folder.path) as output:
            status, peak, seconds, errors, limit = run(options.tool, verb,
                                                       share, output)
            report.note("%-32s %8d tensors %6.1f of %.1f MiB %5.2f of %.2f s" %
                        (label, count, peak, most, seconds, limit))
            if length > WHOLE - 10_000 and kind == MOST:
                for what, value in (("mib", "%.0f" % peak),
                                    ("cpu_seconds", "%.2f" % seconds)):
                    report.figure("%s_%s" % (name.replace(" --", "_"), what),
                                  value)
            report.check(status == 0, "%s: status %d: %s" %
                         (label, status, errors))
            report.check(peak <= most, "%s: %.1f MiB" % (label, peak))
            report.check(seconds <= limit, "%s: %.2f s" % (label, seconds))
            if check:
                report.check(check(output.name, count),
                             "%s: not every tensor is in the output: %s" %
                             (label, tail_of(output.name)[-300:]))
        if product:
            report.check(count_in(product, b'"dtype"') == count,
                         "%s: not every tensor was written" % label)
            common.remove(product)
    common.remove(model)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--maker", help="not needed")
    parser.add_argument("--megabytes", type=int, default=20,
                        help="of each header but that of short names")
    parser.add_argument("--most", type=int, default=100,
                        help="megabytes of the header of short names")
    parser.add_argument("--kind", choices=KINDS, action="append")
    options = parser.parse_args()
    report = common.Report()
    with common.Folder() as folder:
        for kind in options.kind or KINDS:
            # where memory beyond the 64 MiB counts, and one header reaches the
            # limit of the format in the tier long
            size = options.most if kind == MOST else options.megabytes
            check_kind(options, report, folder, kind,
                       min(size * 1_000_000, WHOLE - 1000))
    common.finish(report)


if __name__ == "__main__":
    main()
