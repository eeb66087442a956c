#!/usr/bin/env python3
"""Checks the JSON on standard input against the schema that it names, of those
in docs/schema.

check_json.py VERB [PATH...] prints "VERB: valid", then the value at each PATH
(members and indices joined by dots). Knows the keywords that the schema uses
and refuses others, so that no rule goes unchecked. Standard library only.
"""
import json
import os
import sys

SCHEMAS = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                       "../../docs/schema")
KNOWN = ("nabla-quant/1", "nabla-bench/1")
ANNOTATIONS = {"$schema", "$id", "$defs", "title", "description"}
KINDS = {"object": dict, "array": list, "string": str, "boolean": bool,
         "null": type(None)}


def is_kind(value, kind):
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, KINDS[kind])


def refuse_duplicates(pairs):
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), f"duplicate keys: {keys}"
    return dict(pairs)


def problems(value, rule, root, where):
    """Yields what is wrong with `value`."""
    for word, wanted in rule.items():
        if word in ANNOTATIONS:
            continue
        if word == "$ref":
            target = root
            for part in wanted[2:].split("/"):
                target = target[part]
            yield from problems(value, target, root, where)
        elif word == "type":
            kinds = wanted if isinstance(wanted, list) else [wanted]
            if not any(is_kind(value, kind) for kind in kinds):
                yield f"{where}: {value!r} is no {wanted}"
                return
        elif word == "const":
            if value != wanted:
                yield f"{where}: {value!r} is not {wanted!r}"
        elif word == "enum":
            if value not in wanted:
                yield f"{where}: {value!r} is none of {wanted}"
        elif word == "minimum":
            if is_kind(value, "number") and value < wanted:
                yield f"{where}: {value} < {wanted}"
        elif word == "oneOf":
            found = [list(problems(value, one, root, where)) for one in wanted]
            if sum(not one for one in found) != 1:
                yield f"{where}: matches not one of oneOf: {found}"
        elif word == "required":
            for key in wanted:
                if key not in value:
                    yield f"{where}: no {key}"
        elif word == "properties":
            for key in value:
                if key in wanted:
                    yield from problems(value[key], wanted[key], root,
                                        f"{where}.{key}")
        elif word == "additionalProperties":
            for key in value:
                if key in rule.get("properties", {}):
                    continue
                if wanted is False:
                    yield f"{where}: unexpected {key}"
                else:
                    yield from problems(value[key], wanted, root,
                                        f"{where}.{key}")
        elif word == "items":
            for i, item in enumerate(value):
                yield from problems(item, wanted, root, f"{where}[{i}]")
        else:
            yield f"the schema uses {word}, which is not checked"


def main():
    text = sys.stdin.buffer.read().decode("utf-8")
    value = json.loads(text, object_pairs_hook=refuse_duplicates,
                       parse_constant=lambda name: 1 / 0)
    assert value["schema"] in KNOWN, value["schema"]
    name = value["schema"].replace("/", "-") + ".json"
    with open(os.path.join(SCHEMAS, name), encoding="utf-8") as file:
        schema = json.load(file)
    verb = sys.argv[1]
    # the branch of the verb alone gives a clearer complaint than oneOf
    rule = schema["$defs"]["failure" if "error" in value else verb]
    found = list(problems(value, rule, schema, "$"))
    found += list(problems(value, schema, schema, "$")) if not found else []
    for problem in found:
        print(problem)
    if (verb not in ("help", "version") and "error" not in value
            and value.get("verb") != verb):
        found.append("verb")
        print(f"verb is {value.get('verb')!r}")
    print(f"{verb}: {'INVALID' if found else 'valid'}")
    for path in sys.argv[2:]:
        at = value
        for part in path.split("."):
            at = at[int(part)] if isinstance(at, list) else at[part]
        print(f"{path} = {json.dumps(at)}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
