#include "server/coordinator/rpc/metrics.h"

#include <filesystem>
#include <future>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/metrics/metric_page.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/rpc/runtime.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class RuntimeMetricsTest : public ::testing::Test {
 protected:
  RuntimeMetricsTest() {
    absl::StatusOr<std::unique_ptr<CoordinatorRuntime>> runtime =
        CoordinatorRuntime::Start({.state_dir = state_dir_, .version = "test"});
    EXPECT_TRUE(runtime.ok()) << runtime.status();
    runtime_ = *std::move(runtime);
  }
  ~RuntimeMetricsTest() override {
    runtime_.reset();
    std::filesystem::remove_all(state_dir_);
  }

  std::string Scrape(absl::Duration patience) {
    MetricPage page;
    RuntimeMetrics(*runtime_, patience).AddTo(page);
    return page.Text();
  }

  const std::string state_dir_ = ::testing::TempDir() + "/state";
  std::unique_ptr<CoordinatorRuntime> runtime_;
};

TEST_F(RuntimeMetricsTest, TellTheStatus) {
  const std::string text = Scrape(absl::Seconds(40));
  EXPECT_THAT(text, HasSubstr("\nringmaster_coordinator_up 1\n"));
  EXPECT_THAT(text, HasSubstr("\nringmaster_coordinator_journal_ok 1\n"));
  EXPECT_THAT(text, HasSubstr("\nringmaster_lost_steps_total 0\n"));
}

TEST_F(RuntimeMetricsTest, SayThatItDoesNotAnswer) {
  std::promise<void> go_on;
  std::future<void> held = go_on.get_future();
  ASSERT_TRUE(
      runtime_->Ask([&held](const CoordinatorView&) { held.wait(); }).ok());
  const std::string text = Scrape(absl::Milliseconds(10));
  go_on.set_value();
  EXPECT_THAT(text, HasSubstr("\nringmaster_coordinator_up 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("ringmaster_workers")));
  EXPECT_THAT(text, HasSubstr("\nringmaster_lost_steps_total 0\n"));
  EXPECT_THAT(Scrape(absl::Seconds(40)),
              HasSubstr("\nringmaster_coordinator_up 1\n"));
}

}  // namespace
}  // namespace ringmaster::coordinator
