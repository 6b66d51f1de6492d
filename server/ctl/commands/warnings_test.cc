#include "server/ctl/commands/warnings.h"

#include "common/clock/testing/fake_clock.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/event.pb.h"
#include "server/ctl/client/testing/fake_coordinator.h"
#include "server/ctl/terminal/console.h"

namespace ringmaster::ctl {
namespace {

v1::Event Warning(int64_t sequence, const char* type, int64_t step,
                  const char* message) {
  v1::Event event;
  event.set_sequence(sequence);
  event.set_job_id("job-1");
  event.set_severity(v1::EVENT_SEVERITY_WARNING);
  event.set_type(type);
  event.set_step(step);
  event.set_message(message);
  return event;
}

TEST(WarnOfTest, TellsWhatALossWouldCostBeforeTheJobBegins) {
  FakeConsole console;
  v1::JobSpec spec;
  spec.mutable_train();
  WarnOf(spec, console);
  EXPECT_EQ(console.error, "");
  spec.mutable_train()->mutable_parameter_server()->set_servers(1);
  WarnOf(spec, console);
  EXPECT_EQ(console.error,
            "warning: there is one copy of the parameters: the loss of a "
            "parameter server sets the job back to its beginning, since it "
            "writes no checkpoints\n");
  EXPECT_EQ(console.out, "");
}

TEST(WarningOfCoresTest, TellsWhatTakingTurnsCosts) {
  EXPECT_EQ(WarningOfCores(/*workers=*/2, /*threads=*/2, /*cores=*/4), "");
  EXPECT_EQ(WarningOfCores(/*workers=*/6, /*threads=*/1, /*cores=*/2),
            "6 workers of 1 thread on 2 cores: threads take turns, so a step "
            "is no faster than with 2 workers");
  EXPECT_EQ(WarningOfCores(/*workers=*/3, /*threads=*/2, /*cores=*/3),
            "3 workers of 2 threads on 3 cores: threads take turns, so a step "
            "is no faster than with 1 worker");
  EXPECT_EQ(WarningOfCores(/*workers=*/1, /*threads=*/4, /*cores=*/1),
            "1 worker of 4 threads on 1 core: threads take turns, so a step "
            "is no faster than with --threads=1");
}

TEST(NoteWarningsTest, TellsTheLastOfEachTypeButNoIncident) {
  FakeCoordinator coordinator;
  coordinator.SetEvents({Warning(1, "data.skipped", 0, "2 samples"),
                         Warning(2, "checkpoint.failed", 10, "no space"),
                         Warning(3, "worker.lost", 12, "told already"),
                         Warning(4, "checkpoint.failed", 20, "still\x1b[2J")});
  Client client(ClientOptions{.address = coordinator.address(),
                              .credentials = grpc::InsecureChannelCredentials(),
                              .timeout = absl::Seconds(20)});
  FakeClock clock;
  FakeConsole console;
  JobDisplay display(console, OutputFormat::kTable, clock);
  NoteWarnings(client, "job-1", display);
  EXPECT_EQ(console.out,
            "warning: checkpoint.failed after step 20 (the last of 2): "
            "still?[2J\nwarning: data.skipped: 2 samples\n");
}

}  // namespace
}  // namespace ringmaster::ctl
