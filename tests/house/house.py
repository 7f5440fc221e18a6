#!/usr/bin/env python3
"""house.py - checks the source tree against its own rules.

    house.py CHECK [ROOT]       one of the checks below, over the tree at ROOT

uses        every #include against the may-use table in docs/ARCHITECTURE.md
rooms       the may-use table has no cycle, no room is too large, no file on the map is missing
reach       aw__ names stay inside one room
headers     every header compiles alone, public ones also as C++
banned      functions and compiler flags that we do not use
shape       length of files, functions and lines, tabs, trailing space, leftovers
registered  every source and every test is in a meson.build
format      clang-format has nothing to change
defects     every defect of docs/DEFECTS.md has its tests, or says what is open
words       no phrase that puzzles readers, in pages and in what the program says

Prints one "file:line: rule" per finding. Exit status: 0 nothing found, 1 something, 77 skipped.
house_test.py feeds each check a tree that breaks its rule.
"""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 100 # from brace to brace
LINE_COLUMNS_MAX = 100
ARCHITECTURE = "docs/ARCHITECTURE.md"

ROOM_FILES_MAX = 70 # of a room, tests not counted
ROOM_LINES_MAX = 12000
IS_TEST = re.compile(r"_test(ing)?\.[ch]$|/testing\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')
COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

BANNED = {
    "strcpy": "copy with a length: memcpy, snprintf",
    "strcat": "append with a length: snprintf",
    "sprintf": "snprintf",
    "vsprintf": "vsnprintf",
    "gets": "getline",
    "strtok": "walk the text; strtok keeps hidden state",
    "atoi": "base/quantity.h or strtol with its checks",
    "atol": "base/quantity.h or strtol with its checks",
    "atof": "base/quantity.h or strtod with its checks",
    "system": "posix_spawn; no shell in between",
    "rand": "base/rng.h: chance is an argument",
    "srand": "base/rng.h: chance is an argument",
    "random": "base/rng.h: chance is an argument",
    "alloca": "base/alloc.h: no memory of unknown size on the stack",
}
BANNED_CALL = re.compile(r"(?<![\w.>])(%s)\s*\(" % "|".join(BANNED))
# Spelt in pieces, so that this file passes its own check.
BANNED_FLAG = re.compile(r"-O" r"fast\b|-ffast" r"-math\b")
TEST_GROUP = re.compile(r'^AW_TEST_GROUP\("([^"]+)"\)', re.M)
LEFTOVER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")


class Tree:
    """The files of a checkout, by kind."""

    def __init__(self, root):
        self.root = Path(root)

    def files(self, folders, *patterns):
        for folder in folders:
            for pattern in patterns:
                yield from sorted((self.root / folder).rglob(pattern))

    def c_files(self, *folders):
        return list(self.files(folders or ("src", "include", "bench", "tests"), "*.c", "*.h"))

    def name(self, path):
        return path.relative_to(self.root).as_posix()

    def room(self, path):
        """src/nn/x.c: nn; bench/x.c: bench."""
        parts = self.name(path).split("/")
        return parts[1] if parts[0] == "src" else parts[0]


def without_comments_and_texts(text):
    """The code alone; what is blanked out keeps its line breaks, so that lines still count."""
    return COMMENT_OR_TEXT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


# --- uses ---------------------------------------------------------------------------------------


def tables(markdown):
    """Every table as (header cells, rows of cells)."""
    header, rows = None, []
    for line in [*markdown.splitlines(), ""]:
        if line.startswith("|"):
            cells = [cell.strip().replace("`", "") for cell in line.strip().strip("|").split("|")]
            if header is None:
                header = cells
            elif not set("".join(cells)) <= set("-: "):
                rows.append(cells)
        elif header is not None:
            yield header, rows
            header, rows = None, []


def read_rules(tree):
    """({room: set of rooms, or None: anything}, {public header: room}, {room: set that its tests
    may use besides}) as the page says."""
    may_use, public, tests_too = {}, {}, {}
    for header, rows in tables((tree.root / ARCHITECTURE).read_text()):
        if header == ["room", "may use"]:
            for names, allowed in rows:
                for name in names.split():
                    may_use[name] = None if allowed == "anything" else set(allowed.split())
        elif header == ["tests of", "may also use"]:
            tests_too.update((name, set(allowed.split())) for name, allowed in rows)
        elif header[:2] == ["public header", "room"]:
            for row in rows:
                public[row[0]] = row[1]
    # a row may also say something for people ("libc and the chosen libraries"): keep the rooms
    for name, allowed in may_use.items():
        if allowed is not None:
            may_use[name] = allowed & set(may_use)
    return may_use, public, tests_too


def room_of_include(include, public):
    """The room that an include reaches into; None for the C library and other people's headers."""
    if include.endswith(".pb-c.h"):
        return "rpc" # made from proto/ at build time
    if include.startswith("aware/"):
        return public.get(include, "?")
    first = include.split("/")[0]
    return first if "/" in include else None


def check_uses(tree):
    may_use, public, tests_too = read_rules(tree)
    if not may_use:
        yield f"{ARCHITECTURE}:1: expected a table headed | room | may use |, found none"
        return
    for folder in sorted((tree.root / "src").iterdir()):
        if folder.is_dir() and folder.name not in may_use:
            yield f"src/{folder.name}:1: this room has no row in the may-use table"
    for path in tree.c_files("src", "include", "bench"):
        name = tree.name(path)
        parts = name.split("/")
        is_public = parts[0] == "include"
        if is_public:
            room = public.get("/".join(parts[1:]))
            if room is None:
                yield f"{name}:1: this header has no row in the table of public headers"
                continue
        else:
            room = tree.room(path)
        if room not in may_use:
            continue # said above, once per room
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, include = match.groups()
            where = f"{name}:{number}"
            if quote == '"' and ("/" not in include or include.startswith(".")):
                yield f'{where}: write "room/file.h", found "{include}"'
                continue
            if quote == "<" and not include.startswith("aware/"):
                if include.split("/")[0] in may_use and "/" in include:
                    yield f'{where}: write "{include}" for a header of ours, found <{include}>'
                continue
            if quote == '"' and is_public:
                yield f'{where}: a public header includes only public headers, found "{include}"'
                continue
            target = room_of_include(include, public)
            if target == "doubles":
                if not path.stem.endswith(("_test", "_testing")):
                    yield f"{where}: only x_test.c and x_testing.h may use {include}"
                continue
            if target == "?" or (quote == '"' and target not in may_use):
                yield f"{where}: no room is known for {include}"
                continue
            allowed = may_use[room]
            if allowed is not None and IS_TEST.search(name):
                allowed = allowed | tests_too.get(room, set())
            if target == room or allowed is None:
                continue
            if target not in allowed:
                yield (f"{where}: {room} may use {' '.join(sorted(allowed)) or 'nothing'}, "
                       f"not {target} ({include})")
            elif quote == '"' and include.count("/") > 1:
                yield f"{where}: {include} is inside {target}; use a header at its door"
            elif include.endswith("_internal.h"):
                yield f"{where}: {include} is for {target} alone"


# --- rooms ---------------------------------------------------------------------------------------


def cycle_in(may_use):
    """Rooms that use each other in a ring, the first again at the end; empty: there is none."""
    done = set()

    def walk(room, path):
        if room in path:
            return [*path[path.index(room):], room]
        if room in done:
            return []
        for target in sorted(may_use.get(room) or ()):
            ring = walk(target, [*path, room])
            if ring:
                return ring
        done.add(room)
        return []

    for room in may_use:
        ring = walk(room, [])
        if ring:
            return ring
    return []


def check_rooms(tree):
    may_use, _, _ = read_rules(tree)
    for number, line in enumerate((tree.root / ARCHITECTURE).read_text().splitlines(), 1):
        for name in re.findall(r"`((?:\w+/)+\w+\.[ch])`", line):
            if not any((tree.root / folder / name).exists() for folder in ("src", "include", "")):
                yield f"{ARCHITECTURE}:{number}: {name} is not there"
    ring = cycle_in(may_use)
    if ring:
        yield f"{ARCHITECTURE}:1: the may-use table has a cycle: {' -> '.join(ring)}"
    for folder in sorted((tree.root / "src").iterdir()):
        if not folder.is_dir():
            continue
        files = [path for path in tree.files((folder,), "*.c", "*.h")
                 if not IS_TEST.search(path.as_posix())]
        lines = sum(path.read_text().count("\n") for path in files)
        if len(files) > ROOM_FILES_MAX:
            yield f"src/{folder.name}:1: {len(files)} files, at most {ROOM_FILES_MAX}; split it"
        if lines > ROOM_LINES_MAX:
            yield f"src/{folder.name}:1: {lines} lines, at most {ROOM_LINES_MAX}; split it"


# --- reach --------------------------------------------------------------------------------------


def check_reach(tree):
    """aw__noun_verb is a promise inside one folder: no other room may say its name."""
    homes = {}
    for path in tree.c_files("src", "bench"):
        room = tree.room(path)
        code = without_comments_and_texts(path.read_text())
        for number, line in enumerate(code.splitlines(), 1):
            for symbol in re.findall(r"\baw__\w+", line):
                places = homes.setdefault(symbol, {})
                places.setdefault(room, (path.suffix == ".h", f"{tree.name(path)}:{number}"))
                if path.suffix == ".h":
                    places[room] = (True, places[room][1])
    for symbol, places in sorted(homes.items()):
        if len(places) > 1:
            owners = [room for room, (declares, _) in places.items() if declares]
            owner = owners[0] if owners else sorted(places)[0]
            for room, (_, where) in sorted(places.items()):
                if room != owner:
                    yield f"{where}: {symbol} belongs to {owner}; aw__ names stay in one room"


# --- headers ------------------------------------------------------------------------------------


def library_flags():
    command = ["pkg-config", "--cflags", "jansson", "yaml-0.1", "openblas", "sqlite3",
               "libcurl", "libcrypto", "zlib", "libmicrohttpd", "libsystemd", "cmocka"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return []


def check_headers(tree):
    compiler = os.environ.get("CC", "cc").split()
    flags = ["-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
             *(f"-I{tree.root / folder}" for folder in ("include", "src", "tests")),
             *library_flags()]

    def compile_alone(path):
        # as an include of an empty file: a header given directly warns about its own "pragma once"
        return path, subprocess.run([*compiler, *flags, "-include", path, "-xc", "/dev/null"],
                                    capture_output=True, text=True, check=False)

    def compile_as_cxx(job):
        cxx, path = job
        return path, subprocess.run([cxx, "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                                     "-fsyntax-only", f"-I{tree.root / 'include'}", "-include",
                                     path, "-xc++", "/dev/null"],
                                    capture_output=True, text=True, check=False)

    def first_error(done):
        return next((line for line in done.stderr.splitlines() if "error" in line), "")

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        headers = tree.files(("src", "include", "bench"), "*.h")
        for path, done in pool.map(compile_alone, headers):
            if done.returncode != 0:
                yield f"{tree.name(path)}:1: does not compile alone: {first_error(done)}"
        # each that is there: what one takes the other may refuse
        names = [os.environ["CXX"]] if "CXX" in os.environ else ["g++", "clang++", "c++"]
        compilers = {os.path.realpath(cxx): cxx for cxx in map(shutil.which, names) if cxx}
        public = list(tree.files(("include",), "*.h")) if compilers else []
        jobs = [(cxx, path) for cxx in compilers.values() for path in public]
        told = set()
        for path, done in pool.map(compile_as_cxx, jobs):
            if done.returncode != 0 and path not in told:
                told.add(path)
                yield f"{tree.name(path)}:1: does not compile as C++: {first_error(done)}"
        for path in public:
            if 'extern "C" {' not in path.read_text(encoding="utf-8"):
                yield f"{tree.name(path)}:1: does not say extern \"C\" to C++"


# --- banned -------------------------------------------------------------------------------------


def check_banned(tree):
    for path in tree.c_files():
        code = without_comments_and_texts(path.read_text())
        for number, line in enumerate(code.splitlines(), 1):
            for match in BANNED_CALL.finditer(line):
                name = match.group(1)
                yield f"{tree.name(path)}:{number}: {name} is banned; {BANNED[name]}"
    build_files = [*tree.root.glob("meson*"), *tree.root.glob("Makefile"),
                   *tree.files(("src", "tests", "bench"), "meson.build"),
                   *tree.files(("tools",), "*"), *tree.c_files()]
    for path in build_files:
        if not path.is_file():
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for flag in BANNED_FLAG.findall(line):
                yield (f"{tree.name(path)}:{number}: {flag} is banned; "
                       "it makes isfinite(NaN) true and silences every divergence guard")


# --- shape --------------------------------------------------------------------------------------


def check_shape(tree):
    sources = [*tree.c_files(), *tree.files(("src", "tests", "bench", "tools"), "*.py"),
               *tree.files(("src", "tests", "bench", "tools"), "meson.build"),
               *tree.root.glob("meson*"), *(p for p in tree.files(("tools",), "*")
                                            if p.is_file() and not p.suffix)]
    for path in sources:
        name = tree.name(path)
        text = path.read_bytes().decode() # as it is: read_text would hide a carriage return
        lines = text.split("\n")
        if len(lines) - 1 > FILE_LINES_MAX:
            yield f"{name}:{FILE_LINES_MAX + 1}: longer than {FILE_LINES_MAX} lines; split it"
        if text and not text.endswith("\n"):
            yield f"{name}:{len(lines)}: the last line has no end"
        begin = None
        for number, line in enumerate(lines, 1):
            where = f"{name}:{number}"
            if line == "{":
                begin = number
            if line == "}" and begin and number - begin > FUNCTION_LINES_MAX:
                yield (f"{name}:{begin}: a function of {number - begin} lines, at most "
                       f"{FUNCTION_LINES_MAX}; split it along its seams")
            if len(line) > LINE_COLUMNS_MAX:
                yield f"{where}: {len(line)} columns, at most {LINE_COLUMNS_MAX}"
            if "\t" in line:
                yield f"{where}: a tab; indent with spaces"
            if line != line.rstrip():
                yield f"{where}: space at the end of the line"
            match = LEFTOVER.search(line)
            if match:
                yield f"{where}: {match.group()} left behind; finish it or write it down elsewhere"


# --- registered ---------------------------------------------------------------------------------


def check_registered(tree):
    """A source that no meson.build names is not compiled; a test that none names never runs."""
    for path in tree.files(("src", "bench", "tests"), "*.c"):
        is_test = path.name.endswith("_test.c")
        if not is_test and tree.name(path).startswith("tests/"):
            continue # sources of fuzz targets and helpers are named by loops in tests/
        folder, found = path.parent, False
        group = TEST_GROUP.search(path.read_text()) if is_test else None
        before = rf"'{group[1]}':\s*files\(" if group else "" # a group runs under its name alone
        while not found:
            build_file = folder / "meson.build"
            named = rf"{before}'{re.escape(path.relative_to(folder).as_posix())}'"
            found = build_file.is_file() and re.search(named, build_file.read_text())
            if folder == tree.root:
                break
            folder = folder.parent
        if not found:
            what = "test never runs" if is_test else "source is not built"
            yield f"{tree.name(path)}:1: this {what}; name it in its room's meson.build"


# --- format -------------------------------------------------------------------------------------


def check_format(tree):
    if not shutil.which("clang-format"):
        print("clang-format is not installed; `make test` installs it")
        sys.exit(77)
    files = tree.c_files()
    if not files:
        return

    def look(part):
        return subprocess.run(["clang-format", "--dry-run", "--Werror", *part],
                              capture_output=True, text=True, check=False)

    count = min(os.cpu_count() or 1, len(files))
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        for done in pool.map(look, (files[i::count] for i in range(count))):
            seen = set()
            for line in done.stderr.splitlines():
                match = re.match(r"(.+?):(\d+):\d+: error", line)
                if match and match.group(1) not in seen:
                    seen.add(match.group(1))
                    yield f"{tree.name(Path(match.group(1)))}:{match.group(2)}: run `make format`"
            if done.returncode != 0 and not seen:
                yield f".clang-format:1: clang-format failed: {done.stderr.strip()[:200]}"


# --- defects ------------------------------------------------------------------------------------


def check_defects(tree):
    """Each test that docs/DEFECTS.md names exists; a row without one says what is open."""
    page = tree.root / "docs" / "DEFECTS.md"
    if not page.exists():
        return
    tests = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in tree.files(
        ("src", "tests", "python"), "*_test.c", "*_testing.h", "*_test.py", "*_test.mjs"))
    last = 0
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) != 4 or not cells[0].isdigit():
            continue
        if int(cells[0]) != last + 1:
            yield f"docs/DEFECTS.md:{number}: expected defect {last + 1}, found {cells[0]}"
        last = int(cells[0])
        names = re.findall(r"`([^`]+)`", cells[2])
        if not names and not cells[3]:
            yield f"docs/DEFECTS.md:{number}: neither a test nor what is open"
        for name in names:
            shape = rf"(?:static void|def)\s+{re.escape(name)}\(" if " " not in name else \
                re.escape(name)
            if not re.search(shape, tests):
                yield f"docs/DEFECTS.md:{number}: there is no test {name}"


# --- words --------------------------------------------------------------------------------------

# What a native engineer stumbles over, in whatever a user reads. "there is none" is English.
PHRASES = re.compile(r"\b(?:[Ww]hoever|[Ss]omebody|is another|is none of|of late|what is told)\b"
                     r"|\b(?:that|which|what|it) is none\b")
LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def check_words(tree):
    """docs/REFERENCE.md is made of the literals; comments of the source are for its readers."""
    root = Path(tree.root)
    pages = [root / "README.md", root / "python/README.md", *sorted((root / "docs").rglob("*.md"))]
    for path in pages:
        if not path.exists() or path.name == "REFERENCE.md":
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for found in PHRASES.findall(line):
                yield f"{path.relative_to(root)}:{number}: \"{found}\" puzzles readers"
    sources = [p for p in sorted((root / "src").rglob("*"))
               if p.suffix in (".c", ".h", ".js", ".html")
               and not p.stem.endswith(("_test", "_testing")) and "vendor" not in p.parts]
    for path in sources:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.lstrip().startswith(("*", "/*", "//", "#include")):
                continue
            texts = LITERAL.findall(line) if path.suffix in (".c", ".h") else \
                [line.split(" // ")[0]]
            for found in PHRASES.findall(" ".join(texts)):
                yield f"{path.relative_to(root)}:{number}: \"{found}\" puzzles readers"


CHECKS = {
    "uses": check_uses,
    "rooms": check_rooms,
    "reach": check_reach,
    "headers": check_headers,
    "banned": check_banned,
    "shape": check_shape,
    "registered": check_registered,
    "format": check_format,
    "defects": check_defects,
    "words": check_words,
}


def main(arguments):
    if len(arguments) not in (1, 2) or arguments[0] not in CHECKS:
        print(f"usage: house.py {'|'.join(CHECKS)} [ROOT]", file=sys.stderr)
        return 64
    root = arguments[1] if len(arguments) == 2 else Path(__file__).resolve().parents[2]
    findings = list(CHECKS[arguments[0]](Tree(root)))
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
