#include "common/protocol/testing/documented_api.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "google/protobuf/descriptor.pb.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptorSet;
using google::protobuf::SourceLocation;

const DescriptorPool& Api() {
  static const DescriptorPool* const pool = [] {
    std::ifstream file("proto/ringmaster/v1/api.protoset");
    FileDescriptorSet set;
    EXPECT_TRUE(set.ParseFromIstream(&file));
    auto* const api = new DescriptorPool;
    for (const auto& proto : set.file())
      EXPECT_NE(api->BuildFile(proto), nullptr) << proto.name();
    return api;
  }();
  return *pool;
}

template <typename Described>
std::string LineOf(const Described* described, const std::string& name) {
  SourceLocation location;
  if (described == nullptr || !described->GetSourceLocation(&location)) {
    ADD_FAILURE() << name << " is not in the API";
    return "";
  }
  std::string text = location.leading_comments;
  absl::RemoveExtraAsciiWhitespace(&text);
  return absl::StrReplaceAll(text, {{"|", "\\|"}});
}

}  // namespace

const Descriptor* DocumentedMessage(const std::string& name) {
  return Api().FindMessageTypeByName(absl::StrCat("ringmaster.v1.", name));
}

std::string CommentOf(const Descriptor& type) {
  return LineOf(Api().FindMessageTypeByName(type.full_name()),
                type.full_name());
}

std::string CommentOf(const FieldDescriptor& field) {
  return LineOf(Api().FindFieldByName(field.full_name()), field.full_name());
}

bool IsOfTheApi(const FieldDescriptor& field) {
  return field.message_type() != nullptr && !field.is_map() &&
         absl::StartsWith(field.message_type()->full_name(), "ringmaster.");
}

std::string ReadDocument(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void ExpectDocument(const std::string& path, const std::string& expected,
                    const std::string& target) {
  const char* const workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  if (std::getenv("REWRITE_TABLES") != nullptr && workspace != nullptr) {
    std::ofstream file(absl::StrCat(workspace, "/", path));
    file << expected;
    EXPECT_TRUE(file.flush()) << path;
    return;
  }
  EXPECT_TRUE(ReadDocument(path) == expected)
      << path << " differs from the .proto files; write its tables anew with "
      << "REWRITE_TABLES=1 bazel run " << target;
}

}  // namespace ringmaster
