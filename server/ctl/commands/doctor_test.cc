#include "server/ctl/commands/doctor.h"

#include <grpcpp/security/credentials.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/config/version.h"
#include "common/protocol/proto_time.h"
#include "common/status/exit_code.h"
#include "common/transport/tcp.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/ctl/client/testing/fake_coordinator.h"
#include "server/ctl/terminal/interrupts.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Before main, and so before any thread.
const bool kIsBlocked = [] {
  Interrupts::Block();
  return true;
}();

struct Outcome {
  absl::StatusOr<int> code;
  std::string out;
};

Outcome Diagnose(const DoctorFlags& flags, const std::string& coordinator = "",
                 OutputFormat format = OutputFormat::kTable) {
  EXPECT_TRUE(kIsBlocked);
  FakeConsole console;
  const absl::StatusOr<int> code =
      RunDoctor({.console = console,
                 .clock = Clock::Real(),
                 .format = format,
                 .timeout = absl::Seconds(20),
                 .coordinator = coordinator,
                 .is_encrypted = false,
                 .connect = [&]() -> absl::StatusOr<std::unique_ptr<Client>> {
                   return std::make_unique<Client>(ClientOptions{
                       .address = coordinator,
                       .credentials = grpc::InsecureChannelCredentials(),
                       .timeout = absl::Seconds(20)});
                 }},
                flags);
  return {code, console.out};
}

nlohmann::json FindingOf(const Outcome& outcome, const std::string& check) {
  const nlohmann::json document = nlohmann::json::parse(outcome.out);
  for (const nlohmann::json& finding : document["findings"]) {
    if (finding["check"] == check) return finding;
  }
  ADD_FAILURE() << "nothing on " << check << " in " << outcome.out;
  return nlohmann::json::object();
}

TEST(DoctorTest, LooksAtThisMachineAloneAndSaysSo) {
  const Outcome outcome = Diagnose({});
  ASSERT_TRUE(outcome.code.ok());
  for (const char* check :
       {"worker", "cores", "memory", "open files", "shared memory", "/dev/shm",
        "CUDA", "interfaces", "host name", "clock source",
        "this machine alone was looked at"}) {
    EXPECT_THAT(outcome.out, HasSubstr(check));
  }
  EXPECT_THAT(outcome.out, Not(HasSubstr("round trip")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("\x1b")));
}

TEST(DoctorTest, AsksTheCoordinator) {
  FakeCoordinator coordinator;
  v1::Status status;
  status.mutable_coordinator()->set_version(std::string(kVersion));
  *status.mutable_time() = ToProto(absl::Now());
  coordinator.SetStatus(status);
  const Outcome outcome =
      Diagnose({}, coordinator.address(), OutputFormat::kJson);
  ASSERT_TRUE(outcome.code.ok());
  EXPECT_EQ(FindingOf(outcome, "coordinator")["level"], "ok");
  EXPECT_EQ(FindingOf(outcome, "coordinator's version")["level"], "ok");
  EXPECT_EQ(FindingOf(outcome, "route")["what"],
            "to 127.0.0.1 by lo, from 127.0.0.1");
}

TEST(DoctorTest, TheExitCodeIsThatOfTheWorstFailure) {
  std::string address;
  {
    FakeCoordinator gone;
    address = gone.address();
  }
  Outcome outcome = Diagnose({}, address, OutputFormat::kJson);
  EXPECT_EQ(*outcome.code, static_cast<int>(ExitCode::kRetryElsewhere));
  EXPECT_EQ(FindingOf(outcome, "coordinator")["exit_code"], 138);
  // A directory that cannot exist is a wrong flag, which the user can correct.
  outcome =
      Diagnose({.state_dir = "/proc/nothing"}, address, OutputFormat::kJson);
  EXPECT_EQ(*outcome.code, static_cast<int>(ExitCode::kUsage));
  EXPECT_EQ(FindingOf(outcome, "--state_dir")["level"], "failure");
}

TEST(DoctorTest, LooksAtDirectoriesAndPorts) {
  const absl::StatusOr<Listener> listener = Listener::Listen("[::]:0");
  ASSERT_TRUE(listener.ok());
  const int port = listener->port();
  const Outcome outcome = Diagnose({.data_ports = absl::StrCat(port, "-", port),
                                    .checkpoint = std::getenv("TEST_TMPDIR")},
                                   "", OutputFormat::kJson);
  EXPECT_EQ(*outcome.code, static_cast<int>(ExitCode::kRetryElsewhere));
  EXPECT_EQ(FindingOf(outcome, "data ports")["level"], "failure");
  EXPECT_NE(FindingOf(outcome, "--checkpoint")["level"], "failure");
}

TEST(DoctorTest, RefusesFlagsThatAreMalformed) {
  EXPECT_THAT(
      std::string(Diagnose({.data_ports = "5"}).code.status().message()),
      HasSubstr("--data_ports: \"5\""));
  EXPECT_THAT(std::string(Diagnose({}, "nowhere").code.status().message()),
              HasSubstr("--coordinator=nowhere"));
}

}  // namespace
}  // namespace ringmaster::ctl
