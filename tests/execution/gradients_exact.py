"""Gradients whose values are known: conventions at ties, kinks and ends of the
domain, which are JAX's; straight-through estimators bit for bit; second and
third derivatives.

usage: gradients_exact.py NABLA-RUN NABLA-OPT
"""
import subprocess
import sys

import harness
from harness import np

OPT = sys.argv[2] if len(sys.argv) > 2 else None
INF, NAN = float("inf"), float("nan")


def derive(text, passes):
    done = subprocess.run(
        [OPT, "--pass-pipeline=builtin.module(%s)" % ",".join(passes), "-"],
        input=text.encode(), capture_output=True, timeout=300)
    if done.returncode:
        raise harness.Failure(done.stderr.decode()[-1500:])
    return done.stdout.decode()


def run(s, program, entry, inputs, count):
    command = ["--entry", entry]
    for i, array in enumerate(inputs):
        path = s.path(".npy")
        np.save(path, array)
        command += ["--input", "%d=%s" % (i, path)]
    outputs = [s.path(".npy") for _ in range(count)]
    for path in outputs:
        command += ["--output", path]
    done = s.start(program, *command)
    if done.returncode:
        raise harness.Failure(done.stderr.decode(errors="replace")[-1500:])
    return [np.load(p) for p in outputs]


# Operation, operands, partial derivatives: jax.grad of PyPI (f64) gives the
# same numbers, but for NaN of pow(0, 0) to its base.
KINKS = [
    ("relu", [[0., -0., 1, -1]], [[0, 0, 1, 0]]),
    ("abs", [[0., -0., 2, -2]], [[1, 1, 1, -1]]),
    ("sqrt", [[0., 4]], [[INF, .25]]),
    ("log", [[0., 2]], [[INF, .5]]),
    ("rsqrt", [[0., 4]], [[-INF, -.0625]]),
    ("maximum", [[1., 2, 3], [1, 3, 2]], [[.5, 0, 1], [.5, 1, 0]]),
    ("minimum", [[1., 2, 3], [1, 3, 2]], [[.5, 1, 0], [.5, 0, 1]]),
    ("pow", [[0., 2, 0, 3], [2, 0, 0, 1]], [[0, 0, 0, 1], [0, np.log(2), 0,
                                                          3 * np.log(3)]]),
    ("mod", [[5., -5, 6], [3, 3, 3]], [[1, 1, 1], [-1, 2, -2]]),
    ("sign", [[0., 1]], [[0, 0]]), ("round", [[.5, 1]], [[0, 0]]),
]
# Kind, operand, gradient of the sum of the results.
ALONG = [
    ("reduce max %s dims = [0]", [3., 1, 3, 2], [.5, 0, .5, 0], ""),
    ("reduce min %s dims = [0]", [1., 1, 1, 2], [1 / 3, 1 / 3, 1 / 3, 0], ""),
    ("reduce prod %s dims = [0]", [2., 0, 3, 4], [0, 24, 0, 0], ""),
    ("reduce prod %s dims = [0]", [2., 0, 0, 4], [0, 0, 0, 0], ""),
    ("pool max %s window = [2] strides = [2]", [3., 3, 1, 2], [1, 0, 0, 1],
     "2x"),
    ("pool max %s window = [3]", [3., 3, 3, 3], [1, 1, 0, 0], "2x"),
]


def kinks(s):
    text, names = "", []
    for i, (op, operands, _) in enumerate(KINKS):
        n, name = len(operands[0]), "k%d_%s" % (i, op)
        t = "tensor<%dxf64>" % n
        arguments = ["%%a%d" % j for j in range(len(operands))]
        text += "func.func @%s(%s) -> %s {\n  %%r = nabla.%s %s : %s\n  return " \
            "%%r : %s\n}\n" % (name, ", ".join(a + ": " + t for a in arguments),
                               t, op, ", ".join(arguments),
                               ", ".join([t] * len(arguments)), t)
        names.append((name, operands, KINKS[i][2], n))
    for i, (op, x, want, out) in enumerate(ALONG):
        name, t = "a%d" % i, "tensor<4xf64>"
        text += "func.func @%s(%%x: %s) -> tensor<%sf64> {\n  %%r = nabla.%s : %s" \
            "\n  return %%r : tensor<%sf64>\n}\n" % (name, t, out, op % "%x", t,
                                                    out)
        names.append((name, [x], [want], int(out[0]) if out else None))
    program = s.write(derive(text, [
        "nabla-vjp{function=%s}" % n[0] for n in names]))
    for name, operands, wants, n in names:
        u = np.ones(() if n is None else (n,))
        got = run(s, program, name + ".vjp",
                  [np.array(a, "f8") for a in operands] + [u],
                  1 + len(operands))[1:]
        for a, want in zip(got, wants):
            s.expect(np.allclose(a, want, rtol=1e-12, atol=0, equal_nan=True),
                     "%s: %s, not %s" % (name, a, want))


STRAIGHT = """!w = !nabla.implicit<8x64xKIND, #nabla.ENCODING>
func.func private @q(%x: tensor<8x64xKIND>) -> !w attributes {nabla.straight_through} {
  %0 = nabla.round %x : tensor<8x64xKIND>
  %1 = nabla.quantize %0 : tensor<8x64xKIND> -> !w
  return %1 : !w
}
func.func @function(%x: tensor<8x64xKIND>) -> tensor<8x64xKIND> {
  %0 = func.call @q(%x) : (tensor<8x64xKIND>) -> !w
  %1 = nabla.materialize %0 : !w
  return %1 : tensor<8x64xKIND>
}
func.func @quantize(%x: tensor<8x64xKIND>) -> tensor<8x64xKIND> {
  %0 = nabla.quantize %x : tensor<8x64xKIND> -> !w
  %1 = nabla.materialize %0 : !w
  return %1 : tensor<8x64xKIND>
}
"""
ENCODINGS = ("nf4<block = 64>", "fp4<block = 64>", "int8<block = 64>",
             "int4<block = 32>", "int8<block = 32, zero_point = true>",
             "nf4<block = 64, scale = #nabla.dynamic8<block = 256>>",
             "ternary<block = 64>", "binary<block = 64>", "fp8<block = 64>",
             "fp8_e5m2<block = 64>", "mxfp4", "mxfp8", "mxfp8_e5m2",
             "int8<block = 0, blocks = leading>")


def straight(s):
    """The cotangent at the output of quantize is the gradient, bit for bit."""
    rng = np.random.default_rng(harness.seed())
    for encoding in ENCODINGS:
        text = STRAIGHT.replace("KIND", "f32").replace("ENCODING", encoding)
        program = s.write(derive(text, [
            "nabla-vjp{function=function}", "nabla-vjp{function=quantize}"]))
        x, u = (rng.standard_normal((8, 64)).astype("f4") for _ in range(2))
        for entry in ("function", "quantize"):
            got = run(s, program, entry + ".vjp", [x, u], 2)[1]
            s.expect(got.tobytes() == u.tobytes(), "%s of %s: the gradient is "
                     "not the cotangent" % (entry, encoding))


PACKED = """!w = !nabla.implicit<256x64xf32, #nabla.nf4<block = 64>>
func.func @packed(%x: tensor<8x64xf32>, %m: tensor<256x64xf32>) -> tensor<8x256xf32> {
  %w = nabla.quantize %m : tensor<256x64xf32> -> !w
  %y = nabla.linear %x, %w : tensor<8x64xf32>, !w
  return %y : tensor<8x256xf32>
}
func.func @dense(%x: tensor<8x64xf32>, %m: tensor<256x64xf32>) -> tensor<8x256xf32> {
  %w = nabla.quantize %m : tensor<256x64xf32> -> !w
  %d = nabla.materialize %w : !w
  %y = nabla.linear %x, %d : tensor<8x64xf32>, tensor<256x64xf32>
  return %y : tensor<8x256xf32>
}
"""


def packed(s):
    """Gradients through packed weights are those through decoded ones, within
    the bound of products."""
    rng = np.random.default_rng(harness.seed())
    program = s.write(derive(PACKED, ["nabla-vjp{function=packed}",
                                      "nabla-vjp{function=dense}"]))
    x, m, u = (rng.standard_normal(d).astype("f4")
               for d in ((8, 64), (256, 64), (8, 256)))
    a, b = (run(s, program, e + ".vjp", [x, m, u], 3)
            for e in ("packed", "dense"))
    total = np.abs(u) @ np.abs(m) * 1.1
    s.expect(bool((np.abs(a[1] - b[1]) <= (256 + 16) * 2.0 ** -24 * total
                   ).all()), "the gradient through a packed weight")
    s.expect(np.allclose(a[2], b[2], rtol=1e-5, atol=1e-5),
             "the gradient of the master")


# Third derivatives of functions: of x, from calculus.
THIRD = {"exp": np.exp, "sin": lambda x: -np.cos(x), "cos": np.sin,
         "log": lambda x: 2 / x ** 3,
         "sqrt": lambda x: .375 * x ** -2.5,
         "rsqrt": lambda x: -1.875 * x ** -3.5,
         "log1p": lambda x: 2 / (1 + x) ** 3,
         "tanh": lambda x: (lambda t: (1 - t * t) * (6 * t * t - 2))(np.tanh(x)),
         "sigmoid": lambda x: (lambda p: p * (1 - p) * (1 - 6 * p + 6 * p * p))(
             1 / (1 + np.exp(-x))),
         "atanh": lambda x: (2 + 6 * x * x) / (1 - x * x) ** 3,
         "tan": lambda x: (lambda t: 2 * (1 + t * t) * (1 + 3 * t * t))(np.tan(x)),
         "erf": lambda x: 2 / np.sqrt(np.pi) * (4 * x * x - 2) * np.exp(-x * x)}


def third(s):
    """vjp of jvp of jvp."""
    text = "".join("func.func @%s(%%x: tensor<5xf64>) -> tensor<5xf64> {\n  %%r ="
                   " nabla.%s %%x : tensor<5xf64>\n  return %%r : tensor<5xf64>\n"
                   "}\n" % (n, n) for n in THIRD)
    passes = []
    for n in THIRD:
        passes += ["nabla-jvp{function=%s}" % n, "nabla-jvp{function=%s.jvp wrt="
                   "0}" % n, "nabla-vjp{function=%s.jvp.jvp wrt=0}" % n]
    program = s.write(derive(text, passes))
    x = np.array([.25, .5, .375, .625, .125])
    one, none = np.ones(5), np.zeros(5)
    for n, function in THIRD.items():
        # x, its tangents; cotangents of f, f', and their tangents
        got = run(s, program, n + ".jvp.jvp.vjp",
                  [x, one, one, none, none, none, one], 5)[4]
        s.expect(np.allclose(got, function(x), rtol=1e-9),
                 "third derivative of %s: %s, not %s" % (n, got, function(x)))


SYMMETRIC = """func.func @f(%x: tensor<6xf64>, %w: tensor<4x6xf64>) -> tensor<f64> {
  %0 = nabla.dot_general %w, %x contracting = [1] x [0] : tensor<4x6xf64>, tensor<6xf64>
  %1 = nabla.softmax %0 dim = 0 : tensor<4xf64>
  %2 = nabla.mul %1, %0 : tensor<4xf64>, tensor<4xf64>
  %3 = nabla.reduce sum %2 dims = [0] : tensor<4xf64>
  return %3 : tensor<f64>
}
"""


def symmetric(s):
    """jvp of vjp: the Hessian is symmetric, and vjp of vjp gives its rows."""
    rng = np.random.default_rng(harness.seed())
    program = s.write(derive(SYMMETRIC, [
        "nabla-vjp{function=f wrt=0}", "nabla-jvp{function=f.vjp wrt=0}",
        "nabla-vjp{function=f.vjp wrt=0}"]))
    x, w = rng.standard_normal(6), rng.standard_normal((4, 6))
    one, rows, twice = np.array(1.0), [], []
    for i in range(6):
        e = np.eye(6)[i]
        # value, gradient, their tangents
        rows.append(run(s, program, "f.vjp.jvp", [x, w, one, e], 4)[3])
        twice.append(run(s, program, "f.vjp.vjp",
                         [x, w, one, np.array(0.0), e], 3)[2])
    rows, twice = np.array(rows), np.array(twice)
    s.expect(np.allclose(rows, rows.T, rtol=1e-12, atol=1e-13),
             "the Hessian is not symmetric")
    s.expect(np.allclose(rows, twice, rtol=1e-12, atol=1e-13),
             "vjp of vjp is not jvp of vjp")


SPLIT = """func.func @f(%x: tensor<?x6xf32>, %w: tensor<4x6xf32>) -> tensor<?x4xf32> {
  %0 = nabla.linear %x, %w : tensor<?x6xf32>, tensor<4x6xf32>
  %1 = nabla.softmax %0 dim = 1 : tensor<?x4xf32>
  %2 = nabla.mul %1, %0 : tensor<?x4xf32>, tensor<?x4xf32>
  %3 = nabla.exp %2 : tensor<?x4xf32>
  return %3 : tensor<?x4xf32>
}
"""


def split(s):
    """Two functions give what one gives, whatever is saved."""
    rng = np.random.default_rng(harness.seed())
    x, w, u = (rng.standard_normal(d).astype("f4")
               for d in ((3, 6), (4, 6), (3, 4)))
    program = s.write(derive(SPLIT, ["nabla-vjp{function=f}"]))
    joint = run(s, program, "f.vjp", [x, w, u], 3)
    for save, least, most in (("all", 2, 4), ("dots", 1, 1), ("none", 0, 0)):
        text = derive(SPLIT, ["nabla-vjp{function=f mode=split save=%s}" % save])
        program, count = s.write(text), text.count('"saved.') // 2
        s.expect(least <= count <= most, "%s saves %d" % (save, count))
        out = run(s, program, "f.forward", [x, w], 1 + count)
        back = run(s, program, "f.backward", [x, w, *out[1:], u], 2)
        for a, b in zip([out[0], *back], joint):
            s.expect(np.allclose(a, b, rtol=1e-6, atol=1e-7),
                     "save=%s: %s off by %r" % (save, a.shape, np.max(np.abs(
                         a - b)) if a.shape == b.shape else b.shape))


def again(s):
    """What runs again gives the bits of what is saved."""
    rng = np.random.default_rng(harness.seed())
    x, w, u = (rng.standard_normal(d).astype("f4")
               for d in ((3, 6), (4, 6), (3, 4)))
    want = None
    for save in ("all", "dots", "none"):
        text = derive(SPLIT, ["nabla-vjp{function=f save=%s}" % save])
        s.expect(("nabla.barrier" in text) == (save != "all"),
                 "barriers of save=%s" % save)
        got = run(s, s.write(text), "f.vjp", [x, w, u], 3)
        want = want or got
        for a, b in zip(got, want):
            s.expect(a.tobytes() == b.tobytes(), "save=%s: off by %r" % (
                save, np.max(np.abs(a - b))))


CARRIED = """!w = !nabla.implicit<4x64xf32, #nabla.ENCODING>
func.func @packed(%x: tensor<4x64xf32>, %d: tensor<5x4x64xf32>) -> tensor<4x64xf32> {
  %q = nabla.quantize %x : tensor<4x64xf32> -> !w
  %r = nabla.scan init(%q : !w) over(%d : tensor<5x4x64xf32>) -> !w {
  ^bb0(%w: !w, %s: tensor<4x64xf32>):
    %m = nabla.materialize %w : !w
    %a = nabla.mul %m, %s : tensor<4x64xf32>, tensor<4x64xf32>
    %b = nabla.sin %a : tensor<4x64xf32>
    %n = nabla.quantize %b : tensor<4x64xf32> -> !w
    nabla.yield %n : !w
  }
  %y = nabla.materialize %r : !w
  return %y : tensor<4x64xf32>
}
func.func @dense(%x: tensor<4x64xf32>, %d: tensor<5x4x64xf32>) -> tensor<4x64xf32> {
  %q = nabla.quantize %x : tensor<4x64xf32> -> !w
  %o = nabla.materialize %q : !w
  %r = nabla.scan init(%o : tensor<4x64xf32>) over(%d : tensor<5x4x64xf32>) -> tensor<4x64xf32> {
  ^bb0(%m: tensor<4x64xf32>, %s: tensor<4x64xf32>):
    %a = nabla.mul %m, %s : tensor<4x64xf32>, tensor<4x64xf32>
    %b = nabla.sin %a : tensor<4x64xf32>
    %n = nabla.quantize %b : tensor<4x64xf32> -> !w
    %p = nabla.materialize %n : !w
    nabla.yield %p : tensor<4x64xf32>
  }
  return %r : tensor<4x64xf32>
}
"""


def carried(s):
    """Packed carries of a scan are kept packed: the gradients are those of a
    loop that decodes before it carries."""
    rng = np.random.default_rng(harness.seed())
    x, u = (rng.uniform(-1, 1, (4, 64)).astype("f4") for _ in range(2))
    d = rng.uniform(-2, 2, (5, 4, 64)).astype("f4")
    for encoding in ("nf4<block = 64>", "int8<block = 32, zero_point = true>"):
        text = derive(CARRIED.replace("ENCODING", encoding), [
            "nabla-vjp{function=packed}", "nabla-vjp{function=dense}"])
        program = s.write(text)
        a, b = (run(s, program, e + ".vjp", [x, d, u], 3)
                for e in ("packed", "dense"))
        for one, other in zip(a, b):
            s.expect(np.allclose(one, other, rtol=1e-5, atol=1e-6),
                     "packed carries of %s: off by %r" % (
                         encoding, np.max(np.abs(one - other))))


CALLS = """func.func private @forward(%x: tensor<3xKIND>) -> (tensor<3xKIND>, tensor<3xKIND>) {
  %y = nabla.custom_call @nabla.check_finite(%x) : (tensor<3xKIND>) -> tensor<3xKIND>
  %s = nabla.exp %x : tensor<3xKIND>
  return %y, %s : tensor<3xKIND>, tensor<3xKIND>
}
func.func private @backward(%s: tensor<3xKIND>, %u: tensor<3xKIND>) -> tensor<3xKIND> {
  %g = nabla.mul %s, %u : tensor<3xKIND>, tensor<3xKIND>
  return %g : tensor<3xKIND>
}
func.func private @tangent(%x: tensor<3xKIND>, %v: tensor<3xKIND>) -> (tensor<3xKIND>, tensor<3xKIND>) {
  %y, %s = func.call @forward(%x) : (tensor<3xKIND>) -> (tensor<3xKIND>, tensor<3xKIND>)
  %g = nabla.mul %s, %v : tensor<3xKIND>, tensor<3xKIND>
  return %y, %g : tensor<3xKIND>, tensor<3xKIND>
}
func.func @f(%x: tensor<3xKIND>) -> tensor<3xKIND> {
  %y = nabla.custom_call @nabla.check_finite(%x) {nabla.vjp = [@forward, @backward], nabla.jvp = @tangent} : (tensor<3xKIND>) -> tensor<3xKIND>
  return %y : tensor<3xKIND>
}
func.func @root(%x: tensor<3xKIND> {nabla.name = "data"}) -> tensor<3xKIND> {
  %y = nabla.sqrt %x : tensor<3xKIND>
  return %y : tensor<3xKIND>
}
"""


def calls(s):
    """Rules that a custom call names; gradients that are not finite fail, with
    the name of the argument."""
    x, u = np.array([1., 2, 0]), np.array([3., 4, 5])
    for kind in ("f64", "f32"):
        wide = "f8" if kind == "f64" else "f4"
        program = s.write(derive(CALLS.replace("KIND", kind), [
            "nabla-vjp{function=f}", "nabla-jvp{function=f}",
            "nabla-vjp{function=root check-finite=on}", "symbol-dce"]))
        inputs = [x.astype(wide), u.astype(wide)]
        for mode in ("vjp", "jvp"):
            got = run(s, program, "f." + mode, inputs, 2)
            s.expect(np.allclose(got[1], np.exp(x) * u, rtol=1e-6),
                     "a rule of a custom call, %s: %s" % (mode, got[1]))
        try:
            run(s, program, "root.vjp", inputs, 2)
            s.expect(False, "a gradient of inf was given")
        except harness.Failure as error:
            s.expect("the gradient of @root to 'data': element 2 of 3 is inf" in
                     str(error), str(error))
        good = [np.array([1., 4, 9], wide), inputs[1]]
        got = run(s, program, "root.vjp", good, 2)[1]
        s.expect(np.allclose(got, u / 2 / np.sqrt(good[0])), "a finite gradient")


NESTED = """func.func @choice(%x: tensor<f64>) -> tensor<f64> {
  %z = nabla.full 0.0 : f64 -> tensor<f64>
  %p = nabla.compare gt %x, %z : tensor<f64>, tensor<f64>
  %y = nabla.cond %p : tensor<i1> -> tensor<f64> {
    %a = nabla.mul %x, %x : tensor<f64>, tensor<f64>
    nabla.yield %a : tensor<f64>
  }, {
    %a = nabla.neg %x : tensor<f64>
    nabla.yield %a : tensor<f64>
  }
  return %y : tensor<f64>
}
func.func @repeat(%x: tensor<3xf64>) -> tensor<f64> {
  %a = nabla.broadcast_in_dim %x dims = [1] : tensor<3xf64> -> tensor<4x3xf64>
  %b = nabla.mul %a, %a : tensor<4x3xf64>, tensor<4x3xf64>
  %c = nabla.mul %b, %a : tensor<4x3xf64>, tensor<4x3xf64>
  %y = nabla.reduce sum %c dims = [0, 1] : tensor<4x3xf64>
  return %y : tensor<f64>
}
func.func @product(%x: tensor<2x3xf64>, %w: tensor<3x4xf64>) -> tensor<2x4xf64> {
  %p = nabla.dot_general %x, %w contracting = [1] x [0] : tensor<2x3xf64>, tensor<3x4xf64>
  %y = nabla.tanh %p : tensor<2x4xf64>
  return %y : tensor<2x4xf64>
}
func.func private @own_forward(%x: tensor<3xf64>, %w: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>, tensor<f64>) {
  %y = nabla.mul %x, %w : tensor<3xf64>, tensor<3xf64>
  %s = nabla.full 2.0 : f64 -> tensor<f64>
  return %y, %w, %s : tensor<3xf64>, tensor<3xf64>, tensor<f64>
}
func.func private @own_backward(%w: tensor<3xf64>, %s: tensor<f64>, %u: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>) {
  %t = nabla.broadcast_in_dim %s dims = [] : tensor<f64> -> tensor<3xf64>
  %a = nabla.mul %w, %u : tensor<3xf64>, tensor<3xf64>
  %b = nabla.mul %t, %u : tensor<3xf64>, tensor<3xf64>
  return %a, %b : tensor<3xf64>, tensor<3xf64>
}
func.func private @own(%x: tensor<3xf64>, %w: tensor<3xf64>) -> tensor<3xf64> attributes {nabla.vjp = [@own_forward, @own_backward], no_inline} {
  %y = nabla.mul %x, %w : tensor<3xf64>, tensor<3xf64>
  return %y : tensor<3xf64>
}
func.func @ruled(%x: tensor<3xf64>, %w: tensor<3xf64>) -> tensor<3xf64> {
  %y = func.call @own(%x, %w) : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xf64>
  return %y : tensor<3xf64>
}
"""


def nested(s):
    """Derivatives that others get wrong: through a choice by a number, of an
    array that is repeated, twice; the batch of a gradient is the loop of
    gradients; rules of batches are batches of rules."""
    rng = np.random.default_rng(harness.seed())
    program = s.write(derive(NESTED, [
        "nabla-vjp{function=choice}", "nabla-vjp{function=repeat}",
        "nabla-jvp{function=repeat.vjp wrt=0}", "nabla-vjp{function=product}",
        "nabla-vmap{function=product.vjp in-axes=0 axis-size=3}",
        "nabla-vmap{function=choice.vjp in-axes=0 axis-size=4}",
        "nabla-vmap{function=ruled in-axes=0,none axis-size=2}",
        "nabla-vjp{function=ruled.vmap}"]))
    one = np.array(1.0)
    for x, want in ((3., 6.), (-2., -1.), (0., -1.)):
        got = run(s, program, "choice.vjp", [np.array(x), one], 2)[1]
        s.expect(float(got) == want, "a choice at %r: %r" % (x, got))
    x, v = rng.standard_normal(3), rng.standard_normal(3)
    got = run(s, program, "repeat.vjp.jvp", [x, one, v], 4)
    s.expect(np.allclose(got[1], 12 * x * x) and
             np.allclose(got[3], 24 * x * v), "a repeated array: %s" % got)
    xs, ws, us = (rng.standard_normal((3, *d)) for d in ((2, 3), (3, 4), (2, 4)))
    all_of = run(s, program, "product.vjp.vmap", [xs, ws, us], 3)
    for k in range(3):
        each = run(s, program, "product.vjp", [xs[k], ws[k], us[k]], 3)
        for a, b in zip(all_of, each):
            s.expect(np.allclose(a[k], b, rtol=1e-13), "a batch of gradients")
    xs = np.array([2., -1, 0, 5])
    got = run(s, program, "choice.vjp.vmap", [xs, np.ones(4)], 2)[1]
    s.expect(np.array_equal(got, [4, -1, -1, 10]), "a batch of choices: %s" % got)
    x, u = (rng.standard_normal((2, 3)) for _ in range(2))
    w = rng.standard_normal(3)
    got = run(s, program, "ruled.vmap.vjp", [x, w, u], 3)
    for a, want in zip(got, (x * w, u * w, 2 * u.sum(0))):
        s.expect(np.allclose(a, want), "a batch of a rule: %s, not %s" % (a, want))


def main(s):
    for test in (kinks, straight, packed, third, symmetric, split, again,
                 carried, calls, nested):
        try:
            test(s)
        except harness.Failure as error:
            s.expect(False, "%s: %s" % (test.__name__, error))


if __name__ == "__main__":
    harness.session(sys.argv[1], main)
