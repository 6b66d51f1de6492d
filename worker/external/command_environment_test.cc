#include "worker/external/command_environment.h"

#include <string>
#include <string_view>
#include <vector>

#include "common/job/rank_variables.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::StartsWith;

// The value of `name` among entries NAME=VALUE; "" if it is not there.
std::string ValueOf(const std::vector<std::string>& environment,
                    std::string_view name) {
  const std::string prefix = std::string(name) + "=";
  for (const std::string& entry : environment)
    if (entry.starts_with(prefix)) return entry.substr(prefix.size());
  return "";
}

CommandPlace Place() {
  return {.rank = 5,
          .world_size = 8,
          .local_rank = 1,
          .local_world_size = 4,
          .host_index = 1,
          .host_count = 2,
          .master_address = "10.0.0.1",
          .master_port = 4711,
          .restart_count = 2,
          .max_restarts = 3,
          .run_id = "words-7",
          .threads = 4};
}

TEST(CommandEnvironmentTest, IsTorchrunsContract) {
  const auto environment = CommandEnvironment({}, {}, Place());
  for (const char* entry :
       {"RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4",
        "GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "ROLE_NAME=default",
        "ROLE_RANK=5", "ROLE_WORLD_SIZE=8", "MASTER_ADDR=10.0.0.1",
        "MASTER_PORT=4711", "TORCHELASTIC_RESTART_COUNT=2",
        "TORCHELASTIC_MAX_RESTARTS=3", "TORCHELASTIC_RUN_ID=words-7",
        "OMP_NUM_THREADS=4", "PYTHONUNBUFFERED=1"}) {
    EXPECT_THAT(environment, Contains(entry));
  }
  for (const std::string_view name : kRankVariables)
    EXPECT_NE(ValueOf(environment, name), "") << name;
  EXPECT_EQ(environment.size(), kRankVariables.size() + 2);
}

TEST(CommandEnvironmentTest, TheJobsVariablesComeBeforeTheWorkers) {
  const auto environment =
      CommandEnvironment({"HOME=/root", "A=worker", "B=worker",
                          "OMP_NUM_THREADS=7", "no-value", "=odd"},
                         {{"B", "job"}, {"PYTHONUNBUFFERED", ""}}, Place());
  EXPECT_THAT(environment, Contains("HOME=/root"));
  EXPECT_THAT(environment, Contains("A=worker"));
  EXPECT_THAT(environment, Contains("B=job"));
  EXPECT_THAT(environment, Not(Contains("B=worker")));
  EXPECT_THAT(environment, Contains("OMP_NUM_THREADS=7"));
  EXPECT_THAT(environment, Contains("PYTHONUNBUFFERED="));
}

TEST(CommandEnvironmentTest, PassesTheRangeOfPortsOn) {
  CommandPlace place = Place();
  EXPECT_EQ(ValueOf(CommandEnvironment({}, {}, place), "RINGMASTER_DATA_PORTS"),
            "");
  place.port_range = PortRange{29500, 29599};
  EXPECT_EQ(ValueOf(CommandEnvironment({}, {}, place), "RINGMASTER_DATA_PORTS"),
            "29500-29599");
}

TEST(CommandEnvironmentTest, TellsANewcomerOfItsGroupAlone) {
  CommandPlace place = Place();
  const std::vector<std::string> inherited = {"RINGMASTER_GROUP=another"};
  EXPECT_EQ(
      ValueOf(CommandEnvironment(inherited, {}, place), "RINGMASTER_GROUP"),
      "");
  place.group = "id;secret";
  EXPECT_EQ(
      ValueOf(CommandEnvironment(inherited, {}, place), "RINGMASTER_GROUP"),
      "id;secret");
}

TEST(CommandEnvironmentTest, PutsItsModulesBeforeThoseOfOthers) {
  CommandPlace place = Place();
  EXPECT_EQ(ValueOf(CommandEnvironment({}, {}, place), "PYTHONPATH"), "");
  place.python_path = "/opt/python";
  EXPECT_EQ(ValueOf(CommandEnvironment({}, {}, place), "PYTHONPATH"),
            "/opt/python");
  EXPECT_EQ(ValueOf(CommandEnvironment({"PYTHONPATH=/a"},
                                       {{"PYTHONPATH", "/b:/c"}}, place),
                    "PYTHONPATH"),
            "/opt/python:/b:/c");
}

TEST(CommandEnvironmentTest, KeepsWhatIsTheWorkersAlone) {
  const auto environment = CommandEnvironment(
      {"RINGMASTER_PREDECESSOR=1:0:9", "NOTIFY_SOCKET=/run/x", "RANK=99"}, {},
      Place());
  EXPECT_THAT(environment, Not(Contains(StartsWith("RINGMASTER_"))));
  EXPECT_THAT(environment, Not(Contains(StartsWith("NOTIFY_SOCKET"))));
  EXPECT_THAT(environment, Contains("RANK=5"));
  EXPECT_THAT(environment, Not(Contains("RANK=99")));
}

}  // namespace
}  // namespace ringmaster
