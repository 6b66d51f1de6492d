"""The table of fail points in docs/operations.md has the names that are in the sources, and no others."""

import pathlib
import re
import unittest

from tests import report


def names_in_sources():
    """Fail points by name, with the first file that has each. Tests and the fail points' own package are left out."""
    # The test runs in a tree of links to the sources.
    root = pathlib.Path("README.md").resolve().parent
    found = {}
    for top in ("common", "server", "worker"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in (".cc", ".h") or path.stem.endswith("_test") or path.parent.name in ("fail_point", "testing"):
                continue
            text = path.read_text()
            names = re.findall(r'FAIL_POINT\(\s*"([^"]*)"', text)
            for entries in re.findall(r"FailPointSet\(\{(.*?)\}\)", text, re.S):
                names += re.findall(r'"([^"]*)"', entries)
            for name in names:
                found.setdefault(name, str(path.relative_to(root)))
    return found


def names_in_table():
    """The names of the table, with `area.{a,b}` written out."""
    text = pathlib.Path("docs/operations.md").read_text()
    section = re.search(r"^## Fail points$(.*?)(?=^## |\Z)", text, re.S | re.M)[1]
    names = []
    for cell in re.findall(r"^\| `([^`]*)` \|", section, re.M):
        brace = re.fullmatch(r"(.*)\{(.*)\}", cell)
        names += [brace[1] + part for part in brace[2].split(",")] if brace else [cell]
    return names


class FailPointsTest(unittest.TestCase):
    def test_the_table_has_every_fail_point(self):
        documented = names_in_table()
        found = names_in_sources()
        self.assertGreater(len(found), 50)
        missing = {name: path for name, path in found.items() if name not in documented}
        self.assertEqual(missing, {}, "in the sources, but not in the table of docs/operations.md")

    def test_the_table_has_no_other_and_none_twice(self):
        documented = names_in_table()
        self.assertEqual(sorted(set(documented) - set(names_in_sources())), [], "in docs/operations.md, but not in the sources")
        self.assertEqual(len(documented), len(set(documented)))

    def test_names_have_an_area_and_a_place(self):
        for name, path in names_in_sources().items():
            self.assertRegex(name, r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$", path)


if __name__ == "__main__":
    report.main()
