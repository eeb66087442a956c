#!/usr/bin/env python3
"""Tokens per second of a decoder that is divided over two ranks, in turns with the
same decoder on one device with two threads: examples/llama --mesh model=2, with ranks
as threads, and as processes of each MPI that is installed.

usage: decoder_ranks.py FOLDER_OF_TOOLS [--model FOLDER] [--encoding NAME]...
                        [--count N] [--turns N]

Without --model it is the synthetic Llama of make_checkpoint, of 400 MB in bf16.
Prints medians over the turns, and the load of the machine.
"""
import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

SETTINGS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1"}


def ways():
    """Name, what starts the program, and its options."""
    out = [("two threads", [], ["-j", "2"]), ("two ranks, threads", [], ["--mesh", "model=2"])]
    for mpi in ("openmpi", "mpich"):
        if shutil.which("mpirun." + mpi):
            out.append(("two ranks, " + mpi, ["mpirun." + mpi, "-n", "2"],
                        ["--mesh", "model=2"]))
    return out


def measure(a, start, options, encoding, cache):
    command = start + [os.path.join(a.tools, "llama"), a.model, "--ids", "1,5,9,20",
                       "-n", str(a.count), "--stats", "--cache", cache] + options
    if encoding != "none":
        command += ["--encoding", encoding]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env=dict(os.environ, **SETTINGS))
    found = re.search(r"^generation .* ([0-9.]+) tokens/s", done.stderr, re.M)
    if done.returncode or not found:
        sys.exit("%s\n%s" % (" ".join(command), done.stderr))
    return float(found.group(1))


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    p.add_argument("tools")
    p.add_argument("--model")
    p.add_argument("--encoding", action="append")
    p.add_argument("--count", type=int, default=64)
    p.add_argument("--turns", type=int, default=5)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not a.model:
            a.model = os.path.join(folder, "model")
            subprocess.run([os.path.join(a.tools, "make_checkpoint"), "--out", a.model,
                            "--megabytes", "400", "--llama"],
                           check=True, stdout=subprocess.DEVNULL)
        cache = os.path.join(folder, "cache")
        for encoding in a.encoding or ["none", "nf4", "q4_0", "int8"]:
            rates = {name: [] for name, _, _ in ways()}
            for turn in range(a.turns + 1):  # the first one compiles
                for name, start, options in ways():
                    rate = measure(a, start, options, encoding, cache)
                    if turn:
                        rates[name].append(rate)
            alone = statistics.median(rates["two threads"])
            for name, found in rates.items():
                rate = statistics.median(found)
                print("%-6s %-20s %7.1f tokens/s  %.2f" % (encoding, name, rate,
                                                           rate / alone), flush=True)
    print("load %.1f %.1f %.1f on %d CPUs" % (os.getloadavg() + (os.cpu_count(),)))


if __name__ == "__main__":
    main()
