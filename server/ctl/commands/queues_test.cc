#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/ctl/client/testing/fake_coordinator.h"
#include "server/ctl/commands/testing/ctl_test.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;

class QueuesTest : public ::testing::Test {
 protected:
  Outcome Run(std::vector<std::string> words) {
    words.insert(words.begin(), {"--coordinator", fake_.address()});
    return RunCtl(words);
  }

  FakeCoordinator fake_;
};

TEST_F(QueuesTest, SaysThatThereAreNone) {
  const Outcome outcome = Run({"queues"});
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_THAT(outcome.out, HasSubstr("no queues are defined"));
}

TEST_F(QueuesTest, AppliesAFileAndShowsWhoHasWhat) {
  const std::string path = std::string(testing::TempDir()) + "/queues.yaml";
  std::ofstream(path) << "queues:\n"
                         "  - {name: research, workers: 8, most_workers: 16, "
                         "gpus: 4, submitters: [alice, bob]}\n"
                         "  - {name: product, workers: 4, weight: 2.5}\n";
  const Outcome outcome = Run({"queues", "--apply=" + path});
  EXPECT_EQ(outcome.code, 0) << outcome.error;
  EXPECT_EQ(
      outcome.out,
      "QUEUE     QUOTA  MOST  WORKERS  GPUS  NEEDED  BORROWED  RUN  WAIT  "
      "WEIGHT  USED  SUBMITTERS\n"
      "research      8    16        0   0/4       0         0    0     0  "
      "     1     -  alice, bob\n"
      "product       4     -        0     0       0         0    0     0  "
      "   2.5     -  all\n");
  const auto shown = nlohmann::json::parse(Run({"queues", "-o", "json"}).out);
  ASSERT_EQ(shown["queues"].size(), 2u);
  EXPECT_EQ(shown["queues"][0]["spec"]["most_workers"], 16);
  EXPECT_EQ(shown["queues"][0]["spec"]["gpus"], 4);
}

TEST_F(QueuesTest, AFileThatIsWrongChangesNothing) {
  const std::string path = std::string(testing::TempDir()) + "/wrong.yaml";
  std::ofstream(path) << "queues:\n  - {name: a, worker: 8}\n";
  const Outcome outcome = Run({"queues", "--apply=" + path});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.error,
              HasSubstr("wrong.yaml:2: unknown field \"queues[0].worker\""));
  EXPECT_EQ(Run({"queues", "--apply=/none.yaml"}).code, 2);
  EXPECT_THAT(Run({"queues"}).out, HasSubstr("no queues are defined"));
}

}  // namespace
}  // namespace ringmaster::ctl
