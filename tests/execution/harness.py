"""What the execution tests share: arrays of the dialect's element types, MLIR
programs made of functions, runs of nabla-run, comparisons.

numpy has no bf16: such arrays are of dtype BF16, bits in a structure. They
reach a program as weights bound from a safetensors file, and come back as f32,
into which the program itself widens them (exactly).
"""
import concurrent.futures
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
try:
    import numpy as np
except ImportError:
    print("SKIP: needs numpy (Debian: python3-numpy)")
    sys.exit(77)

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                             "..", "support"))
from slices import SLICES, slice_number  # noqa: E402

BF16 = np.dtype([("bits", "<u2")])
DTYPES = {"f64": np.dtype("f8"), "f32": np.dtype("f4"), "f16": np.dtype("f2"),
          "bf16": BF16, "i64": np.dtype("i8"), "i32": np.dtype("i4"),
          "i8": np.dtype("i1"), "ui8": np.dtype("u1"), "i1": np.dtype("?")}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
FLOATS = ("f64", "f32", "f16", "bf16")
STORED = {"f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16",
          "i64": "I64", "i32": "I32", "i8": "I8", "ui8": "U8", "i1": "BOOL"}


# ---- arrays ------------------------------------------------------------------


def widen(array):
    """f32 of f16 and bf16, others as they are."""
    if array.dtype == BF16:
        bits = plain(array)["bits"].astype(np.uint32).reshape(-1) << 16
        return bits.view(np.float32).reshape(array.shape)
    return array.astype(np.float32) if array.dtype == np.float16 else array


def narrow(array, name):
    """`array`, f32 or f64, rounded to an element type, half to even."""
    if name != "bf16":
        with np.errstate(all="ignore"):
            return np.asarray(array).astype(DTYPES[name])
    flat = np.array(array, np.float32, order="C").reshape(-1)
    bits = flat.view(np.uint32).astype(np.uint64)
    bits = np.where(np.isnan(flat), 0x7fc00000,
                    bits + 0x7fff + (bits >> 16 & 1))
    out = np.zeros(flat.shape, BF16)
    out["bits"] = bits >> 16
    return out.reshape(np.shape(array))


def is_nan(array):
    array = widen(array)
    return np.isnan(array) if array.dtype.kind == "f" else np.zeros(
        array.shape, bool)


def plain(array):
    """Row-major; unlike ascontiguousarray, rank 0 stays rank 0."""
    return np.array(array, order="C")


def raw(array):
    """One integer per element."""
    flat = plain(array).reshape(-1)
    return flat.view(np.dtype("u%d" % flat.dtype.itemsize)).reshape(array.shape)


def ulp(name, magnitude):
    """Distance of neighbours at a magnitude (f64) of an element type."""
    digits, least = {"f64": (52, -1074), "f32": (23, -149), "f16": (10, -24),
                     "bf16": (7, -133)}[name]
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.maximum(magnitude, 1e-300)))
    return np.exp2(np.maximum(exponent - digits, least))


# ---- comparisons: each gives a check of a shape,
# which gives None or what is wrong --------


def exact(want, signs=True):
    """The same bits, any NaN for NaN; without `signs` 0 equals -0."""
    def check(got):
        if got.dtype != want.dtype or got.shape != want.shape:
            return "%s%s, not %s%s" % (got.dtype, got.shape, want.dtype,
                                       want.shape)
        same = (raw(got) == raw(want)) | (is_nan(got) & is_nan(want))
        if not signs:
            same |= (widen(got) == 0) & (widen(want) == 0)
        if same.all():
            return None
        at = np.unravel_index(int(np.argmin(same)), same.shape)
        return "%d of %d differ; at %s %r, not %r" % (
            same.size - same.sum(), same.size, tuple(map(int, at)),
            widen(got)[at], widen(want)[at])
    check.shape = want.shape
    return check


# What a test allows beyond the bounds of `close`, by dtype, relative to 1 + |want|.
SLACK = {}


def close(want, bound, name):
    """Within `bound` (f64, per element) of `want` (f64); what is not finite in
    `want` must be the same in the result."""
    def check(got):
        if got.dtype != DTYPES[name] or got.shape != np.shape(want):
            return "%s%s, not %s%s" % (got.dtype, got.shape, name,
                                       np.shape(want))
        wide = widen(got).astype(np.float64)
        with np.errstate(all="ignore"):
            slack = SLACK.get(name, 0) * (1 + np.abs(want))
            good = np.abs(wide - want) <= bound + slack
        good = np.where(np.isfinite(want), good,
                        (wide == want) | (np.isnan(wide) & np.isnan(want)))
        if good.all():
            return None
        at = np.unravel_index(int(np.argmin(good)), good.shape)
        return "%d of %d beyond the bound; at %s %.9g, not %.9g +- %.3g" % (
            good.size - good.sum(), good.size, tuple(map(int, at)), wide[at],
            np.asarray(want)[at], np.broadcast_to(bound, good.shape)[at])
    check.shape = np.shape(want)
    return check


# ---- programs ----------------------------------------------------------------


def tensor_type(shape, name):
    dims = "".join("%sx" % ("?" if d is None else d) for d in shape)
    return "tensor<%s%s>" % (dims, name)


class Function:
    """A function of a program, with its inputs and what it must give."""

    def __init__(self, name):
        self.name = name
        self.arguments, self.lines, self.results = [], [], []
        self.inputs, self.binds, self.checks = {}, {}, []
        self.count = 0
        self.bound_arguments = []  # "name=file:tensor"

    def argument(self, array, hide=()):
        """An argument that is `array`; dimensions in `hide` are `?`."""
        array = np.asarray(array)
        name = "%s_%d" % (self.name, len(self.arguments))
        kind = NAMES[array.dtype]
        shape = [None if i in hide else d for i, d in enumerate(array.shape)]
        text = tensor_type(shape, kind)
        self.arguments.append('%%%s: %s {nabla.name = "%s"}' % (name, text, name))
        (self.binds if kind == "bf16" else self.inputs)[name] = array
        return "%" + name, text

    def size(self, value):
        """An index that is known at run time only."""
        array, _ = self.argument(np.array([value], np.int64))
        zero = self.op("arith.constant 0 : index")
        number = self.op("tensor.extract %s[%s] : tensor<1xi64>" % (array, zero))
        return self.op("arith.index_cast %s : i64 to index" % number)

    def bound(self, type_text, path, tensor):
        """An argument bound to a tensor of a checkpoint."""
        name = "%s_%d" % (self.name, len(self.arguments))
        self.arguments.append('%%%s: %s {nabla.name = "%s"}'
                              % (name, type_text, name))
        self.bound_arguments.append("%s=%s:%s" % (name, path, tensor))
        return "%" + name

    def op(self, text):
        self.count += 1
        self.lines.append("%%v%d = %s" % (self.count, text))
        return "%%v%d" % self.count

    def give(self, value, type_text, check):
        kind = type_text[:-1].split("x")[-1].split("<")[-1]
        if kind == "bf16":
            value, type_text = self.widen(value, type_text)
        self.results.append((value, type_text, kind))
        self.checks.append(check)

    def widen(self, value, type_text):
        dims = type_text[len("tensor<"):-len("bf16>")]
        shape = [d for d in dims.split("x") if d]
        sizes = []
        for i, dim in enumerate(shape):
            if dim == "?":
                at = self.op("arith.constant %d : index" % i)
                sizes.append(self.op("tensor.dim %s, %s : %s"
                                     % (value, at, type_text)))
        wide = "tensor<%sf32>" % dims
        empty = self.op("tensor.empty(%s) : %s" % (", ".join(sizes), wide))
        loops = ", ".join("d%d" % i for i in range(len(shape)))
        maps = "affine_map<(%s) -> (%s)>" % (loops, loops)
        kinds = ", ".join(['"parallel"'] * len(shape))
        return self.op(
            "linalg.generic {indexing_maps = [%s, %s], iterator_types = [%s]} "
            "ins(%s : %s) outs(%s : %s) {\n  ^bb0(%%a: bf16, %%b: f32):\n    "
            "%%e = arith.extf %%a : bf16 to f32\n    linalg.yield %%e : f32\n  "
            "} -> %s" % (maps, maps, kinds, value, type_text, empty, wide,
                         wide)), wide

    def text(self):
        types = ", ".join(t for _, t, _ in self.results)
        lines = ["  " + line for line in self.lines]
        lines.append("  return %s : %s" % (
            ", ".join(v for v, _, _ in self.results), types))
        return "func.func @%s(%s) -> (%s) {\n%s\n}\n" % (
            self.name, ", ".join(self.arguments), types, "\n".join(lines))


def write_safetensors(path, arrays, ends_at=64):
    """Writes a file of arrays in order; its size is a multiple of `ends_at`."""
    header, data = {}, b""
    for name, array in arrays.items():
        begin = len(data)
        data += plain(array).tobytes()
        header[name] = {"dtype": STORED[NAMES[array.dtype]],
                        "shape": list(array.shape),
                        "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8 + len(data)) % ends_at)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


def read_safetensors(path):
    """Name: array, of the f32 tensors of a file."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header, data = json.loads(file.read(size)), file.read()
    out = {}
    for name, info in header.items():
        if name == "__metadata__" or info["dtype"] != "F32":
            continue
        begin, end = info["data_offsets"]
        out[name] = np.frombuffer(data[begin:end], np.float32).reshape(
            info["shape"])
    return out


def find_model(repository, name):
    """A file of $NABLA_MODELS, or of ../shared/models beside the repository;
    ends the process as skipped where there is none."""
    folder = os.environ.get("NABLA_MODELS") or os.path.join(
        repository, "..", "shared", "models")
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        print("SKIP: there is no " + name)
        sys.exit(77)
    return path


# ---- runs --------------------------------------------------------------------


class Failure(Exception):
    pass


class Batch:
    """A process of `nabla-run --batch`, which runs a command line at a time."""

    def __init__(self, tool):
        self.tool = tool
        self.process = subprocess.Popen([tool, "--batch"],
                                        stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE,
                                        start_new_session=True)

    def run(self, words, timeout):
        """The finished process of one run, or TimeoutExpired."""
        line = "\t".join(words)
        if "\n" in line or line.count("\t") != len(words) - 1:
            raise ValueError("words with tabs or newlines")
        timer = threading.Timer(timeout, self.kill)
        timer.start()
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
            head = self.process.stdout.readline().split()
            if len(head) != 3:
                raise subprocess.TimeoutExpired(words, timeout)
            code, size, errors = map(int, head)
            return subprocess.CompletedProcess(
                [self.tool, *words], code, self.process.stdout.read(size),
                self.process.stdout.read(errors))
        finally:
            timer.cancel()

    def kill(self):
        """Ends it, and a run that is going on: both are of one group."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def again(options):
    """Every run of one rank is repeated in its session: later ones give the same bytes and
    allocate nothing. Not those that are measured."""
    measured = {"--time", "--profile", "--repeat", "--json", "--ranks"}
    return [] if measured & set(options) else ["--again"]


class Session:
    """A folder, the tools and the count of what was checked."""

    def __init__(self, run, folder):
        self.tool, self.folder = run, folder
        self.checked = self.failed = self.serial = 0
        self.cache = os.path.join(folder, "cache")
        self.batches, self.idle = [], []  # one for each thread that runs

    def path(self, suffix):
        self.serial += 1
        return os.path.join(self.folder, "%d%s" % (self.serial, suffix))

    def write(self, text):
        path = self.path(".mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def start(self, program, *options):
        """nabla-run as it comes: the finished process, forked by an idle one
        of `nabla-run --batch`. For an environment of its own see `alone`."""
        words = [program, "--cache", self.cache, *again(options), *options]
        try:
            batch = self.idle.pop()
        except IndexError:
            batch = Batch(self.tool)
            self.batches.append(batch)
        done = batch.run(words, timeout=300)
        self.idle.append(batch)  # not where it raised: the process is gone
        return done

    def alone(self, program, *options, **more):
        """The same, without --batch."""
        return subprocess.run([self.tool, program, "--cache", self.cache,
                               *again(options), *options], capture_output=True, timeout=300,
                              **more)

    def call(self, program, function, options=()):
        """The results of a function, or Failure."""
        command = ["--entry", function.name, *options]
        for name, array in function.inputs.items():
            path = self.path(".npy")
            np.save(path, array)
            command += ["--input", "%s=%s" % (name, path)]
        if function.binds:
            path = self.path(".safetensors")
            write_safetensors(path, function.binds)
            for name in function.binds:
                command += ["--bind", "%s=%s:%s" % (name, path, name)]
        for bind in function.bound_arguments:
            command += ["--bind", bind]
        outputs = [self.path(".npy") for _ in function.results]
        for path in outputs:
            command += ["--output", path]
        done = self.start(program, *command)
        if done.returncode:
            raise Failure("exit %d: %s" % (
                done.returncode,
                done.stderr.decode(errors="replace").strip()[-600:]))
        results = []
        for path, (_, _, kind) in zip(outputs, function.results):
            array = np.load(path)
            results.append(narrow(array, "bf16") if kind == "bf16" else array)
        return results

    def fail(self, what):
        self.failed += 1
        print("FAILED " + what, flush=True)

    def expect(self, good, what):
        self.checked += 1
        if not good:
            self.fail(what)
        return good

    def check(self, program, function, options=()):
        """Runs a function; its results must be what it says."""
        try:
            results = self.call(program, function, options)
        except (Failure, subprocess.TimeoutExpired) as error:
            self.checked += 1
            self.fail("%s: %s\n%s" % (function.name, error, function.text()))
            return
        for i, (got, check) in enumerate(zip(results, function.checks)):
            wrong = check(got)
            self.expect(not wrong, "%s: result %d: %s\n%s" % (
                function.name, i, wrong, function.text()[:2000]))

    def check_threads(self, f):
        """The function's results have the same bytes for 1, 2 and 7 threads."""
        program = self.write(f.text())
        one = self.call(program, f, ["--threads", "1"])
        for threads in ("2", "7"):
            many = self.call(program, f, ["--threads", threads])
            for want, got in zip(one, many):
                wrong = exact(want)(got)
                self.expect(not wrong, "%s, %s threads: %s"
                            % (f.name, threads, wrong))

    def run_module(self, functions, options):
        """One program of all functions. If it does not compile, one each."""
        program = self.write("".join(f.text() for f in functions))
        done = self.start(program, "--entry", "none", *options)
        compiled = b"no public function" in done.stderr
        for function in functions:
            if not compiled and len(functions) > 1:
                program = self.write(function.text())
            self.check(program, function, options)

    def run_all(self, functions, options=(), most=24, workers=2, parts=1,
                turn=0):
        """Programs of at most `most` functions, two at a time. One function of
        `parts` is run, each in one of as many turns; of NABLA_TEST_SLICE, if it
        is set, those of a slice."""
        some = [functions[i] for i in share(len(functions), parts, turn)]
        if len(some) < len(functions):
            print("%d of %d functions" % (len(some), len(functions)))
        count = -(-len(some) // most)
        modules = [some[i::count] for i in range(count)]
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            for future in [pool.submit(self.run_module, module, options)
                           for module in modules]:
                future.result()


def share(count, parts=1, turn=0):
    """Which of `count` cases run, in an order of chance: all of them, a part, or
    a slice. Slices are as many as hold 8 cases each, at most ten; with fewer,
    several numbers name the same."""
    number = slice_number()
    if number == "all":
        parts = 1
    elif number is not None:
        parts = SLICES
    parts = min(parts, max(count // 8, 1))
    order = np.random.default_rng(seed()).permutation(count)
    at = seed() if number in (None, "all") else number
    return [int(i) for i in order[(at + turn) % parts::parts]]


def share_of_range(first, count):
    """First and number of what NABLA_TEST_SLICE leaves of a range."""
    number = slice_number()
    if number in (None, "all"):
        return first, count
    begin, end = (count * (number + i) // SLICES for i in (0, 1))
    return first + begin, end - begin


def seed(default=1):
    """NABLA_TEST_SEED, so that a longer search is one variable away."""
    return int(os.environ.get("NABLA_TEST_SEED", default))


def session(tool, test):
    """Runs test(session); ends the process with its outcome."""
    folder = tempfile.mkdtemp(prefix="nabla-execution-")
    try:
        s = Session(tool, folder)
        test(s)
        for batch in s.batches:
            batch.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("%d checks, %d failed" % (s.checked, s.failed))
    sys.exit(1 if s.failed else 0)
