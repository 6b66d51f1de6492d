// Holds the API's protos to what was released: programs of another release, and files
// that they wrote, must be read, in binary and as JSON. The rules are those of buf's
// category WIRE_JSON (https://buf.build/docs/breaking/rules), without buf, and that a
// field keeps its default; for each it is shown that breaking it is noticed.
//
// testdata/released.protoset is the API of the last release. A release replaces it:
//   cd proto && protoc --include_imports ringmaster/v1/*.proto
//     --descriptor_set_out=ringmaster/v1/testdata/released.protoset
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/field_rule.pb.h"

namespace ringmaster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::DescriptorProto;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumDescriptorProto;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptor;
using google::protobuf::FileDescriptorProto;
using google::protobuf::FileDescriptorSet;
using google::protobuf::MethodDescriptor;
using google::protobuf::OneofDescriptor;
using google::protobuf::ServiceDescriptor;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Types that share a representation in binary and as JSON.
int TypeFamily(const FieldDescriptor& field) {
  switch (field.type()) {
    case FieldDescriptor::TYPE_UINT32:
    case FieldDescriptor::TYPE_INT32:
      return FieldDescriptor::TYPE_INT32;
    case FieldDescriptor::TYPE_UINT64:
    case FieldDescriptor::TYPE_INT64:
      return FieldDescriptor::TYPE_INT64;
    default:
      return field.type();
  }
}

std::string ValueType(const FieldDescriptor& field) {
  if (field.type() == FieldDescriptor::TYPE_MESSAGE)
    return field.message_type()->full_name();
  if (field.type() == FieldDescriptor::TYPE_ENUM)
    return field.enum_type()->full_name();
  return absl::StrCat("type ", TypeFamily(field));
}

std::string OneofName(const FieldDescriptor& field) {
  const OneofDescriptor* oneof = field.real_containing_oneof();
  return oneof == nullptr ? "" : oneof->name();
}

const std::string& DefaultOf(const FieldDescriptor& field) {
  return field.options().GetExtension(v1::rule).default_value();
}

// Collects what of the released API today's has broken, as "RULE: element".
class Compatibility {
 public:
  explicit Compatibility(const DescriptorPool& today) : today_(today) {}

  void Visit(const FileDescriptor& released) {
    for (int i = 0; i < released.message_type_count(); ++i)
      VisitMessage(*released.message_type(i));
    for (int i = 0; i < released.enum_type_count(); ++i)
      VisitEnum(*released.enum_type(i));
    for (int i = 0; i < released.service_count(); ++i)
      VisitService(*released.service(i));
  }

  const std::vector<std::string>& breaches() const { return breaches_; }

 private:
  void Expect(bool holds, const char* rule, const std::string& element) {
    if (!holds) breaches_.push_back(absl::StrCat(rule, ": ", element));
  }

  // Reserved names and numbers of a message or an enum stay reserved.
  template <typename Released, typename IsReservedNumber>
  void VisitReserved(const Released& released, const Released& today,
                     const IsReservedNumber& is_reserved) {
    for (int i = 0; i < released.reserved_name_count(); ++i) {
      Expect(
          today.IsReservedName(released.reserved_name(i)), "RESERVED_NO_DELETE",
          absl::StrCat(released.full_name(), ".", released.reserved_name(i)));
    }
    for (int i = 0; i < released.reserved_range_count(); ++i) {
      Expect(is_reserved(*released.reserved_range(i)), "RESERVED_NO_DELETE",
             absl::StrCat(released.full_name(), " ",
                          released.reserved_range(i)->start));
    }
  }

  void VisitMessage(const Descriptor& released) {
    const Descriptor* today =
        today_.FindMessageTypeByName(released.full_name());
    Expect(today != nullptr, "MESSAGE_NO_DELETE", released.full_name());
    if (today == nullptr) return;
    VisitReserved(released, *today,
                  [today](const Descriptor::ReservedRange& range) {
                    // Its end is not in it.
                    return today->IsReservedNumber(range.start) &&
                           today->IsReservedNumber(range.end - 1);
                  });
    for (int i = 0; i < released.field_count(); ++i)
      VisitField(*released.field(i), *today);
    for (int i = 0; i < released.nested_type_count(); ++i)
      VisitMessage(*released.nested_type(i));
    for (int i = 0; i < released.enum_type_count(); ++i)
      VisitEnum(*released.enum_type(i));
  }

  void VisitField(const FieldDescriptor& released, const Descriptor& message) {
    const FieldDescriptor* today = message.FindFieldByNumber(released.number());
    if (today == nullptr) {
      Expect(message.IsReservedNumber(released.number()) &&
                 message.IsReservedName(released.name()),
             "FIELD_NO_DELETE_UNLESS_RESERVED", released.full_name());
      return;
    }
    const std::string& name = released.full_name();
    Expect(today->name() == released.name(), "FIELD_SAME_NAME", name);
    Expect(today->json_name() == released.json_name(), "FIELD_SAME_JSON_NAME",
           name);
    Expect(ValueType(*today) == ValueType(released), "FIELD_SAME_TYPE", name);
    Expect(today->is_repeated() == released.is_repeated() &&
               today->is_map() == released.is_map() &&
               today->has_presence() == released.has_presence(),
           "FIELD_SAME_CARDINALITY", name);
    Expect(OneofName(*today) == OneofName(released), "FIELD_SAME_ONEOF", name);
    // Ranks agree on, and checkpoints keep, jobs without their defaults.
    Expect(
        DefaultOf(released).empty() || DefaultOf(*today) == DefaultOf(released),
        "FIELD_SAME_DEFAULT", name);
  }

  void VisitEnum(const EnumDescriptor& released) {
    const EnumDescriptor* today =
        today_.FindEnumTypeByName(released.full_name());
    Expect(today != nullptr, "ENUM_NO_DELETE", released.full_name());
    if (today == nullptr) return;
    VisitReserved(released, *today,
                  [today](const EnumDescriptor::ReservedRange& range) {
                    return today->IsReservedNumber(range.start) &&
                           today->IsReservedNumber(range.end);
                  });
    for (int i = 0; i < released.value_count(); ++i) {
      const EnumValueDescriptor& value = *released.value(i);
      const EnumValueDescriptor* same =
          today->FindValueByNumber(value.number());
      if (same == nullptr) {
        Expect(today->IsReservedNumber(value.number()) &&
                   today->IsReservedName(value.name()),
               "ENUM_VALUE_NO_DELETE_UNLESS_RESERVED", value.full_name());
      } else {
        Expect(same->name() == value.name(), "ENUM_VALUE_SAME_NAME",
               value.full_name());
      }
    }
  }

  void VisitService(const ServiceDescriptor& released) {
    const ServiceDescriptor* today =
        today_.FindServiceByName(released.full_name());
    Expect(today != nullptr, "SERVICE_NO_DELETE", released.full_name());
    if (today == nullptr) return;
    for (int i = 0; i < released.method_count(); ++i)
      VisitMethod(*released.method(i), *today);
  }

  void VisitMethod(const MethodDescriptor& released,
                   const ServiceDescriptor& service) {
    const MethodDescriptor* today = service.FindMethodByName(released.name());
    const std::string& name = released.full_name();
    Expect(today != nullptr, "RPC_NO_DELETE", name);
    if (today == nullptr) return;
    Expect(
        today->input_type()->full_name() == released.input_type()->full_name(),
        "RPC_SAME_REQUEST_TYPE", name);
    Expect(today->output_type()->full_name() ==
               released.output_type()->full_name(),
           "RPC_SAME_RESPONSE_TYPE", name);
    Expect(today->client_streaming() == released.client_streaming() &&
               today->server_streaming() == released.server_streaming(),
           "RPC_SAME_STREAMING", name);
  }

  const DescriptorPool& today_;
  std::vector<std::string> breaches_;
};

FileDescriptorSet Read(const std::string& name) {
  FileDescriptorSet set;
  std::ifstream in("proto/ringmaster/v1/" + name, std::ios::binary);
  EXPECT_TRUE(set.ParseFromIstream(&in)) << "cannot read " << name;
  return set;
}

// Returns what `today` breaks of `released`; neither imports what is not in it.
std::vector<std::string> Breaches(const FileDescriptorSet& released,
                                  const FileDescriptorSet& today) {
  DescriptorPool released_pool;
  DescriptorPool today_pool;
  for (const FileDescriptorProto& file : today.file())
    EXPECT_NE(today_pool.BuildFile(file), nullptr) << file.name();
  Compatibility compatibility(today_pool);
  for (const FileDescriptorProto& file : released.file()) {
    const FileDescriptor* built = released_pool.BuildFile(file);
    EXPECT_NE(built, nullptr) << file.name();
    if (built != nullptr && !absl::StartsWith(file.name(), "google/protobuf/"))
      compatibility.Visit(*built);
  }
  return compatibility.breaches();
}

TEST(CompatibilityTest, TodaysApiReadsAndIsReadByTheReleasedOne) {
  const FileDescriptorSet released = Read("testdata/released.protoset");
  EXPECT_GE(released.file_size(), 8);
  std::vector<std::string> breaches = Breaches(released, Read("api.protoset"));
  // No release had such a field: it was reserved for what it is now.
  std::erase_if(breaches, [](const std::string& breach) {
    return breach == "RESERVED_NO_DELETE: ringmaster.v1.JobSpec.external" ||
           breach == "RESERVED_NO_DELETE: ringmaster.v1.JobSpec 5";
  });
  EXPECT_THAT(breaches, IsEmpty()) << absl::StrJoin(breaches, "\n");
}

FileDescriptorSet Released() {
  FileDescriptorSet set;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        name: "lamp/v1/lamp.proto"
        package: "lamp.v1"
        syntax: "proto3"
        message_type {
          name: "LightRequest"
          field {
            name: "lamp"
            number: 1
            type: TYPE_STRING
            label: LABEL_OPTIONAL
            oneof_index: 0
          }
          field {
            name: "watts"
            number: 2
            type: TYPE_INT32
            label: LABEL_OPTIONAL
            options {
              [ringmaster.v1.rule] { default_value: "40" }
            }
          }
          oneof_decl { name: "which" }
          reserved_range { start: 5 end: 8 }
          reserved_name: "volts"
        }
        message_type { name: "LightResponse" }
        enum_type {
          name: "Color"
          value { name: "COLOR_UNSPECIFIED" number: 0 }
          value { name: "COLOR_RED" number: 1 }
          reserved_range { start: 4 end: 4 }
        }
        service {
          name: "LampService"
          method {
            name: "Light"
            input_type: ".lamp.v1.LightRequest"
            output_type: ".lamp.v1.LightResponse"
          }
        }
      )pb",
      set.add_file()));
  return set;
}

struct Change {
  const char* rule;
  std::function<void(FileDescriptorProto&)> make;
};

std::vector<std::string> BreachesOf(const Change& change) {
  FileDescriptorSet today = Released();
  change.make(*today.mutable_file(0));
  return Breaches(Released(), today);
}

DescriptorProto& RequestOf(FileDescriptorProto& file) {
  return *file.mutable_message_type(0);
}

FieldDescriptorProto& WattsOf(FileDescriptorProto& file) {
  return *RequestOf(file).mutable_field(1);
}

EnumDescriptorProto& ColorOf(FileDescriptorProto& file) {
  return *file.mutable_enum_type(0);
}

void RemoveWatts(FileDescriptorProto& file) {
  RequestOf(file).mutable_field()->RemoveLast();
}

class IncompatibleTest : public ::testing::TestWithParam<Change> {};

TEST_P(IncompatibleTest, IsNoticed) {
  EXPECT_THAT(BreachesOf(GetParam()), Contains(StartsWith(GetParam().rule)));
}

INSTANTIATE_TEST_SUITE_P(
    Rules, IncompatibleTest,
    ::testing::Values(
        Change{"MESSAGE_NO_DELETE",
               [](auto& f) {
                 f.clear_service();
                 f.mutable_message_type()->RemoveLast();
               }},
        Change{"RESERVED_NO_DELETE",
               [](auto& f) { RequestOf(f).clear_reserved_name(); }},
        Change{"RESERVED_NO_DELETE",
               [](auto& f) { RequestOf(f).clear_reserved_range(); }},
        Change{"RESERVED_NO_DELETE",
               [](auto& f) {
                 RequestOf(f).mutable_reserved_range(0)->set_end(7);
               }},
        Change{"RESERVED_NO_DELETE",
               [](auto& f) { ColorOf(f).clear_reserved_range(); }},
        Change{"FIELD_NO_DELETE_UNLESS_RESERVED", RemoveWatts},
        Change{"FIELD_NO_DELETE_UNLESS_RESERVED",
               [](auto& f) {
                 RemoveWatts(f);
                 RequestOf(f).add_reserved_name("watts");
               }},
        Change{"FIELD_NO_DELETE_UNLESS_RESERVED",
               [](auto& f) { WattsOf(f).set_number(3); }},
        Change{"FIELD_SAME_NAME", [](auto& f) { WattsOf(f).set_name("watt"); }},
        Change{"FIELD_SAME_JSON_NAME",
               [](auto& f) { WattsOf(f).set_json_name("power"); }},
        Change{"FIELD_SAME_TYPE",
               [](auto& f) {
                 WattsOf(f).set_type(FieldDescriptorProto::TYPE_SINT32);
               }},
        Change{"FIELD_SAME_TYPE",
               [](auto& f) {
                 WattsOf(f).set_type(FieldDescriptorProto::TYPE_INT64);
               }},
        Change{"FIELD_SAME_CARDINALITY",
               [](auto& f) {
                 WattsOf(f).set_label(FieldDescriptorProto::LABEL_REPEATED);
               }},
        Change{"FIELD_SAME_ONEOF",
               [](auto& f) { WattsOf(f).set_oneof_index(0); }},
        Change{"FIELD_SAME_DEFAULT",
               [](auto& f) {
                 WattsOf(f)
                     .mutable_options()
                     ->MutableExtension(v1::rule)
                     ->set_default_value("60");
               }},
        Change{"ENUM_NO_DELETE", [](auto& f) { f.clear_enum_type(); }},
        Change{"ENUM_VALUE_NO_DELETE_UNLESS_RESERVED",
               [](auto& f) { ColorOf(f).mutable_value()->RemoveLast(); }},
        Change{"ENUM_VALUE_SAME_NAME",
               [](auto& f) {
                 ColorOf(f).mutable_value(1)->set_name("COLOR_PINK");
               }},
        Change{"SERVICE_NO_DELETE", [](auto& f) { f.clear_service(); }},
        Change{"RPC_NO_DELETE",
               [](auto& f) {
                 f.mutable_service(0)->mutable_method(0)->set_name("Glow");
               }},
        Change{"RPC_SAME_REQUEST_TYPE",
               [](auto& f) {
                 f.mutable_service(0)->mutable_method(0)->set_input_type(
                     ".lamp.v1.LightResponse");
               }},
        Change{"RPC_SAME_RESPONSE_TYPE",
               [](auto& f) {
                 f.mutable_service(0)->mutable_method(0)->set_output_type(
                     ".lamp.v1.LightRequest");
               }},
        Change{"RPC_SAME_STREAMING", [](auto& f) {
                 f.mutable_service(0)->mutable_method(0)->set_server_streaming(
                     true);
               }}));

class CompatibleTest : public ::testing::TestWithParam<Change> {};

TEST_P(CompatibleTest, IsAllowed) {
  const std::vector<std::string> breaches = BreachesOf(GetParam());
  EXPECT_THAT(breaches, IsEmpty()) << absl::StrJoin(breaches, "\n");
}

INSTANTIATE_TEST_SUITE_P(
    Rules, CompatibleTest,
    ::testing::Values(Change{"nothing", [](auto&) {}},
                      Change{"a new field",
                             [](auto& f) {
                               FieldDescriptorProto& field =
                                   *RequestOf(f).add_field();
                               field = WattsOf(f);
                               field.set_name("lumens");
                               field.set_number(9);
                             }},
                      Change{"a field that is reserved now",
                             [](auto& f) {
                               RemoveWatts(f);
                               RequestOf(f).add_reserved_name("watts");
                               auto& range = *RequestOf(f).add_reserved_range();
                               range.set_start(2);
                               range.set_end(3);
                             }},
                      Change{"a type of the same representation",
                             [](auto& f) {
                               WattsOf(f).set_type(
                                   FieldDescriptorProto::TYPE_UINT32);
                             }},
                      Change{"a new value",
                             [](auto& f) {
                               auto& value = *ColorOf(f).add_value();
                               value.set_name("COLOR_BLUE");
                               value.set_number(2);
                             }},
                      Change{"a new method", [](auto& f) {
                               auto& method =
                                   *f.mutable_service(0)->add_method();
                               method = f.service(0).method(0);
                               method.set_name("Glow");
                             }}));

}  // namespace
}  // namespace ringmaster
