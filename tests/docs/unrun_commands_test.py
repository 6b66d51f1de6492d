"""Commands of the documents that no test runs, since they take minutes or need what a host need not have, name programs, flags, targets and
files that exist. So do flags in the text around them."""

import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

from tests import report
from tests.docs.documents import DOCUMENTS, command_blocks_of

BINARIES = {
    "coordinator": "server/coordinator/coordinator",
    "parameter_server": "worker/parameter_server/parameter_server",
    "worker": "worker/worker",
    "ringctl": "server/ctl/ringctl",
}
# Their arguments name the program that they run.
WRAPPERS = ("chrt", "docker", "kubectl", "sbatch", "sudo")
# Flags in the text that are another project's.
FOREIGN = {
    "--max_restarts",  # torchrun
}
ROOT = pathlib.Path("README.md").resolve().parent


def simple_commands(text):
    """The commands of a line of shell, each a list of words without what redirects it."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    commands = [[]]
    for word in lexer:
        if set(word) <= set("();<>|&"):
            commands.append([])
        else:
            commands[-1].append(word)
    for words in commands:
        while words and re.match(r"\w+=", words[0]):  # variables
            words.pop(0)
    return [words for words in commands if words]


@functools.lru_cache(maxsize=None)
def flags_of_help(*command, cwd="."):
    # Bazel's PYTHONPATH leads to a package `tests` that has this test's inputs alone, and hides that of the sources.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run([*command, "--help"], capture_output=True, text=True, cwd=cwd, env=environment)
    assert result.returncode == 0, f"{command}: {result.stderr}"
    return set(re.findall(r"(?<![\w-])(--?[A-Za-z][\w-]*)", result.stdout))


def flags_of_ringctl(words):
    """Of the command that `words` begin with, as far in as there is one."""
    command = [BINARIES["ringctl"]]
    for word in words:
        result = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
        if not re.search(rf"^  {re.escape(word)}  ", result.stdout.partition("\nCommands:")[2].partition("\n\n")[0], re.M):
            break
        command.append(word)
    return flags_of_help(*command)


def flags_in_sources(folder):
    """Of the programs whose sources lie in the folder."""
    text = "".join(path.read_text() for path in sorted((ROOT / folder).glob("*.cc")))
    return {f"--{name}" for name in re.findall(r'\.name = "(\w+)"', text)}


def has_target(label):
    folder, _, name = label.removeprefix("//").partition(":")
    build = ROOT / folder / "BUILD"
    return build.exists() and f'name = "{name or pathlib.Path(folder).name}"' in build.read_text()


def is_ours(word):
    return pathlib.Path(word).name in (*BINARIES, "python3") or word.startswith("bazel-bin/") or word.endswith((".sh", ".sbatch"))


def without_wrapper(words):
    """From the program that counts on."""
    if words[0] not in WRAPPERS:
        return words
    return words[next((i for i, word in enumerate(words) if is_ours(word)), len(words)):]


def known_flags(program, arguments):
    """The flags that a program of ours knows; None: it is another one."""
    name = pathlib.Path(program).name
    if program.startswith("bazel-bin/"):
        return flags_in_sources(pathlib.PurePath(program.removeprefix("bazel-bin/")).parent)
    if name == "ringctl":
        return flags_of_ringctl(arguments)
    if name in BINARIES:
        return flags_of_help(BINARIES[name])
    if name == "python3" and arguments[:1] == ["-m"]:
        return {"-m"} | flags_of_help(sys.executable, "-m", arguments[1], cwd=ROOT)
    if name.endswith(".sbatch"):  # passes them on
        return flags_of_ringctl(["submit"])
    if name.endswith(".sh"):
        script = ROOT / program.removeprefix("./").removeprefix("ringmaster-gpu/")
        return set(re.findall(r"--[\w-]+", script.read_text())) if script.exists() else set()
    return None


def missing_files(words):
    for word in words:
        if word.startswith("bazel-bin/"):
            path = pathlib.PurePath(word.removeprefix("bazel-bin/"))
            if not has_target(f"//{path.parent}:{path.name}") and not (ROOT / path).is_dir():
                yield f"there is no target for {word}"
        elif words[0] == "bazel" and word.startswith("//") and not word.endswith("...") and not has_target(word):
            yield f"there is no target {word}"
        elif re.match(r"(\./)?(deploy|docs|tests)/\S+\.\w+$", word) and not (ROOT / word).exists():
            yield f"there is no file {word}"


def problems_of_words(words):
    """What is wrong with a simple command; yields texts."""
    for word in words:
        if " " in word and is_ours(word.split()[0]):
            yield from problems_of(word)
    yield from missing_files([word for word in words if " " not in word])
    words = without_wrapper(words)
    known = known_flags(words[0], words[1:]) if words else None
    if known is None:
        return
    known = {flag.replace("-", "_") for flag in known}
    for argument in words[1:]:
        flag = argument.partition("=")[0]
        if re.fullmatch(r"--?[A-Za-z][\w-]*", flag) and flag.replace("-", "_") not in known:
            yield f"{pathlib.Path(words[0]).name} has no flag {flag}"


def problems_of(text):
    return [problem for words in simple_commands(text) for problem in problems_of_words(words)]


class UnrunCommandsTest(unittest.TestCase):
    def test_commands_that_are_not_run_name_what_exists(self):
        count = 0
        for document in DOCUMENTS:
            for block in command_blocks_of(document):
                if not block.reason:
                    continue
                for command in block.commands():
                    with self.subTest(f"{block.place}: {command.text}"):
                        count += 1
                        self.assertEqual(problems_of(command.text), [])
        self.assertGreater(count, 40)

    def test_what_does_not_exist_is_named(self):
        for text, problem in [
                ("ringctl compare JOB.yaml --modez=ring", "ringctl has no flag --modez"),
                ("kubectl -n ringmaster exec pod -- ringctl status --colour", "ringctl has no flag --colour"),
                ("worker --cordinator=a:1 && true", "worker has no flag --cordinator"),
                ("chrt -r 1 /usr/bin/python3 -m tests.bench.recovery.run --kils=3", "python3 has no flag --kils"),
                ("bazel build //tests/bench/recovery:walk", "there is no target //tests/bench/recovery:walk"),
                ("bazel-bin/tests/bench/nothing/step_bench", "there is no target for bazel-bin/tests/bench/nothing/step_bench"),
                ("bazel-bin/tests/bench/step_vs_torch/step_bench --caze=a", "step_bench has no flag --caze"),
                ("x --ours 'bazel-bin/tests/bench/step_vs_torch/step_bench --caze=a'", "step_bench has no flag --caze"),
                ("tests/gpu/run.sh --biuld  # packs", "run.sh has no flag --biuld"),
                ("sbatch --nodes=4 /opt/ringmaster/slurm/train.sbatch job.yaml --zet=a=1", "train.sbatch has no flag --zet"),
                ("cat deploy/local/nothing.yaml", "there is no file deploy/local/nothing.yaml"),
        ]:
            with self.subTest(text):
                self.assertEqual(problems_of(text), [problem])
        self.assertEqual(problems_of("mkdir -p /tmp/x && ringctl bench allreduce -n 4 --sizes=1M:64M | cat"), [])

    def test_flags_in_the_text_of_benchmarks_exist(self):
        known = {"--config", "--build", *FOREIGN}
        for binary in BINARIES.values():
            known |= flags_of_help(binary)
        for script in sorted((ROOT / "tests").glob("*/**/run.py")):
            known |= flags_of_help(sys.executable, "-m", ".".join(script.relative_to(ROOT).with_suffix("").parts), cwd=ROOT)
        for folder in ("tests/gpu/overlap", "tests/bench/step_vs_torch"):
            known |= flags_in_sources(folder)
        for document in DOCUMENTS:
            if not document.startswith("docs/benchmarks/"):
                continue
            for flag in re.findall(r"`(--[a-z][\w-]*)", pathlib.Path(document).read_text()):
                self.assertIn(flag, known, document)


if __name__ == "__main__":
    report.main()
