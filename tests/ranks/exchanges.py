"""exchanges.py MPI PROGRAM: exchanges of processes give the bytes of threads;
which library is opened."""

import subprocess
import sys

import launch


def threads(program, ranks):
    done = subprocess.run([program, "threads", str(ranks)],
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def check_same(report, mpi, program):
    for ranks, chunk in ((1, []), (2, []), (3, ["5000"]), (4, [])):
        want = threads(program, ranks)
        code, out, errors = launch.run(mpi, ranks, [program, "mpi"] + chunk)
        report.check(want[0] == 0 and code == 0 and out == want[1],
                     "%s, %d ranks: %s\n%s%s" % (mpi, ranks, code, out, errors))


def library(mpi):
    return {"openmpi": "libmpi.so.40", "mpich": "libmpich.so.12"}[mpi]


def check_refused(report, command, text, **variables):
    for _ in range(4):  # mpirun.mpich may end before it passes on what ranks say
        done = subprocess.run(command, capture_output=True, text=True,
                              check=False, env=launch.environment(**variables))
        if done.stderr or not done.returncode:
            break
    report.check(done.returncode and text in done.stderr,
                 "%s: '%s' is not in %s" % (command, text, done.stderr))


def check_choice(report, mpi, program):
    other = launch.OTHER[mpi]
    alone = [program, "mpi"]
    check_refused(report, alone, "was not started by mpirun")
    check_refused(report, alone, "it is openmpi or mpich", NABLA_MPI="other")
    done = subprocess.run(alone, capture_output=True, text=True, check=False,
                          env=launch.environment(NABLA_MPI=mpi))
    report.check(done.returncode == 0, "one rank by NABLA_MPI: " + done.stderr)
    started = ["mpirun." + mpi, "-n", "2"] + alone
    check_refused(report, started, "NABLA_MPI asks for", NABLA_MPI=other)
    rank = {"openmpi": "OMPI_COMM_WORLD_RANK", "mpich": "PMI_RANK"}
    if not launch.has(other):
        check_refused(report, alone, "there is no library of",
                      **{rank[other]: "0"})
        report.skip("loaded", "mpirun.%s is not installed" % other)
        return
    check_refused(report, alone, "has loaded both",
                  LD_PRELOAD=library(mpi) + ":" + library(other))
    check_refused(report, alone, "and was started by",
                  LD_PRELOAD=library(mpi), **{rank[other]: "0"})
    done = subprocess.run(alone, capture_output=True, text=True, check=False,
                          env=launch.environment(LD_PRELOAD=library(mpi),
                                                 NABLA_MPI=other))
    report.check(done.returncode == 0,
                 "what is loaded counts before NABLA_MPI: " + done.stderr)


def main():
    report = launch.Report()
    mpi, program = sys.argv[1:3]
    launch.require(report, mpi)
    check_same(report, mpi, program)
    check_choice(report, mpi, program)
    return report.finish()


sys.exit(main())
