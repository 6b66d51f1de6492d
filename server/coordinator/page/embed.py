"""Writes the C++ source that defines PageFiles() (page_file.h): usage: embed.py OUTPUT FILE...

A string literal of escapes, rather than an array of numbers, since compilers read it a hundred times faster.
"""

import pathlib
import sys

# Bytes of a line of the literal; a literal of adjacent strings may be of any length to GCC and clang.
LINE = 4096


def literal(content):
    # Octal escapes end after three digits, whatever follows them; hexadecimal ones do not.
    escaped = ["".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in content[at:at + LINE])
               for at in range(0, len(content), LINE)]
    return "\n".join(f'     "{line}"' for line in escaped) or '     ""'


def main(output, *paths):
    entries = []
    for path in sorted(map(pathlib.Path, paths), key=lambda path: path.name):
        content = path.read_bytes()
        entries.append(f'    {{"{path.name}", std::string_view(\n{literal(content)},\n     {len(content)})}},')
    pathlib.Path(output).write_text("\n".join([
        '#include "server/coordinator/page/page_file.h"', "", "namespace ringmaster::coordinator {", "",
        "std::span<const PageFile> PageFiles() {", "  static constexpr PageFile kFiles[] = {", *entries, "  };", "  return kFiles;", "}", "",
        "}  // namespace ringmaster::coordinator", ""]))


if __name__ == "__main__":
    main(*sys.argv[1:])
