"""deaths.py MPI BIN SHIM [--moments N] [--seed N]: jobs of which a rank is
killed, stopped, never started, fails, or has something else than the others end
with an exit code other than 0 and without an output, and leave nothing that the
next run does not remove."""

import argparse
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time

import launch
from programs import INPUTS, LAYER, SHARDS

RANK = {"openmpi": "OMPI_COMM_WORLD_RANK", "mpich": "PMI_RANK"}
MOST = 10  # seconds that a job may go on after a death


def processes(mpi, rank, program):
    """Processes of a rank that run the program, with this test's mark."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % pid, "rb") as file:
                words = file.read().split(b"\0")
            name = os.readlink("/proc/%s/exe" % pid)
        except OSError:
            continue
        if name == program and b"RANKS_TEST=%d" % os.getpid() in words and (
                "%s=%d" % (RANK[mpi], rank)).encode() in words:
            found.append(int(pid))
    return sorted(found)


class Tests:
    def __init__(self, report, arguments, folder):
        self.report, self.mpi, self.folder = report, arguments.mpi, folder
        self.run = os.path.realpath(os.path.join(arguments.bin, "nabla-run"))
        self.compile = os.path.join(arguments.bin, "nabla-compile")
        # LD_PRELOAD ends names at blanks
        self.shim = shutil.copy(arguments.shim, self.path("leave.so"))
        self.make("layer", LAYER)
        self.make("other", LAYER.replace("silu", "tanh"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def make(self, name, text):
        with open(self.path(name + ".mlir"), "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run([self.compile, name + ".mlir", "--mesh", "model=2", "-o",
                        name + ".so"] + SHARDS, cwd=self.folder, check=True)

    def start(self, command, ranks=2, **more):
        more.setdefault("NABLA_RANK_TIMEOUT", "8")
        return launch.Job(self.mpi, ranks, command, self.folder,
                          RANKS_TEST=str(os.getpid()), **more)

    def layer(self, *more):
        return [self.run, "layer.so", "-o", "out.npy"] + INPUTS + list(more)

    def ended(self, what, job, text="", since=None, most=MOST):
        """A failed job: soon, not with 0, and without an output."""
        since = time.monotonic() if since is None else since
        code, _, errors = job.finish(most + 20)
        seconds = time.monotonic() - since
        self.report.check(code not in (0, None) and seconds < most,
                          "%s: exit %s after %.1f s\n%s" %
                          (what, code, seconds, errors))
        if errors or self.mpi != "mpich":
            self.report.check(text in errors, "%s: '%s' is not in %s" %
                              (what, text, errors))
        else:
            self.report.skip(what, "mpirun.mpich lost what its ranks said")
        self.report.check(not os.path.exists(self.path("out.npy")),
                          "%s: there is an output" % what)
        return seconds

    def clean(self, what):
        """The next run removes what was left."""
        code, _, errors = launch.run(self.mpi, 2, self.layer(), self.folder, 60)
        self.report.check(code == 0 and os.path.exists(self.path("out.npy")),
                          "%s: the next run: %s %s" % (what, code, errors))
        left = [name for name in os.listdir(self.folder) if ".nabla-" in name]
        self.report.check(not left, "%s: %s is left" % (what, left))
        os.remove(self.path("out.npy"))

    def wait_for(self, rank):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            found = processes(self.mpi, rank, self.run)
            if found:
                return found
            time.sleep(.01)
        return []

    def wait_until_begun(self, rank):
        """Open MPI's launcher may hang where a rank dies as it connects: waits
        until the rank has computed for a while."""
        end = time.monotonic() + 20
        while time.monotonic() < end:
            for pid in self.wait_for(rank):
                try:
                    with open("/proc/%d/stat" % pid, encoding="ascii") as file:
                        words = file.read().rsplit(")", 1)[1].split()
                except OSError:
                    continue
                if int(words[11]) + int(words[12]) >= 20:
                    return
            time.sleep(.01)

    def killed(self, moments, rng):
        longest = 0
        for number in range(moments):
            rank, pause = number % 2, rng.uniform(0, 1.2)
            job = self.start(self.layer("--steps", "100000000"))
            if self.mpi == "openmpi":
                self.wait_until_begun(rank)
            else:
                self.wait_for(rank)
            time.sleep(pause)
            found = processes(self.mpi, rank, self.run)
            what = "rank %d killed after %.2f s" % (rank, pause)
            if not self.report.check(found, what + ": there is no such process"):
                job.finish(1)
                continue
            try:  # of MPICH the rank, or the process that guards it
                os.kill(rng.choice(found), signal.SIGKILL)
            except ProcessLookupError:
                pass
            longest = max(longest, self.ended(what, job))
        self.clean("killed")
        self.report.figure("seconds_after_a_death", "%.1f" % longest)

    def stopped(self):
        job = self.start(self.layer("--steps", "100000000"),
                         NABLA_RANK_TIMEOUT="3")
        self.wait_for(1)
        time.sleep(1)
        for pid in processes(self.mpi, 1, self.run):
            os.kill(pid, signal.SIGSTOP)
        self.ended("a stopped rank", job, "rank 1 did not come in", None, 15)

    def shell(self, script, **more):
        """Rank 1 runs another command than rank 0."""
        return self.start(["sh", "-c", 'if [ "$%s" = 1 ]; then %s; fi; exec "$@"'
                           % (RANK[self.mpi], script), "sh"] + self.layer(),
                          **more)

    def others(self):
        plain = " ".join(INPUTS)
        run = "exec %s " % shlex.quote(self.run)
        self.ended("a rank that never starts",
                   self.shell("exec sleep 20", NABLA_RANK_TIMEOUT="2"),
                   "rank 0 waits in MPI_Init for other ranks")
        self.ended("another program", self.shell(run + "other.so " + plain),
                   "ranks have different programs: rank 1")
        self.ended("other inputs", self.shell(
            run + "layer.so " + plain.replace("down=random:64x256",
                                              "down=other.npy")),
                   "ranks have different inputs: rank 1")
        self.ended("a rank that fails", self.shell(
            run + "layer.so " + plain.replace("down=random:64x256",
                                              "down=none.npy")),
                   "none.npy: cannot open")
        self.clean("others")

    def leaves(self):
        for how in {}, {"LEAVE_KILL": "1"}:
            job = self.start(["env", "LD_PRELOAD=" + self.shim] + self.layer(),
                             LEAVE_RANK="0", **how)
            self.ended("rank 0 leaves before its output has a name %s" % how,
                       job)
            self.clean("leaves")


def write_other(path):
    """An array of 64 x 256 ones in f32, as numpy writes it."""
    header = ("{'descr': '<f4', 'fortran_order': False, 'shape': (64, 256), }"
              ).ljust(117) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") +
                   header.encode() + b"\0\0\x80\x3f" * (64 * 256))


def main():
    parser = argparse.ArgumentParser()
    for name in "mpi", "bin", "shim":
        parser.add_argument(name)
    parser.add_argument("--moments", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    report = launch.Report()
    launch.require(report, arguments.mpi)
    with launch.Folder() as folder:
        write_other(os.path.join(folder.path, "other.npy"))
        tests = Tests(report, arguments, folder.path)
        tests.others()
        tests.leaves()
        tests.stopped()
        tests.killed(arguments.moments, random.Random(arguments.seed))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
