"""Every command of the README and of docs/ runs as it stands, and prints what the document says (documents.py says how they are written).

Output is compared in shape (see `has_shape`).

A document's commands run in its order, in one working directory on a machine of its own: namespaces in which all the documents' host names
are this machine. A document takes things for granted, such as a job that runs; its scene sets them up. Programs that serve are started in the
background.
"""

import re
import shlex
import shutil
import time
import unittest

from tests import report
from tests.docs.documents import DOCUMENTS, LANGUAGES, blocks_of, command_blocks_of
from tests.docs.machine import Machine, goes_on, lose_a_worker, program_of, start_cluster, start_words, write_jobs
from tests.integration.cluster import mount_namespaces_unavailable, namespaces_unavailable

# Programs that the documents use and that a host need not have.
OPTIONAL = ("grpcurl", "jq", "sqlite3", "tensorboard")


def has_shape(line, expected):
    """True if `line` has the words of `expected`: one with a digit stands for any word, and "..." at the end for any rest."""
    words, pattern = line.split(), expected.split()
    if pattern[-1:] == ["..."]:
        pattern.pop()
        words = words[:len(pattern)]
    return len(words) == len(pattern) and all(p == word or re.search(r"\d", p) for word, p in zip(words, pattern))


SCENES = {
    "docs/getting-started.md": [write_jobs],
    "docs/jobs.md": [write_jobs, start_cluster],
    "docs/operations.md": [write_jobs, start_cluster, start_words, lose_a_worker],
}


class CommandsTest(unittest.TestCase):
    def run_document(self, document):
        why = namespaces_unavailable() or mount_namespaces_unavailable()
        if why:
            self.skipTest(why)
        began = time.monotonic()
        with Machine() as machine:
            for scene in SCENES.get(document, []):
                scene(machine)
            for block in command_blocks_of(document):
                if not block.reason:
                    for command in block.commands():
                        with self.subTest(f"{block.place}: {command.text}"):
                            self.run_command(machine, command)
            for command, process, _ in machine.background:
                if goes_on(command):
                    self.assertIsNone(process.poll(), f"{command} has ended")
        print(f"{document}: {time.monotonic() - began:.1f} s")

    def run_command(self, machine, command):
        text = command.text
        if program_of(text) == "export":
            machine.environment.update(word.split("=", 1) for word in shlex.split(text)[1:])
            return
        for name in OPTIONAL:
            if re.search(rf"\b{name} ", text) and shutil.which(name) is None:
                print(f"not run, since {name} is not installed: {text}")
                return
        began = time.monotonic()
        if goes_on(text):
            machine.start_program(text, command.host)
            return
        status, output = machine.run(text)
        print(f"{time.monotonic() - began:6.1f} s  {text}")
        self.assertEqual(status, 0, output)
        for line in command.output:
            self.assertTrue(any(has_shape(found, line) for found in output.splitlines()), f"no line as {line!r} in:\n{output}")

    def test_every_block_says_what_it_is(self):
        for document in DOCUMENTS:
            for block in blocks_of(document):
                self.assertIn(block.language, LANGUAGES, f"{block.place}: fence it as sh, console or text")
                if block.reason:
                    self.assertIn(block.language, ("sh", "console"), block.place)
                if block.language == "console":
                    self.assertRegex(block.lines[0], r"[\w-]*\$ ", block.place)

    def test_words_with_digits_stand_for_any_word(self):
        self.assertTrue(has_shape("worker w7 (pid 12) was lost", "worker w3 (pid 4711) was lost"))
        self.assertFalse(has_shape("worker w7 (pid 12) was killed", "worker w3 (pid 4711) was lost"))
        self.assertFalse(has_shape("worker w7 (pid 12) was lost", "worker w3 (pid 4711) was lost again"))
        self.assertTrue(has_shape("ok  route  to 10.0.0.1 by eth0", "ok route ..."))


for _document in DOCUMENTS:
    if any(not block.reason for block in command_blocks_of(_document)):
        setattr(CommandsTest, f"test_the_commands_of_{re.sub(r'[^a-z]+', '_', _document.lower())}",
                lambda self, document=_document: self.run_document(document))


if __name__ == "__main__":
    report.main()
