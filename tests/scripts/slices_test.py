"""Ten slices of generated cases: together they are all, and no two have a case in
common; what is no slice is refused by name, by the scripts and the programs.

usage: slices_test.py SOURCE [PROGRAM]   PROGRAM: kernels_fused_test
"""
import os
import subprocess
import sys

source, *program = map(os.path.abspath, sys.argv[1:])
sys.path.insert(0, os.path.join(source, "tests", "execution"))
import harness  # noqa: E402

failed = []


def expect(good, what):
    if not good:
        failed.append(what)


def shares(of):
    """What each slice has."""
    out = []
    for number in range(10):
        os.environ["NABLA_TEST_SLICE"] = str(number)
        out.append(of())
    return out


def check_shares():
    for count in [*range(130), 999, 1000]:
        for turn in range(3):
            parts = shares(lambda: harness.share(count, 3, turn))
            what = "%d cases, turn %d" % (count, turn)
            expect(set().union(*parts) == set(range(count)),
                   what + ": not all are run")
            distinct = {tuple(sorted(part)) for part in parts}
            expect(sum(map(len, distinct)) == count,
                   what + ": slices overlap")
            expect(len(distinct) == min(10, max(count // 8, 1)),
                   what + ": %d slices" % len(distinct))
        os.environ["NABLA_TEST_SLICE"] = "all"
        expect(sorted(harness.share(count, 3)) == list(range(count)),
               "%d cases: all are not all" % count)
        del os.environ["NABLA_TEST_SLICE"]
        thirds = [i for turn in range(3) for i in harness.share(count, 3, turn)]
        expect(count < 24 or sorted(thirds) == list(range(count)),
               "%d cases: the turns of three are not all" % count)


def check_ranges():
    for first, count in [(0, n) for n in range(130)] + [(7, 5000)]:
        numbers = [i for begin, size in shares(
            lambda: harness.share_of_range(first, count))
            for i in range(begin, begin + size)]
        expect(numbers == list(range(first, first + count)),
               "range of %d: the slices are not all" % count)


def check_refused(command, what):
    for text in ("10", "-1", " 1", "01", "x", "3.0", "1\n"):
        done = subprocess.run(command, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL,
                              env=dict(os.environ, NABLA_TEST_SLICE=text))
        expect(done.returncode in (1, 2)
               and "NABLA_TEST_SLICE=%s is no slice" % text in done.stderr,
               "%s takes %r: exit %d, %s" % (what, text, done.returncode,
                                             done.stderr[-200:]))


check_shares()
check_ranges()
os.environ.pop("NABLA_TEST_SLICE", None)
os.chdir(sys.path[0])
check_refused([sys.executable, "-B", "-c", "import harness; harness.share(9)"],
              "harness.py")
check_refused([os.path.join(source, "scripts", "test")], "scripts/test")
if program:
    check_refused([*program, "0", "1", "none"], "kernels_fused_test")
print("\n".join("FAILED " + what for what in failed[:20]))
sys.exit(bool(failed))
