#include "common/protocol/redact.h"

#include <memory>
#include <string>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/dynamic_message.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/coordinator_service.pb.h"
#include "ringmaster/v1/field_rule.pb.h"

namespace ringmaster {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::DynamicMessageFactory;
using google::protobuf::FileDescriptorProto;
using google::protobuf::Message;
using google::protobuf::TextFormat;

TEST(RedactTest, TheSecretOfAGenerationIsTakenOut) {
  v1::SessionResponse message;
  v1::Assignment& assignment = *message.mutable_assignment();
  assignment.set_secret("0123456789abcdef");
  assignment.set_local_world_size(3);
  Redact(message);
  EXPECT_EQ(assignment.secret(), kRedacted);
  EXPECT_EQ(assignment.local_world_size(), 3);
}

TEST(RedactTest, WhatIsNotSetStaysSo) {
  v1::Assignment assignment;
  Redact(assignment);
  EXPECT_EQ(assignment.ByteSizeLong(), 0u);
}

TEST(RedactTest, TypesWithoutSecretsAreLeftAlone) {
  EXPECT_TRUE(MayHoldSecrets(*v1::SessionResponse::descriptor()));
  EXPECT_TRUE(MayHoldSecrets(*v1::SessionRequest::descriptor()));
  EXPECT_FALSE(MayHoldSecrets(*v1::Beat::descriptor()));
}

constexpr char kFormsFile[] = R"text(
  name: "forms.proto"
  syntax: "proto3"
  dependency: "ringmaster/v1/field_rule.proto"
  message_type {
    name: "Forms"
    field { name: "token" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL
            options { [ringmaster.v1.rule] { secret: true } } }
    field { name: "tokens" number: 2 type: TYPE_BYTES label: LABEL_REPEATED
            options { [ringmaster.v1.rule] { secret: true } } }
    field { name: "environment" number: 3 type: TYPE_MESSAGE
            label: LABEL_REPEATED type_name: ".Forms.EnvironmentEntry"
            options { [ringmaster.v1.rule] { secret: true } } }
    field { name: "inner" number: 4 type: TYPE_MESSAGE label: LABEL_REPEATED
            type_name: ".Forms" }
    field { name: "open" number: 5 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "pin" number: 6 type: TYPE_INT32 label: LABEL_OPTIONAL
            options { [ringmaster.v1.rule] { secret: true } } }
    nested_type {
      name: "EnvironmentEntry"
      field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
      field { name: "value" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
      options { map_entry: true }
    }
  })text";

// Jobs have no secrets yet; these are the forms that they may have.
class FormsTest : public ::testing::Test {
 protected:
  FormsTest() {
    FileDescriptorProto file;
    EXPECT_TRUE(TextFormat::ParseFromString(kFormsFile, &file));
    // The pool must know the rule's own file under the name that it imports.
    pool_ = std::make_unique<DescriptorPool>(DescriptorPool::generated_pool());
    const auto* const built = pool_->BuildFile(file);
    EXPECT_NE(built, nullptr);
    message_.reset(
        factory_.GetPrototype(built->FindMessageTypeByName("Forms"))->New());
  }

  std::string RedactedText(const std::string& text) {
    EXPECT_TRUE(TextFormat::ParseFromString(text, message_.get()));
    Redact(*message_);
    return message_->ShortDebugString();
  }

  std::unique_ptr<DescriptorPool> pool_;
  DynamicMessageFactory factory_;
  std::unique_ptr<Message> message_;
};

TEST_F(FormsTest, EachValueOfAList) {
  EXPECT_EQ(RedactedText("tokens: 'a' tokens: 'b' open: 'c'"),
            R"x(tokens: "(secret)" tokens: "(secret)" open: "c")x");
}

TEST_F(FormsTest, TheValuesOfAMapAndNotItsKeys) {
  EXPECT_EQ(RedactedText("environment { key: 'TOKEN' value: 'a' }"),
            R"x(environment { key: "TOKEN" value: "(secret)" })x");
}

TEST_F(FormsTest, ANumberIsLeftOut) {
  EXPECT_EQ(RedactedText("open: 'b' pin: 1234"), R"x(open: "b")x");
}

TEST_F(FormsTest, AtAnyDepth) {
  EXPECT_EQ(RedactedText("inner { inner { token: 'a' } open: 'b' }"),
            R"x(inner { inner { token: "(secret)" } open: "b" })x");
}

TEST_F(FormsTest, WhatALaterReleaseAddedIsDropped) {
  message_->GetReflection()
      ->MutableUnknownFields(message_.get())
      ->AddLengthDelimited(99, "a");
  Redact(*message_);
  EXPECT_EQ(message_->ByteSizeLong(), 0u);
}

}  // namespace
}  // namespace ringmaster
