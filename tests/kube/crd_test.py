#!/usr/bin/env python3
"""crd_test.py - the committed CustomResourceDefinition is made from the program's own table, and
is one that an API server takes.

    crd_test.py AWARE ROOT

The rules are those of structural schemas (Kubernetes documentation, "Extend the Kubernetes API with
CustomResourceDefinitions", "Specifying a structural schema").
"""

import importlib.machinery
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path


def fail(why):
    print(f"FAILED: {why}")
    sys.exit(1)


def check_node(node, path, top=False):
    open_ = node.get("x-kubernetes-preserve-unknown-fields") or \
        node.get("x-kubernetes-int-or-string")
    if "type" not in node and not open_:
        fail(f"{path}: no type")
    if "properties" in node and "additionalProperties" in node:
        fail(f"{path}: properties and additionalProperties exclude each other")
    if node.get("x-kubernetes-int-or-string") and "type" in node:
        fail(f"{path}: an int-or-string has no type of its own")
    if node.get("type") == "array" and "items" not in node:
        fail(f"{path}: an array without items")
    for name in node.get("required", []):
        if name not in node.get("properties", {}):
            fail(f"{path}: requires {name}, which it does not have")
    for key in ("$ref", "definitions", "uniqueItems", "deprecated", "discriminator", "readOnly"):
        if key in node:
            fail(f"{path}: {key} is forbidden")
    for name, child in node.get("properties", {}).items():
        if top and name == "metadata":
            if set(child) - {"type", "description"}:
                fail("only name and generateName of metadata may be restricted")
            continue
        check_node(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            check_node(node[key], f"{path}[]")


def check_rules(path, node, rules):
    """That what a rule reads is there: a server refuses the definition otherwise."""
    for rule, message in rules:
        if not message or rule.count("(") != rule.count(")"):
            fail(f"{path}: {rule}")
        for name in re.findall(r"self\.([A-Za-z.]+)", rule):
            inner = node
            for word in name.split("."):
                if inner.get("type") == "array":
                    break  # a macro of lists, such as all()
                inner = inner.get("properties", {}).get(word)
                if inner is None:
                    fail(f"{path}: {rule}\nreads {name}, which there is not")
                if "x-kubernetes-preserve-unknown-fields" in inner:
                    fail(f"{path}: {rule}\nreads {name}, which has no type")


def at(schema, path):
    for name in path.strip(".").split("."):
        schema = schema.get("properties", {}).get(name)
        if schema is None:
            return None
    return schema


def main():
    aware, root = sys.argv[1], Path(sys.argv[2])
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("crd", str(root / "tools/crd"))
    crd = importlib.util.module_from_spec(importlib.util.spec_from_loader("crd", loader))
    loader.exec_module(crd)
    schema = subprocess.run([aware, "explain-schema", "mpa", "--openapi"], check=True,
                            capture_output=True, text=True).stdout
    for words, where in (([], ""), (["--plain"], "before-1.28/")):
        made = subprocess.run([sys.executable, str(root / "tools/crd"), *words], input=schema,
                              check=True, capture_output=True, text=True).stdout
        path = root / "deploy/crd" / where / "multidimpodautoscalers.yaml"
        if made != path.read_text(encoding="utf-8"):
            fail(f"{path.relative_to(root)} is old; its head says how to make it anew")
        if ("x-kubernetes-validations" in made) != (not words):
            fail(f"{path.relative_to(root)}: rules are where they should not be, or are not")
    version = crd.definition(crd.whole(json.loads(schema)))["spec"]["versions"][0]
    top = version["schema"]["openAPIV3Schema"]
    check_node(top, "", top=True)
    for path, rules in crd.RULES.items():
        check_rules(path, crd.place(top, path), rules)
    for column in version["additionalPrinterColumns"]:
        path = column["jsonPath"]
        if not path.startswith(".metadata.") and at(top, path) is None:
            fail(f"column {column['name']} shows {path}, which there is not")
    if at(top, ".spec.scaleTargetRef.name") is None or at(top, ".status.conditions") is None:
        fail("target or conditions are missing")


if __name__ == "__main__":
    main()
