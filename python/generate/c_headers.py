"""Reads C headers: enumerations, structures, callbacks and functions.

The headers of include/nabla are plain C17 in one style. The C preprocessor expands
their tables; what is left is a list of declarations, which this module takes apart.
Comments come from the headers themselves.
"""
import os
import re
import subprocess
import tempfile
from collections import namedtuple

Type = namedtuple("Type", "name pointers is_const")
Member = namedtuple("Member", "name type sizes callback")
Callback = namedtuple("Callback", "name result parameters")
Function = namedtuple("Function", "name result parameters is_variadic header comment")
# enums: name -> [(id, number)]; structs: name -> [Member], None where opaque;
# callbacks: name -> Callback; functions: name -> Function
Headers = namedtuple("Headers", "enums structs callbacks functions macros")

SYSTEM = ("stddef.h", "stdint.h", "stdarg.h")
# Numbers that others may name: those of C, then enumerations that were read.
CONSTANTS = {"UINT64_MAX": 2 ** 64 - 1, "INT64_MAX": 2 ** 63 - 1,
             "SIZE_MAX": 2 ** 64 - 1}


def preprocess(compiler, include, headers):
    """The text of headers without comments, directives and attributes."""
    with tempfile.TemporaryDirectory() as folder:
        for name in SYSTEM:
            with open(os.path.join(folder, name), "w", encoding="utf-8"):
                pass
        text = "".join('#include "nabla/%s"\n' % h for h in headers)
        done = subprocess.run(
            [compiler, "-E", "-P", "-xc", "-std=c17", "-nostdinc", "-I", folder, "-I",
             include, "-D__attribute__(x)=", "-"], input=text, capture_output=True,
            text=True, check=False)
    if done.returncode:
        raise SystemExit("%s -E: %s" % (compiler, done.stderr))
    # without the functions that headers define
    return re.sub(r"static inline [^{;]*\{[^{}]*\}", "", re.sub(r"\s+", " ", done.stdout))


def split(text, separator):
    """The parts of text between separators that are in no bracket."""
    parts, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        if c in "({[":
            depth += 1
        elif c in ")}]":
            depth -= 1
        elif c == separator and not depth:
            parts.append(text[begin:i].strip())
            begin = i + 1
    return parts + [text[begin:].strip()]


def number(text):
    """The value of a constant expression of C."""
    text = re.sub(r"\b[A-Z][A-Z0-9]*_\w+\b", lambda m: str(CONSTANTS.get(m[0], m[0])), text)
    text = re.sub(r"\b(0x[0-9a-fA-F]+|\d+)[uUlL]*\b", r"\1", text)
    if not re.fullmatch(r"[\s0-9a-fA-Fx()<>+*/-]+", text):
        raise ValueError("no number: " + text)
    return int(eval(text, {"__builtins__": {}}))  # digits and operators alone


def to_type(text):
    pointers = text.count("*")
    words = text.replace("*", " ").split()
    name = " ".join(w for w in words if w not in ("const", "struct", "enum"))
    return Type(name, pointers, "const" in words)


def to_member(text):
    """A member or parameter: its type, name and sizes, or a callback."""
    found = re.fullmatch(r"(.*?)\(\s*\*\s*(\w+)\s*\)\s*\((.*)\)", text)
    if found:
        callback = Callback(found[2], to_type(found[1]), to_parameters(found[3]))
        return Member(found[2], Type("void", 1, False), (), callback)
    sizes = tuple(number(s) for s in re.findall(r"\[([^\]]*)\]", text) if s.strip())
    text = re.sub(r"\[[^\]]*\]", "", text)
    found = re.fullmatch(r"(.*?[\s*])(\w+)", text)
    if not found or found[2] in ("int", "double", "float", "char", "void"):
        return Member("", to_type(text), sizes, None)
    return Member(found[2], to_type(found[1]), sizes, None)


def to_parameters(text):
    return [to_member(p) for p in split(text, ",") if p not in ("void", "", "...")]


def to_members(text):
    members = []
    for part in split(text, ";"):
        if not part:
            continue
        nested = re.fullmatch(r"struct \{(.*)\}\s*(\w+)\s*\[([^\]]*)\]", part)
        if nested:
            members.append(Member(nested[2], to_members(nested[1]),
                                  (number(nested[3]),), None))
            continue
        first, *more = split(part, ",")
        members.append(to_member(first))
        for name in more:  # int a, b; const int64_t *a, *b
            stars = name.count("*")
            base = members[-1].type
            members.append(Member(name.strip("* "), Type(base.name, stars,
                                                         base.is_const), (), None))
    return members


def to_enum(text):
    rows, value = [], -1
    for part in split(text, ","):
        if not part:
            continue
        name, _, given = (p.strip() for p in part.partition("="))
        value = number(given) if given else value + 1
        rows.append((name, value))
    CONSTANTS.update(rows)
    return rows


def comments(include, headers):
    """Function: its header and the comment above its declaration."""
    found = {}
    for header in headers:
        with open(os.path.join(include, "nabla", header), encoding="utf-8") as file:
            text = file.read()
        comment, is_fresh = "", False
        for token in re.finditer(r"/\*(.*?)\*/|NABLA_API\b([^;{]*);|(^#[^\n]*)|(\n\n)",
                                 text, re.S | re.M):
            if token[1] is not None:
                lines = [re.sub(r"^\s*\* ?", "", line)
                         for line in token[1].strip("\n").split("\n")]
                comment, is_fresh = "\n".join(lines).strip(), True
            elif token[2] is not None:
                name = re.search(r"(nabla_\w+)\s*\(", token[2])
                if name:
                    found[name[1]] = (header, comment)
            elif token[4] is not None:
                comment = "" if not is_fresh else comment
                is_fresh = False
    return found


def numbers_of_macros(include, headers):
    """Macros that are numbers, by name."""
    macros = {}
    for header in headers:
        with open(os.path.join(include, "nabla", header), encoding="utf-8") as file:
            for name, text in re.findall(r"^#define (NABLA_\w+)[ \t]+([^\n/]+)",
                                         file.read(), re.M):
                text = re.sub(r"U?INT64_C\((\w+)\)", r"\1", text)
                try:
                    macros[name] = number(text.strip())
                except (ValueError, SyntaxError):
                    continue
    return macros


def read(compiler, include, headers):
    text = preprocess(compiler, include, headers)
    out = Headers({}, {}, {}, {}, numbers_of_macros(include, headers))
    told = comments(include, headers)
    for part in split(text, ";"):
        part = part.strip()
        enum = re.fullmatch(r"typedef enum (?:\w+ )?\{(.*)\} ?(\w+)", part)
        struct = re.fullmatch(r"(?:typedef )?struct (\w+) ?\{(.*)\} ?\w*", part)
        opaque = re.fullmatch(r"typedef struct (\w+) (\w+)", part)
        callback = re.fullmatch(r"typedef ([^({]*)\( ?\* ?(\w+) ?\) ?\((.*)\)", part)
        function = re.fullmatch(r"([^({]*?[ *])(nabla_\w+) ?\((.*)\)", part)
        if enum:
            out.enums[enum[2]] = to_enum(enum[1])
        elif struct:
            out.structs[struct[1]] = to_members(struct[2])
        elif opaque:
            out.structs.setdefault(opaque[1], None)
        elif callback:
            out.callbacks[callback[2]] = Callback(
                callback[2], to_type(callback[1]), to_parameters(callback[3]))
        elif function and not part.startswith("typedef"):
            header, comment = told.get(function[2], ("", ""))
            out.functions[function[2]] = Function(
                function[2], to_type(function[1]), to_parameters(function[3]),
                "..." in function[3], header, comment)
        elif part:
            raise SystemExit("cannot read the declaration: " + part[:200])
    return out
