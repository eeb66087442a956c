#!/usr/bin/env python3
"""Memory that ends at any one call of the tool, or from there on: the output is
complete, or the exit status is 4 or 5, with a message that speaks of memory and,
under --json, a whole document with the error in it."""

import argparse
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

import common
from slices import SLICES, slice_number

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                      "../cli/make_models.py")
# Times, speeds and peaks are of the run.
CHANGING = re.compile(
    rb'(?<="seconds": )\S+|(?<="sync_seconds": )\S+|(?<="gb_per_s": )\S+|'
    rb'(?<="peak_rss_bytes": )\d+|(?<="free_bytes": )\d+|, \d.*peak memory .*')


def commands(folder):
    """What is run, and the output that it makes or None. Each output has a
    folder of its own."""
    data, long_names = folder / "data", folder / "long.safetensors"
    numbers = iter(range(100))

    def fresh(name):
        own = folder / ("own%d" % next(numbers))
        os.mkdir(own)
        return os.path.join(own, name)

    f32 = os.path.join(data, "f32.safetensors")
    bad = os.path.join(data, "bad")
    sharded, names, hf = (os.path.join(data, name) for name in
                          ("sharded", "names.safetensors", "hf"))
    yield from (([*words], None) for words in (
        ("--help", ), ("--version", ), ("--help", "--json"),
        ("--version", "--json"), ("quantize", "--help"),
        ("quantize", "--help", "--json"), ("nonsense", ),
        ("inspect", f32, "--nonsense", "--json")))
    for model in (f32, sharded, names, long_names, hf,
                  os.path.join(bad, "hole.safetensors")):
        for verb in ("inspect", "plan", "verify"):
            yield [verb, model], None
            yield [verb, model, "--json"], None
    for more in ([], ["--json"]):
        for words in (["inspect", names, "-v"],
                      ["inspect", f32, "--tensor", "no such"],
                      ["plan", f32, "--only", "weight", "--skip", "k_proj|^b",
                       "--rule", "q_proj=int8", "--rule", "nothing=fp8"],
                      ["plan", hf, "-v", "-o", fresh("out")],
                      ["diff", f32, f32], ["diff", f32, sharded],
                      ["diff", f32, os.path.join(data, "bf16.safetensors")],
                      ["verify", f32, sharded, names]):
            yield words + more, None
        for words, name in ((["quantize", f32], "out.safetensors"),
                            (["quantize", f32, "--only", "[qd].*_proj",
                              "--rule", "q_proj=int8"], "out.safetensors"),
                            (["quantize", hf], "out"),
                            (["dequantize", folder / "packed"],
                             "out.safetensors")):
            output = fresh(name)
            yield [*words, "-o", output, *more], output


def run(options, words, mark=None, at=0, count=""):
    environment = dict(os.environ, LC_ALL="C")
    if mark:
        # a blank would end a path in LD_PRELOAD, but not in the other
        environment.update(LD_PRELOAD=os.path.basename(options.shim),
                           LD_LIBRARY_PATH=os.path.dirname(options.shim),
                           NABLA_FAIL_AT=str(at),
                           NABLA_FAIL_MARK=mark)
        if count:
            environment["NABLA_FAIL_COUNT"] = count
    return subprocess.run([options.tool, *words], env=environment, check=False,
                          stdin=subprocess.DEVNULL, capture_output=True)


def is_whole(result, wanted):
    """Notes may be left out, others may not be made."""
    notes = set(wanted.stderr.splitlines())
    return (result.returncode == wanted.returncode
            and notes.issuperset(result.stderr.splitlines())
            and CHANGING.sub(b"", result.stdout) == CHANGING.sub(
                b"", wanted.stdout))


def dies_in_regcomp(result, words):
    """glibc 2.36's regcomp frees a block twice where memory ends within some
    alternations with anchors."""
    return ("--skip" in words and result.returncode == -signal.SIGABRT
            and result.stderr == b"free(): double free detected in tcache 2\n")


def check_error(report, label, result, words):
    report.check(result.returncode in (common.IO, common.MEMORY),
                 "%s: exit status %d: %s" %
                 (label, result.returncode, result.stderr.decode()))
    report.check(re.search(rb"nabla-quant: .*(memory|allocate|start thread)", result.stderr),
                 "%s: says %s" % (label, result.stderr))
    if "--json" not in words:
        return
    try:
        document = json.loads(result.stdout)
        good = document["error"]["exit"] == result.returncode
    except (ValueError, KeyError):
        good = False
    report.check(good, "%s: the document is %s" % (label, result.stdout[-200:]))


def check_output(report, label, result, output, good):
    left = common.temporaries(os.path.dirname(output))
    report.check(not left, "%s: left %s" % (label, left))
    if not os.path.lexists(output):
        report.check(result.returncode != 0, label + ": no output")
        return
    report.check(common.same(output, good), label + ": other bytes")
    report.check(result.returncode == 0 or b"in place" in result.stderr,
                 "%s: does not say that the output is there: %s" %
                 (label, result.stderr))
    common.remove(output)


def fail_everywhere(options, report, start, words, output):
    """Returns how many calls failed."""
    wanted = run(options, words)
    folder = os.path.dirname(output) if output else tempfile.mkdtemp(
        dir=options.folder)
    good, mark = os.path.join(folder, "good"), os.path.join(folder, "mark")
    failed = 0
    if output:
        os.rename(output, good)
    for count in ("1", ""):
        at = start
        while True:
            result = run(options, words, mark, at, count)
            if not os.path.exists(mark):
                break
            os.unlink(mark)
            label = "%s, call %d%s" % (" ".join(words), at,
                                       "" if count else " and all that follow")
            if dies_in_regcomp(result, words):
                report.regcomp += 1
            elif not is_whole(result, wanted):
                check_error(report, label, result, words)
            if output:
                check_output(report, label, result, output, good)
            failed += 1
            at += options.step
        report.check(is_whole(result, wanted), "%s: no call %d: %s" %
                     (" ".join(words), at, result))
        if output:
            common.remove(output)
    return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--maker", required=True)
    parser.add_argument("--shim", required=True)
    parser.add_argument("--step", type=int,
                        help="only each so many-th call fails; without it, those"
                        " of NABLA_TEST_SLICE, or all")
    options = parser.parse_args()
    turn = 0
    if not options.step:
        options.step = 1
        if slice_number() not in (None, "all"):
            options.step, turn = SLICES, slice_number()
    report = common.Report()
    report.regcomp = 0
    with common.Folder() as folder:
        subprocess.run([sys.executable, MODELS, folder / "data"], check=True)
        common.named_model(folder / "long.safetensors",
                           ["%s%d" % (4000 * "n", i) for i in range(9)])
        common.run(options.tool, "quantize", os.path.join(folder / "data", "hf"),
                   "-o", folder / "packed")
        options.folder = folder.path
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            failures = list(pool.map(
                lambda each: fail_everywhere(
                    options, report, 1 + (each[0] + turn) % options.step,
                    *each[1]),
                enumerate(commands(folder))))
    failed = sum(failures)
    report.check(failed > 500, "%d failures: is the library there?" % failed)
    report.figure("commands", len(failures))
    report.figure("failed_allocations", failed)
    report.figure("failed_allocations_in_glibc_regcomp", report.regcomp)
    common.finish(report)


if __name__ == "__main__":
    main()
