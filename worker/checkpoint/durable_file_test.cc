#include "worker/checkpoint/durable_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "common/fail_point/fail_point.h"
#include "worker/checkpoint/file_error.h"
#include "worker/checkpoint/input_file.h"
#include "worker/checkpoint/testing/test_files.h"
#include "xxhash.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

std::string PatternOf(size_t bytes) {
  std::string text(bytes, '\0');
  uint32_t state = 1;
  for (char& c : text) {
    state = state * 1664525 + 1013904223;
    c = static_cast<char>(state >> 24);
  }
  return text;
}

class DurableFileTest : public ::testing::Test {
 protected:
  ~DurableFileTest() override { FailPoint::DisarmAll(); }
  const std::string path_ = FreshDirectory() + "/file";
};

TEST_F(DurableFileTest, WritesAppendsOfAnySizeInOrder) {
  const std::string all = PatternOf(2 * DurableFile::kWriteBytes + 12345);
  absl::StatusOr<DurableFile> file = DurableFile::Create(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string_view view = all;
  ASSERT_TRUE(file->Append(view.substr(0, 3)).ok());
  ASSERT_TRUE(file->Append(view.substr(3, 0)).ok());
  ASSERT_TRUE(file->Append(view.substr(3, DurableFile::kWriteBytes)).ok());
  ASSERT_TRUE(file->Append(view.substr(3 + DurableFile::kWriteBytes)).ok());
  const absl::StatusOr<FileDigest> digest = file->Close();
  ASSERT_TRUE(digest.ok()) << digest.status();
  EXPECT_EQ(ReadFile(path_), all);
  EXPECT_EQ(digest->size_bytes, static_cast<int64_t>(all.size()));
  EXPECT_EQ(digest->hash, XXH3_64bits(all.data(), all.size()));
}

TEST_F(DurableFileTest, DigestHasAHashForEachBlock) {
  const std::string all = PatternOf(kDigestBlockBytes + 1000);
  absl::StatusOr<DurableFile> file = DurableFile::Create(path_);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Append(all).ok());
  const absl::StatusOr<FileDigest> digest = file->Close();
  ASSERT_TRUE(digest.ok());
  ASSERT_EQ(digest->block_hashes.size(), 2u);
  EXPECT_EQ(digest->block_hashes[0],
            XXH3_64bits(all.data(), kDigestBlockBytes));
  EXPECT_EQ(digest->block_hashes[1],
            XXH3_64bits(all.data() + kDigestBlockBytes, 1000));

  absl::StatusOr<InputFile> input = InputFile::Open(path_);
  ASSERT_TRUE(input.ok());
  EXPECT_TRUE(input->CheckAgainst(*digest).ok());
  FlipByte(path_, kDigestBlockBytes + 999);
  input = InputFile::Open(path_);
  const absl::Status status = input->CheckAgainst(*digest);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("bytes [16777216, 16778216)"));
}

TEST_F(DurableFileTest, EmptyFileHasNoBlocks) {
  absl::StatusOr<DurableFile> file = DurableFile::Create(path_);
  ASSERT_TRUE(file.ok());
  const absl::StatusOr<FileDigest> digest = file->Close();
  ASSERT_TRUE(digest.ok());
  EXPECT_TRUE(digest->block_hashes.empty());
  EXPECT_TRUE(InputFile::Open(path_)->CheckAgainst(*digest).ok());
}

TEST_F(DurableFileTest, DoesNotTouchAnExistingFile) {
  WriteFile(path_, "old");
  EXPECT_EQ(DurableFile::Create(path_).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReadFile(path_), "old");
}

TEST_F(DurableFileTest, EachFailPointEndsTheWrite) {
  for (const char* const name :
       {"checkpoint.open", "checkpoint.write", "checkpoint.fsync"}) {
    FailPoint::Arm(name, FailPoint::Action::kError);
    absl::Status status;
    absl::StatusOr<DurableFile> file = DurableFile::Create(path_ + name);
    status.Update(file.status());
    if (status.ok()) status.Update(file->Append("text"));
    if (status.ok()) status.Update(file->Close().status());
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << name;
    EXPECT_THAT(status.message(), HasSubstr(path_ + name));
    FailPoint::Disarm(name);
  }
  FailPoint::Arm("checkpoint.fsync_directory", FailPoint::Action::kError);
  EXPECT_EQ(SyncDirectory(FreshDirectory()).code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(DurableFileTest, ProgressIsThatOfEachWriteAndRead) {
  const std::string piece = PatternOf(DurableFile::kWriteBytes);
  const auto piece_bytes = static_cast<int64_t>(piece.size());
  DiskProgress progress;
  absl::StatusOr<DurableFile> file =
      DurableFile::Create(path_, /*cancel=*/nullptr, &progress);
  ASSERT_TRUE(file.ok()) << file.status();
  for (int64_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(file->Append(piece).ok());
    EXPECT_EQ(progress.bytes(), i * piece_bytes);
  }
  ASSERT_TRUE(file->Append("text").ok());
  const absl::StatusOr<FileDigest> digest = file->Close();
  ASSERT_TRUE(digest.ok()) << digest.status();
  EXPECT_EQ(progress.bytes(), digest->size_bytes);
  const auto input = InputFile::Open(path_, &progress);
  ASSERT_TRUE(input.ok()) << input.status();
  EXPECT_TRUE(input->CheckAgainst(*digest).ok());
  EXPECT_EQ(progress.bytes(), 2 * digest->size_bytes);
  EXPECT_EQ(input->ReadText(digest->size_bytes)->substr(2 * piece.size()),
            piece + "text");
  EXPECT_EQ(progress.bytes(), 3 * digest->size_bytes);
}

// Only a file of some pieces is waited for before its end.
TEST_F(DurableFileTest, ADiskThatFailsUnderWayEndsTheWrite) {
  FailPoint::Arm("checkpoint.writeback", FailPoint::Action::kError);
  absl::StatusOr<DurableFile> file = DurableFile::Create(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string piece = PatternOf(DurableFile::kWriteBytes);
  absl::Status status;
  for (int i = 0; i < 12 && status.ok(); ++i) status = file->Append(piece);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr(path_));
}

TEST_F(DurableFileTest, CancelEndsTheWrite) {
  CancelToken cancel;
  absl::StatusOr<DurableFile> file = DurableFile::Create(path_, &cancel);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Append("text").ok());
  cancel.Cancel("enough");
  EXPECT_EQ(file->Close().status().code(), absl::StatusCode::kAborted);
}

TEST(FileErrorTest, CodesSayWhatToDo) {
  const auto code = [](int errno_value) {
    return FileError("write", "/p", errno_value).code();
  };
  EXPECT_EQ(code(ENOSPC), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(EDQUOT), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(EACCES), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(EROFS), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(ENOENT), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(ENOTDIR), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code(EIO), absl::StatusCode::kUnavailable);
  EXPECT_EQ(FileError("write", "/p", EIO).message(),
            "cannot write /p: Input/output error");
}

TEST(InputFileTest, NamesWhatIsMissingOrTooMuch) {
  const std::string path = FreshDirectory() + "/file";
  WriteFile(path, "abc");
  const absl::StatusOr<InputFile> file = InputFile::Open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_THAT(file->CheckAgainst({5, 0, {0}}).message(),
              HasSubstr("bytes [3, 5) are missing"));
  EXPECT_THAT(file->CheckAgainst({2, 0, {0}}).message(),
              HasSubstr("bytes [2, 3) are too many"));
  EXPECT_EQ(file->ReadText(2).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*file->ReadText(3), "abc");
}

}  // namespace
}  // namespace ringmaster
