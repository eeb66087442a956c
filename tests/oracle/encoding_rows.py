"""The rows of quant/codec/encodings.def, so that the oracles miss none of them."""
import os
import re

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                     "../../quant/codec/encodings.def")


def names():
    """The encodings, in the order of the table."""
    with open(TABLE, encoding="utf-8") as file:
        found = re.findall(r"^ENCODING\(\s*(\w+)\s*,", file.read(), re.M)
    if not found:
        raise SystemExit("FAILED: no rows in " + TABLE)
    return found


def split(references):
    """The encodings with a reference, and those without, which are told."""
    known = [name for name in names() if name in references]
    missing = [name for name in names() if name not in references]
    for name in missing:
        print("skipped: no independent reference for " + name, flush=True)
    lost = [name for name in references if name not in known]
    if lost:
        raise SystemExit("FAILED: not in the table: " + ", ".join(lost))
    return known, missing


def skipped(missing):
    """The end of a summary line."""
    return "; skipped: " + ", ".join(missing) if missing else ""
