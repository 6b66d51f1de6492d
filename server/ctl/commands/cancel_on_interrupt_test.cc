#include "server/ctl/commands/cancel_on_interrupt.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/clock/testing/fake_clock.h"
#include "gmock/gmock.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "server/ctl/client/testing/fake_coordinator.h"

namespace ringmaster::ctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CancelOnInterruptTest : public ::testing::Test {
 protected:
  FakeCoordinator coordinator_;
  Client client_{
      ClientOptions{.address = coordinator_.address(),
                    .credentials = grpc::InsecureChannelCredentials(),
                    .timeout = absl::Seconds(20)}};
  FakeClock clock_;
  bool is_interrupted_ = false;
  std::vector<std::string> notes_;
  CancelOnInterrupt cancel_{
      client_,
      clock_,
      {.is_interrupted = [this] { return is_interrupted_; },
       .limit = absl::Seconds(10),
       .note = [this](std::string_view line) { notes_.emplace_back(line); }}};
};

TEST_F(CancelOnInterruptTest, CancelsOnceAndGivesUpAfterTheLimit) {
  v1::Job job;
  job.set_id("job-1");
  job.set_state(v1::JOB_STATE_STOPPING);
  coordinator_.SetJob(job);
  EXPECT_TRUE(cancel_.Check("job-1").ok());
  EXPECT_THAT(notes_, IsEmpty());
  is_interrupted_ = true;
  EXPECT_TRUE(cancel_.Check("job-1").ok());
  EXPECT_EQ(coordinator_.cancelled().job(), "job-1");
  clock_.Advance(absl::Seconds(9));
  EXPECT_TRUE(cancel_.Check("job-1").ok());
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("cancelling the job")));
  clock_.Advance(absl::Seconds(1));
  const absl::Status late = cancel_.Check("job-1");
  EXPECT_TRUE(absl::IsCancelled(late));
  EXPECT_THAT(std::string(late.message()), HasSubstr("did not end within 10s"));
}

TEST_F(CancelOnInterruptTest, AJobThatHasJustEndedIsWhatWasWanted) {
  coordinator_.FailWith(absl::FailedPreconditionError("has ended"));
  is_interrupted_ = true;
  EXPECT_TRUE(cancel_.Check("job-1").ok());
}

TEST_F(CancelOnInterruptTest, SaysWhyAJobCannotBeCancelled) {
  coordinator_.FailWith(absl::NotFoundError("there is no job-1"));
  is_interrupted_ = true;
  const absl::Status status = cancel_.Check("job-1");
  EXPECT_TRUE(absl::IsCancelled(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("there is no job-1"));
}

}  // namespace
}  // namespace ringmaster::ctl
