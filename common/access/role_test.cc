#include "common/access/role.h"

#include "gtest/gtest.h"

namespace ringmaster {
namespace {

TEST(RoleTest, NamesGoBothWays) {
  EXPECT_EQ(RoleNames(), "viewer, submitter, operator, worker or server");
  for (const char* const name :
       {"viewer", "submitter", "operator", "worker", "server"}) {
    EXPECT_EQ(NameOf(*RoleOfName(name)), name);
  }
  EXPECT_FALSE(RoleOfName("root").has_value());
  EXPECT_EQ(NamesOf({Role::kServer, Role::kViewer}), "viewer,server");
}

}  // namespace
}  // namespace ringmaster
