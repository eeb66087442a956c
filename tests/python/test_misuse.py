"""Misuse raises: no case crashes, and the next call works."""
import gc
import os
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np

import nabla as nb

F = np.float32
OUT = os.path.join(tempfile.gettempdir(), "nabla-misuse-out")
ones = np.ones


def packed():
    return nb.quantize_array(ones((64, 128), F), "nf4")


def closed(value):
    value.close()
    return value


def write(name, data):
    path = os.path.join(tempfile.mkdtemp(), name)
    with open(path, "wb") as file:
        file.write(data)
    return path


def emitted(args, path=OUT + ".so", **options):
    nb.function(lambda x: x + 1).emit(path, args, **options)


# What is done, and the class and a part of the text of the exception.
CASES = [
    (lambda: nb.Model("/nothing.safetensors"), nb.InputOutput, "nothing.safetensors"),
    (lambda: nb.Model(write("a.safetensors", b"")), nb.Error, "a.safetensors"),
    (lambda: nb.Model(write("b.safetensors", b"\xff" * 64)), nb.Error, "b.safetensors"),
    (lambda: nb.Model(os.curdir, "other"), nb.InvalidArgument, "one of map"),
    (lambda: nb.quantize_array(ones((2, 64), F), "nf5"), nb.InvalidArgument, "nf5"),
    (lambda: nb.quantize_array(ones((2, 64), F), "nf4", 63), nb.InvalidArgument, "63"),
    (lambda: nb.quantize_array(ones((2, 64), F), "nf4", scale="f99"), nb.Error, "f99"),
    (lambda: nb.quantize_array(np.full((2, 64), np.nan, F), "nf4"), nb.NotFinite, ""),
    (lambda: nb.quantize_array(["a", "b"], "nf4"), (nb.Error, TypeError), ""),
    (lambda: nb.quantize_array(ones((2, 64), complex), "nf4"), nb.Error, ""),
    (lambda: packed().rows(60, 5), nb.InvalidArgument, "64"),
    (lambda: packed().rows(-1, 1), nb.InvalidArgument, ""),
    (lambda: nb.MatmulPlan(ones((4, 4), F)), TypeError, "Weight"),
    (lambda: nb.MatmulPlan(packed(), ones(3, F)), nb.InvalidArgument, ""),
    (lambda: nb.MatmulPlan(packed(), numerics="f8"), nb.InvalidArgument, "f8"),
    (lambda: nb.MatmulPlan(packed(), provider="gpu"), nb.InvalidArgument, "gpu"),
    (lambda: nb.MatmulPlan(packed())(ones(127, F)), nb.InvalidArgument, "128"),
    (lambda: nb.MatmulPlan(packed())(ones(128)), nb.InvalidArgument, "float64"),
    (lambda: nb.MatmulPlan(packed())(ones(128, F), ones(63, F)), nb.InvalidArgument,
     "64"),
    (lambda: nb.MatmulPlan(packed(), m_max=2)(ones((3, 128), F)), nb.InvalidArgument,
     ""),
    (lambda: closed(nb.MatmulPlan(packed()))(ones(128, F)), nb.Closed, "plan"),
    (lambda: closed(nb.Pool(2)).threads, nb.Closed, "pool"),
    (lambda: nb.Pool(-1), ValueError, "-1"),
    (lambda: nb.Pool(100000), nb.InvalidArgument, ""),
    (lambda: nb.Program("/nothing.so"), nb.InputOutput, "nothing.so"),
    (lambda: nb.Program(write("c.so", b"\x7fELF" + bytes(200))), nb.Corrupt, "c.so"),
    (lambda: nb.quantize_file("/nothing", OUT), nb.InputOutput, "nothing"),
    (lambda: nb.array([[1.0], [2.0, 3.0]]), ValueError, ""),
    (lambda: nb.array("text"), (nb.Error, TypeError), ""),
    (lambda: nb.array(None), (nb.Error, TypeError), ""),
    (lambda: nb.array(1j), nb.Error, "complex"),
    (lambda: nb.array(np.ones(2, np.uint16)), nb.Unsupported, "U16"),
    (lambda: nb.array(np.zeros((1,) * 17, F)), nb.TooLarge, "17"),
    (lambda: nb.array(2 ** 70), nb.InvalidArgument, "64 bits"),
    (lambda: nb.Array(), TypeError, "nabla.array"),
    (lambda: nb.array(ones(3, F)) + ones(4, F), nb.InvalidArgument, "test_misuse.py"),
    (lambda: nb.array(ones((2, 3), F)) @ ones((2, 3), F), nb.InvalidArgument, "matmul"),
    (lambda: nb.sum(ones(3, F), 1), nb.InvalidArgument, "dimension 1"),
    (lambda: nb.reshape(ones(3, F), [2, -1]), nb.InvalidArgument, ""),
    (lambda: nb.transpose(ones((2, 3), F), [0, 0]), nb.InvalidArgument, ""),
    (lambda: nb.zeros([-1]), nb.InvalidArgument, "-1"),
    (lambda: emitted(ones(3, F)), TypeError, r"emit(path, (x,)), not 'ndarray'"),
    (lambda: emitted([ones(3, F)]), TypeError, "not 'list'"),
    (lambda: emitted((), kwargs=ones(3, F)), TypeError, "a dictionary, not 'ndarray'"),
    (lambda: emitted((ones(3, F),), "/nothing/f.so"), nb.InputOutput,
     "/nothing/f.so: there is no folder /nothing"),
    (lambda: emitted((ones(3, F),), "/proc/f.s"), nb.InputOutput,
     "/proc/f.s: cannot be written: "),
    (lambda: nb.shard(ones(3, F), None), TypeError, "not None"),
    (lambda: nb.shard_map(nb.exp, ones(3, F), in_specs="x", out_specs="x"), TypeError,
     "not 'x'"),
    (lambda: nb.shard_map(nb.exp, ones(3, F), in_specs=["x"], out_specs=[]), TypeError,
     "not 'x'"),
    (lambda: nb.function(nb.exp, donate={"x": 0}), TypeError, "not {'x': 0}"),
    (lambda: nb.function(nb.exp, dims={"x": 0}), TypeError, "not {'x': 0}"),
    (lambda: nb.function(nb.exp, dims={"x": {0: 1}}), TypeError, "not {'x': {0: 1}}"),
    (lambda: nb.vmap(nb.exp, {"x": "a"}), TypeError, "not {'x': 'a'}"),
    (lambda: nb.vmap(nb.exp, 1), TypeError, "not 1"),
    (lambda: nb.grad(nb.exp, 0), TypeError, "not 0"),
    (lambda: nb.grad(nb.exp, ["x", 0]), TypeError, "not ['x', 0]"),
    (lambda: nb.vjp(nb.exp)(ones(3, F), [ones(3, F)]), nb.InvalidArgument,
     "the leaf '0' where one array is wanted"),
    (lambda: nb.Mesh(2), TypeError, "not 2"),
    (lambda: nb.Mesh({"x": "2"}), TypeError, ""),
    (lambda: nb.Mesh({}), nb.InvalidArgument, ""),
    (lambda: nb.PartitionSpec("x", None), TypeError, "PartitionSpec(mesh, 'x', None)"),
    (lambda: nb.PartitionSpec(nb.Mesh("x=2"), 1), TypeError, "not 1"),
    (lambda: nb.PartitionSpec(nb.Mesh("x=2"), [1]), TypeError, "not [1]"),
    (lambda: nb.read_local(ones(3, F), -1), nb.InvalidArgument, "no device -1"),
    (lambda: nb.read_local(ones(3, F), 2 ** 32), nb.InvalidArgument, "no device 4294967296"),
    (lambda: nb.read_local(ones(3, F), 0.5), TypeError, "float"),
    (lambda: nb.function(nb.tanh)([1.0, 2.0]), nb.InvalidArgument,
     "np.array(list) is one array"),
    (lambda: nb.function(lambda x: nb.tanh([[x, 1.0]]))(ones(3, F)), nb.InvalidArgument,
     "stack() makes one"),
    (lambda: nb.zeros([2 ** 40, 2 ** 40]), nb.Error, ""),
    (lambda: nb.zeros(3, "f7"), nb.Unsupported, "f7"),
    (lambda: nb.slice(ones(3, F), [0, 0], [1]), nb.InvalidArgument, ""),
    (lambda: nb.split(ones(3, F), [1, 1]), nb.InvalidArgument, ""),
    (lambda: nb.at(ones(3, F), 0, 0, 1.0, "join"), nb.InvalidArgument, "join"),
    (lambda: nb.quantize(ones((3, 100), F), "nf4", 17), nb.InvalidArgument, "17"),
    (lambda: nb.array(ones(3, F))[3], IndexError, "3"),
    (lambda: nb.array(ones(3, F))[0, 0], nb.InvalidArgument, "rank 1"),
    (lambda: nb.array(ones(3, F)).__setitem__(0, 1), TypeError, "at("),
    (lambda: bool(nb.array(ones(3, F))), nb.InvalidArgument, "item"),
    (lambda: len(nb.array(1.0)), TypeError, "rank 0"),
    (lambda: nb.array(ones(3, F)).weight(), nb.InvalidArgument, ""),
    (lambda: nb.realize(3), TypeError, "int"),
    (lambda: nb.from_dlpack(3), TypeError, "__dlpack__"),
    (lambda: nb.from_dlpack(ones((3, 4), F).T), nb.Unsupported, "row-major"),
    (lambda: nb.configure(), nb.InvalidArgument, "first array"),
    (lambda: nb.load("/nothing", {"a": nb.zeros(1)}), nb.InputOutput, "nothing"),
    (lambda: nb.save({"a": 1.0, 2: 2.0}, OUT), nb.InvalidArgument, "keys"),
    (lambda: nb.save(nb.zeros(3), OUT), nb.InvalidArgument, "name"),
    (lambda: nb.tree_map(lambda a, b: a, [1, 2], [1]), nb.InvalidArgument, "structure"),
    (lambda: nb.function(lambda **names: 1), nb.InvalidArgument, "names"),
    (lambda: nb.function(lambda x: x, static=["y"]), nb.InvalidArgument, "y"),
    (lambda: nb.function(lambda x: x, dims={"y": {0: "n"}})(1.0), nb.Error, "y"),
    (lambda: nb.function(lambda x: [x, {1, 2}])(1.0), TypeError, "set"),
    (lambda: nb.function(lambda x: x)(ones(3, F), 2), TypeError, ""),
    (lambda: nb.function(lambda x: x + object())(1.0), TypeError, ""),
    (lambda: nb.function(lambda x: nb.eager() or x)(1.0), nb.InvalidArgument, "eager"),
    (lambda: nb.cond(1.0, lambda: 1.0, lambda: 2.0), nb.InvalidArgument, "predicate"),
    (lambda: nb.cond(nb.array(True), lambda: 1.0, lambda: (1.0, 2.0)), nb.Error, ""),
    (lambda: nb.cond(nb.array(True), lambda: nb.zeros(2), lambda: nb.zeros(3)),
     nb.InvalidArgument, ""),
    (lambda: nb.while_loop(lambda v: v < 3, lambda v: (v, v), 0), nb.InvalidArgument,
     "structure"),
    (lambda: nb.while_loop(lambda v: v, lambda v: v, 0), nb.InvalidArgument, ""),
    (lambda: nb.scan(lambda c, x: c, 0.0, ones(3, F)), nb.InvalidArgument, "two"),
    (lambda: nb.scan(lambda c, x: ((c, c), x), 0.0, ones(3, F)), nb.InvalidArgument,
     "carries"),
    (lambda: nb.scan(lambda c, x: (c, x), 0.0, 1.0), nb.InvalidArgument, ""),
    (lambda: nb.call_function(len, 1), TypeError, "Function"),
]


class Misuse(unittest.TestCase):
    def test_cases(self):
        x = nb.array(ones((2, 2), F))
        for number, (case, kinds, text) in enumerate(CASES):
            with self.subTest(case=number):
                with self.assertRaises(kinds) as caught:
                    case()
                self.assertIn(text, str(caught.exception))
                self.assertTrue(str(caught.exception))
            self.assertEqual((x + 1).sum().item(), 8)
        gc.collect()

    def test_one_base(self):
        for kind in (nb.InvalidArgument, nb.Corrupt, nb.Unsupported, nb.TooLarge,
                     nb.NoMemory, nb.InputOutput, nb.Cancelled, nb.NotFinite, nb.Exists,
                     nb.Closed):
            self.assertTrue(issubclass(kind, nb.Error))
        with self.assertRaises(nb.Error) as caught:
            nb.Model("/nothing")
        self.assertEqual(caught.exception.status, "IO")

    def test_use_after_close(self):
        session = nb.function(lambda t, x: {"t": t + x}, states={"t": "t"}).session(
            ones(2, F), ones(2, F))
        self.assertEqual(list(session.states), ["t"])
        session.close()
        session.close()
        for use in (lambda: session.run(ones(2, F)), lambda: session.states["t"],
                    session.__enter__):
            with self.assertRaises(nb.Closed):
                use()


# Programs that end in their own ways, none with a signal.
ENDS = {
    "arrays that are left": "x = nb.array([1.0]) + 1; y = x.numpy()",
    "cycles": "a = nb.array([1.0]) + 1; l = [a]; l.append(l)\n"
              "p = nb.MatmulPlan(w); c = [p]; c.append(c)",
    "threads that are left": "import threading, time\n"
        "def run():\n  while True: (nb.array([1.0]) + 1).numpy()\n"
        "threading.Thread(target=run, daemon=True).start(); time.sleep(.2)",
    "sys.exit in a callback": "import sys\n"
        "try: nb.function(lambda x: sys.exit(3))(1.0)\nexcept SystemExit: pass",
    "capsules and views": "a = (nb.array([1.0]) + 1)\n"
        "c = a.__dlpack__(); d = a.__dlpack__(max_version=(1, 1))\n"
        "v = np.from_dlpack(a); q = w.components; del a",
    "at exit": "import atexit\na = nb.array([1.0]) + 1\n"
        "atexit.register(lambda: print((a + 1).numpy()))",
    "__del__ at exit": "class C:\n  def __del__(self): self.a = None\n"
        "c = C(); c.a = nb.array([1.0]) + 1; c.c = c",
    "no threads of a fork": "import os\n(nb.array([1.0]) + 1).numpy()\n"
        "pid = os.fork()\nif not pid: os._exit(0)\nassert os.waitpid(pid, 0)[1] == 0",
    "modules that go first": "import sys\na = nb.array([1.0]) + 1\n"
        "p = nb.MatmulPlan(w)\n"
        "for n in list(sys.modules):\n  if n.startswith('nabla'): del sys.modules[n]",
}


# an engine that cannot be made with processes, then one without
RETRY = """
import nabla as nb
from nabla import _scopes
made, seen = _scopes.create, []
def create(function, *arguments):
    if function is _scopes.LIB.nabla_comm_mpi:
        return 1
    if function is _scopes.LIB.nabla_engine_create:
        seen.append(arguments[0]._obj.comm)
        raise nb.InvalidArgument("refused")
    return made(function, *arguments)
_scopes.create, _scopes.atexit.register = create, lambda leave: None
for processes in (True, False):
    try:
        nb.configure(processes=processes)
    except nb.InvalidArgument:
        pass
_scopes._engine.comm = 0
assert seen == [1, None], seen
"""


class Ends(unittest.TestCase):
    def test_a_refused_engine_leaves_no_processes(self):
        subprocess.run([sys.executable, "-c", RETRY], check=True)

    def test_interpreter_exit(self):
        head = ("import numpy as np, nabla as nb\n"
                "w = nb.quantize_array(np.ones((64, 128), np.float32), 'nf4')\n")
        running = {name: subprocess.Popen(
            [sys.executable, "-B", "-X", "faulthandler", "-c", head + text],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for name, text in ENDS.items()}
        for name, process in running.items():
            with self.subTest(name=name):
                _, told = process.communicate(timeout=60)
                self.assertEqual((process.returncode, told), (0, ""))

    def test_garbage_of_all_threads(self):
        def run():
            for i in range(30):
                ring = [nb.array(ones(4, F)) + float(i), nb.MatmulPlan(packed())]
                ring.append(ring)
                if i % 10 == 0:
                    gc.collect()
        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
        self.assertEqual((nb.zeros(2) + 1).sum().item(), 2)


if __name__ == "__main__":
    unittest.main()
