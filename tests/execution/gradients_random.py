"""Random programs differentiated: <J v, u> of nabla-jvp equals <v, J^T u> of
nabla-vjp, with programs of programs_random.py (every operation, packed operands,
control flow, calls, `?`), differentiated to all dense floats that they take.

usage: gradients_random.py NABLA-RUN NABLA-OPT COUNT [FIRST]

A program with an operation that has no derivative by design is skipped; at most
half of the programs may be.
"""
import re
import subprocess
import sys

import gradients
import harness
import programs_random
from harness import np

BOUND = {"f64": 1e-9, "f32": 2e-3, "f16": 8e-2, "bf16": 4e-1}
REFUSED = re.compile(r"has no derivative|cannot be differentiated")


class Case:
    """A program as gradients.py takes its cases."""

    def __init__(self, program, rng):
        self.name, self.source = program.name, program.text()
        self.program = program
        head = self.source[self.source.index("func.func @%s(" % self.name):]
        types = re.findall(r"%(\w+): (tensor<[^>]*>)", head[:head.index("{\n")])
        components = set(re.findall(r"%(\w+)", " ".join(
            re.findall(r"nabla\.pack ([^:]*):", self.source))))
        self.wrt = [i for i, (n, t) in enumerate(types)
                    if gradients.is_float(t) and n not in components]
        self.tangents = {i: self.random(rng, program.arrays[i].shape)
                         for i in self.wrt}
        self.rng = rng

    @staticmethod
    def random(rng, shape):
        return rng.uniform(-1, 1, shape).astype("f4")

    def text(self, kind):
        return self.source

    def arrays(self, kind):
        return [harness.widen(a) for a in self.program.arrays]

    def kinds(self):
        return set(re.findall(r"x?(f64|f32|f16|bf16)>", self.source))


class RandomDriver(gradients.Driver):
    def __init__(self, case, text):
        super().__init__(case, "any", text)
        self.wrt = case.wrt

    def take(self, array, type_text):
        if type_text.endswith("f64>"):
            array = array.astype("f8")
        elif gradients.is_float(type_text):
            array = array.astype("f4")
        return super().take(array, type_text)


def derive(case):
    passes = ",".join("nabla-%s{function=%s wrt=%s}" % (
        mode, case.name, ",".join(map(str, case.wrt))) for mode in ("vjp", "jvp"))
    done = subprocess.run(
        [gradients.OPT, "--pass-pipeline=builtin.module(%s)" % passes, "-"],
        input=case.source.encode(), capture_output=True, timeout=300)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def make_driver(case, out, rng):
    d = RandomDriver(case, out)
    floats = [t for t in d.outs if gradients.is_float(t)]
    shapes = [s for s, t in zip(case.shapes, d.outs) if gradients.is_float(t)]
    case.cotangents = [case.random(rng, s) for s in shapes]
    x = [d.take(a, t) for a, t in zip(case.arrays(None), d.types)]
    v = [d.take(case.tangents[i], d.types[i]) for i in d.wrt]
    u = [d.take(c, t) for c, t in zip(case.cotangents, floats)]
    for name, more, kept in ((".jvp", v, floats), (".vjp", u, [
            d.types[i] for i in d.wrt])):
        types, outs = gradients.signature(out, case.name + name)
        for value, t in zip(d.call(case.name + name, x + more, types,
                                   outs)[len(d.outs):], kept):
            d.give(value, t)
    d.float_count = len(floats)
    return d


def wrong(case, d, got):
    """None, or what is wrong; "" where the numbers say nothing."""
    n = d.float_count
    if not all(np.isfinite(a).all() for a in got):
        return ""
    pushed = [a.astype("f8") for a in got[:n]]
    pulled = [a.astype("f8") for a in got[n:]]
    terms = [[a * u for a, u in zip(pushed, case.cotangents)],
             [a * case.tangents[i] for a, i in zip(pulled, d.wrt)]]
    left, right = (sum(float(np.sum(t)) for t in side) for side in terms)
    scale = sum(float(np.sum(np.abs(t))) for side in terms for t in side) + 1e-3
    bound = max([BOUND[k] for k in case.kinds()] or [1e-9])
    if scale > 1e4 and bound > 1e-3:
        return ""  # near the ends of a narrow type
    if abs(left - right) <= bound * scale:
        return None
    return "<Jv, u> = %r, <v, JTu> = %r, of terms of %r" % (left, right, scale)


def run(s, case, d, out):
    program = s.write(out + d.text())
    command = ["--entry", case.name + ".driver", "--policy", "off"]
    for i, array in enumerate(d.inputs):
        path = s.path(".npy")
        np.save(path, array)
        command += ["--input", "%d=%s" % (i, path)]
    outputs = [s.path(".npy") for _ in d.results]
    for path in outputs:
        command += ["--output", path]
    done = s.start(program, *command)
    if done.returncode:
        return done.stderr.decode(errors="replace")[-1500:], None
    return None, [np.load(p) for p in outputs]


def attempt(s, number, counts):
    try:
        made = programs_random.generate(number)
    except programs_random.Reject:
        return
    if made.f.states is not None:  # a session gives and takes them
        return
    case = Case(made.f, np.random.default_rng(number))
    case.shapes = [made.values[i].shape for i in made.outputs]
    if not case.wrt:
        return
    counts["tried"] += 1
    code, out, err = derive(case)
    if code:
        counts["skipped"] += 1
        s.expect(REFUSED.search(err), "program %d: %s\n%s" % (
            number, err[-1500:], case.source))
        return
    if out.startswith("module"):
        out = out[out.index("\n") + 1:out.rstrip().rindex("}")]
    d = make_driver(case, out, case.rng)
    if not d.float_count:
        return
    problem, got = run(s, case, d, out)
    if problem is None:
        problem = wrong(case, d, got)
        counts["silent"] += problem == ""
    s.expect(not problem, "program %d: %s\n%s" % (number, problem, case.source))


def main(s):
    counts = {"tried": 0, "skipped": 0, "silent": 0}
    first = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    first, count = harness.share_of_range(first, int(sys.argv[3]))
    for number in range(first, first + count):
        attempt(s, number, counts)
    print(counts)
    s.expect(counts["tried"] < 8 or
             2 * (counts["skipped"] + counts["silent"]) <= counts["tried"],
             "too few programs say something: %s" % counts)


if __name__ == "__main__":
    gradients.OPT = sys.argv[2]
    harness.session(sys.argv[1], main)
