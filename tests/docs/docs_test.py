"""The documents are right: paths and links exist, the flags they use are real, the table of exit codes is the code's, and
the jobs are good ones."""

import pathlib
import re
import subprocess
import unittest

from tests import report

BINARIES = {
    "coordinator": "server/coordinator/coordinator",
    "parameter_server": "worker/parameter_server/parameter_server",
    "worker": "worker/worker",
    "ringctl": "server/ctl/ringctl",
}
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "common/README.md", "server/README.md", "worker/README.md", *map(str, pathlib.Path("docs").rglob("*.md"))]


def source_root():
    # The test runs in a tree of links to the sources; a document's link may lead to a file that is no input of the test.
    return pathlib.Path("README.md").resolve().parent


def help_of(name, *verb):
    return subprocess.run([BINARIES[name], *verb, "--help"], capture_output=True, text=True, check=True).stdout


def commands(*outer):
    """ringctl's, by its --help, each as a tuple of words; those of a command with commands behind it."""
    found = []
    table = help_of("ringctl", *outer).partition("\nCommands:")[2].split("\n\n")[0]
    for name in re.findall(r"^  (\w+)  ", table, re.M):
        command = (*outer, name)
        found += [command, *commands(*command)]
    return found


class DocsTest(unittest.TestCase):
    def test_links_lead_somewhere(self):
        root = source_root()
        for document in DOCUMENTS:
            for target in re.findall(r"\]\(([^)#]+)[^)]*\)", pathlib.Path(document).read_text()):
                if "://" not in target:
                    self.assertTrue((root / pathlib.Path(document).parent / target).exists(), f"{document}: {target}")

    def test_the_code_map_names_real_paths(self):
        root = source_root()
        rows = [row for document in ("README.md", "docs/code-map.md")
                for row in re.findall(r"^\|[^|]+\| (`.*)\|$", pathlib.Path(document).read_text(), re.M)]
        self.assertGreater(len(rows), 60)
        for row in rows:
            first = None
            for path in re.findall(r"`([^`]+)`", row):
                brace = re.match(r"(.*)\{(.*)\}(.*)", path)
                for name in [brace[1] + part + brace[3] for part in brace[2].split(",")] if brace else [path]:
                    # A bare file name stands in the directory of the row's first path.
                    candidates = [root / name] + ([(root / first).parent / name, root / first / name] if first else [])
                    self.assertTrue(any(path.exists() for path in candidates), f"{row}: {name}")
                first = first or path

    def test_the_exit_codes_are_the_programs_own(self):
        documented = dict(re.findall(r"^\| (\d+) \| (.*?) \|$", pathlib.Path("docs/operations.md").read_text(), re.M))
        for name in BINARIES:
            table = help_of(name)
            for code, meaning in documented.items():
                words = r"\s+".join(map(re.escape, f"{code} {meaning}".split()))
                self.assertRegex(table, words, f"{name} --help")
        self.assertEqual(sorted(map(int, documented)), [0, 1, 2, 3, 4, 5, 138, 143])

    def test_flags_in_the_documents_are_flags_of_the_programs(self):
        texts = [help_of(name) for name in BINARIES] + [help_of("ringctl", *command) for command in commands()]
        known = {flag.replace("-", "_") for text in texts for flag in re.findall(r"--([a-z0-9_-]+)", text)}
        for document in ["README.md", "docs/getting-started.md", "docs/operations.md", "docs/jobs.md"]:
            for line in pathlib.Path(document).read_text().splitlines():
                if not re.search(r"coordinator|worker|ringctl|--tls|--insecure", line) or "bazel" in line:
                    continue
                for flag in re.findall(r"--([a-z][a-z0-9_-]*)", line):
                    self.assertTrue(flag.replace("-", "_") in known, f"{document}: --{flag}: {line}")

    def test_the_completions_know_every_command_and_flag(self):
        flags = {command: set(re.findall(r"^  (--\w+)", help_of("ringctl", *command), re.M)) for command in commands()}
        self.assertLessEqual({("completion",), ("checkpoint", "rm")}, set(flags))
        scripts = {shell: subprocess.run([BINARIES["ringctl"], "completion", shell], capture_output=True, text=True, check=True).stdout
                   for shell in ("bash", "zsh")}
        for command in flags:
            self.assertIn(f"'{command[-1]}{':' if len(command) == 1 else '['}", scripts["zsh"])
            for flag in flags[command]:
                self.assertIn(f"{flag}", scripts["zsh"])

        def complete(*words):
            line = f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _ringctl; printf '%s\\n' \"${{COMPREPLY[@]}}\""
            return set(subprocess.run(["bash", "-c", scripts["bash"] + line], capture_output=True, text=True, check=True).stdout.split())

        for command in flags:
            self.assertIn(command[-1], complete("ringctl", *command[:-1], "''"))
            self.assertLessEqual(flags[command], complete("ringctl", *command, "--"), command)
        self.assertEqual(complete("ringctl", "sub"), {"submit"})
        self.assertEqual(complete("ringctl", "status", "--output", "j"), {"json"})
        self.assertEqual(complete("ringctl", "--output", "json", "checkpoint", "ver"), {"verify"})
        self.assertEqual(complete("ringctl", "checkpoint", "ls", "REA"), {"README.md"})
        # Bash takes "=" and ":" for ends of words.
        there = ("--coordinator", "=", "localhost", ":", "29400")
        self.assertEqual(complete("ringctl", *there, "events", "--severity", "=", "w"), {"warning"})
        self.assertEqual(complete("ringctl", "--coordinator", "localhost", ":", "29400", "sub"), {"submit"})

    def test_the_jobs_are_good(self):
        jobs = [pathlib.Path("deploy/local/job.yaml"), *sorted(pathlib.Path("deploy/local/jobs").glob("*.yaml"))]
        self.assertGreater(len(jobs), 5)
        for job in jobs:
            with self.subTest(job=str(job)):
                result = subprocess.run([BINARIES["ringctl"], "submit", "--dry-run", str(job)], capture_output=True, text=True)
                self.assertEqual(result.returncode, 0, result.stderr)
                # The line with the command to type has the file's own path.
                self.assertIn(f" {job}", job.read_text())


if __name__ == "__main__":
    report.main()
