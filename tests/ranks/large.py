"""large.py MPI PROGRAM: exchanges of arrays above 2^31 bytes. 14 GB of memory."""

import sys

import launch

LEAST = 16 << 20  # KiB


def available():
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1])
    return 0


def main():
    report = launch.Report()
    mpi, program = sys.argv[1:3]
    launch.require(report, mpi)
    if available() < LEAST:
        report.skip("large", "needs 16 GiB of memory")
        return report.finish()
    code, out, errors = launch.run(mpi, 2, [program], seconds=900)
    want = sorted("%s rank %d wrong 0" % (kind, rank)
                  for kind in ("all_reduce", "all_gather") for rank in (0, 1))
    report.check(code == 0 and sorted(out.splitlines()) == want,
                 "%s\n%s%s" % (code, out, errors))
    return report.finish()


sys.exit(main())
