#include "server/coordinator/page/history_file.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock/testing/fake_clock.h"
#include "common/sync/mutex.h"
#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

// Curves that have something new whenever the test says so.
class HistoryFileTest : public ::testing::Test {
 protected:
  HistoryFileTest() { std::filesystem::create_directory(directory_); }
  ~HistoryFileTest() override { std::filesystem::remove_all(directory_); }

  void Offer(const std::string& job) {
    MutexLock lock(mutex_);
    offered_.emplace().add_jobs()->set_job_id(job);
  }

  // Lets the writer take its next turn, and waits for the end of it.
  void Turn() {
    clock_.AwaitWaiters(1);
    clock_.Advance(kHistoryInterval);
    clock_.AwaitWaiters(1);
  }

  std::unique_ptr<HistoryWriter> NewWriter() {
    return std::make_unique<HistoryWriter>(path_, clock_, [this] {
      MutexLock lock(mutex_);
      return std::exchange(offered_, std::nullopt);
    });
  }

  std::string JobOnDisk() const {
    const v1::PageHistory history = ReadHistoryFile(path_);
    return history.jobs_size() == 0 ? "" : history.jobs(0).job_id();
  }

  const std::string directory_ = absl::StrCat(
      std::getenv("TEST_TMPDIR"), "/",
      ::testing::UnitTest::GetInstance()->current_test_info()->name());
  const std::string path_ = directory_ + "/" + kHistoryFile;
  FakeClock clock_;
  Mutex mutex_;
  std::optional<v1::PageHistory> offered_ GUARDED_BY(mutex_);
};

TEST_F(HistoryFileTest, IsWrittenWhileItRunsAndAtTheEnd) {
  EXPECT_EQ(JobOnDisk(), "");
  auto writer = NewWriter();
  Offer("a-1");
  Turn();
  EXPECT_EQ(JobOnDisk(), "a-1");
  Offer("b-2");
  writer.reset();
  EXPECT_EQ(JobOnDisk(), "b-2");
  EXPECT_FALSE(std::filesystem::exists(path_ + ".part"));
}

TEST_F(HistoryFileTest, IsNotTouchedWithoutNews) {
  auto writer = NewWriter();
  Turn();
  writer.reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(HistoryFileTest, OneThatDoesNotReadIsNothing) {
  std::ofstream(path_) << "no such thing";
  EXPECT_EQ(JobOnDisk(), "");
}

TEST_F(HistoryFileTest, AFaultOfTheDiskIsOverOnceItWorksAgain) {
  std::filesystem::remove_all(directory_);
  auto writer = NewWriter();
  Offer("a-1");
  Turn();
  EXPECT_FALSE(std::filesystem::exists(path_));
  std::filesystem::create_directory(directory_);
  Offer("a-1");
  Turn();
  EXPECT_EQ(JobOnDisk(), "a-1");
}

}  // namespace
}  // namespace ringmaster::coordinator
