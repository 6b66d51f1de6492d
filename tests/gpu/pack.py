"""Packs GPU tests, benchmarks and our programs into one file for a machine without Bazel. Called by run.sh --build.

  pack.py --list QUERY.xml...                                        prints the labels
  pack.py --bin=BAZEL_BIN --config=NAME --out=FILE QUERY.xml...      packs what was built

QUERY.xml is what `bazel query --output=xml` printed. A rule with the tag "gpu" is a test; one with "gpu_bench" is a
benchmark (see benchmarks.py); others are programs. deploy/make_bundle.sh adds the shared libraries. In the file:

  ringmaster-gpu/manifest.json     what there is to run
  ringmaster-gpu/bin/, lib/        programs: a test's name is its label with dots, others have their own
  ringmaster-gpu/runfiles/TEST/    a test's data, where it has any
  ringmaster-gpu/tests/gpu/        run.sh and what it needs
"""

import argparse
import collections
import json
import lzma
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).absolute().parents[2]
TOP = "ringmaster-gpu"
MAX_MIB = 64
# PyTorch's extension is of the PyTorch here, and brings no less along; the machine with a GPU has another.
LEFT_OUT = "worker/torch/python/"
# Programs share most of their code, many megabytes apart: a window as large as all of them finds that.
WINDOW = [{"id": lzma.FILTER_LZMA2, "preset": 2, "dict_size": 96 << 20}]
SECONDS = {"short": 60, "moderate": 300, "long": 900, "eternal": 3600}
TIMEOUT_OF_SIZE = {"small": "short", "medium": "moderate", "large": "long", "enormous": "eternal"}
SCRIPTS = ["LICENSE", "deploy/common.sh", "tests/count_cases.py", "tests/report.py", "tests/gpu/*.py", "tests/gpu/run.sh",
           "tests/gpu/step_vs_torch/*.py", "tests/bench/recovery/*.py", "tests/chaos/*.py", "tests/integration/*.py"]

Rule = collections.namedtuple("Rule", "label kind tags seconds args main")


class PackError(Exception):
    """One line that says what is wrong and what to do."""


def read_rules(paths):
    """The rules of the queries, by label."""
    rules = {}
    for path in paths:
        for element in xml.parse(path).getroot().iter("rule"):
            strings = {node.get("name"): node.get("value") for node in element if node.tag == "string"}
            lists = {node.get("name"): [item.get("value") for item in node] for node in element if node.tag == "list"}
            label = element.get("name")
            timeout = strings.get("timeout") or TIMEOUT_OF_SIZE[strings.get("size", "medium")]
            main = next((node.get("value") for node in element if node.tag == "label" and node.get("name") == "main"),
                        f"{label}.py")
            rules[label] = Rule(label, element.get("class"), lists.get("tags", []), SECONDS[timeout], lists.get("args", []), main)
    return [rules[label] for label in sorted(rules)]


def path_of(label):
    return label[2:].replace(":", "/")


def is_program(path):
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


class Stage:
    """The files on their way into the bundle."""

    def __init__(self, bazel_bin, directory):
        self._bin = pathlib.Path(bazel_bin)
        self._directory = pathlib.Path(directory)
        self._names = {}  # of programs, by the file that was built
        self.programs = self._directory / "programs"
        self.top = self._directory / TOP
        self.programs.mkdir()
        self.top.mkdir()

    def add_program(self, built, name):
        """The name under which a built program is in bin/; it is `name`, unless it was there before."""
        source = pathlib.Path(built).resolve()
        if not is_program(source):
            raise PackError(f"{source} is no program; build it first")
        if source in self._names:
            return self._names[source]
        if name in self._names.values():
            raise PackError(f"two programs have the name {name}; rename one of them")
        # With its own permissions it could not be stripped.
        target = self.programs / name
        shutil.copyfile(source, target)
        target.chmod(0o755)
        self._names[source] = name
        return name

    def add_runfiles(self, label, name):
        """A test's data without the test, or None if it has none. Programs are links into bin/."""
        built = self._bin / path_of(label)
        source = pathlib.Path(f"{built}.runfiles")
        files = [path for path in sorted(source.rglob("*")) if path.is_file() and path.resolve() != built.resolve()
                 and path.name != "MANIFEST" and LEFT_OUT not in str(path)]
        target = self.top / "runfiles" / name
        for path in files:
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if is_program(path):
                program = self.add_program(path, str(path.relative_to(source / "ringmaster")).replace("/", "."))
                copy.symlink_to(os.path.relpath(self.top / "bin" / program, copy.parent))
            else:
                shutil.copy(path, copy)
        return f"runfiles/{name}/ringmaster" if files else None

    def add_test(self, rule):
        name = path_of(rule.label).replace("/", ".")
        test = {"name": rule.label, "seconds": rule.seconds, "args": rule.args, "is_alone": "exclusive" in rule.tags,
                "log": name, "directory": self.add_runfiles(rule.label, name)}
        if rule.kind == "py_test":
            test["module"] = path_of(rule.main)[:-len(".py")].replace("/", ".")
        else:
            test["program"] = self.add_program(self._bin / path_of(rule.label), name)
        return test

    def add(self, rules):
        """Programs come first: they keep their names where they are also a test's data."""
        tests, benchmarks = [], []
        plain = [rule for rule in rules if "gpu" not in rule.tags]
        for rule in plain:
            if rule.kind == "py_binary":
                continue  # run.sh's own
            name = self.add_program(self._bin / path_of(rule.label), rule.label.split(":")[1])
            if "gpu_bench" in rule.tags:
                benchmarks.append({"name": name, "program": name, "seconds": rule.seconds})
        for rule in rules:
            if "gpu" in rule.tags:
                tests.append(self.add_test(rule))
        return {"tests": tests, "benchmarks": benchmarks}

    def add_libraries(self):
        """bin/, lib/ and licenses/."""
        programs = sorted(self.programs.iterdir())
        subprocess.run(["strip", "--strip-all", *programs], check=True)
        packed = self._directory / "programs.tar.gz"
        subprocess.run([ROOT / "deploy/make_bundle.sh", packed, ROOT / "LICENSE", *programs], check=True)
        with tarfile.open(packed) as file:
            file.extractall(self._directory)
        for part in ("bin", "lib", "licenses"):
            (self._directory / "ringmaster" / part).rename(self.top / part)

    def add_scripts(self):
        for pattern in SCRIPTS:
            for path in ROOT.glob(pattern):
                if path.name.endswith("_test.py"):
                    continue
                copy = self.top / path.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)


def commit():
    result = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return result.stdout.strip() or "unknown"


def write(top, out, max_mib):
    """Leaves no file that is too large."""
    partial = f"{out}.partial"
    with lzma.open(partial, "wb", filters=WINDOW) as packed, tarfile.open(fileobj=packed, mode="w") as file:
        file.add(top, TOP)
    mib = os.path.getsize(partial) / 2**20
    if mib > max_mib:
        largest = sorted(((path.lstat().st_size, path) for path in top.rglob("*") if path.is_file()), reverse=True)[:3]
        os.unlink(partial)
        shown = ", ".join(f"{path.relative_to(top)} ({size / 2**20:.0f} MiB unpacked)" for size, path in largest)
        raise PackError(f"the bundle has {mib:.1f} MiB; at most {max_mib:g} are allowed; the largest: {shown}")
    os.rename(partial, out)
    return mib


def pack(rules, args):
    with tempfile.TemporaryDirectory() as directory:
        stage = Stage(args.bin, directory)
        manifest = {"commit": commit(), "config": args.config, **stage.add(rules)}
        stage.add_libraries()
        stage.add_scripts()
        (stage.top / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        mib = write(stage.top, args.out, args.max_mib)
    print(f"{args.out}: {len(manifest['tests'])} tests, {len(manifest['benchmarks'])} benchmarks, {mib:.1f} MiB")


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Packs GPU tests and benchmarks.")
    parser.add_argument("--list", action="store_true", help="print the labels and pack nothing")
    parser.add_argument("--bin", help="bazel-bin")
    parser.add_argument("--config", default="cuda", help="what they were built with")
    parser.add_argument("--out", help="the file to write")
    parser.add_argument("--max_mib", type=float, default=MAX_MIB)
    parser.add_argument("queries", nargs="+", metavar="QUERY.xml")
    args = parser.parse_args(arguments)
    rules = read_rules(args.queries)
    if args.list:
        print(" ".join(rule.label for rule in rules))
        return 0
    if not args.bin or not args.out:
        parser.error("--bin and --out must be given")
    try:
        pack(rules, args)
    except (PackError, OSError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
