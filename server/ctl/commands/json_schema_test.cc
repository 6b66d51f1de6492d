// Compares docs/json.md with the messages that `-o json` prints: a field's
// comment in the .proto file is its sentence. To write the tables anew:
//
//   REWRITE_TABLES=1 bazel run //server/ctl/commands:json_schema_test
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/protocol/testing/documented_api.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"

namespace ringmaster::ctl {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr char kDocument[] = "docs/json.md";
constexpr char kBegin[] = "<!-- messages -->\n";
constexpr char kEnd[] = "<!-- end of messages -->\n";
constexpr const char* kPrinted[] = {"Status",
                                    "Job",
                                    "ListJobsResponse",
                                    "ListEventsResponse",
                                    "ExplainJobResponse",
                                    "GetLogsResponse",
                                    "ListAuditResponse",
                                    "FlightRecord"};
// Its fields are in docs/jobs.md.
constexpr char kSpec[] = "ringmaster.v1.JobSpec";

std::string ElementOf(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "boolean";
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT64:
      return "integer, as a string";
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::StrCat(field.enum_type()->name(), ", a name as a string");
    case FieldDescriptor::CPPTYPE_STRING:
      return "string";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
    default:
      return "number";
  }
  const Descriptor& type = *field.message_type();
  if (type.full_name() == kSpec) return "[a job](jobs.md)";
  if (IsOfTheApi(field)) {
    return absl::StrCat("[", type.name(), "](#",
                        absl::AsciiStrToLower(type.name()), ")");
  }
  return absl::StrCat(type.name(), ", a string");
}

std::string TypeOf(const FieldDescriptor& field) {
  if (field.is_map()) return "object of strings";
  if (field.is_repeated()) return absl::StrCat("array of ", ElementOf(field));
  return absl::StrCat(ElementOf(field),
                      field.has_presence() ? "; may be absent" : "");
}

// `type`, and then the messages in it, each once.
void AddTypes(const Descriptor& type, std::vector<const Descriptor*>& types) {
  if (type.full_name() == kSpec ||
      std::find(types.begin(), types.end(), &type) != types.end())
    return;
  types.push_back(&type);
  for (int i = 0; i < type.field_count(); ++i) {
    if (IsOfTheApi(*type.field(i)) && !type.field(i)->is_map())
      AddTypes(*type.field(i)->message_type(), types);
  }
}

std::string Tables() {
  std::vector<const Descriptor*> types;
  for (const char* name : kPrinted) {
    const Descriptor* const type = DocumentedMessage(name);
    EXPECT_NE(type, nullptr) << name;
    if (type != nullptr) AddTypes(*type, types);
  }
  std::string tables;
  for (const Descriptor* const type : types) {
    absl::StrAppend(&tables, "\n### ", type->name(), "\n\n", CommentOf(*type),
                    "\n\n| Field | Type | Meaning |\n|---|---|---|\n");
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor& field = *type->field(i);
      absl::StrAppend(&tables, "| `", field.name(), "` | ", TypeOf(field),
                      " | ", CommentOf(field), " |\n");
    }
  }
  return absl::StrCat(tables, "\n");
}

TEST(JsonSchemaTest, TheDocumentHasEveryFieldThatIsPrinted) {
  const std::string document = ReadDocument(kDocument);
  const size_t begin = document.find(kBegin);
  const size_t end = document.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::string expected =
      absl::StrCat(document.substr(0, begin + sizeof(kBegin) - 1), Tables(),
                   document.substr(end));
  EXPECT_GT(expected.size(), 10'000u);
  ExpectDocument(kDocument, expected, "//server/ctl/commands:json_schema_test");
}

}  // namespace
}  // namespace ringmaster::ctl
