#!/usr/bin/env python3
"""The time that the check of packed tensors takes while they are copied: a
packed file, and one of as many bytes in as many tensors that need no check."""

import argparse
import json
import os
import tempfile

import common

ELEMENTS = 1 << 28
REPEAT = 5
MOST, SLACK = 4, .5  # times the copy without a check, seconds of a busy machine
KINDS = (("nf4_16", ("nf4", "--block", "16")), ("fp8", ("fp8", )),
         ("ternary", ("ternary", )))


def header_of(path):
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        return json.loads(file.read(size)), size


def unpacked_copy(packed, path):
    """The same bytes under names that say nothing of packing."""
    header, size = header_of(packed)
    header.pop("__metadata__", None)
    plain = {}
    for i, entry in enumerate(sorted(header.values(),
                                     key=lambda e: e["data_offsets"])):
        first, end = entry["data_offsets"]
        plain["bytes.%d" % i] = {"dtype": "U8", "shape": [end - first],
                                 "data_offsets": [first, end]}
    text = json.dumps(plain).encode()
    text += b" " * (-len(text) % 64)
    with open(packed, "rb") as source, open(path, "wb") as file:
        source.seek(8 + size)
        file.write(len(text).to_bytes(8, "little") + text)
        while part := source.read(1 << 24):
            file.write(part)


def copy_seconds(options, report, sources, output, threads):
    """Of each source the least of some runs, one after the other, without the
    waits for the disk."""
    best = [float("inf")] * len(sources)
    for _ in range(REPEAT):
        for i, source in enumerate(sources):
            result = common.run(options.tool, "quantize", source, "-o", output,
                                "--force", "--json", "-j", str(threads))
            if not report.check(result.returncode == 0, result.stderr):
                continue
            summary = json.loads(result.stdout)["summary"]
            report.check(summary["changed"] == 0, source + ": changed")
            best[i] = min(best[i], summary["seconds"] - summary["sync_seconds"])
    return best


def measure(options, report, folder):
    model, output = folder + "/model.safetensors", folder + "/out.safetensors"
    packed, plain = folder + "/packed.safetensors", folder + "/plain.safetensors"
    common.make_model(options.maker, model, ELEMENTS * 4 // 1_000_000,
                      "--single-tensor")
    for name, words in KINDS:
        result = common.run(options.tool, "quantize", model, "-o", packed,
                            "--force", "-e", *words)
        report.check(result.returncode == 0, result.stderr)
        unpacked_copy(packed, plain)
        for threads in (1, 2):
            checked, alone = copy_seconds(options, report, (packed, plain),
                                          output, threads)
            what = "copy_%s_threads_%d_seconds" % (name, threads)
            report.figure(what, "%.3f" % checked)
            report.figure("unchecked_" + what, "%.3f" % alone)
            report.check(checked <= MOST * alone + SLACK, "%s: %.3f s, unchecked "
                         "%.3f" % (what, checked, alone))
    report.figure("copied_elements", ELEMENTS)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--maker", required=True)
    options = parser.parse_args()
    report = common.Report()
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    if place and os.statvfs(place).f_bavail * os.statvfs(place).f_frsize < 3 << 30:
        place = None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        measure(options, report, folder)
    common.finish(report)


if __name__ == "__main__":
    main()
