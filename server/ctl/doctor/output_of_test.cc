#include "server/ctl/doctor/output_of.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;

TEST(OutputOfTest, GivesItsInputAndReturnsItsOutput) {
  const std::string input(200'000, 'x');
  EXPECT_EQ(OutputOf("/bin/cat", {}, input).value(), input);
  EXPECT_EQ(OutputOf("/bin/echo", {"a b", "c"}, "").value(), "a b c\n");
}

TEST(OutputOfTest, SaysHowItEnded) {
  const auto message = [](const std::string& script) {
    return std::string(
        OutputOf("/bin/sh", {"-c", script}, "").status().message());
  };
  EXPECT_THAT(message("exit 3"), HasSubstr("it ended with 3"));
  EXPECT_THAT(message("kill -9 $$"), HasSubstr("it was ended by signal 9"));
  EXPECT_FALSE(OutputOf("/nowhere", {}, "").ok());
}

}  // namespace
}  // namespace ringmaster::ctl
