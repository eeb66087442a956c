"""Encodings that the program itself describes, through views, calls, carries and
slices of scans; and a rule of a file that computes with one packed.

usage: outside.py NABLA_RUN"""
import sys

import harness
from harness import np, Function, exact, close, tensor_type

f32, f64 = np.float32, np.float64
BLOCK = 8


class Outside(Function):
    """With a decode of its own: codes times the scale of their block."""

    def __init__(self, name, cut=BLOCK):
        super().__init__(name)
        self.decode, self.before = name + "_decode", []
        parts = ('["codes", i8, affine_map<(n) -> (n)>], '
                 '["scales", f32, affine_map<(n) -> (n ceildiv %d)>]' % BLOCK)
        self.encoding = ('#nabla.custom<"test.blocks", {components = [%s], '
                         "decode = @%s, cut = %d, anything = [1.5, \"x\"]}>" % (
                             parts, self.decode, cut))

    def type(self, shape):
        return "!nabla.implicit<%sxf32, %s>" % ("x".join(map(str, shape)),
                                                self.encoding)

    def packed(self, rng, shape):
        """An argument; its value, type and dense array."""
        count = int(np.prod(shape))
        codes = rng.integers(-128, 128, count).astype(np.int8)
        scales = rng.standard_normal(-(-count // BLOCK)).astype(f32)
        name = "%s_%d" % (self.name, len(self.arguments))
        self.arguments.append('%%%s: %s {nabla.name = "%s"}' % (
            name, self.type(shape), name))
        self.inputs[name + ".codes"] = codes
        self.inputs[name + ".scales"] = scales
        dense = codes.astype(f32) * np.repeat(scales, BLOCK)[:count]
        return "%" + name, self.type(shape), dense.reshape(shape)

    def text(self):
        return """func.func private @%s(%%codes: tensor<?xi8>,
    %%scales: tensor<?xf32>, %%at: index) -> f32 {
  %%block = arith.constant %d : index
  %%b = arith.divui %%at, %%block : index
  %%code = tensor.extract %%codes[%%at] : tensor<?xi8>
  %%scale = tensor.extract %%scales[%%b] : tensor<?xf32>
  %%wide = arith.sitofp %%code : i8 to f32
  %%v = arith.mulf %%wide, %%scale : f32
  return %%v : f32
}
%s""" % (self.decode, BLOCK, "".join(self.before)) + super().text()


def add_views(rng):
    f = Outside("views")
    q, t, dense = f.packed(rng, (6, 12))
    f.give(f.op("nabla.materialize %s : %s" % (q, t)), tensor_type((6, 12), "f32"),
           exact(dense))
    storage = "view<6x12, strides = [%s], offset = %d>"
    back = "!nabla.implicit<12x6xf32, %s, %s>" % (
        f.encoding, storage % ("1, 12", 0))
    a = f.op("nabla.transpose %s permutation = [1, 0] : %s" % (q, t))
    f.give(f.op("nabla.materialize %s : %s" % (a, back)),
           tensor_type((12, 6), "f32"), exact(dense.T))
    part = "!nabla.implicit<4x2xf32, %s, %s>" % (
        f.encoding, storage % ("2, 24", 27))
    b = f.op("nabla.slice %s starts = [3, 2] limits = [11, 6] strides = [2, 2] "
             ": %s" % (a, back))
    f.give(f.op("nabla.materialize %s : %s" % (b, part)),
           tensor_type((4, 2), "f32"), exact(dense.T[3:11:2, 2:6:2]))
    return f


def add_uses(rng):
    """Operations without a rule decode it; half as element type too."""
    f = Outside("uses")
    q, t, dense = f.packed(rng, (5, 9))
    f.give(f.op("nabla.relu %s : %s" % (q, t)), tensor_type((5, 9), "f32"),
           exact(np.maximum(dense, 0), signs=False))
    x, xt = f.argument(rng.standard_normal((3, 9)).astype(f32), (0,))
    wide = f.inputs[x[1:]].astype(f64) @ dense.T.astype(f64)
    sums = np.abs(f.inputs[x[1:]]).astype(f64) @ np.abs(dense.T).astype(f64)
    y = f.op("nabla.dot_general %s, %s contracting = [1] x [1] : %s, %s" % (
        x, q, xt, t))
    f.give(y, tensor_type((None, 5), "f32"),
           close(wide, (9 + 16) * 2.0 ** -24 * sums, "f32"))
    return f


def add_call(rng):
    f = Outside("calls")
    t = f.type((4, 8))
    f.before.append("func.func private @calls_callee(%%w: %s) -> (%s, "
                    "tensor<4x8xf32>) {\n  %%d = nabla.materialize %%w : %s\n"
                    "  return %%w, %%d : %s, tensor<4x8xf32>\n}\n" % (t, t, t, t))
    q, _, dense = f.packed(rng, (4, 8))
    f.count += 1
    f.lines.append("%%r:2 = func.call @calls_callee(%s) : (%s) -> (%s, "
                   "tensor<4x8xf32>)" % (q, t, t))
    f.give("%r#1", "tensor<4x8xf32>", exact(dense))
    f.give(f.op("nabla.materialize %%r#0 : %s" % t), "tensor<4x8xf32>",
           exact(dense))
    return f


def add_scan(rng):
    """One carried along, one sliced: h = h + slice + carried."""
    f = Outside("scans")
    w, wt, carried = f.packed(rng, (2, 8))
    ws, wst, sliced = f.packed(rng, (3, 2, 8))
    h = np.zeros((2, 8), f32)
    x, xt = f.argument(h)
    f.lines.append(
        "%%s:2 = nabla.scan init(%s, %s : %s, %s) over(%s : %s) -> %s, %s {\n"
        "  ^bb0(%%w: %s, %%h: %s, %%part: %s):\n"
        "    %%a = nabla.add %%h, %%part : %s, %s\n"
        "    %%b = nabla.add %%a, %%w : %s, %s\n"
        "    nabla.yield %%w, %%b : %s, %s\n  }" % (
            w, x, wt, xt, ws, wst, wt, xt, wt, xt, wt, xt, wt, xt, wt, wt, xt))
    for part in sliced:
        h = (h + part) + carried
    f.give("%s#1", xt, exact(h))
    f.give(f.op("nabla.materialize %%s#0 : %s" % wt), xt, exact(carried))
    return f


RULE = """
pdl.pattern @dot_blocks : benefit(1) {
  %tx = pdl.type
  %tw = pdl.type
  %name = pdl.attribute = "test.blocks"
  pdl.apply_native_constraint "nabla.has_encoding"(%tw, %name : !pdl.type, !pdl.attribute)
  pdl.apply_native_constraint "nabla.is_whole"(%tw : !pdl.type)
  %x = pdl.operand : %tx
  %w = pdl.operand : %tw
  %one = pdl.attribute = array<i64: 1>
  %ty = pdl.type
  %root = pdl.operation "nabla.dot_general"(%x, %w : !pdl.value, !pdl.value) {"lhs_contracting" = %one, "rhs_contracting" = %one} -> (%ty : !pdl.type)
  pdl.rewrite %root {
    %n0 = pdl.attribute = 0 : i64
    %n1 = pdl.attribute = 1 : i64
    %tc = pdl.apply_native_rewrite "nabla.component_type"(%tw, %n0 : !pdl.type, !pdl.attribute) : !pdl.type
    %ts = pdl.apply_native_rewrite "nabla.component_type"(%tw, %n1 : !pdl.type, !pdl.attribute) : !pdl.type
    %td = pdl.apply_native_rewrite "nabla.dense_type"(%tw : !pdl.type) : !pdl.type
    %parts = pdl.operation "nabla.unpack"(%w : !pdl.value) -> (%tc, %ts : !pdl.type, !pdl.type)
    %codes = pdl.result 0 of %parts
    %scales = pdl.result 1 of %parts
    %flat = pdl.type : tensor<40xf32>
    %c = pdl.operation "nabla.convert"(%codes : !pdl.value) -> (%flat : !pdl.type)
    %cv = pdl.result 0 of %c
    %m = pdl.operation "nabla.reshape"(%cv : !pdl.value) -> (%td : !pdl.type)
    %mv = pdl.result 0 of %m
    %d = pdl.operation "nabla.dot_general"(%x, %mv : !pdl.value, !pdl.value) {"lhs_contracting" = %one, "rhs_contracting" = %one} -> (%ty : !pdl.type)
    %dv = pdl.result 0 of %d
    %b = pdl.operation "nabla.broadcast_in_dim"(%scales : !pdl.value) {"dims" = %one} -> (%ty : !pdl.type)
    %bv = pdl.result 0 of %b
    %y = pdl.operation "nabla.mul"(%dv, %bv : !pdl.value, !pdl.value)
    pdl.replace %root with %y
  }
}
"""


def add_ruled(rng):
    """A block is a row: integers, then powers of two, so that it is exact."""
    f = Outside("ruled")
    q, t, dense = f.packed(rng, (5, 8))
    name = q[1:]
    scales = np.exp2(rng.integers(-3, 4, 5)).astype(f32)
    f.inputs[name + ".scales"] = scales
    x = rng.integers(-8, 9, (3, 8)).astype(f32)
    v, xt = f.argument(x)
    codes = f.inputs[name + ".codes"].reshape(5, 8).astype(f32)
    y = f.op("nabla.dot_general %s, %s contracting = [1] x [1] : %s, %s" % (
        v, q, xt, t))
    f.give(y, "tensor<3x5xf32>", exact((x @ codes.T) * scales))
    return f


def test(s):
    rng = np.random.default_rng(harness.seed())
    functions = [add_views(rng), add_uses(rng), add_call(rng), add_scan(rng)]
    s.run_all(functions, ["--policy", "off"])
    rules = s.path(".pdl.mlir")
    with open(rules, "w", encoding="utf-8") as file:
        file.write(RULE)
    # "error": nothing is materialized
    s.run_all([add_ruled(rng)], ["--policy", "error", "--rules", rules])
    done = s.start(s.write(add_uses(rng).text()), "--policy", "error")
    s.expect(b"would materialize 1 operand of #nabla.custom" in done.stderr,
             "the policy: " + done.stderr.decode())
    t = Outside("cut").type((2, 8))
    done = s.start(s.write("func.func @g(%%w: %s) -> tensor<2x8xf32> {\n"
                           "  %%d = nabla.materialize %%w : %s\n"
                           "  return %%d : tensor<2x8xf32>\n}\n" % (t, t)))
    s.expect(b"needs the function 'cut_decode', which decodes" in done.stderr,
             "no such function: " + done.stderr.decode())


harness.session(sys.argv[1], test)
