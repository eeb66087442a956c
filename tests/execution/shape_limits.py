"""Sizes that the operations that move elements must refuse at run time, for
limits.py: rows of a name, the operands' shapes, all `?`, the operation with
operands {0}, {1} and their types {0t}, {1t}, its result's dimensions (None: a
`?`), shapes to refuse."""
import re

from harness import np, tensor_type

X = ((4, 6),)
ROWS = [
    ("slice beyond the end",
     X, "nabla.slice {0} starts = [1, 0] limits = [3, 6] : {0t}", (2, 6),
     [((2, 6),), ((4, 5),), ((0, 0),)]),
    ("slice from behind the end",
     X, "nabla.slice {0} starts = [3, 0] limits = [-1, -1] : {0t}",
     (None, None), [((2, 6),)]),
    ("dynamic_slice of too much",
     X, "nabla.dynamic_slice {0} at(%i, %i : index, index) : {0t} -> "
     "tensor<3x2xf32>", (3, 2), [((2, 6),), ((4, 1),)]),
    ("dynamic_update_slice of too much",
     ((4, 6), (2, 3)), "nabla.dynamic_update_slice {0}, {1} at(%i, %i : index, "
     "index) : {0t}, {1t}", (None, None), [((4, 6), (5, 3)),
                                           ((1, 6), (2, 3))]),
    ("concatenate", ((4, 6), (2, 6)),
     "nabla.concatenate {0}, {1} dim = 0 : {0t}, {1t}", (None, None),
     [((4, 6), (2, 5)), ((4, 0), (2, 1))]),
    ("stack", ((4, 6), (4, 6)), "nabla.stack {0}, {1} dim = 1 : {0t}, {1t}",
     (None, 2, None), [((4, 6), (4, 5)), ((4, 6), (3, 6))]),
    ("split", X, "nabla.split {0} dim = 1 sizes = [6] : {0t}", (None, 6),
     [((4, 7),), ((4, 5),)]),
    ("pad to less than nothing", ((4, 6), ()),
     "nabla.pad {0}, {1} low = [-2, 0] high = [-1, 0] : {0t}, {1t}",
     (None, None), [((2, 6), ())]),
    ("gather of too much", ((4, 6), (3,)),
     "nabla.gather {0}, %p offset_dims = [0, 1] index_map = [0, 1] vector_dim = "
     "0 sizes = [2, 3] : {0t}, tensor<?xi64>", (2, 3), [((1, 6), (3,)),
                                                      ((4, 2), (3,))]),
    ("scatter of too much", ((4, 6), (2, 3)),
     "nabla.scatter add {0}, %p, {1} offset_dims = [0, 1] index_map = [0, 1] "
     "vector_dim = 0 : {0t}, tensor<?xi64>, {1t}", (None, None),
     [((4, 6), (5, 3)), ((4, 2), (2, 3))]),
    ("conv_general of other features", ((2, 4, 9), (6, 2, 3)),
     "nabla.conv_general {0}, {1} groups = 2 : {0t}, {1t}", (None, None, None),
     [((2, 4, 9), (6, 3, 3)), ((2, 5, 9), (6, 2, 3)), ((2, 4, 9), (5, 2, 3)),
      ((2, 0, 9), (6, 2, 3))]),
    ("conv_general of less than nothing", ((2, 4, 9), (6, 4, 3)),
     "nabla.conv_general {0}, {1} low = [-3] high = [-1] : {0t}, {1t}",
     (None, None, None), [((2, 4, 3), (6, 4, 3))]),
    ("linear of another bias", ((2, 4), (3, 4), (3,)),
     "nabla.linear {0}, {1}, {2} : {0t}, {1t}, {2t}", (None, None),
     [((2, 4), (3, 4), (2,)), ((2, 4), (3, 5), (3,)), ((2, 4), (1, 4), (3,)),
      ((2, 4), (3, 4), (1,))]),
    ("rms_norm of another weight", ((2, 4), (4,)),
     "nabla.rms_norm {0}, {1} eps = 1.0e-5 : {0t}, {1t}", (None, None),
     [((2, 4), (3,)), ((2, 1), (4,)), ((2, 4), (1,))]),
    ("rope at other positions", ((2, 6), ()),
     "nabla.rope halves {0}, %p dim = 0 : {0t}, tensor<?xi64>", (None, None),
     [((3, 6), ()), ((1, 6), ())]),
    ("layer_norm of another bias", ((2, 4), (4,), (4,)),
     "nabla.layer_norm {0}, {1}, {2} eps = 1.0e-5 : {0t}, {1t}, {2t}",
     (None, None), [((2, 4), (4,), (3,)), ((2, 1), (1,), (4,))]),
    ("attention with another mask", ((3, 8), (6, 8), (3, 6)),
     "nabla.attention {0}, {1}, {1} mask({2} : {2t}) scale = 0.5 : {0t}, {1t}, "
     "{1t}", (None, None), [((3, 8), (6, 8), (1, 6)), ((3, 8), (6, 8), (3, 1)),
                            ((3, 8), (6, 8), (6, 3)), ((1, 8), (6, 8), (3, 6))]),
    ("attention with another mask of i1", ((3, 8), (6, 8), (3, 6)),
     "nabla.attention {0}, {1}, {1} mask({truth} : tensor<?x?xi1>) scale = 0.5 : "
     "{0t}, {1t}, {1t}", (None, None),
     [((3, 8), (6, 8), (1, 6)), ((3, 8), (6, 8), (3, 1))]),
    ("attention of more queries than the mask", ((1, 8), (6, 8)),
     "nabla.attention {0}, {1}, {1} mask({one} : tensor<1x?xf32>) scale = 0.5 : "
     "{0t}, {1t}, {1t}", (1, None), [((3, 8), (6, 8))]),
    ("pool of less than nothing", X,
     "nabla.pool max {0} window = [1, 1] low = [-2, -2] high = [0, -1] : {0t}",
     (None, None), [((1, 6),), ((4, 2),)]),
]


def add(case):
    """case(what, build, bad shapes, text) as in limits.py."""
    for what, shapes, text, out, refused in ROWS:
        def build(f, shapes=shapes, text=text, out=out):
            names = {}
            for i, shape in enumerate(shapes):
                x, x_type = f.argument(np.zeros(shape, np.float32),
                                       range(len(shape)))
                names[str(i)], names["%dt" % i] = x, x_type
            f.op("arith.constant 1 : index")
            f.op("tensor.from_elements %v1, %v1 : tensor<2xindex>")
            f.op("arith.index_cast %v2 : tensor<2xindex> to tensor<2xi64>")
            f.op("tensor.cast %v3 : tensor<2xi64> to tensor<?xi64>")
            if "{truth}" in text:
                names["truth"] = f.op("nabla.compare ge %s, %s : %s, %s" % (
                    names["2"], names["2"], names["2t"], names["2t"]))
            if "{one}" in text:
                names["one"] = f.op(
                    "nabla.reduce sum %s dims = [1] keep_dims : %s" % (
                        names["1"], names["1t"]))
                names["one"] = f.op("nabla.transpose %s permutation = [1, 0] : "
                                    "tensor<?x1xf32>" % names["one"])
            for key, value in names.items():
                text = text.replace("{%s}" % key, value)
            f.give(f.op(text.replace("%i", "%v1").replace("%p", "%v4")), tensor_type(out, "f32"),
                   None)
        for bad in refused:
            # composites are refused by what they are made of
            made = text.split()[0].endswith(
                ("linear", "norm", "rope", "attention"))
            case(what, build, list(bad),
                 "do not agree" if made else text.split()[0])


# A tensor<?x8xf32> that is computed from %x, of this type, in several ways; %d is
# its size. Upstream must not take the size of what it is added to for its own.
X8, M8 = "tensor<?x8xf32>", "tensor<4x8xf32>"
COMPUTED = {
    "neg": "%n = nabla.neg %x : X",
    "mul": "%n = nabla.mul %x, %x : X, X",
    "tanh": "%n = nabla.tanh %x : X",
    "arith": "%n = arith.negf %x : X",
    "cast": "%a = nabla.neg %x : X\n%b = tensor.cast %a : X to tensor<?x?xf32>\n"
            "%n = tensor.cast %b : tensor<?x?xf32> to X",
    "full": "%n = nabla.full 1.0 : f32 sizes(%d) -> X",
    "iota": "%n = nabla.iota dim = 0 sizes(%d) -> X",
    "uniform": "%s = nabla.constant dense<1> : tensor<i64>\n"
               "%n = nabla.uniform %s sizes(%d) : tensor<i64> -> X",
    "transpose": "%a = nabla.transpose %x permutation = [1, 0] : X\n"
                 "%n = nabla.transpose %a permutation = [1, 0] : tensor<8x?xf32>",
    "broadcast": "%a = nabla.reduce sum %x dims = [1] : X\n"
                 "%n = nabla.broadcast_in_dim %a dims = [0] sizes(%d) : "
                 "tensor<?xf32> -> X",
    "reshape": "%a = nabla.reshape %x : X -> tensor<?x2x4xf32>\n"
               "%n = nabla.reshape %a : tensor<?x2x4xf32> -> X",
    "slice": "%n = nabla.slice %x starts = [0, 0] limits = [-1, 8] : X",
    "pad": "%v = nabla.constant dense<0.0> : tensor<f32>\n"
           "%n = nabla.pad %x, %v low = [0, 0] high = [0, 0] : X, tensor<f32>",
    "concatenate": "%v = nabla.constant dense<0.0> : tensor<0x8xf32>\n"
                   "%n = nabla.concatenate %x, %v dim = 0 : X, tensor<0x8xf32>",
    "flip": "%n = nabla.flip %x dims = [0] : X",
    "convert": "%a = nabla.convert %x : X -> tensor<?x8xf64>\n"
               "%n = nabla.convert %a : tensor<?x8xf64> -> X",
    "select": "%c = nabla.compare lt %x, %x : X, X\n"
              "%n = nabla.select %c, %x, %x : tensor<?x8xi1>, X, X",
    "dot": "%w = nabla.constant dense<1.0> : tensor<8x8xf32>\n"
           "%n = nabla.dot_general %x, %w contracting = [1] x [1] : X, "
           "tensor<8x8xf32>",
    "packed": "%w = nabla.constant dense<1.0> : tensor<8x8xf32>\n"
              "%q = nabla.quantize %w : tensor<8x8xf32> -> Q\n"
              "%n = nabla.linear %x, %q : X, Q",
    "softmax": "%n = nabla.softmax %x dim = 1 : X",
    "cumsum": "%n = nabla.cumsum %x dim = 0 : X",
    "norm": "%n = nabla.rms_norm %x eps = 1.0e-5 : X",
    "gather": "%a = nabla.iota dim = 0 sizes(%d) -> tensor<?x1xi64>\n"
              "%n = nabla.gather %x, %a offset_dims = [1] collapsed_dims = [0] "
              "index_map = [0] vector_dim = 1 sizes = [1, 8] : X, tensor<?x1xi64>",
    "dynamic_slice": "%n = nabla.dynamic_slice %x at(%c0, %c0 : index, index) "
                     "sizes(%d) : X -> X",
    "update": "%n = nabla.dynamic_update_slice %x, %x at(%c0, %c0 : index, index)"
              " : X, X",
    "pool": "%n = nabla.pool max %x window = [1, 1] : X",
    "cond": "%p = nabla.constant dense<true> : tensor<i1>\n%n = nabla.cond %p : "
            "tensor<i1> -> X {\n%a = nabla.neg %x : X\nnabla.yield %a : X\n}, {\n"
            "nabla.yield %x : X\n}",
    "scan": "%h, %n = nabla.scan init(%z : tensor<8xf32>) over(%x : X) -> "
            "tensor<8xf32>, X {\n^bb0(%s: tensor<8xf32>, %e: tensor<8xf32>):"
            "\n%y = nabla.add %s, %e : tensor<8xf32>, tensor<8xf32>\n"
            "nabla.yield %y, %y : tensor<8xf32>, tensor<8xf32>\n}",
    "loop": "%n = scf.for %i = %c0 to %d step %d iter_args(%a = %x) -> (X) {\n"
            "%b = nabla.neg %a : X\nscf.yield %b : X\n}",
    "call": "%n = call @negated(%x) : (X) -> X",
}
ADDED = ("add %m, %n : M, X", "maximum %n, %m : X, M")


def computed_text():
    out = ["func.func private @negated(%x: X) -> X {\n%n = nabla.neg %x : X\n"
           "return %n : X\n}"]
    for name, made in COMPUTED.items():
        for i, added in enumerate(ADDED):
            out.append(
                "func.func @%s_%d(%%x: X, %%m: M) -> M {\n%%c0 = arith.constant 0 : "
                "index\n%%d = tensor.dim %%x, %%c0 : X\n%%z = nabla.constant "
                "dense<0.0> : tensor<8xf32>\n%s\n%%r = nabla.%s\nreturn %%r : M\n}"
                % (name, i, made, added))
    text = "\n".join(out)
    for short, long in (("X", X8), ("M", M8), (
            "Q", "!nabla.implicit<8x8xf32, #nabla.nf4<block = 16>>")):
        text = re.sub(r"(?<![\w.])%s(?!\w)" % short, long, text)
    return text


def check_computed(s, refuse):
    program, paths = s.write(computed_text()), []
    for rows in (3, 5, 4):
        paths.append(s.path(".npy"))
        np.save(paths[-1], np.ones((rows, 8), np.float32))
    for name in COMPUTED:
        for i in range(len(ADDED)):
            entry = "%s_%d" % (name, i)
            *bad, good = (s.start(program, "--entry", entry, "--input",
                                  "0=" + path, "--input", "1=" + paths[-1])
                          for path in paths)
            s.expect(good.returncode == 0, entry + ": " + good.stderr.decode())
            for done in bad:
                refuse(s, entry, done, (2, 5), "do not agree")
