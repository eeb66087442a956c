"""What the reliability tests share: models, runs of the tool, and a count of
what passed, failed and was skipped by name. Python's standard library only."""

import filecmp
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile

# tests/support/slices.py
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                             "..", "support"))

OK, DIFFERENT, USAGE, INPUT, IO, MEMORY, UNSUPPORTED = range(7)


class Report:
    """Counts checks; `finish` prints the sum and gives the exit status."""

    def __init__(self):
        self.passed = self.failed = 0
        self.skipped = []

    def check(self, good, text):
        if good:
            self.passed += 1
        else:
            self.failed += 1
            print("FAILED: " + text, flush=True)
        return good

    def skip(self, name, why):
        self.skipped.append(name)
        print("SKIPPED %s: %s" % (name, why), flush=True)

    def note(self, text):
        print(text, flush=True)

    def figure(self, name, value):
        """Of docs/RELIABILITY.md."""
        self.note("figure: %s %s" % (name, value))

    def finish(self):
        print("%d passed, %d failed, %d skipped" %
              (self.passed, self.failed, len(self.skipped)))
        if self.failed:
            return 1
        return 77 if self.skipped and not self.passed else 0


class Folder:
    """A scratch folder that is removed at the end."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="nabla-reliability-")
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def __truediv__(self, name):
        return os.path.join(self.path, name)


def run(tool, *arguments, limits=(), **more):
    """Runs the tool to its end. `limits`: pairs for setrlimit."""

    def prepare():
        for which, value in limits:
            resource.setrlimit(which, (value, value))

    more.setdefault("stdout", subprocess.PIPE)
    more.setdefault("stderr", subprocess.PIPE)
    return subprocess.run([tool, *arguments],
                          preexec_fn=prepare if limits else None,
                          text=True,
                          check=False,
                          **more)


def measure(command, output=None):
    """Runs a command; gives (status, peak RSS in MiB, CPU seconds, stderr). The
    peak is never below this process's own, which exec hands down: 12 MiB.
    Standard output replaces what the file `output` holds, if there is one."""
    if output:
        output.seek(0)
        output.truncate()
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(command,
                                 stdout=output or subprocess.DEVNULL,
                                 stderr=errors)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        text = errors.read().decode(errors="replace")
    seconds = usage.ru_utime + usage.ru_stime
    return child.returncode, usage.ru_maxrss / 1024, seconds, text


def make_model(maker, path, megabytes, *arguments):
    subprocess.run([
        maker, "--out", path, "--megabytes", str(megabytes), "--dtype", "f32",
        *arguments
    ], check=True, stdout=subprocess.DEVNULL)


def add_files(folder, megabytes):
    """What lies beside the weights on Hugging Face, one large file among it."""
    os.makedirs(os.path.join(folder, "sub", "deep"))
    for name, text in (("config.json", '{\n  "torch_dtype": "bfloat16"\n}\n'),
                       ("model.onnx", "left out"),
                       ("sub/deep/vocab.txt", "words\n")):
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write(text)
    with open(os.path.join(folder, "sub", "tokenizer.model"), "wb") as file:
        for i in range(megabytes):
            file.write(bytes([i % 251]) * (1 << 20))


def named_model(path, names, rows=1, columns=1):
    """F32 zeros under such names, which take no space on the disk."""
    size = rows * columns * 4
    header = json.dumps({
        name: {
            "dtype": "F32",
            "shape": [rows, columns],
            "data_offsets": [i * size, (i + 1) * size]
        }
        for i, name in enumerate(names)
    }).encode()
    header += b" " * (-len(header) % 64)
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + len(names) * size)


def sparse_model(path, rows, columns, tensors):
    named_model(path, ["layers.%d.weight" % i for i in range(tensors)], rows,
                columns)


def temporaries(folder):
    return [
        name for name in os.listdir(folder)
        if ".nabla-" in name or ".scales-" in name
    ]


def same(a, b):
    """The same bytes, of two files or two folders."""
    if os.path.isdir(b):
        names = sorted(os.listdir(b))
        return (os.path.isdir(a) and sorted(os.listdir(a)) == names
                and all(same(os.path.join(a, n), os.path.join(b, n))
                        for n in names))
    return os.path.isfile(a) and filecmp.cmp(a, b, shallow=False)


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def finish(report):
    sys.exit(report.finish())
