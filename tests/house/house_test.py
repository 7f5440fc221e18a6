#!/usr/bin/env python3
"""house_test.py - a check that cannot fail is no check: each meets a tree that breaks its rule."""

import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import house # noqa: E402 # beside this file

PAGE = """# Rooms

| room | may use |
|---|---|
| base | libc and the chosen libraries |
| nn | base |
| rl | base nn |
| env | base |
| control | base rl env |
| cli bench | anything |

| public header | room | what |
|---|---|---|
| `aware/err.h` | base | errors |
| `aware/env.h` | env | environments |
| `aware/agent.h` | rl | agents |
"""


class HouseTest(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        self.write("docs/ARCHITECTURE.md", PAGE)
        self.write("include/aware/err.h", '#include <stdint.h>\n\n#ifdef __cplusplus\n'
                                          'extern "C" {\n#endif\n\n'
                                          '#ifdef __cplusplus\n}\n#endif\n')
        self.write("src/base/rng.h", "#include <aware/err.h>\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def findings(self, check):
        return list(house.CHECKS[check](house.Tree(self.root)))

    def assert_clean(self, check):
        self.assertEqual(self.findings(check), [])

    def assert_found(self, check, *expected):
        """Exactly these findings, each beginning as given."""
        found = self.findings(check)
        self.assertEqual(len(found), len(expected), found)
        for finding, start in zip(found, expected):
            self.assertTrue(finding.startswith(start), f"{finding!r} does not start {start!r}")

    # uses

    def test_what_the_table_allows_passes(self):
        self.write("include/aware/agent.h", "#include <aware/err.h>\n")
        self.write("src/rl/td3.c", '#include <math.h>\n#include <aware/agent.h>\n'
                                   '#include "base/rng.h"\n#include "nn/mlp.h"\n'
                                   '#include "rl/td3.h"\n')
        self.write("src/cli/main.c", '#include "nn/mlp.h"\n#include <aware/env.h>\n')
        self.write("src/env/pole/pole.c", '#include "env/pole/pole.h"\n')
        self.assert_clean("uses")

    def test_a_room_may_not_reach_up_or_sideways(self):
        cases = [
            ("src/base/log.c", '#include "nn/mlp.h"', "base may use nothing, not nn"),
            ("src/nn/mlp.c", '#include "rl/td3.h"', "nn may use base, not rl"),
            ("src/rl/td3.c", "#include <aware/env.h>", "rl may use base nn, not env"),
            ("src/env/vec.c", "#include <aware/agent.h>", "env may use base, not rl"),
            ("src/env/vec_test.c", '#include "nn/mlp.h"', "env may use base, not nn"),
            ("src/env/a/a.c", '  #  include "nn/mlp.h"', "env may use base, not nn"),
        ]
        for name, include, why in cases:
            with self.subTest(name):
                self.write(name, f"/* first */\n{include}\n")
                self.assert_found("uses", f"{name}:2: {why}")
                (self.root / name).unlink()

    def test_the_inside_of_another_room_is_private(self):
        self.write("src/control/loop.c", '#include "env/pole/pole.h"\n')
        self.assert_found("uses", "src/control/loop.c:1: env/pole/pole.h is inside env")

    def test_doubles_are_for_tests_alone(self):
        for name in ("src/env/vec_test.c", "src/env/env_testing.h"):
            self.write(name, '#include "doubles/fake_prometheus.h"\n')
        self.assert_clean("uses")
        self.write("src/cli/main.c", '#include "doubles/fake_prometheus.h"\n')
        self.assert_found("uses", "src/cli/main.c:1: only x_test.c and x_testing.h may use doubles")

    def test_what_is_internal_stays_in_its_room(self):
        self.write("src/rl/dqn.c", '#include "rl/dqn_internal.h"\n')
        self.assert_clean("uses")
        self.write("src/control/loop.c", '#include "rl/dqn_internal.h"\n')
        self.assert_found("uses", "src/control/loop.c:1: rl/dqn_internal.h is for rl alone")

    def test_tests_may_use_what_the_page_grants_them(self):
        self.write("src/nn/mlp_test.c", '#include "env/vec.h"\n')
        self.assert_found("uses", "src/nn/mlp_test.c:1: nn may use base")
        self.write("docs/ARCHITECTURE.md",
                   PAGE + "\n| tests of | may also use |\n|---|---|\n| nn | env |\n")
        self.assert_clean("uses")
        self.write("src/nn/mlp.c", '#include "env/vec.h"\n')
        self.assert_found("uses", "src/nn/mlp.c:1: nn may use base")

    # rooms

    def write_public(self):
        for name in ("env", "agent"):
            self.write(f"include/aware/{name}.h", "")

    def test_a_ring_of_rooms_is_found(self):
        self.write_public()
        self.assert_clean("rooms")
        self.write("docs/ARCHITECTURE.md", PAGE.replace("| nn | base |", "| nn | base control |"))
        self.assert_found("rooms", "docs/ARCHITECTURE.md:1: the may-use table has a cycle: ")

    def test_a_file_that_the_map_made_up_is_found(self):
        self.write("docs/ARCHITECTURE.md", PAGE + "\n`base/rng.h` and `aware/err.h` draw.\n")
        self.assert_found("rooms", "docs/ARCHITECTURE.md:15: aware/env.h is not there",
                          "docs/ARCHITECTURE.md:16: aware/agent.h is not there")
        self.write_public()
        self.assert_clean("rooms")
        self.write("docs/ARCHITECTURE.md", PAGE + "\n`base/chance.h` draws.\n")
        self.assert_found("rooms", "docs/ARCHITECTURE.md:18: base/chance.h is not there")

    def test_a_room_that_nobody_can_oversee_is_found(self):
        self.write_public()
        for i in range(71):
            self.write(f"src/nn/x{i}.c", "int x;\n")
        self.write("src/nn/x_test.c", "int x;\n")
        self.write("src/rl/long.c", "\n" * 12001)
        self.assert_found("rooms", "src/nn:1: 71 files", "src/rl:1: 12001 lines")

    def test_public_headers_keep_to_public_headers(self):
        self.write("include/aware/env.h", '#include "base/rng.h"\n#include <aware/agent.h>\n')
        self.assert_found("uses", "include/aware/env.h:1: a public header includes only public",
                          "include/aware/env.h:2: env may use base, not rl")

    def test_unknown_names_are_findings_not_passes(self):
        self.write("include/aware/new.h", "\n")
        self.write("src/attic/old.c", "\n")
        self.write("src/nn/mlp.c", '#include "mlp.h"\n#include "../base/rng.h"\n'
                                   '#include "nowhere/x.h"\n#include <aware/gone.h>\n'
                                   "#include <base/rng.h>\n")
        self.assert_found("uses", "src/attic:1:", "src/nn/mlp.c:1: write", "src/nn/mlp.c:2: write",
                          "src/nn/mlp.c:3: no room", "src/nn/mlp.c:4: no room",
                          "src/nn/mlp.c:5: write", "include/aware/new.h:1:")

    def test_a_page_without_the_table_fails(self):
        self.write("docs/ARCHITECTURE.md", "# Rooms\n\n| room | purpose |\n|---|---|\n| nn | x |\n")
        self.assert_found("uses", "docs/ARCHITECTURE.md:1:")

    # reach

    def test_inner_names_stay_in_their_room(self):
        self.write("src/nn/inner.h", "void aw__mlp_step(void);\n")
        self.write("src/nn/mlp.c", "void f(void)\n{\n    aw__mlp_step();\n}\n")
        self.write("src/rl/td3.c", '/* aw__mlp_step */\nconst char *a = "aw__mlp_step";\n')
        self.assert_clean("reach")
        self.write("src/cli/x.c", "void g(void)\n{\n    aw__mlp_step();\n}\n")
        self.write("bench/nn.c", "int h = aw__mlp_step();\n")
        self.assert_found("reach", "bench/nn.c:1: aw__mlp_step belongs to nn",
                          "src/cli/x.c:3: aw__mlp_step belongs to nn")

    # headers

    def test_a_header_that_leans_on_another_is_found(self):
        self.assert_clean("headers")
        self.write("src/nn/mlp.h", "size_t aw_mlp_size(void);\n")
        self.assert_found("headers", "src/nn/mlp.h:1: does not compile alone")

    @unittest.skipUnless(shutil.which("c++"), "no C++ compiler")
    def test_a_public_header_that_is_no_cxx_is_found(self):
        self.write("include/aware/env.h", '#ifdef __cplusplus\nextern "C" {\n#endif\n'
                                          "_Noreturn void aw_env_end(void);\n"
                                          "#ifdef __cplusplus\n}\n#endif\n")
        self.write("include/aware/agent.h", "void aw_agent_end(void);\n")
        self.assert_found("headers", "include/aware/env.h:1: does not compile as C++",
                          'include/aware/agent.h:1: does not say extern "C"')

    # banned

    def test_each_banned_function_is_found(self):
        for name in house.BANNED:
            with self.subTest(name):
                self.write("src/base/x.c", f"\nint y = {name} (1);\n")
                self.assert_found("banned", f"src/base/x.c:2: {name} is banned")

    def test_names_that_only_look_banned_pass(self):
        self.write("src/base/x.c", '/* rand() */ // system()\nconst char *t = "atoi(\\"1\\")";\n'
                                   "int a = aw_rand(), b = snprintf(c);\n"
                                   "int d = e.random(), f = g->gets(1);\n")
        self.assert_clean("banned")

    def test_flags_that_break_finite_checks_are_found(self):
        self.write("meson.build", "x = 1\nargs = ['-O" "fast', '-ffast" "-math']\n")
        self.write("src/nn/x.c", '#pragma GCC optimize("-ffast" "-math")\n'.replace('" "', ""))
        self.assert_found("banned", "meson.build:2: -O", "meson.build:2: -ff", "src/nn/x.c:1: -ff")

    # shape

    def test_each_misshape_is_found(self):
        cases = [
            ("\tint x;\n", "src/nn/x.c:1: a tab"),
            ("int x; \n", "src/nn/x.c:1: space at the end"),
            ("int x;\r\n", "src/nn/x.c:1: space at the end"),
            ("int x;", "src/nn/x.c:1: the last line has no end"),
            ("\n" + "x" * 101 + "\n", "src/nn/x.c:2: 101 columns"),
            ("\n" * 801, "src/nn/x.c:801: longer than 800 lines"),
            ("int f(void)\n{\n" + "\n" * 100 + "}\n", "src/nn/x.c:2: a function of 101 lines"),
            ("/* TO" "DO: later */\n", "src/nn/x.c:1: TO"),
            ("/* FIX" "ME */\n", "src/nn/x.c:1: FIX"),
            ("/* XX" "X */\n", "src/nn/x.c:1: XX"),
        ]
        for text, start in cases:
            with self.subTest(start):
                (self.root / "src/nn").mkdir(exist_ok=True)
                (self.root / "src/nn/x.c").write_bytes(text.encode())
                self.assert_found("shape", start)
        self.write("src/nn/x.c", "x" * 100 + "\n" * 800)
        self.assert_clean("shape")

    # registered

    def test_what_no_meson_file_names_is_found(self):
        self.write("src/env/meson.build", "files('vec.c', 'pole/pole.c') + files('vec_test.c')\n")
        self.write("meson.build", "executable('aware', 'src/cli/main.c')\n")
        for name in ("src/env/vec.c", "src/env/pole/pole.c", "src/env/vec_test.c",
                     "src/cli/main.c"):
            self.write(name, "\n")
        self.assert_clean("registered")
        self.write("src/env/lost.c", "\n")
        self.write("bench/lost.c", "\n")
        self.write("src/env/pole/pole_test.c", "\n")
        self.write("tests/golden/gru_test.c", "\n")
        self.assert_found("registered", "src/env/lost.c:1: this source is not built",
                          "src/env/pole/pole_test.c:1: this test never runs",
                          "bench/lost.c:1: this source is not built",
                          "tests/golden/gru_test.c:1: this test never runs")

    def test_a_group_is_registered_under_its_own_name(self):
        self.write("src/env/meson.build", "unit_tests += {\n  'vec': files('vec_test.c'),\n}\n")
        self.write("src/env/vec_test.c", 'AW_TEST_GROUP("vec")\n')
        self.assert_clean("registered")
        self.write("src/env/vec_test.c", 'AW_TEST_GROUP("vector")\n')
        self.assert_found("registered", "src/env/vec_test.c:1: this test never runs")
        self.write("src/env/meson.build", "unit_tests += {'vec': files('vec_test.c','b_test.c')}\n")
        self.write("src/env/vec_test.c", 'AW_TEST_GROUP("vec")\n')
        self.write("src/env/b_test.c", 'AW_TEST_GROUP("b")\n')
        self.assert_found("registered", "src/env/b_test.c:1: this test never runs")

    # format

    @unittest.skipUnless(shutil.which("clang-format"), "clang-format is not installed")
    def test_a_file_out_of_layout_is_found(self):
        self.write(".clang-format", "BasedOnStyle: LLVM\n")
        self.write("src/nn/x.c", "int x;\n")
        self.assert_clean("format")
        self.write("src/nn/x.c", "int   x;\nint   y;\n")
        self.assert_found("format", "src/nn/x.c:1: run `make format`")

    # defects

    def test_a_defect_whose_test_is_missing_is_found(self):
        head = "| number | defect | test | open |\n|---|---|---|---|\n"
        self.write("src/nn/x_test.c", "static void it_holds(void **state)\n")
        self.write("tests/web/x_test.mjs", "check(true, 'page: it is quiet');\n")
        self.write("docs/DEFECTS.md", head + "| 1 | a | `it_holds` | |\n"
                   "| 2 | b | `it is quiet` | |\n| 3 | c | | all of it |\n")
        self.assert_clean("defects")
        self.write("docs/DEFECTS.md", head + "| 1 | a | `it_hold` | |\n| 3 | c | | |\n")
        self.assert_found("defects", "docs/DEFECTS.md:3: there is no test it_hold",
                          "docs/DEFECTS.md:4: expected defect 2, found 3",
                          "docs/DEFECTS.md:4: neither a test nor what is open")

    def test_a_phrase_that_puzzles_readers_is_found(self):
        self.write("README.md", "There is none here, and nobody minds.\n")
        self.write("src/nn/x.c", '/* whoever reads this */\nputs("there is none");\n')
        self.assert_clean("words")
        self.write("README.md", "Whoever acts\n")
        self.write("docs/x.md", "fine\nthat is another run\n")
        self.write("src/nn/x.c", 'puts("a length that is none");\n')
        self.write("src/web/page/x.js", "tile('what is told'); // somebody\n")
        self.assert_found("words", 'README.md:1: "Whoever" puzzles readers',
                          'docs/x.md:2: "is another" puzzles readers',
                          'src/nn/x.c:1: "that is none" puzzles readers',
                          'src/web/page/x.js:1: "what is told" puzzles readers')


if __name__ == "__main__":
    unittest.main()
