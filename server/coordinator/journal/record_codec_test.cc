#include "server/coordinator/journal/record_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "nlohmann/json.hpp"
#include "server/coordinator/journal/test_records.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::HasSubstr;

TEST(RecordCodecTest, EveryRecordComesBackAsItWas) {
  for (const JournalRecord& record : OneOfEach()) {
    SCOPED_TRACE(std::string(TypeOf(record)));
    const absl::StatusOr<JournalRecord> decoded = Decode(Encode(record));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_TRUE(*decoded == record);
  }
}

TEST(RecordCodecTest, EndWithoutVerdictOrHashComesBackWithout) {
  JobEndedRecord end;
  end.job_id = "j-1";
  end.state = JobState::kCancelled;
  end.time = absl::UnixEpoch();
  const absl::StatusOr<JournalRecord> decoded = Decode(Encode(end));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(*decoded == JournalRecord(end));
}

TEST(RecordCodecTest, LossThatIsNoNumberComesBack) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  JobEndedRecord end;
  end.time = absl::UnixEpoch();
  end.figures.loss = std::nan("");
  end.figures.gradient_norm = kInfinity;
  end.figures.evaluation_loss = -kInfinity;
  const absl::StatusOr<JournalRecord> decoded = Decode(Encode(end));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const TrainingFigures& figures = std::get<JobEndedRecord>(*decoded).figures;
  EXPECT_TRUE(std::isnan(figures.loss));
  EXPECT_EQ(figures.gradient_norm, kInfinity);
  EXPECT_EQ(figures.evaluation_loss, -kInfinity);
}

TEST(RecordCodecTest, AJobWithoutShardsIsWrittenAsBeforeThereWereAny) {
  JobCreatedRecord created;
  created.time = absl::UnixEpoch();
  const Row row = Encode(created);
  EXPECT_FALSE(nlohmann::json::parse(row.body).contains("sharding"));
  const absl::StatusOr<JournalRecord> decoded = Decode(row);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(*decoded == JournalRecord(created));
}

TEST(RecordCodecTest, FiguresOfTheFirstReleaseStillRead) {
  JobEndedRecord end;
  end.time = absl::UnixEpoch();
  end.figures.step = 7;
  end.figures.loss = 2.5;
  Row row = Encode(end);
  nlohmann::json body = nlohmann::json::parse(row.body);
  for (const char* key : {"targets_per_second", "model_flops_utilization",
                          "learning_rate", "phases", "payload_theory_bytes",
                          "checkpoint_step", "skipped_samples"}) {
    EXPECT_EQ(body.at("figures").erase(key), 1u) << key;
  }
  row.body = body.dump();
  row.checksum = ChecksumOf(row);
  const absl::StatusOr<JournalRecord> decoded = Decode(row);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(*decoded == JournalRecord(end));
}

TEST(RecordCodecTest, GenerationsOfTheFirstReleasesAreNoRollbacks) {
  Row row = Encode(FormedRecord(3));
  nlohmann::json body = nlohmann::json::parse(row.body);
  EXPECT_EQ(body.erase("is_rollback"), 1u);
  row.body = body.dump();
  row.checksum = ChecksumOf(row);
  const absl::StatusOr<JournalRecord> decoded = Decode(row);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(*decoded == FormedRecord(3));
}

TEST(RecordCodecTest, TextThatIsNotUtf8IsStillRecorded) {
  const JournalRecord record =
      CancelRequestedRecord{"j-1", "bad \xFF byte", absl::UnixEpoch()};
  const absl::StatusOr<JournalRecord> decoded = Decode(Encode(record));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_THAT(std::get<CancelRequestedRecord>(*decoded).reason,
              HasSubstr("bad "));
}

TEST(RecordCodecTest, AnyChangedColumnIsDetected) {
  const Row good = Encode(FormedRecord(3));
  std::vector<Row> bad(5, good);
  bad[0].type = "job_ended";
  bad[1].job_id += "x";
  bad[2].generation += 1;
  bad[3].body[10] ^= 1;
  bad[4].spec = "y";
  for (const Row& row : bad) {
    EXPECT_EQ(Decode(row).status().code(), absl::StatusCode::kDataLoss);
  }
}

// What a faulty writer would leave: checksums are right, contents are not.
absl::Status DecodeError(const std::string& type, const std::string& body) {
  Row row;
  row.type = type;
  row.body = body;
  row.checksum = ChecksumOf(row);
  return Decode(row).status();
}

TEST(RecordCodecTest, ContentsThatDoNotReadAreDataLossWithTheReason) {
  EXPECT_EQ(DecodeError("cancel_requested", "{").code(),
            absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(DecodeError("cancel_requested", "{}").message()),
              HasSubstr("key 'job_id' not found"));
  EXPECT_THAT(
      std::string(DecodeError("cancel_requested", "{\"job_id\":7}").message()),
      HasSubstr("type must be string"));
  EXPECT_THAT(std::string(DecodeError("surprise", "{}").message()),
              HasSubstr("its type \"surprise\" is unknown"));
}

}  // namespace
}  // namespace ringmaster::coordinator
