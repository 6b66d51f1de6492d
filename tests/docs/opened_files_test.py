"""A worker opens what a job names only through ProcessFiles() (common/files/file_roots.h): its sources call the system by hand nowhere
but in the files here, whose paths are no job's."""

import pathlib
import re
import unittest

from tests import report

CALLS = re.compile(
    r"(?<![\w.>])(?:::)?(?:open|openat|fopen|rename|renameat2?|unlink|mkdir|symlink|link|stat|lstat|access|readlink|opendir|truncate)\("
    r"(?:AT_FDCWD, )?[\w.]+\.c_str\(\)"
    r"|std::[io]?fstream"
    r"|\b(?:fs|std::filesystem)::(?:absolute|canonical|copy|create_|directory_iterator|equivalent|exists|file_size|is_|permissions|read_symlink"
    r"|recursive_|remove|rename|resize_|status|symlink_status|weakly_)")

OTHERS_PATHS = {
    "worker/checkpoint/checkpoint_directory.cc": "/proc/sys/kernel/random/boot_id",
    "worker/checkpoint/export_model.cc": "`ringctl checkpoint export` writes for its user",
    "worker/member/process_usage.cc": "/proc/self",
    "worker/nn/cuda/matmul_plan_file.cc": "--tuning_cache of the worker",
    "worker/train/output/sample_command.cc": "`worker sample` reads for its user",
}


def calls_in_sources():
    """The calls by file, in what a job's ranks run."""
    # The test runs in a tree of links to the sources.
    root = pathlib.Path("README.md").resolve().parent
    found = {}
    for part in ("checkpoint", "data", "external", "figures", "member", "nn", "parameter_server", "train"):
        for path in sorted((root / "worker" / part).rglob("*")):
            if path.suffix not in (".cc", ".h", ".cu") or path.stem.endswith("_test") or "testing" in path.parts or "emulator" in path.parts:
                continue
            calls = [match[0] for match in CALLS.finditer(re.sub(r"//.*", "", path.read_text()))]
            if calls:
                found[str(path.relative_to(root))] = calls
    return found


class OpenedFilesTest(unittest.TestCase):
    def test_jobs_files_are_opened_beneath_roots(self):
        found = calls_in_sources()
        stray = {path: calls for path, calls in found.items() if path not in OTHERS_PATHS}
        self.assertEqual(stray, {}, "calls the system by hand; use ProcessFiles(), or add the file with its reason")

    def test_the_list_has_no_other_files(self):
        self.assertEqual(sorted(set(OTHERS_PATHS) - set(calls_in_sources())), [])

    def test_calls_are_seen(self):
        for text in ("open(path.c_str(), O_RDONLY)", "::rename(a.c_str(), b.c_str())", "std::ifstream file(path)", "fs::exists(path, error)",
                     "renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD,", "stat(at.c_str(), &info)", "std::filesystem::remove(path)"):
            self.assertRegex(text, CALLS)
        for text in ("ProcessFiles().Rename(a, b)", "fstat(fd.get(), &info)", "openat(fd, name.c_str())", "files.open(path.c_str())"):
            self.assertNotRegex(text, CALLS)


if __name__ == "__main__":
    report.main()
