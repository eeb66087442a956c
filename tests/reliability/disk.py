#!/usr/bin/env python3
"""Full disks, size limits, read-only places, a full standard output, and two
runs at once: exit status 4, a reason, nothing under the final name."""

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import time

import common

STEPS = 20


def refuse(report, result, output, label):
    """All that must hold when the system refused a write."""
    report.check(result.returncode == common.IO,
                 "%s: exit status %d: %s" %
                 (label, result.returncode, result.stderr))
    report.check("nabla-quant: " in result.stderr, label + ": says nothing")
    report.check(not os.path.lexists(output),
                 label + ": something stands under the final name")
    left = common.temporaries(os.path.dirname(output))
    report.check(not left, "%s: left %s" % (label, left))


def size_limit(options, report, folder):
    for verb, source in (("quantize", "model"), ("dequantize", "good")):
        output = folder / "limited.safetensors"
        common.run(options.tool, verb, folder / source, "-o", output)
        size = os.path.getsize(output)
        os.unlink(output)
        for step in range(STEPS):
            limit = size * step // STEPS
            result = common.run(options.tool, verb, folder / source, "-o",
                                output,
                                limits=[(resource.RLIMIT_FSIZE, limit)])
            label = "%s, RLIMIT_FSIZE %d of %d" % (verb, limit, size)
            refuse(report, result, output, label)
            report.check("free" in result.stderr or "large" in result.stderr,
                         label + ": " + result.stderr)
        result = common.run(options.tool, verb, folder / source, "-o", output,
                            limits=[(resource.RLIMIT_FSIZE, size)])
        report.check(result.returncode == 0, "RLIMIT_FSIZE of the exact size")
        os.unlink(output)
    report.figure("limits_of_file_size", 2 * STEPS)


def full_stdout(options, report, folder):
    for arguments in (("inspect", folder / "good"), ("plan", folder / "model"),
                      ("--help",), ("verify", "--json", folder / "good")):
        with open("/dev/full", "wb") as full:
            result = common.run(options.tool, *arguments, stdout=full)
        report.check(result.returncode == common.IO,
                     "%s > /dev/full: exit status %d" %
                     (arguments[0], result.returncode))
        report.check("standard output" in result.stderr,
                     arguments[0] + ": " + result.stderr)
    output = folder / "full.safetensors"
    with open("/dev/full", "wb") as full:
        result = common.run(options.tool, "quantize", folder / "model", "-o",
                            output, stdout=full)
    report.check(result.returncode == common.IO
                 and "full.safetensors is complete and in place"
                 in result.stderr, "quantize > /dev/full: " + result.stderr)
    result = common.run(options.tool, "verify", output)
    report.check(result.returncode == 0, "the output of that: " + result.stderr)


def read_only_folder(options, report, folder):
    """As root every folder is writable: the tool then runs as nobody."""
    closed = folder / "closed"
    os.mkdir(closed, 0o555)
    tool, more = options.tool, {}
    if os.geteuid() == 0:
        tool = folder / "nabla-quant"
        shutil.copy(options.tool, tool)
        for path in (folder.path, folder / "good"):
            os.chmod(path, 0o755)
        more = {"user": 65534, "group": 65534, "extra_groups": []}
        try:
            if common.run(tool, "--version", **more).returncode:
                raise PermissionError("the tool cannot be run as nobody")
        except PermissionError as error:
            report.skip("read-only folder", str(error))
            return
    output = os.path.join(closed, "q.safetensors")
    result = common.run(tool, "dequantize", folder / "good", "-o", output,
                        **more)
    refuse(report, result, output, "read-only folder")
    os.chmod(closed, 0o755)


def two_at_once(options, report, folder, seed):
    """One wins or both complete; never a broken file."""
    chance = random.Random(seed)
    good = folder / "good.safetensors"
    common.run(options.tool, "quantize", folder / "model", "-o", good)
    for i in range(8):
        force = ["--force"] if i % 2 else []
        into_folder = i % 4 >= 2
        output = folder / ("both" if into_folder else "both.safetensors")
        wanted = folder / "good" if into_folder else good
        common.remove(output)
        command = [
            options.tool, "quantize", folder / "model", "-o", output, "-q",
            *force
        ]
        children = []
        for _ in range(2):
            children.append(subprocess.Popen(command, stderr=subprocess.PIPE))
            time.sleep(chance.uniform(0, 0.05))
        codes = []
        for child in children:
            errors = child.communicate()[1].decode()
            codes.append(child.returncode)
            report.check(child.returncode in (0, common.IO),
                         "two at once: %d %s" % (child.returncode, errors))
        report.check(0 in codes, "two at once: neither succeeds: %s" % codes)
        report.check(common.same(output, wanted), "two at once: other bytes")
        report.check(not common.temporaries(folder.path),
                     "two at once: left temporaries")


# ---- inside a mount namespace -------------------------------------------------


def mount(target, options):
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", target],
                   check=True)


def unmount(target):
    subprocess.run(["umount", target], check=True)


def full_disk(options, report, disk):
    """tmpfs of 20 sizes up to that of the output."""
    model, good = options.model, options.good
    size = os.path.getsize(good)
    for step in range(STEPS + 2):
        room = max(4096, size * step // STEPS // 4096 * 4096)
        mount(disk, "size=%d" % room)
        output = os.path.join(disk, "q.safetensors")
        result = common.run(options.tool, "quantize", model, "-o", output)
        label = "tmpfs of %d bytes for %d" % (room, size)
        if room >= size + 4096:
            report.check(result.returncode == 0, label + ": " + result.stderr)
            report.check(common.same(output, good), label + ": other bytes")
        elif result.returncode:
            refuse(report, result, output, label)
            report.check("free" in result.stderr, label + ": " + result.stderr)
        else:
            report.check(common.same(output, good), label + ": other bytes")
        unmount(disk)


def full_disk_for_a_folder(options, report, disk):
    """The same with a folder and the files beside its weights; then over an old
    one, which stays."""
    model = os.path.join(os.path.dirname(options.model), "whole")
    good = model + ".good"
    common.make_model(options.maker, model, 4, "--shards", "2")
    common.add_files(model, 2)
    common.run(options.tool, "quantize", model, "-o", good)
    size = sum(os.path.getsize(os.path.join(folder, name))
               for folder, _, names in os.walk(good) for name in names)
    for step in range(STEPS + 2):
        room = max(16384, size * step // STEPS // 4096 * 4096 + 65536)
        mount(disk, "size=%d" % room)
        output = os.path.join(disk, "q")
        if step % 2:
            os.makedirs(output)
            with open(os.path.join(output, "config.json"), "w",
                      encoding="ascii") as file:
                file.write("old")
        result = common.run(options.tool, "quantize", model, "-o", output,
                            "--force")
        label = "tmpfs of %d bytes for a folder of %d" % (room, size)
        if not result.returncode:
            report.check(common.same(output, good), label + ": other bytes")
        elif step % 2:
            report.check(result.returncode == common.IO
                         and "free" in result.stderr,
                         label + ": " + result.stderr)
            report.check(os.listdir(output) == ["config.json"],
                         label + ": the old folder has changed")
            left = common.temporaries(disk)
            report.check(not left, "%s: left %s" % (label, left))
        else:
            refuse(report, result, output, label)
        unmount(disk)
    report.check(result.returncode == 0, label + ": " + result.stderr)


def full_disk_with_spill(options, report, disk):
    """Scales of dynamic8 that wait on the disk need room beside the output."""
    model = os.path.join(os.path.dirname(options.model), "sparse.safetensors")
    good = model + ".good.safetensors"
    common.sparse_model(model, 8400, 4096, 1)
    more = ("--scale", "dynamic8", "--block", "16")
    spill = 8400 * 4096 // 16 * 4
    common.run(options.tool, "quantize", model, "-o", good, *more)
    size = os.path.getsize(good)
    for step in range(STEPS + 2):
        room = max(4096, (size + spill) * step // STEPS // 4096 * 4096)
        mount(disk, "size=%d" % room)
        output = os.path.join(disk, "q.safetensors")
        result = common.run(options.tool, "quantize", model, "-o", output,
                            *more)
        label = "tmpfs of %d bytes for %d and %d" % (room, size, spill)
        if result.returncode:
            report.check(room < size + spill + 4096,
                         label + ": " + result.stderr)
            refuse(report, result, output, label)
            report.check("free" in result.stderr, label + ": " + result.stderr)
        else:
            report.check(common.same(output, good), label + ": other bytes")
        unmount(disk)
    report.check(result.returncode == 0, label + ": " + result.stderr)


def filling_disk(options, report, disk):
    """Somebody else takes the space while the output is being written."""
    size = os.path.getsize(options.good)
    start = time.monotonic()
    common.run(options.tool, "quantize", options.model, "-o",
               options.good + ".again.safetensors")
    seconds = time.monotonic() - start
    refused = 0
    for step in range(STEPS):
        mount(disk, "size=%d" % (2 * size))
        output = os.path.join(disk, "q.safetensors")
        child = subprocess.Popen(
            [options.tool, "quantize", options.model, "-o", output],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        time.sleep(seconds * step / STEPS)
        try:
            with open(os.path.join(disk, "filler"), "wb") as filler:
                while filler.write(b"\0" * 65536):
                    filler.flush()
        except OSError:
            pass
        errors = child.communicate()[1]
        if child.returncode:
            refused += 1
            child.stderr = errors
            refuse(report, child, output, "filling disk %d" % step)
        else:
            report.check(common.same(output, options.good),
                         "filling disk %d: other bytes" % step)
        unmount(disk)
    report.figure("disks_that_fill_up", STEPS)
    report.figure("disks_that_fill_up_refused", refused)


def odd_file_systems(options, report, disk):
    output = os.path.join(disk, "q.safetensors")
    mount(disk, "size=1g")
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    result = common.run(options.tool, "quantize", options.model, "-o", output)
    refuse(report, result, output, "read-only file system")
    unmount(disk)
    mount(disk, "size=1g,nr_inodes=1")
    result = common.run(options.tool, "quantize", options.model, "-o", output)
    refuse(report, result, output, "no inodes left")
    unmount(disk)


def inside(options):
    report = common.Report()
    report.figure("sizes_of_tmpfs", STEPS + 2)
    with common.Folder() as folder:
        for test in (full_disk, full_disk_for_a_folder, full_disk_with_spill,
                     filling_disk, odd_file_systems):
            test(options, report, folder.path)
    common.finish(report)


def namespaces(options, report, folder):
    """Starts this program again where it may mount."""
    for way in (["unshare", "-m"], ["unshare", "-rm"]):
        probe = [*way, "mount", "-t", "tmpfs", "none", folder.path]
        if shutil.which("unshare") and subprocess.run(
                probe, check=False, stderr=subprocess.DEVNULL).returncode == 0:
            break
    else:
        report.skip("full disk, read-only file system",
                    "no right to mount (unshare -rm)")
        return
    command = [
        *way, sys.executable, __file__, "--tool", options.tool, "--maker",
        options.maker, "--model", folder / "model", "--good",
        folder / "good.safetensors"
    ]
    report.check(subprocess.run(command, check=False).returncode == 0,
                 "in a mount namespace")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--maker", required=True)
    parser.add_argument("--megabytes", type=int, default=24)
    parser.add_argument("--model", help="inside a mount namespace")
    parser.add_argument("--good", help="inside a mount namespace")
    options = parser.parse_args()
    if options.model:
        inside(options)
    report = common.Report()
    with common.Folder() as folder:
        common.make_model(options.maker, folder / "model", options.megabytes,
                          "--shards", "2")
        common.run(options.tool, "quantize", folder / "model", "-o",
                   folder / "good")
        size_limit(options, report, folder)
        full_stdout(options, report, folder)
        read_only_folder(options, report, folder)
        two_at_once(options, report, folder, 1)
        namespaces(options, report, folder)
    common.finish(report)


if __name__ == "__main__":
    main()
