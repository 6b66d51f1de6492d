#include "common/protocol/enum_name.h"

#include "gtest/gtest.h"
#include "ringmaster/v1/verdict.pb.h"

namespace ringmaster {
namespace {

TEST(EnumNameTest, LeavesOutTheEnumerationsOwnName) {
  EXPECT_EQ(EnumName(v1::EVIDENCE_KIND_LEASE_EXPIRED), "LEASE_EXPIRED");
  EXPECT_EQ(EnumName(v1::VERDICT_DECISION_REFORM), "REFORM");
  EXPECT_EQ(EnumName(*v1::EvidenceKind_descriptor()->value(1)),
            "STREAM_BROKEN");
}

TEST(EnumNameTest, AValueOfALaterVersionIsItsNumber) {
  EXPECT_EQ(EnumName(static_cast<v1::EvidenceKind>(77)), "77");
}

}  // namespace
}  // namespace ringmaster
