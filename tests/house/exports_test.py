#!/usr/bin/env python3
"""exports_test.py - the shared library exports what the public headers declare, and nothing else.

    exports_test.py LIBRARY INCLUDE
"""

import pathlib
import re
import subprocess
import sys

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
INLINE = re.compile(r"\bstatic inline\b[^;{]*\{.*?\n\}", re.S)


def declared(include):
    """Functions and tables that the headers promise."""
    names = set()
    for header in sorted(pathlib.Path(include).glob("*.h")):
        text = INLINE.sub("", COMMENT.sub("", header.read_text()))
        text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.M)
        text = re.sub(r"\btypedef\b[^;]*;", "", text)
        for statement in re.split(r"[;{}]", text):
            statement = " ".join(statement.split()) + ";"
            found = re.search(r"(?:^|[\s*])(aw_[a-z0-9_]+)(?:\(|\[[A-Z_]+\];)", statement)
            if found and (statement.startswith("extern") or "(" in statement):
                names.add(found.group(1))
    return names


def main():
    library, include = sys.argv[1:]
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, text=True,
                           capture_output=True).stdout.splitlines()
    exported = {line.split()[-1] for line in lines}
    promised = declared(include)
    missing, beyond = sorted(promised - exported), sorted(exported - promised)
    for name in missing:
        print(f"declared, not exported: {name}")
    for name in beyond:
        print(f"exported, in no public header: {name}")
    print(f"{len(promised)} declared, {len(exported)} exported")
    return 1 if missing or beyond or not promised else 0


if __name__ == "__main__":
    sys.exit(main())
