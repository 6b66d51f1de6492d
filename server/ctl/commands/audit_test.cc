#include "server/ctl/commands/audit.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/protocol/proto_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/ctl/client/testing/fake_coordinator.h"
#include "server/ctl/commands/testing/ctl_test.h"

namespace ringmaster::ctl {
namespace {

v1::AuditEntry Entry(const std::string& name, const std::string& action,
                     const std::string& object, const std::string& detail) {
  v1::AuditEntry entry;
  *entry.mutable_time() = ToProto(absl::FromUnixSeconds(1'767'355'200));
  entry.mutable_caller()->set_name(name);
  if (!name.empty()) entry.mutable_caller()->set_roles("submitter");
  entry.mutable_caller()->set_address("10.0.0.7");
  entry.set_action(action);
  entry.set_object(object);
  entry.set_detail(detail);
  return entry;
}

class AuditTest : public ::testing::Test {
 protected:
  AuditTest() {
    v1::ListAuditResponse audit;
    *audit.add_entries() = Entry("alice", "cancel", "mlp-2", "wrong \x1b[2J");
    *audit.add_entries() = Entry("alice", "submit", "mlp-2", "");
    audit.mutable_entries()->rbegin()->set_request_id("r-1");
    *audit.add_entries() = Entry("", "submit", "mlp-1", "");
    fake_.SetAudit(audit);
  }

  Outcome Run(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"--coordinator", fake_.address(), "audit"});
    return RunCtl(more);
  }

  FakeCoordinator fake_;
};

TEST_F(AuditTest, ShowsWhoChangedWhat) {
  const Outcome outcome = Run();
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  // What others wrote cannot move the cursor.
  const std::string time = "2026-01-02T12:00:00.000+00:00";
  EXPECT_EQ(
      outcome.out,
      absl::StrCat(
          "TIME                           CALLER             FROM      "
          "CHANGE        DETAIL\n",
          time, "  alice (submitter)  10.0.0.7  cancel mlp-2  wrong ?[2J\n",
          time, "  alice (submitter)  10.0.0.7  submit mlp-2  r-1\n", time,
          "  -                  10.0.0.7  submit mlp-1\n"));
}

TEST_F(AuditTest, GoesThroughThePagesAsFarAsAsked) {
  for (const auto& [asked, shown] : {std::pair(0, 3), {1, 1}, {3, 3}, {9, 3}}) {
    const Outcome outcome = Run({"-n", absl::StrCat(asked), "-o", "json"});
    EXPECT_EQ(nlohmann::json::parse(outcome.out)["entries"].size(), shown)
        << asked;
  }
}

TEST_F(AuditTest, SaysThatThereIsNone) {
  fake_.SetAudit({});
  EXPECT_EQ(Run().out, "no changes yet\n");
}

}  // namespace
}  // namespace ringmaster::ctl
