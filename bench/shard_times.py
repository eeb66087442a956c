#!/usr/bin/env python3
"""Step times that nabla-auto-shard predicts, beside measured ones: three layouts of
a feed-forward network of four products on 2 ranks of threads. The machine is
calibrated first, in the same run: exchanges by nabla-bench collectives, products by
one layer that exchanges nothing.

usage: shard_times.py FOLDER_OF_TOOLS [--rows N] [--width N] [--hidden N]
                      [--turns N] [--repeat N]

A turn measures the calibration and every layout once, each as the median of its
repetitions; what is printed are medians over all turns, and the fastest turns, which
other work on the machine disturbs less. Predictions by the fastest calibration stand
beside the fastest measurement. Exit 1 if a ratio of medians is beyond 25 %.
"""
import argparse
import array
import json
import math
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile

MESH = "nabla.mesh @m <[\"model\"=2]>\n"
ROWS, COLUMNS, WHOLE = '[{"model"}, {}]', '[{}, {"model"}]', "[{}, {}]"
MANY = 256  # rows, of which the time is that of computing
# divisions of x, of what is between the products, of the first and the second weight
LAYOUTS = {
    "data parallel": (ROWS, ROWS, WHOLE, WHOLE),
    "Megatron": (WHOLE, COLUMNS, ROWS, COLUMNS),
    "weights gathered": (ROWS, ROWS, ROWS, ROWS),
}


def program(a, layout):
    x, between, up, down = ["#nabla.sharding<@m, %s>" % s for s in layout]
    t = {"X": "tensor<%dx%dxf32>" % (a.rows, a.width),
         "H": "tensor<%dx%dxf32>" % (a.rows, a.hidden),
         "U": "tensor<%dx%dxf32>" % (a.hidden, a.width),
         "D": "tensor<%dx%dxf32>" % (a.width, a.hidden)}
    out = ["func.func @f(%%x0: %s {nabla.sharding = %s}," % (t["X"], x)]
    for i in range(2):
        out.append('  %%u%d: %s {nabla.name = "u%d", nabla.sharding = %s},'
                   % (i, t["U"], i, up))
        out.append('  %%d%d: %s {nabla.name = "d%d", nabla.sharding = %s}%s'
                   % (i, t["D"], i, down, ")" if i else ","))
    out[-1] += " -> %s {" % t["X"]
    for i in range(2):
        w = ""
        if layout == LAYOUTS["weights gathered"]:
            w = "w"
            out += ["  %%w%s%d = nabla.reshard %%%s%d : %s sharding = #nabla.sharding<@m, "
                    "%s>" % (n, i, n, i, t[n.upper()], WHOLE) for n in "ud"]
        out += ["  %%a%d = nabla.linear %%x%d, %%%su%d : %s, %s" % (
                    i, i, w, i, t["X"], t["U"]),
                "  %%b%d = nabla.sharding_constraint %%a%d : %s sharding = %s" % (
                    i, i, t["H"], between),
                "  %%c%d = nabla.relu %%b%d : %s" % (i, i, t["H"]),
                "  %%x%d = nabla.linear %%c%d, %%%sd%d : %s, %s" % (
                    i + 1, i, w, i, t["H"], t["D"])]
    return MESH + "\n".join(out) + "\n  return %%x2 : %s\n}\n" % t["X"]


def calibration(a):
    """A product of many rows."""
    rows = max(a.rows, MANY)
    x, u = "tensor<%dx%dxf32>" % (rows, a.width), "tensor<%dx%dxf32>" % (a.hidden, a.width)
    y = "tensor<%dx%dxf32>" % (rows, a.hidden)
    return MESH + (
        "func.func @f(%%x0: %s {nabla.sharding = #nabla.sharding<@m, %s>},\n"
        '  %%u0: %s {nabla.name = "u0"}) -> %s {\n'
        "  %%y = nabla.linear %%x0, %%u0 : %s, %s\n  return %%y : %s\n}\n"
        % (x, ROWS, u, y, x, u, y))


def checkpoint(path, a):
    """A file of weights."""
    values = array.array("f", [random.gauss(0, .02) for _ in range(4096)])
    size = a.width * a.hidden
    data = (values * (size // len(values) + 1))[:size].tobytes()
    head, at = {}, 0
    for name, shape in (("u0", (a.hidden, a.width)), ("d0", (a.width, a.hidden)),
                        ("u1", (a.hidden, a.width)), ("d1", (a.width, a.hidden))):
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + 4 * size]}
        at += 4 * size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + 4 * data)


class Bench:
    def __init__(self, a, folder):
        self.a, self.folder = a, folder
        checkpoint(self.path("w.safetensors"), a)

    def path(self, name):
        return os.path.join(self.folder, name)

    def tool(self, name, *words):
        done = subprocess.run([os.path.join(self.a.tools, name), *words],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit("%s: %s" % (name, done.stderr))
        return done.stdout

    def compile(self, name, text, solves, *words):
        source, divided = self.path(name + ".mlir"), self.path(name + ".divided.mlir")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        if solves:
            self.tool("nabla-opt", source, "--nabla-auto-shard", "-o", divided)
        self.tool("nabla-compile", divided if solves else source, "-o",
                  self.path(name + ".so"), *words)

    def predict(self, name, rate):
        """Seconds and bytes, with `rate` operations per second."""
        with open(self.path("machine.json"), encoding="utf-8") as file:
            machine = json.load(file)
        machine["operations_per_second"] = rate
        with open(self.path("rated.json"), "w", encoding="utf-8") as file:
            json.dump(machine, file)
        self.tool("nabla-opt", self.path(name + ".mlir"), "-o", self.path("none.mlir"),
                  "--nabla-auto-shard=machine=%s dump=%s" % (
                      self.path("rated.json"), self.path("plan.json")))
        with open(self.path("plan.json"), encoding="utf-8") as file:
            plan = json.load(file)["functions"][0]
        return plan["seconds"], plan["bytes_exchanged"]

    def seconds(self, name):
        rows = max(self.a.rows, MANY) if name == "calibration" else self.a.rows
        out = self.tool("nabla-run", self.path(name + ".so"), "--ranks", "2", "-j", "2",
                        "-i", "0=random:%dx%d" % (rows, self.a.width), "--bind-all",
                        self.path("w.safetensors"), "--time", "--json",
                        "--repeat", str(self.a.repeat))
        return json.loads(out)["run_ms"] / 1e3

    def run(self):
        a = self.a
        self.compile("calibration", calibration(a), False, "--results", "divided")
        for name, layout in LAYOUTS.items():
            self.compile(name, program(a, layout), True)
        times = {name: [] for name in ("calibration", *LAYOUTS)}
        machines = []
        for _ in range(a.turns):
            self.tool("nabla-bench", "collectives", "--mesh", "model=2", "--machine",
                      self.path("machine.json"))
            with open(self.path("machine.json"), encoding="utf-8") as file:
                machines.append(json.load(file))
            names = list(times)
            random.shuffle(names)
            for name in names:
                times[name].append(self.seconds(name))
        rows = max(a.rows, MANY) // 2
        operations = 2 * rows * a.width * a.hidden
        moved = 4 * (rows * (a.width + a.hidden) + a.width * a.hidden)
        good = True
        for what, pick in (("medians", statistics.median), ("fastest", min)):
            slow = max if pick is min else pick
            moving = moved / slow(m["bytes_per_second"] for m in machines)
            rate = operations / math.sqrt(
                max(pick(times["calibration"]) ** 2 - moving ** 2, 1e-12))
            self.write_machine(machines, pick)
            print("%s: %.1f Gop/s in products" % (what, rate / 1e9))
            for name in LAYOUTS:
                predicted, exchanged = self.predict(name, rate)
                measured = pick(times[name])
                ratio = predicted / measured
                near = .75 <= ratio <= 1.25
                good = good and (near or what != "medians")
                print("  %-17s %9d bytes, predicted %8.3f ms, measured %8.3f ms, "
                      "ratio %.2f%s" % (name, exchanged, 1e3 * predicted, 1e3 * measured,
                                        ratio, "" if near else "  BEYOND"))
        print("load %s on %d CPUs" % (" ".join("%.1f" % x for x in os.getloadavg()),
                                      os.cpu_count()))
        return good

    def write_machine(self, machines, pick):
        """One file of all turns."""
        slow = max if pick is min else pick
        axis = {"name": "model",
                "bandwidth": slow(m["axes"][0]["bandwidth"] for m in machines),
                "latency": pick(m["axes"][0]["latency"] for m in machines)}
        with open(self.path("machine.json"), "w", encoding="utf-8") as file:
            json.dump({"schema": "nabla-machine/1", "axes": [axis],
                       "operations_per_second": 1,
                       "bytes_per_second": slow(m["bytes_per_second"]
                                                for m in machines)}, file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tools")
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--repeat", type=int, default=9)
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(0 if Bench(parser.parse_args(), folder).run() else 1)


if __name__ == "__main__":
    main()
