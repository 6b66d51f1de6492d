// Holds the API's protos to buf's STANDARD and COMMENTS rules
// (https://buf.build/docs/lint/rules), without buf, and shows for each rule
// that breaking it is noticed.
#include "google/protobuf/descriptor.h"

#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::FileDescriptorProto;
using google::protobuf::FileDescriptorSet;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;
using google::protobuf::SourceLocation;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

bool IsLowerSnake(const std::string& name) {
  for (const char c : name) {
    if (!absl::ascii_islower(c) && !absl::ascii_isdigit(c) && c != '_') {
      return false;
    }
  }
  return !name.empty() && absl::ascii_islower(name.front()) &&
         name.back() != '_' && !absl::StrContains(name, "__");
}

bool IsUpperSnake(const std::string& name) {
  return IsLowerSnake(absl::AsciiStrToLower(name)) &&
         name == absl::AsciiStrToUpper(name);
}

bool IsPascal(const std::string& name) {
  return !name.empty() && absl::ascii_isupper(name.front()) &&
         !absl::StrContains(name, "_");
}

// "JobState" -> "JOB_STATE".
std::string UpperSnake(const std::string& pascal) {
  std::string result;
  for (size_t i = 0; i < pascal.size(); ++i) {
    if (i > 0 && absl::ascii_isupper(pascal[i])) result += '_';
    result += absl::ascii_toupper(pascal[i]);
  }
  return result;
}

// Collects what is wrong with the files it visits, as "RULE: element".
class Lint {
 public:
  void Visit(const FileDescriptor& file) {
    VisitFile(file);
    for (int i = 0; i < file.message_type_count(); ++i) {
      VisitMessage(*file.message_type(i));
    }
    for (int i = 0; i < file.enum_type_count(); ++i) {
      VisitEnum(*file.enum_type(i));
    }
    for (int i = 0; i < file.service_count(); ++i) {
      VisitService(*file.service(i));
    }
    for (int i = 0; i < file.extension_count(); ++i) {
      VisitExtension(*file.extension(i));
    }
    for (int i = 0; i < file.dependency_count(); ++i) {
      const std::string& import = file.dependency(i)->name();
      Expect(used_files_.contains(import), "IMPORT_USED",
             absl::StrCat(file.name(), " imports ", import));
    }
    used_files_.clear();
  }

  const std::vector<std::string>& violations() const { return violations_; }

 private:
  void Expect(bool holds, const char* rule, const std::string& element) {
    if (!holds) violations_.push_back(absl::StrCat(rule, ": ", element));
  }

  template <typename Element>
  void ExpectComment(const Element& element) {
    SourceLocation location;
    Expect(element.GetSourceLocation(&location) &&
               !absl::StripAsciiWhitespace(location.leading_comments).empty(),
           "COMMENT", element.full_name());
  }

  void VisitFile(const FileDescriptor& file) {
    const std::string& name = file.name();
    const size_t slash = name.rfind('/');
    const std::string directory =
        slash == std::string::npos ? "" : name.substr(0, slash);
    const std::string base =
        slash == std::string::npos ? name : name.substr(slash + 1);
    Expect(directory == absl::StrReplaceAll(file.package(), {{".", "/"}}),
           "PACKAGE_DIRECTORY_MATCH", name);
    const std::string version =
        file.package().substr(file.package().rfind('.') == std::string::npos
                                  ? 0
                                  : file.package().rfind('.') + 1);
    Expect(version.size() >= 2 && version[0] == 'v' &&
               absl::ascii_isdigit(version[1]),
           "PACKAGE_VERSION_SUFFIX", name);
    Expect(absl::EndsWith(base, ".proto") &&
               IsLowerSnake(base.substr(0, base.size() - 6)),
           "FILE_LOWER_SNAKE_CASE", name);
    Expect(file.syntax() == FileDescriptor::SYNTAX_PROTO3, "SYNTAX_PROTO3",
           name);
    Expect(file.public_dependency_count() == 0, "IMPORT_NO_PUBLIC", name);
    Expect(file.weak_dependency_count() == 0, "IMPORT_NO_WEAK", name);
    for (int i = 0; i < file.dependency_count(); ++i) {
      Expect(file.dependency(i)->name() != "google/protobuf/empty.proto",
             "NO_EMPTY", name);
    }
    SourceLocation location;
    Expect(file.GetSourceLocation({FileDescriptorProto::kPackageFieldNumber},
                                  &location) &&
               !absl::StripAsciiWhitespace(location.leading_comments).empty(),
           "COMMENT", absl::StrCat(name, "'s package"));
  }

  void VisitMessage(const Descriptor& message) {
    if (message.options().map_entry()) return;
    Expect(IsPascal(message.name()), "MESSAGE_PASCAL_CASE",
           message.full_name());
    ExpectComment(message);
    for (int i = 0; i < message.field_count(); ++i) {
      VisitField(*message.field(i));
    }
    for (int i = 0; i < message.real_oneof_decl_count(); ++i) {
      Expect(IsLowerSnake(message.oneof_decl(i)->name()),
             "ONEOF_LOWER_SNAKE_CASE", message.oneof_decl(i)->full_name());
      ExpectComment(*message.oneof_decl(i));
    }
    for (int i = 0; i < message.nested_type_count(); ++i) {
      VisitMessage(*message.nested_type(i));
    }
    for (int i = 0; i < message.enum_type_count(); ++i) {
      VisitEnum(*message.enum_type(i));
    }
  }

  void VisitField(const FieldDescriptor& field) {
    Expect(IsLowerSnake(field.name()), "FIELD_LOWER_SNAKE_CASE",
           field.full_name());
    ExpectComment(field);
    if (field.message_type() != nullptr) Use(*field.message_type()->file());
    if (field.enum_type() != nullptr) Use(*field.enum_type()->file());
    UseOptions(field);
  }

  // Options of our own, which this program is not linked with.
  void UseOptions(const FieldDescriptor& field) {
    const auto& options = field.options();
    const auto& unknown = options.GetReflection()->GetUnknownFields(options);
    const DescriptorPool& pool = *field.file()->pool();
    for (int i = 0; i < unknown.field_count(); ++i) {
      const FieldDescriptor* const option = pool.FindExtensionByNumber(
          pool.FindMessageTypeByName("google.protobuf.FieldOptions"),
          unknown.field(i).number());
      if (option != nullptr) Use(*option->file());
    }
  }

  void VisitExtension(const FieldDescriptor& extension) {
    VisitField(extension);
    Use(*extension.containing_type()->file());
  }

  void VisitEnum(const EnumDescriptor& type) {
    Expect(IsPascal(type.name()), "ENUM_PASCAL_CASE", type.full_name());
    Expect(!type.options().allow_alias(), "ENUM_NO_ALLOW_ALIAS",
           type.full_name());
    ExpectComment(type);
    const std::string prefix = UpperSnake(type.name()) + "_";
    for (int i = 0; i < type.value_count(); ++i) {
      const auto& value = *type.value(i);
      Expect(IsUpperSnake(value.name()), "ENUM_VALUE_UPPER_SNAKE_CASE",
             value.full_name());
      Expect(absl::StartsWith(value.name(), prefix), "ENUM_VALUE_PREFIX",
             value.full_name());
      Expect(value.number() != 0 || value.name() == prefix + "UNSPECIFIED",
             "ENUM_ZERO_VALUE_SUFFIX", value.full_name());
      ExpectComment(value);
    }
  }

  void VisitService(const ServiceDescriptor& service) {
    Expect(IsPascal(service.name()), "SERVICE_PASCAL_CASE",
           service.full_name());
    Expect(absl::EndsWith(service.name(), "Service"), "SERVICE_SUFFIX",
           service.full_name());
    ExpectComment(service);
    for (int i = 0; i < service.method_count(); ++i) {
      VisitMethod(*service.method(i));
    }
  }

  void VisitMethod(const MethodDescriptor& method) {
    Expect(IsPascal(method.name()), "RPC_PASCAL_CASE", method.full_name());
    ExpectComment(method);
    const Descriptor& request = *method.input_type();
    const Descriptor& response = *method.output_type();
    Expect(request.name() == method.name() + "Request",
           "RPC_REQUEST_STANDARD_NAME", method.full_name());
    Expect(response.name() == method.name() + "Response",
           "RPC_RESPONSE_STANDARD_NAME", method.full_name());
    for (const Descriptor* type : {&request, &response}) {
      Use(*type->file());
      Expect(rpc_types_.insert(type->full_name()).second,
             "RPC_REQUEST_RESPONSE_UNIQUE", method.full_name());
    }
  }

  void Use(const FileDescriptor& file) { used_files_.insert(file.name()); }

  std::vector<std::string> violations_;
  std::set<std::string> used_files_;  // by the file being visited
  std::set<std::string> rpc_types_;   // of all files
};

FileDescriptorSet ReadApi() {
  FileDescriptorSet set;
  std::ifstream in("proto/ringmaster/v1/api.protoset", std::ios::binary);
  EXPECT_TRUE(set.ParseFromIstream(&in)) << "cannot read the descriptor set";
  return set;
}

TEST(DescriptorTest, ApiKeepsTheRules) {
  DescriptorPool pool;
  Lint lint;
  int visited_files = 0;
  const FileDescriptorSet api = ReadApi();
  for (const FileDescriptorProto& proto : api.file()) {
    const FileDescriptor* file = pool.BuildFile(proto);
    ASSERT_NE(file, nullptr) << proto.name();
    if (absl::StartsWith(file->name(), "google/protobuf/")) continue;
    lint.Visit(*file);
    ++visited_files;
  }
  EXPECT_GE(visited_files, 8);
  EXPECT_THAT(lint.violations(), IsEmpty())
      << absl::StrJoin(lint.violations(), "\n");
}

// A file that keeps all rules; the tests below break one at a time.
FileDescriptorProto GoodFile() {
  FileDescriptorProto file;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        name: "lamp/v1/lamp.proto"
        package: "lamp.v1"
        syntax: "proto3"
        dependency: "lamp/v1/bulb.proto"
        message_type {
          name: "LightRequest"
          field {
            name: "lamp_name"
            number: 1
            type: TYPE_STRING
            label: LABEL_OPTIONAL
            oneof_index: 0
          }
          oneof_decl { name: "which" }
        }
        message_type {
          name: "LightResponse"
          field {
            name: "bulb"
            number: 1
            type: TYPE_MESSAGE
            type_name: ".lamp.v1.Bulb"
            label: LABEL_OPTIONAL
          }
        }
        enum_type {
          name: "LampColor"
          value { name: "LAMP_COLOR_UNSPECIFIED" number: 0 }
          value { name: "LAMP_COLOR_RED" number: 1 }
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
      &file));
  return file;
}

using Path = std::vector<int>;

Path Join(Path path, std::initializer_list<int> more) {
  path.insert(path.end(), more);
  return path;
}

// The source-code paths (descriptor.proto, SourceCodeInfo) of all elements.
std::vector<Path> ElementPaths(const FileDescriptorProto& file) {
  std::vector<Path> paths = {{FileDescriptorProto::kPackageFieldNumber}};
  for (int i = 0; i < file.message_type_size(); ++i) {
    const Path path = {FileDescriptorProto::kMessageTypeFieldNumber, i};
    paths.push_back(path);
    for (int j = 0; j < file.message_type(i).field_size(); ++j) {
      paths.push_back(Join(path, {2, j}));
    }
    for (int j = 0; j < file.message_type(i).oneof_decl_size(); ++j) {
      paths.push_back(Join(path, {8, j}));
    }
  }
  for (int i = 0; i < file.enum_type_size(); ++i) {
    const Path path = {FileDescriptorProto::kEnumTypeFieldNumber, i};
    paths.push_back(path);
    for (int j = 0; j < file.enum_type(i).value_size(); ++j) {
      paths.push_back(Join(path, {2, j}));
    }
  }
  for (int i = 0; i < file.service_size(); ++i) {
    const Path path = {FileDescriptorProto::kServiceFieldNumber, i};
    paths.push_back(path);
    for (int j = 0; j < file.service(i).method_size(); ++j) {
      paths.push_back(Join(path, {2, j}));
    }
  }
  return paths;
}

// What Lint says about `file` when all its elements but those in `bare` are
// commented.
std::vector<std::string> LintFile(FileDescriptorProto file,
                                  const std::set<Path>& bare = {}) {
  for (const Path& path : ElementPaths(file)) {
    auto* location = file.mutable_source_code_info()->add_location();
    location->mutable_path()->Add(path.begin(), path.end());
    for (const int column : {0, 0, 1}) location->add_span(column);
    if (!bare.contains(path)) location->set_leading_comments(" Says what.\n");
  }
  DescriptorPool pool(DescriptorPool::generated_pool());
  FileDescriptorProto bulb;
  bulb.set_name("lamp/v1/bulb.proto");
  bulb.set_package("lamp.v1");
  bulb.set_syntax("proto3");
  bulb.add_message_type()->set_name("Bulb");
  EXPECT_NE(pool.BuildFile(bulb), nullptr);
  FileDescriptorProto empty;
  empty.set_name("google/protobuf/empty.proto");
  empty.set_package("google.protobuf");
  empty.add_message_type()->set_name("Empty");
  if (pool.FindFileByName(empty.name()) == nullptr) pool.BuildFile(empty);
  const FileDescriptor* built = pool.BuildFile(file);
  if (built == nullptr) return {"does not build"};
  Lint lint;
  lint.Visit(*built);
  return lint.violations();
}

TEST(DescriptorTest, GoodFileHasNoViolation) {
  EXPECT_THAT(LintFile(GoodFile()), IsEmpty());
}

TEST(DescriptorTest, MissingCommentOfAnyElementIsNoticed) {
  for (const Path& path : ElementPaths(GoodFile())) {
    EXPECT_THAT(LintFile(GoodFile(), {path}),
                ElementsAre(HasSubstr("COMMENT: ")))
        << absl::StrJoin(path, ",");
  }
}

struct Breach {
  const char* rule;
  std::function<void(FileDescriptorProto&)> commit;
};

class BreachTest : public ::testing::TestWithParam<Breach> {};

TEST_P(BreachTest, IsNoticed) {
  FileDescriptorProto file = GoodFile();
  GetParam().commit(file);
  EXPECT_THAT(LintFile(file),
              ::testing::Contains(::testing::StartsWith(GetParam().rule)));
}

void RenameMethod(FileDescriptorProto& file, const std::string& name) {
  file.mutable_service(0)->mutable_method(0)->set_name(name);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, BreachTest,
    ::testing::Values(
        Breach{"PACKAGE_DIRECTORY_MATCH",
               [](auto& f) { f.set_name("other/v1/lamp.proto"); }},
        Breach{"PACKAGE_VERSION_SUFFIX",
               [](auto& f) {
                 f.Clear();
                 f.set_name("lamp/lamp.proto");
                 f.set_package("lamp");
                 f.set_syntax("proto3");
               }},
        Breach{"FILE_LOWER_SNAKE_CASE",
               [](auto& f) { f.set_name("lamp/v1/LampFile.proto"); }},
        Breach{"SYNTAX_PROTO3",
               [](auto& f) {
                 f.Clear();
                 f.set_name("lamp/v1/lamp.proto");
                 f.set_package("lamp.v1");
                 f.set_syntax("proto2");
               }},
        Breach{"IMPORT_NO_PUBLIC", [](auto& f) { f.add_public_dependency(0); }},
        Breach{"IMPORT_NO_WEAK", [](auto& f) { f.add_weak_dependency(0); }},
        Breach{"IMPORT_USED",
               [](auto& f) { f.mutable_message_type(1)->clear_field(); }},
        Breach{
            "NO_EMPTY",
            [](auto& f) { f.add_dependency("google/protobuf/empty.proto"); }},
        Breach{"MESSAGE_PASCAL_CASE",
               [](auto& f) { f.add_message_type()->set_name("lamp_shade"); }},
        Breach{"FIELD_LOWER_SNAKE_CASE",
               [](auto& f) {
                 f.mutable_message_type(1)->mutable_field(0)->set_name("Bulb");
               }},
        Breach{"ONEOF_LOWER_SNAKE_CASE",
               [](auto& f) {
                 f.mutable_message_type(0)->mutable_oneof_decl(0)->set_name(
                     "Which");
               }},
        Breach{"ENUM_PASCAL_CASE",
               [](auto& f) { f.mutable_enum_type(0)->set_name("lamp_color"); }},
        Breach{"ENUM_NO_ALLOW_ALIAS",
               [](auto& f) {
                 auto& type = *f.mutable_enum_type(0);
                 type.mutable_options()->set_allow_alias(true);
                 auto& value = *type.add_value();
                 value.set_name("LAMP_COLOR_SCARLET");
                 value.set_number(1);
               }},
        Breach{"ENUM_VALUE_UPPER_SNAKE_CASE",
               [](auto& f) {
                 f.mutable_enum_type(0)->mutable_value(1)->set_name(
                     "LAMP_COLOR_Red");
               }},
        Breach{"ENUM_VALUE_PREFIX",
               [](auto& f) {
                 f.mutable_enum_type(0)->mutable_value(1)->set_name("RED");
               }},
        Breach{"ENUM_ZERO_VALUE_SUFFIX",
               [](auto& f) {
                 f.mutable_enum_type(0)->mutable_value(0)->set_name(
                     "LAMP_COLOR_NONE");
               }},
        Breach{"SERVICE_PASCAL_CASE",
               [](auto& f) { f.mutable_service(0)->set_name("lamp_Service"); }},
        Breach{"SERVICE_SUFFIX",
               [](auto& f) { f.mutable_service(0)->set_name("Lamps"); }},
        Breach{"RPC_PASCAL_CASE", [](auto& f) { RenameMethod(f, "light_up"); }},
        Breach{"RPC_REQUEST_STANDARD_NAME",
               [](auto& f) { RenameMethod(f, "Dim"); }},
        Breach{"RPC_RESPONSE_STANDARD_NAME",
               [](auto& f) { RenameMethod(f, "Dim"); }},
        Breach{"RPC_REQUEST_RESPONSE_UNIQUE",
               [](auto& f) {
                 auto* method = f.mutable_service(0)->add_method();
                 *method = f.service(0).method(0);
                 method->set_name("Dim");
               }}),
    [](const auto& info) { return std::string(info.param.rule); });

}  // namespace
}  // namespace ringmaster
