#include "server/coordinator/journal/state_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/fail_point/fail_point.h"
#include "common/status/exit_code.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::HasSubstr;

std::string Fresh(const std::string& name) {
  std::string path = ::testing::TempDir() + "/XXXXXX";
  return std::string(mkdtemp(path.data())) + "/" + name;
}

TEST(StateDirectoryTest, CreatesMissingParents) {
  const std::string path = Fresh("a/b/c");
  const absl::StatusOr<StateDirectory> directory =
      StateDirectory::Acquire(path);
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_EQ(access(path.c_str(), W_OK), 0);
  EXPECT_EQ(directory->File("x"), path + "/x");
}

TEST(StateDirectoryTest, NewDirectoryIsSyncedIntoItsParent) {
  const std::string path = Fresh("a/b");
  FailPoint::Arm("journal.sync_directory", FailPoint::Action::kError, 2);
  EXPECT_EQ(StateDirectory::Acquire(path).status().code(),
            absl::StatusCode::kUnavailable);
  // Twice, for a and b; the directory that is there needs none.
  EXPECT_EQ(FailPoint::PassCount("journal.sync_directory"), 2);
  EXPECT_TRUE(StateDirectory::Acquire(path).ok());
  FailPoint::DisarmAll();
}

TEST(StateDirectoryTest, SecondHolderIsToldTheFirst) {
  const std::string path = Fresh("d");
  const absl::StatusOr<StateDirectory> first = StateDirectory::Acquire(path);
  ASSERT_TRUE(first.ok());
  const absl::Status status = StateDirectory::Acquire(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  EXPECT_EQ(status.message(),
            absl::StrCat("state directory ", path, " is in use by pid ",
                         getpid(), " on host ", host));
}

TEST(StateDirectoryTest, IsFreeAgainAfterItsHolder) {
  const std::string path = Fresh("d");
  {
    const absl::StatusOr<StateDirectory> first = StateDirectory::Acquire(path);
    ASSERT_TRUE(first.ok());
  }
  EXPECT_TRUE(StateDirectory::Acquire(path).ok());
}

TEST(StateDirectoryTest, IsFreeAgainAfterItsHolderWasKilled) {
  const std::string path = Fresh("d");
  const pid_t child = fork();
  if (child == 0) {
    const absl::StatusOr<StateDirectory> held = StateDirectory::Acquire(path);
    kill(getpid(), SIGKILL);
  }
  int wait_status = 0;
  ASSERT_EQ(waitpid(child, &wait_status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(wait_status));
  EXPECT_TRUE(StateDirectory::Acquire(path).ok());
}

TEST(StateDirectoryTest, EmptyPathIsAUsageError) {
  const absl::Status status = StateDirectory::Acquire("").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
}

TEST(StateDirectoryTest, FileInThePlaceOfADirectoryIsNamed) {
  const std::string path = Fresh("file");
  std::ofstream(path) << "x";
  const absl::Status status = StateDirectory::Acquire(path + "/sub").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("--state_dir=" + path +
                        "/sub cannot be created: Not "
                        "a directory"));
}

TEST(StateDirectoryTest, DirectoryOfAnotherUserIsAUsageError) {
  const std::string parent = Fresh("private");
  ASSERT_EQ(mkdir(parent.c_str(), 0500), 0);
  // Root may write anywhere, so the child becomes nobody, where it can.
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && seteuid(kNobody) != 0) _exit(2);
    const absl::Status status = StateDirectory::Acquire(parent).status();
    const bool is_expected =
        status.code() == absl::StatusCode::kPermissionDenied &&
        ExitCodeOf(status) == ExitCode::kUsage;
    _exit(is_expected ? 0 : 1);
  }
  int wait_status = 0;
  ASSERT_EQ(waitpid(child, &wait_status, 0), child);
  EXPECT_EQ(WEXITSTATUS(wait_status), 0);
}

}  // namespace
}  // namespace ringmaster::coordinator
