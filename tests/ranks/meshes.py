"""meshes.py MPI PROGRAM: arrays on a mesh of processes have the bytes of those on
a mesh of threads, whole on each rank."""

import os
import subprocess
import sys

import launch


def read(path):
    if not os.path.exists(path):
        return b"none"
    with open(path, "rb") as file:
        return file.read()


def check(report, mpi, program, ranks, folder):
    subprocess.run([program, "threads", str(ranks), "threads"], cwd=folder, check=True)
    want = read(os.path.join(folder, "threads"))
    code, _, errors = launch.run(mpi, ranks, [program, "mpi", "rank"], folder)
    report.check(code == 0, "%d ranks: %s %s" % (ranks, code, errors))
    for rank in range(ranks):
        path = os.path.join(folder, "rank%d" % rank)
        report.check(read(path) == want, "rank %d of %d: other bytes" % (rank, ranks))
        os.remove(path)


def main():
    report = launch.Report()
    mpi, program = sys.argv[1:3]
    launch.require(report, mpi)
    with launch.Folder() as folder:
        for ranks in 1, 3:  # 8 columns on 3 are padded
            check(report, mpi, program, ranks, folder.path)
    return report.finish()


sys.exit(main())
