#include "absl/status/status.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/status/annotate.h"
#include "common/status/check.h"
#include "common/status/reason.h"
#include "common/status/status_macros.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

absl::Status PassOn(const absl::Status& status, int& evaluated, bool& went_on) {
  RETURN_IF_ERROR((++evaluated, status));
  went_on = true;
  return absl::OkStatus();
}

TEST(ReturnIfErrorTest, GoesOnAfterOk) {
  int evaluated = 0;
  bool went_on = false;
  EXPECT_TRUE(PassOn(absl::OkStatus(), evaluated, went_on).ok());
  EXPECT_TRUE(went_on);
  EXPECT_EQ(evaluated, 1);
}

TEST(ReturnIfErrorTest, ReturnsTheErrorOnce) {
  int evaluated = 0;
  bool went_on = false;
  const absl::Status status =
      PassOn(absl::DataLossError("bad sum"), evaluated, went_on);
  EXPECT_EQ(status, absl::DataLossError("bad sum"));
  EXPECT_FALSE(went_on);
  EXPECT_EQ(evaluated, 1);
}

absl::StatusOr<int> Unwrap(absl::StatusOr<std::unique_ptr<int>> boxed) {
  ASSIGN_OR_RETURN(std::unique_ptr<int> value, std::move(boxed));
  int copy = 0;
  ASSIGN_OR_RETURN(copy, absl::StatusOr<int>(*value));
  return copy;
}

TEST(AssignOrReturnTest, MovesTheValueOut) {
  EXPECT_EQ(*Unwrap(std::make_unique<int>(7)), 7);
}

TEST(AssignOrReturnTest, ReturnsTheError) {
  EXPECT_EQ(Unwrap(absl::AbortedError("gone")).status(),
            absl::AbortedError("gone"));
}

TEST(AnnotateTest, LeavesOkAlone) {
  EXPECT_TRUE(Annotate(absl::OkStatus(), "reading").ok());
}

TEST(AnnotateTest, PutsTheContextFirstAndKeepsCodeAndPayloads) {
  const absl::Status inner =
      WithReason(absl::NotFoundError("no such job"), reason::kJobNotFound);
  const absl::Status outer = Annotate(inner, "job words");
  EXPECT_EQ(outer.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(outer.message(), "job words: no such job");
  EXPECT_EQ(ReasonOf(outer), "JOB_NOT_FOUND");
}

TEST(ReasonTest, IsEmptyWhereNoneIsAttached) {
  EXPECT_EQ(ReasonOf(absl::InternalError("x")), "");
  EXPECT_EQ(ReasonOf(absl::OkStatus()), "");
}

TEST(ReasonTest, IsNotAttachedToOk) {
  EXPECT_EQ(WithReason(absl::OkStatus(), reason::kInternal), absl::OkStatus());
}

TEST(ReasonTest, ReplacesAnEarlierReason) {
  absl::Status status =
      WithReason(absl::AbortedError("x"), reason::kLeaseExpired);
  status = WithReason(std::move(status), reason::kStaleGeneration);
  EXPECT_EQ(ReasonOf(status), "STALE_GENERATION");
}

TEST(CheckDeathTest, NamesTheConditionAndTheMessage) {
  EXPECT_DEATH(RM_CHECK(1 + 1 == 3, "arithmetic"),
               "status_test.cc:[0-9]+: check failed: 1 \\+ 1 == 3: arithmetic");
}

TEST(CheckTest, DoesNotEvaluateTheMessageWhenItHolds) {
  bool evaluated = false;
  const auto message = [&] {
    evaluated = true;
    return std::string("no");
  };
  RM_CHECK(true, message());
  EXPECT_FALSE(evaluated);
}

}  // namespace
}  // namespace ringmaster
