"""The output of an example is the text block below "output of NAME" in a page.

usage: example_output.py PAGE NAME PROGRAM [ARGUMENT...]; exit 77 if PROGRAM does
"""
import os
import re
import subprocess
import sys

page, name, *program = sys.argv[1:]
with open(page, encoding="utf-8") as file:
    shown = re.search(r"<!-- output of %s -->\n```text\n(.*?)```\n" % name,
                      file.read(), re.S)
if not shown:
    sys.exit("%s shows no output of %s" % (page, name))
done = subprocess.run(program, env=dict(os.environ, NABLA_CACHE=""),
                      capture_output=True, text=True, check=False)
if done.returncode == 77:
    print(done.stdout)
    sys.exit(77)
if done.returncode:
    sys.exit("%s ended with %d: %s" % (program[0], done.returncode, done.stderr))
if done.stdout != shown.group(1):
    sys.exit("%s shows\n%s\nbut %s prints\n%s" % (page, shown.group(1), name,
                                                 done.stdout))
