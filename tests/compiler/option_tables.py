"""The tables of options of all tools, as `--help --json` prints them: each option
has a group and a sentence, each name and letter is there once, the same option has
the same letter in all tools, and what --help --json says is what --help shows.

usage: option_tables.py TOOL...
"""
import json
import subprocess
import sys

failed = []
letters = {}  # by name: the letter and the tool that has it


def expect(good, what):
    if not good:
        failed.append(what)


def output(*command):
    done = subprocess.run(command, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    expect(done.returncode == 0 and not done.stderr,
           "%s: exit %d, %s" % (" ".join(command), done.returncode, done.stderr))
    return done.stdout


def check_option(where, option, text):
    name = option["name"]
    expect(option["group"] and option["help"] and option["help"].endswith("."),
           "%s --%s: no group or sentence" % (where, name))
    expect("\n%s options:\n" % option["group"] in text and
           "--%s" % name in text, "%s --%s: not in the text" % (where, name))
    expect(option["argument"] or not (option["values"] or option["is_path"] or
                                      option["default"]),
           "%s --%s: values without an argument" % (where, name))
    first = letters.setdefault(name, (option["letter"], where))
    expect(first[0] == option["letter"], "--%s is -%s in %s and -%s in %s" % (
        name, option["letter"], where, first[0], first[1]))


def check_table(words, table):
    where = " ".join(words[1:2] + words[2:]) or words[0]
    text = output(*words, "--help")
    for column in ("name", "letter"):
        seen = [o[column] for o in table["options"] if o[column]]
        expect(len(seen) == len(set(seen)), "%s: a %s twice" % (where, column))
    for option in table["options"]:
        check_option(where, option, text)
    expect(len(table["exits"]) >= 6, "%s: exit codes" % where)
    return len(table["options"])


def help_of(*words):
    table = json.loads(output(*words, "--help", "--json"))
    return table.get("help", table)


options = 0
for tool in sys.argv[1:]:
    whole = help_of(tool)
    if "verbs" not in whole:
        options += check_table([tool], whole)
    for verb in whole.get("verbs", ()):
        options += check_table([tool, verb["name"]],
                               help_of(tool, verb["name"]))
expect(options > 100, "%d options" % options)
print("\n".join("FAILED " + what for what in failed[:20]) or
      "figure: options %d" % options)
sys.exit(bool(failed))
