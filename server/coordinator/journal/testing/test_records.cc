#include "server/coordinator/journal/testing/test_records.h"

#include <string>

#include "common/status/check.h"
#include "google/protobuf/descriptor.h"
#include "server/coordinator/journal/record_proto.h"

namespace ringmaster::coordinator {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

const absl::Time kTime = absl::FromUnixNanos(1'700'000'000'123'456'789);

MemberIdentity SomeMember() {
  MemberIdentity member;
  member.rank = 1;
  member.local_rank = 1;
  member.worker = "w\"2\xC3\xA9";
  member.incarnation = 0xFEDCBA9876543210;
  member.host = "h1";
  member.host_key = "h1/net:4";
  member.container = "c1";
  member.pid = 4711;
  member.data_address = "[fe80::1]:9000";
  member.device = {v1::DEVICE_KIND_CUDA, 3};
  member.role = v1::ROLE_PARAMETER_SERVER;
  member.resume_key_hash = std::string("\0\xFF digest", 9);
  return member;
}

v1::Verdict SomeVerdict() {
  v1::Verdict verdict;
  FillFields(verdict);
  return verdict;
}

JobEndedRecord SomeEnd() {
  JobEndedRecord end;
  // If it were of the job of the others, less would be needed of those.
  end.job_id = "j-2";
  end.state = v1::JOB_STATE_SUCCEEDED;
  end.exit_code = 3;
  end.message = "all 100 steps are done";
  end.parameters_hash = 0xFFFFFFFFFFFFFFFF;
  end.verdict = SomeVerdict();
  FillFields(end.bench.emplace());
  FillFields(end.figures);
  FillFields(end.sample.emplace());
  end.time = kTime;
  return end;
}

// Another one for each field, and none its default.
int64_t NextNumber() {
  static int64_t last = 0;
  return ++last;
}

void SetField(Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  const bool is_list = field.is_repeated();
  const int64_t number = NextNumber();
  const auto set = [&](auto value, auto add, auto set_one) {
    is_list ? (reflection.*add)(&message, &field, value)
            : (reflection.*set_one)(&message, &field, value);
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return set(static_cast<int32_t>(number), &Reflection::AddInt32,
                 &Reflection::SetInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return set(number, &Reflection::AddInt64, &Reflection::SetInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return set(static_cast<uint32_t>(number), &Reflection::AddUInt32,
                 &Reflection::SetUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return set(static_cast<uint64_t>(number), &Reflection::AddUInt64,
                 &Reflection::SetUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return set(static_cast<double>(number) / 3, &Reflection::AddDouble,
                 &Reflection::SetDouble);
    case FieldDescriptor::CPPTYPE_BOOL:
      return set(true, &Reflection::AddBool, &Reflection::SetBool);
    case FieldDescriptor::CPPTYPE_STRING:
      return set("\"\n\xC3\xA9 " + std::to_string(number),
                 &Reflection::AddString, &Reflection::SetString);
    case FieldDescriptor::CPPTYPE_ENUM:
      // A value that is not the last would not show a reader that knows too few.
      return set(field.enum_type()->value(field.enum_type()->value_count() - 1),
                 &Reflection::AddEnum, &Reflection::SetEnum);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return FillFields(is_list ? *reflection.AddMessage(&message, &field)
                                : *reflection.MutableMessage(&message, &field));
    default:
      RM_CHECK(false, "a field has a type that no other has");
  }
}

}  // namespace

void FillFields(Message& message) {
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.real_containing_oneof() == nullptr) SetField(message, field);
  }
}

bool AreEqual(const JournalRecord& a, const JournalRecord& b) {
  return RecordToProto(a).SerializeAsString() ==
         RecordToProto(b).SerializeAsString();
}

namespace {

v1::QueueFile SomeQueues() {
  v1::QueueFile file;
  v1::QueueSpec& queue = *file.add_queues();
  queue.set_name("team");
  queue.set_workers(4);
  queue.set_most_workers(8);
  queue.add_submitters("alice");
  file.mutable_half_life()->set_seconds(3600);
  return file;
}

std::vector<JournalRecord> MakeOneOfEach() {
  JobCreatedRecord created;
  created.number = 1;
  created.id = "j-1";
  created.name = "j";
  created.spec = std::string("\0\xFF\x01spec", 7);
  created.request_id = "request 9";
  created.min_workers = 2;
  created.max_workers = 5;
  created.settle = absl::Milliseconds(750);
  created.total_steps = 101;
  created.keeps_checkpoints = true;
  created.is_benchmark = true;
  created.runs_commands = true;
  created.sharding = {.servers = 3,
                      .shards = 4,
                      .lanes = 2,
                      .replicas = 1,
                      .is_lockstep = false};
  created.owner = "alice";
  created.queue = "team";
  created.time = kTime;
  return {created,
          GenerationFormedRecord{
              7,
              "j-1",
              {SomeMember(), SomeMember()},
              33,
              kTime,
              true,
              {{.primary_rank = 2, .backup_rank = -1, .source_rank = 3}},
              {7, 4},
              /*formed_by=*/0xF00000000000000A},
          CancelRequestedRecord{"j-1", "enough", kTime},
          VerdictReachedRecord{"j-1", SomeVerdict()},
          SomeEnd(),
          HostQuarantinedRecord{"j-1", "h1/net:4", "h1",
                                "3 of 4 incidents within 10m",
                                kTime + absl::Minutes(10), kTime},
          HostQuarantinedRecord{"j-1", "h2/net:4", "h2", "no such file",
                                kTime + absl::Minutes(10), kTime,
                                /*is_of_job=*/true, /*exit_code=*/5,
                                /*is_unfit=*/true},
          AuditedRecord{
              kTime,
              {.name = "alice", .roles = "operator", .address = "10.0.0.7"},
              "cancel",
              "j-1",
              "request 9",
              "enough"},
          CordonedRecord{"h1",
                         /*is_lifted=*/false,
                         /*drains=*/true,
                         "kernel update",
                         kTime,
                         {.name = "alice", .roles = "", .address = ""},
                         kTime + absl::Hours(2)},
          JobChangedRecord{{-7, true, 2, 8, "team"},
                           "j-1",
                           "too warm",
                           kTime,
                           {.name = "alice", .roles = "", .address = ""}},
          JobSuspendedRecord{"j-1", 7, 40, true, kTime, true},
          QueuesChangedRecord{
              .file = SomeQueues(), .used = {{"team", 12.5}}, .time = kTime}};
}

}  // namespace

const std::vector<JournalRecord>& OneOfEach() {
  static const auto& records = *new std::vector<JournalRecord>(MakeOneOfEach());
  return records;
}

JournalRecord FormedRecord(int64_t generation) {
  return GenerationFormedRecord{generation, "j-1", {SomeMember()}, 0, kTime};
}

}  // namespace ringmaster::coordinator
