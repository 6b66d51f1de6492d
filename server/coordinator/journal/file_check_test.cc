#include "server/coordinator/journal/file_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::HasSubstr;

constexpr size_t kHeader = 32;
constexpr size_t kPage = 512;
constexpr size_t kFrame = 24 + kPage;

// Writes logs as SQLite's description has them, with small pages.
class LogWriter {
 public:
  explicit LogWriter(uint32_t salt, bool is_big_endian = true)
      : salt_(salt), is_big_endian_(is_big_endian) {
    Put(0x377f0682 + (is_big_endian ? 1 : 0));
    for (uint32_t word : {3007000u, uint32_t{kPage}, 0u, salt, ~salt})
      Put(word);
    Sum(0, 24);
    Put(first_);
    Put(second_);
  }

  // Adds a frame; a commit leaves a database of `pages`, 0 is none.
  LogWriter& Add(uint32_t pages) {
    const size_t begin = log_.size();
    Put(2);
    Put(pages);
    Put(salt_);
    Put(~salt_);
    Put(0);
    Put(0);
    for (size_t i = 0; i < kPage; ++i) {
      log_ += static_cast<char>(i * 7 + begin / kFrame * 31);
    }
    Sum(begin, 8);
    Sum(begin + 24, kPage);
    PutAt(begin + 16, first_);
    PutAt(begin + 20, second_);
    return *this;
  }

  // Goes on from where a commit failed: the frames from `frame` on are written
  // over.
  std::string Over(const std::string& older) const {
    return log_ + older.substr(std::min(older.size(), log_.size()));
  }

  const std::string& log() const { return log_; }

 private:
  void Put(uint32_t word) {
    log_.append(4, '\0');
    PutAt(log_.size() - 4, word);
  }
  void PutAt(size_t at, uint32_t word) {
    for (size_t i = 0; i < 4; ++i) {
      log_[at + i] = static_cast<char>(word >> (24 - 8 * i));
    }
  }
  uint32_t Word(size_t at) const {
    uint32_t word = 0;
    for (size_t i = 0; i < 4; ++i) {
      const size_t from = is_big_endian_ ? i : 3 - i;
      word = word << 8 | static_cast<uint8_t>(log_[at + from]);
    }
    return word;
  }
  void Sum(size_t begin, size_t size) {
    for (size_t at = begin; at < begin + size; at += 8) {
      first_ += Word(at) + second_;
      second_ += Word(at + 4) + first_;
    }
  }

  const uint32_t salt_;
  const bool is_big_endian_;
  uint32_t first_ = 0;
  uint32_t second_ = 0;
  std::string log_;
};

// Two commits of one frame, one of two, one of one.
std::string FourCommits(bool is_big_endian = true) {
  return LogWriter(7, is_big_endian).Add(2).Add(2).Add(0).Add(3).Add(3).log();
}

std::string Flipped(std::string bytes, size_t at, int bit = 0) {
  bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
  return bytes;
}

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message());
}

TEST(CheckLogTest, WholeLogIsGood) {
  EXPECT_TRUE(CheckLog("").ok());
  for (bool is_big_endian : {false, true}) {
    EXPECT_EQ(CheckLog(FourCommits(is_big_endian)), absl::OkStatus());
  }
}

TEST(CheckLogTest, EveryFlippedBitIsFoundInItsFrame) {
  for (bool is_big_endian : {false, true}) {
    const std::string log = FourCommits(is_big_endian);
    for (size_t at = 0; at < log.size(); ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        const absl::Status status = CheckLog(Flipped(log, at, bit));
        ASSERT_TRUE(absl::IsDataLoss(status)) << at << " " << bit;
        ASSERT_THAT(MessageOf(status),
                    HasSubstr(at < kHeader
                                  ? std::string("its header")
                                  : absl::StrCat("frame ",
                                                 (at - kHeader) / kFrame + 1)));
      }
    }
  }
}

TEST(CheckLogTest, FlippedBitIsNamedByItsByte) {
  const std::string log = FourCommits();
  // The page number, the salts, the checksum, the page: of the last frame. (Its
  // last word and its checksum look alike.)
  for (size_t inside : {3, 5, 9, 15, 16, 23, 24, 300, 500}) {
    const size_t at = log.size() - kFrame + inside;
    EXPECT_EQ(MessageOf(CheckLog(Flipped(log, at))),
              absl::StrCat("frame 5, at byte ", log.size() - kFrame,
                           ": a bit of byte ", at, " is flipped"));
  }
}

TEST(CheckLogTest, LogThatEndsAnywhereIsGood) {
  const std::string log = FourCommits();
  for (size_t size = 0; size <= log.size(); ++size) {
    ASSERT_TRUE(CheckLog(log.substr(0, size)).ok()) << size;
  }
}

TEST(CheckLogTest, LastCommitThatWasNotWrittenAltogetherIsNoDamage) {
  // A power failure before its sync: any part of what is in it may be missing,
  // also one before another that is there.
  const std::string log = LogWriter(7).Add(2).Add(0).Add(0).Add(4).log();
  for (size_t begin = kHeader + kFrame; begin < log.size(); begin += 128) {
    for (size_t size : {128, 512, 1000}) {
      std::string torn = log;
      size = std::min(size, log.size() - begin);
      torn.replace(begin, size, size, '\0');
      EXPECT_EQ(CheckLog(torn), absl::OkStatus()) << begin << " " << size;
    }
  }
}

TEST(CheckLogTest, CommitThatIsMissingBeforeALaterOneIsDamage) {
  std::string log = FourCommits();
  log.replace(kHeader + kFrame, kFrame, kFrame, '\0');
  EXPECT_EQ(MessageOf(CheckLog(log)),
            absl::StrCat("frame 2, at byte ", kHeader + kFrame,
                         ", does not match its checksum, and later commits are "
                         "behind it"));
}

TEST(CheckLogTest, DamageOfManyBitsBeforeTheLastCommitIsFound) {
  for (size_t frame : {0, 1, 2, 3}) {
    for (size_t inside : {0, 16, 24, 200}) {
      std::string log = FourCommits();
      log.replace(kHeader + frame * kFrame + inside, 8, "damaged!");
      EXPECT_THAT(MessageOf(CheckLog(log)),
                  HasSubstr(absl::StrCat("frame ", frame + 1, ",")))
          << inside;
    }
  }
}

TEST(CheckLogTest, FramesOfBeforeTheLogWasBegunAnewAreNoDamage) {
  const std::string older = FourCommits();
  for (int count = 0; count <= 5; ++count) {
    LogWriter writer(8);
    for (int i = 0; i < count; ++i) writer.Add(9);
    const std::string log = writer.Over(older);
    EXPECT_EQ(CheckLog(log), absl::OkStatus()) << count;
    for (size_t at = writer.log().size(); at < log.size(); at += 50) {
      EXPECT_EQ(CheckLog(Flipped(log, at)), absl::OkStatus()) << at;
    }
    for (size_t at = kHeader; at < writer.log().size(); at += 3) {
      EXPECT_TRUE(absl::IsDataLoss(CheckLog(Flipped(log, at)))) << at;
    }
  }
}

TEST(CheckLogTest, WhatFailedCommitsLeftBehindIsNoDamage) {
  // A long commit fails at its sync, a shorter one over its beginning too, and
  // then one succeeds.
  const std::string longest =
      LogWriter(7).Add(2).Add(0).Add(0).Add(0).Add(0).Add(4).log();
  const std::string shorter = LogWriter(7).Add(2).Add(0).Add(0).Add(3).log() +
                              longest.substr(kHeader + 4 * kFrame);
  const std::string log =
      LogWriter(7).Add(2).Add(1).log() + shorter.substr(kHeader + 2 * kFrame);
  EXPECT_EQ(CheckLog(log), absl::OkStatus());
}

TEST(CheckDatabaseHeaderTest, NamesTheByteThatNoJournalHas) {
  std::string header = std::string("SQLite format 3\0", 16);
  header += std::string("\x10\x00\x02\x02\x00\x40\x20\x20", 8);
  header += std::string(20, '\0');
  header += std::string("\0\0\0\4\0\0\0\0\0\0\0\0\0\0\0\1", 16);
  header.resize(100);
  EXPECT_EQ(CheckDatabaseHeader(header), absl::OkStatus());
  EXPECT_EQ(CheckDatabaseHeader(""), absl::OkStatus());
  EXPECT_EQ(MessageOf(CheckDatabaseHeader(header.substr(0, 99))),
            "it ends at byte 99, in its header");
  EXPECT_EQ(MessageOf(CheckDatabaseHeader(Flipped(header, 3))),
            "byte 3 is not that of a SQLite database");
  EXPECT_EQ(MessageOf(CheckDatabaseHeader(Flipped(header, 18))),
            "byte 18 of its header (the format for writing) is 3");
  for (size_t at : {16, 17, 18, 19, 20, 21, 22, 23, 44, 47, 58, 72, 91}) {
    EXPECT_TRUE(absl::IsDataLoss(CheckDatabaseHeader(Flipped(header, at))))
        << at;
  }
  // The size, the counters.
  for (size_t at : {24, 31, 92, 99}) {
    EXPECT_TRUE(CheckDatabaseHeader(Flipped(header, at)).ok()) << at;
  }
}

class CheckFilesTest : public ::testing::Test {
 protected:
  CheckFilesTest() {
    std::string directory = ::testing::TempDir() + "/XXXXXX";
    path_ = absl::StrCat(mkdtemp(directory.data()), "/journal.sqlite3");
  }
  void Write(const std::string& suffix, const std::string& bytes) const {
    std::ofstream(path_ + suffix, std::ios::binary) << bytes;
  }
  std::string path_;
};

TEST_F(CheckFilesTest, MissingFilesAreFine) {
  EXPECT_EQ(CheckFiles(path_), absl::OkStatus());
}

TEST_F(CheckFilesTest, DamageIsNamedWithItsFile) {
  Write("", std::string(200, 'x'));
  EXPECT_EQ(MessageOf(CheckFiles(path_)),
            absl::StrCat(path_, ": byte 0 is not that of a SQLite database"));
}

TEST_F(CheckFilesTest, DatabaseThatSqliteIsToRollBackIsNotLookedAt) {
  Write("", std::string(200, 'x'));
  Write("-journal", "x");
  EXPECT_EQ(CheckFiles(path_), absl::OkStatus());
}

TEST_F(CheckFilesTest, LogWithoutADatabaseIsDamage) {
  Write("", "");
  Write("-wal", FourCommits());
  EXPECT_EQ(MessageOf(CheckFiles(path_)),
            absl::StrCat(path_, ": it is empty, and its log is not"));
}

TEST_F(CheckFilesTest, FileThatCannotBeReadIsNotPassedOver) {
  ASSERT_EQ(mkdir((path_ + "-wal").c_str(), 0700), 0);
  const absl::Status status = CheckFiles(path_);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(status), HasSubstr(path_ + "-wal cannot be read: "));
}

}  // namespace
}  // namespace ringmaster::coordinator
