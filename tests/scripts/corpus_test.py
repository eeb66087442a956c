"""scripts/corpus: what is packed is unpacked, whatever its bytes; an archive is the
same however often it is packed; lines that are no inputs are refused by name; each
fuzz target has an archive that is as scripts/corpus writes it.

usage: corpus_test.py SOURCE
"""
import ast
import os
import subprocess
import sys
import tempfile

source = os.path.abspath(sys.argv[1])
tool = os.path.join(source, "scripts", "corpus")
failed = []


def expect(good, what):
    if not good:
        failed.append(what)


def run(*words):
    return subprocess.run([sys.executable, "-B", tool, *words], text=True,
                          capture_output=True, stdin=subprocess.DEVNULL)


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def check_round_trip(folder):
    inputs = {"one_%d" % i: bytes([i]) for i in range(256)}
    inputs.update(empty=b"", all=bytes(range(256)), text=b'\\"\\x41\\n', **{
        "a\\t+b": b"x" * 9000, '"': b"\r\n# no remark\n"})
    given, back = folder + "/given", folder + "/back"
    archive = folder + "/some.txt"
    os.mkdir(given)
    for name, data in inputs.items():
        write(os.path.join(given, name), data)
    done = run("pack", given, archive)
    expect(not done.returncode, "pack: " + done.stderr)
    # Python's own reading of the literals
    lines = [line.split(" ", 1) for line in read(archive).decode().splitlines()
             if line[0] != "#"]
    expect({n: ast.literal_eval("b" + text) for n, text in lines} == inputs,
           "the archive has other inputs")
    done = run("unpack", archive, back)
    expect(not done.returncode, "unpack: " + done.stderr)
    expect({n: read(os.path.join(back, n)) for n in os.listdir(back)} == inputs,
           "what is unpacked is not what was packed")
    before = read(archive)
    write(folder + "/new", b"\0")
    expect(not run("add", archive, folder + "/new").returncode, "add")
    expect(b'\nnew "\\x00"\n' in read(archive), "add: no line")
    expect(not run("add", archive, folder + "/new", "one_7").returncode, "add 2")
    expect(b'\none_7 "\\x00"\n' in read(archive)
           and read(archive).count(b"\none_7 ") == 1, "add: not replaced")
    os.remove(archive)
    run("pack", back, archive)
    expect(read(archive) == before, "packed again, an archive differs")


def check_refused(folder):
    archive = folder + "/bad.txt"
    for line in ('a', 'a b', 'a "', 'a "\\q"', 'a "\\x4"', 'a "\\xFF"', 'a "b"c',
                 '../a "b"', '.a "b"', 'a  "b"', '', 'a ""b"'):
        write(archive, b'# head\ngood "x"\n' + line.encode() + b"\n")
        done = run("unpack", archive, folder + "/out")
        expect(done.returncode == 1 and ":3: no input: NAME" in done.stderr,
               "%r: exit %d, %s" % (line, done.returncode, done.stderr))
    for text, message in ((b'a "x"\na "y"\n', ":2: the name a is taken"),
                          (b'a "x"', ":1: no input"),
                          (b'a "\xff"\n', "codec can't decode")):
        write(archive, text)
        done = run("unpack", archive, folder + "/out")
        expect(done.returncode == 1 and message in done.stderr,
               "%r: exit %d, %s" % (text, done.returncode, done.stderr))
    for words in ((), ("pack",), ("other", "a", "b"), ("pack", "a", "b", "c")):
        done = run(*words)
        expect(done.returncode == 1 and "usage" in done.stderr, repr(words))


def check_archives(folder):
    fuzz = os.path.join(source, "tests", "fuzz")
    targets = [name[:-len("_fuzz.c")] for name in os.listdir(fuzz)
               if name.endswith("_fuzz.c")]
    names = os.listdir(os.path.join(fuzz, "corpus"))
    expect(sorted(names) == sorted(t + ".txt" for t in targets) and targets,
           "tests/fuzz/corpus: %s" % names)
    for name in names:
        archive = os.path.join(fuzz, "corpus", name)
        out = os.path.join(folder, name)
        run("unpack", archive, out + ".d")
        run("pack", out + ".d", out)
        expect(os.path.exists(out) and read(out) == read(archive),
               "%s is not as scripts/corpus packs it" % archive)


with tempfile.TemporaryDirectory() as work:
    check_round_trip(work)
    check_refused(work)
    check_archives(work)
print("\n".join("FAILED " + what for what in failed[:20]))
sys.exit(bool(failed))
