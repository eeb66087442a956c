"""Sizes that the operations that move elements must refuse at run time, for
limits.py: rows of a name, the operands' shapes, all `?`, the operation with
operands {0}, {1} and their types {0t}, {1t}, its result's dimensions (None: a
`?`), shapes to refuse."""
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
            for key, value in names.items():
                text = text.replace("{%s}" % key, value)
            f.give(f.op(text.replace("%i", "%v1").replace("%p", "%v4")), tensor_type(out, "f32"),
                   None)
        for bad in refused:
            # composites are refused by what they are made of
            made = text.split()[0].endswith(("linear", "norm", "rope"))
            case(what, build, list(bad),
                 "do not agree" if made else text.split()[0])
