"""Random programs of 2 to 12 operations against numpy in f64: every operation of
dialect/ops.def, dense and packed operands of every encoding, views, control
flow, calls, `?`, rank 0, no elements, results that several operations read.

usage: programs_random.py DRIVER COUNT [FIRST] [--show]

Weights of the generator: OPS below; a second operand is an earlier value of its
shape in six of ten, else a new argument, packed in a quarter where it can be;
eight of ten picks are results of the last operation; a dimension is `?` in a
fifth, rank 0 stands for a tenth, a size of 0 for one program in eight, one of
40 to 130 for one in four. A quarter have states. Element types: programs_leaves.py. Bounds:
programs_values.py. Programs are compiled under the policies off and warn, and
error where all operands are dense, in numerics f32, with 1 or 2 threads.

A program that fails is made as small as it can be: operations are left out, or
replaced by arguments of what they would have given. NABLA_TEST_SEED is the
seed; a program is known by it and its number, and `NABLA_TEST_SEED=SEED ... 1
NUMBER` runs it alone. NABLA_TEST_SLICE takes a tenth of the programs. With the accumulation of linalg-fuse-elementwise-ops put
back (docs/internals/UPSTREAM.md) each of the seeds 1 to 10 fails within the
first 82 programs.
"""
import collections
import concurrent.futures
import os
import re
import subprocess
import sys

import harness
from control_ops import Flow
from harness import np
from ops import SHARDED
import programs_leaves as leaves
import programs_moves  # noqa: F401, fills PLANS
import programs_states
from programs_dots import PLANS
from programs_values import Reject, Value, check_of

FOLDER = os.path.dirname(os.path.abspath(__file__))
EACH = 25  # programs of a module
# What is drawn more often than the rest, which is drawn once.
OPS = {"dot_general": 14, "reduce": 10, "broadcast_in_dim": 12, "add": 4, "mul": 4,
       "transpose": 3, "reshape": 3, "convert": 3, "slice": 2, "select": 2,
       "cond": 2, "scan": 2, "while": 2, "call": 2, "linear": 2, "sub": 2,
       "div": 2, "maximum": 2, "compare": 2, "concatenate": 2, "gather": 2,
       "materialize": 2, "quantize": 2, "attention": 3, "fused_attention": 2,
       "pack": 0, "condition": 0}
SAFETENSORS = {"f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16",
               "i64": "I64", "i32": "I32", "i8": "I8", "ui8": "U8",
               "i1": "BOOL"}


class Program(Flow):
    """A function whose arguments and results go through the driver."""

    def __init__(self, name):
        super().__init__(name)
        self.arrays, self.states = [], None

    def argument(self, array, hide=()):
        array = np.asarray(array)
        self.arrays.append(array)
        return super().argument(array, hide)

    def give(self, value):
        name, text = value.name, value.type()
        if value.packed is not None:
            name = self.op("nabla.materialize %s : %s" % (name, text))
            value = Value(name, value.kind, value.shape, value.data)
            text = value.type()
        self.results.append((name, text, value.kind))
        self.checks.append(check_of(value))

    def text(self):
        """The program; with states also its twin (programs_states.py)."""
        if self.states is None:
            return super().text()
        given = [(v, t, None) for v, t in self.states.results]
        twin = self.states.text(self)
        self.results += given
        plain = super().text()
        del self.results[len(self.results) - len(given):]
        return plain + twin

    def mark(self):
        return (len(self.lines), len(self.arguments), len(self.arrays),
                len(self.callees))

    def back(self, mark):
        for items, size in zip((self.lines, self.arguments, self.arrays,
                                self.callees), mark):
            del items[size:]


class Step:
    """An operation of a program: its maker and the values it takes and gives."""

    def __init__(self, name, ids, make, results):
        self.name, self.ids, self.make, self.results = name, ids, make, results


class Build:
    """A program in the making."""

    def __init__(self, name, seed):
        self.rng = np.random.default_rng(seed)
        self.f, self.steps, self.values = Program(name), [], []
        some = [int(n) for n in self.rng.choice([1, 2, 3, 4, 5, 8, 16, 33], 3)]
        self.sizes = some + [16] * (self.rng.random() < 0.5)
        if self.rng.random() < 0.25:  # several vectors, and the rest of one
            self.sizes.append(int(self.rng.integers(40, 131)))
        if self.rng.random() < 0.12:
            self.sizes.append(0)
        self.unknown = 0.2 if self.rng.random() < 0.6 else 0.0

    def value(self, i):
        return self.values[i]

    def shape(self):
        rank = int(self.rng.choice([0, 1, 2, 3, 4], p=[.1, .25, .4, .2, .05]))
        sizes = [int(self.rng.choice(self.sizes)) for _ in range(rank)]
        while np.prod(sizes) > 20000:
            sizes.pop()
        return tuple(sizes)

    def hidden(self, rank):
        return [i for i in range(rank) if self.rng.random() < self.unknown]

    def pick(self, want=None):
        """A value, rather a late one."""
        fit = [i for i, v in enumerate(self.values) if want is None or want(v)]
        if not fit:
            raise Reject
        last = [s.results for s in self.steps if s.name != "argument"][-1:]
        late = [i for i in fit if last and i in last[0]]
        if late and self.rng.random() < 0.8:
            fit = late
        return int(self.rng.choice(fit))

    def like(self, value, kind=None, packed=True):
        return self.of_shape(value.shape, kind or value.kind, packed=packed)

    def of_shape(self, shape, kind, packed=True, static=False, dense=0.6):
        """A value of this shape and type, or a new argument."""
        shape = tuple(int(n) for n in shape)
        fit = [i for i, v in enumerate(self.values)
               if v.shape == shape and v.kind == kind
               and (packed or v.packed is None)
               and not (static and None in v.dims)]
        if fit and self.rng.random() < dense:
            return int(self.rng.choice(fit))
        if packed and shape and kind in ("f32", "f16", "bf16") and (
                np.prod(shape)) and self.rng.random() < 0.25:
            name = str(self.rng.choice(leaves.NAMES))
            return self.packed_of(name, shape, kind)
        hide = [] if static else self.hidden(len(shape))
        return self.leaf(leaves.argument(leaves.numbers(
            self.rng, shape, kind), hide))

    def packed_of(self, name, shape, kind):
        return self.leaf(leaves.packed_argument(self.rng, name, shape, kind))

    def leaf(self, make):
        return self.add("argument", [], make)[0]

    def add(self, name, ids, make):
        mark = self.f.mark()
        try:
            made = make(self.f, *(self.values[i] for i in ids))
            if any(v.known() < 0.8 or v.rank > 8 for v in made):
                raise Reject
        except Reject:
            self.f.back(mark)
            raise
        results = list(range(len(self.values), len(self.values) + len(made)))
        self.values += made
        self.steps.append(Step(name, ids, make, results))
        return results

    def operation(self):
        names = list(PLANS)
        weights = np.array([OPS.get(n, 1) for n in names], float)
        for _ in range(200):
            name = str(self.rng.choice(names, p=weights / weights.sum()))
            mark = self.f.mark(), len(self.values), len(self.steps)
            try:
                with np.errstate(all="ignore"):
                    ids, make = PLANS[name](self)
                    self.add(name, ids, make)
                return
            except Reject:
                self.f.back(mark[0])
                del self.values[mark[1]:], self.steps[mark[2]:]
        raise Reject


def results_of(steps, count, rng=None):
    """Values that nothing reads, and a few that something does."""
    used = {i for s in steps for i in s.ids}
    made = [i for s in steps for i in s.results if s.name != "argument"]
    out = [i for i in made if i not in used]
    if rng is not None and rng.random() < 0.3:
        more = [i for i in made if i in used]
        out += [int(i) for i in rng.permutation(more)[:1]]
    return out[-count:]


def generate(number):
    b = Build("p%d" % number, (harness.seed(), number))
    rng = b.rng
    for _ in range(int(rng.integers(1, 3))):
        kind = leaves.kind_of(rng)
        if rng.random() < 0.4:
            shape = b.shape() or (16,)
            if np.prod(shape):
                kind = kind if kind in ("f32", "f16", "bf16") else "f32"
                b.packed_of(str(rng.choice(leaves.NAMES)), shape, kind)
                continue
        b.of_shape(b.shape(), kind, packed=False)
    for _ in range(int(rng.integers(2, 13))):
        try:
            b.operation()
        except Reject:
            break
    b.outputs = results_of(b.steps, 6, rng)
    for i in b.outputs:
        b.f.give(b.values[i])
    programs_states.add(b)
    return b


# ---- smaller ---------------------------------------------------------------------


def remade(name, steps, outputs):
    """The program of these steps: `make` None stands for an argument of what
    the step gave."""
    b = Build(name, 0)
    map_of = {}
    with np.errstate(all="ignore"):
        for step in steps:
            made = step.make(b.f, *(b.values[map_of[i]] for i in step.ids))
            for i, value in zip(step.results, made):
                map_of[i] = len(b.values)
                b.values.append(value)
            b.steps.append(step)
    for i in outputs:
        b.f.give(b.values[map_of[i]])
    return b


def needed(steps, outputs):
    want, out = set(outputs), []
    for step in reversed(steps):
        if want & set(step.results):
            out.append(step)
            want |= set(step.ids)
    return out[::-1]


def as_argument(step, values):
    """The step replaced by arguments, if its results can be."""
    given = [values[i] for i in step.results]
    if any(v.packed is not None or np.isinf(v.err).any() for v in given):
        return None
    makes = [leaves.argument(v.elements(), [
        i for i, d in enumerate(v.dims) if d is None]) for v in given]

    def make(f):
        return [make(f)[0] for make in makes]
    return Step("argument", [], make, step.results)


def attempt(b, steps, outputs, fails):
    """The program of these steps, if it can be and fails."""
    try:
        made = remade(b.f.name, steps, outputs)
    except Reject:
        return None
    return made if fails(made) else None


def fewer_outputs(b, fails):
    """(program, its steps, its outputs)"""
    outputs, steps = list(b.outputs), b.steps
    tries = [[i] for i in outputs] + [
        [o for o in outputs if o != i] for i in outputs]
    for some in tries:
        small = needed(steps, some)
        made = attempt(b, small, some, fails) if some else None
        if made:
            return made, small, some
    return b, steps, outputs


def smaller(b, fails):
    """The smallest program like `b` that fails."""
    best, steps, outputs = fewer_outputs(b, fails)
    changed = True
    while changed:
        changed = False
        for i in range(len(steps) - 1, -1, -1):
            one = None
            if steps[i].name != "argument":
                one = as_argument(steps[i], b.values)
            if one is None or set(steps[i].results) & set(outputs):
                continue
            new = needed(steps[:i] + [one] + steps[i + 1:], outputs)
            made = attempt(b, new, outputs, fails)
            if made:
                steps, best, changed = new, made, True
                break
    return best


# ---- runs ------------------------------------------------------------------------


class Driver:
    """A process that compiles and calls; started again when it ends."""

    def __init__(self, path, threads, fusion=True, guard=False):
        self.path, self.threads, self.process = path, threads, None
        self.fusion = fusion  # False: no clusters of operations
        self.guard = guard  # True: plans of memory are checked

    def start(self):
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [self.path, str(self.threads)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "NABLA_PLAN_GUARD": str(int(self.guard))})

    def stop(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.stdout.close()
            self.process.wait()

    def ask(self, request):
        self.start()
        try:
            self.process.stdin.write(request)
            self.process.stdin.flush()
            line = self.process.stdout.readline().split()
            if len(line) != 3:
                raise BrokenPipeError
            status, count, size = line[0].decode(), int(line[1]), int(line[2])
            text = self.process.stdout.read(size).decode(errors="replace")
            return status, text, [self.array() for _ in range(count)]
        except (BrokenPipeError, ValueError):
            code = self.process.wait()
            self.process = None
            return "CRASHED", "the process ended with %d" % code, []

    def array(self):
        words = self.process.stdout.readline().split()
        kind = {v: k for k, v in SAFETENSORS.items()}[words[0].decode()]
        dims = [int(w) for w in words[2:-1]]
        data = self.process.stdout.read(int(words[-1]))
        return np.frombuffer(data, harness.DTYPES[kind]).reshape(dims)

    def compile(self, text, policy):
        text = text.encode()
        return self.ask(b"compile %s f32 %s %d\n" % (
            policy.encode(), b"on" if self.fusion else b"off", len(text)) + text)

    def call(self, f):
        request = b"call %s %d\n" % (f.name.encode(), len(f.arrays))
        for array in f.arrays:
            kind = SAFETENSORS[harness.NAMES[array.dtype]]
            dims = "".join(" %d" % d for d in array.shape)
            data = harness.plain(array).tobytes()
            request += ("%s %d%s %d\n" % (kind, array.ndim, dims, len(data))
                        ).encode() + data
        return self.ask(request)


def wrong(driver, f):
    """None, or what is wrong with what a compiled function gives."""
    status, text, got = driver.call(f)
    if status != "OK":
        return "%s: %s" % (status, text.strip()[-600:])
    for i, (array, check) in enumerate(zip(got, f.checks)):
        problem = check(array)
        if problem:
            return "result %d: %s" % (i, problem)
    return None


def wrong_alone(driver, f, policy):
    status, text, _ = driver.compile(f.text(), policy)
    if status != "OK":
        return "%s: %s" % (status, text.strip()[-600:])
    return wrong(driver, f)


def kind_of_problem(text):
    """Two failures of one kind: for shrinking."""
    return text.split(":")[0] if text else None


def report(driver, b, policy, problem):
    kind = kind_of_problem(problem)
    kind = "result" if kind.startswith("result") else kind

    def fails(candidate):
        found = wrong_alone(driver, candidate.f, policy)
        return found is not None and found.startswith(kind)
    small = smaller(b, fails) if fails(b) else b
    problem = wrong_alone(driver, small.f, policy) or problem
    count = sum(s.name != "argument" for s in small.steps)
    return "FAILED seed %d, program %s, policy %s, %d threads%s, %d operations: " \
        "%s\n%s" % (harness.seed(), b.f.name[1:], policy, driver.threads,
                    "" if driver.fusion else ", no fusion", count, problem,
                    small.f.text())


def policy_of(builds, number):
    dense = all(v.packed is None for b in builds for v in b.values)
    return "error" if dense else ("off", "warn")[number % 2]


def run_module(path, first, count, number):
    """Programs of consecutive seeds; reports, and what was in them."""
    driver = Driver(path, 1 + number % 2, fusion=number % 3 != 2,
                    guard=number % 4 == 1)
    found, seen = [], collections.Counter()
    builds = [generate(at) for at in range(first, first + count)]
    dense = [b for b in builds if all(v.packed is None for v in b.values)]
    packed = [b for b in builds if b not in dense]
    for group in (dense, packed):
        if not group:
            continue
        policy = policy_of(group, number)
        status, _, _ = driver.compile("".join(b.f.text() for b in group),
                                      policy)
        for b in group:
            problem = wrong(driver, b.f) if status == "OK" else wrong_alone(
                driver, b.f, policy)
            if problem:
                found.append(report(driver, b, policy, problem))
                driver.compile("".join(b.f.text() for b in group), policy)
            text = b.f.text()
            seen.update(set("nabla." + op for op in re.findall(
                r"\bnabla\.([a-z_0-9]+) ?[^=]", text)))
            seen.update(set(re.findall(r"#nabla\.\w+", text)))
            seen.update(["programs", "elements"])
            seen["states"] += b.f.states is not None
            seen["operations"] += sum(s.name != "argument" for s in b.steps)
    driver.stop()
    return found, seen


def table():
    with open(os.path.join(FOLDER, "../../dialect/ops.def"),
              encoding="utf-8") as file:
        return re.findall(r"^OP\(\s*(\w+),", file.read(), re.M)


def encodings():
    with open(os.path.join(FOLDER, "../../quant/codec/encodings.def"),
              encoding="utf-8") as file:
        return re.findall(r"^ENCODING\((\w+),", file.read(), re.M)


def coverage(seen, count):
    """What no program of many had, which is an error: of 1,000 any, of 300 more
    than a twentieth. sharded_programs.py draws what is for several devices."""
    want = ["nabla." + op for op in table() if op not in SHARDED]
    want += ["#nabla." + name for name in encodings() + ["splat", "dynamic8"]]
    rare = sorted((seen[name], name) for name in want)
    print("%d programs of %d operations, %d with states; of %d operations and encodings "
          "reached %d; rarest: %s" % (
              seen["programs"], seen["operations"], seen["states"], len(want),
              sum(n > 0 for n, _ in rare), ", ".join(
                  "%s %d" % (name, n) for n, name in rare[:6])))
    missing = [name for n, name in rare if not n]
    allowed = 0 if count >= 1000 else 5 if count >= 300 else len(want)
    return missing if len(missing) > allowed else []


def test(path, count, first, workers=2):
    seen, failed = collections.Counter(), 0
    first, count = harness.share_of_range(first, count)
    each = max(1, min(EACH, -(-count // workers)))
    jobs = [(at, min(each, first + count - at))
            for at in range(first, first + count, each)]
    with concurrent.futures.ProcessPoolExecutor(workers) as pool:
        futures = [pool.submit(run_module, path, at, size, i)
                   for i, (at, size) in enumerate(jobs)]
        for future in futures:
            found, more = future.result()
            seen.update(more)
            failed += len(found)
            for text in found:
                print(text, flush=True)
    missing = coverage(seen, count)
    for name in missing:
        print("FAILED: no program has " + name)
    print("seed %d: %d failed" % (harness.seed(), failed))
    return failed + len(missing)


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if a != "--show"]
    first = int(arguments[2]) if len(arguments) > 2 else 0
    if "--show" in sys.argv:
        print(generate(first).f.text())
        sys.exit(0)
    sys.exit(1 if test(arguments[0], int(arguments[1]), first) else 0)
