#include "common/protocol/member_table_hash.h"

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

google::protobuf::RepeatedPtrField<v1::Member> Table() {
  google::protobuf::RepeatedPtrField<v1::Member> table;
  for (int rank = 0; rank < 3; ++rank) {
    v1::Member& member = *table.Add();
    member.set_rank(rank);
    member.set_worker("w" + std::to_string(rank));
    member.set_data_address("10.0.0.1:2950" + std::to_string(rank));
  }
  return table;
}

TEST(MemberTableHashTest, DependsOnWhoSitsWhere) {
  const uint64_t hash = MemberTableHash(Table());
  auto table = Table();
  table.SwapElements(0, 1);
  EXPECT_NE(MemberTableHash(table), hash);
  table = Table();
  table.RemoveLast();
  EXPECT_NE(MemberTableHash(table), hash);
  table = Table();
  table.Mutable(2)->set_data_address("10.0.0.1:1");
  EXPECT_NE(MemberTableHash(table), hash);
}

TEST(MemberTableHashTest, DoesNotDependOnProgress) {
  auto table = Table();
  table.Mutable(1)->set_step(12);
  EXPECT_EQ(MemberTableHash(table), MemberTableHash(Table()));
}

TEST(MemberTableHashTest, NeverChanges) {
  // Coordinator and worker may be of different versions.
  EXPECT_EQ(MemberTableHash({}), 0x2d06800538d394c2u);
}

}  // namespace
}  // namespace ringmaster
