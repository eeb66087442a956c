"""nabla-auto-shard on random programs: what it says is the least cost is that of all
solutions, one by one, with and without a limit of memory; and the bytes that it
predicts are those of the collectives of the partitioned program. Dumps are checked
against their schema.

usage: auto_shard.py NABLA_RUN NABLA_OPT PROGRAMS
NABLA_TEST_SEED, which is printed, draws other programs."""
import copy
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import numpy as np

from sharded_ops import MESHES
from sharded_programs import Program

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
import check_json

with open(os.path.join(check_json.SCHEMAS, "nabla-shard-plan-1.json"),
          encoding="utf-8") as schema:
    SCHEMA = json.load(schema)
MOST = 1 << 21  # solutions that are tried one by one
GROUP = 25  # functions of a module
FEW = 4  # of those that have one limit of memory

COLLECTIVE = re.compile(
    r"nabla\.(all_reduce|all_gather|reduce_scatter|all_to_all) .*axes = \[(.*?)\] : "
    r"tensor<(.*?)>(?: -> tensor<(.*?)>)?$")
AXIS = re.compile(r'"(\w+)(?::\(\d+\)(\d+))?"')
ROUNDS = re.compile(r"nabla\.scan .*over\([^:]*: tensor<(\d+)x")
WIDTHS = {"f32": 4, "i64": 8, "i32": 4, "i1": 1}


def size(text):
    *dims, kind = text.split("x")
    return int(np.prod([int(d) for d in dims], dtype=int)), WIDTHS[kind]


def received(line, mesh):
    """Bytes that the first device receives, as a ring counts them."""
    found = COLLECTIVE.search(line)
    if not found:
        return 0
    name, axes, before, after = found.groups()
    n = 1
    for axis, part in AXIS.findall(axes):
        n *= int(part) if part else mesh[axis]
    count, width = size(before)
    if name == "all_reduce":
        return 2 * (n - 1) * (count // n) * width
    if name == "all_gather":
        return (n - 1) * count * width
    if name == "reduce_scatter":
        return (n - 1) * size(after)[0] * width
    return (n - 1) * (count // n) * width


def received_in(body, mesh):
    """The same of a function; of the bodies of its scans as often as they are run."""
    total, rounds = 0, []
    for line in body.split("\n"):
        total += received(line, mesh) * int(np.prod(rounds, dtype=int))
        if ROUNDS.search(line):
            rounds.append(int(ROUNDS.search(line).group(1)))
        elif line.strip().startswith("}") and rounds:
            rounds.pop()
    return total


def along(values, axes, rank):
    """An array of costs as one of all nodes."""
    shape = [1] * rank
    for axis, length in zip(axes, np.shape(values)):
        shape[axis] = length
    return np.reshape(values if axes == sorted(axes) else np.transpose(values), shape)


def counts_of(function, most=MOST):
    """The numbers of choices; None: too many solutions."""
    counts = [len(n["choices"]) for n in function["nodes"]]
    return None if len(counts) > 30 or np.prod([float(c) for c in counts]) > most \
        else counts


def peaks(function, counts):
    """The bytes of all solutions, each of the moment that has most."""
    most = np.zeros(counts)
    for loads in moments(function):
        held = np.zeros(counts)
        for load in loads:
            where = [load["node"]] if "node" in load else ends(
                function["edges"][load["edge"]])
            held += along(np.array(load["bytes"]), where, len(counts))
        most = np.maximum(most, held)
    return most


def brute(function, limit):
    """The least cost of all solutions; None: too many."""
    counts = counts_of(function)
    if not counts:
        return None
    costs = np.zeros(counts)
    for i, node in enumerate(function["nodes"]):
        costs += along([c["seconds"] for c in node["choices"]], [i], len(counts))
    for edge in function["edges"]:
        costs += along(np.array(edge["seconds"]), ends(edge), len(counts))
    if limit is not None:
        costs[peaks(function, counts) > limit] = np.inf
    return float(costs.min())


def ends(edge):
    return [edge["from"], edge["to"]]


def moments(function):
    """The loads of each moment; those are left out that a neighbour has all of."""
    loads = function["loads"]
    last = max([load["last"] for load in loads], default=-1)
    held = [{i for i, load in enumerate(loads) if load["first"] <= t <= load["last"]}
            for t in range(last + 1)]
    return [[loads[i] for i in sorted(h)] for t, h in enumerate(held)
            if not any(h < other or (h == other and k < t)
                       for k, other in enumerate(held))]


def cost_of(function):
    chosen = [n["chosen"] for n in function["nodes"]]
    return sum(n["choices"][c]["seconds"] for n, c in zip(function["nodes"], chosen)
               ) + sum(e["seconds"][chosen[e["from"]]][chosen[e["to"]]]
                       for e in function["edges"])


def held_of(function):
    """The bytes of the moment that has most."""
    chosen = [n["chosen"] for n in function["nodes"]]
    most = 0
    for loads in moments(function):
        held = 0
        for load in loads:
            at = [chosen[load["node"]]] if "node" in load else [
                chosen[i] for i in ends(function["edges"][load["edge"]])]
            held += int(np.array(load["bytes"])[tuple(at)])
        most = max(most, held)
    return most


class Group:
    """Functions on one mesh."""

    def __init__(self, opt, folder, seed, turn):
        self.opt, self.folder = opt, folder
        self.mesh = MESHES[turn % len(MESHES)]
        self.texts = []
        rng = random.Random(seed * 31 + turn)
        for i in range(GROUP):
            p = Program(seed * 1000003 + turn * GROUP + i, self.mesh,
                        rng.choice((1, 1, 2, 3, 6)))
            head, body = p.text(True).split("\n", 1)
            self.texts.append(body.replace("@f(", "@f%d(" % i))
        self.head = head

    def limits(self, functions):
        """Functions of which all solutions can be tried, a few alike at a time, and a
        limit that all of them can just keep."""
        found = []
        for f, text in zip(functions, self.texts):
            counts = counts_of(f, MOST >> 3)
            if counts:
                found.append((int(peaks(f, counts).min()), text))
        found.sort()
        for i in range(0, len(found), FEW):
            part = copy.copy(self)
            part.texts = [text for _, text in found[i:i + FEW]]
            yield part, found[i:i + FEW][-1][0]

    def run(self, memory=None):
        program, plan = [os.path.join(self.folder, n) for n in ("p.mlir", "p.json")]
        with open(program, "w", encoding="utf-8") as file:
            file.write("\n".join([self.head] + self.texts))
        done = subprocess.run(
            [self.opt, program, "--nabla-auto-shard=dump=%s%s" % (
                plan, " memory=%d" % memory if memory else ""),
             "--nabla-propagate-sharding", "--nabla-partition"],
            capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr + open(program, encoding="utf-8").read())
        with open(plan, encoding="utf-8") as file:
            dump = json.load(file)
        wrong = list(check_json.problems(dump, SCHEMA, SCHEMA, "$"))
        if wrong:
            raise SystemExit("the dump is not of its schema: %s" % wrong[:3])
        return dump["functions"], done.stdout

    def fail(self, what, i, *values):
        raise SystemExit("%s: %s\n%s\n%s" % (what, values, self.head, self.texts[i]))

    def check_costs(self, functions, limit=None):
        """How many were compared with all solutions."""
        compared = 0
        for i, f in enumerate(functions):
            if not abs(cost_of(f) - f["seconds"]) <= 1e-6 * f["seconds"]:
                self.fail("the cost is another", i, cost_of(f), f["seconds"])
            if f["bound"] > f["seconds"] * (1 + 1e-9):
                self.fail("the bound is above the cost", i, f["bound"])
            if held_of(f) != f["bytes_held"]:
                self.fail("the bytes are others", i, held_of(f), f["bytes_held"])
            if limit is not None and held_of(f) > limit:
                self.fail("memory", i, held_of(f), limit)
            best = brute(f, limit)
            if best is None:
                continue
            if f["bound"] > best * (1 + 1e-6):
                self.fail("the bound is wrong", i, f["bound"], best)
            if f["exact"]:
                compared += 1
                if not abs(best - f["seconds"]) <= 1e-6 * best:
                    self.fail("not the least cost", i, f["seconds"], best)
        return compared

    def check_bytes(self, functions, text):
        mesh = dict(self.mesh)
        bodies = re.split(r"\n  func\.func ", text)[1:]
        for i, (f, body) in enumerate(zip(functions, bodies)):
            found = received_in(body, mesh)
            if found != f["bytes_exchanged"]:
                self.fail("bytes", i, found, f["bytes_exchanged"], body)


def main():
    opt, count = sys.argv[2], int(sys.argv[3])
    seed = int(os.environ.get("NABLA_TEST_SEED") or random.randrange(1 << 31))
    print("seed %d" % seed, flush=True)
    free = limited = exact = turn = 0
    with tempfile.TemporaryDirectory() as folder:
        while free < count:
            group = Group(opt, folder, seed, turn)
            functions, text = group.run()
            free += group.check_costs(functions)
            exact += sum(f["exact"] for f in functions)
            group.check_bytes(functions, text)
            for part, limit in group.limits(functions):
                functions, text = part.run(limit)
                limited += part.check_costs(functions, limit)
                part.check_bytes(functions, text)
            turn += 1
    print("%d programs, %d exact; %d equal the best of all solutions, with a limit of "
          "memory %d" % (turn * GROUP, exact, free, limited))


if __name__ == "__main__":
    main()
