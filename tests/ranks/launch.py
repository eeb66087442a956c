"""Starts programs by mpirun. Python's standard library only."""

import os
import shutil
import signal
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                             "..", "reliability"))
from common import Folder, Report  # noqa: F401  (for the tests)

# Open MPI: as root in a container, and more ranks than CPUs.
SETTINGS = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}
OTHER = {"openmpi": "mpich", "mpich": "openmpi"}


def environment(**more):
    """That of this process without what another launcher left there."""
    out = {key: value for key, value in os.environ.items()
           if not key.startswith(("OMPI_", "PMI_", "PMIX_", "MPI_"))}
    out.pop("NABLA_MPI", None)
    out.update(SETTINGS)
    out.update(more)
    return out


def has(mpi):
    return shutil.which("mpirun." + mpi) is not None


def require(report, mpi):
    """Leaves with 77 where the MPI is not installed."""
    if has(mpi):
        return
    report.skip(mpi, "mpirun.%s is not installed" % mpi)
    sys.exit(report.finish())


class Job:
    """A job of mpirun: its processes end with it."""

    def __init__(self, mpi, ranks, command, folder=None, **more):
        self.process = subprocess.Popen(
            ["mpirun." + mpi, "-n", str(ranks)] + command,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL, text=True, cwd=folder,
            env=environment(**more), start_new_session=True)

    def finish(self, seconds=120):
        """Its exit code, output and errors; None if it did not end."""
        try:
            out, errors = self.process.communicate(timeout=seconds)
            return self.process.returncode, out, errors
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            out, errors = self.process.communicate()
            return None, out, errors


def run(mpi, ranks, command, folder=None, seconds=120, **more):
    for _ in range(4):
        code, output, errors = Job(mpi, ranks, command, folder,
                                   **more).finish(seconds)
        if not code or errors:
            break  # mpirun.mpich may end before it passes on what ranks say
    return code, output, errors
