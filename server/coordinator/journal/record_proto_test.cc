#include "server/coordinator/journal/record_proto.h"

#include <gtest/gtest.h>

#include <optional>
#include <variant>

#include "google/protobuf/descriptor.h"
#include "ringmaster/v1/job.pb.h"
#include "server/coordinator/journal/testing/test_records.h"

namespace ringmaster::coordinator {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// A field that is added to a message and forgotten in record_proto.cc fails this.
TEST(RecordProtoTest, EveryFieldOfEveryRecordComesBack) {
  const Descriptor& type = *v1::JournalRecord::descriptor();
  ASSERT_EQ(type.field_count(), type.oneof_decl(0)->field_count());
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    SCOPED_TRACE(field.name());
    v1::JournalRecord proto;
    FillFields(*proto.GetReflection()->MutableMessage(&proto, &field));
    const std::optional<JournalRecord> record = RecordFromProto(proto);
    ASSERT_TRUE(record.has_value());
    EXPECT_EQ(RecordToProto(*record).DebugString(), proto.DebugString());
    EXPECT_EQ(TypeOf(*record), field.name());
  }
}

TEST(RecordProtoTest, ARecordOfALaterVersionIsNone) {
  EXPECT_FALSE(RecordFromProto(v1::JournalRecord()).has_value());
}

TEST(RecordProtoTest, WhetherAWriteErrorEndsAJobFollowsFromItsSpec) {
  v1::JobSpec spec;
  v1::CheckpointSpec& checkpoint = *spec.mutable_train()->mutable_checkpoint();
  checkpoint.set_directory("/ckpt");
  const auto fails = [&spec] {
    v1::JournalRecord proto;
    proto.mutable_job_created()->set_spec(spec.SerializeAsString());
    return std::get<JobCreatedRecord>(*RecordFromProto(proto))
        .fails_on_write_error;
  };
  EXPECT_FALSE(fails());
  checkpoint.set_on_error(v1::WRITE_ERROR_POLICY_FAIL);
  EXPECT_TRUE(fails());
  checkpoint.clear_directory();
  EXPECT_FALSE(fails());
}

TEST(RecordProtoTest, WhetherAJobMayEndEarlyFollowsFromItsSpec) {
  v1::JobSpec spec;
  spec.mutable_train()->mutable_early_stop()->set_patience(3);
  v1::JournalRecord proto;
  proto.mutable_job_created()->set_spec(spec.SerializeAsString());
  EXPECT_TRUE(
      std::get<JobCreatedRecord>(*RecordFromProto(proto)).can_end_early);
}

TEST(RecordProtoTest, TextsThatAreNotUtf8AreMadeFit) {
  JobEndedRecord end;
  end.message = "bad \xFF byte";
  end.verdict.emplace().add_evidence()->set_detail("\xC3");
  const v1::JournalRecord proto = RecordToProto(end);
  EXPECT_EQ(proto.job_ended().message(), "bad \xEF\xBF\xBD byte");
  EXPECT_EQ(proto.job_ended().verdict().evidence(0).detail(), "\xEF\xBF\xBD");
  v1::JournalRecord read;
  EXPECT_TRUE(read.ParseFromString(proto.SerializeAsString()));
}

}  // namespace
}  // namespace ringmaster::coordinator
