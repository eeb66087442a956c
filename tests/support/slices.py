"""Which tenth of what is generated runs: NABLA_TEST_SLICE. tests/support/slice.h
is the same for C, scripts/times.sh for scripts/test."""
import os
import sys

SLICES = 10


def slice_number():
    """One of the ten slices, "all", or None where NABLA_TEST_SLICE is not set.
    Anything else ends the process."""
    text = os.environ.get("NABLA_TEST_SLICE") or None
    if text in (None, "all"):
        return text
    if text not in [str(n) for n in range(SLICES)]:
        sys.exit("NABLA_TEST_SLICE=%s is no slice: one of 0 to %d, or all" % (
            text, SLICES - 1))
    return int(text)
