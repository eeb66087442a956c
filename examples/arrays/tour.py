"""A tour of lazy arrays in Python: docs/PYTHON.md shows what it prints.

    pip install nabla-*.whl && python3 tour.py"""
import os
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: no NumPy")
    sys.exit(77)
import nabla as nb


def show(name, array):
    print("%-22s %s" % (name, " ".join("%g" % v for v in np.ravel(array.numpy()))))


def compute():
    """Operations are recorded, and compiled together when a value is needed."""
    x = nb.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    show("x - mean", x - x.mean(-1, keep_dims=True))
    print("%-22s %d" % ("x > 2, counted", (x > 2).sum().item()))
    show("x x^T", x @ x.T)
    show("columns 2, 0", x[:, [2, 0]])


@nb.function(donate={"w": "0"})
def step(w, x, y, rate):
    """Traced once; another rate compiles nothing, and w is updated in place."""
    error = x @ w - y
    return w - rate / 64 * (x.T @ error), nb.mean(error * error)


def train():
    x = nb.normal(42, (64, 3))
    y = (x @ np.array([[1.0], [-2.0], [0.5]], np.float32)).realize()
    w = nb.zeros((3, 1))
    for i in range(200):
        w, loss = step(w, x, y, 0.5 if i < 100 else 0.1)
    show("w after 200 steps", nb.round(w * 1000) / 1000)
    print("%-22s %d traced, %d found" % ("calls of step", step.statistics.signatures,
                                         step.statistics.hits))


def pack():
    """A packed weight is an array like any other; products decode it while they
    compute."""
    w = nb.normal(7, (256, 512))
    packed = nb.quantize(w, "nf4")
    print("%-22s %d bytes of %d" % ("w as nf4", packed.weight().nbytes, 4 * w.size))
    x = nb.uniform(7, (1, 512))
    exact, rounded = nb.linear(x, w), nb.linear(x, packed)
    error = nb.mse(rounded, exact) / nb.mse(exact, nb.zeros_like(exact))
    print("%-22s %.1f %%" % ("squared error of nf4", 100 * error.item()))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "w.safetensors")
        nb.save({"w": packed}, path)
        print("%-22s %s" % ("in the file", nb.Model(path)["w"]))


def flow():
    """Loops are operations, whose bodies are functions."""
    balance, history = nb.scan(lambda c, x: (c + x, c * x), 0.0,
                               np.array([1, 2, 3, 4], np.float32))
    show("sum, products", nb.concatenate([nb.reshape(balance, [1]), history]))


def share():
    """NumPy and others see the memory of an array, and the other way."""
    x = nb.from_dlpack(np.arange(3, dtype=np.float32))
    print("%-22s %s" % ("NumPy's view", np.from_dlpack(nb.exp(x) - 1).round(2)))
    try:
        x + np.ones(4, np.float32)
    except nb.InvalidArgument as error:
        print("%-22s %s" % ("an error", error))


for part in (compute, train, pack, flow, share):
    part()
