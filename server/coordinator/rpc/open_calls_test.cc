#include "server/coordinator/rpc/open_calls.h"

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/logging/testing/log_capture.h"
#include "common/secrets/digest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/access/method_roles.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kWatch[] = "/ringmaster.v1.StatusService/WatchStatus";

AccessRules TokenOf(const std::string& role, bool is_revoked = false) {
  return *AccessRules::Parse(
      absl::StrCat("tokens: [{name: ann, role: ", role,
                   ", revoked: ", is_revoked ? "true" : "false", ", sha256: ",
                   absl::BytesToHexString(Sha256("secret")), "}]"),
      "access.yaml");
}

class OpenCallsTest : public testing::Test {
 protected:
  OpenCalls::Call Call() {
    Credentials credentials;
    credentials.authorization = "Bearer secret";
    return {.method = kWatch,
            .address = "10.0.0.7",
            .credentials = std::move(credentials),
            .end =
                [this](const absl::Status& status) {
                  ends_.push_back(std::string(status.message()));
                },
            .cut = [this] { cut_.set_value(); },
            .check =
                [this](const Identity& caller) {
                  return caller.roles.Has(needed_)
                             ? absl::OkStatus()
                             : absl::PermissionDeniedError(caller.name);
                }};
  }

  const std::shared_ptr<AccessControl> access_ =
      std::make_shared<AccessControl>(MethodTable(), TokenOf("viewer"));
  Role needed_ = Role::kViewer;
  std::promise<void> cut_;
  OpenCalls calls_{access_, /*patience=*/absl::Milliseconds(20)};
  std::vector<std::string> ends_;
  LogCapture log_;
};

TEST_F(OpenCallsTest, ACallEndsWithItsRights) {
  const auto place = calls_.Add(Call());
  needed_ = Role::kOperator;
  access_->Replace(TokenOf("operator"));  // who may watch, too
  calls_.EndRefused();
  EXPECT_THAT(ends_, IsEmpty());
  access_->Replace(TokenOf("operator", /*is_revoked=*/true));
  calls_.EndRefused();
  EXPECT_THAT(ends_, ElementsAre("the token of ann was revoked"));
  EXPECT_THAT(log_.lines(),
              ElementsAre(AllOf(HasSubstr("W access.ended method="),
                                HasSubstr("address=10.0.0.7"),
                                HasSubstr("the token of ann was revoked"))));
}

TEST_F(OpenCallsTest, ARoleThatIsTakenAwayIsARight) {
  const auto place = calls_.Add(Call());
  access_->Replace(TokenOf("worker"));
  calls_.EndRefused();
  EXPECT_THAT(ends_, ElementsAre(HasSubstr("ann (worker) may not call")));
}

TEST_F(OpenCallsTest, RightsThatWereTakenAwayJustBeforeCountToo) {
  access_->Replace(AccessRules());
  const auto place = calls_.Add(Call());
  EXPECT_THAT(ends_, ElementsAre(HasSubstr("is not in the coordinator's")));
}

TEST_F(OpenCallsTest, ACallNeedsMoreThanTheRightToItsMethod) {
  const auto place = calls_.Add(Call());
  place->Review();
  EXPECT_THAT(ends_, IsEmpty());
  needed_ = Role::kWorker;
  place->Review();
  calls_.EndRefused();  // once is enough
  EXPECT_THAT(ends_, ElementsAre("ann"));
}

TEST_F(OpenCallsTest, OneThatStaysAllTheSameIsCut) {
  const auto place = calls_.Add(Call());
  access_->Replace(AccessRules());
  calls_.EndRefused();
  EXPECT_THAT(ends_, SizeIs(1));
  EXPECT_EQ(cut_.get_future().wait_for(std::chrono::seconds(20)),
            std::future_status::ready);
}

TEST_F(OpenCallsTest, ACallThatIsOverIsNotEnded) {
  calls_.Add(Call()).reset();
  access_->Replace(AccessRules());
  calls_.EndRefused();
  EXPECT_THAT(ends_, IsEmpty());
}

}  // namespace
}  // namespace ringmaster::coordinator
