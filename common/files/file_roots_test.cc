#include "common/files/file_roots.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status/exit_code.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;
using Resolver = FileRoots::Resolver;

std::string ReadAll(const UniqueFd& fd) {
  std::string text(4096, '\0');
  const ssize_t count = read(fd.get(), text.data(), text.size());
  text.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  return text;
}

// BASE/root is a root that may be read and written, BASE/read one that may be read;
// BASE/secret and BASE/outside/key are none of the process's business.
class FileRootsTest : public ::testing::TestWithParam<Resolver> {
 protected:
  FileRootsTest() {
    std::string pattern = absl::StrCat(::testing::TempDir(), "/roots-XXXXXX");
    base_ = mkdtemp(pattern.data());
    root_ = base_ + "/root";
    for (const char* const directory :
         {"root/dir/deep", "outside/dir", "read/dir", "rootless"})
      fs::create_directories(base_ + "/" + directory);
    for (const char* const file :
         {"root/file", "root/dir/deep/file", "outside/key", "secret",
          "read/file", "rootless/file"})
      std::ofstream(base_ + "/" + file) << file;
    Reopen();
  }
  ~FileRootsTest() override { fs::remove_all(base_); }

  void Reopen(const std::vector<std::string>& extra_read = {}) {
    FileRoots::Directories directories = {.read = {base_ + "/read"},
                                          .write = {root_}};
    directories.read.insert(directories.read.end(), extra_read.begin(),
                            extra_read.end());
    absl::StatusOr<FileRoots> roots = FileRoots::Open(directories, GetParam());
    ASSERT_TRUE(roots.ok()) << roots.status();
    roots_ = *std::move(roots);
  }

  void MakeLink(const std::string& target, const std::string& name) {
    fs::create_symlink(target, root_ + "/" + name);
  }

  // The errno of opening `path` to read; 0: it was opened.
  int ReadError(const std::string& path) {
    const UniqueFd fd = roots_.OpenFile(path, O_RDONLY);
    return fd.is_open() ? 0 : errno;
  }

  std::string base_;
  std::string root_;
  FileRoots roots_;
};

INSTANTIATE_TEST_SUITE_P(Resolvers, FileRootsTest,
                         ::testing::Values(Resolver::kKernel, Resolver::kWalk),
                         [](const auto& info) {
                           return info.param == Resolver::kKernel ? "Kernel"
                                                                  : "Walk";
                         });

TEST_P(FileRootsTest, OpensWhatIsBeneathARoot) {
  MakeLink("dir/deep/file", "inner");
  MakeLink("inner", "twice");
  MakeLink("../file", "dir/up");
  MakeLink("dir", "over");
  for (const auto& [path, text] :
       std::vector<std::pair<std::string, std::string>>{
           {"/file", "root/file"},
           {"//file", "root/file"},
           {"/./file", "root/file"},
           {"/dir/deep/file", "root/dir/deep/file"},
           {"/dir/../file", "root/file"},
           {"/dir/deep/../../file", "root/file"},
           {"/inner", "root/dir/deep/file"},
           {"/twice", "root/dir/deep/file"},
           {"/dir/up", "root/file"},
           {"/over/deep/file", "root/dir/deep/file"},
           {"/over/up", "root/file"}}) {
    const UniqueFd fd = roots_.OpenFile(root_ + path, O_RDONLY);
    ASSERT_TRUE(fd.is_open()) << path << ": " << std::strerror(errno);
    EXPECT_EQ(ReadAll(fd), text) << path;
    EXPECT_TRUE(roots_.Check(root_ + path, FileAccess::kRead).ok()) << path;
    EXPECT_NE(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  }
  for (const char* const directory : {"", "/", "/.", "/dir", "/dir/", "/over/"})
    EXPECT_TRUE(roots_.List(root_ + directory).has_value()) << directory;
}

TEST_P(FileRootsTest, RefusesToLeadOut) {
  MakeLink(base_ + "/secret", "absolute");
  MakeLink("../secret", "relative");
  MakeLink("absolute", "to_absolute");
  MakeLink("relative", "to_relative");
  MakeLink("to_relative", "thrice");
  MakeLink(base_ + "/outside", "outer");
  MakeLink("../outside", "outer_relative");
  MakeLink("../../outside", "dir/outer");
  MakeLink("..", "up");
  MakeLink("dir/../..", "round");
  MakeLink("/", "slash");
  MakeLink("/proc/self/root", "proc_root");
  MakeLink("/proc/self/cwd", "proc_cwd");
  MakeLink(root_ + "/file", "absolute_inside");
  MakeLink("../root/file", "out_and_in");
  MakeLink("/dev/null", "device");
  const UniqueFd open_secret(open((base_ + "/secret").c_str(), O_RDONLY));
  const std::string own_fd = absl::StrCat("/proc/self/fd/", open_secret.get());
  MakeLink(own_fd, "descriptor");
  const std::vector<std::string> escapes = {
      // Paths that no root contains.
      base_ + "/secret",
      base_ + "/outside/key",
      base_,
      base_ + "/rootless/file",  // begins like the root
      root_ + "x",
      "/",
      "/etc/passwd",
      "//etc//passwd",
      "/proc/self/root" + base_ + "/secret",
      "/proc/self/root" + root_ + "/file",
      "/proc/self/cwd/x",
      "/proc/self/environ",
      own_fd,
      absl::StrCat("/dev/fd/", open_secret.get()),
      "/dev/stdin",
      "/dev/zero",
      "secret",  // relative to the directory that it began in
      "../secret",
      // `..`.
      root_ + "/..",
      root_ + "/../",
      root_ + "/../secret",
      root_ + "/./../secret",
      root_ + "//..//secret",
      root_ + "/dir/../../secret",
      root_ + "/dir/deep/../../../outside/key",
      root_ + "/../root/file",
      root_ + "/../../../../../../../etc/passwd",
      base_ + "/read/../secret",
      // Links.
      root_ + "/absolute",
      root_ + "/relative",
      root_ + "/relative/",
      root_ + "/to_absolute",
      root_ + "/to_relative",
      root_ + "/thrice",
      root_ + "/outer/key",
      root_ + "/outer/",
      root_ + "/outer_relative/key",
      root_ + "/dir/outer/key",
      root_ + "/up/secret",
      root_ + "/round/secret",
      root_ + "/slash/etc/passwd",
      root_ + "/proc_root/etc/passwd",
      root_ + "/proc_cwd",
      root_ + "/absolute_inside",
      root_ + "/out_and_in",
      root_ + "/device",
      root_ + "/descriptor",
  };
  ASSERT_GE(escapes.size(), 30u);
  for (const std::string& path : escapes) {
    EXPECT_EQ(ReadError(path), EXDEV) << path;
    EXPECT_FALSE(roots_.List(path).has_value()) << path;
    struct stat info = {};
    EXPECT_EQ(roots_.Stat(path, info), -1) << path;
    EXPECT_FALSE(roots_.OpenFile(path, O_WRONLY | O_CREAT, 0644).is_open())
        << path;
    const absl::Status status = roots_.Check(path, FileAccess::kRead);
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << path;
    EXPECT_TRUE(IsOutsideRoots(status));
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
    EXPECT_TRUE(absl::StrContains(status.message(), path)) << status;
    EXPECT_FALSE(absl::StrContains(status.message(), "\n")) << status;
  }
  EXPECT_FALSE(fs::exists(root_ + "x"));
}

TEST_P(FileRootsTest, RefusesToWriteOut) {
  MakeLink("../new", "hanging");
  MakeLink("../outside", "outer");
  for (const std::string& path :
       {base_ + "/new", root_ + "/../new", root_ + "/hanging",
        root_ + "/outer/new", base_ + "/read/new", std::string("new")}) {
    EXPECT_FALSE(roots_.OpenFile(path, O_WRONLY | O_CREAT, 0644).is_open());
    EXPECT_EQ(errno, EXDEV) << path;
    if (path == root_ + "/hanging") continue;  // a name that may be replaced
    EXPECT_EQ(roots_.MakeDirectory(path, 0755), -1);
    EXPECT_EQ(errno, EXDEV) << path;
    EXPECT_EQ(roots_.Symlink("x", path), -1);
    EXPECT_EQ(errno, EXDEV) << path;
    EXPECT_EQ(roots_.Rename(root_ + "/file", path), -1);
    EXPECT_EQ(errno, EXDEV) << path;
    EXPECT_EQ(roots_.Link(root_ + "/file", path), -1);
    EXPECT_EQ(errno, EXDEV) << path;
  }
  for (const std::string& path :
       {base_ + "/secret", root_ + "/../secret", root_ + "/outer/key",
        base_ + "/read/file", root_ + "/..", root_, root_ + "/dir/.."}) {
    EXPECT_EQ(roots_.Unlink(path), -1);
    EXPECT_EQ(errno, EXDEV) << path;
    EXPECT_EQ(roots_.RemoveTree(path), -1);
    EXPECT_EQ(errno, EXDEV) << path;
    EXPECT_EQ(roots_.Rename(path, root_ + "/stolen"), -1);
    EXPECT_EQ(errno, EXDEV) << path;
    EXPECT_EQ(roots_.Link(path, root_ + "/stolen"), -1);
    EXPECT_EQ(errno, EXDEV) << path;
  }
  EXPECT_TRUE(fs::exists(base_ + "/secret"));
  EXPECT_TRUE(fs::exists(base_ + "/outside/key"));
  EXPECT_FALSE(fs::exists(base_ + "/new"));
  EXPECT_FALSE(fs::exists(root_ + "/stolen"));
}

TEST_P(FileRootsTest, RefusesPathsThatAreNone) {
  EXPECT_EQ(ReadError(""), ENOENT);
  const std::string nul = root_ + "/file" + std::string(1, '\0') + "/../x";
  EXPECT_EQ(ReadError(nul), EINVAL);
  EXPECT_EQ(roots_.Unlink(nul), -1);
  const absl::Status status = roots_.Check(nul, FileAccess::kRead);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(status.message().find('\0'), absl::string_view::npos);
  EXPECT_EQ(FileRoots().OpenFile(nul, O_RDONLY).get(), -1);
}

TEST_P(FileRootsTest, HasTheSystemsErrorsBeneathARoot) {
  MakeLink("loop", "loop");
  EXPECT_EQ(ReadError(root_ + "/none"), ENOENT);
  EXPECT_EQ(ReadError(root_ + "/none/none"), ENOENT);
  EXPECT_EQ(ReadError(root_ + "/file/"), ENOTDIR);
  EXPECT_EQ(ReadError(root_ + "/file/x"), ENOTDIR);
  EXPECT_EQ(ReadError(root_ + "/file/../file"), ENOTDIR);
  EXPECT_EQ(ReadError(root_ + "/loop"), ELOOP);
  EXPECT_EQ(ReadError(root_ + "/" + std::string(300, 'x')), ENAMETOOLONG);
  EXPECT_FALSE(
      roots_.OpenFile(root_ + "/file", O_WRONLY | O_CREAT | O_EXCL).is_open());
  EXPECT_EQ(errno, EEXIST);
  EXPECT_FALSE(
      roots_.OpenFile(root_ + "/loop", O_WRONLY | O_CREAT | O_EXCL).is_open());
  EXPECT_EQ(errno, EEXIST);
  EXPECT_FALSE(
      roots_.OpenFile(root_ + "/loop", O_RDONLY | O_NOFOLLOW).is_open());
  EXPECT_EQ(errno, ELOOP);
  EXPECT_FALSE(roots_.OpenFile(root_ + "/dir", O_WRONLY | O_CREAT).is_open());
  EXPECT_EQ(errno, EISDIR);
  EXPECT_TRUE(roots_.Check(root_ + "/none/none", FileAccess::kWrite).ok());
  EXPECT_FALSE(roots_.Check(base_ + "/none/none", FileAccess::kWrite).ok());
}

TEST_P(FileRootsTest, WaitsForNoPipe) {
  ASSERT_EQ(mkfifo((root_ + "/pipe").c_str(), 0644), 0);
  const UniqueFd fd = roots_.OpenFile(root_ + "/pipe", O_RDONLY);
  ASSERT_TRUE(fd.is_open());
  struct stat info = {};
  ASSERT_EQ(fstat(fd.get(), &info), 0);
  EXPECT_TRUE(S_ISFIFO(info.st_mode));
}

TEST_P(FileRootsTest, WritesBeneathARoot) {
  const std::string made = root_ + "/made";
  EXPECT_EQ(roots_.MakeDirectory(made + "/", 0755), 0);
  const UniqueFd fd = roots_.OpenFile(made + "/new", O_WRONLY | O_CREAT, 0640);
  ASSERT_TRUE(fd.is_open()) << std::strerror(errno);
  struct stat info = {};
  EXPECT_EQ(roots_.Stat(made + "/new", info), 0);
  EXPECT_EQ(info.st_mode & 07777, mode_t{0640});
  EXPECT_EQ(roots_.Rename(made + "/new", made + "/renamed"), 0);
  EXPECT_EQ(roots_.Link(made + "/renamed", made + "/linked"), 0);
  EXPECT_EQ(roots_.Symlink("linked", made + "/soft"), 0);
  EXPECT_EQ(roots_.ReadLink(made + "/soft"), "linked");
  EXPECT_EQ(roots_.StatLink(made + "/soft", info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
  EXPECT_EQ(roots_.StatLink(root_, info), 0);
  std::vector<std::string> names = *roots_.List(made);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"linked", "renamed", "soft"}));
  EXPECT_EQ(roots_.Unlink(made + "/soft"), 0);
  EXPECT_EQ(roots_.Rename(made, root_ + "/dir", RENAME_EXCHANGE), 0);
  EXPECT_TRUE(fs::exists(root_ + "/dir/renamed"));
  EXPECT_EQ(roots_.RemoveTree(root_ + "/dir"), 0);
  EXPECT_EQ(roots_.RemoveTree(root_ + "/dir"), 0);
  EXPECT_FALSE(fs::exists(root_ + "/dir"));
}

TEST_P(FileRootsTest, MakesTheDirectoriesAbove) {
  EXPECT_EQ(roots_.MakeDirectories(root_ + "/a/b/c/", 0755), 0);
  EXPECT_EQ(roots_.MakeDirectories(root_ + "/a/b/d", 0755), 0);
  EXPECT_EQ(roots_.MakeDirectories(root_ + "/a/b/d", 0755), 0);
  EXPECT_TRUE(fs::is_directory(root_ + "/a/b/c"));
  EXPECT_TRUE(fs::is_directory(root_ + "/a/b/d"));
  EXPECT_EQ(roots_.MakeDirectories(root_ + "/file", 0755), -1);
  EXPECT_EQ(errno, ENOTDIR);
  for (const std::string& path :
       {base_ + "/a/b", root_ + "/../a/b", base_ + "/read/a/b"}) {
    EXPECT_EQ(roots_.MakeDirectories(path, 0755), -1) << path;
    EXPECT_EQ(errno, EXDEV) << path;
  }
}

TEST_P(FileRootsTest, RemovesNothingOverALink) {
  MakeLink("../outside", "dir/outer");
  EXPECT_EQ(roots_.RemoveTree(root_ + "/dir"), 0);
  EXPECT_FALSE(fs::exists(root_ + "/dir"));
  EXPECT_TRUE(fs::exists(base_ + "/outside/key"));
}

// A root to read is none to write; one to write may also be read.
TEST_P(FileRootsTest, ReadingIsNotWriting) {
  EXPECT_EQ(ReadError(base_ + "/read/file"), 0);
  for (const int flags : {O_WRONLY, O_RDWR, O_RDONLY | O_CREAT,
                          O_RDONLY | O_TRUNC, O_WRONLY | O_APPEND}) {
    EXPECT_FALSE(roots_.OpenFile(base_ + "/read/file", flags, 0644).is_open());
    EXPECT_EQ(errno, EXDEV) << flags;
  }
  EXPECT_EQ(
      roots_.Check(base_ + "/read/dir/new", FileAccess::kWrite).message(),
      absl::StrCat(base_,
                   "/read/dir/new is not beneath a directory that "
                   "this process may write: start it with --allow_write=",
                   base_, "/read/dir/new (it has --allow_write=", root_, ")"));
}

TEST_P(FileRootsTest, ALinkSwappedInMeanwhileLeadsNowhere) {
  MakeLink("../outside", "swapped-link");
  fs::create_directory(root_ + "/swapped-dir");
  std::ofstream(root_ + "/swapped-dir/key") << "mine";
  fs::create_directory_symlink("swapped-dir", root_ + "/swapped");
  std::atomic<bool> is_over = false;
  std::thread swapper([&] {
    const std::string name = root_ + "/swapped";
    while (!is_over) {
      for (const char* const with : {"/swapped-link", "/swapped-dir"}) {
        (void)renameat2(AT_FDCWD, name.c_str(), AT_FDCWD,
                        (root_ + with).c_str(), RENAME_EXCHANGE);
      }
    }
  });
  int opened = 0;
  for (int i = 0; i < 4000; ++i) {
    const UniqueFd fd = roots_.OpenFile(root_ + "/swapped/key", O_RDONLY);
    if (!fd.is_open()) continue;
    ++opened;
    ASSERT_EQ(ReadAll(fd), "mine");
  }
  is_over = true;
  swapper.join();
  EXPECT_GT(opened, 0);
}

TEST_P(FileRootsTest, AFileThatBecomesALinkIsNotFollowed) {
  MakeLink("../secret", "bad");
  std::ofstream(root_ + "/good") << "mine";
  std::atomic<bool> is_over = false;
  std::thread swapper([&] {
    while (!is_over) {
      (void)renameat2(AT_FDCWD, (root_ + "/good").c_str(), AT_FDCWD,
                      (root_ + "/bad").c_str(), RENAME_EXCHANGE);
    }
  });
  for (int i = 0; i < 4000; ++i) {
    const UniqueFd fd = roots_.OpenFile(root_ + "/good", O_RDONLY);
    if (!fd.is_open()) continue;
    ASSERT_EQ(ReadAll(fd), "mine");
  }
  is_over = true;
  swapper.join();
}

// As when a file system is mounted there after the start.
TEST_P(FileRootsTest, ARootIsTheDirectoryThatIsThereNow) {
  fs::rename(root_, base_ + "/moved");
  EXPECT_EQ(ReadError(root_ + "/file"), ENOENT);
  EXPECT_TRUE(roots_.Check(root_ + "/file", FileAccess::kRead).ok());
  EXPECT_EQ(roots_.MakeDirectories(root_ + "/a/b", 0755), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(roots_.MakeDirectory(root_ + "/a", 0755), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE(fs::exists(root_));
  // Its old directory, under another name, is not beneath it.
  EXPECT_EQ(ReadError(base_ + "/moved/file"), EXDEV);
  fs::create_directory(root_);
  EXPECT_EQ(ReadError(root_ + "/file"), ENOENT);
  EXPECT_EQ(roots_.MakeDirectories(root_ + "/a/b", 0755), 0);
  EXPECT_TRUE(
      roots_.OpenFile(root_ + "/a/new", O_WRONLY | O_CREAT, 0644).is_open());
  EXPECT_TRUE(fs::exists(root_ + "/a/b"));
  EXPECT_TRUE(fs::exists(root_ + "/a/new"));
  EXPECT_FALSE(fs::exists(base_ + "/moved/a"));
}

TEST_P(FileRootsTest, ARootMayBeNamedOverALink) {
  fs::create_symlink("outside", base_ + "/alias");
  Reopen({base_ + "/alias"});
  EXPECT_EQ(ReadError(base_ + "/alias/key"), 0);
  // By its own name too.
  EXPECT_EQ(ReadError(base_ + "/outside/key"), 0);
  EXPECT_EQ(ReadError(base_ + "/alias/../secret"), EXDEV);
  const std::string real = fs::canonical(base_ + "/outside/key").string();
  EXPECT_EQ(roots_.Canonical(base_ + "/alias/key"), real);
  EXPECT_EQ(ReadError(real), 0);
  EXPECT_EQ(roots_.Canonical(base_ + "/secret"), base_ + "/secret");
}

TEST_P(FileRootsTest, OneValueMayNameSeveral) {
  Reopen({base_ + "/outside:" + base_ + "/rootless"});
  EXPECT_EQ(ReadError(base_ + "/outside/key"), 0);
  EXPECT_EQ(ReadError(base_ + "/rootless/file"), 0);
  EXPECT_EQ(ReadError(base_ + "/secret"), EXDEV);
}

TEST_P(FileRootsTest, OneRootMayBeInAnother) {
  Reopen({base_ + "/root/dir/deep", base_});
  EXPECT_EQ(ReadError(base_ + "/root/dir/deep/../../../secret"), 0);
  EXPECT_EQ(ReadError(base_ + "/secret"), 0);
  EXPECT_EQ(ReadError(base_ + "/../x"), EXDEV);
}

TEST_P(FileRootsTest, UnderSlashNothingIsRefused) {
  MakeLink(base_ + "/secret", "absolute");
  for (const char* const slash : {"/", "//", "/./", "/.."}) {
    const FileRoots roots =
        FileRoots::Open({.read = {slash}}, GetParam()).value();
    for (const std::string& path :
         {root_ + "/absolute", base_ + "/secret", root_ + "/../secret",
          "/proc/self/root" + base_ + "/secret"})
      EXPECT_TRUE(roots.OpenFile(path, O_RDONLY).is_open()) << path;
    EXPECT_FALSE(
        roots.OpenFile(base_ + "/new", O_WRONLY | O_CREAT, 0644).is_open());
    EXPECT_EQ(errno, EXDEV);
    EXPECT_EQ(roots.MakeDirectory(base_ + "/new", 0755), -1);
  }
  const FileRoots all = FileRoots::Open({.write = {"/"}}, GetParam()).value();
  EXPECT_TRUE(all.OpenFile(base_ + "/new", O_WRONLY | O_CREAT, 0644).is_open());
  EXPECT_TRUE(all.OpenFile(root_ + "/absolute", O_RDONLY).is_open());
}

// Links of /proc lead to what they stand for, wherever that is.
TEST_P(FileRootsTest, RefusesMagicLinksBeneathProc) {
  const UniqueFd secret(open((base_ + "/secret").c_str(), O_RDONLY));
  const std::string self = absl::StrCat("/proc/", getpid());
  const FileRoots roots = FileRoots::Open({.read = {self}}, GetParam()).value();
  EXPECT_TRUE(roots.OpenFile(self + "/status", O_RDONLY).is_open());
  for (const std::string& path :
       {self + "/root/etc/passwd", self + "/cwd", self + "/exe",
        absl::StrCat(self, "/fd/", secret.get())}) {
    EXPECT_FALSE(roots.OpenFile(path, O_RDONLY).is_open()) << path;
    EXPECT_EQ(errno, EXDEV) << path;
  }
}

TEST_P(FileRootsTest, RelativePathsBeginWhereTheProcessDid) {
  const std::string before = fs::current_path();
  fs::current_path(root_);
  Reopen({"dir"});
  fs::current_path(before);
  EXPECT_EQ(ReadError("file"), 0);
  EXPECT_EQ(ReadError("./dir/deep/file"), 0);
  EXPECT_EQ(ReadError("../secret"), EXDEV);
}

TEST_P(FileRootsTest, WithoutRootsNothingIsOpened) {
  const FileRoots none = FileRoots::Open({}, GetParam()).value();
  EXPECT_EQ(none.OpenFile(root_ + "/file", O_RDONLY).get(), -1);
  EXPECT_EQ(errno, EXDEV);
  EXPECT_EQ(none.Check(root_ + "/file", FileAccess::kRead).message(),
            absl::StrCat(root_,
                         "/file is not beneath a directory that this "
                         "process may read: start it with --allow_read=",
                         root_, " (it has no --allow_read)"));
}

TEST_P(FileRootsTest, ARefusalNamesADirectoryToAllowAndTellsNothing) {
  const std::string before = fs::current_path();
  fs::current_path(base_ + "/outside");
  Reopen();
  const auto named = [&](const std::string& path, FileAccess access) {
    const std::string text(roots_.Refusal(path, access).message());
    const std::string behind = text.substr(text.find(": start it with ") + 16);
    return behind.substr(0, behind.find(" ("));
  };
  const std::string here = fs::current_path();
  fs::current_path(before);
  const auto read = [&](const std::string& path) {
    return named(path, FileAccess::kRead);
  };
  EXPECT_EQ(read(base_ + "/secret"), "--allow_read=" + base_);
  EXPECT_EQ(read(base_ + "/outside"), "--allow_read=" + base_);
  EXPECT_EQ(read(base_ + "/outside/"), "--allow_read=" + base_ + "/outside/");
  EXPECT_EQ(read(base_ + "/none"), "--allow_read=" + base_);
  EXPECT_EQ(read("key"), "--allow_read=" + here);
  EXPECT_EQ(read("dir"), "--allow_read=" + here);
  EXPECT_EQ(read("/none"), "--allow_read=/none");
  EXPECT_EQ(read("/tmp/../none"), "--allow_read=/tmp/../none");
  EXPECT_EQ(read("//none"), "--allow_read=//none");
  for (const char* const path : {"/", "//", "/.", "/..", "/tmp/.."}) {
    EXPECT_EQ(read(path), "--allow_read=DIR") << path;
    EXPECT_EQ(named(path, FileAccess::kWrite), "--allow_write=DIR") << path;
  }
  EXPECT_EQ(named("new", FileAccess::kWrite), "--allow_write=" + here + "/new");
}

TEST_P(FileRootsTest, TellsLinksToDirectoriesFromOthers) {
  MakeLink(base_ + "/outside", "directory");
  MakeLink(base_ + "/none", "nothing");
  MakeLink("../../none/x", "nothing_above");
  MakeLink(base_ + "/secret", "secret");
  for (const char* const name : {"/directory", "/nothing", "/nothing_above"})
    EXPECT_TRUE(roots_.LeadsToNoFile(root_ + name)) << name;
  EXPECT_FALSE(roots_.LeadsToNoFile(root_ + "/secret"));
  EXPECT_FALSE(roots_.LeadsToNoFile(base_ + "/outside"));
  EXPECT_FALSE(roots_.LeadsToNoFile(root_ + "/directory/key"));
}

TEST_P(FileRootsTest, ARootMustBeADirectory) {
  const auto error = [&](const FileRoots::Directories& directories) {
    return std::string(
        FileRoots::Open(directories, GetParam()).status().message());
  };
  EXPECT_EQ(
      error({.read = {base_ + "/none"}}),
      absl::StrCat("--allow_read=", base_, "/none: No such file or directory"));
  EXPECT_EQ(error({.write = {base_ + "/secret"}}),
            absl::StrCat("--allow_write=", base_, "/secret: Not a directory"));
  EXPECT_EQ(error({.read = {""}}), "--allow_read=: names no directory");
  EXPECT_EQ(error({.read = {base_ + ":"}}),
            "--allow_read=: names no directory");
}

}  // namespace
}  // namespace ringmaster
