"""Records ten everyday tasks at a terminal of 80 columns, as they are in docs/images/session.svg:

    python3 -m tests.docs.record_session | docs/images/terminal_to_svg.py > docs/images/session.svg

It runs the programs in the directory RINGMASTER_BIN_DIR, or those that Bazel has built, and needs root.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

from tests.docs.machine import Machine, lose_a_worker, start_cluster, write_jobs, write_words

COLUMNS, ROWS = 80, 24
DIM, PLAIN = "\x1b[2m", "\x1b[0m"
TASKS = [
    ("Who is there?", "ringctl workers"),
    ("Queue a job.", "ringctl submit words.yaml"),
    ("Is it training?", "ringctl status"),
    ("A worker was killed: what happened?", "ringctl explain words-1"),
    ("What did it say last?", "ringctl logs w3 --tail=3"),
    ("Is the work safe?", "ringctl checkpoint ls DIR"),
    ("Is a copy whole?", "ringctl checkpoint verify DIR/latest"),
    ("Take the model away.", "ringctl checkpoint export DIR/latest --out=MODEL --dtype=bfloat16"),
    ("What has it learnt?", "ringctl sample --checkpoint=DIR/latest --prompt='the worker ' --bytes=60"),
    ("Stop the job.", "ringctl cancel words-1"),
]


def typed(machine, command):
    """What a terminal shows of the command."""
    terminal, programs_side = pty.openpty()
    fcntl.ioctl(programs_side, termios.TIOCSWINSZ, struct.pack("4H", ROWS, COLUMNS, 0, 0))
    environment = {**machine.environment, "TERM": "xterm-256color"}
    process = subprocess.Popen(machine.argv(command), env=environment, stdin=programs_side, stdout=programs_side, stderr=programs_side,
                               start_new_session=True)
    os.close(programs_side)
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the last writer has gone
            piece = b""
        if not piece:
            break
        shown += piece
    os.close(terminal)
    status = process.wait()
    assert status == 0, f"{command}: {status}: {shown.decode(errors='replace')}"
    return shown.decode().replace("\r\n", "\n").rstrip("\n").split("\n")


def wrapped(line):
    """The line as a terminal breaks it."""
    pieces, column = [""], 0
    for unit in re.findall(r"\x1b\[[0-9;]*m|.", line):
        if not unit.startswith("\x1b") and column == COLUMNS:
            pieces.append("")
            column = 0
        pieces[-1] += unit
        column += not unit.startswith("\x1b")
    return pieces


def main():
    with Machine() as machine:
        write_jobs(machine)
        start_cluster(machine)
        write_words(machine, steps=10_000_000)
        for why, command in TASKS:
            if command.endswith("explain words-1"):
                lose_a_worker(machine)
            lines = [piece for line in typed(machine, command) for piece in wrapped(line)]
            print(f"{DIM}# {why}{PLAIN}")
            print("\n".join([*wrapped(f"$ {command}"), *lines, ""]))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
