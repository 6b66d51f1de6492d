#include "server/coordinator/core/account/memberships.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace ringmaster::coordinator {
namespace {

using testing::ElementsAre;

absl::Time At(int seconds) {
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

void Form(Job& job, std::initializer_list<std::string> workers, int64_t step,
          int seconds) {
  job.members.clear();
  for (const std::string& worker : workers) {
    job.members.emplace_back().identity.worker = worker;
  }
  ++job.generation;
  job.resume_step = step;
  NoteMembers(job, At(seconds));
}

TEST(MembershipsTest, OneLastsAsLongAsTheMembersStayTheSame) {
  Job job;
  Form(job, {"w0", "w1"}, 0, 1);
  Form(job, {"w0", "w1"}, 10, 2);
  ASSERT_EQ(job.memberships.size(), 1u);
  EXPECT_EQ(job.memberships[0].end_time, absl::InfiniteFuture());
  Form(job, {"w1"}, 20, 3);
  ASSERT_EQ(job.memberships.size(), 2u);
  EXPECT_EQ(job.memberships[0].end_time, At(3));
  EXPECT_EQ(job.memberships[1].generation, 3);
  EXPECT_EQ(job.memberships[1].start_time, At(3));
  EXPECT_EQ(job.memberships[1].first_step, 20);
  EXPECT_THAT(job.memberships[1].workers, ElementsAre("w1"));
}

TEST(MembershipsTest, WhoeverComesBackBeginsAnotherOne) {
  Job job;
  NoteNoMembers(job, At(0));
  EXPECT_TRUE(job.memberships.empty());
  Form(job, {"w0"}, 0, 1);
  NoteNoMembers(job, At(2));
  NoteNoMembers(job, At(3));
  EXPECT_EQ(job.memberships[0].end_time, At(2));
  Form(job, {"w0"}, 5, 4);
  EXPECT_EQ(job.memberships.size(), 2u);
}

TEST(MembershipsTest, TheNewestAreKept) {
  Job job;
  for (int i = 0; i < 100; ++i) {
    Form(job, {"w" + std::to_string(i)}, i, i);
  }
  ASSERT_EQ(job.memberships.size(), kMaxMemberships);
  EXPECT_THAT(job.memberships.back().workers, ElementsAre("w99"));
}

TEST(MembershipsTest, ThoseOfAVeryLargeJobAreFewer) {
  Job job;
  job.members.resize(4096);
  for (int i = 0; i < 5; ++i) {
    job.members[0].identity.worker = "w" + std::to_string(i);
    NoteMembers(job, At(i));
  }
  EXPECT_EQ(job.memberships.size(), 2u);
  job.members.resize(10000);
  NoteMembers(job, At(9));
  EXPECT_EQ(job.memberships.size(), 1u);
}

}  // namespace
}  // namespace ringmaster::coordinator
