"""Cases for gradients.py: functions of one operation or a few, of random
shapes. KIND in a text stands for the element type."""
import os
import re

from harness import np
from ops import SHARDED

CASES = []
FOLDER = os.path.dirname(os.path.abspath(__file__))
OPS = os.path.join(FOLDER, "..", "..", "dialect", "ops.def")
ALL = ("f64", "f32", "f16", "bf16")


class Case:
    """A function: arguments as (array, hidden dimensions, kind), lines that
    give `result`, and its types. `covers`: operations."""

    def __init__(self, name, covers, rng, tolerance=1.0, kinds=ALL):
        self.name, self.covers, self.rng = name, covers, rng
        self.tolerance, self.kinds = tolerance, kinds
        self.arguments, self.lines, self.returns = [], [], []
        self.count, self.before = 0, ""
        self.tangents, self.cotangents = {}, []

    def argument(self, array, hide=(), kind="KIND"):
        """An array of floats, rounded so that every type has its values; or of
        integers."""
        shape = ["?" if i in hide else str(n)
                 for i, n in enumerate(np.shape(array))]
        text = "tensor<%s>" % "x".join(shape + [kind])
        if kind == "KIND":
            array = np.round(np.asarray(array) * 64) / 64
            self.tangents[len(self.arguments)] = self.random(np.shape(array))
        self.arguments.append((np.asarray(array), text, kind))
        return "%%x%d" % (len(self.arguments) - 1), text

    def random(self, shape):
        return np.round(self.rng.uniform(-1, 1, shape) * 32) / 32

    def input(self, shape, low=-2.0, high=2.0, hide=()):
        return self.argument(self.rng.uniform(low, high, shape), hide)

    def op(self, text):
        self.count += 1
        self.lines.append("  %%v%d = %s" % (self.count, text))
        return "%%v%d" % self.count

    def give(self, value, text, shape):
        """Returns a value. `shape`: its sizes."""
        self.returns.append((value, text))
        if "KIND" in text:
            self.cotangents.append(self.random(shape))

    def arrays(self, kind):
        out = []
        for array, _, own in self.arguments:
            if own == "KIND":
                array = array.astype("f8" if kind == "f64" else "f4")
            out.append(array)
        self.narrow(kind)
        return out

    def narrow(self, kind):
        wide = "f8" if kind == "f64" else "f4"
        self.tangents = {i: a.astype(wide) for i, a in self.tangents.items()}
        self.cotangents = [a.astype(wide) for a in self.cotangents]

    def text(self, kind):
        types = ", ".join(t for _, t in self.returns)
        text = "%sfunc.func @%s(%s) -> (%s) {\n%s\n  return %s : %s\n}\n" % (
            self.before, self.name,
            ", ".join("%%x%d: %s" % (i, t)
                      for i, (_, t, _) in enumerate(self.arguments)),
            types, "\n".join(self.lines),
            ", ".join(v for v, _ in self.returns), types)
        return text.replace("KIND", kind)


class Maker:
    def __init__(self, rng, turn):
        self.rng, self.turn, self.cases = rng, turn, []

    def new(self, name, *covers, **options):
        case = Case("%s_%d_%d" % (name, self.turn, len(self.cases)),
                    covers or (name,), self.rng, **options)
        self.cases.append(case)
        return case

    def shape(self, rank):
        return tuple(int(n) for n in self.rng.choice([1, 2, 3, 5, 8], rank))

    def hide(self, rank, part=0.3):
        return [i for i in range(rank) if self.rng.random() < part]


MAKERS = []


def maker(function):
    MAKERS.append(function)
    return function


def make(rng, turns):
    out = []
    for turn in range(turns):
        m = Maker(rng, turn)
        for function in MAKERS:
            function(m)
        out += m.cases
    return out


def missing_operations():
    """Operations with a derivative that no case covers, or without a word."""
    with open(OPS, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    covered = {c for case in make(np.random.default_rng(0), 1)
               for c in case.covers}
    out = []
    for name, columns in re.findall(r"^OP\((\w+),(.*?)\)\n(?=OP|\n)", text,
                                    re.S | re.M):
        word = re.search(r"DIFF\((\w+)", columns)
        if not word and "DIFF_BY" not in columns:
            out.append(name + " (DIFF is empty)")
        elif word and word.group(1) in ("zero", "refused"):
            continue
        elif name in SHARDED:
            continue  # shard_map.py
        elif name not in covered and name not in ("yield", "condition"):
            out.append(name)
    return out


# ---- element by element ------------------------------------------------------

# Functions of one operand, and where their arguments lie.
UNARY = {
    "exp": (-2, 2), "log": (.3, 3), "log1p": (-.6, 3), "rsqrt": (.3, 3),
    "sqrt": (.3, 3), "sin": (-3, 3), "cos": (-3, 3), "tan": (-1, 1),
    "acos": (-.8, .8), "atanh": (-.8, .8), "tanh": (-2, 2), "erf": (-2, 2),
    "sigmoid": (-4, 4), "silu": (-4, 4), "gelu": (-4, 4), "relu": (-2, 2),
    "abs": (-2, 2), "neg": (-2, 2)}


def away(rng, shape, low, high, kink=0.0):
    """Numbers that are not near a kink."""
    a = rng.uniform(low, high, shape)
    return np.where(np.abs(a - kink) < 0.05, a + 0.125, a)


@maker
def unary(m):
    for name, (low, high) in UNARY.items():
        for rank in (0, 2):
            c = m.new(name)
            dims = m.shape(rank)
            x, t = c.argument(away(m.rng, dims, low, high), m.hide(rank))
            c.give(c.op("nabla.%s %s : %s" % (name, x, t)), t, dims)
    c = m.new("gelu_tanh", "gelu")
    x, t = c.input((3, 4), -4, 4)
    c.give(c.op("nabla.gelu %s approximate = tanh : %s" % (x, t)), t, (3, 4))
    c = m.new("relu_empty", "relu")
    x, t = c.input((0, 3), hide=(0,))
    c.give(c.op("nabla.relu %s : %s" % (x, t)), t, (0, 3))


@maker
def binary(m):
    ranges = {"add": None, "sub": None, "mul": None, "div": (.5, 2),
              "pow": (.3, 2), "maximum": None, "minimum": None, "mod": (.7, 2)}
    for name, span in ranges.items():
        c = m.new(name)
        dims = m.shape(2)
        low, high = span or (-2, 2)
        a = m.rng.uniform(low, high, dims)
        b = m.rng.uniform(low, high, dims)
        if name in ("maximum", "minimum"):
            b = np.where(np.abs(a - b) < .05, b + .125, b)
        if name == "mod":
            near = np.abs(a / b - np.rint(a / b)) < .1
            a = np.where(near, a + .25 * b, a)
        x, t = c.argument(a, m.hide(2))
        y, s = c.argument(b, m.hide(2))
        joined = "tensor<%s>" % "x".join(
            q if p == "?" else p for p, q in zip(
                t[7:-1].split("x"), s[7:-1].split("x")))
        c.give(c.op("nabla.%s %s, %s : %s, %s" % (name, x, y, t, s)), joined,
               dims)
    c = m.new("square", "mul")  # one value in both places
    x, t = c.input((3, 4))
    y = c.op("nabla.mul %s, %s : %s, %s" % (x, x, t, t))
    c.give(c.op("nabla.mul %s, %s : %s, %s" % (y, x, t, t)), t, (3, 4))


@maker
def choices(m):
    c = m.new("select")
    dims = m.shape(2)
    p, pt = c.argument(m.rng.random(dims) < .5, kind="i1")
    x, t = c.input(dims, hide=m.hide(2))
    y, s = c.input(dims)
    c.give(c.op("nabla.select %s, %s, %s : %s, %s, %s" % (p, x, y, pt, t, s)),
           s, dims)
    c = m.new("convert")
    x, t = c.input((4, 3), hide=m.hide(2))
    wide = t.replace("KIND", "f64")
    y = c.op("nabla.convert %s : %s -> %s" % (x, t, wide))
    y = c.op("nabla.exp %s : %s" % (y, wide))
    c.give(c.op("nabla.convert %s : %s -> %s" % (y, wide, t)), t, (4, 3))
    c = m.new("zeros", "compare")  # through operations whose derivative is 0
    x, t = c.input((6,))
    y = c.op("nabla.floor %s : %s" % (x, t))
    p = c.op("nabla.compare lt %s, %s : %s, %s" % (x, y, t, t))
    q = c.op("nabla.convert %s : tensor<6xi1> -> %s" % (p, t))
    y = c.op("nabla.add %s, %s : %s, %s" % (y, q, t, t))
    c.give(c.op("nabla.mul %s, %s : %s, %s" % (x, y, t, t)), t, (6,))
    c = m.new("unused", "add")
    x, t = c.input((3,))
    y, s = c.input((2, 2))
    c.give(c.op("nabla.neg %s : %s" % (x, t)), t, (3,))


# ---- shapes ------------------------------------------------------------------


def tensor(dims):
    return "tensor<%s>" % "x".join(
        ["?" if d is None else str(d) for d in dims] + ["KIND"])


def shown(dims, hide):
    return [None if i in hide else d for i, d in enumerate(dims)]


@maker
def moves(m):
    c = m.new("transpose")
    dims, order = m.shape(3), [int(i) for i in m.rng.permutation(3)]
    hide = m.hide(3)
    x, t = c.input(dims, hide=hide)
    out = [dims[i] for i in order]
    c.give(c.op("nabla.transpose %s permutation = %s : %s" % (x, order, t)),
           tensor([None if i in hide else dims[i] for i in order]), out)
    c = m.new("reshape")
    x, t = c.input((4, 6), hide=m.hide(1))
    head = "?" if "?" in t else "4"
    c.give(c.op("nabla.reshape %s : %s -> tensor<%sx2x3xKIND>" % (x, t, head)),
           "tensor<%sx2x3xKIND>" % head, (4, 2, 3))
    c = m.new("flip")
    dims = m.shape(3)
    hide = m.hide(3)
    x, t = c.input(dims, hide=hide)
    c.give(c.op("nabla.flip %s dims = [0, 2] : %s" % (x, t)), t, dims)
    c = m.new("cumsum")
    dims = m.shape(2)
    x, t = c.input(dims, hide=m.hide(2))
    c.give(c.op("nabla.cumsum %s dim = %d : %s" % (
        x, int(m.rng.integers(2)), t)), t, dims)


def sizes(c, like, text, dims, shape):
    """sizes(...) of what is `?` in `shape`, from dimensions of a value."""
    out = []
    for d, name in zip(dims, shape):
        if name is None:
            at = c.op("arith.constant %d : index" % d)
            out.append(c.op("tensor.dim %s, %s : %s" % (like, at, text)))
    return " sizes(%s)" % ", ".join(out) if out else ""


@maker
def broadcasts(m):
    for hidden in (False, True):
        # 1 x n and new dimensions, in another order
        c = m.new("broadcast_in_dim")
        x, t = c.input((3, 1), hide=(0,) if hidden else ())
        like, lt = c.input((4, 3, 5), hide=(0, 1, 2) if hidden else ())
        to = [None] * 3 if hidden else [4, 3, 5]
        s = sizes(c, like, lt, range(3), to)
        y = c.op("nabla.broadcast_in_dim %s dims = [1, 2]%s : %s -> %s" % (
            x, s, t, tensor(to)))
        c.give(c.op("nabla.mul %s, %s : %s, %s" % (y, like, tensor(to), lt)),
               tensor(to), (4, 3, 5))
    for n in (1, 4, 0):  # a size that only the run knows is 1, or is not
        c = m.new("broadcast_unknown", "broadcast_in_dim")
        x, t = c.input((n, 2), hide=(0,))
        most = 4 if n == 1 else n
        like, lt = c.input((most, 2, 3), hide=(0,))
        s = sizes(c, like, lt, [0], [None])
        y = c.op("nabla.broadcast_in_dim %s dims = [0, 1]%s : %s -> "
                 "tensor<?x2x3xKIND>" % (x, s, t))
        c.give(y, "tensor<?x2x3xKIND>", (most, 2, 3))
    c = m.new("broadcast_scalar", "broadcast_in_dim")
    x, t = c.input(())
    c.give(c.op("nabla.broadcast_in_dim %s dims = [] : %s -> tensor<2x3xKIND>"
                % (x, t)), "tensor<2x3xKIND>", (2, 3))


@maker
def slices(m):
    for hidden in (False, True):
        hide = (0,) if hidden else ()
        c = m.new("slice")
        x, t = c.input((7, 6), hide=hide)
        c.give(c.op("nabla.slice %s starts = [1, 2] limits = [-1, 5] strides = "
                    "[2, 1] : %s" % (x, t)),
               tensor([None if hidden else 3, 3]), (3, 3))
        c = m.new("slice_plain", "slice")
        x, t = c.input((7, 6), hide=hide)
        c.give(c.op("nabla.slice %s starts = [1, 0] limits = [4, -1] : %s" % (
            x, t)), tensor([3, 6]), (3, 6))
        for start in (1, 6):  # the second box is moved inside
            c = m.new("dynamic_slice")
            x, t = c.input((7, 6), hide=hide)
            i, it = c.argument(np.array(start), kind="i64")
            c.give(c.op("nabla.dynamic_slice %s at(%s, %s : %s, %s) : %s -> "
                        "tensor<3x2xKIND>" % (x, i, i, it, it, t)),
                   "tensor<3x2xKIND>", (3, 2))
            c = m.new("dynamic_update_slice")
            x, t = c.input((7, 6), hide=hide)
            y, s = c.input((3, 2))
            i, it = c.argument(np.array(start), kind="i64")
            c.give(c.op("nabla.dynamic_update_slice %s, %s at(%s, %s : %s, %s) "
                        ": %s, %s" % (x, y, i, i, it, it, t, s)), t, (7, 6))
    c = m.new("split")
    x, t = c.input((3, 7), hide=(0,))
    c.lines.append("  %%a, %%b, %%d = nabla.split %s dim = 1 sizes = [2, 4, 1] "
                   ": %s" % (x, t))
    c.give("%a", "tensor<?x2xKIND>", (3, 2))
    c.give("%d", "tensor<?x1xKIND>", (3, 1))


@maker
def joins(m):
    for hidden in (False, True):
        c = m.new("concatenate")
        parts = [c.input((n, 3), hide=(0,) if hidden and i else ())
                 for i, n in enumerate((2, 3, 1))]
        c.give(c.op("nabla.concatenate %s dim = 0 : %s" % (
            ", ".join(v for v, _ in parts), ", ".join(t for _, t in parts))),
            tensor([None if hidden else 6, 3]), (6, 3))
    c = m.new("stack")
    parts = [c.input((2, 3), hide=m.hide(2)) for _ in range(2)]
    dims = [b if a == "?" else a for a, b in zip(
        parts[0][1][7:-1].split("x"), parts[1][1][7:-1].split("x"))]
    c.give(c.op("nabla.stack %s dim = 1 : %s" % (
        ", ".join(v for v, _ in parts), ", ".join(t for _, t in parts))),
        "tensor<%sx2x%sxKIND>" % (dims[0], dims[1]), (2, 2, 3))
    for low, high, interior, shape in (
            ([0, 1], [0, 2], [1, 0], (3, 6)), ([-1, 1], [2, -1], [0, 2], (3, 7)),
            ([1, -1], [-1, 0], [2, 0], (4, 2))):
        for n, hidden in ((2, False), (2, True)):
            c = m.new("pad")
            x, t = c.input((n, 3), hide=(0,) if hidden else ())
            v, vt = c.input(())
            c.give(c.op("nabla.pad %s, %s low = %s high = %s interior = %s : %s,"
                        " %s" % (x, v, low, high, interior, t, vt)),
                   tensor([None if hidden else shape[0], shape[1]]), shape)


# ---- gather and scatter ------------------------------------------------------

ROWS = "offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1"


@maker
def gathers(m):
    for hidden in (False, True):
        c = m.new("gather")  # -3 and 9 are moved inside
        x, t = c.input((5, 4), hide=(0,) if hidden else ())
        i, it = c.argument(np.array([[1], [4], [1], [9], [-3]]), kind="i64")
        c.give(c.op("nabla.gather %s, %s %s sizes = [1, 4] : %s, %s" % (
            x, i, ROWS, t, it)), "tensor<5x4xKIND>", (5, 4))
        c = m.new("gather_boxes", "gather")
        x, t = c.input((5, 6), hide=(0, 1) if hidden else ())
        i, it = c.argument(np.array([[1, 2], [4, 5], [0, -1]], "i4"),
                           kind="i32")
        c.give(c.op("nabla.gather %s, %s offset_dims = [1, 2] index_map = "
                    "[0, 1] vector_dim = 1 sizes = [2, 3] : %s, %s" % (
                        x, i, t, it)), "tensor<3x2x3xKIND>", (3, 2, 3))
        for kind in ("add", "set"):  # 9 is dropped, 1 stands twice
            c = m.new("scatter")
            x, t = c.input((5, 4), hide=(0,) if hidden else ())
            i, it = c.argument(np.array([[1], [4], [1], [9], [-3]]),
                               hide=(0,) if hidden else (), kind="i64")
            u, ut = c.input((5, 4))
            c.give(c.op("nabla.scatter %s %s, %s, %s %s : %s, %s, %s" % (
                kind, x, i, u, ROWS, t, it, ut)), t, (5, 4))
    c = m.new("gather_batches", "gather")
    x, t = c.input((3, 5, 2))
    i, it = c.argument(np.array([[0, 4], [7, 1], [2, 2]]), kind="i64")
    c.give(c.op("nabla.gather %s, %s offset_dims = [2] collapsed_dims = [1] "
                "batching = [0] x [0] index_map = [1] vector_dim = 2 sizes = "
                "[1, 1, 2] : %s, %s" % (x, i, t, it)), "tensor<3x2x2xKIND>",
           (3, 2, 2))
    c = m.new("scatter_batches", "scatter")
    x, t = c.input((3, 5, 2))
    i, it = c.argument(np.array([[0, 4], [7, 1], [2, 2]]), kind="i64")
    u, ut = c.input((3, 2, 2))
    c.give(c.op("nabla.scatter set %s, %s, %s offset_dims = [2] collapsed_dims "
                "= [1] batching = [0] x [0] index_map = [1] vector_dim = 2 : "
                "%s, %s, %s" % (x, i, u, t, it, ut)), t, (3, 5, 2))


# ---- contractions ------------------------------------------------------------


@maker
def dots(m):
    for a, b, batch, over, out, hides in (
            ((4, 5), (3, 5), "", ([1], [1]), (4, 3), (0,)),
            ((4, 5), (5, 3), "", ([1], [0]), (4, 3), ()),
            ((5,), (3, 5), "", ([0], [1]), (3,), ()),
            ((5,), (5,), "", ([0], [0]), (), (0,)),
            ((3,), (4,), "", ([], []), (3, 4), ()),
            ((2, 4, 5), (2, 5, 3), " batching = [0] x [0]", ([2], [1]),
             (2, 4, 3), (0, 1)),
            ((4, 2, 5), (3, 5, 2), " batching = [1] x [2]", ([2], [1]),
             (2, 4, 3), ()),
            ((2, 3, 4), (4, 3, 5), "", ([1, 2], [1, 0]), (2, 5), ())):
        c = m.new("dot_general")
        x, t = c.input(a, hide=hides)
        y, s = c.input(b)
        dims = list(out)
        for h in hides:  # they stay in front
            if len(out) > h and not batch:
                dims[h] = None
        if batch and hides:
            dims[1] = None
        c.give(c.op("nabla.dot_general %s, %s%s contracting = %s x %s : %s, %s"
                    % (x, y, batch, *over, t, s)), tensor(dims), out)
    c = m.new("linear")
    x, t = c.input((3, 4), hide=(0,))
    w, wt = c.input((5, 4))
    b, bt = c.input((5,))
    c.give(c.op("nabla.linear %s, %s, %s : %s, %s, %s" % (x, w, b, t, wt, bt)),
           "tensor<?x5xKIND>", (3, 5))


@maker
def convolutions(m):
    for x, k, text, out in (
            ((2, 3, 6, 5), (4, 3, 3, 2), "", (2, 4, 4, 4)),
            ((1, 3, 7, 6), (4, 3, 3, 3),
             "strides = [2, 1] low = [1, 0] high = [1, 2]", (1, 4, 4, 6)),
            ((2, 4, 6, 6), (6, 2, 2, 3), "strides = [1, 2] low = [-1, 2] "
             "high = [2, 0] input_dilation = [2, 1] kernel_dilation = [1, 2] "
             "groups = 2", (2, 6, 11, 2)),
            ((2, 5, 6), (3, 2, 6), "strides = [2] input_dims = [0, 2, 1] "
             "kernel_dims = [0, 2, 1] output_dims = [2, 0, 1]", (3, 2, 2))):
        c = m.new("conv_general", tolerance=2.0)
        a, t = c.input(x)
        b, s = c.input(k)
        c.give(c.op("nabla.conv_general %s, %s %s : %s, %s" % (
            a, b, text, t, s)), tensor(out), out)


@maker
def pools(m):
    for kind in ("sum", "max", "min", "avg"):
        for text, out in (
                ("window = [1, 2, 2] strides = [1, 2, 2]", (2, 3, 2)),
                ("window = [1, 3, 2] strides = [1, 2, 1] dilation = [1, 1, 2] "
                 "low = [0, 1, 1] high = [0, 1, 0]", (2, 3, 4)),
                ("window = [1, 2, 3] low = [0, -1, 0] high = [0, 0, -1]%s" % (
                    " count_padding" if kind == "avg" else ""), (2, 4, 2))):
            c = m.new("pool")
            x, t = c.argument(m.rng.permutation(60).reshape(2, 6, 5) / 16,
                              hide=(0,))
            c.give(c.op("nabla.pool %s %s %s : %s" % (kind, x, text, t)),
                   tensor([None, *out[1:]]), out)


# ---- along dimensions --------------------------------------------------------


@maker
def reductions(m):
    for kind in ("sum", "mean", "max", "min", "prod"):
        for dims, keep in (([1], ""), ([0, 2], " keep_dims"), ([], "")):
            c = m.new("reduce", tolerance=4.0)
            a = m.rng.permutation(24).reshape(2, 3, 4) / 16 + .25
            x, t = c.argument(a, hide=m.hide(3))
            have = [None if d == "?" else int(d)
                    for d in t[7:-1].split("x")[:-1]]
            out = [1 if i in dims else d for i, d in enumerate((2, 3, 4))
                   if keep or i not in dims]
            shape = [1 if i in dims else d for i, d in enumerate(have)
                     if keep or i not in dims]
            c.give(c.op("nabla.reduce %s %s dims = %s%s : %s" % (
                kind, x, dims, keep, t)), tensor(shape), out)
    c = m.new("reduce_empty", "reduce")
    x, t = c.input((0, 3), hide=(0,))
    c.give(c.op("nabla.reduce sum %s dims = [0] : %s" % (x, t)),
           "tensor<3xKIND>", (3,))
    c = m.new("reduce_products", "reduce")  # one zero, two zeros
    x, t = c.argument(np.array([[1., 0, 2], [0, 3, 0], [2, 3, 4]]))
    c.give(c.op("nabla.reduce prod %s dims = [1] : %s" % (x, t)),
           "tensor<3xKIND>", (3,))
    for name in ("softmax", "log_softmax"):
        c = m.new(name)
        x, t = c.input((3, 4), hide=m.hide(2))
        c.give(c.op("nabla.%s %s dim = %d : %s" % (
            name, x, int(m.rng.integers(2)), t)), t, (3, 4))
    for keep in ("", " keep_dims"):
        c = m.new("logsumexp")
        x, t = c.input((3, 4), hide=(0,))
        c.give(c.op("nabla.logsumexp %s dim = 1%s : %s" % (x, keep, t)),
               tensor([None, 1] if keep else [None]), (3, 1) if keep else (3,))


@maker
def composites(m):
    c = m.new("rms_norm", tolerance=4.0)
    x, t = c.input((3, 8), hide=(0,))
    w, wt = c.input((8,))
    c.give(c.op("nabla.rms_norm %s, %s eps = 1.0e-2 : %s, %s" % (x, w, t, wt)),
           t, (3, 8))
    c = m.new("layer_norm", tolerance=4.0)
    x, t = c.input((3, 8))
    w, wt = c.input((8,))
    b, bt = c.input((8,))
    c.give(c.op("nabla.layer_norm %s, %s, %s eps = 1.0e-2 : %s, %s, %s" % (
        x, w, b, t, wt, bt)), t, (3, 8))
    for pairs in ("halves", "interleaved"):
        c = m.new("rope", tolerance=2.0)
        x, t = c.input((3, 2, 8), hide=(0,))
        c.give(c.op("nabla.rope %s %s dim = 0 offset = 2 : %s" % (pairs, x, t)),
               t, (3, 2, 8))
    c = m.new("linear_chain", "linear", "rms_norm", tolerance=4.0)
    x, t = c.input((3, 8), -1, 1, hide=(0,))
    w, wt = c.input((8, 8), -1, 1)
    n, nt = c.input((8,))
    for _ in range(2):
        x = c.op("nabla.linear %s, %s : %s, %s" % (x, w, t, wt))
        x = c.op("nabla.rms_norm %s, %s eps = 1.0e-2 : %s, %s" % (x, n, t, nt))
    c.give(x, t, (3, 8))
    for text in ("", " causal"):
        c = m.new("attention", tolerance=2.0)
        q, qt = c.input((4, 3, 8))
        k, kt = c.input((2, 5, 8))
        v, vt = c.input((2, 5, 8))
        c.give(c.op("nabla.attention %s, %s, %s%s : %s, %s, %s" % (
            q, k, v, text, qt, kt, vt)), "tensor<4x3x8xKIND>", (4, 3, 8))


# ---- implicit arrays, calls, control flow ------------------------------------


@maker
def implicit(m):
    # Rounding has no differences: tests/filecheck/vjp-packed.mlir and
    # gradients_packed.py have these two.
    m.new("quantize", "quantize", "materialize", kinds=())


@maker
def calls(m):
    c = m.new("call")
    c.before = ("func.func private @%s_inner(%%a: tensor<3x4xKIND>, %%b: "
                "tensor<4xKIND>) -> (tensor<3x4xKIND>, tensor<3xKIND>) {\n"
                "  %%c = nabla.broadcast_in_dim %%b dims = [1] : tensor<4xKIND> "
                "-> tensor<3x4xKIND>\n"
                "  %%d = nabla.mul %%a, %%c : tensor<3x4xKIND>, tensor<3x4xKIND>"
                "\n  %%e = nabla.tanh %%d : tensor<3x4xKIND>\n"
                "  %%f = nabla.reduce sum %%e dims = [1] : tensor<3x4xKIND>\n"
                "  return %%e, %%f : tensor<3x4xKIND>, tensor<3xKIND>\n}\n"
                % c.name)
    x, t = c.input((3, 4))
    b, bt = c.input((4,))
    for i in range(2):
        c.lines.append("  %%y%d:2 = func.call @%s_inner(%s, %s) : (%s, %s) -> "
                       "(%s, tensor<3xKIND>)" % (
                           i, c.name, "%y0#0" if i else x, b, t, bt, t))
    c.give("%y1#0", t, (3, 4))
    c.give("%y0#1", "tensor<3xKIND>", (3,))


@maker
def conds(m):
    for which in (0, 1, 2):
        c = m.new("cond")
        i, it = c.argument(np.array(which, "i4"), kind="i32")
        x, t = c.input((3, 4), hide=(0,))
        y, s = c.input((4,))
        c.lines.append("""  %%r, %%k = nabla.cond %s : %s -> %s, tensor<i32> {
    %%a = nabla.tanh %s : %s
    nabla.yield %%a, %s : %s, %s
  }, {
    nabla.yield %s, %s : %s, %s
  }, {
    %%a = nabla.reduce sum %s dims = [0] : %s
    %%b = nabla.mul %%a, %s : %s, %s
    %%z = arith.constant 0 : index
    %%n = tensor.dim %s, %%z : %s
    %%c = nabla.broadcast_in_dim %%b dims = [1] sizes(%%n) : %s -> %s
    nabla.yield %%c, %s : %s, %s
  }""" % (i, it, t, x, t, i, t, it, x, i, t, it, x, t, y, s, s, x, t, s, t, i, t,
                           it))
        c.give("%r", t, (3, 4))


@maker
def scans(m):
    for reverse in ("", "reverse"):
        for hidden in (False, True):
            c = m.new("scan")
            hide = (0,) if hidden else ()
            h, ht = c.input((4,), -1, 1)
            xs, xt = c.input((5, 4), -1, 1, hide=hide)
            w, wt = c.input((4, 4), -1, 1)
            out = tensor([None if hidden else 5, 4])
            c.lines.append("""  %%h, %%n, %%ys = nabla.scan init(%s, %%n0 : %s, tensor<i64>) over(%s : %s) %s
      -> %s, tensor<i64>, %s {
  ^bb0(%%s: %s, %%k: tensor<i64>, %%x: tensor<4xKIND>):
    %%a = nabla.dot_general %s, %%s contracting = [1] x [0] : %s, %s
    %%b = nabla.add %%a, %%x : %s, tensor<4xKIND>
    %%c = nabla.tanh %%b : %s
    %%f = nabla.convert %%k : tensor<i64> -> tensor<KIND>
    %%g = nabla.broadcast_in_dim %%f dims = [] : tensor<KIND> -> %s
    %%d = nabla.mul %%c, %%g : %s, %s
    %%one = nabla.constant dense<1> : tensor<i64>
    %%next = nabla.add %%k, %%one : tensor<i64>, tensor<i64>
    nabla.yield %%c, %%next, %%d : %s, tensor<i64>, %s
  }""" % (h, ht, xs, xt, reverse, ht, out, ht, w, wt, ht, ht, ht, ht, ht, ht, ht,
                ht))
            c.lines.insert(0, "  %n0 = nabla.constant dense<1> : tensor<i64>")
            c.give("%h", ht, (4,))
            c.give("%ys", out, (5, 4))
    c = m.new("scan_nested", "scan")
    h, ht = c.input((3,), -1, 1)
    w, wt = c.input((3,), -1, 1)
    c.lines.append("""  %%l = arith.constant 3 : index
  %%h = nabla.scan init(%s : %s) length(%%l) -> %s {
  ^bb0(%%s: %s):
    %%i = nabla.scan init(%%s : %s) length(%%l) -> %s {
    ^bb0(%%q: %s):
      %%a = nabla.mul %%q, %s : %s, %s
      %%b = nabla.sin %%a : %s
      nabla.yield %%b : %s
    }
    %%c = nabla.add %%i, %%s : %s, %s
    nabla.yield %%c : %s
  }""" % (h, ht, ht, ht, ht, ht, ht, w, ht, wt, ht, ht, ht, ht, ht))
    c.give("%h", ht, (3,))


import gradient_loops  # noqa: E402,F401  its cases
