"""helm.py - renders the templates of our chart, for machines without helm.

Not Go's text/template: what our chart uses of it, and nothing else. Actions are {{ pipeline }}, if,
else, range (with else), with, define, include and comments, each with the trim markers; functions
are those in FUNCTIONS. Anything unknown is an error, so a chart that outgrows this says so.
"""

import json
import re
import shlex
from pathlib import Path

import yaml

ACTION = re.compile(r"\{\{(-?)\s*(.*?)\s*(-?)\}\}", re.DOTALL)


class Unknown(Exception):
    pass


def nodes(text):
    """Text and actions, with the blanks that trim markers take away taken away."""
    at, trim, found = 0, False, []
    for match in ACTION.finditer(text):
        piece = text[at:match.start()]
        piece = piece.lstrip() if trim else piece
        found.append(("text", piece.rstrip() if match[1] else piece))
        found.append(("action", match[2]))
        at, trim = match.end(), bool(match[3])
    rest = text[at:]
    found.append(("text", rest.lstrip() if trim else rest))
    return found


def parse(found, at=0, inside=None):
    """A tree: text, ("do", pipeline), ("if"|"range"|"with", pipeline, body, other)."""
    tree, other, current = [], None, None
    current = tree
    while at < len(found):
        kind, value = found[at]
        at += 1
        if kind == "text":
            current.append(("text", value))
            continue
        word = value.split(None, 1)[0] if value else ""
        rest = value[len(word):].strip()
        if value.startswith("/*"):
            continue
        if word == "end":
            if inside is None:
                raise Unknown("an end without a beginning")
            return tree, other, at
        if word == "else":
            if rest:
                raise Unknown(f"else {rest}")
            other = current = []
        elif word in ("if", "range", "with", "define"):
            body, otherwise, at = parse(found, at, word)
            current.append((word, rest, body, otherwise or []))
        else:
            current.append(("do", value))
    if inside is not None:
        raise Unknown(f"{inside} without an end")
    return tree, other, at


def to_yaml(value):
    return yaml.safe_dump(value, default_flow_style=False, sort_keys=False).rstrip("\n")


class Chart:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.meta = yaml.safe_load((self.folder / "Chart.yaml").read_text(encoding="utf-8"))
        self.values = yaml.safe_load((self.folder / "values.yaml").read_text(encoding="utf-8"))
        self.schema = json.loads((self.folder / "values.schema.json").read_text(encoding="utf-8"))
        self.named = {}

    def look_up(self, path, dot, root):
        base, names = (root, path[1:]) if path.startswith("$") else (dot, path)
        for name in [part for part in names.split(".") if part]:
            if not isinstance(base, dict) or name not in base:
                raise Unknown(f"{path}: there is no {name}")
            base = base[name]
        return base

    def value(self, words, dot, root, piped):
        """One command of a pipeline."""
        word, given = words[0], words[1:]
        plain = [self.word(one, dot, root) for one in given] + piped
        if word == "include":
            return self.render(self.named[plain[0]], plain[1], root)
        if word == "toYaml":
            return to_yaml(plain[0])
        if word == "nindent":
            pad = " " * plain[0]
            return "\n" + "\n".join(pad + line if line else line for line in plain[1].split("\n"))
        if word == "quote":
            return json.dumps(str(plain[0]))
        if word == "default":
            return plain[1] if plain[1] else plain[0]
        if given or piped:
            raise Unknown(f"function {word}")
        return self.word(word, dot, root)

    def word(self, word, dot, root):
        if word.startswith((".", "$")):
            return self.look_up(word, dot, root)
        if re.fullmatch(r"-?\d+", word):
            return int(word)
        if word.startswith('"'):
            return json.loads(word)
        raise Unknown(f"word {word}")

    def pipeline(self, text, dot, root):
        piped = []
        for command in text.split("|"):
            words = shlex.split(command, posix=False)
            piped = [self.value(words, dot, root, piped)]
        return piped[0]

    def render(self, tree, dot, root):
        out = []
        for node in tree:
            if node[0] == "text":
                out.append(node[1])
            elif node[0] == "do":
                value = self.pipeline(node[1], dot, root)
                out.append({True: "true", False: "false"}.get(value, str(value))
                           if isinstance(value, bool) else str(value))
            elif node[0] == "if":
                chosen = node[2] if self.pipeline(node[1], dot, root) else node[3]
                out.append(self.render(chosen, dot, root))
            elif node[0] == "with":
                value = self.pipeline(node[1], dot, root)
                out.append(self.render(node[2], value, root) if value
                           else self.render(node[3], dot, root))
            elif node[0] == "range":
                values = self.pipeline(node[1], dot, root)
                out += [self.render(node[2], one, root) for one in values]
                if not values:
                    out.append(self.render(node[3], dot, root))
        return "".join(out)

    def template(self, values=None, namespace="aware-system", name="aware"):
        """The objects of the chart, and its notes."""
        merged = merge(self.values, values or {})
        check(merged, self.schema, "values")
        root = {"Values": merged, "Release": {"Name": name, "Namespace": namespace,
                                              "Service": "Helm"},
                "Chart": {"Name": self.meta["name"], "Version": self.meta["version"],
                          "AppVersion": str(self.meta["appVersion"])}}
        trees = {}
        for file in sorted((self.folder / "templates").iterdir()):
            tree = parse(nodes(file.read_text(encoding="utf-8")))[0]
            self.named.update({json.loads(node[1]): node[2] for node in tree
                               if node[0] == "define"})
            trees[file.name] = [node for node in tree if node[0] != "define"]
        objects, notes = [], ""
        for file, tree in trees.items():
            text = self.render(tree, root, root)
            if file == "NOTES.txt":
                notes = text
            elif not file.startswith("_"):
                objects += [one for one in yaml.safe_load_all(text) if one]
        return objects, notes


def merge(base, over):
    """As helm does: maps are merged, anything else is replaced."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    return {**base, **{key: merge(base[key], value) if key in base else value
                       for key, value in over.items()}}


def check(value, schema, path):
    """What our schema uses of JSON Schema."""
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
    kind = schema.get("type")
    if kind and (not isinstance(value, kinds[kind]) or
                 (kind == "integer" and isinstance(value, bool))):
        raise Unknown(f"{path}: expected {kind}, found {value!r}")
    if "enum" in schema and value not in schema["enum"]:
        raise Unknown(f"{path}: {value!r} is not one of {schema['enum']}")
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        raise Unknown(f"{path}: {value!r} does not match {schema['pattern']}")
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        raise Unknown(f"{path}: too short")
    if isinstance(value, int) and not isinstance(value, bool) and not (
            schema.get("minimum", value) <= value <= schema.get("maximum", value)):
        raise Unknown(f"{path}: {value} is out of range")
    if isinstance(value, dict):
        known = schema.get("properties", {})
        more = schema.get("additionalProperties", True)
        for key, item in value.items():
            if key not in known and more is False:
                raise Unknown(f"{path}.{key}: unknown")
            check(item, known.get(key, more if isinstance(more, dict) else {}), f"{path}.{key}")
        for key in schema.get("required", []):
            if key not in value:
                raise Unknown(f"{path}.{key}: missing")
    if isinstance(value, list):
        for i, item in enumerate(value):
            check(item, schema.get("items", {}), f"{path}[{i}]")
