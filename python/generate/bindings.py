"""Writes _c.py: the C headers as ctypes.

Pointers are addresses (c_void_p takes integers, bytes and byref), except texts that
C gives, which are bytes.
"""
SCALARS = {"int": "c_int", "uint32_t": "c_uint32", "int64_t": "c_int64",
           "uint64_t": "c_uint64", "size_t": "c_size_t", "double": "c_double",
           "float": "c_float", "uint8_t": "c_uint8", "int32_t": "c_int32",
           "uint16_t": "c_uint16", "char": "c_char", "unsigned": "c_uint"}


def of_type(headers, type_, is_result=False):
    if type_.pointers:
        is_text = type_.name == "char" and type_.pointers == 1 and type_.is_const
        return "c_char_p" if is_text and is_result else "c_void_p"
    if type_.name == "void":
        return "None"
    if type_.name in headers.enums:
        return "c_int"
    if type_.name in headers.callbacks:
        return "c_void_p"
    return SCALARS.get(type_.name, type_.name)


def of_member(headers, member):
    if isinstance(member.type, list):  # a structure without a name
        inner = "type('%s', (Structure,), {'_fields_': [%s]})" % (
            member.name, fields(headers, member.type))
    else:
        inner = of_type(headers, member.type, is_result=True)
    for size in reversed(member.sizes):
        inner = "%s * %d" % (inner, size)
    return inner


def fields(headers, members):
    return ", ".join("(%r, %s)" % (m.name, of_member(headers, m)) for m in members)


def ordered(structs):
    """Names of structures, those that others contain first."""
    done = []

    def visit(name):
        if name in done or structs.get(name) is None:
            return
        for member in structs[name]:
            inner = member.type if isinstance(member.type, list) else [member]
            for part in inner:
                if not part.type.pointers:
                    visit(part.type.name)
        done.append(name)

    for name in structs:
        visit(name)
    return done


def callback(headers, name, it):
    return "%s = CFUNCTYPE(%s)" % (name, ", ".join(
        [of_type(headers, it.result)] +
        [of_type(headers, p.type, is_result=True) for p in it.parameters]))


def text(headers):
    lines = ["# mypy: ignore-errors",
             '"""Declarations of the C headers. Made by python/generate."""',
             "from ctypes import (CFUNCTYPE, Structure, c_char, c_char_p, c_double,",
             "                    c_float, c_int, c_int32, c_int64, c_size_t, c_uint, c_uint8,",
             "                    c_uint16, c_uint32, c_uint64, c_void_p)", "",
             "# numbers of enumerations and macros, without NABLA_"]
    values = dict(row for rows in headers.enums.values() for row in rows)
    values.update(headers.macros)
    for name, value in values.items():
        lines.append("%s = %d" % (name[len("NABLA_"):], value))
    lines += ["", "ENUMS = {"]
    for name, rows in headers.enums.items():
        lines.append("    %r: %r," % (name, dict(rows)))
    lines += ["}", ""]
    for name in ordered(headers.structs):
        lines += ["", "class %s(Structure):" % name, "    _fields_ = [%s]" %
                  fields(headers, headers.structs[name]), ""]
    for name, it in headers.callbacks.items():
        lines.append(callback(headers, name, it))
    for name, members in headers.structs.items():
        for member in members or []:
            if member.callback:
                lines.append(callback(headers, "%s_%s_callback" % (name, member.name),
                                      member.callback))
    lines += ["", "# function: its result and parameters", "FUNCTIONS = {"]
    for name, it in headers.functions.items():
        if it.is_variadic:
            continue
        lines.append("    %r: (%s, [%s])," % (
            name, of_type(headers, it.result, is_result=True),
            ", ".join(of_type(headers, p.type) for p in it.parameters)))
    lines += ["}", ""]
    return "\n".join(lines)
