"""The documents, and the commands in them.

A block of commands is fenced as `sh`, a line each (one that ends with a backslash goes on), or as `console`: lines with a prompt are
commands, and what follows is their output. Other fences are no commands. A line before a block, `<!-- not run: WHY -->`, says why its commands
are not run by commands_test; unrun_commands_test checks those.
"""

import dataclasses
import pathlib
import re

DOCUMENTS = ["README.md", *sorted(str(path) for folder in ("docs", "docs/benchmarks") for path in pathlib.Path(folder).glob("*.md"))]
LANGUAGES = {"sh", "console", "text", "yaml", "cpp", "mermaid"}


@dataclasses.dataclass
class Command:
    text: str
    host: str = ""  # of its prompt
    output: list = dataclasses.field(default_factory=list)  # its lines in the document


@dataclasses.dataclass
class Block:
    place: str  # "docs/jobs.md:6"
    language: str
    reason: str  # why it is not run; "" if it is
    lines: list

    def commands(self):
        if self.language == "sh":
            lines = "\n".join(self.lines).replace("\\\n", " ").splitlines()
            return [Command(line) for line in lines if line and not line.startswith("#")]
        found = []
        for line in self.lines:
            prompt = re.match(r"([\w-]*)\$ +(.*)", line)
            if prompt:
                found.append(Command(prompt[2], prompt[1]))
            elif line:
                found[-1].output.append(line)
        return found


def blocks_of(document):
    blocks, block, reason = [], None, ""
    for number, line in enumerate(pathlib.Path(document).read_text().splitlines(), 1):
        fence = re.match(r"```(\w*)$", line)
        if block is not None and fence:
            blocks.append(block)
            block = None
        elif block is not None:
            block.lines.append(line)
        elif fence:
            block = Block(f"{document}:{number}", fence[1], reason, [])
        exempt = re.fullmatch(r"<!-- not run: (.+) -->", line)
        reason = exempt[1] if exempt else ""
    assert block is None, f"{block.place}: the block does not end"
    return blocks


def command_blocks_of(document):
    return [block for block in blocks_of(document) if block.language in ("sh", "console")]
