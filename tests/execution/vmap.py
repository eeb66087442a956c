"""nabla-vmap of every operation: the function of a batch against the function
itself, for one example after the other. The functions are those of ops.py; the
batch is of each dimension of arguments and results, of known sizes and `?`, of
0, 1 and 3 examples, and of batches.

usage: vmap.py NABLA_RUN NABLA_OPT quick|medium
An op without a case here, and without a reason in NO_BATCH, fails the test.
"""
import re
import subprocess
import sys
import types

import harness
from harness import np
import call_ops
import composite_ops
import control_ops
import create_ops
import dense_ops
import gather_ops
import implicit_composites
import implicit_math
import implicit_ops
import math_ops
import scale_ops
import shape_ops
import window_ops
from ops import table

MODULES = (dense_ops, math_ops, create_ops, implicit_ops, implicit_math,
           control_ops, shape_ops, gather_ops, window_ops, scale_ops,
           composite_ops, implicit_composites, call_ops)
NO_BATCH = {
    "constant": "has no operands", "full": "has no operands",
    "iota": "has no operands", "tri": "has no operands",
    "yield": "ends the regions of cond, while, scan and remat",
    "condition": "ends the regions of while",
    "mesh": "has no operands", "axis_index": "has no operands",
    **dict.fromkeys(("sharding_constraint", "reshard", "propagation_barrier",
                     "sharding_group", "inspect_sharding"),
                    "says how values are divided: filecheck vmap-shard.mlir"),
    **dict.fromkeys(("shard_map", "all_reduce", "all_gather", "all_slice",
                     "reduce_scatter", "all_to_all", "permute", "broadcast"),
                    "needs several devices: filecheck vmap-shard.mlir"),
}
# Kernels of other sizes add in another order.
TOLERANCE = {"f64": 1e-12, "f32": 2e-5, "f16": 4e-3, "bf16": 3e-2}


def all_blocks_are_whole(text):
    """Whether all packed arrays are of whole blocks; those with a block for each
    index of the first dimension have none of several examples."""
    if "blocks = leading" in text:
        return False
    for shape, block in re.findall(
            r"!nabla\.implicit<([0-9x]+)x[a-z]\w+, [^>]*?block = (\d+)", text):
        if np.prod([int(d) for d in shape.split("x")]) % max(int(block), 1):
            return False
    return True


def is_known(f):
    """Whether all operations have rules: only tests use linalg."""
    text = f.text()
    if "nabla.fused_" in text and "?" in text:
        return False  # sizes of results are not known before: refused
    if "nabla.unpack" in text and not all_blocks_are_whole(text):
        return False  # components of blocks of several examples: refused
    return not f.bound_arguments and text.count("func.func") == 1 and \
        "linalg." not in text and "tensor.insert" not in text


def numbers_of(f):
    """Arguments of which a size is read: the same for all examples."""
    return set(re.findall(r"tensor\.extract %(\w+)", f.text()))


def another(array, k, is_divided):
    """The value of example k: of the same numbers."""
    if k == 0:
        return array
    if array.size > 1:
        return np.roll(array.reshape(-1), 2 * k + 1).reshape(array.shape)
    if array.dtype == bool:
        return array ^ bool(k % 2)
    if array.dtype.kind in "iu":
        return array if is_divided else (array + k).astype(array.dtype)
    return array


class Batch:
    """A function, the axes of its batch and the arrays."""

    def __init__(self, f, rng, size, known, some):
        self.f, self.size = f, size
        given = {**f.inputs, **f.binds}
        self.names = ["%s_%d" % (f.name, i) for i in range(len(f.arguments))]
        fixed = numbers_of(f)
        divided = "own_" not in f.name and (
            "nabla.div" in f.text() or "nabla.mod" in f.text())
        self.arrays = {}
        self.axes = []
        free = [n for n in self.names if n not in fixed]
        taken = [n for n in free if not some or rng.random() < 0.6] or free[:1]
        for name in self.names:
            array = given[name]
            axis = int(rng.integers(0, array.ndim + 1)) if rng.random() < 0.5\
                else 0
            self.axes.append(axis if name in taken else None)
            if name not in taken:
                self.arrays[name] = array
                continue
            all_of = [another(array, k, divided) for k in range(size)]
            self.arrays[name] = np.stack(all_of, axis) if size else np.zeros(
                array.shape[:axis] + (0,) + array.shape[axis:], array.dtype)
        packed = any("!nabla.implicit" in a for a in f.arguments) or \
            "nabla.unpack" in f.text()
        self.known = size if known or packed else None
        self.out = []
        for _, kind, _ in f.results:
            rank = kind.count("x")
            self.out.append(int(rng.integers(0, rank + 1))
                            if rng.random() < 0.5 else 0)

    def taken(self):
        return any(axis is not None for axis in self.axes)

    def example(self, k):
        """The arguments of example k."""
        return {name: array if axis is None else np.take(array, k, axis)
                for (name, array), axis in zip(self.arrays.items(), self.axes)}

    def option(self, name=None):
        def text(axes):
            return ",".join("none" if a is None else str(a) for a in axes)
        size = "" if self.known is None else " axis-size=%d" % self.known
        ins = " in-axes=" + text(self.axes) if self.axes else ""
        outs = " out-axes=" + text(self.out) if self.out else ""
        return "nabla-vmap{function=%s%s%s%s}" % (name or self.f.name, ins,
                                                  outs, size)

    def called(self, name, arrays):
        """What harness.Session.call takes."""
        bf16 = {n: a for n, a in arrays.items() if n in self.f.binds}
        rest = {n: a for n, a in arrays.items() if n not in self.f.binds}
        return types.SimpleNamespace(
            name=name, inputs={n: np.array(a, order="C")
                               for n, a in rest.items()},
            binds={n: np.array(a, order="C") for n, a in bf16.items()},
            results=self.f.results, bound_arguments=[])


def close(got, want, kind):
    if got.shape != want.shape:
        return "shape %s, not %s" % (got.shape, want.shape)
    if kind not in TOLERANCE:
        return "" if np.array_equal(got, want) else "other integers"
    a, b = (harness.widen(harness.plain(x)).astype(np.float64)
            for x in (got, want))
    with np.errstate(all="ignore"):
        finite = np.abs(b[np.isfinite(b)])
        scale = max(finite.max(initial=0), 1e-30)
        bound = TOLERANCE[kind] * np.maximum(np.abs(b), min(scale, 1))
        good = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= bound)
    return "" if good.all() else "%d of %d elements differ: %s, not %s" % (
        (~good).sum(), good.size, a[~good][:3], b[~good][:3])


def without(text, names):
    """A module without some functions: arguments are bound by their names."""
    head = re.compile(r"^  func\.func (?:private )?@([\w.]+)\(", re.M)
    starts = [(m.start(), m.group(1)) for m in head.finditer(text)]
    end = text.rindex("}")
    kept = text[:starts[0][0]]
    for (begin, name), (stop, _) in zip(starts, starts[1:] + [(end, "")]):
        kept += "" if name in names else text[begin:stop]
    return kept + text[end:]


# Operations that nabla-dispatch makes, later than nabla-vmap, and convolutions
# with kernels of a batch whose size is not known.
ONE_BY_ONE = re.compile("'nabla.(fused_|conv_general)")
LATE = re.compile("sizes of its results are not known|takes packed arrays alone")


class Test:
    def __init__(self, s, opt):
        self.s, self.opt, self.covered = s, opt, set()

    def lower(self, text, passes):
        done = subprocess.run(
            [self.opt, "-", "--pass-pipeline=builtin.module(%s)" %
             ",".join(passes)], input=text.encode(), capture_output=True,
            timeout=300, check=False)
        return done.stdout.decode() if done.returncode == 0 else None, \
            done.stderr.decode(errors="replace")

    def run(self, batches):
        """One program of the functions and their batches."""
        text = "".join(b.f.text() for b in batches)
        made, error = self.lower(text, [b.option() for b in batches])
        if made is None and len(batches) > 1:
            for b in batches:
                self.run([b])
            return
        if made is None and LATE.search(error) and ONE_BY_ONE.search(error):
            return
        if made is None:
            self.s.checked += 1
            self.s.fail("%s\n%s\n%s" % (batches[0].option(), error[:1500],
                                        text[:1500]))
            return
        program = self.s.write(without(made, [b.f.name for b in batches]))
        alone = self.s.write(text)
        done = self.s.start(program, "--entry", "none", "--policy", "off")
        if b"no public function" not in done.stderr and len(batches) > 1:
            for b in batches:
                self.run([b])
            return
        for b in batches:
            self.check(program, alone, b)

    def check(self, program, alone, b):
        policy = ["--policy", "off"]
        try:
            got = self.s.call(program, b.called(b.f.name + ".vmap", b.arrays),
                              policy)
            want = [self.s.call(alone, b.called(
                b.f.name, b.example(k)), policy) for k in range(b.size)]
        except (harness.Failure, subprocess.TimeoutExpired) as error:
            self.s.checked += 1
            self.s.fail("%s: %s\n%s" % (b.option(), error, b.f.text()[:2500]))
            return
        for i, (_, _, kind) in enumerate(b.f.results):
            parts = [w[i] for w in want]
            if not parts:
                self.s.expect(got[i].shape[b.out[i]] == 0,
                              "%s: result %d of no examples" % (b.f.name, i))
                continue
            problem = close(got[i], np.stack(parts, b.out[i]), kind)
            self.s.expect(not problem, "%s: result %d: %s\n%s" % (
                b.option(), i, problem, b.f.text()[:2500]))
        self.covered.update(re.findall(r"\bnabla\.([a-z_0-9]+)", b.f.text()))

    def run_nested(self, b, rng):
        """The batch of a batch: rows of both, the new one in front."""
        count, fixed = 2, numbers_of(b.f)
        axes = ["none" if n in fixed else "0" for n in b.names]
        made, error = self.lower(b.f.text(), [
            b.option(), "nabla-vmap{function=%s.vmap in-axes=%s axis-size=%d}" % (
                b.f.name, ",".join(axes), count)])
        if made is None and LATE.search(error):
            return
        if not self.s.expect(made is not None, "vmap of %s: %s" % (
                b.option(), error[:1500])):
            return
        one = self.s.write(without(made, [b.f.name, b.f.name + ".vmap.vmap"]))
        program = self.s.write(without(made, [b.f.name, b.f.name + ".vmap"]))
        outer = {n: a if n in fixed else np.stack(
            [a, np.flip(a, axis) if axis is not None else a])
            for (n, a), axis in zip(b.arrays.items(), b.axes)}
        policy = ["--policy", "off"]
        try:
            got = self.s.call(program, b.called(b.f.name + ".vmap.vmap", outer),
                              policy)
            want = [self.s.call(one, b.called(b.f.name + ".vmap", {
                n: a if n in fixed else a[k] for n, a in outer.items()}), policy)
                for k in range(count)]
        except (harness.Failure, subprocess.TimeoutExpired) as error:
            self.s.checked += 1
            self.s.fail("vmap of %s: %s\n%s" % (b.option(), error,
                                                b.f.text()[:2500]))
            return
        for i, (_, _, kind) in enumerate(b.f.results):
            problem = close(got[i], np.stack([w[i] for w in want]), kind)
            self.s.expect(not problem, "vmap of %s: result %d: %s" % (
                b.option(), i, problem))


class With(harness.Function):
    """A function, and another one that it calls."""

    def __init__(self, name, callee):
        super().__init__(name)
        self.callee = callee

    def text(self):
        return super().text() + self.callee


CALLEE = """func.func private @other(%x: tensor<3xf32>, %n: tensor<i64>)
    -> (tensor<3xf32>, tensor<i64>) {
  %y = nabla.add %x, %x : tensor<3xf32>, tensor<3xf32>
  return %y, %n : tensor<3xf32>, tensor<i64>
}
"""
# Greatest common divisors, of which each takes another number of steps, and
# divides by 0 in a step that it does not take; and a loop that passes on other
# values than it has.
LOOPS = ("""%%r:2 = nabla.while(%s, %s) : tensor<i64>, tensor<i64> cond {
  ^bb0(%%a: tensor<i64>, %%b: tensor<i64>):
    %%zero = nabla.constant dense<0> : tensor<i64>
    %%more = nabla.compare ne %%b, %%zero : tensor<i64>, tensor<i64>
    nabla.condition %%more, %%a, %%b : tensor<i1>, tensor<i64>, tensor<i64>
  } do {
  ^bb0(%%a: tensor<i64>, %%b: tensor<i64>):
    %%m = nabla.mod %%a, %%b : tensor<i64>, tensor<i64>
    nabla.yield %%b, %%m : tensor<i64>, tensor<i64>
  }""", """%%r:2 = nabla.while(%s, %s) : tensor<i64>, tensor<i64> cond {
  ^bb0(%%a: tensor<i64>, %%b: tensor<i64>):
    %%c = nabla.add %%a, %%b : tensor<i64>, tensor<i64>
    %%top = nabla.constant dense<100> : tensor<i64>
    %%more = nabla.compare lt %%c, %%top : tensor<i64>, tensor<i64>
    nabla.condition %%more, %%b, %%c : tensor<i1>, tensor<i64>, tensor<i64>
  } do {
  ^bb0(%%a: tensor<i64>, %%b: tensor<i64>):
    %%d = nabla.maximum %%a, %%b : tensor<i64>, tensor<i64>
    nabla.yield %%b, %%d : tensor<i64>, tensor<i64>
  }""")


def own_cases(rng):
    """What ops.py has with sizes that are not known, or not at all."""
    f = harness.Function("own_dot")
    x, x_type = f.argument(rng.standard_normal((3, 32)).astype(np.float32))
    c, _ = f.argument(rng.integers(-128, 128, 64).astype(np.int8))
    d, _ = f.argument(rng.standard_normal(4).astype(np.float32))
    w_type = "!nabla.implicit<4x32xf32, #nabla.nf4<block = 32>>"
    w = f.op("nabla.pack %s, %s : tensor<64xi8>, tensor<4xf32> -> %s" % (
        c, d, w_type))
    f.give(f.op("nabla.fused_dot %s, %s : %s, %s" % (x, w, x_type, w_type)),
           "tensor<3x4xf32>", None)
    rows, _ = f.argument(np.array([[3], [0], [9]], np.int64))
    f.give(f.op("nabla.fused_gather %s, %s offset_dims = [1] collapsed_dims = "
                "[0] index_map = [0] vector_dim = 1 sizes = [1, 32] : %s, "
                "tensor<3x1xi64>" % (w, rows, w_type)), "tensor<3x32xf32>", None)
    yield f
    f = harness.Function("own_attention")
    q, k, v = (f.argument(rng.standard_normal((2, t, 8)).astype(np.float32))[0]
               for t in (3, 5, 5))
    f.give(f.op("nabla.fused_attention %s, %s, %s causal : tensor<2x3x8xf32>, "
                "tensor<2x5x8xf32>, tensor<2x5x8xf32>" % (q, k, v)),
           "tensor<2x3x8xf32>", None)
    yield f
    f = harness.Function("own_slices")  # of examples, at places of theirs
    x, x_type = f.argument(rng.standard_normal(5).astype(np.float32))
    i, i_type = f.argument(np.array(3, np.int32))
    f.give(f.op("nabla.dynamic_slice %s at(%s : %s) : %s -> tensor<2xf32>" % (
        x, i, i_type, x_type)), "tensor<2xf32>", None)
    yield f
    f = With("own_call", CALLEE)
    x, x_type = f.argument(rng.standard_normal(3).astype(np.float32))
    n, n_type = f.argument(np.array(7, np.int64))
    f.lines.append("%%r:2 = func.call @other(%s, %s) : (%s, %s) -> (%s, %s)" % (
        x, n, x_type, n_type, x_type, n_type))
    f.give("%r#0", x_type, None)
    f.give("%r#1", n_type, None)
    yield f
    for number, loop in enumerate(LOOPS):
        f = harness.Function("own_loop%d" % number)
        a, a_type = f.argument(np.array(12, np.int64))
        b, _ = f.argument(np.array(8, np.int64))
        f.lines.append(loop % (a, b))
        f.give("%r#0", a_type, None)
        f.give("%r#1", a_type, None)
        yield f


def choose(functions, rng, each):
    """`each` functions of every op, or all."""
    chosen, counts = [], {}
    for i in rng.permutation(len(functions)):
        f = functions[i]
        ops = set(re.findall(r"\bnabla\.([a-z_0-9]+)", f.text()))
        if not is_known(f) or not f.arguments:
            continue
        if each and all(counts.get(op, 0) >= each for op in ops):
            continue
        for op in ops:
            counts[op] = counts.get(op, 0) + 1
        chosen.append(f)
    return chosen


def test(s):
    tier = sys.argv[3]
    rng = np.random.default_rng(harness.seed())
    functions = [f for m in MODULES for f in m.cases(rng, 1)]
    all_of = harness.slice_number() == "all"
    chosen = choose(functions, rng, 0 if all_of else {"quick": 1, "medium": 2}[tier])
    t = Test(s, sys.argv[2])
    batches = [Batch(f, rng, 3, True, some) for some in (0, 1)
               for f in own_cases(rng)]
    t.run(batches[:len(batches) // 2])
    t.run(batches[len(batches) // 2:])
    for known in (True, False):
        t.run([Batch(f, rng, 0, known, False) for f in own_cases(rng)
               if f.name == "own_slices"])
    batches = []
    for i, f in enumerate(chosen):
        size = (3, 3, 1, 3, 0, 3, 2)[i % 7]
        b = Batch(f, rng, size, i % 3 != 0, i % 2)
        if b.taken():
            batches.append(b)
    for i in range(0, len(batches), 12):
        t.run(batches[i:i + 12])
    for b in batches[::6 if tier == "quick" else 3]:
        if b.size and b.known is not None:
            t.run_nested(b, rng)
    print("%d functions" % len(batches))
    for op in table():
        s.expect(op in t.covered or op in NO_BATCH, "no case for " + op)


if __name__ == "__main__":
    harness.session(sys.argv[1], test)
