"""Checks that reference.py decodes the samples of tests/golden to their values,
so that they rest on more than the code that they test.

usage: golden_oracle.py FOLDER
Exits 77, which ctest shows as skipped, when numpy is missing.
"""
import os
import sys

sys.dont_write_bytecode = True
import encoding_rows  # noqa: E402

try:
    import numpy as np
except ImportError:
    print("skipped: needs numpy (Debian: python3-numpy)")
    sys.exit(77)

import reference  # noqa: E402
from reference import Form  # noqa: E402

WIDTHS = {"F32": np.uint32, "F16": np.uint16, "BF16": np.uint16, "E8M0": np.uint8}


def sections_of(path):
    """The sections of a file: lists of words by key."""
    found = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "per":
                found.append({})
            found[-1].setdefault(words[0], []).extend(words[1:])
    return found


def numbers(section, key, kind):
    return np.array([int(word, 16) for word in section.get(key, [])], kind)


def check(encoding, section):
    form = Form(encoding, section["per"][0], int(section["size"][0]),
                section.get("scale", ["F32"])[0], "zero_points" in section)
    count = int(section["count"][0])
    value = reference.decode(
        form, count, numbers(section, "codes", np.uint8),
        numbers(section, "scales", WIDTHS[form.scale]).view(np.uint8),
        numbers(section, "zero_points", np.uint8))
    want = numbers(section, "values", np.uint32)
    same = (value.view(np.uint32) == want) | \
        (np.isnan(value) & np.isnan(want.view(np.float32)))
    if len(want) != count or not same.all():
        sys.exit(f"FAILED {form}: value {int(np.argmin(same))} of {count}")


def main():
    known, missing = encoding_rows.split(reference.ROWS)
    total = 0
    for encoding in known:
        for section in sections_of(os.path.join(sys.argv[1], encoding + ".txt")):
            check(encoding, section)
            total += 1
    print(f"figure: samples {total}")
    print(f"all equal{encoding_rows.skipped(missing)}")


main()
