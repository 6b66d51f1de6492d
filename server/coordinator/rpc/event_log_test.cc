#include "server/coordinator/rpc/event_log.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr size_t kNoLimit = 1 << 20;

v1::Event Of(const std::string& job) {
  v1::Event event;
  event.set_type("job.running");
  event.set_job_id(job);
  event.set_message("runs");
  return event;
}

std::vector<int64_t> Sequences(
    const google::protobuf::RepeatedPtrField<v1::Event>& events) {
  std::vector<int64_t> sequences;
  for (const v1::Event& event : events) sequences.push_back(event.sequence());
  return sequences;
}

TEST(EventLogTest, NumbersFromOneAndListsInOrder) {
  EventLog log;
  EXPECT_EQ(log.Append(Of("a")).sequence(), 1);
  log.Append(Of("b"));
  log.Append(Of("a"));
  EXPECT_THAT(Sequences(log.After(0, "", 100, kNoLimit)), ElementsAre(1, 2, 3));
  EXPECT_THAT(Sequences(log.After(1, "", 100, kNoLimit)), ElementsAre(2, 3));
  EXPECT_THAT(Sequences(log.After(0, "a", 100, kNoLimit)), ElementsAre(1, 3));
  EXPECT_THAT(Sequences(log.After(0, "", 2, kNoLimit)), ElementsAre(1, 2));
  EXPECT_THAT(log.After(3, "", 100, kNoLimit), IsEmpty());
}

TEST(EventLogTest, TheOldestMakeRoom) {
  EventLog log(2);
  for (int i = 0; i < 5; ++i) log.Append(Of("a"));
  EXPECT_THAT(Sequences(log.After(0, "", 100, kNoLimit)), ElementsAre(4, 5));
}

TEST(EventLogTest, AnAnswerHasBoundedBytesButIsNeverStuck) {
  EventLog log;
  for (int i = 0; i < 3; ++i) log.Append(Of("a"));
  const size_t one = log.After(0, "", 1, kNoLimit).Get(0).ByteSizeLong();
  EXPECT_THAT(Sequences(log.After(0, "", 100, 2 * one)), ElementsAre(1, 2));
  EXPECT_THAT(Sequences(log.After(0, "", 100, 1)), ElementsAre(1));
}

TEST(EventLogTest, FindsTheNewestEventOfAWorker) {
  EventLog log;
  EXPECT_EQ(log.LastOf("w0"), nullptr);
  for (const char* worker : {"w0", "w1", "w0", "w1"}) {
    v1::Event event;
    event.set_worker(worker);
    log.Append(event);
  }
  ASSERT_NE(log.LastOf("w0"), nullptr);
  EXPECT_EQ(log.LastOf("w0")->sequence(), 3);
}

}  // namespace
}  // namespace ringmaster::coordinator
