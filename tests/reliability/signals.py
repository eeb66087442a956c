#!/usr/bin/env python3
"""Stops a quantize at random moments: the final name is absent, or what it was
before, or complete; all signals but SIGKILL leave no temporary and show as the
exit status; after SIGKILL the next run cleans up and writes the same bytes.
Too few descriptors and too little memory leave no temporary either."""

import argparse
import os
import random
import resource
import signal
import subprocess
import time

import common

OLD_FILES = ("model.safetensors.index.json", "config.json",
             "sub/deep/vocab.txt")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP,
           signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU,
           signal.SIGALRM)


class Trial:
    """One way of writing: a file or a folder, over an old one or not, and
    what else is asked for."""

    def __init__(self, name, output, force, more=()):
        self.name, self.output, self.force = name, output, force
        self.more = more
        self.seconds = 0.0
        self.good = output + ".good"

    def reset(self):
        common.remove(self.output)
        if self.force and self.output.endswith(".safetensors"):
            with open(self.output, "w", encoding="ascii") as file:
                file.write("old")
        elif self.force:
            os.makedirs(os.path.join(self.output, "sub", "deep"))
            for name in OLD_FILES:
                with open(os.path.join(self.output, name), "w",
                          encoding="ascii") as file:
                    file.write("old")

    def is_as_before(self):
        if not self.force:
            return not os.path.lexists(self.output)
        paths = [self.output]
        if os.path.isdir(self.output):
            found = sorted(
                os.path.relpath(os.path.join(folder, name), self.output)
                for folder, _, names in os.walk(self.output) for name in names)
            if found != sorted(OLD_FILES):
                return False
            paths = [os.path.join(self.output, name) for name in OLD_FILES]
        for path in paths:
            with open(path, "rb") as file:
                if file.read(4) != b"old":
                    return False
        return True

    def command(self, tool, model):
        force = ["--force"] if self.force else []
        return [
            tool, "quantize", model, "-o", self.output, "-q", *self.more,
            *force
        ]


def stop_once(options, report, trial, number, moment, model):
    trial.reset()
    label = "%s, %s after %.0f ms" % (trial.name, number.name, 1000 * moment)
    child = subprocess.Popen(trial.command(options.tool, model),
                             stderr=subprocess.DEVNULL)
    time.sleep(moment)
    child.send_signal(number)
    status = child.wait()
    complete = common.same(trial.output, trial.good)
    report.check(complete or trial.is_as_before(),
                 label + ": something else stands under the final name")
    report.check(status in (0, -number),
                 "%s: exit status %d" % (label, status))
    report.check(status != 0 or complete, label + ": success, incomplete")
    left = common.temporaries(os.path.dirname(trial.output))
    if number != signal.SIGKILL:
        report.check(not left, "%s: left %s" % (label, left))
        return status != 0
    if complete:
        trial.reset()
    again = subprocess.run(trial.command(options.tool, model), check=False)
    report.check(again.returncode == 0, label + ": the next run fails")
    report.check(common.same(trial.output, trial.good),
                 label + ": the next run writes other bytes")
    left = common.temporaries(os.path.dirname(trial.output))
    report.check(not left, "%s: the next run leaves %s" % (label, left))
    return status != 0


def ignored(options, report, trial, model):
    """What nohup and its kin ignore stays ignored."""

    def prepare():
        for number in SIGNALS[1:]:
            signal.signal(number, signal.SIG_IGN)

    trial.reset()
    child = subprocess.Popen(trial.command(options.tool, model),
                             preexec_fn=prepare)
    for i in range(20):
        time.sleep(trial.seconds / 25)
        child.send_signal(SIGNALS[1 + i % (len(SIGNALS) - 1)])
    report.check(child.wait() == 0, "an ignored signal stops it")
    report.check(common.same(trial.output, trial.good),
                 "an ignored signal spoils the output")


def few_descriptors(options, report, trial, model):
    """Each number of them that is too small, and the first that suffices."""
    for number in range(3, 40):
        trial.reset()
        result = common.run(*trial.command(options.tool, model),
                            limits=[(resource.RLIMIT_NOFILE, number)])
        left = common.temporaries(os.path.dirname(trial.output))
        report.check(not left, "ulimit -n %d leaves %s" % (number, left))
        if result.returncode == 0:
            break
        report.check(trial.is_as_before(), "ulimit -n %d: not as before" %
                     number)
    report.check(result.returncode == 0 and number > 5,
                 "%d descriptors: exit status %d" %
                 (number, result.returncode))


def little_memory(options, report, trial, model):
    """Memory that is gone, and stays gone, at many moments."""
    failed = 0
    for mebibytes in range(4, 400, 4):
        trial.reset()
        result = common.run(*trial.command(options.tool, model), "--threads",
                            "1",
                            limits=[(resource.RLIMIT_AS, mebibytes << 20)])
        left = common.temporaries(os.path.dirname(trial.output))
        report.check(not left, "ulimit -v %d MiB leaves %s" %
                     (mebibytes, left))
        if result.returncode == 0:
            break
        failed += 1
        report.check(trial.is_as_before(), "ulimit -v %d MiB: not as before" %
                     mebibytes)
    report.check(failed > 1 and result.returncode == 0,
                 "%d failures, then exit status %d" %
                 (failed, result.returncode))


def learn(options, report, trial, model):
    for _ in range(2):  # the second time the model is in the page cache
        trial.reset()
        start = time.monotonic()
        subprocess.run(trial.command(options.tool, model), check=True)
        trial.seconds = time.monotonic() - start
    os.rename(trial.output, trial.good)
    result = common.run(options.tool, "verify", trial.good)
    report.check(result.returncode == 0, "verify: " + result.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--maker", required=True)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-address-space-limits", action="store_true")
    options = parser.parse_args()
    report = common.Report()
    chance = random.Random(options.seed)
    hits = 0
    with common.Folder() as folder:
        model = folder / "model"
        common.make_model(options.maker, model, options.megabytes, "--shards",
                          "3")
        common.add_files(model, options.megabytes // 8)
        os.mkdir(folder / "out")
        trials = [
            Trial("file", folder / "out/f.safetensors", False),
            Trial("folder", folder / "out/d", False),
            Trial("replaced file", folder / "out/of.safetensors", True),
            Trial("replaced folder", folder / "out/od", True),
            # so many scales that they wait on the disk
            Trial("spilled scales", folder / "out/s.safetensors", False,
                  ("--scale", "dynamic8", "--block", "16")),
        ]
        for trial in trials:
            learn(options, report, trial, model)
        for i in range(options.rounds):
            trial = trials[i % len(trials)]
            moment = chance.uniform(0, 1.05 * trial.seconds)
            hits += stop_once(options, report, trial,
                              SIGNALS[i % len(SIGNALS)], moment, model)
            for each in trials:
                common.remove(each.output)
        for trial in trials[:2]:
            ignored(options, report, trial, model)
            few_descriptors(options, report, trial, model)
            if options.no_address_space_limits:
                report.skip("ulimit -v", "the build has a sanitizer")
            else:
                little_memory(options, report, trial, model)
    report.note("seed %d" % options.seed)
    report.figure("signals_at_random_moments", options.rounds)
    report.figure("signals_before_the_end", hits)
    report.figure("wrong_or_left_behind", report.failed)
    report.check(hits > options.rounds // 3, "too few runs were stopped")
    common.finish(report)


if __name__ == "__main__":
    main()
