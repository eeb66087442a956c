"""Cases of operations with regions, for ops.py: cond, while, scan, calls, dense
and with implicit operands, carries, slices and results."""
import itertools

import harness
from harness import np, Function, exact, tensor_type
import arrays
from arrays import implicit, values, shape, hidden
from dense_ops import binary

f32 = np.float32
ALL = tuple(harness.DTYPES)
KINDS = ("f32", "f16", "bf16")
OPS = ("cond", "while", "scan", "yield", "condition", "remat", "barrier")


class Maker:
    def __init__(self, rng):
        self.rng, self.functions = rng, []

    def new(self, what):
        f = Flow("c%d_%s" % (len(self.functions), what))
        self.functions.append(f)
        return f


class Flow(Function):
    """A function with operations of several lines, and with callees."""

    def __init__(self, name):
        super().__init__(name)
        self.pairs, self.callees = [], []

    def region(self, results, text):
        """An op with regions; its results. Names in it are its own."""
        self.count += 1
        name = "%%v%d" % self.count
        self.lines.append("%s:%d = %s" % (name, results, text))
        return ["%s#%d" % (name, i) for i in range(results)]

    def text(self):
        return "".join(self.callees) + super().text()


def listed(values, types):
    return "%s : %s" % (", ".join(values), ", ".join(types))


def branch(given, types, lines=()):
    return "{\n%s  nabla.yield %s\n}" % (
        "".join("  %s\n" % line for line in lines), listed(given, types))


def scalar(f, number, kind):
    """A selector of a type, known at run time only."""
    if kind == "index":
        return f.size(number), kind
    bare = kind.replace("tensor<", "").replace(">", "")
    array = np.asarray(number, harness.DTYPES[bare])
    name, text = f.argument(array)
    if kind != bare:
        return name, text
    return f.op("tensor.extract %s[] : %s" % (name, text)), kind


# ---- dense -----------------------------------------------------------------------


def add_conds(make, rounds):
    rng = make.rng
    selectors = ["i1", "i32", "i64", "index", "tensor<i1>", "tensor<i32>",
                 "tensor<i64>"]
    for kind, dims in itertools.product(ALL, ((), (0,), shape(rng, 2))):
        f = make.new("cond_" + kind)
        a = values(rng, dims, kind, True)
        b = values(rng, dims, kind, True)
        x, x_type = f.argument(a)
        y, y_type = f.argument(b)
        for selector in rng.choice(selectors, 2 * rounds):
            count = 2 if "i1" in selector else int(rng.integers(1, 5))
            number = int(rng.integers(2) if "i1" in selector
                         else rng.integers(-2, count + 3))
            s, s_type = scalar(f, number, selector)
            all_of = [binary("add", a, b), binary("mul", a, b), a, b]
            texts = [branch(["%z"], [x_type], ["%%z = nabla.%s %s, %s : %s, %s"
                                               % (op, x, y, x_type, y_type)])
                     for op in ("add", "mul")]
            texts += [branch([x], [x_type]), branch([y], [x_type])]
            z, = f.region(1, "nabla.cond %s : %s -> %s %s" % (
                s, s_type, x_type, ", ".join(texts[:count])))
            taken = number if 0 <= number < count else count - 1
            if "i1" in selector:
                taken = 1 - number
            f.give(z, x_type, exact(all_of[taken]))


def add_whiles(make, rounds):
    """x + n y, counted by a tensor or by an index; a loop in a loop."""
    rng = make.rng
    for number, kind in enumerate(ALL):
        f = make.new("while_" + kind)
        for trips in (0, 1, int(rng.integers(2, 6)))[:1 + 2 * rounds]:
            dims = shape(rng, int(rng.integers(3)))
            a, b = (values(rng, dims, kind, True) for _ in range(2))
            hide = hidden(rng, len(dims))
            x, x_type = f.argument(a, hide)
            y, y_type = f.argument(b, hide)
            counted = "tensor<i64>" if number % 2 else "index"
            n, n_type = scalar(f, trips, counted)
            zero = f.op("arith.constant %s : %s" % (
                "dense<0>" if number % 2 else "0", n_type))
            one = f.op("arith.constant %s : %s" % (
                "dense<1>" if number % 2 else "1", n_type))
            text = loop(zero, x, n, one, n_type, x_type, [
                "%%c = nabla.add %%a, %s : %s, %s" % (y, x_type, y_type)])
            _, z = f.region(2, text)
            for _ in range(trips):
                a = binary("add", a, b)
            f.give(z, x_type, exact(a))


def add_bounded(make):
    """x + n y of at most `most` steps; remat, barriers."""
    rng = make.rng
    for most, trips in ((3, 5), (5, 3), (0, 2)):
        f = make.new("while_max_steps")
        a, b = (values(rng, (3,), "f32", True) for _ in range(2))
        x, x_type = f.argument(a)
        y, y_type = f.argument(b)
        n, n_type = scalar(f, trips, "index")
        zero, one = (f.op("arith.constant %d : index" % i) for i in (0, 1))
        text = loop(zero, x, n, one, n_type, x_type, [
            "%%c = nabla.add %%a, %s : %s, %s" % (y, x_type, y_type)])
        i, z = f.region(2, text.replace(" cond {", " max_steps = %d cond {" % most,
                                        1))
        steps = min(most, trips)
        for _ in range(steps):
            a = binary("add", a, b)
        f.give(z, x_type, exact(a))
        i = f.op("arith.index_cast %s : index to i64" % i)
        f.give(f.op("tensor.from_elements %s : tensor<i64>" % i), "tensor<i64>",
               exact(np.array(steps, np.int64)))
    for kind in ALL:
        f = make.new("remat_" + kind)
        a, b = (values(rng, (2, 3), kind, True) for _ in range(2))
        x, x_type = f.argument(a, (0,))
        y, y_type = f.argument(b)
        z, w = f.region(2, (
            "nabla.remat -> %s, %s {\n  %%p:2 = nabla.barrier %s, %s, %s : %s, %s,"
            " %s\n  %%c = nabla.add %%p#0, %%p#1 : %s, %s\n"
            "  nabla.yield %%c, %%p#0 : %s, %s\n}") % (
                y_type, x_type, x, y, x, x_type, y_type, x_type, x_type, y_type,
                y_type, x_type))
        f.give(z, y_type, exact(binary("add", a, b)))
        f.give(w, x_type, exact(a))


def loop(zero, start, n, one, n_type, x_type, lines, give="%c"):
    """nabla.while over a counter and a value; `lines` make `give` of %a."""
    test = "tensor<i1>" if n_type.startswith("tensor") else "i1"
    return (
        "nabla.while(%s, %s) : %s, %s cond {\n^bb0(%%i: %s, %%a: %s):\n"
        "  %%p = arith.cmpi slt, %%i, %s : %s\n"
        "  nabla.condition %%p, %%i, %%a : %s, %s, %s\n} do {\n"
        "^bb0(%%i: %s, %%a: %s):\n  %%j = arith.addi %%i, %s : %s\n%s"
        "  nabla.yield %%j, %s : %s, %s\n}" % (
            zero, start, n_type, x_type, n_type, x_type, n, n_type, test,
            n_type, x_type, n_type, x_type, one, n_type,
            "".join("  %s\n" % line for line in lines), give, n_type, x_type))


def sizes_of(f, value, type_text, dims):
    out = []
    for i in dims:
        at = f.op("arith.constant %d : index" % i)
        out.append(f.op("tensor.dim %s, %s : %s" % (value, at, type_text)))
    return out


def add_scans(make, rounds):
    """Running sums and products, forwards and back, of any length."""
    rng = make.rng
    for kind in ALL:
        f = make.new("scan_" + kind)
        for length in [0, 1, 4] + [int(rng.integers(7)) for _ in range(rounds)]:
            dims = shape(rng, int(rng.integers(3)), empty=rng.random() < 0.2)
            hide = hidden(rng, len(dims))
            steps = values(rng, (length, *dims), kind, True)
            more = values(rng, (length, *dims), kind, True)
            start = values(rng, dims, kind, True)
            x, x_type = f.argument(start, hide)
            where = [i + 1 for i in hide]
            xs, xs_type = f.argument(steps, where + [0] * int(rng.integers(2)))
            ys, ys_type = f.argument(more, where + [0] * int(rng.integers(2)))
            back = bool(rng.integers(2))
            out_type = xs_type if rng.integers(2) else ys_type
            sizes = sizes_of(f, x, x_type, hide)
            text = ", ".join(sizes + sizes)
            z = f.region(3, (
                "nabla.scan init(%s : %s) over(%s, %s : %s, %s) %s %s -> %s, "
                "%s, %s {\n^bb0(%%a: %s, %%x: %s, %%y: %s):\n"
                "  %%b = nabla.add %%a, %%x : %s, %s\n"
                "  %%c = nabla.mul %%b, %%y : %s, %s\n"
                "  nabla.yield %%b, %%c, %%b : %s, %s, %s\n}") % (
                    x, x_type, xs, ys, xs_type, ys_type,
                    "sizes(%s)" % text if text else "",
                    "reverse" if back else "", x_type, out_type, xs_type,
                    *[x_type] * 10))
            sums, products = np.array(steps), np.array(steps)
            for i in list(range(length))[::-1 if back else 1]:
                start = binary("add", start, steps[i])
                sums[i] = start
                products[i] = binary("mul", start, more[i])
            f.give(z[0], x_type, exact(start))
            f.give(z[1], out_type, exact(products))
            f.give(z[2], xs_type, exact(sums))


def add_counted(make):
    """Without inputs the length is an operand; a scan in a scan; a scan
    without carries; a cond in a scan."""
    rng = make.rng
    f = make.new("scan_counted")
    a = values(rng, (3,), "f32", True)
    x, x_type = f.argument(a, [0])
    for length in (0, 3):
        n = f.size(length)
        m, = sizes_of(f, x, x_type, [0])
        z = f.region(2, (
            "nabla.scan init(%s : %s) length(%s) sizes(%s) -> %s, tensor<?x?xf32>"
            " {\n^bb0(%%a: %s):\n  %%b = nabla.add %%a, %s : %s, %s\n"
            "  nabla.yield %%b, %%a : %s, %s\n}") % (
                x, x_type, n, m, x_type, x_type, x, *[x_type] * 4))
        rows, now = [], a
        for _ in range(length):
            rows.append(now)
            now = binary("add", now, a)
        f.give(z[0], x_type, exact(now))
        f.give(z[1], "tensor<?x?xf32>",
               exact(np.array(rows, f32).reshape(length, 3)))
    b = values(rng, (2, 5, 3), "f32", False)
    ys, ys_type = f.argument(b, [1])
    s_type, r_type = "tensor<3xf32>", "tensor<?x3xf32>"
    zero = f.op("arith.constant dense<0.0> : " + s_type)
    truth, t_type = f.argument(np.array([True, False]))
    z, = f.region(1, (
        "nabla.scan over(%s, %s : %s, %s) -> tensor<2x3xf32> {\n"
        "^bb0(%%r: %s, %%t: tensor<i1>):\n"
        "  %%s = nabla.scan init(%s : %s) over(%%r : %s) -> %s {\n"
        "  ^bb0(%%a: %s, %%x: %s):\n    %%b = nabla.add %%a, %%x : %s, %s\n"
        "    nabla.yield %%b : %s\n  }\n"
        "  %%d = nabla.cond %%t : tensor<i1> -> %s {\n    nabla.yield %%s : %s\n"
        "  }, {\n    %%m = nabla.mul %%s, %%s : %s, %s\n"
        "    nabla.yield %%m : %s\n  }\n  nabla.yield %%d : %s\n}") % (
            ys, truth, ys_type, t_type, r_type, zero, s_type, r_type,
            *[s_type] * 12))
    want = []
    for rows, keep in zip(b, (True, False)):
        now = np.zeros(3, f32)
        for row in rows:
            now = now + row
        want.append(now if keep else now * now)
    f.give(z, "tensor<2x3xf32>", exact(np.array(want, f32)))


# ---- implicit --------------------------------------------------------------------


def add_implicit(make, spec, rounds):
    for number in range(rounds):
        kind = KINDS[(number + len(make.functions)) % 3]
        add_choice(make, spec, kind)
        add_swap(make, spec, kind)
        add_layers(make, spec, kind)
        add_calls(make, spec, kind)
        add_kept(make, spec, kind)


def two(make, f, spec, kind):
    """Two packed arrays of one type, as views."""
    rng = make.rng
    storage = (int(rng.choice([1, 3, 16])), int(rng.choice([7, 16, 64])))
    out = [implicit(f, rng, spec, storage, kind, special=True)
           for _ in range(2)]
    return [q.transpose([1, 0]) for q in out] if rng.integers(2) else out


def add_choice(make, spec, kind):
    """One of two packed arrays, used outside and viewed inside."""
    f = make.new("%s_cond" % spec)
    f.pairs += [(str(spec), op) for op in ("cond", "yield")]
    a, b = two(make, f, spec, kind)
    t = a.transpose([1, 0])
    for truth in (False, True):
        p, p_type = scalar(f, truth, "tensor<i1>")
        turned = branch(["%t"], [t.type()], [
            "%%t = nabla.transpose %s permutation = [1, 0] : %s" % (
                b.value, b.type())])
        z, = f.region(1, "nabla.cond %s : %s -> %s %s, %s" % (
            p, p_type, t.type(), branch([t.value], [t.type()]), turned))
        d = f.op("nabla.materialize %s : %s" % (z, t.type()))
        f.give(d, t.tensor(), exact(harness.plain(
            (a if truth else b).dense.T)))


def add_swap(make, spec, kind):
    """Packed carries that change places, and one that never changes."""
    f = make.new("%s_while" % spec)
    f.pairs += [(str(spec), op) for op in ("while", "yield", "condition")]
    a, b = two(make, f, spec, kind)
    zero, one = (f.op("arith.constant %d : index" % i) for i in range(2))
    for trips in (0, 3):
        n, n_type = scalar(f, trips, "index")
        types = ", ".join([n_type] + [a.type()] * 3)
        takes = "%%i: index, %%a: %s, %%b: %s, %%c: %s" % ((a.type(),) * 3)
        z = f.region(4, (
            "nabla.while(%s, %s, %s, %s) : %s cond {\n^bb0(%s):\n"
            "  %%p = arith.cmpi slt, %%i, %s : index\n"
            "  nabla.condition %%p, %%i, %%a, %%b, %%c : i1, %s\n} do {\n"
            "^bb0(%s):\n  %%j = arith.addi %%i, %s : index\n"
            "  nabla.yield %%j, %%b, %%a, %%c : %s\n}") % (
                zero, a.value, b.value, a.value, types, takes, n, types, takes,
                one, types))
        for value, q in zip(z[1:], (b, a, a) if trips % 2 else (a, b, a)):
            d = f.op("nabla.materialize %s : %s" % (value, q.type()))
            f.give(d, q.tensor(), exact(harness.plain(q.dense)))


def add_requantized(make, spec):
    """A packed carry that each step makes anew; what it starts with is made of
    a tensor that is written before the loop and behind it."""
    rng = make.rng
    f = make.new("%s_requantized" % spec)
    shape_ = (3, spec.block or 20)
    codes, scales = arrays.components(rng, spec, shape_)
    codes[0] = scales[0] = 0
    q = implicit(f, rng, spec, shape_, given=(codes, scales))
    c_type = tensor_type(codes.shape, "i8")
    s_type = tensor_type(scales.shape, spec.scale)
    pair = f.region(2, "nabla.unpack %s : %s" % (q.value, q.type()))
    zero, two = (f.op("arith.constant %d : index" % i) for i in (0, 2))
    eleven = f.op("arith.constant 11 : i8")
    written = f.op("tensor.insert %s into %s[%s] : %s" % (eleven, pair[0], zero,
                                                          c_type))
    start = f.op("nabla.pack %s, %s : %s, %s -> %s" % (
        written, pair[1], c_type, s_type, q.type()))
    length = int(rng.integers(4))
    steps = rng.standard_normal((length, *shape_)).astype(f32)
    xs, xs_type = f.argument(steps, [0])
    x_type = q.tensor()
    z = f.region(2, (
        "nabla.scan init(%s, %s : %s, %s) over(%s : %s) -> %s, %s {\n"
        "^bb0(%%a: %s, %%b: %s, %%x: %s):\n"
        "  %%d = nabla.materialize %%a : %s\n"
        "  %%e = nabla.add %%d, %%x : %s, %s\n"
        "  %%q = nabla.quantize %%e : %s -> %s\n"
        "  nabla.yield %%q, %%a : %s, %s\n}") % (
            start, start, q.type(), q.type(), xs, xs_type, *[q.type()] * 4,
            x_type, q.type(), x_type, x_type, x_type, *[q.type()] * 3))
    spoiled = f.op("tensor.insert %s into %s[%s] : %s" % (eleven, written, two,
                                                          c_type))
    codes[0] = 11
    before = spec.decode(codes, scales, shape_)
    now = before
    for x in steps:
        before = now
        now = spec.decode(*spec.encode(now + x), shape_)
    for value, dense in ((z[0], now), (z[1], before)):
        d = f.op("nabla.materialize %s : %s" % (value, q.type()))
        f.give(d, x_type, exact(dense))
    late = codes.copy()
    late[2] = 11
    f.give(spoiled, c_type, exact(late.view(np.int8)))


def add_layers(make, spec, kind):
    """A packed array for each step, where slices are whole blocks: taken,
    carried to the next step, and stacked again. Else slices are tensors."""
    rng = make.rng
    f = make.new("%s_scan" % spec)
    f.pairs += [(str(spec), op) for op in ("scan", "yield")]
    block = spec.block or 16
    rows, length = (int(rng.choice([0, 1, 2, 3])) for _ in range(2))
    if not spec.block:
        rows, length = rows + 1, length + 1
    q = implicit(f, rng, spec, (length, rows, block), kind, special=True)
    first = implicit(f, rng, spec, (rows, block), kind, special=True)
    if rng.integers(2):  # slices that are views
        q, first = q.transpose([0, 2, 1]), first.transpose([1, 0])
    if spec.name != "splat" and not spec.block:
        z, = f.region(1, (
            "nabla.scan over(%s : %s) -> %s {\n^bb0(%%x: %s):\n"
            "  nabla.yield %%x : %s\n}") % (
                q.value, q.type(), q.tensor(), first.tensor(), first.tensor()))
        f.give(z, q.tensor(), exact(harness.plain(q.dense)))
        return
    back = int(rng.integers(2))
    z = f.region(3, (
        "nabla.scan init(%s : %s) over(%s : %s) %s -> %s, %s, %s {\n"
        "^bb0(%%a: %s, %%x: %s):\n  %%d = nabla.materialize %%x : %s\n"
        "  nabla.yield %%x, %%a, %%d : %s, %s, %s\n}") % (
            first.value, first.type(), q.value, q.type(),
            "reverse" if back else "", first.type(), q.type(), q.tensor(),
            *[first.type()] * 5, first.tensor()))
    order = [first.dense, *q.dense[::-1 if back else 1]]
    stacked = np.array(order[:-1] or q.dense)[::-1 if back else 1]
    for value, type_text, dense in ((z[0], first, order[-1]),
                                    (z[1], q, stacked)):
        d = f.op("nabla.materialize %s : %s" % (value, type_text.type()))
        f.give(d, type_text.tensor(), exact(harness.plain(dense)))
    f.give(z[2], q.tensor(), exact(harness.plain(q.dense)))


def add_calls(make, spec, kind):
    """Calls in calls, with packed arguments and results, from inside a scan."""
    f = make.new("%s_call" % spec)
    a, b = two(make, f, spec, kind)
    t = a.transpose([1, 0])
    f.callees.append(
        "func.func private @%s_pick(%%p: tensor<i1>, %%a: %s, %%b: %s) -> %s {\n"
        "  %%r = nabla.cond %%p : tensor<i1> -> %s %s, %s\n  return %%r : %s\n}\n"
        "func.func private @%s_turn(%%p: tensor<i1>, %%a: %s, %%b: %s) -> %s {\n"
        "  %%r = call @%s_pick(%%p, %%a, %%b) : (tensor<i1>, %s, %s) -> %s\n"
        "  %%t = nabla.transpose %%r permutation = [1, 0] : %s\n"
        "  return %%t : %s\n}\n" % (
            f.name, *[a.type()] * 4, branch(["%a"], [a.type()]),
            branch(["%b"], [a.type()]), a.type(),
            f.name, a.type(), a.type(), t.type(), f.name,
            *[a.type()] * 4, t.type()))
    truth = np.array([True, False, True])
    p, p_type = f.argument(truth, [0])
    out = "tensor<?x" + t.tensor()[len("tensor<"):]
    z, = f.region(1, (
        "nabla.scan over(%s : %s) -> %s {\n^bb0(%%p: tensor<i1>):\n"
        "  %%t = func.call @%s_turn(%%p, %s, %s) : (tensor<i1>, %s, %s) -> %s\n"
        "  %%d = nabla.materialize %%t : %s\n  nabla.yield %%d : %s\n}") % (
            p, p_type, out, f.name, a.value, b.value, a.type(), b.type(),
            t.type(), t.type(), t.tensor()))
    f.give(z, out, exact(np.array([(a if x else b).dense.T for x in truth])))
    f.callees.append(
        "func.func private @%s_round(%%n: index, %%a: %s, %%b: %s) -> (%s, %s) {"
        "\n  %%r:2 = nabla.scan init(%%a, %%b : %s, %s) length(%%n) -> %s, %s {\n"
        "  ^bb0(%%c: %s, %%d: %s):\n    nabla.yield %%d, %%c : %s, %s\n  }\n"
        "  return %%r#0, %%r#1 : %s, %s\n}\n" % (
            f.name, *[a.type()] * 14))
    for turns in (0, 3):
        n = f.size(turns)
        r = f.region(2, "func.call @%s_round(%s, %s, %s) : (index, %s, %s) -> "
                     "(%s, %s)" % (f.name, n, a.value, b.value,
                                   *[a.type()] * 4))
        for value, q in zip(r, (b, a) if turns % 2 else (a, b)):
            d = f.op("nabla.materialize %s : %s" % (value, q.type()))
            f.give(d, q.tensor(), exact(harness.plain(q.dense)))


def add_kept(make, spec, kind):
    """A packed array through a region and a barrier."""
    f = make.new("%s_remat" % spec)
    f.pairs += [(str(spec), op) for op in ("remat", "barrier", "yield")]
    a, b = two(make, f, spec, kind)
    z, = f.region(1, (
        "nabla.remat -> %s {\n  %%q = nabla.barrier %s, %s : %s, %s\n"
        "  nabla.yield %%q : %s\n}") % (
            a.type(), a.value, b.value, a.type(), b.type(), a.type()))
    d = f.op("nabla.materialize %s : %s" % (z, a.type()))
    f.give(d, a.tensor(), exact(harness.plain(a.dense)))


def cases(rng, rounds):
    make = Maker(rng)
    add_bounded(make)
    add_conds(make, rounds)
    add_whiles(make, rounds)
    add_scans(make, rounds)
    add_counted(make)
    for spec in arrays.specs() + [arrays.Splat(0.375)]:
        add_implicit(make, spec, rounds)
        if spec.name != "splat":
            add_requantized(make, spec)
    return make.functions
