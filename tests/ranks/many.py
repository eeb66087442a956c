"""many.py MPI MANY COUNT [bare]: as many all_reduce on 2 ranks do not let
memory grow; with `bare`, times beside MPI_Allreduce (docs/BENCHMARKS.md)."""

import sys

import launch

MOST = 512  # KiB: pages that the libraries touch first


def main():
    report = launch.Report()
    mpi, many, count = sys.argv[1:4]
    launch.require(report, mpi)
    code, out, errors = launch.run(mpi, 2, [many, count] + sys.argv[4:],
                                   seconds=900)
    lines = out.splitlines()
    report.check(code == 0 and len(lines) == 6, "%s %s" % (code, errors))
    for line in lines[:5]:
        report.note(mpi + ": " + line)
    growth = int(lines[-1].split()[1]) if lines else 0
    report.check(growth <= MOST, "memory grew by %d KiB" % growth)
    report.figure("growth_KiB", growth)
    return report.finish()


sys.exit(main())
