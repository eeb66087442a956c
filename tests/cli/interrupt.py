#!/usr/bin/env python3
"""interrupt.py SIGNAL COMMAND...: sends SIGNAL when the command shows progress
for the first time, prints how it ended, then its standard output.

The first line comes after the first megabytes of a long run, so that the signal
finds the command in the middle. Standard library only.
"""
import os
import signal
import subprocess
import sys

number = getattr(signal, "SIG" + sys.argv[1])
with subprocess.Popen(sys.argv[2:], stdout=subprocess.PIPE,
                      stderr=subprocess.PIPE, text=True) as child:
    child.stderr.readline()
    os.kill(child.pid, number)
    text, errors = child.communicate()
print(f"ended by signal {-child.returncode}" if child.returncode < 0
      else f"exit code {child.returncode}")
sys.stdout.write(text)
sys.stderr.write("".join(line + "\n" for line in errors.splitlines()
                         if not line.startswith("{")))
