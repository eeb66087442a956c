"""Names with control and format characters, as the tool prints them.

usage: controls_oracle.py TOOL

Every character of Unicode's categories Cc, Cf, Zl and Zp, as Python knows them,
stands in the name of a tensor (but NUL, which no name may hold). No verb may
print one as it is, in text, in JSON or in an error, but for the newlines of its
own lines; JSON must give the names back. Standard library only.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unicodedata

CHARACTERS = [chr(c) for c in range(1, sys.maxunicode + 1)
              if unicodedata.category(chr(c)) in ("Cc", "Cf", "Zl", "Zp")]
EACH = 20  # characters in one name


def raw(text):
    """What a terminal would act on."""
    return sorted({"U+%04X" % ord(c) for c in text
                   if c in CHARACTERS and c != "\n"})


def write(path, names):
    header = {name: {"dtype": "F32", "shape": [1],
                     "data_offsets": [4 * i, 4 * i + 4]}
              for i, name in enumerate(names)}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + bytes(4 * len(names)))


def main():
    tool, failures = sys.argv[1], 0
    names = ["x%d%s" % (i, "".join(CHARACTERS[i:i + EACH]))
             for i in range(0, len(CHARACTERS), EACH)]
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "m.safetensors")
        other = os.path.join(folder, "other.safetensors")
        write(model, names)
        write(other, ["y" + name for name in names])
        missing = os.path.join(folder, "\u202e\u009b")
        for arguments in (["inspect", model], ["plan", model], ["verify", model],
                          ["diff", model, other], ["inspect", missing]):
            for options in ([], ["--json"]):
                done = subprocess.run([tool, *arguments, *options],
                                      capture_output=True, check=False)
                found = raw(done.stdout.decode()) + raw(done.stderr.decode())
                if found:
                    failures += 1
                    print("FAILED: %s prints %s" % (arguments[0] + " ".join(
                        options), ", ".join(found)))
        done = subprocess.run([tool, "inspect", model, "--json"],
                              capture_output=True, check=True)
        got = {tensor["name"] for tensor in json.loads(done.stdout)["tensors"]}
        if got != set(names):
            failures += 1
            print("FAILED: JSON gives other names")
    print("%d characters, %d failures" % (len(CHARACTERS), failures))
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
