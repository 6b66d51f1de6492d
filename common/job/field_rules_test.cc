#include "common/job/field_rules.h"

#include <cmath>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/field_rule.pb.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;
using ::testing::Not;

std::string ErrorsOf(const google::protobuf::Message& message) {
  SpecErrors errors;
  CheckRules(message, "x", errors);
  return std::string(errors.ToStatus().message());
}

// Every field that a job's author can write.
void VisitFields(const Descriptor& type,
                 const std::function<void(const FieldDescriptor&)>& visit) {
  static std::set<const Descriptor*> visiting;
  if (!visiting.insert(&type).second) return;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    visit(field);
    if (field.message_type() != nullptr && !field.is_map() &&
        field.message_type()->full_name() != "google.protobuf.Duration") {
      VisitFields(*field.message_type(), visit);
    }
  }
  visiting.erase(&type);
}

bool IsNumber(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
}

TEST(FieldRulesTest, EveryNumberOfAJobHasALeastValue) {
  int numbers = 0;
  VisitFields(*v1::JobSpec::descriptor(), [&](const FieldDescriptor& field) {
    // Any seed will do; each size of a benchmark depends on the others.
    if (!IsNumber(field) || field.name() == "seed" || field.name() == "sizes")
      return;
    ++numbers;
    EXPECT_NE(field.options().GetExtension(v1::rule).lower_case(),
              v1::FieldRule::LOWER_NOT_SET)
        << field.full_name();
  });
  EXPECT_GT(numbers, 50);
}

TEST(FieldRulesTest, EveryDefaultKeepsItsOwnRule) {
  std::set<const Descriptor*> types = {v1::JobSpec::descriptor()};
  VisitFields(*v1::JobSpec::descriptor(), [&](const FieldDescriptor& field) {
    if (field.message_type() != nullptr && !field.is_map())
      types.insert(field.message_type());
  });
  for (const Descriptor* const type : types) {
    const std::unique_ptr<google::protobuf::Message> message(
        google::protobuf::MessageFactory::generated_factory()
            ->GetPrototype(type)
            ->New());
    FillDefaults(*message);
    // Only fields without a default may be wrong.
    const std::string errors = ErrorsOf(*message);
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor& field = *type->field(i);
      if (field.options().GetExtension(v1::rule).required()) continue;
      // "x.steps must", "x.sizes' number", "x.sizes[0] must"
      for (const char* const after : {" ", "'", "["}) {
        EXPECT_THAT(errors, Not(HasSubstr("x." + field.name() + after)))
            << type->full_name();
      }
    }
    const std::unique_ptr<google::protobuf::Message> again(message->New());
    again->CopyFrom(*message);
    FillDefaults(*again);
    EXPECT_TRUE(MessageDifferencer::Equals(*message, *again))
        << type->full_name();
  }
}

TEST(FieldRulesTest, DefaultsOfEachKindAreFilledIn) {
  v1::TrainProgram train;
  train.mutable_model()->mutable_cnn();
  FillDefaults(train);
  EXPECT_EQ(train.bucket_bytes(), 256 << 10);
  EXPECT_EQ(train.evaluation_samples(), 4096);
  EXPECT_THAT(train.model().cnn().filters(), ::testing::ElementsAre(32, 64));
  EXPECT_EQ(train.non_finite().policy(), v1::NON_FINITE_POLICY_SKIP);
  EXPECT_TRUE(train.optimizer().has_adamw());
  EXPECT_FALSE(train.has_checkpoint());
  v1::WorkerRange range;
  FillDefaults(range);
  EXPECT_EQ(range.settle().seconds(), 1);
}

TEST(FieldRulesTest, WhatIsGivenStays) {
  v1::TrainProgram train;
  train.set_evaluation_samples(0);
  train.mutable_optimizer()->mutable_sgd();
  FillDefaults(train);
  EXPECT_EQ(train.evaluation_samples(), 0);
  EXPECT_TRUE(train.optimizer().has_sgd());
}

TEST(FieldRulesTest, ASubstituteLeavesNoDefault) {
  v1::TokensSource tokens;
  tokens.set_path("p");
  tokens.set_evaluation_path("e");
  FillDefaults(tokens);
  EXPECT_EQ(tokens.eval_fraction(), 0);
  EXPECT_EQ(ErrorsOf(tokens), "");
  tokens.set_eval_fraction(0.5);
  EXPECT_EQ(ErrorsOf(tokens),
            "x.eval_fraction and x.evaluation_path exclude each other: give "
            "one of them");
}

TEST(FieldRulesTest, EachKindOfBoundIsKept) {
  v1::AdamwSpec adamw;
  FillDefaults(adamw);
  EXPECT_EQ(ErrorsOf(adamw), "");
  adamw.set_learning_rate(NAN);
  EXPECT_EQ(ErrorsOf(adamw),
            "x.learning_rate must be above 0 and finite, got nan");
  adamw.set_learning_rate(1);
  adamw.set_beta1(1);
  EXPECT_EQ(ErrorsOf(adamw), "x.beta1 must be at least 0 and below 1, got 1");
  adamw.set_beta1(0);
  adamw.set_epsilon(1e-31);
  EXPECT_EQ(ErrorsOf(adamw),
            "x.epsilon must be at least 1e-30 and finite, got 1e-31");
  v1::CnnSpec cnn;
  FillDefaults(cnn);
  cnn.add_filters(0);
  EXPECT_EQ(ErrorsOf(cnn), "x.filters[2] must be at least 1, got 0");
  cnn.mutable_filters()->Set(2, 1);
  cnn.mutable_filters()->Resize(17, 5000);
  EXPECT_THAT(ErrorsOf(cnn),
              HasSubstr("x.filters' number of entries must be at most 16, got "
                        "17"));
  EXPECT_THAT(ErrorsOf(cnn),
              HasSubstr("; x.filters[3] must be at most 4096, got 5000"));
  v1::WorkerRange range;
  range.mutable_settle()->set_seconds(-1);
  FillDefaults(range);
  EXPECT_EQ(ErrorsOf(range), "x.settle must be between 0s and 1h, got -1s");
}

TEST(FieldRulesTest, RanksAgreeOnNamesAndValues) {
  v1::TrainProgram a;
  a.mutable_model()->mutable_cnn();
  a.mutable_data()->mutable_images()->set_images("here");
  a.mutable_model()->mutable_cnn()->set_height(32);
  a.mutable_model()->mutable_cnn()->add_filters(8);
  a.mutable_non_finite()->set_policy(v1::NON_FINITE_POLICY_FAIL);
  a.set_evaluation_samples(0);
  a.set_steps(3);
  FillDefaults(a);
  const std::string text = AgreedText(a);
  EXPECT_EQ(text,
            "model={cnn={height=32 filters=[8]}} data={images={}} steps=3 "
            "evaluation_samples=0 non_finite={policy=fail}");
  // Each rank may keep its samples where it likes, but all have the same
  // number.
  v1::TrainProgram b = a;
  b.mutable_data()->mutable_images()->set_images("there");
  EXPECT_EQ(AgreedText(b), text);
  b.mutable_optimizer()->mutable_adamw()->set_beta1(std::nextafter(0.9, 1));
  EXPECT_THAT(AgreedText(b),
              HasSubstr(" optimizer={adamw={beta1=0.90000000000000013}} "));
}

// Sets `field` to something that is not its default.
void SetToAnything(google::protobuf::Message& message,
                   const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      if (field.is_repeated()) {
        reflection.AddInt32(&message, &field, 1234);
      } else {
        reflection.SetInt32(&message, &field, 1234);
      }
      return;
    case FieldDescriptor::CPPTYPE_INT64:
      if (field.is_repeated()) {
        reflection.AddInt64(&message, &field, 1234);
      } else {
        reflection.SetInt64(&message, &field, 1234);
      }
      return;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      reflection.SetDouble(&message, &field, 0.125);
      return;
    case FieldDescriptor::CPPTYPE_BOOL:
      reflection.SetBool(&message, &field,
                         !reflection.GetBool(message, &field));
      return;
    case FieldDescriptor::CPPTYPE_ENUM:
      reflection.SetEnumValue(&message, &field,
                              field.enum_type()->value_count() - 1);
      return;
    case FieldDescriptor::CPPTYPE_STRING:
      if (field.is_repeated()) {
        reflection.AddString(&message, &field, "anything");
      } else {
        reflection.SetString(&message, &field, "anything");
      }
      return;
    default:
      break;
  }
  if (field.is_map()) {
    auto& custom = dynamic_cast<v1::CustomModelSpec&>(message);
    (*custom.mutable_settings())["anything"] = 1;
    return;
  }
  google::protobuf::Duration duration;
  duration.set_seconds(1234);
  reflection.MutableMessage(&message, &field)->CopyFrom(duration);
}

TEST(FieldRulesTest, RanksAgreeOnEveryFieldButThese) {
  std::set<std::string> local;
  const auto visit = [&](const FieldDescriptor& field) {
    const std::unique_ptr<google::protobuf::Message> message(
        google::protobuf::MessageFactory::generated_factory()
            ->GetPrototype(field.containing_type())
            ->New());
    FillDefaults(*message);
    const std::string before = AgreedText(*message);
    const bool is_message = field.message_type() != nullptr &&
                            !field.is_map() &&
                            field.message_type()->name() != "Duration";
    if (is_message) {
      // Whether ranks agree on its own fields.
      if (field.options().GetExtension(v1::rule).local())
        local.insert(field.full_name());
      return;
    }
    SetToAnything(*message, field);
    if (AgreedText(*message) == before) local.insert(field.full_name());
  };
  VisitFields(*v1::TrainProgram::descriptor(), visit);
  VisitFields(*v1::BenchProgram::descriptor(), visit);
  EXPECT_THAT(
      local,
      ::testing::UnorderedElementsAre(
          // Ranks agree on what they derive from these.
          "ringmaster.v1.TrainProgram.precision",
          "ringmaster.v1.GptSpec.preset", "ringmaster.v1.LlamaSpec.preset",
          "ringmaster.v1.BertSpec.preset", "ringmaster.v1.ResnetSpec.preset",
          // Ranks that disagree refuse each other's frames.
          "ringmaster.v1.CollectiveSpec.algorithm",
          "ringmaster.v1.CollectiveSpec.transport",
          "ringmaster.v1.CollectiveSpec.connections",
          // Only one rank does it, or each for itself.
          "ringmaster.v1.TrainProgram.sample",
          "ringmaster.v1.CheckpointSpec.keep",
          "ringmaster.v1.CheckpointSpec.on_error",
          "ringmaster.v1.ImageFolderSource.decode_threads",
          // Files; what is in them is agreed on.
          "ringmaster.v1.TrainProgram.initial_parameters",
          "ringmaster.v1.CheckpointSpec.directory",
          "ringmaster.v1.TextSource.path", "ringmaster.v1.TextSource.max_bytes",
          "ringmaster.v1.TextSource.vocabulary",
          "ringmaster.v1.TextSource.merges", "ringmaster.v1.TokensSource.path",
          "ringmaster.v1.TokensSource.evaluation_path",
          "ringmaster.v1.ImagesSource.images",
          "ringmaster.v1.ImagesSource.labels",
          "ringmaster.v1.ImagesSource.evaluation_images",
          "ringmaster.v1.ImagesSource.evaluation_labels",
          "ringmaster.v1.ImageFolderSource.path",
          "ringmaster.v1.ImageFolderSource.evaluation_path",
          "ringmaster.v1.LabelledTextSource.path",
          "ringmaster.v1.LabelledTextSource.evaluation_path",
          "ringmaster.v1.LabelledTextSource.vocabulary",
          "ringmaster.v1.LabelledTextSource.merges",
          "ringmaster.v1.LabelledTextSource.max_bytes"));
}

TEST(FieldRulesTest, AMessageThatSaysNothingIsAsNone) {
  v1::TrainProgram program;
  program.mutable_collective();
  program.mutable_sample()->set_prompt("p");
  program.mutable_checkpoint()->set_directory("d");
  FillDefaults(program);
  EXPECT_EQ(AgreedText(program), "");
  program.mutable_model()->mutable_cnn();
  FillDefaults(program);
  EXPECT_EQ(AgreedText(program), "model={cnn={}}");
}

TEST(FieldRulesTest, AValueOfALaterReleaseIsCalledSo) {
  v1::TrainProgram program;
  program.set_steps(1);
  program.set_precision(static_cast<v1::Precision>(9));
  FillDefaults(program);
  EXPECT_EQ(ErrorsOf(program),
            "x.precision must be float32, bfloat16, tf32 or float16, got 9; "
            "this program may be older than the one that wrote it");
}

TEST(FieldRulesTest, SettingsAgreeInAnyOrder) {
  v1::CustomModelSpec a;
  v1::CustomModelSpec b;
  for (int i = 0; i < 20; ++i) {
    (*a.mutable_settings())["s" + std::to_string(i)] = i;
    (*b.mutable_settings())["s" + std::to_string(19 - i)] = 19 - i;
  }
  EXPECT_EQ(AgreedText(a), AgreedText(b));
  EXPECT_THAT(AgreedText(a), HasSubstr("settings={\"s0\":0 \"s1\":1 "));
}

TEST(FieldRulesTest, BoundsAreTold) {
  const auto bounds = [](const Descriptor* type, const char* name) {
    return BoundsText(*type->FindFieldByName(name));
  };
  EXPECT_EQ(bounds(v1::WorkerRange::descriptor(), "min"), "1 to 4096");
  EXPECT_EQ(bounds(v1::WorkerRange::descriptor(), "settle"),
            "between 0s and 1h");
  EXPECT_EQ(bounds(v1::AdamwSpec::descriptor(), "beta1"),
            "at least 0 and below 1");
  EXPECT_EQ(bounds(v1::SgdSpec::descriptor(), "nesterov"), "");
}

}  // namespace
}  // namespace ringmaster
