#include "server/coordinator/access/method_roles.h"

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/coordinator_service.pb.h"
#include "ringmaster/v1/job_service.pb.h"
#include "ringmaster/v1/pool_service.pb.h"
#include "ringmaster/v1/status_service.pb.h"

namespace ringmaster::coordinator {
namespace {

// The coordinator's own methods, as their protos have them.
std::set<std::string> OwnMethods() {
  std::set<std::string> methods;
  for (const auto* const file : {v1::SessionRequest::descriptor()->file(),
                                 v1::SubmitJobRequest::descriptor()->file(),
                                 v1::CordonRequest::descriptor()->file(),
                                 v1::GetStatusRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      const google::protobuf::ServiceDescriptor& service = *file->service(i);
      for (int k = 0; k < service.method_count(); ++k) {
        methods.insert(absl::StrCat("/", service.full_name(), "/",
                                    service.method(k)->name()));
      }
    }
  }
  return methods;
}

TEST(MethodRolesTest, HasEveryMethodOnceAndNoOther) {
  std::set<std::string> listed;
  for (const MethodRoles& row : MethodTable()) {
    EXPECT_FALSE(row.roles.empty()) << row.method;
    if (!absl::StartsWith(std::string(row.method), "/ringmaster.")) continue;
    EXPECT_TRUE(listed.insert(std::string(row.method)).second) << row.method;
  }
  EXPECT_EQ(listed, OwnMethods());
}

// Whoever only looks, and whoever only trains, changes no job.
TEST(MethodRolesTest, ViewersAndMembersChangeNoJob) {
  for (const char* const method : {"SubmitJob", "CancelJob", "ChangeJob"}) {
    EXPECT_EQ(RolesFor(MethodTable(),
                       absl::StrCat("/ringmaster.v1.JobService/", method)),
              (RoleSet{Role::kSubmitter, Role::kOperator}));
  }
  for (const MethodRoles& row : MethodTable()) {
    if (!row.roles.Has(Role::kViewer)) continue;
    const std::string method(row.method.substr(row.method.rfind('/') + 1));
    EXPECT_THAT(method,
                ::testing::ContainsRegex(
                    "^(Get|List|Watch|Explain|Check|ServerReflection)"));
  }
}

TEST(MethodRolesTest, AnUnknownMethodIsNobodys) {
  EXPECT_TRUE(
      RolesFor(MethodTable(), "/ringmaster.v1.JobService/DropAll").empty());
  EXPECT_TRUE(RolesFor(MethodTable(), "").empty());
}

}  // namespace
}  // namespace ringmaster::coordinator
