"""Functions with states: steps of nabla-run in one session against numpy, and
the values that states have afterwards; again, for the same bytes and without
allocations.

usage: states.py NABLA_RUN
"""
import os
import subprocess
import sys
import tempfile

import harness  # noqa: F401  skips without numpy
from harness import np

STEPS, ROWS, WIDTH = 7, 8, 4
K = "tensor<8x4xf32>"
WIDE = 64

# A row is written at a place that the input says; the rows up to there are
# read, as a view of unknown size.
PUT = """
func.func @f(%x: tensor<1x4xf32> {nabla.name = "x"},
    %p: tensor<i64> {nabla.name = "p"}, %k: KIND {nabla.state = "k"})
    -> (tensor<4xf32>, KIND {nabla.state = "k"}) {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1 : index
  %i = tensor.extract %p[] : tensor<i64>
  %at = arith.index_cast %i : i64 to index
  %count = arith.addi %at, %one : index
  %n = nabla.dynamic_update_slice %k, %x at (%at, %c0 : index, index)
      : KIND, tensor<1x4xf32>
  %v = nabla.dynamic_slice %n at (%c0, %c0 : index, index) sizes(%count)
      : KIND -> tensor<?x4xf32>
  %s = nabla.reduce sum %v dims = [0] : tensor<?x4xf32>
  return %s, %n : tensor<4xf32>, KIND
}
"""

# The same, read in a private function and in a scan that carries the state.
INSIDE = """
func.func private @sum_of(%k: KIND, %count: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %v = nabla.dynamic_slice %k at (%c0, %c0 : index, index) sizes(%count)
      : KIND -> tensor<?x4xf32>
  %s = nabla.reduce sum %v dims = [0] : tensor<?x4xf32>
  return %s : tensor<4xf32>
}
func.func @f(%x: tensor<1x4xf32> {nabla.name = "x"},
    %p: tensor<i64> {nabla.name = "p"}, %k: KIND {nabla.state = "k"})
    -> (tensor<4xf32>, KIND {nabla.state = "k"}) {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %i = tensor.extract %p[] : tensor<i64>
  %at = arith.index_cast %i : i64 to index
  %count = arith.addi %at, %one : index
  %n = nabla.dynamic_update_slice %k, %x at (%at, %c0 : index, index)
      : KIND, tensor<1x4xf32>
  %s = func.call @sum_of(%n, %count) : (KIND, index) -> tensor<4xf32>
  %r:2 = nabla.scan init(%n, %s : KIND, tensor<4xf32>) length(%two)
      -> KIND, tensor<4xf32> {
  ^bb0(%c: KIND, %t: tensor<4xf32>):
    %v = nabla.dynamic_slice %c at (%c0, %c0 : index, index) sizes(%count)
        : KIND -> tensor<?x4xf32>
    %u = nabla.reduce sum %v dims = [0] : tensor<?x4xf32>
    %w = nabla.add %t, %u : tensor<4xf32>, tensor<4xf32>
    nabla.yield %c, %w : KIND, tensor<4xf32>
  }
  return %r#1, %r#0 : tensor<4xf32>, KIND
}
"""

# All of a state is computed anew, from itself and from one that is read.
DECAY = """
func.func @f(%x: KIND {nabla.name = "x"}, %k: KIND {nabla.state = "k"},
    %b: KIND {nabla.state = "b"}) -> (tensor<4xf32>, KIND {nabla.state = "k"}) {
  %m = nabla.mul %k, %x : KIND, KIND
  %n = nabla.add %m, %b : KIND, KIND
  %s = nabla.reduce sum %n dims = [0] : KIND
  return %s, %n : tensor<4xf32>, KIND
}
"""

# States that kernels write: elementwise, in place, and by rows, in a copy.
KERNELS = """
!w = tensor<64x64xf32>
func.func @f(%x: !w {nabla.name = "x"}, %k: !w {nabla.state = "k"},
    %b: !w {nabla.state = "b"})
    -> (!w {nabla.state = "k"}, !w {nabla.state = "b"}) {
  %m = nabla.add %b, %x : !w, !w
  %n = nabla.sub %k, %m : !w, !w
  %r = nabla.reduce max %m dims = [1] : !w
  %t = nabla.broadcast_in_dim %r dims = [0] : tensor<64xf32> -> !w
  %u = nabla.sub %m, %t : !w, !w
  return %n, %u : !w, !w
}
"""

# A scan carries a state, and a private function takes it.
SCAN = """
func.func private @put(%k: KIND, %x: tensor<1x4xf32>, %at: index) -> KIND {
  %c0 = arith.constant 0 : index
  %n = nabla.dynamic_update_slice %k, %x at (%at, %c0 : index, index)
      : KIND, tensor<1x4xf32>
  return %n : KIND
}
func.func @f(%x: tensor<5x1x4xf32> {nabla.name = "x"},
    %k: KIND {nabla.state = "k"}) -> (KIND {nabla.state = "k"}) {
  %zero = nabla.constant dense<0> : tensor<i64>
  %one = nabla.constant dense<1> : tensor<i64>
  %r:2 = nabla.scan init(%zero, %k : tensor<i64>, KIND)
      over(%x : tensor<5x1x4xf32>) -> tensor<i64>, KIND {
  ^bb0(%i: tensor<i64>, %c: KIND, %row: tensor<1x4xf32>):
    %v = tensor.extract %i[] : tensor<i64>
    %at = arith.index_cast %v : i64 to index
    %n = func.call @put(%c, %row, %at)
        : (KIND, tensor<1x4xf32>, index) -> KIND
    %j = nabla.add %i, %one : tensor<i64>, tensor<i64>
    nabla.yield %j, %n : tensor<i64>, KIND
  }
  return %r#1 : KIND
}
"""

# A while carries a state, and a condition decides which branch writes to it.
CONTROL = """
func.func @f(%x: tensor<1x4xf32> {nabla.name = "x"},
    %n: tensor<i64> {nabla.name = "n"}, %p: tensor<i1> {nabla.name = "p"},
    %k: KIND {nabla.state = "k"}) -> (KIND {nabla.state = "k"}) {
  %zero = nabla.constant dense<0> : tensor<i64>
  %one = nabla.constant dense<1> : tensor<i64>
  %c0 = arith.constant 0 : index
  %c7 = arith.constant 7 : index
  %r:2 = nabla.while(%zero, %k) : tensor<i64>, KIND cond {
  ^bb0(%i: tensor<i64>, %c: KIND):
    %l = nabla.compare lt %i, %n : tensor<i64>, tensor<i64>
    nabla.condition %l, %i, %c : tensor<i1>, tensor<i64>, KIND
  } do {
  ^bb0(%i: tensor<i64>, %c: KIND):
    %v = tensor.extract %i[] : tensor<i64>
    %at = arith.index_cast %v : i64 to index
    %m = nabla.dynamic_update_slice %c, %x at (%at, %c0 : index, index)
        : KIND, tensor<1x4xf32>
    %j = nabla.add %i, %one : tensor<i64>, tensor<i64>
    nabla.yield %j, %m : tensor<i64>, KIND
  }
  %y = nabla.cond %p : tensor<i1> -> KIND {
    %m = nabla.dynamic_update_slice %r#1, %x at (%c7, %c0 : index, index)
        : KIND, tensor<1x4xf32>
    nabla.yield %m : KIND
  }, {
    nabla.yield %r#1 : KIND
  }
  return %y : KIND
}
"""

# Old values that simplification finds: what is left of `x - 0` is x. One is a
# result, one is read after a row was written, two states change places.
OLD = """
func.func @f(%x: tensor<1x4xf32> {nabla.name = "x"},
    %p: tensor<i64> {nabla.name = "p"}, %k: KIND {nabla.state = "k"},
    %a: KIND {nabla.state = "a"}, %b: KIND {nabla.state = "b"})
    -> (tensor<3x8x4xf32>, KIND {nabla.state = "k"}, KIND {nabla.state = "a"},
        KIND {nabla.state = "b"}) {
  %zero = nabla.constant dense<0.0> : KIND
  %first = nabla.constant dense<0> : tensor<i64>
  %o = nabla.sub %k, %zero : KIND, KIND
  %u = nabla.sub %a, %zero : KIND, KIND
  %v = nabla.sub %b, %zero : KIND, KIND
  %n = nabla.dynamic_update_slice %k, %x at (%p, %first
      : tensor<i64>, tensor<i64>) : KIND, tensor<1x4xf32>
  %d = nabla.mul %o, %n : KIND, KIND
  %s = nabla.add %a, %n : KIND, KIND
  %all = nabla.concatenate %o, %d, %u dim = 0 : KIND, KIND, KIND
  %y = nabla.reshape %all : tensor<24x4xf32> -> tensor<3x8x4xf32>
  return %y, %n, %v, %s : tensor<3x8x4xf32>, KIND, KIND, KIND
}
"""
# The old value itself is the result.
GIVEN = """
func.func @f(%x: KIND {nabla.name = "x"}, %k: KIND {nabla.state = "k"},
    %a: KIND {nabla.state = "a"}, %b: KIND {nabla.state = "b"})
    -> (KIND, KIND {nabla.state = "k"}, KIND {nabla.state = "a"},
        KIND {nabla.state = "b"}) {
  %zero = nabla.constant dense<0.0> : KIND
  %o = nabla.sub %k, %zero : KIND, KIND
  %u = nabla.sub %a, %zero : KIND, KIND
  %v = nabla.sub %b, %zero : KIND, KIND
  %n = nabla.add %k, %x : KIND, KIND
  return %o, %n, %v, %u : KIND, KIND, KIND, KIND
}
"""

# Values that are written into slices of states are results of private
# functions too, and read later.
KEPT = """
!k = tensor<2x8x4xf32>
func.func private @put(%x: tensor<?x2x4xf32>, %p: index, %k: !k)
    -> (tensor<2x?x4xf32>, !k) {
  %c0 = arith.constant 0 : index
  %y = nabla.transpose %x permutation = [1, 0, 2] : tensor<?x2x4xf32>
  %n = nabla.dynamic_update_slice %k, %y at (%c0, %p, %c0
      : index, index, index) : !k, tensor<2x?x4xf32>
  return %y, %n : tensor<2x?x4xf32>, !k
}
func.func @f(%x: tensor<?x2x4xf32> {nabla.name = "x"},
    %p: tensor<i64> {nabla.name = "p"}, %k: !k {nabla.state = "k"},
    %b: !k {nabla.state = "b"})
    -> (tensor<2x4xf32>, !k {nabla.state = "k"}, !k {nabla.state = "b"}) {
  %i = tensor.extract %p[] : tensor<i64>
  %at = arith.index_cast %i : i64 to index
  %y, %n = func.call @put(%x, %at, %k)
      : (tensor<?x2x4xf32>, index, !k) -> (tensor<2x?x4xf32>, !k)
  %m = nabla.neg %x : tensor<?x2x4xf32>
  %z, %o = func.call @put(%m, %at, %b)
      : (tensor<?x2x4xf32>, index, !k) -> (tensor<2x?x4xf32>, !k)
  %d = nabla.sub %y, %z : tensor<2x?x4xf32>, tensor<2x?x4xf32>
  %s = nabla.reduce sum %d dims = [1] : tensor<2x?x4xf32>
  return %s, %n, %o : tensor<2x4xf32>, !k, !k
}
"""


def whole(rng, *shape):
    """Small integers, whose sums are exact."""
    return rng.integers(-4, 5, shape).astype(np.float32)


def put(rng):
    inputs = {"x": whole(rng, STEPS, 1, WIDTH),
              "p": rng.integers(0, ROWS, STEPS)}
    k = np.zeros((ROWS, WIDTH), np.float32)
    for x, p in zip(inputs["x"], inputs["p"]):
        k[p] = x
        out = k[:p + 1].sum(0)
    return PUT, inputs, {}, {"k": k}, out


def inside(rng):
    """As put, three times."""
    _, inputs, states, want, out = put(rng)
    return INSIDE, inputs, states, want, 3 * out


def wide(rng):
    """As put, of more than 64 tensors, which come in a table."""
    program, *rest = put(rng)
    more = "".join(", %%a%d: tensor<2xf32> {nabla.name = \"a%d\"}" % (i, i)
                   for i in range(WIDE))
    first, last = program.split(")\n    ->", 1)
    return (first + more + ")\n    ->" + last, *rest)


def decay(rng):
    states = {"k": whole(rng, ROWS, WIDTH), "b": whole(rng, ROWS, WIDTH)}
    inputs = {"x": whole(rng, STEPS, ROWS, WIDTH)}
    k = states["k"]
    for x in inputs["x"]:
        k = k * x + states["b"]
    return DECAY, inputs, states, {"k": k, "b": states["b"]}, k.sum(0)


def kernels(rng):
    k, b = (whole(rng, WIDE, WIDE) for _ in range(2))
    states = {"k": k, "b": b}
    inputs = {"x": whole(rng, STEPS, WIDE, WIDE)}
    for x in inputs["x"]:
        m = b + x
        k, b = k - m, m - m.max(1, keepdims=True)
    return KERNELS, inputs, states, {"k": k, "b": b}, None


def scan(rng):
    inputs = {"x": whole(rng, STEPS, 5, 1, WIDTH)}
    k = np.zeros((ROWS, WIDTH), np.float32)
    k[:5] = inputs["x"][-1][:, 0]
    return SCAN, inputs, {}, {"k": k}, None


def control(rng):
    inputs = {"x": whole(rng, STEPS, 1, WIDTH), "n": rng.integers(0, 5, STEPS),
              "p": rng.integers(0, 2, STEPS).astype(bool)}
    k = np.zeros((ROWS, WIDTH), np.float32)
    for x, n, p in zip(inputs["x"], inputs["n"], inputs["p"]):
        k[:n] = x
        k[7] = x if p else k[7]
    return CONTROL, inputs, {}, {"k": k}, None


def old(rng):
    inputs = {"x": whole(rng, STEPS, 1, WIDTH),
              "p": rng.integers(0, ROWS, STEPS)}
    states = {name: whole(rng, ROWS, WIDTH) for name in "kab"}
    k, a, b = states.values()
    for x, p in zip(inputs["x"], inputs["p"]):
        n = k.copy()
        n[p] = x
        out = np.stack([k, k * n, a])
        k, a, b = n, b, a + n
    return OLD, inputs, states, {"k": k, "a": a, "b": b}, out


def given(rng):
    inputs = {"x": whole(rng, STEPS, ROWS, WIDTH)}
    states = {name: whole(rng, ROWS, WIDTH) for name in "kab"}
    k, a, b = states.values()
    for x in inputs["x"]:
        out, k, a, b = k, k + x, b, a
    return GIVEN, inputs, states, {"k": k, "a": a, "b": b}, out


def kept(rng):
    inputs = {"x": whole(rng, STEPS, 3, 2, WIDTH),
              "p": rng.integers(0, ROWS - 2, STEPS)}
    states = {name: whole(rng, 2, ROWS, WIDTH) for name in "kb"}
    k, b = (array.copy() for array in states.values())
    for x, p in zip(inputs["x"], inputs["p"]):
        k[:, p:p + 3] = x.transpose(1, 0, 2)
        b[:, p:p + 3] = -x.transpose(1, 0, 2)
        out = 2 * x.sum(0)
    return KEPT, inputs, states, {"k": k, "b": b}, out


def run(tool, folder, case):
    program, inputs, states, want, out = case
    path = os.path.join(folder, "f.mlir")
    with open(path, "w", encoding="utf-8") as file:
        file.write(program.replace("KIND", K))
    line = [tool, path, "--steps", str(STEPS), "--again"]
    for option, arrays in (("--input", inputs), ("--state", states)):
        for name, array in arrays.items():
            at = os.path.join(folder, option + name + ".npy")
            np.save(at, array)
            line += [option, "%s=%s" % (name, at)]
    for i in range(WIDE if "%a0:" in program else 0):
        line += ["--input", "a%d=random:2" % i]
    kept = {name: os.path.join(folder, name + ".npy") for name in want}
    for name, at in kept.items():
        line += ["--keep-state", "%s=%s" % (name, at)]
    if out is not None:
        line += ["-o", os.path.join(folder, "out.npy")]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        return done.stderr
    for name, at in kept.items():
        if not np.array_equal(np.load(at), want[name]):
            return "state %s is\n%s\nnot\n%s" % (name, np.load(at), want[name])
    if out is not None and not np.array_equal(np.load(line[-1]), out):
        return "%s, not %s" % (np.load(line[-1]), out)
    return None


def main():
    failed = 0
    for number, make in enumerate((put, inside, wide, decay, kernels,
                                   scan, control, old, given, kept)):
        with tempfile.TemporaryDirectory() as folder:
            wrong = run(sys.argv[1], folder,
                        make(np.random.default_rng(number)))
        if wrong:
            print("%s: %s" % (make.__name__, wrong))
            failed = 1
    return failed


sys.exit(main())
