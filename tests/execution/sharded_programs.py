"""Random programs with random annotations on several devices: each equals itself on
one rank.

usage: sharded_programs.py NABLA_RUN PROGRAMS
NABLA_TEST_SEED, which is printed, draws other programs."""
import os
import random
import re
import subprocess
import sys
import tempfile

import numpy as np

from sharded_ops import MESHES, draw_axes, sharding

SIZES = (3, 4, 5, 6, 8)
LARGE = (128, 256)  # exchanges of 64 KiB and more, which overlap with products


def tensor(shape, kind="f32"):
    return "tensor<%s%s>" % ("".join("%dx" % n for n in shape), kind)


class Program:
    """Arguments, then operations of values that are there; all are of rank 2."""

    def __init__(self, seed, mesh, steps=None, is_large=False):
        self.rng, self.np_rng = random.Random(seed), np.random.default_rng(seed)
        self.mesh, self.lines = mesh, []
        self.arguments, self.values = [], []
        self.sizes = LARGE if is_large else SIZES
        self.kinds = LARGE_STEPS if is_large else STEPS
        for _ in range(3):
            self.argument((self.rng.choice(self.sizes), self.rng.choice(self.sizes)))
        for _ in range(steps or self.rng.randint(4, 14)):
            self.step()
        self.given = self.values[-3:]

    def argument(self, shape):
        name = "x%d" % len(self.arguments)
        self.arguments.append((name, shape))
        self.values.append(("%" + name, shape))
        return self.values[-1]

    def emit(self, text, shape):
        name = "%%v%d" % len(self.lines)
        self.lines.append("%s = %s" % (name, text))
        self.values.append((name, shape))
        return name

    def other(self, shape):
        """A value of this shape."""
        same = [v for v in self.values if v[1] == shape]
        return self.rng.choice(same) if self.rng.random() < .8 and same else \
            self.argument(shape)

    def step(self):
        x, shape = self.rng.choice(self.values)
        getattr(self, self.rng.choice(self.kinds))(x, shape)
        if self.rng.random() < .3:
            x, shape = self.values[-1]
            self.emit("nabla.sharding_constraint %s : %s sharding = %s" % (
                x, tensor(shape), self.draw(shape)), shape)

    def draw(self, shape):
        return sharding(self.np_rng, draw_axes(self.np_rng, self.mesh, len(shape)))

    def unary(self, x, shape):
        op = self.rng.choice(("tanh", "sigmoid", "neg", "relu", "abs"))
        self.emit("nabla.%s %s : %s" % (op, x, tensor(shape)), shape)

    def binary(self, x, shape):
        y, _ = self.other(shape)
        op = self.rng.choice(("add", "sub", "maximum", "minimum"))
        self.emit("nabla.%s %s, %s : %s, %s" % (op, x, y, tensor(shape),
                                                tensor(shape)), shape)

    def linear(self, x, shape):
        w, w_shape = self.other((self.rng.choice(self.sizes), shape[1]))
        if self.rng.random() < .4:
            w = self.emit("nabla.reshard %s : %s sharding = %s" % (
                w, tensor(w_shape), self.draw(w_shape)), w_shape)
        y = self.emit("nabla.linear %s, %s : %s, %s" % (
            x, w, tensor(shape), tensor(w_shape)), (shape[0], w_shape[0]))
        self.emit("nabla.tanh %s : %s" % (y, tensor((shape[0], w_shape[0]))),
                  (shape[0], w_shape[0]))

    def transpose(self, x, shape):
        self.emit("nabla.transpose %s permutation = [1, 0] : %s" % (
            x, tensor(shape)), shape[::-1])

    def reshape(self, x, shape):
        count = shape[0] * shape[1]
        rows = self.rng.choice([d for d in range(1, count + 1) if not count % d])
        to = (rows, count // rows)
        self.emit("nabla.reshape %s : %s -> %s" % (x, tensor(shape), tensor(to)),
                  to)

    def along(self, x, shape):
        op = self.rng.choice(("softmax", "cumsum"))
        y = self.emit("nabla.%s %s dim = %d : %s" % (
            op, x, self.rng.randrange(2), tensor(shape)), shape)
        self.emit("nabla.tanh %s : %s" % (y, tensor(shape)), shape)

    def reduce(self, x, shape):
        dim = self.rng.randrange(2)
        kept = tuple(1 if d == dim else n for d, n in enumerate(shape))
        y = self.emit("nabla.reduce %s %s dims = [%d] keep_dims : %s" % (
            self.rng.choice(("sum", "max", "min", "mean")), x, dim,
            tensor(shape)), kept)
        self.emit("nabla.broadcast_in_dim %s dims = [0, 1] : %s -> %s" % (
            y, tensor(kept), tensor(shape)), shape)

    def slice(self, x, shape):
        dim = self.rng.randrange(2)
        limits = list(shape)
        limits[dim] = self.rng.randint(1, shape[dim])
        self.emit("nabla.slice %s starts = [0, 0] limits = %s : %s" % (
            x, limits, tensor(shape)), tuple(limits))

    def concatenate(self, x, shape):
        y, _ = self.other(shape)
        self.emit("nabla.concatenate %s, %s dim = 0 : %s, %s" % (
            x, y, tensor(shape), tensor(shape)), (2 * shape[0], shape[1]))

    def flip(self, x, shape):
        self.emit("nabla.flip %s dims = [%d] : %s" % (
            x, self.rng.randrange(2), tensor(shape)), shape)

    def gather(self, x, shape):
        rows = [self.rng.randrange(shape[0]) for _ in range(4)]
        at = self.emit("nabla.constant dense<%s> : tensor<4xi64>" % rows, None)
        self.values.pop()
        self.emit("nabla.gather %s, %s offset_dims = [1] collapsed_dims = [0] "
                  "index_map = [0] vector_dim = 1 sizes = [1, %d] : %s, "
                  "tensor<4xi64>" % (x, at, shape[1], tensor(shape)),
                  (4, shape[1]))

    def best(self, x, shape):
        at = self.emit("nabla.argmax %s dim = 0 keep_dims : %s" % (
            x, tensor(shape)), None)
        self.values.pop()
        kept = (1, shape[1])
        y = self.emit("nabla.convert %s : %s -> %s" % (
            at, tensor(kept, "i64"), tensor(kept)), kept)
        self.emit("nabla.broadcast_in_dim %s dims = [0, 1] : %s -> %s" % (
            y, tensor(kept), tensor(shape)), shape)

    def loop(self, x, shape):
        y, _ = self.other(shape)
        number = len(self.lines)
        t = tensor(shape)
        self.emit("nabla.scan init(%s : %s) over(%s : %s) -> %s {\n"
                  "^bb0(%%c%d: %s, %%s%d: tensor<%dxf32>):\n"
                  "  %%b%d = nabla.broadcast_in_dim %%s%d dims = [1] : "
                  "tensor<%dxf32> -> %s\n"
                  "  %%d%d = nabla.add %%c%d, %%b%d : %s, %s\n"
                  "  nabla.yield %%d%d : %s\n}" % (
                      x, t, y, t, t, number, t, number, shape[1], number,
                      number, shape[1], t, number, number, number, t, t,
                      number, t), shape)

    def layers(self, x, shape):
        """A scan over layers with stacked weights, which also gives each round's value;
        a value from outside is used in it."""
        n, k = shape
        rounds, number = self.rng.choice((2, 3)), len(self.lines)
        name = "x%d" % len(self.arguments)
        self.arguments.append((name, (rounds, k, k)))
        bias, _ = self.other(shape)
        t, w, y = tensor(shape), tensor((k, k)), tensor((rounds, n, k))
        i = str(number)
        self.lines.append(
            "%v{i}:2 = nabla.scan init({x} : {t}) over(%{name} : {all}) -> {t}, {y} {{\n"
            "^bb0(%c{i}: {t}, %s{i}: {w}):\n"
            "  %l{i} = nabla.linear %c{i}, %s{i} : {t}, {w}\n"
            "  %d{i} = nabla.add %l{i}, {bias} : {t}, {t}\n"
            "  %e{i} = nabla.tanh %d{i} : {t}\n"
            "  nabla.yield %e{i}, %l{i} : {t}, {t}\n}}".format(
                i=i, x=x, t=t, w=w, y=y, name=name, bias=bias,
                all=tensor((rounds, k, k))))
        self.values.append(("%%v%s#0" % i, shape))
        last = "%%v%s#1" % i
        self.emit("nabla.reshape %s : %s -> %s" % (
            last, y, tensor((rounds * n, k))), (rounds * n, k))

    def text(self, divided):
        arguments = []
        for name, shape in self.arguments:
            note = ""
            if divided and self.rng.random() < .7:
                note = ", nabla.sharding = " + self.draw(shape)
            arguments.append("%%%s: %s {nabla.name = \"%s\"%s}" % (
                name, tensor(shape), name, note))
        lines = list(self.lines)
        if not divided:
            lines = [re.sub("nabla.(sharding_constraint|reshard)", "nabla.stop_gradient",
                            line.split(" sharding = ")[0]) for line in lines]
        head = "nabla.mesh @m <[%s]>\n" % ", ".join(
            '"%s"=%d' % axis for axis in self.mesh) if divided else ""
        return "%sfunc.func @f(%s) -> (%s) {\n  %s\n  return %s : %s\n}\n" % (
            head, ", ".join(arguments),
            ", ".join(tensor(s) for _, s in self.given), "\n  ".join(lines),
            ", ".join(v for v, _ in self.given),
            ", ".join(tensor(s) for _, s in self.given))


STEPS = ("unary", "binary", "binary", "linear", "linear", "transpose", "reshape",
         "along", "reduce", "slice", "concatenate", "flip", "gather", "best",
         "loop", "layers")
LARGE_STEPS = ("linear", "linear", "linear", "unary", "binary", "transpose")


def check(tool, folder, seed, turn):
    mesh = MESHES[turn % len(MESHES)]
    p = Program(seed * 1000003 + turn, mesh, is_large=turn % 10 == 9)
    ranks = int(np.prod([size for _, size in mesh]))
    paths = [os.path.join(folder, n) for n in ("whole.mlir", "pieces.mlir")]
    for path, divided in zip(paths, (False, True)):
        with open(path, "w", encoding="utf-8") as file:
            file.write(p.text(divided))
    inputs, wants = [], [os.path.join(folder, "%d.npy" % i) for i in range(3)]
    for name, shape in p.arguments:
        inputs += ["-i", "%s=random:%s" % (name, "x".join(map(str, shape)))]
    runs = [[tool, paths[0], *inputs] + [w for o in wants for w in ("-o", o)],
            [tool, paths[1], *inputs, "--ranks", str(ranks), "--threads", "1",
             "--tolerance", "1e-4"] + [w for o in wants for w in ("--expect", o)]]
    for run in runs:
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        if done.returncode:
            with open(paths[1], encoding="utf-8") as file:
                raise SystemExit("seed %d, program %d: %s\n%s%s" % (
                    seed, turn, " ".join(run), file.read(),
                    done.stdout + done.stderr))


def main():
    tool, count = sys.argv[1], int(sys.argv[2])
    seed = int(os.environ.get("NABLA_TEST_SEED") or random.randrange(1 << 31))
    print("seed %d" % seed, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(count):
            check(tool, folder, seed, turn)
    print("%d divided programs equal those of one rank" % count)


if __name__ == "__main__":
    main()
