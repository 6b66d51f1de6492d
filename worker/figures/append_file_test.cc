#include "worker/figures/append_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>

#include "worker/figures/testing/testing_files.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

TEST(AppendFileTest, WritesAtFlushOnly) {
  const std::string path = FreshDirectory() + "/f";
  absl::StatusOr<AppendFile> file = AppendFile::Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  file->Append("one\n");
  file->Append("two\n");
  EXPECT_EQ(ContentOf(path), "");
  EXPECT_EQ(file->buffered_bytes(), 8u);
  ASSERT_TRUE(file->Flush().ok());
  EXPECT_EQ(ContentOf(path), "one\ntwo\n");
  EXPECT_EQ(file->buffered_bytes(), 0u);
}

TEST(AppendFileTest, WaitsForNoPipesReader) {
  const std::string path = FreshDirectory() + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0644), 0);
  const absl::Status status = AppendFile::OpenOrCreate(path).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("cannot open " + path + " to write"));
  const UniqueFd reader(open(path.c_str(), O_RDONLY | O_NONBLOCK));
  ASSERT_TRUE(reader.is_open());
  absl::StatusOr<AppendFile> file = AppendFile::OpenOrCreate(path);
  ASSERT_TRUE(file.ok()) << file.status();
  // More than a pipe holds: it waits for the reader.
  const std::string text(size_t{1} << 18, 'x');
  file->Append(text);
  std::thread flusher([&] { EXPECT_TRUE(file->Flush().ok()); });
  std::string got;
  std::array<char, 4096> piece;
  while (got.size() < text.size()) {
    const ssize_t count = read(reader.get(), piece.data(), piece.size());
    if (count > 0) got.append(piece.data(), static_cast<size_t>(count));
    if (count < 0) std::this_thread::yield();
  }
  flusher.join();
  EXPECT_EQ(got, text);
}

TEST(AppendFileTest, GoesOnWhereTheFileEnds) {
  const std::string path = FreshDirectory() + "/f";
  WriteContent(path, "one\ntwo\n");
  absl::StatusOr<AppendFile> file = AppendFile::TakeOver(path, 4);
  ASSERT_TRUE(file.ok()) << file.status();
  file->Append("three\n");
  ASSERT_TRUE(file->Flush().ok());
  EXPECT_EQ(ContentOf(path), "one\nthree\n");
}

// This is what happens to a rank that was stopped, replaced, and woke up.
TEST(AppendFileTest, WritesNoMoreOnceAnotherWriterHasTakenOver) {
  const std::string path = FreshDirectory() + "/f";
  absl::StatusOr<AppendFile> old = AppendFile::Create(path);
  ASSERT_TRUE(old.ok()) << old.status();
  old->Append("one\ntwo\n");
  ASSERT_TRUE(old->Flush().ok());
  old->Append("three\n");
  absl::StatusOr<AppendFile> next = AppendFile::TakeOver(path, 4);
  ASSERT_TRUE(next.ok()) << next.status();
  // The same holds before the other has written anything.
  const absl::Status status = old->Flush();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("was taken over"));
  next->Append("TWO\n");
  ASSERT_TRUE(next->Flush().ok());
  next->Append("THREE\n");
  ASSERT_TRUE(next->Flush().ok());
  old->Append("four\n");
  EXPECT_TRUE(old->Flush().ok()) << "it has said so";
  EXPECT_EQ(ContentOf(path), "one\nTWO\nTHREE\n");
}

TEST(AppendFileTest, CreateRefusesAFileThatIsThere) {
  const std::string path = FreshDirectory() + "/f";
  WriteContent(path, "precious");
  const absl::Status status = AppendFile::Create(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ContentOf(path), "precious");
}

TEST(AppendFileTest, AMissingDirectoryIsNamed) {
  const std::string path = FreshDirectory() + "/missing/f";
  const absl::Status status = AppendFile::OpenOrCreate(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  EXPECT_THAT(std::string(status.message()), HasSubstr("No such file"));
}

TEST(AppendFileTest, AFullDiskIsReportedOnceAndLeavesWholeUnits) {
  const std::string path = FreshDirectory() + "/f";
  absl::StatusOr<AppendFile> file = AppendFile::Create(path);
  ASSERT_TRUE(file.ok());
  const FullDisk disk(10);
  file->Append("12345\n");
  ASSERT_TRUE(file->Flush().ok());
  file->Append("abcdef\n");
  const absl::Status status = file->Flush();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  EXPECT_EQ(ContentOf(path), "12345\n");

  file->Append("x\n");  // there would be room for it
  EXPECT_TRUE(file->Flush().ok());
  EXPECT_EQ(ContentOf(path), "12345\n");
  EXPECT_EQ(file->buffered_bytes(), 0u);
}

TEST(AppendFileTest, SaysWhatTheSystemSaysOfAFullDisk) {
  absl::StatusOr<AppendFile> file = AppendFile::OpenOrCreate("/dev/full");
  ASSERT_TRUE(file.ok()) << file.status();
  file->Append("x");
  const absl::Status status = file->Flush();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(),
            "cannot write /dev/full, so it gets no more figures; training goes "
            "on: No space left on device");
}

TEST(AppendFileTest, WritesNoMoreOnceAnotherOneWritesTheSameFile) {
  const std::string path = FreshDirectory() + "/f";
  absl::StatusOr<AppendFile> file = AppendFile::Create(path);
  ASSERT_TRUE(file.ok()) << file.status();
  WriteContent(path, "another's\n");
  file->Append("one\n");
  EXPECT_THAT(std::string(file->Flush().message()),
              HasSubstr("another one writes"));
  EXPECT_EQ(ContentOf(path), "another's\n");
}

TEST(AppendFileTest, TakesOverTheFileBehindALink) {
  const std::string directory = FreshDirectory();
  WriteContent(directory + "/f", "one\ntwo\n");
  ASSERT_EQ(symlink("f", (directory + "/link").c_str()), 0);
  absl::StatusOr<AppendFile> file =
      AppendFile::TakeOver(directory + "/link", 4);
  ASSERT_TRUE(file.ok()) << file.status();
  file->Append("three\n");
  ASSERT_TRUE(file->Flush().ok());
  EXPECT_EQ(ContentOf(directory + "/f"), "one\nthree\n");
}

TEST(AppendFileTest, WhatCannotBeTakenOverIsNamed) {
  const std::string path = FreshDirectory() + "/f";
  EXPECT_THAT(std::string(AppendFile::TakeOver(path, 0).status().message()),
              HasSubstr("cannot read " + path));
  WriteContent(path, "one\n");
  EXPECT_THAT(std::string(AppendFile::TakeOver(path, 5).status().message()),
              HasSubstr("cannot take over " + path));
  EXPECT_EQ(ContentOf(path), "one\n");
}

}  // namespace
}  // namespace ringmaster
