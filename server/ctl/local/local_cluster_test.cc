#include "server/ctl/local/local_cluster.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status/exit_code.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/ctl/local/run_directory.h"

namespace ringmaster::ctl {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;

absl::Status Ok() { return absl::OkStatus(); }

// Shell scripts in place of the coordinator and the workers.
class LocalClusterTest : public ::testing::Test {
 protected:
  LocalClusterTest()
      : dir_(fs::path(::testing::TempDir()) /
             ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(dir_);
    fs::create_directories(dir_);
  }

  std::string Script(const std::string& name, const std::string& text) {
    const fs::path path = dir_ / name;
    std::ofstream(path) << "#!/bin/sh\n" << text;
    fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }

  // A coordinator that writes its port and ends when asked.
  std::string GoodCoordinator() {
    return Script("coordinator",
                  "echo \"$@\"\n"
                  "for a in \"$@\"; do case $a in --port_file=*) echo "
                  "77 >\"${a#*=}\";; esac; done\n"
                  "trap 'echo bye; exit 0' TERM\n"
                  "while :; do sleep 0.01; done\n");
  }

  std::string GoodWorker() {
    return Script("worker",
                  "trap 'echo leaving; exit 143' TERM\necho \"$@\"\nwhile :; "
                  "do sleep 0.01; done\n");
  }

  LocalClusterOptions Options(const std::string& coordinator,
                              const std::string& worker) {
    return {.coordinator_binary = coordinator,
            .worker_binary = worker,
            .parameter_server_binary = worker,
            .run_dir = dir_.string(),
            .worker_threads = 3};
  }

  std::vector<std::string> Log(const std::string& name) {
    return LastLines(dir_ / (name + ".log"), 100);
  }

  const fs::path dir_;
};

TEST_F(LocalClusterTest, StartsACoordinatorAndWorkersAndStopsThem) {
  LocalCluster cluster(Options(GoodCoordinator(), GoodWorker()));
  const auto address = cluster.StartCoordinator(Ok);
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(*address, "127.0.0.1:77");
  ASSERT_TRUE(cluster.StartWorkers(*address, 2).ok());
  EXPECT_TRUE(cluster.Check(true).ok());
  while (Log("worker-1").empty() || Log("worker-0").empty())
    ASSERT_TRUE(cluster.Check(true).ok());
  EXPECT_THAT(Log("worker-1"),
              Contains("--coordinator=127.0.0.1:77 --name=worker-1 --threads=3 "
                       "--allow_read=/ --allow_write=/ --restart=always"));
  EXPECT_EQ(cluster.LogOf("worker-1"), (dir_ / "worker-1.log").string());
  EXPECT_EQ(cluster.LogOf("worker-10"), "");
  cluster.Stop();
  for (const auto& entry : fs::directory_iterator(dir_)) {
    EXPECT_FALSE(entry.is_directory()) << entry.path() << " is left behind";
  }
  EXPECT_THAT(Log("worker-0"), Contains("leaving"));
  EXPECT_THAT(Log("coordinator"), Contains("bye"));
}

TEST_F(LocalClusterTest, StartsWorkersAsSlotsOfOneProgram) {
  LocalClusterOptions options = Options(GoodCoordinator(), GoodWorker());
  options.worker_arguments = {"--device=cuda"};
  options.are_workers_slots = true;
  LocalCluster cluster(options);
  const auto address = cluster.StartCoordinator(Ok);
  ASSERT_TRUE(address.ok()) << address.status();
  ASSERT_TRUE(cluster.StartWorkers(*address, 4).ok());
  while (Log("worker-0").empty()) ASSERT_TRUE(cluster.Check(true).ok());
  EXPECT_THAT(Log("worker-0"),
              Contains("--coordinator=127.0.0.1:77 --name=worker-0 "
                       "--device=cuda --threads=3 --allow_read=/ --allow_write=/ "
                       "--slots=4 --restart=always"));
  EXPECT_EQ(cluster.LogOf("worker-1"), "");
}

TEST_F(LocalClusterTest, StartsParameterServersBesideTheWorkers) {
  LocalCluster cluster(Options(GoodCoordinator(), GoodWorker()));
  const auto address = cluster.StartCoordinator(Ok);
  ASSERT_TRUE(address.ok()) << address.status();
  ASSERT_TRUE(cluster.StartParameterServers(*address, 2).ok());
  ASSERT_TRUE(cluster.StartWorkers(*address, 1).ok());
  while (Log("server-1").empty() || Log("worker-0").empty())
    ASSERT_TRUE(cluster.Check(true).ok());
  EXPECT_THAT(Log("server-1"),
              Contains("--coordinator=127.0.0.1:77 --name=server-1 "
                       "--restart=always"));
  EXPECT_EQ(cluster.LogOf("server-1"), (dir_ / "server-1.log").string());
  cluster.Stop();
  EXPECT_THAT(Log("server-1"), Contains("leaving"));
}

TEST_F(LocalClusterTest, StartsWorkersThroughALauncherAndBeyondLoopback) {
  LocalClusterOptions options = Options(GoodCoordinator(), GoodWorker());
  options.listen_host = "127.0.0.2";
  options.launcher = [](int index) {
    return std::vector<std::string>{"/usr/bin/env",
                                    absl::StrCat("PLACE=", index)};
  };
  options.member_arguments = {"--more"};
  LocalCluster cluster(options);
  const auto address = cluster.StartCoordinator(Ok);
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(*address, "127.0.0.2:77");
  ASSERT_TRUE(cluster.StartWorkers(*address, 1).ok());
  while (Log("worker-0").empty()) ASSERT_TRUE(cluster.Check(true).ok());
  EXPECT_THAT(Log("worker-0"), Contains(HasSubstr("--more --insecure")));
  EXPECT_THAT(Log("coordinator"), Contains(HasSubstr("--insecure")));
}

TEST_F(LocalClusterTest, QuotesTheLogOfACoordinatorThatDoesNotStart) {
  LocalCluster cluster(Options(
      Script("coordinator", "echo 'error: bad state_dir' >&2; exit 2\n"),
      GoodWorker()));
  const absl::Status status = cluster.StartCoordinator(Ok).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the coordinator ended with exit code 2"));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("\n  error: bad state_dir"));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
}

TEST_F(LocalClusterTest, SaysThatTheLogIsEmpty) {
  LocalCluster cluster(
      Options(Script("coordinator", "exit 138\n"), GoodWorker()));
  const absl::Status status = cluster.StartCoordinator(Ok).status();
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("exit code 138; its log is empty (is the disk full?): "));
}

TEST_F(LocalClusterTest, GivesUpOnACoordinatorThatNeverListens) {
  LocalClusterOptions options =
      Options(Script("coordinator", "sleep 600\n"), GoodWorker());
  options.start_limit = absl::Milliseconds(50);
  LocalCluster cluster(options);
  const absl::Status status = cluster.StartCoordinator(Ok).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("did not listen within 50ms"));
}

TEST_F(LocalClusterTest, EndsTheStartWhenItIsInterrupted) {
  LocalCluster cluster(
      Options(Script("coordinator", "sleep 600\n"), GoodWorker()));
  EXPECT_EQ(
      cluster.StartCoordinator([] { return absl::CancelledError("stopped"); })
          .status()
          .code(),
      absl::StatusCode::kCancelled);
}

TEST_F(LocalClusterTest, TellsThatAWorkerEnded) {
  LocalCluster cluster(Options(
      GoodCoordinator(), Script("worker", "echo 'no such device'; exit 5\n")));
  ASSERT_TRUE(cluster.StartCoordinator(Ok).ok());
  ASSERT_TRUE(cluster.StartWorkers("127.0.0.1:77", 1).ok());
  absl::Status status;
  while (status.ok()) status = cluster.Check(true);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the worker-0 ended with exit code 5"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("no such device"));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUnreadable);
  EXPECT_TRUE(cluster.Check(false).ok());
}

TEST_F(LocalClusterTest, NeverTakesAnEarlyEndForSuccess) {
  LocalCluster cluster(
      Options(Script("coordinator", "exit 0\n"), GoodWorker()));
  EXPECT_EQ(ExitCodeOf(cluster.StartCoordinator(Ok).status()),
            ExitCode::kInternal);
}

TEST_F(LocalClusterTest, KillsWhatDoesNotEndPolitely) {
  LocalClusterOptions options =
      Options(GoodCoordinator(),
              Script("worker", "trap '' TERM\nwhile :; do sleep 0.01; done\n"));
  options.stop_limit = absl::Milliseconds(50);
  LocalCluster cluster(options);
  ASSERT_TRUE(cluster.StartCoordinator(Ok).ok());
  ASSERT_TRUE(cluster.StartWorkers("127.0.0.1:77", 1).ok());
  cluster.Stop();
  EXPECT_FALSE(cluster.Check(true).ok());
}

TEST_F(LocalClusterTest, SaysThatItCannotKeepState) {
  LocalClusterOptions options = Options(GoodCoordinator(), GoodWorker());
  options.run_dir = "/nonexistent";
  EXPECT_THAT(
      std::string(
          LocalCluster(options).StartCoordinator(Ok).status().message()),
      HasSubstr("cannot make the directory /nonexistent/state."));
}

TEST_F(LocalClusterTest, SaysThatAProgramIsMissing) {
  LocalCluster cluster(
      Options("/nonexistent/coordinator", "/nonexistent/worker"));
  EXPECT_EQ(cluster.StartCoordinator(Ok).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(cluster.StartWorkers("127.0.0.1:77", 1).code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace ringmaster::ctl
