// Tests the session's fail points; agent_test covers the rest of it.
#include "worker/agent/rpc/coordinator_session.h"

#include <grpcpp/security/credentials.h>

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/fail_point/fail_point.h"
#include "common/status/reason.h"
#include "common/sync/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/coordinator_service.pb.h"
#include "worker/agent/testing/fake_coordinator.h"

namespace ringmaster {
namespace {

using ::testing::Contains;
using Message = v1::SessionRequest;

class CoordinatorSessionTest : public ::testing::Test {
 protected:
  ~CoordinatorSessionTest() override {
    FailPoint::DisarmAll();
    session_.reset();
  }

  void Open(const std::string& peer = "", bool requires_encryption = false) {
    Message hello;
    hello.mutable_hello()->set_name("w0");
    hello.mutable_hello()->set_requires_encryption(requires_encryption);
    session_ = CoordinatorSession::Open(coordinator_.address(), peer,
                                        grpc::InsecureChannelCredentials(),
                                        hello, [this](agent::Event event) {
                                          MutexLock lock(mutex_);
                                          events_.push_back(std::move(event));
                                          changed_.NotifyAll();
                                        });
  }

  // Waits for the next event and returns it.
  agent::Event Take() {
    MutexLock lock(mutex_);
    while (events_.empty()) changed_.Wait(mutex_);
    agent::Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }
  void OpenAndJoin() {
    Open();
    ASSERT_TRUE(std::holds_alternative<agent::SessionUp>(Take()));
  }
  void ExpectBrokenBy(const std::string& point) {
    const agent::Event event = Take();
    const auto* down = std::get_if<agent::SessionDown>(&event);
    ASSERT_NE(down, nullptr) << agent::EventName(event);
    EXPECT_EQ(down->code, absl::StatusCode::kUnavailable);
    EXPECT_EQ(down->message, "fail point " + point);
  }

  FakeCoordinator coordinator_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<agent::Event> events_ GUARDED_BY(mutex_);
  std::unique_ptr<CoordinatorSession> session_;
};

TEST_F(CoordinatorSessionTest, EveryMessageHasAPoint) {
  OpenAndJoin();
  const std::vector<std::string> names = FailPoint::Names();
  const auto* request = Message::descriptor()->oneof_decl(0);
  EXPECT_EQ(request->field_count(), 12);
  for (int i = 0; i < request->field_count(); ++i) {
    const std::string name = request->field(i)->name();
    EXPECT_THAT(names, Contains("session.send." +
                                (name == "trace_reply" ? "trace" : name)));
  }
  const auto* response = v1::SessionResponse::descriptor()->oneof_decl(0);
  for (int i = 0; i < response->field_count(); ++i) {
    if (response->field(i)->options().deprecated()) continue;  // never sent
    EXPECT_THAT(names,
                Contains("session.receive." + response->field(i)->name()));
  }
}

// The coordinator is of a release that does not know the setting.
TEST_F(CoordinatorSessionTest, ACoordinatorThatCannotEncryptIsNotJoined) {
  Open("", /*requires_encryption=*/true);
  const agent::Event event = Take();
  const auto* down = std::get_if<agent::SessionDown>(&event);
  ASSERT_NE(down, nullptr) << agent::EventName(event);
  EXPECT_EQ(down->code, absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(down->reason, reason::kEncryptionMismatch);
}

TEST_F(CoordinatorSessionTest, AnErrorAtTheHelloBreaksTheSession) {
  FailPoint::Arm("session.send.hello", FailPoint::Action::kError);
  Open();
  ExpectBrokenBy("session.send.hello");
}

TEST_F(CoordinatorSessionTest, AnErrorAtAMessageOutBreaksTheSession) {
  FailPoint::Arm("session.send.halted", FailPoint::Action::kError);
  OpenAndJoin();
  Message beat;
  beat.mutable_beat()->set_step(7);
  session_->SendBeat(beat);
  ASSERT_TRUE(coordinator_.Take(Message::kBeat).has_value());
  Message halted;
  halted.mutable_halted()->set_applied_step(7);
  session_->Send(halted);
  ExpectBrokenBy("session.send.halted");
}

TEST_F(CoordinatorSessionTest, AnErrorAtAMessageInDropsItAndBreaksTheSession) {
  FailPoint::Arm("session.receive.start", FailPoint::Action::kError);
  OpenAndJoin();
  coordinator_.SendStart(3);
  coordinator_.SendHalt(3);
  ExpectBrokenBy("session.receive.start");
}

TEST_F(CoordinatorSessionTest, AHangHoldsWhatComesInWhileMessagesGoOut) {
  FailPoint::Arm("session.receive.halt", FailPoint::Action::kHang);
  OpenAndJoin();
  coordinator_.SendHalt(3);
  while (FailPoint::HangingCount("session.receive.halt") == 0) {
    std::this_thread::yield();
  }
  Message beat;
  beat.mutable_beat()->set_step(7);
  session_->SendBeat(beat);
  EXPECT_TRUE(coordinator_.Take(Message::kBeat).has_value());
  FailPoint::Disarm("session.receive.halt");
  EXPECT_TRUE(std::holds_alternative<agent::HaltReceived>(Take()));
}

}  // namespace
}  // namespace ringmaster
