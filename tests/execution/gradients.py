"""nabla-vjp and nabla-jvp of every operation, against each other and against
differences of the compiled function itself in f64, random shapes, `?`, no
elements; in f32, f16 and bf16 against f64.

usage: gradients.py NABLA-RUN NABLA-OPT quick|medium [NAME...]

For a case @f of arguments x the program has @f.vjp, @f.jvp, made by nabla-opt,
and a driver that returns, for tangents v and cotangents u: J v, (f(x + h v) -
f(x - h v)) / 2 h and J^T u. Then <J v, u> = <v, J^T u>. Every operation of
dialect/ops.def with a derivative needs a case in gradient_cases.py.
"""
import os
import re
import subprocess
import sys

import harness
from harness import np
import gradient_cases

STEP = 2.0 ** -17
OPT = sys.argv[2] if len(sys.argv) > 2 else None
# The part of the cases that runs, and their types; NABLA_TEST_SLICE=all: all.
PARTS = {"quick": 10, "medium": 10}
KINDS = {"quick": "f64", "medium": "f64,f32,f16,bf16"}
# Of the largest magnitude of a result.
TOLERANCE = {"f64": 2e-7, "f32": 2e-4, "f16": 2e-2, "bf16": 1.2e-1}


def signature(text, name):
    """Types of arguments and results of a function in printed IR."""
    line = next(l for l in text.splitlines()
                if "func.func " in l and ("@%s(" % name) in l)
    line = re.sub(r' \{nabla\.name = "[^"]*"\}', "", line)
    head, _, tail = line.partition(") -> ")
    arguments = re.findall(r"%\w+: (.*?)(?=, %|$)", head.partition("(")[2])
    tail = tail.rstrip(" {")
    results = tail.strip("()").split(", ") if tail else []
    return arguments, results


def dense(type_text):
    found = re.match(r"!nabla\.implicit<([^,]*),", type_text)
    return "tensor<%s>" % found.group(1) if found else type_text


def is_float(type_text):
    return re.search(r"x?(f64|f32|f16|bf16)[>,]", type_text) is not None


class Driver:
    """The function that calls a case and its derivatives."""

    def __init__(self, case, kind, text):
        self.case, self.kind = case, kind
        self.lines, self.count, self.arguments = [], 0, []
        self.inputs, self.results = [], []
        self.types, self.outs = signature(text, case.name)
        self.wrt = [i for i, t in enumerate(self.types)
                    if is_float(t) and "implicit" not in t]

    def op(self, text):
        self.count += 1
        self.lines.append("  %%%d = %s" % (self.count, text))
        return "%%%d" % self.count

    def take(self, array, type_text):
        """An argument; f16 and bf16 come as f32."""
        outer = re.sub(r"(bf16|f16)>", "f32>", type_text)
        name = "%%a%d" % len(self.arguments)
        self.arguments.append("%s: %s" % (name, outer))
        self.inputs.append(array)
        if outer == type_text:
            return name
        return self.op("nabla.convert %s : %s -> %s" % (name, outer, type_text))

    def give(self, value, type_text):
        outer = re.sub(r"(bf16|f16)>", "f32>", type_text)
        if outer != type_text:
            value = self.op("nabla.convert %s : %s -> %s" % (
                value, type_text, outer))
        self.results.append((value, outer))

    def call(self, name, values, types, outs):
        self.count += 1
        self.lines.append("  %%%d:%d = func.call @%s(%s) : (%s) -> (%s)" % (
            self.count, len(outs), name, ", ".join(values), ", ".join(types),
            ", ".join(outs)))
        return ["%%%d#%d" % (self.count, i) for i in range(len(outs))]

    def full(self, number, value, type_text):
        """An array of one number in the shape of another."""
        sizes = []
        dims = type_text[len("tensor<"):-1].split("x")[:-1]
        for i, d in enumerate(dims):
            if d == "?":
                at = self.op("arith.constant %d : index" % i)
                sizes.append(self.op("tensor.dim %s, %s : %s" % (
                    value, at, type_text)))
        kind = type_text[:-1].split("x")[-1].split("<")[-1]
        return self.op("nabla.full %r : %s%s -> %s" % (
            number, kind, " sizes(%s)" % ", ".join(sizes) if sizes else "",
            type_text))

    def shifted(self, x, v, type_text, step):
        scaled = self.op("nabla.mul %s, %s : %s, %s" % (
            v, self.full(step, v, type_text), type_text, type_text))
        return self.op("nabla.add %s, %s : %s, %s" % (
            x, scaled, type_text, type_text))

    def text(self):
        return "func.func @%s.driver(%s) -> (%s) {\n%s\n  return %s : %s\n}\n" % (
            self.case.name, ", ".join(self.arguments),
            ", ".join(t for _, t in self.results), "\n".join(self.lines),
            ", ".join(v for v, _ in self.results),
            ", ".join(t for _, t in self.results))


def make_driver(case, kind, text, rng, differences):
    d = Driver(case, kind, text)
    x = [d.take(a, t) for a, t in zip(case.arrays(kind), d.types)]
    v = [d.take(case.tangents[i], d.types[i]) for i in d.wrt]
    u = [d.take(c, dense(t)) for c, t in zip(case.cotangents, [
        t for t in d.outs if is_float(t)])]
    floats = [dense(t) for t in d.outs if is_float(t)]
    types, outs = signature(text, case.name + ".jvp")
    pushed = d.call(case.name + ".jvp", x + v, types, outs)[len(d.outs):]
    for value, t in zip(pushed, floats):
        d.give(value, t)
    types, outs = signature(text, case.name + ".vjp")
    pulled = d.call(case.name + ".vjp", x + u, types, outs)[len(d.outs):]
    for value, i in zip(pulled, d.wrt):
        d.give(value, d.types[i])
    if differences:
        ends = []
        for step in (STEP, -STEP):
            moved = list(x)
            for i, tangent in zip(d.wrt, v):
                moved[i] = d.shifted(x[i], tangent, d.types[i], step)
            ends.append([y for y, t in zip(
                d.call(case.name, moved, d.types, d.outs), d.outs)
                if is_float(t)])
        for a, b, t in zip(*ends, floats):
            d.give(d.op("nabla.sub %s, %s : %s, %s" % (a, b, t, t)), t)
    d.float_count = len(floats)
    return d


def derive(text, names):
    passes = ",".join("nabla-vjp{function=%s},nabla-jvp{function=%s}" % (n, n)
                      for n in names)
    done = subprocess.run(
        [OPT, "--pass-pipeline=builtin.module(%s)" % passes, "-"],
        input=text.encode(), capture_output=True, timeout=300)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def size_of(arrays):
    """A magnitude that differences are compared with."""
    return max([1.0] + [float(np.max(np.abs(a), initial=0)) for a in arrays])


def check(s, case, d, got, reference):
    n = d.float_count
    pushed, pulled = got[:n], got[n:n + len(d.wrt)]
    name = "%s in %s" % (case.name, d.kind)
    tolerance = TOLERANCE[d.kind] * case.tolerance
    good = True
    for a in got:
        good &= s.expect(bool(np.isfinite(a).all()), name + ": not finite")
    left = sum(float(np.sum(a.astype("f8") * u))
               for a, u in zip(pushed, case.cotangents))
    right = sum(float(np.sum(a.astype("f8") * v)) for a, v in zip(
        pulled, [case.tangents[i] for i in d.wrt]))
    scale = sum(float(np.sum(np.abs(a.astype("f8") * u)))
                for a, u in zip(pushed, case.cotangents)) + 1
    good &= s.expect(abs(left - right) <= tolerance * scale,
                     "%s: <Jv, u> = %r, <v, JTu> = %r" % (name, left, right))
    for a, b in zip(pushed, got[n + len(d.wrt):]):
        want = b / (2 * STEP)
        off = float(np.max(np.abs(a - want), initial=0))
        good &= s.expect(off <= tolerance * size_of([a, want]),
                         "%s: Jv is %r from the difference" % (name, off))
    if reference is not None:
        for i, (a, b) in enumerate(zip(got, reference)):
            off = float(np.max(np.abs(a.astype("f8") - b), initial=0))
            good &= s.expect(
                off <= tolerance * size_of([b]),
                "%s: output %d is %r from f64" % (name, i, off))
    if not good:
        print(case.text(d.kind), flush=True)
    return good


def run_group(s, cases, kind, references):
    text = "".join(c.text(kind) for c in cases)
    code, out, err = derive(text, [c.name for c in cases])
    if not s.expect(code == 0, "nabla-opt: " + err[-2000:]):
        return
    drivers = [make_driver(c, kind, out, s.rng, kind == "f64") for c in cases]
    program = s.write(out[:out.rstrip().rindex("}")] + "".join(
        d.text() for d in drivers) + "}\n" if out.startswith("module")
        else out + "".join(d.text() for d in drivers))
    for case, d in zip(cases, drivers):
        command = ["--entry", case.name + ".driver"]
        for i, array in enumerate(d.inputs):
            path = s.path(".npy")
            np.save(path, array)
            command += ["--input", "%d=%s" % (i, path)]
        outputs = [s.path(".npy") for _ in d.results]
        for path in outputs:
            command += ["--output", path]
        done = s.start(program, *command)
        if not s.expect(done.returncode == 0, "%s in %s: %s\n%s" % (
                case.name, kind, done.stderr.decode(errors="replace")[-1500:],
                case.text(kind))):
            continue
        got = [np.load(p) for p in outputs]
        check(s, case, d, got, references.get(case.name))
        if kind == "f64":
            references[case.name] = got


def main(s):
    tier = sys.argv[3] if len(sys.argv) > 3 else "quick"
    s.rng = np.random.default_rng(harness.seed())
    missing = gradient_cases.missing_operations()
    s.expect(not missing, "no case of " + ", ".join(missing))
    cases = gradient_cases.make(s.rng, 1)
    only = sys.argv[4:]
    if only:
        cases = [c for c in cases if any(o in c.name for o in only)]
    else:
        cases = [cases[i] for i in harness.share(len(cases), PARTS[tier])]
    print("%d cases" % len(cases))
    references = {}
    for kind in os.environ.get("NABLA_TEST_KINDS", KINDS[tier]).split(","):
        some = [c for c in cases if kind in c.kinds]
        for i in range(0, len(some), 30):
            run_group(s, some[i:i + 30], kind, references)


if __name__ == "__main__":
    harness.session(sys.argv[1], main)
