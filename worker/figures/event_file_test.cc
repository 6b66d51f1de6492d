#include "worker/figures/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/figures/testing/testing_files.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

// Returns what read_event_file.py prints of a file, and its exit status.
std::string Read(const std::string& path, int* exit_status) {
  const std::string command =
      absl::StrCat("python3 worker/figures/read_event_file.py ", path, " 2>&1");
  FILE* const pipe = popen(command.c_str(), "r");
  std::string text;
  for (int c = 0; (c = fgetc(pipe)) != EOF;) {
    text.push_back(static_cast<char>(c));
  }
  *exit_status = pclose(pipe);
  return text;
}

TEST(EventFileTest, AnotherReaderFindsWhatWasWritten) {
  const std::string directory = FreshDirectory();
  absl::StatusOr<EventFile> file =
      EventFile::Create(directory, "node1", 1700000000.25, 41);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->path(), directory + "/events.out.tfevents.1700000000.node1");
  const std::vector<ScalarFigure> figures = {{"train/loss", 3.5},
                                             {"speed/tokens", 200000}};
  file->AppendScalars(1700000001, 42, figures);
  const std::string poem(300, 'x');  // a length of two bytes
  file->AppendText(1700000002, 43, "sample", poem);
  EXPECT_EQ(ContentOf(file->path()), "");
  ASSERT_TRUE(file->Flush().ok());

  int exit_status = -1;
  EXPECT_EQ(Read(file->path(), &exit_status),
            absl::StrCat("t=1700000000.250 version=brain.Event:2\n"
                         "t=1700000000.250 step=42 session=1\n"
                         "t=1700000001.000 step=42 train/loss=3.5 "
                         "speed/tokens=200000\n"
                         "t=1700000002.000 step=43 sample='",
                         poem, "' dtype=7 shape=[1] plugin=text class=2\n"));
  EXPECT_EQ(exit_status, 0);
}

TEST(EventFileTest, TakesFewerStepsTheMoreThereAre) {
  const std::string directory = FreshDirectory();
  const auto create = [&] {
    return EventFile::Create(directory, "node1", 1700000000, 0,
                             /*bytes_per_rate=*/10'000, /*max_bytes=*/100'000);
  };
  absl::StatusOr<EventFile> file = create();
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->Takes(1));
  const std::string text(10'000, 'x');
  file->AppendText(1700000001, 1, "sample", text);
  EXPECT_FALSE(file->Takes(1));
  EXPECT_TRUE(file->Takes(2));
  ASSERT_TRUE(file->Flush().ok());
  file->AppendText(1700000001, 2, "sample", text);
  EXPECT_FALSE(file->Takes(2));
  EXPECT_TRUE(file->Takes(4));
  ASSERT_TRUE(file->Flush().ok());

  // The job starts again: those that are there count.
  absl::StatusOr<EventFile> next = create();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_FALSE(next->Takes(2));
  EXPECT_TRUE(next->Takes(4));
  for (int i = 0; i < 20; ++i) {
    next->AppendText(1700000001, 4 + i, "sample", text);
    ASSERT_TRUE(next->Flush().ok());
  }
  const size_t size =
      ContentOf(file->path()).size() + ContentOf(next->path()).size();
  EXPECT_GT(size, 80'000);
  EXPECT_LE(size, 100'000);
  EXPECT_FALSE(next->Takes(64));
}

// Shows that the reader above finds damage.
TEST(EventFileTest, TheOtherReaderSeesADamagedFile) {
  absl::StatusOr<EventFile> file =
      EventFile::Create(FreshDirectory(), "node1", 1700000000, 0);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Flush().ok());
  std::string content = ContentOf(file->path());
  content[20] ^= 1;
  WriteContent(file->path(), content);
  int exit_status = 0;
  EXPECT_EQ(Read(file->path(), &exit_status), "wrong checksum of a content\n");
  EXPECT_NE(exit_status, 0);
}

TEST(EventFileTest, RunsOfTheSameSecondHaveFilesOfTheirOwn) {
  const std::string directory = FreshDirectory();
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i) {
    const absl::StatusOr<EventFile> file =
        EventFile::Create(directory, "h", 5.0, 0);
    ASSERT_TRUE(file.ok()) << file.status();
    names.push_back(file->path().substr(directory.size()));
  }
  EXPECT_THAT(names, testing::ElementsAre("/events.out.tfevents.5.h",
                                          "/events.out.tfevents.5.h.1",
                                          "/events.out.tfevents.5.h.2"));
}

TEST(EventFileTest, AMissingDirectoryIsNamed) {
  const std::string directory = FreshDirectory() + "/missing";
  const absl::Status status =
      EventFile::Create(directory, "h", 5.0, 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(directory + "/events.out.tfevents.5.h"));
}

}  // namespace
}  // namespace ringmaster
