#!/usr/bin/env python3
"""Parts of an output (--part I/N), in any order, at once, killed at random
moments: the output is absent, or has the bytes of one process. Parts of other
options, of another source of the same shapes, damaged, or copied to the name of
another part are refused. What a killed joiner leaves, a later run removes."""

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import time

import common


class Case:
    def __init__(self, options, report, folder, model, more):
        self.tool, self.report, self.model = options.tool, report, model
        self.more = more
        self.output = folder / "out/o.safetensors"
        self.good = folder / "good.safetensors"
        common.remove(self.good)
        start = time.monotonic()
        subprocess.run([self.tool, "quantize", model, "-o", self.good, "-q",
                        *more], check=True)
        self.seconds = time.monotonic() - start

    def command(self, part, parts, *more):
        return [self.tool, "quantize", self.model, "-o", self.output, "-q",
                "--part", "%d/%d" % (part, parts), *self.more, *more]

    def run(self, part, parts, *more):
        command = self.command(part, parts, *more)
        return common.run(command[0], *command[1:])

    def expect(self, label):
        """One file, complete, and nothing beside it."""
        self.report.check(common.same(self.output, self.good),
                          label + ": other bytes than those of one process")
        left = os.listdir(os.path.dirname(self.output))
        self.report.check(left == ["o.safetensors"],
                          "%s: left %s" % (label, left))
        self.clean()

    def clean(self):
        folder = os.path.dirname(self.output)
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))

    def refuse(self, label, code, text, part, parts, *more):
        result = self.run(part, parts, *more)
        self.report.check(result.returncode == code and text in result.stderr,
                          "%s: exit %d, %s" % (label, result.returncode,
                                               result.stderr))
        self.report.check(not os.path.exists(self.output),
                          label + ": there is an output")


def orders(case):
    for parts in 1, 2, 3:
        for order in itertools.permutations(range(1, parts + 1)):
            for part in order:
                case.report.check(not os.path.exists(case.output),
                                  "an output before its last part")
                result = case.run(part, parts)
                case.report.check(result.returncode == 0, result.stderr)
            case.expect("%s" % (order,))
    for part in range(1, 41):  # more parts than tensors
        case.run(part, 40)
    case.expect("40 parts")


def at_once(case, rounds):
    for i in range(rounds):
        running = [subprocess.Popen(case.command(part, 3))
                   for part in (1, 2, 3)]
        codes = [child.wait() for child in running]
        case.report.check(codes == [0, 0, 0], "at once: %s" % codes)
        case.expect("at once, round %d" % i)


def killed(case, chance, rounds):
    """One process is killed, then made again: also while it joins."""
    hits = 0
    span = case.seconds  # halved where a part ends before it is killed
    for i in range(rounds):
        victim = chance.randint(1, 3)
        moment = chance.uniform(0, span)
        label = "part %d killed after %.0f ms" % (victim, 1000 * moment)
        others = [part for part in (1, 2, 3) if part != victim]
        for part in others[:2 if i % 2 else 1]:
            case.run(part, 3)
        child = subprocess.Popen(case.command(victim, 3))
        time.sleep(moment)
        child.send_signal(signal.SIGKILL)
        was_killed = child.wait() != 0
        hits += was_killed
        span = case.seconds if was_killed else span / 2
        if os.path.exists(case.output):
            case.report.check(common.same(case.output, case.good),
                              label + ": an output that is not complete")
            left = os.listdir(os.path.dirname(case.output))
            if any(".part-" in name for name in left):
                result = case.run(victim, 3)
                case.report.check(result.returncode == 0,
                                  label + ": " + result.stderr)
            case.expect(label)
            continue
        for part in chance.sample((1, 2, 3), 3):
            if not os.path.exists(case.output):
                case.run(part, 3)
        case.expect(label)
    case.report.check(hits > rounds // 4, "%d of %d killed" % (hits, rounds))


def hostile(case, folder):
    part = case.output + ".part-1-of-2"
    case.run(1, 2)
    shutil.copy(part, folder / "part")
    case.refuse("other options", common.IO, "of another run", 2, 2, "--block",
                "128")
    case.report.check(not os.path.exists(case.output + ".part-2-of-2"),
                      "a part of a run that was refused")
    with open(case.model, "r+b") as file:  # the last bytes of a tensor
        file.seek(-4, os.SEEK_END)
        before = file.read(4)
        file.seek(-4, os.SEEK_END)
        file.write(b"\0\0\0\x3e")
    case.refuse("another source", common.IO, "of another run", 2, 2)
    with open(case.model, "r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(before)
    size = os.path.getsize(part)
    for at in 0, 1, 8, 100, size // 2, size - 1:
        shutil.copy(folder / "part", part)
        os.truncate(part, at)
        case.refuse("truncated to %d" % at, common.INPUT,
                    "o.safetensors.part-1-of-2: ", 2, 2)
    case.run(1, 2, "--force")
    case.run(2, 2)
    case.expect("a damaged part, replaced")
    with open(case.output, "w", encoding="ascii") as file:
        file.write("old")
    result = case.run(1, 2)
    case.report.check(result.returncode == common.IO and
                      "exists" in result.stderr, result.stderr)
    for i in 1, 2:
        case.run(i, 2, "--force")
    case.expect("an output that is replaced")
    for text in "0/2", "3/2", "1", "1/", "/1", "1/1025", "-1/2", "a/b", "":
        result = common.run(case.tool, "quantize", case.model, "-o",
                            case.output, "--part", text)
        case.report.check(result.returncode == common.USAGE,
                          "--part '%s': exit %d" % (text, result.returncode))
    result = common.run(case.tool, "quantize", case.model, "-o",
                        case.output[:-12], "--part", "1/2")
    case.report.check("one file" in result.stderr, result.stderr)


def change_header(path, change):
    """Gives a safetensors file the header that `change` makes of its own."""
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = file.read()
    text = json.dumps(change(header)).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def header_of(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(size))


def damage(path, names):
    """Changes one byte of a tensor that is among these."""
    name, entry = next(item for item in header_of(path).items()
                       if item[0] in names and item[0] != "__metadata__")
    with open(path, "r+b") as file:
        size, = struct.unpack("<Q", file.read(8))
        file.seek(8 + size + entry["data_offsets"][0])
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def other_parts(case, folder):
    """A part at the place of another, and parts with too few tensors, or with
    the same one."""
    first, second = (case.output + ".part-%d-of-2" % i for i in (1, 2))
    case.run(1, 2)
    shutil.copy(first, folder / "part")
    shutil.copy(first, second)
    case.refuse("a copy of part 1", common.IO, "another part", 2, 2)
    os.unlink(second)
    os.link(first, second)
    case.refuse("a link to part 1", common.IO, "another part", 2, 2)
    os.unlink(second)
    os.unlink(first)
    os.symlink(folder / "part", first)
    case.run(2, 2)
    case.expect("a part that is a symbolic link")

    def rename(header):
        """Part 2 with the tensors of part 1."""
        label = header["__metadata__"]["nabla.part"]
        header["__metadata__"]["nabla.part"] = label[:-1] + "2"
        return header

    def empty(header):
        return {"__metadata__": header["__metadata__"]}

    shutil.copy(folder / "part", first)
    shutil.copy(folder / "part", second)
    change_header(second, rename)
    case.refuse("tensors of another part", common.INPUT, "another part has", 2,
                2)
    change_header(second, empty)
    with open(second, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
    os.truncate(second, 8 + size)
    case.refuse("a part without tensors", common.INPUT, "no part has", 2, 2)
    case.clean()


def left(case):
    """Parts that a joiner has left beside the output; and beside another."""
    folder = os.path.dirname(case.output)
    kept = {}
    for part in 1, 2, 3:
        case.run(part, 3)
        for name in os.listdir(folder):
            if ".part-" in name:
                with open(os.path.join(folder, name), "rb") as file:
                    kept[name] = file.read()
    with open(case.output + ".part-3-of-3", "wb") as file:
        file.write(kept["o.safetensors.part-1-of-3"])
    result = case.run(3, 3)
    case.report.check(result.returncode == common.IO and
                      "exists" in result.stderr, result.stderr)
    os.unlink(case.output + ".part-3-of-3")
    for victim in 1, 2, 3:
        for name, data in kept.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)
        result = case.run(victim, 3)
        case.report.check(result.returncode == 0, result.stderr)
        case.report.check(common.same(case.output, case.good),
                          "left: another output")
        case.report.check(os.listdir(folder) == ["o.safetensors"],
                          "left: %s" % os.listdir(folder))
    for name, data in kept.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)
    damage(case.output, header_of(case.output + ".part-1-of-3"))
    before = sorted(os.listdir(folder))
    result = case.run(3, 3)
    case.report.check(result.returncode == common.IO and
                      "exists" in result.stderr, result.stderr)
    case.report.check(sorted(os.listdir(folder)) == before,
                      "removed beside another output")
    case.clean()


def launched(case):
    """Launchers say it by the environment."""
    for names in ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK",
                                                                    "PMI_SIZE"):
        command = case.command(1, 3)
        del command[command.index("--part"):command.index("--part") + 2]
        for rank in 2, 0, 1:
            more = dict(os.environ, **{names[0]: str(rank), names[1]: "3"})
            subprocess.run(command, check=True, env=more)
        case.expect("launched, " + names[0])
        result = common.run(command[0], *command[1:],
                            env=dict(os.environ, **{names[0]: "3",
                                                    names[1]: "3"}))
        case.report.check(result.returncode == common.USAGE and
                          names[0] in result.stderr, result.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--maker", required=True)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--megabytes", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    report = common.Report()
    for name in list(os.environ):
        if name.startswith(("OMPI_", "PMI_")):
            del os.environ[name]
    chance = random.Random(options.seed)
    with common.Folder() as folder:
        os.mkdir(folder / "out")
        model = folder / "model"
        common.make_model(options.maker, model, options.megabytes)
        shards = folder / "shards"
        common.make_model(options.maker, shards, options.megabytes, "--shards",
                          "3")
        whole = [name for name in os.listdir(model)
                 if name.endswith(".safetensors")]
        case = Case(options, report, folder, os.path.join(model, whole[0]), ())
        orders(case)
        launched(case)
        hostile(case, folder)
        other_parts(case, folder)
        left(case)
        case = Case(options, report, folder, shards,
                    ("--scale", "dynamic8", "--block", "16"))
        at_once(case, options.rounds)
        killed(case, chance, 2 * options.rounds)
    report.note("seed %d" % options.seed)
    common.finish(report)


if __name__ == "__main__":
    main()
