"""complete.py SHELL FOLDER TOOL...: completion in a real shell.

What a shell offers is compared with what TOOL --help --json says. bash and zsh
run in a terminal of their own and are asked by keys; fish is asked by
`complete -C`. Exits with 77 where the shell is not installed.
"""
import json
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time

ALL = {"bash": "\x1b*", "zsh": "\x18l\x18a"}  # insert all matches
START = {
    "bash": ["--norc", "--noprofile", "-i"],
    "zsh": ["-f", "-i"],
}
SETUP = {
    "bash": ["bind 'set bell-style none'", "bind 'set enable-bracketed-paste off'"],
    "zsh": [
        "unsetopt beep zle_bracketed_paste prompt_sp 2>/dev/null; unset zle_bracketed_paste",
        "bindkey -e",
        "autoload -U compinit && compinit -u -D",
        "zle -C all-matches complete-word _generic && bindkey '^Xa' all-matches",
        "bindkey '^Xl' list-choices",
        "zstyle ':completion:all-matches:*' old-matches only",
        "zstyle ':completion:all-matches::::' completer _all_matches",
    ],
}


class Terminal:
    """A shell with a terminal, whose lines are read back as words."""

    def __init__(self, shell, folder, work):
        self.shell = shell
        self.text = b""
        environment = dict(os.environ, TERM="dumb", PS1="$ ", LC_ALL="C.UTF-8", HOME=work,
                           COLUMNS="4000", LINES="2000", ZDOTDIR=work)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(work)
            os.execvpe(shell, [shell] + START[shell], environment)
        if shell == "zsh":
            self.send(f"fpath=('{folder}' $fpath)\r")
        for line in SETUP[shell]:
            self.send(line + "\r")
        if shell == "bash":
            for name in os.listdir(folder):
                self.send(f". '{folder}/{name}'\r")
        self.wait("printf '<%s>' READY; echo\r", b"<READY>")

    def send(self, keys):
        data = keys.encode()
        while data:
            self.read(0)
            data = data[os.write(self.fd, data):]

    def read(self, seconds):
        if select.select([self.fd], [], [], seconds)[0]:
            self.text += os.read(self.fd, 65536)

    def wait(self, keys, mark):
        """Sends keys and returns the text up to the mark."""
        self.text = b""
        self.send(keys)
        end = time.monotonic() + 60
        while mark not in self.text:
            if time.monotonic() > end:
                sys.exit(f"FAIL: {self.shell} does not answer {keys!r}: {self.text!r}")
            self.read(1)
        return self.text.split(mark)[0]

    def words(self, line, keys):
        """The words of a command line after some keys."""
        # to its begin: there a function is put, that prints the words
        answer = self.wait(line + keys + "\x01printf '<%s>' BEGIN \x05 END; echo\r", b"<END>")
        words = answer.split(b"<BEGIN>")[-1].decode()
        return [word[:-1] for word in words.split("<")[1:]]

    def offers(self, line):
        """What the shell offers for the last word of a line."""
        before = len(line.split()) - (not line.endswith(" "))
        return {word.strip() for word in self.words(line, ALL[self.shell])[before:]}

    def completes(self, line):
        return self.words(line, "\t")

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


class Fish:
    """fish, which says what it offers without a terminal."""

    def __init__(self, folder, work):
        self.work = work
        self.setup = "".join(f"source '{folder}/{name}'; " for name in os.listdir(folder))

    def offers(self, line):
        environment = dict(os.environ, HOME=self.work, XDG_CONFIG_HOME=self.work,
                           XDG_DATA_HOME=self.work, LC_ALL="C.UTF-8")
        command = self.setup + "complete -C '" + line.replace("'", "\\'") + "'"
        done = subprocess.run(["fish", "--no-config", "-c", command], cwd=self.work, check=True,
                              env=environment, stdout=subprocess.PIPE, text=True)
        return {row.split("\t")[0] for row in done.stdout.splitlines()}

    def completes(self, line):
        offers = self.offers(line)
        if len(offers) != 1:
            sys.exit(f"FAIL: {line}: {offers}")
        return line.split()[:-1] + [offers.pop()]

    def close(self):
        pass


def help_of(tool, *verb):
    done = subprocess.run([tool, *(["help", *verb] if verb else ["--help"]), "--json"], check=True,
                          stdout=subprocess.PIPE, text=True)
    answer = json.loads(done.stdout)
    return answer.get("help", answer)


def passes_of(tool):
    done = subprocess.run([tool, "--help"], check=True, stdout=subprocess.PIPE, text=True)
    names = {line.split()[0] for line in done.stdout.splitlines()
             if line.strip().startswith("--nabla-")}
    return {name.split("=")[0] for name in names}


def equal(line, seen, wanted):
    if seen != wanted:
        sys.exit(f"FAIL: {line!r}: missing {sorted(wanted - seen)}, "
                 f"too much {sorted(seen - wanted)}")


def check_options(shell, name, verb, options, more):
    """All options, the values of each, and both ways to write them."""
    line = " ".join([name] + verb)
    wanted = {"--" + row["name"] for row in options} | more
    # what takes an argument may be offered with its '='
    equal(line, {word.rstrip("=") for word in shell.offers(line + " --")}, wanted)
    for row in options:
        values = set(row["values"] or [])
        if not values:
            continue
        for separator in " ", "=":
            asked = f"{line} --{row['name']}{separator}"
            seen = {word.split("=")[-1] for word in shell.offers(asked)}
            equal(asked, seen - {""}, values)


def check_files(shell, tools):
    """Names with blanks, behind blank, '=' and NAME=."""
    name, file = "nabla-run", "a file.npy"
    if name not in tools:
        return
    cases = {"--output a": ["--output"], "--output=a": ["--output="],
             "--input x=a": ["--input", "x="], "a": []}
    for line, before in cases.items():
        words = shell.completes(f"{name} {line}")
        if isinstance(shell, Fish):
            words[-1] = words[-1].replace("\\ ", " ")
        if before and before[-1].endswith("="):
            wanted = [name] + before[:-1] + [before[-1] + file]
        else:
            wanted = [name] + before + [file]
        if words != wanted:
            sys.exit(f"FAIL: {line!r} becomes {words}, not {wanted}")


def main():
    program, folder, tools = sys.argv[1], sys.argv[2], sys.argv[3:]
    if not shutil.which(program):
        print(f"SKIP: {program} is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as work:
        open(os.path.join(work, "a file.npy"), "w", encoding="ascii").close()
        shell = Fish(folder, work) if program == "fish" else Terminal(program, folder, work)
        for tool in tools:
            name = os.path.basename(tool)
            about = help_of(tool)
            verbs = [row["name"] for row in about.get("verbs", [])]
            if not verbs:
                more = passes_of(tool) if name == "nabla-opt" else set()
                check_options(shell, name, [], about["options"], more)
            else:
                equal(name, {word for word in shell.offers(name + " ") if word[:1] != "-"},
                      set(verbs) | {"help"})
            for verb in verbs:
                check_options(shell, name, [verb], help_of(tool, verb)["options"], set())
        check_files(shell, {os.path.basename(tool) for tool in tools})
        shell.close()


main()
