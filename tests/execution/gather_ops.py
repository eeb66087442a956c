"""Cases of gather and scatter on dense and implicit arrays, for ops.py; numpy's
side is the text of StableHLO, element by element."""
import harness
from harness import np, exact, tensor_type
import arrays
from arrays import values, hidden
from dense_ops import ALL
from implicit_dots import KINDS, storage_of
from math_ops import maximum
from shape_ops import Maker, known, give


class Numbers:
    """Random dimension numbers that fit an array of shape `dims`."""

    def __init__(self, rng, dims):
        rank = self.rank = len(dims)
        roles = [str(rng.choice(["box", "box", "collapsed", "batching"]))
                 for _ in range(rank)]
        roles = ["box" if d == 0 else r for r, d in zip(roles, dims)]
        self.collapsed = [i for i in range(rank) if roles[i] == "collapsed"]
        self.input_batching = [i for i in range(rank) if roles[i] == "batching"]
        self.box = [i for i in range(rank) if roles[i] == "box"]
        free = [int(i) for i in rng.permutation(rank)
                if roles[i] != "batching"]
        self.index_map = free[:int(rng.integers(len(free) + 1))]
        shape = [int(rng.integers(4)) for _ in range(rng.integers(3))]
        places = [int(i) for i in rng.permutation(
            len(shape) + len(self.input_batching))[:len(self.input_batching)]]
        for place, i in sorted(zip(places, self.input_batching)):
            shape.insert(place, None)
        rows = [i for i, d in enumerate(shape) if d is None]
        order = [int(i) for i in rng.permutation(len(rows))]
        self.indices_batching = [rows[i] for i in order]
        for row, i in zip(self.indices_batching, self.input_batching):
            shape[row] = dims[i]
        self.vector_dim = int(rng.integers(len(shape) + 1))
        if len(self.index_map) == 1 and rng.random() < 0.5:
            self.vector_dim = len(shape)  # places are numbers
            self.index_shape = tuple(shape)
        else:
            self.indices_batching = [i + (i >= self.vector_dim)
                                     for i in self.indices_batching]
            shape.insert(self.vector_dim, len(self.index_map))
            self.index_shape = tuple(shape)
        self.batch = [d for i, d in enumerate(self.index_shape)
                      if i != self.vector_dim]
        self.sizes = [1 if r != "box" else int(rng.integers(d + 1))
                      for r, d in zip(roles, dims)]
        rank_out = len(self.batch) + len(self.box)
        self.offset_dims = sorted(int(i) for i in rng.permutation(
            rank_out)[:len(self.box)])

    @classmethod
    def of_rows(cls, rng, dims):
        """Each index takes one row of a table, as embeddings do."""
        self = cls.__new__(cls)
        self.rank, self.collapsed, self.index_map = len(dims), [0], [0]
        self.input_batching, self.indices_batching = [], []
        self.box = list(range(1, self.rank))
        self.index_shape = tuple(
            int(n) for n in rng.integers(1, 9, rng.integers(1, 3)))
        self.vector_dim, self.batch = len(self.index_shape), list(self.index_shape)
        self.sizes = [1] + list(dims[1:])
        self.offset_dims = [len(self.batch) + i for i in range(self.rank - 1)]
        return self

    def text(self):
        out = "offset_dims = %s" % self.offset_dims
        if self.collapsed:
            out += " collapsed_dims = %s" % self.collapsed
        if self.input_batching:
            out += " batching = %s x %s" % (self.input_batching,
                                            self.indices_batching)
        return out + " index_map = %s vector_dim = %d" % (self.index_map,
                                                          self.vector_dim)

    def shape(self):
        """Of the result of a gather, and the updates of a scatter."""
        out, batch = [], list(self.batch)
        sizes = [self.sizes[i] for i in self.box]
        for i in range(len(batch) + len(sizes)):
            out.append(sizes.pop(0) if i in self.offset_dims else batch.pop(0))
        return out

    def elements(self, indices, dims, clamp):
        """(index of the result, index of the array), in row-major order."""
        for at in np.ndindex(*self.shape()):
            batch = [v for i, v in enumerate(at) if i not in self.offset_dims]
            inside = [v for i, v in enumerate(at) if i in self.offset_dims]
            full = [0] * self.rank
            for k, d in enumerate(self.index_map):
                place = list(batch)
                if self.vector_dim < len(self.index_shape):
                    place.insert(self.vector_dim, k)
                full[d] = int(indices[tuple(place)])
                if clamp:
                    full[d] = min(max(full[d], 0), dims[d] - self.sizes[d])
            for d, row in zip(self.input_batching, self.indices_batching):
                full[d] += batch[row - (row > self.vector_dim)]
            for d, offset in zip(self.box, inside):
                full[d] += offset
            yield at, tuple(full)


def some_indices(rng, numbers, dims):
    kind = "i64" if rng.random() < 0.5 else "i32"
    most = max(dims, default=1) + 3
    out = rng.integers(-3, most, numbers.index_shape).astype(
        harness.DTYPES[kind])
    if out.size and rng.random() < 0.3:
        edges = np.iinfo(out.dtype)
        out.flat[rng.integers(out.size)] = rng.choice([edges.min, edges.max])
    return out


def gathered(numbers, a, indices):
    out = np.empty(numbers.shape(), a.dtype)
    for at, full in numbers.elements(indices, a.shape, True):
        out[at] = a[full]
    return out


def result_dims(numbers, hide, index_hide, whole):
    """Those of the result that a program knows."""
    batch = [i for i in range(len(numbers.index_shape))
             if i != numbers.vector_dim]
    unknown = [i in index_hide for i in batch]
    box = [d in hide and d in whole for d in numbers.box]
    out = []
    for i, size in enumerate(numbers.shape()):
        side = box if i in numbers.offset_dims else unknown
        out.append(None if side.pop(0) else size)
    return out


def add_gather(make, f, dims, kind):
    rng = make.rng
    numbers = Numbers(rng, dims)
    a = values(rng, dims, kind, True)
    indices = some_indices(rng, numbers, dims)
    hide, index_hide = hidden(rng, len(dims)), hidden(rng, indices.ndim)
    x, x_type = f.argument(a, hide)
    i, i_type = f.argument(indices, index_hide)
    whole = [d for d in numbers.box if numbers.sizes[d] == dims[d]
             and rng.random() < 0.5]
    sizes = [-1 if d in whole else s for d, s in enumerate(numbers.sizes)]
    y = f.op("nabla.gather %s, %s %s sizes = %s : %s, %s" % (
        x, i, numbers.text(), sizes, x_type, i_type))
    give(f, y, result_dims(numbers, hide, index_hide, whole), kind,
         gathered(numbers, a, indices))


def change(how, old, new, kind):
    if how == "set":
        return new
    if kind == "i1":
        return {"add": old ^ new, "mul": old & new, "min": old & new,
                "max": old | new}[how]
    old, new = harness.widen(old), harness.widen(new)
    numpy = {"add": np.add, "mul": np.multiply,
             "min": lambda a, b: maximum(a, b, np.minimum),
             "max": lambda a, b: maximum(a, b, np.maximum)}[how]
    with np.errstate(all="ignore"):
        out = numpy(old, new)
    return harness.narrow(out, kind) if kind in harness.FLOATS else out


def scattered(numbers, how, a, indices, updates, kind):
    out = a.copy()
    for at, full in numbers.elements(indices, a.shape, False):
        if all(0 <= i < d for i, d in zip(full, a.shape)):
            out[full] = change(how, np.array(out[full]), np.array(updates[at]),
                               kind)
    return out


def add_scatter(make, f, dims, kind):
    rng = make.rng
    numbers = Numbers(rng, dims)
    how = str(rng.choice(["set", "add", "mul", "min", "max"]))
    a = values(rng, dims, kind, True)
    updates = values(rng, numbers.shape(), kind, True)
    indices = some_indices(rng, numbers, dims)
    hide = hidden(rng, len(dims))
    x, x_type = f.argument(a, hide)
    i, i_type = f.argument(indices, hidden(rng, indices.ndim))
    u, u_type = f.argument(updates, hidden(rng, updates.ndim))
    y = f.op("nabla.scatter %s %s, %s, %s %s : %s, %s, %s" % (
        how, x, i, u, numbers.text(), x_type, i_type, u_type))
    want = scattered(numbers, how, a, indices, updates, kind)
    f.give(y, tensor_type(known(dims, hide), kind),
           exact(want))


def rows_dense(make, kind):
    """Rows of a dense table by the kernel that copies them: lines, steps of
    four of them and ends of rows; loops where rows are short."""
    rng = make.rng
    f = make.new("rows_%s" % kind)
    for width, places in ((1, 70), (3, 70), (17, 300), (64, 65), (67, 70),
                          (1031, 5), (64, 0), (130, (2, 33)), (67, 1500)):
        a = values(rng, (9, width), kind, True)
        shape = places if isinstance(places, tuple) else (places,)
        index = "i64" if rng.random() < 0.5 else "i32"
        indices = rng.integers(-2, 11, shape).astype(harness.DTYPES[index])
        if indices.size:
            edges = np.iinfo(indices.dtype)
            indices.flat[0], indices.flat[-1] = edges.min, edges.max
        hide = [0] if rng.random() < 0.5 else []
        index_hide = hidden(rng, indices.ndim)
        x, x_type = f.argument(a, hide)
        i, i_type = f.argument(indices, index_hide)
        y = f.op("nabla.gather %s, %s offset_dims = [%d] collapsed_dims = [0] "
                 "index_map = [0] vector_dim = %d sizes = [1, %d] : %s, %s" % (
                     x, i, len(shape), len(shape), width, x_type, i_type))
        give(f, y, known(shape, index_hide) + [width], kind,
             a[np.clip(indices, 0, 8)])


def rows_past(make):
    """Results beyond the caches, which copies of rows and of runs store past
    them: rows of a table, and side by side with themselves."""
    f = make.new("rows_past")
    a = values(make.rng, (40, 4096), "f32", False)
    indices = make.rng.integers(-2, 42, 1100).astype(np.int32)
    (x, x_type), (i, i_type) = f.argument(a), f.argument(indices)
    y = f.op("nabla.gather %s, %s offset_dims = [1] collapsed_dims = [0] "
             "index_map = [0] vector_dim = 1 sizes = [1, 4096] : %s, %s" % (
                 x, i, x_type, i_type))
    kind = tensor_type((1100, 4096), "f32")
    y = f.op("nabla.concatenate %s, %s, %s dim = 1 : %s, %s, %s" % (
        y, y, y, kind, kind, kind))
    want = a[np.clip(indices, 0, 39)]
    give(f, y, (1100, 3 * 4096), "f32", np.concatenate([want] * 3, axis=1))


SHAPES = ((), (1,), (0,), (5,), (3, 0, 2), (4, 6), (3, 1, 5), (2, 3, 4, 2))


def add_dense(make, rounds):
    rows_past(make)
    for kind in ALL:
        rows_dense(make, kind)
        for add in (add_gather, add_scatter):
            f = make.new("%s_%s" % (add.__name__[4:], kind))
            for dims in SHAPES * rounds:
                add(make, f, dims, kind)


# ---- implicit arrays ----


def implicit_gather(make, f, q, op):
    rng, dims = make.rng, q.dense.shape
    numbers = Numbers(rng, dims)
    indices = some_indices(rng, numbers, dims)
    i, i_type = f.argument(indices, hidden(rng, indices.ndim))
    y = f.op("nabla.%s %s, %s %s sizes = %s : %s, %s" % (
        op, q.value, i, numbers.text(), numbers.sizes, q.type(), i_type))
    hide = [d for d, text in enumerate(i_type[len("tensor<"):-1].split("x"))
            if text == "?"]
    give(f, y, result_dims(numbers, [], hide, []), q.kind,
         gathered(numbers, q.dense, indices))


def implicit_rows(make, f, q, op):
    """Rows of a table: an embedding."""
    rng, (n, width) = make.rng, q.dense.shape
    tokens = rng.integers(-1, n + 1, (2, 3)).astype(np.int32)
    i, i_type = f.argument(tokens)
    y = f.op("nabla.%s %s, %s offset_dims = [2] collapsed_dims = [0] index_map "
             "= [0] vector_dim = 2 sizes = [1, %d] : %s, %s" % (
                 op, q.value, i, width, q.type(), i_type))
    give(f, y, (2, 3, width), q.kind, q.dense[np.clip(tokens, 0, n - 1)])


def implicit_scatter(make, f, q):
    rng, dims, kind = make.rng, q.dense.shape, q.kind
    numbers = Numbers(rng, dims)
    indices = some_indices(rng, numbers, dims)
    updates = values(rng, numbers.shape(), kind, True)
    i, i_type = f.argument(indices)
    u, u_type = f.argument(updates)
    y = f.op("nabla.scatter add %s, %s, %s %s : %s, %s, %s" % (
        q.value, i, u, numbers.text(), q.type(), i_type, u_type))
    give(f, y, dims, kind, scattered(numbers, "add", harness.plain(q.dense),
                                     indices, updates, kind))


def add_implicit(make, rounds):
    for spec in arrays.specs() + [arrays.Splat(0.375)]:
        ops = ("gather", "fused_gather") if spec.name != "splat" else ("gather",)
        for _ in range(rounds):
            kind = KINDS[len(make.functions) % 3]
            f = make.new("gather_%s" % spec)
            f.pairs += [(str(spec), op) for op in (*ops, "scatter")]
            q = arrays.implicit(f, make.rng, spec, storage_of(make.rng, spec),
                                kind, special=True)
            t = q.transpose([1, 0])
            for op in ops:
                implicit_rows(make, f, q, op)
                implicit_rows(make, f, t, op)
                implicit_gather(make, f, q, op)
                implicit_gather(make, f, t, op)
            implicit_scatter(make, f, t)


def cases(rng, rounds):
    make = Maker(rng, "g")
    add_dense(make, rounds)
    add_implicit(make, rounds)
    return make.functions
