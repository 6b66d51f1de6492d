#include "server/ctl/doctor/probes.h"

#include <signal.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using ::testing::HasSubstr;

TEST(ProbesTest, AnswersComeInTheOrderOfTheProbes) {
  std::string text(300'000, 'x');  // more than a pipe holds
  Probes probes({{.name = "a",
                  .look =
                      [&] {
                        return std::vector{Good("a1", text), Good("a2", "")};
                      }},
                 {.name = "b", .look = [] {
                    return std::vector{Fail("b", "what", "why", "remedy",
                                            ExitCode::kUnreadable)};
                  }}});
  EXPECT_EQ(
      probes.Await(absl::Seconds(30), Clock::Real()),
      (std::vector{Good("a1", text), Good("a2", ""),
                   Fail("b", "what", "why", "remedy", ExitCode::kUnreadable)}));
}

TEST(ProbesTest, OneThatHangsIsGivenUpAndKilled) {
  Probes probes(
      {{.name = "disk",
        .look =
            [] {
              while (true) ::pause();
              return std::vector<Finding>();
            },
        .level_of_silence = Level::kFailure,
        .remedy = "look after the disk"},
       {.name = "b", .look = [] { return std::vector{Good("b", "fine")}; }}});
  const std::vector<Finding> findings =
      probes.Await(absl::Milliseconds(300), Clock::Real());
  ASSERT_EQ(findings.size(), 2);
  EXPECT_EQ(findings[0].check, "disk");
  EXPECT_EQ(findings[0].level, Level::kFailure);
  EXPECT_EQ(findings[0].code, ExitCode::kRetryElsewhere);
  EXPECT_THAT(findings[0].what, HasSubstr("no answer within 300ms"));
  EXPECT_EQ(findings[0].remedy, "look after the disk");
  EXPECT_EQ(findings[1], Good("b", "fine"));
}

TEST(ProbesTest, OneThatDiesTakesNothingElseAlong) {
  Probes probes({{.name = "gpu", .look = [] {
                    (void)::raise(SIGKILL);
                    return std::vector<Finding>();
                  }}});
  const std::vector<Finding> findings =
      probes.Await(absl::Seconds(30), Clock::Real());
  ASSERT_EQ(findings.size(), 1);
  EXPECT_EQ(findings[0].level, Level::kWarning);
  EXPECT_THAT(findings[0].what, HasSubstr("ended by signal 9"));
}

}  // namespace
}  // namespace ringmaster::ctl
