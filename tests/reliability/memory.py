#!/usr/bin/env python3
"""Memory is bounded: by 64 MiB for every verb, whatever the size of the model,
of its largest tensor, and the number of threads; by 32 MiB for quantize on two
threads, unless its scales are dynamic8; by 256 MiB for a header of 100 MB that
is made to hurt, which takes a second of CPU time in an optimized build, or where
the machine is slower than that, is read in linear time and in no more than three
times what Python's parser takes."""

import argparse
import os
import resource
import shutil
import sys
import time

import common

PEAK_MIB = 64
QUANTIZE_MIB = 32  # on two threads
HOSTILE_MIB = 256
HEADER_BYTES = 100_000_000
# Times what a tenth of a header takes, where quadratic work takes 100; and what
# Python's parser takes for a tenth of one.
LINEAR = 20
PARSERS = 30
ADDRESS_SPACE_MIB = 96  # of one thread: PEAK_MIB, code, libc, stacks


def expect_small(report, label, command, codes=(0, ), limit=PEAK_MIB):
    status, peak, seconds, errors = common.measure(command)
    report.note("%-44s %7.1f MiB %7.1f s" % (label, peak, seconds))
    report.peak = max(report.peak, peak)
    report.check(status in codes, "%s: status %d: %s" %
                 (label, status, errors))
    report.check(peak <= limit, "%s: peak RSS %.1f MiB" % (label, peak))


def all_verbs(options, report, model, folder, label):
    tool = options.tool
    nf4, int8 = folder / "nf4.safetensors", folder / "int8.safetensors"
    back = folder / "back.safetensors"
    again = ["-o", nf4, "--force", "-j", "2"]
    for name, more in (("quantize nf4", ()), ("quantize nf4, search",
                                              ("--search", ))):
        expect_small(report, "%s: %s, 2 threads" % (label, name),
                     [tool, "quantize", model, *more, *again],
                     limit=QUANTIZE_MIB)
    runs = [
        ("quantize nf4, dynamic8",
         ["quantize", model, "--scale", "dynamic8", *again], (0, )),
        ("quantize nf4, dynamic8, blocks of 16", [
            "quantize", model, "--scale", "dynamic8", "--block", "16", *again
        ], (0, )),
        ("verify dynamic8", ["verify", nf4], (0, )),
        ("quantize int8", ["quantize", model, "-e", "int8", "-o", int8], (0, )),
        ("quantize nf4, 256 threads",
         ["quantize", model, "-o", nf4, "--force", "-j", "256"], (0, )),
        ("quantize nf4, dynamic8, 256 threads", [
            "quantize", model, "--scale", "dynamic8", "-o", nf4, "--force",
            "-j", "256"
        ], (0, )),
        ("quantize, keep", [
            "quantize", model, "--nonfinite", "keep", "--block", "16", "-o",
            nf4, "--force"
        ], (0, )),
        ("plan", ["plan", model], (0, )),
        ("verify", ["verify", nf4], (0, )),
        ("diff", ["diff", model, nf4], (0, 1)),
        ("diff, 256 threads", ["diff", model, nf4, "-j", "256"], (0, 1)),
        ("dequantize", ["dequantize", int8, "-o", back], (0, )),
        ("inspect", ["inspect", nf4], (0, )),
    ]
    for name, arguments, codes in runs:
        expect_small(report, "%s: %s" % (label, name), [tool, *arguments],
                     codes)
    for path in (nf4, int8, back):
        common.remove(path)


def short_tier(options, report, folder):
    common.make_model(options.maker, folder / "model", 256, "--shards", "3")
    all_verbs(options, report, folder / "model", folder, "256 MB")
    shutil.rmtree(folder / "model")
    common.make_model(options.maker, folder / "single", 256, "--single-tensor")
    all_verbs(options, report, folder / "single", folder,
              "256 MB in one tensor")
    status = common.run(options.tool, "quantize", folder / "single", "-j", "1",
                        "-o", folder / "q.safetensors",
                        limits=[(resource.RLIMIT_AS,
                                 ADDRESS_SPACE_MIB << 20)])
    report.check(status.returncode == 0,
                 "RLIMIT_AS %d MiB: %s" % (ADDRESS_SPACE_MIB, status.stderr))
    status = common.run(options.tool, "quantize", folder / "single", "-j", "1",
                        "-o", folder / "r.safetensors",
                        limits=[(resource.RLIMIT_AS, 6 << 20)])
    report.check(status.returncode == common.MEMORY,
                 "RLIMIT_AS 6 MiB: status %d: %s" %
                 (status.returncode, status.stderr))
    report.check(not os.path.exists(folder / "r.safetensors")
                 and not common.temporaries(folder.path),
                 "RLIMIT_AS 6 MiB: something is left")


def long_tier(options, report, folder):
    """2.2 GB dense; the rest sparse: what counts is the size."""
    need = 16 << 30
    free = shutil.disk_usage(folder.path).free
    if free < need:
        report.skip("models of 2.2 and 8.8 GB",
                    "%d GiB free, %d needed" % (free >> 30, need >> 30))
        return
    common.make_model(options.maker, folder / "dense", 2200, "--shards", "4")
    all_verbs(options, report, folder / "dense", folder, "2.2 GB")
    shutil.rmtree(folder / "dense")
    sparse = folder / "sparse.safetensors"
    common.sparse_model(sparse, 4096, 16384, 33)
    all_verbs(options, report, sparse, folder, "8.8 GB")
    common.sparse_model(sparse, 134766, 16384, 1)
    all_verbs(options, report, sparse, folder, "8.8 GB in one tensor")
    common.sparse_model(sparse, 2, 1104003072, 1)
    all_verbs(options, report, sparse, folder, "8.8 GB in two rows")


# ---- hostile headers ----------------------------------------------------------


def entry(name, begin=0, end=0, shape="[0]"):
    return ('"%s":{"dtype":"U8","shape":%s,"data_offsets":[%d,%d]}' %
            (name, shape, begin, end)).encode()


def many(size, build, tail):
    """`build(i)` as often as it fits into a header, then `tail`."""
    text = bytearray(b"{")
    i = 0
    while len(text) < size - len(tail) - 100_128:
        text += b",".join(build(i + k) for k in range(1000)) + b","
        i += 1000
    text += tail
    return bytes(text)


HOSTILE = {
    "white space":
    lambda size: b"{" + b" " * (size - 2) + b"]",
    "one endless name":
    lambda size: b'{"' + b"a" * (size - 3) + b'"',
    "escapes":
    lambda size: b'{"' + b"\\u0041" * (size // 6 - 2),
    "nesting":
    lambda size: b'{"a":' + b"[" * (size - 6),
    "nesting of objects":
    lambda size: b'{"a":' * (size // 5),
    "an endless number":
    lambda size: b'{"a":{"dtype":"U8","shape":[' + b"1" * (size - 100),
    "an endless shape":
    lambda size: b'{"a":{"dtype":"U8","shape":[' + b"1," * (size // 2 - 50),
    "millions of tensors, then a repeated name":
    lambda size: many(size, lambda i: entry("%x" % i), entry("0") + b"}"),
    "millions of tensors, then an overlap":
    lambda size: many(size, lambda i: entry("%x" % i),
                      entry("z", 1, 2, "[1]") + b"}"),
    "millions of tensors, then no end":
    lambda size: many(size, lambda i: entry("%x" % i), b'"'),
    "one name millions of times":
    lambda size: many(size, lambda i: entry("a"), entry("a") + b"}"),
    "millions of unknown fields":
    lambda size: b'{"a":{' + b'"x":0,' * (size // 6 - 20),
    "endless metadata":
    lambda size: b'{"__metadata__":{' + b",".join(b'"%x":""' % i
                                                 for i in range(size * 2 // 25)),
}


def write_hostile(path, build, size):
    """In a process of its own: what this one has in memory when it starts the
    tool counts as the tool's peak."""
    child = os.fork()
    if child == 0:
        header = build(size)
        with open(path, "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
        os._exit(0)
    os.waitpid(child, 0)
    return os.path.getsize(path) - 8


# In a process of its own, as the tool is (write_hostile).
PARSER = (sys.executable, "-c", "import json; json.loads('{\"%%s\": [0, 1]}' %%"
          " ('a\": [0, 1], \"a' * %d))" % (HEADER_BYTES // 10 // 14))


def measure_linear(tool, verb, whole, tenth, seconds):
    """The last of up to five runs on `whole`, and the CPU time it may take:
    `seconds`, or what `tenth` and the parser, run in the same moment, say of
    the machine and of what runs beside."""
    for _ in range(5):
        linear = LINEAR * common.measure([tool, verb, tenth])[2]
        limit = max(seconds, min(linear, PARSERS * common.measure(PARSER)[2]))
        result = common.measure([tool, verb, whole])
        if result[2] < limit:
            break
        time.sleep(1)
    return *result, limit


def hostile(options, report, folder):
    path, tenth = folder / "hostile.safetensors", folder / "tenth.safetensors"
    for name, build in HOSTILE.items():
        size = write_hostile(path, build, HEADER_BYTES)
        write_hostile(tenth, build, HEADER_BYTES // 10)
        report.check(HEADER_BYTES // 2 < size <= HEADER_BYTES,
                     "%s: the header has %d bytes" % (name, size))
        for verb in ("inspect", "verify"):
            status, peak, seconds, errors, limit = measure_linear(
                options.tool, verb, path, tenth, options.seconds)
            report.note("%-44s %7.1f MiB %5.2f of %.2f s  %s" %
                        (name + " (%d MB)" % (size // 1_000_000), peak,
                         seconds, limit, errors.strip().splitlines()[-1][-90:]
                         if errors.strip() else ""))
            report.peak = max(report.peak, peak)
            report.seconds = max(report.seconds, seconds)
            wanted = common.INPUT if verb == "inspect" else common.DIFFERENT
            report.check(status == wanted, "%s: %s status %d" %
                         (name, verb, status))
            report.check(peak <= HOSTILE_MIB, "%s: %.1f MiB" % (name, peak))
            report.check(seconds < limit, "%s: %.2f s" % (name, seconds))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--maker", required=True)
    parser.add_argument("--test", choices=("short", "long", "hostile"),
                        default="short")
    parser.add_argument("--seconds", type=float, default=1.0,
                        help="CPU time that a hostile header may take")
    options = parser.parse_args()
    report = common.Report()
    report.peak = report.seconds = 0.0  # the most of all runs
    tests = {"short": short_tier, "long": long_tier, "hostile": hostile}
    with common.Folder() as folder:
        tests[options.test](options, report, folder)
    report.figure("most_memory_mib", "%.1f" % report.peak)
    if options.test == "hostile":
        report.figure("hostile_headers", len(HOSTILE))
        report.figure("most_cpu_seconds", "%.2f" % report.seconds)
    common.finish(report)


if __name__ == "__main__":
    main()
