// Compares the tables of docs/jobs.md with the fields of job.proto: the comment
// of a field is the sentence that documents it, its rule has default and bounds.
// To write the tables anew, after a field has changed:
//
//   REWRITE_TABLES=1 bazel run //common/job:job_tables_test
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job/field_rules.h"
#include "common/protocol/testing/documented_api.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/field_rule.pb.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr char kDocument[] = "docs/jobs.md";
// A table stands between the two.
constexpr char kBegin[] = "<!-- fields of ";
constexpr char kEnd[] = "<!-- end of fields -->\n";

std::string DefaultOf(const FieldDescriptor& field) {
  const v1::FieldRule& rule = field.options().GetExtension(v1::rule);
  if (rule.required()) return "required";
  if (!rule.default_note().empty()) return rule.default_note();
  if (field.is_repeated()) {
    return rule.default_value().empty()
               ? "none"
               : absl::StrCat("[", rule.default_value(), "]");
  }
  if (!rule.default_value().empty()) return rule.default_value();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "false";
    case FieldDescriptor::CPPTYPE_STRING:
      return "none";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return rule.implied() ? "" : "none";
    default:
      return "0";
  }
}

// Returns the bounds of a list, a map or a text.
std::string SizeBounds(const FieldDescriptor& field,
                       const v1::FieldRule& rule) {
  const char* const unit = field.is_repeated() ? " entries" : " bytes";
  std::string text =
      rule.min_size() > 0
          ? absl::StrCat(rule.min_size(), " to ", rule.max_size(), unit)
          : absl::StrCat("at most ", rule.max_size(), unit);
  if (rule.has_at_least())
    absl::StrAppend(&text, ", each ", rule.at_least(), " to ", rule.at_most());
  return text;
}

// The bounds of a field, without those that say nothing: a least value of 0, and
// a greatest one that nobody reaches.
std::string BoundsOf(const FieldDescriptor& field) {
  constexpr double kNobodyReaches = 1e9;
  const v1::FieldRule& rule = field.options().GetExtension(v1::rule);
  if (rule.max_size() > 0) return SizeBounds(field, rule);
  const double least = rule.has_above() ? rule.above() : rule.at_least();
  const bool is_positive = least > 0 || rule.has_above();
  if (absl::EndsWith(field.name(), "_bytes") && rule.has_at_most()) {
    return absl::StrCat(least / (1 << 10), "KiB to ",
                        rule.at_most() / (1 << 30), "GiB");
  }
  if (rule.has_at_most() && rule.at_most() >= kNobodyReaches)
    return is_positive ? absl::StrCat("at least ", least) : "";
  const bool is_bounded =
      is_positive || rule.upper_case() != v1::FieldRule::UPPER_NOT_SET;
  return is_bounded ? BoundsText(field) : "";
}

// A table of all fields; messages among them have tables of their own.
std::string TableOf(const Descriptor& type) {
  std::string table =
      "| Field | Default | Bounds | Meaning |\n|---|---|---|---|\n";
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    absl::StrAppend(&table, "| `", field.name(), "` | ", DefaultOf(field),
                    " | ", BoundsOf(field), " | ", CommentOf(field), " |\n");
  }
  return table;
}

// `document` with the tables that its fields should have.
std::string WithTables(const std::string& document) {
  std::string result;
  size_t at = 0;
  while (true) {
    const size_t begin = document.find(kBegin, at);
    if (begin == std::string::npos) break;
    const size_t name = begin + std::string(kBegin).size();
    const size_t name_end = document.find(" -->\n", name);
    const size_t end = document.find(kEnd, name);
    EXPECT_NE(end, std::string::npos) << document.substr(begin, 80);
    if (end == std::string::npos) break;
    const std::string type_name = document.substr(name, name_end - name);
    const Descriptor* const type =
        google::protobuf::DescriptorPool::generated_pool()
            ->FindMessageTypeByName("ringmaster.v1." + type_name);
    EXPECT_NE(type, nullptr) << type_name;
    if (type == nullptr) break;
    absl::StrAppend(&result, document.substr(at, name_end + 5 - at),
                    TableOf(*type), kEnd);
    at = end + std::string(kEnd).size();
  }
  return result + document.substr(at);
}

TEST(JobTablesTest, TheDocumentHasEveryFieldsSentenceDefaultAndBounds) {
  ASSERT_NE(v1::JobSpec::descriptor(), nullptr);  // linked
  const std::string document = ReadDocument(kDocument);
  const std::string expected = WithTables(document);
  EXPECT_GT(expected.size(), 20'000u);
  ExpectDocument(kDocument, expected, "//common/job:job_tables_test");
}

// Adds `type` and the messages in it. One that has nothing but messages needs no
// table: each of them has its own.
void AddTypes(const Descriptor& type, std::set<const Descriptor*>& types) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (IsOfTheApi(field)) {
      AddTypes(*field.message_type(), types);
    } else {
      types.insert(&type);
    }
  }
}

TEST(JobTablesTest, EveryMessageOfAJobHasATable) {
  const std::string document = ReadDocument(kDocument);
  std::set<const Descriptor*> types;
  AddTypes(*v1::JobSpec::descriptor(), types);
  EXPECT_GT(types.size(), 20u);
  for (const Descriptor* const type : types) {
    EXPECT_TRUE(
        absl::StrContains(document, absl::StrCat(kBegin, type->name(), " -->")))
        << type->name();
  }
}

}  // namespace
}  // namespace ringmaster
