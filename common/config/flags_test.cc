#include "common/config/flags.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A daemon with a flag of each type.
class FlagsTest : public testing::Test {
 protected:
  FlagsTest() {
    flags_.StartGroup("Network");
    flags_.Add({.name = "listen",
                .unit = "HOST:PORT",
                .help = "Where workers and users connect."},
               &listen_);
    flags_.StartGroup("Storage");
    flags_.Add({.name = "state_dir",
                .short_name = 'd',
                .help = "Where the journal lives."},
               &state_dir_);
    flags_.StartGroup("Limits");
    flags_.Add({.name = "ranks", .help = "Ranks.", .min = 1, .max = 64},
               &ranks_);
    flags_.Add({.name = "max_bytes", .help = "Bytes.", .min = 0}, &max_bytes_);
    flags_.Add({.name = "ratio", .help = "Ratio.", .max = 1}, &ratio_);
    flags_.Add({.name = "lease", .help = "Lease.", .min = 0.1}, &lease_);
    flags_.Add({.name = "insecure", .help = "Allows clear text."}, &insecure_);
    flags_.Add({.name = "log_format",
                .help = "Form of the log.",
                .choices = {"text", "json"}},
               &log_format_);
    flags_.Add({.name = "label", .help = "A label; may be repeated."},
               &labels_);
  }

  absl::Status Parse(const std::vector<std::string>& args) {
    return flags_.Parse(args).status();
  }
  std::string Error(const std::vector<std::string>& args) {
    const absl::Status status = Parse(args);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  std::string listen_ = "127.0.0.1:29400";
  std::string state_dir_;
  int ranks_ = 4;
  int64_t max_bytes_ = 0;
  double ratio_ = 0.5;
  absl::Duration lease_ = absl::Milliseconds(1500);
  bool insecure_ = false;
  std::string log_format_ = "text";
  std::vector<std::string> labels_;
  FlagSet flags_{"coordinator", "Decides who trains what."};
};

TEST_F(FlagsTest, DefaultsStayWithoutArguments) {
  const absl::StatusOr<FlagSet::Parsed> parsed = flags_.Parse({});
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(parsed->is_run);
  EXPECT_EQ(listen_, "127.0.0.1:29400");
  EXPECT_EQ(ranks_, 4);
  EXPECT_EQ(flags_.command(), "");
}

TEST_F(FlagsTest, SetsEveryType) {
  ASSERT_TRUE(Parse({"--listen=[::1]:80", "--ranks=8", "--max_bytes=5000000000",
                     "--ratio=-0.25", "--lease=250ms", "--insecure",
                     "--log_format=json", "--label=a", "--label=[b,c]"})
                  .ok());
  EXPECT_EQ(listen_, "[::1]:80");
  EXPECT_EQ(ranks_, 8);
  EXPECT_EQ(max_bytes_, 5'000'000'000);
  EXPECT_EQ(ratio_, -0.25);
  EXPECT_EQ(lease_, absl::Milliseconds(250));
  EXPECT_TRUE(insecure_);
  EXPECT_EQ(log_format_, "json");
  EXPECT_THAT(labels_, ElementsAre("a", "[b,c]"));
}

TEST_F(FlagsTest, UnderscoresAndDashesAndBothFormsOfAValueAreTheSame) {
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{"--state_dir", "/a-b_c"},
                                             {"--state_dir=/a-b_c"},
                                             {"--state-dir", "/a-b_c"},
                                             {"--state-dir=/a-b_c"},
                                             {"-d", "/a-b_c"},
                                             {"-d/a-b_c"}}) {
    state_dir_.clear();
    ASSERT_TRUE(Parse(args).ok()) << args[0];
    EXPECT_EQ(state_dir_, "/a-b_c") << args[0];
  }
}

TEST_F(FlagsTest, TheLastOfRepeatedFlagsWins) {
  ASSERT_TRUE(
      Parse({"--ranks=1", "--ranks=2", "--insecure", "--insecure=false"}).ok());
  EXPECT_EQ(ranks_, 2);
  EXPECT_FALSE(insecure_);
}

TEST_F(FlagsTest, ANegativeNumberMayStandApart) {
  ASSERT_TRUE(Parse({"--ratio", "-0.25"}).ok());
  EXPECT_EQ(ratio_, -0.25);
}

TEST_F(FlagsTest, TheCommandLineWinsOverTheEnvironment) {
  ASSERT_EQ(setenv("RINGMASTER_RANKS", "9", 1), 0);
  ASSERT_EQ(setenv("RINGMASTER_STATE_DIR", "/env", 1), 0);
  ASSERT_EQ(setenv("RINGMASTER_INSECURE", "true", 1), 0);
  ASSERT_EQ(setenv("RINGMASTER_LISTEN", "", 1), 0);  // as if unset
  const absl::Status status = Parse({"--ranks=3"});
  unsetenv("RINGMASTER_RANKS");
  unsetenv("RINGMASTER_STATE_DIR");
  unsetenv("RINGMASTER_INSECURE");
  unsetenv("RINGMASTER_LISTEN");
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(ranks_, 3);
  EXPECT_EQ(state_dir_, "/env");
  EXPECT_TRUE(insecure_);
  EXPECT_EQ(listen_, "127.0.0.1:29400");
}

TEST_F(FlagsTest, AnErrorInTheEnvironmentNamesTheVariable) {
  ASSERT_EQ(setenv("RINGMASTER_RANKS", "many", 1), 0);
  EXPECT_EQ(Error({}), "RINGMASTER_RANKS=many: must be a whole number");
  unsetenv("RINGMASTER_RANKS");
}

TEST_F(FlagsTest, AnUnknownFlagIsNamedWithWhatWasProbablyMeant) {
  EXPECT_EQ(Error({"--lisen=x"}),
            "unknown flag --lisen (did you mean --listen?); see --help");
  EXPECT_EQ(Error({"--stat-dri", "/a"}),
            "unknown flag --stat-dri (did you mean --state_dir?); see --help");
  EXPECT_EQ(Error({"--foo"}), "unknown flag --foo; see --help");
  EXPECT_EQ(Error({"-x"}), "unknown flag -x; see --help");
}

TEST_F(FlagsTest, AnUnexpectedArgumentIsNamed) {
  EXPECT_EQ(Error({"--insecure", "false"}),
            "unexpected argument \"false\"; see --help");
}

TEST_F(FlagsTest, AMissingValueIsNamed) {
  EXPECT_EQ(Error({"--listen"}), "flag --listen needs a value; see --help");
  EXPECT_EQ(Error({"--listen="}), "flag --listen needs a value; see --help");
  EXPECT_EQ(Error({"--state_dir=", "--listen=127.0.0.1:1"}),
            "flag --state_dir needs a value; see --help");
  EXPECT_EQ(Error({"--state-dir=", "/tmp"}),
            "flag --state-dir needs a value; see --help");
  EXPECT_EQ(Error({"--insecure=", "--ranks=2"}),
            "flag --insecure needs a value; see --help");
  EXPECT_EQ(Error({"-d", "--insecure"}), "flag -d needs a value; see --help");
  EXPECT_EQ(Error({"--state-dir", "--ranks=2"}),
            "flag --state-dir needs a value; see --help");
}

TEST_F(FlagsTest, AWrongValueIsNamedWithWhatIsAllowed) {
  EXPECT_EQ(Error({"--ranks=abc"}), "--ranks=abc: must be a whole number");
  EXPECT_EQ(Error({"--ranks=99999999999"}),
            "--ranks=99999999999: must be a whole number");
  EXPECT_EQ(Error({"--ranks=0"}), "--ranks=0: must be from 1 to 64");
  EXPECT_EQ(Error({"--max_bytes=-1"}), "--max_bytes=-1: must be at least 0");
  EXPECT_EQ(Error({"--ratio=2"}), "--ratio=2: must be at most 1");
  EXPECT_EQ(Error({"--ratio=nan"}), "--ratio=nan: must be a number");
  EXPECT_EQ(Error({"--lease=5"}),
            "--lease=5: must be a duration, as 400ms, 1.5s or 2m");
  EXPECT_EQ(Error({"--lease=inf"}),
            "--lease=inf: must be a duration, as 400ms, 1.5s or 2m");
  EXPECT_EQ(Error({"--lease=-1s"}),
            "--lease=-1s: must be a duration, as 400ms, 1.5s or 2m");
  EXPECT_EQ(Error({"--lease=1ms"}), "--lease=1ms: must be at least 0.1s");
  EXPECT_EQ(Error({"--insecure=maybe"}),
            "--insecure=maybe: must be true or false");
  EXPECT_EQ(Error({"--log_format=xml"}),
            "--log_format=xml: must be one of text, json");
}

TEST_F(FlagsTest, ARequiredFlagMustBeGiven) {
  std::string coordinator;
  flags_.Add(
      {.name = "coordinator", .help = "Whom to join.", .is_required = true},
      &coordinator);
  EXPECT_EQ(Error({}),
            "flag --coordinator is required (or RINGMASTER_COORDINATOR in the "
            "environment); see --help");
  EXPECT_TRUE(Parse({"--coordinator=a:1"}).ok());
  EXPECT_EQ(coordinator, "a:1");
}

TEST_F(FlagsTest, HelpIsDocumentation) {
  const absl::StatusOr<FlagSet::Parsed> parsed =
      flags_.Parse(std::vector<std::string>{"--nonsense", "--help"});
  ASSERT_TRUE(parsed.ok());
  EXPECT_FALSE(parsed->is_run);
  EXPECT_THAT(parsed->text,
              HasSubstr("Decides who trains what.\n\n"
                        "Usage: coordinator [FLAGS]\n\n"
                        "Network:\n"
                        "  --listen=HOST:PORT\n"
                        "      Where workers and users connect.\n"
                        "      Default: 127.0.0.1:29400. Environment: "
                        "RINGMASTER_LISTEN.\n"));
  EXPECT_THAT(parsed->text,
              HasSubstr("\nStorage:\n  --state_dir=TEXT, -d TEXT\n"
                        "      Where the journal lives.\n"
                        "      Environment: "));
  EXPECT_THAT(parsed->text, HasSubstr("  --lease=DURATION\n"));
  EXPECT_THAT(parsed->text, HasSubstr("Default: 1.5s."));
  EXPECT_THAT(parsed->text, HasSubstr("  --insecure\n"));
  EXPECT_THAT(parsed->text, HasSubstr("  --log_format=text|json\n"));
  EXPECT_THAT(parsed->text, HasSubstr("\nExit codes:\n    0  done\n"));
}

TEST_F(FlagsTest, VersionIsPrinted) {
  EXPECT_EQ(flags_.Parse(std::vector<std::string>{"--version"})->text,
            "ringmaster 0.1.0\n");
}

TEST_F(FlagsTest, MainEndsWithTheDocumentedExitCodes) {
  const char* const good[] = {"coordinator", "--ranks", "3"};
  EXPECT_EQ(flags_.ParseCommandLine(3, good), std::nullopt);
  EXPECT_EQ(ranks_, 3);

  const char* const wrong[] = {"coordinator", "--foo"};
  testing::internal::CaptureStderr();
  EXPECT_EQ(flags_.ParseCommandLine(2, wrong), ExitCode::kUsage);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "error: unknown flag --foo; see --help\n");

  const char* const help[] = {"coordinator", "--help"};
  testing::internal::CaptureStdout();
  EXPECT_EQ(flags_.ParseCommandLine(2, help), ExitCode::kDone);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), flags_.Help());
}

TEST(FlagsDeathTest, RefusesNamesThatAreMalformedOrTaken) {
  FlagSet flags("x", "x");
  int value = 0;
  flags.Add({.name = "ranks", .help = "Ranks."}, &value);
  EXPECT_DEATH(flags.Add({.name = "ranks", .help = "Again."}, &value), "ranks");
  EXPECT_DEATH(flags.Add({.name = "log-level", .help = "x"}, &value),
               "log-level");
  EXPECT_DEATH(flags.Add({.name = "help", .help = "x"}, &value), "help");
}

// ringctl in small.
class CommandsTest : public testing::Test {
 protected:
  CommandsTest() {
    flags_.Add({.name = "coordinator", .help = "Whom to ask."}, &coordinator_);
    FlagSet& submit = flags_.AddCommand("submit", "Submits a job.");
    submit.AddArgument("FILE", "The job spec.", /*is_required=*/true, &file_);
    submit.Add({.name = "set", .unit = "FIELD=VALUE", .help = "Overrides."},
               &overrides_);
    FlagSet& status = flags_.AddCommand("status", "Shows jobs.");
    status.AddArgument("JOB", "Jobs to show; all without.",
                       /*is_required=*/false, &jobs_);
    FlagSet& run = flags_.AddCommand("run", "Runs a command.");
    run.AddArgument("WHERE", "Where.", /*is_required=*/true, &file_);
    run.AddArgument("COMMAND", "The command.", /*is_required=*/true, &run_,
                    /*ends_flags=*/true);
    run.Add({.name = "max_restarts", .short_name = 'n', .help = "Restarts."},
            &restarts_);
    FlagSet& group = flags_.AddCommand("checkpoint", "Looks at checkpoints.");
    FlagSet& list = group.AddCommand("ls", "Lists them.");
    list.AddArgument("DIR", "Where.", /*is_required=*/true, &file_);
    FlagSet& remove = group.AddCommand("rm", "Removes one.");
    remove.Add({.name = "force", .help = "Even the last."}, &is_forced_);
    remove.Add({.name = "bin_dir", .help = "Programs.", .is_place = true},
               &bin_dir_);
    remove.Add({.name = "reason", .help = "Why.", .is_required = true},
               &reason_);
  }
  std::string Error(const std::vector<std::string>& args) {
    return std::string(flags_.Parse(args).status().message());
  }

  std::string coordinator_ = "localhost:29400";
  std::string file_;
  std::vector<std::string> overrides_;
  std::vector<std::string> jobs_;
  std::vector<std::string> run_;
  int restarts_ = 0;
  bool is_forced_ = false;
  std::string bin_dir_;
  std::string reason_;
  FlagSet flags_{"ringctl", "Talks to the coordinator."};
};

TEST_F(CommandsTest, ACommandHasItsOwnFlagsAndThoseOfAll) {
  const std::vector<std::string> args = {
      "submit", "job.yaml",      "--set=train.a-b=1",
      "--set",  "workers.min=2", "--coordinator",
      "c:1"};
  ASSERT_TRUE(flags_.Parse(args).ok()) << Error(args);
  EXPECT_EQ(flags_.command(), "submit");
  EXPECT_EQ(file_, "job.yaml");
  EXPECT_THAT(overrides_, ElementsAre("train.a-b=1", "workers.min=2"));
  EXPECT_EQ(coordinator_, "c:1");
}

TEST_F(CommandsTest, FlagsOfAllMayStandBeforeTheCommand) {
  ASSERT_TRUE(
      flags_.Parse(std::vector<std::string>{"--coordinator=c:1", "status"})
          .ok());
  EXPECT_EQ(flags_.command(), "status");
  EXPECT_EQ(coordinator_, "c:1");
  EXPECT_TRUE(jobs_.empty());
}

TEST_F(CommandsTest, NoVariableSaysWhatOneCallMeans) {
  const std::vector<std::string> names = {"FORCE", "REASON", "BIN_DIR"};
  for (const std::string& name : names) {
    ASSERT_EQ(setenv(("RINGMASTER_" + name).c_str(), "1", 1), 0);
  }
  EXPECT_EQ(Error({"checkpoint", "rm"}),
            "flag --reason is required; see --help");
  EXPECT_EQ(Error({"checkpoint", "rm", "--reason=old"}), "");
  for (const std::string& name : names) {
    unsetenv(("RINGMASTER_" + name).c_str());
  }
  EXPECT_FALSE(is_forced_);
  EXPECT_EQ(reason_, "old");
  EXPECT_EQ(bin_dir_, "1");
  const std::string help = flags_.Pages().back().flags.front().environment;
  EXPECT_EQ(help, "");
}

TEST_F(CommandsTest, AListOfArgumentsTakesAllThatRemain) {
  const std::vector<std::string> args = {"status", "a",  "b",
                                         "--",     "-c", "--d-e"};
  ASSERT_TRUE(flags_.Parse(args).ok()) << Error(args);
  EXPECT_THAT(jobs_, ElementsAre("a", "b", "-c", "--d-e"));
}

TEST_F(CommandsTest, ACommandLineOfOthersEndsTheFlags) {
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{
           {"--coordinator", "c:1", "run", "--max-restarts", "2", "here", "cmd",
            "-n", "5", "--", "--help"},
           {"run", "here", "-n2", "--coordinator", "c:1", "--", "cmd", "-n",
            "5", "--", "--help"}}) {
    coordinator_ = "";
    restarts_ = 0;
    ASSERT_TRUE(flags_.Parse(args).ok()) << Error(args);
    EXPECT_EQ(file_, "here");
    EXPECT_THAT(run_, ElementsAre("cmd", "-n", "5", "--", "--help"));
    EXPECT_EQ(restarts_, 2);
    EXPECT_EQ(coordinator_, "c:1");
  }
  // A flag's value is not taken for a command, nor other arguments for the end.
  EXPECT_EQ(Error({"--coordinator", "run"}),
            "no command; give one of submit, status, run, checkpoint; see "
            "--help");
  EXPECT_THAT(flags_.Parse(std::vector<std::string>{"run", "here", "-h"})->text,
              HasSubstr("Usage: ringctl run [FLAGS] WHERE COMMAND...\n"));
  EXPECT_EQ(Error({"run", "--max-restart", "2", "here", "cmd"}),
            "unknown flag --max-restart (did you mean --max_restarts?); see "
            "--help");
}

TEST_F(CommandsTest, AnArgumentMayBeCalledLikeACommand) {
  const std::vector<std::string> args = {"status", "submit", "status"};
  ASSERT_TRUE(flags_.Parse(args).ok()) << Error(args);
  EXPECT_EQ(flags_.command(), "status");
  EXPECT_THAT(jobs_, ElementsAre("submit", "status"));
}

TEST_F(CommandsTest, MistakesAreNamed) {
  EXPECT_EQ(Error({}),
            "no command; give one of submit, status, run, checkpoint; see "
            "--help");
  EXPECT_EQ(Error({"sumbit"}),
            "unknown command \"sumbit\" (did you mean \"submit\"?); see "
            "--help");
  EXPECT_EQ(Error({"submit"}),
            "no FILE; usage: ringctl submit FILE; see --help");
  EXPECT_EQ(Error({"submit", "a", "--", "-b"}),
            "unexpected argument \"-b\"; see --help");
  EXPECT_EQ(Error({"submit", "a", "b"}),
            "unexpected argument \"b\"; see --help");
  EXPECT_EQ(Error({"submit", "a", "--sett=x=1"}),
            "unknown flag --sett (did you mean --set?); see --help");
  EXPECT_EQ(Error({"status", "--set=x"}), "unknown flag --set; see --help");
  EXPECT_EQ(Error({"status", "--cordinator=x"}),
            "unknown flag --cordinator (did you mean --coordinator?); see "
            "--help");
}

TEST_F(CommandsTest, HelpOfTheWholeListsTheCommands) {
  const std::string help = flags_.Help();
  EXPECT_THAT(help, HasSubstr("Usage: ringctl COMMAND [FLAGS]\n"));
  EXPECT_THAT(help, HasSubstr("\nCommands:\n  submit      Submits a job.\n"
                              "  status      Shows jobs.\n"
                              "  run         Runs a command.\n"
                              "  checkpoint  Looks at checkpoints.\n"));
  EXPECT_THAT(help, Not(HasSubstr("--set")));
}

TEST_F(CommandsTest, HelpOfACommandHasItsArgumentsAndAllItsFlags) {
  const std::string help =
      flags_.Parse(std::vector<std::string>{"submit", "-h"})->text;
  EXPECT_THAT(help, HasSubstr("Usage: ringctl submit FILE [FLAGS]\n"));
  EXPECT_THAT(help, HasSubstr("\nArguments:\n  FILE  The job spec.\n"));
  EXPECT_THAT(help, HasSubstr("--set=FIELD=VALUE"));
  EXPECT_THAT(help, HasSubstr("--coordinator=TEXT"));
  EXPECT_THAT(flags_.Parse(std::vector<std::string>{"status", "-h"})->text,
              HasSubstr("Usage: ringctl status [JOB...] [FLAGS]\n"));
}

TEST_F(CommandsTest, ACommandMayHaveCommands) {
  const std::vector<std::string> list = {"checkpoint", "ls", "rm",
                                         "--coordinator=c:1"};
  ASSERT_TRUE(flags_.Parse(list).ok()) << Error(list);
  EXPECT_EQ(flags_.command(), "checkpoint ls");
  EXPECT_EQ(file_, "rm");
  EXPECT_EQ(coordinator_, "c:1");
  const std::vector<std::string> remove = {"checkpoint", "rm", "--force",
                                           "--reason=old"};
  ASSERT_TRUE(flags_.Parse(remove).ok()) << Error(remove);
  EXPECT_EQ(flags_.command(), "checkpoint rm");
  EXPECT_TRUE(is_forced_);
  const std::vector<std::string> dashes = {"checkpoint", "ls", "--", "-d"};
  ASSERT_TRUE(flags_.Parse(dashes).ok()) << Error(dashes);
  EXPECT_EQ(file_, "-d");
}

TEST_F(CommandsTest, MistakesInACommandsCommandAreNamed) {
  EXPECT_EQ(Error({"checkpoint"}),
            "no command; give one of ls, rm; see --help");
  EXPECT_EQ(Error({"checkpoint", "sl"}),
            "unknown command \"sl\" (did you mean \"ls\"?); see --help");
  EXPECT_EQ(Error({"checkpoint", "ls"}),
            "no DIR; usage: ringctl checkpoint ls DIR; see --help");
  EXPECT_EQ(Error({"checkpoint", "rm", "--forze"}),
            "unknown flag --forze (did you mean --force?); see --help");
  EXPECT_EQ(Error({"checkpoint", "ls", "a", "--force"}),
            "unknown flag --force; see --help");
}

TEST_F(CommandsTest, HelpIsOfTheInnermostCommand) {
  const auto help = [&](const std::vector<std::string>& args) {
    return flags_.Parse(args)->text;
  };
  EXPECT_THAT(help({"checkpoint", "--help"}),
              HasSubstr("Usage: ringctl checkpoint COMMAND [FLAGS]\n"));
  EXPECT_THAT(help({"checkpoint", "rm", "-h"}),
              HasSubstr("Usage: ringctl checkpoint rm [FLAGS]\n"));
  // The first word is the command, whatever its arguments are called.
  EXPECT_THAT(help({"status", "submit", "-h"}),
              HasSubstr("Usage: ringctl status [JOB...] [FLAGS]\n"));
}

TEST_F(CommandsTest, PagesHaveACommandsCommandsBehindIt) {
  std::vector<std::string> programs;
  for (const HelpPage& page : flags_.Pages()) programs.push_back(page.program);
  EXPECT_THAT(programs,
              ElementsAre("ringctl", "ringctl submit", "ringctl status",
                          "ringctl run", "ringctl checkpoint",
                          "ringctl checkpoint ls", "ringctl checkpoint rm"));
}

}  // namespace
}  // namespace ringmaster
