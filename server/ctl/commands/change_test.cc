// `ringctl priority`, `scale`, `move`, `suspend` and `resume`.
#include <string>
#include <utility>
#include <vector>

#include "common/status/exit_code.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/ctl/client/testing/fake_coordinator.h"
#include "server/ctl/commands/testing/ctl_test.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;

class ChangeTest : public ::testing::Test {
 protected:
  ChangeTest() {
    v1::Job job;
    job.set_id("mlp-1");
    job.set_state(v1::JOB_STATE_QUEUED);
    fake_.SetJob(job);
  }

  Outcome Run(std::vector<std::string> words) {
    words.insert(words.begin(), {"--coordinator", fake_.address()});
    return RunCtl(words);
  }

  FakeCoordinator fake_;
};

TEST_F(ChangeTest, PrioritiesMayBeNegative) {
  const Outcome lower = Run({"priority", "mlp", "-5", "--reason=not urgent"});
  EXPECT_EQ(lower.code, 0) << lower.error;
  EXPECT_EQ(lower.out, "job mlp-1 is QUEUED\n");
  const Outcome shown = Run({"job", "mlp", "-o", "json"});
  EXPECT_EQ(nlohmann::json::parse(shown.out)["priority"], -5);
  EXPECT_THAT(Run({"job", "mlp"}).out, HasSubstr("priority -5"));
}

TEST_F(ChangeTest, SuspendsAndResumes) {
  EXPECT_EQ(Run({"suspend", "mlp"}).out, "job mlp-1 is SUSPENDED\n");
  const Outcome resumed = Run({"resume", "mlp", "-o", "json"});
  EXPECT_EQ(resumed.code, 0) << resumed.error;
  EXPECT_EQ(nlohmann::json::parse(resumed.out)["suspended"], false);
}

TEST_F(ChangeTest, ScalesToARangeOrANumber) {
  const auto workers = [&](const char* text) {
    const Outcome scaled = Run({"scale", "mlp", text, "-o", "json"});
    EXPECT_EQ(scaled.code, 0) << scaled.error;
    const auto shown = nlohmann::json::parse(scaled.out)["spec"]["workers"];
    return std::pair<int, int>(shown["min"], shown["max"]);
  };
  EXPECT_EQ(workers("2..8"), std::pair(2, 8));
  EXPECT_EQ(workers("4"), std::pair(4, 4));
  for (const char* wrong : {"many", "2..", "..8", "2...8", "2-8", "2..8..9"}) {
    const Outcome refused = Run({"scale", "mlp", wrong});
    EXPECT_EQ(refused.code, static_cast<int>(ExitCode::kUsage)) << wrong;
    EXPECT_THAT(refused.error, HasSubstr("WORKERS must be a number, as 4, or "
                                         "the fewest and the most, as 2..8"));
  }
}

TEST_F(ChangeTest, MovesToAQueue) {
  const Outcome moved = Run({"move", "mlp", "research", "-o", "json"});
  EXPECT_EQ(moved.code, 0) << moved.error;
  EXPECT_EQ(nlohmann::json::parse(moved.out)["queue"], "research");
  EXPECT_THAT(Run({"move", "mlp"}).error, HasSubstr("QUEUE"));
}

TEST_F(ChangeTest, APriorityIsANumber) {
  const Outcome wrong = Run({"priority", "mlp", "high"});
  EXPECT_EQ(wrong.code, static_cast<int>(ExitCode::kUsage));
  EXPECT_THAT(wrong.error,
              HasSubstr("PRIORITY must be a whole number, got \"high\""));
  EXPECT_THAT(Run({"priority", "mlp"}).error,
              HasSubstr("no PRIORITY; usage: ringctl priority JOB PRIORITY; "));
}

}  // namespace
}  // namespace ringmaster::ctl
