#include "server/coordinator/journal/record_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "server/coordinator/journal/testing/test_records.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::HasSubstr;

TEST(RecordCodecTest, EveryRecordComesBackAsItWas) {
  for (const JournalRecord& record : OneOfEach()) {
    SCOPED_TRACE(std::string(TypeOf(record)));
    const absl::StatusOr<JournalRecord> decoded = Decode(Encode(record));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_TRUE(AreEqual(*decoded, record));
  }
}

TEST(RecordCodecTest, EndWithoutVerdictOrHashComesBackWithout) {
  JobEndedRecord end;
  end.job_id = "j-1";
  end.state = v1::JOB_STATE_CANCELLED;
  end.time = absl::UnixEpoch();
  const absl::StatusOr<JournalRecord> decoded = Decode(Encode(end));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(AreEqual(*decoded, JournalRecord(end)));
}

TEST(RecordCodecTest, LossThatIsNoNumberComesBack) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  JobEndedRecord end;
  end.time = absl::UnixEpoch();
  end.figures.set_loss(std::nan(""));
  end.figures.set_gradient_norm(kInfinity);
  end.figures.set_evaluation_loss(-kInfinity);
  const absl::StatusOr<JournalRecord> decoded = Decode(Encode(end));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const v1::TrainingFigures& figures =
      std::get<JobEndedRecord>(*decoded).figures;
  EXPECT_TRUE(std::isnan(figures.loss()));
  EXPECT_EQ(figures.gradient_norm(), kInfinity);
  EXPECT_EQ(figures.evaluation_loss(), -kInfinity);
}

TEST(RecordCodecTest, TextThatIsNotUtf8IsStillRecorded) {
  const JournalRecord record =
      CancelRequestedRecord{"j-1", "bad \xFF byte", absl::UnixEpoch()};
  const absl::StatusOr<JournalRecord> decoded = Decode(Encode(record));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(std::get<CancelRequestedRecord>(*decoded).reason,
              HasSubstr("bad "));
}

TEST(RecordCodecTest, ChecksumTellsAnyChangedColumnAndTheNumber) {
  const Row good = Encode(FormedRecord(3));
  std::vector<Row> bad(5, good);
  bad[0].type = "job_ended";
  bad[1].job_id += "x";
  bad[2].generation += 1;
  bad[3].body[10] ^= 1;
  bad[4].spec = "y";
  for (const Row& row : bad) {
    EXPECT_NE(ChecksumOf(7, row), ChecksumOf(7, good));
    EXPECT_NE(UnnumberedChecksumOf(row), UnnumberedChecksumOf(good));
  }
  EXPECT_NE(ChecksumOf(8, good), ChecksumOf(7, good));
}

// Decodes what a faulty writer would leave.
absl::Status DecodeError(const std::string& type, const std::string& body) {
  Row row;
  row.type = type;
  row.body = body;
  return Decode(row).status();
}

TEST(RecordCodecTest, ContentsThatDoNotReadAreDataLossWithTheReason) {
  EXPECT_EQ(DecodeError("cancel_requested", "\x1A").code(),
            absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(DecodeError("cancel_requested", "\x1A").message()),
              HasSubstr("its body is malformed"));
  // A record of a later version: field 15.
  EXPECT_THAT(
      std::string(
          DecodeError("surprise", std::string("\x7A\x00", 2)).message()),
      HasSubstr("its type \"surprise\" is unknown"));
  EXPECT_EQ(DecodeError("a\n" + std::string(99, 'x'), std::string("\x7A\0", 2))
                .message(),
            "its type \"a\\n" + std::string(78, 'x') + "\" is unknown");
}

}  // namespace
}  // namespace ringmaster::coordinator
