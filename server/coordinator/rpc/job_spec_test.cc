#include "server/coordinator/rpc/job_spec.h"

#include <cmath>
#include <functional>
#include <string>

#include "common/rpc/proto_time.h"
#include "common/status/reason.h"
#include "gmock/gmock.h"
#include "google/protobuf/unknown_field_set.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace ringmaster::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

v1::JobSpec SmallSpec() {
  v1::JobSpec spec;
  spec.set_name("digits");
  spec.mutable_train()->mutable_model()->mutable_mlp();
  spec.mutable_train()->mutable_data()->mutable_synthetic();
  spec.mutable_train()->set_steps(10);
  return spec;
}

TEST(JobSpecTest, FillsInTheDocumentedDefaults) {
  const absl::StatusOr<v1::JobSpec> spec = ValidateAndDefault(SmallSpec());
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->workers().min(), 1);
  EXPECT_EQ(spec->workers().max(), 1);
  EXPECT_EQ(FromProto(spec->workers().settle()), absl::Seconds(1));
  const v1::TrainProgram& train = spec->train();
  EXPECT_EQ(train.steps(), 10);
  EXPECT_EQ(train.global_batch(), 256);
  EXPECT_EQ(train.seed(), 1);
  EXPECT_EQ(train.evaluate_every(), 0);
  EXPECT_EQ(train.evaluation_samples(), 4096);
  EXPECT_EQ(train.bucket_bytes(), 256 << 10);
  EXPECT_EQ(train.hash_every(), 50);
  EXPECT_EQ(train.model().mlp().window(), 16);
  EXPECT_EQ(train.model().mlp().embedding_dim(), 32);
  EXPECT_EQ(train.model().mlp().hidden_dim(), 256);
  EXPECT_EQ(train.model().mlp().hidden_layers(), 2);
  EXPECT_EQ(train.data().synthetic().samples(), 65536);
  EXPECT_EQ(train.data().synthetic().eval_fraction(), 0.1);
  EXPECT_EQ(train.optimizer().adamw().learning_rate(), 0.001);
  EXPECT_EQ(train.optimizer().adamw().beta1(), 0.9);
  EXPECT_EQ(train.optimizer().adamw().beta2(), 0.999);
  EXPECT_EQ(train.optimizer().adamw().epsilon(), 1e-8);
  EXPECT_EQ(train.optimizer().adamw().weight_decay(), 0.01);
}

TEST(JobSpecTest, KeepsWhatIsGiven) {
  v1::JobSpec spec = SmallSpec();
  spec.mutable_workers()->set_min(2);
  spec.mutable_workers()->set_max(4);
  *spec.mutable_workers()->mutable_settle() = ToProto(absl::ZeroDuration());
  spec.mutable_train()->set_evaluation_samples(0);
  spec.mutable_train()->set_hash_every(0);
  spec.mutable_train()->mutable_optimizer()->mutable_adamw()->set_beta1(0);
  spec.mutable_train()->mutable_data()->mutable_text()->set_path("/data/a.txt");
  const absl::StatusOr<v1::JobSpec> result = ValidateAndDefault(spec);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->workers().max(), 4);
  EXPECT_EQ(FromProto(result->workers().settle()), absl::ZeroDuration());
  EXPECT_EQ(result->train().evaluation_samples(), 0);
  EXPECT_EQ(result->train().hash_every(), 0);
  EXPECT_EQ(result->train().optimizer().adamw().beta1(), 0);
  EXPECT_EQ(result->train().data().text().eval_fraction(), 0.1);
  EXPECT_EQ(result->train().data().text().max_bytes(), 1 << 30);
}

TEST(JobSpecTest, DefaultedSpecPassesUnchanged) {
  const absl::StatusOr<v1::JobSpec> once = ValidateAndDefault(SmallSpec());
  ASSERT_TRUE(once.ok());
  const absl::StatusOr<v1::JobSpec> twice = ValidateAndDefault(*once);
  ASSERT_TRUE(twice.ok());
  EXPECT_TRUE(
      google::protobuf::util::MessageDifferencer::Equals(*once, *twice));
}

TEST(JobSpecTest, MaxFollowsMinWhenNotGiven) {
  v1::JobSpec spec = SmallSpec();
  spec.mutable_workers()->set_min(3);
  EXPECT_EQ(ValidateAndDefault(spec)->workers().max(), 3);
}

struct Mistake {
  const char* name;
  std::function<void(v1::JobSpec&)> make;
  const char* text;
};

class JobSpecMistakeTest : public ::testing::TestWithParam<Mistake> {};

TEST_P(JobSpecMistakeTest, IsRefusedByFieldPath) {
  v1::JobSpec spec = SmallSpec();
  GetParam().make(spec);
  const absl::Status status = ValidateAndDefault(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), reason::kInvalidJobSpec);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().text));
}

v1::MlpSpec& Mlp(v1::JobSpec& spec) {
  return *spec.mutable_train()->mutable_model()->mutable_mlp();
}
v1::SyntheticSource& Synthetic(v1::JobSpec& spec) {
  return *spec.mutable_train()->mutable_data()->mutable_synthetic();
}
v1::TextSource& Text(v1::JobSpec& spec) {
  v1::TextSource& text = *spec.mutable_train()->mutable_data()->mutable_text();
  text.set_path("/data");
  return text;
}
v1::AdamwSpec& Adamw(v1::JobSpec& spec) {
  return *spec.mutable_train()->mutable_optimizer()->mutable_adamw();
}

INSTANTIATE_TEST_SUITE_P(
    All, JobSpecMistakeTest,
    ::testing::Values(
        Mistake{"NameEmpty", [](auto& s) { s.clear_name(); },
                "name must be 1 to 40"},
        Mistake{"NameUpperCase", [](auto& s) { s.set_name("Digits"); },
                "got \"Digits\""},
        Mistake{"NameBeginsWithDigit", [](auto& s) { s.set_name("1st"); },
                "begin with a letter"},
        Mistake{"NameEndsWithDash", [](auto& s) { s.set_name("a-"); },
                "not end with a dash"},
        Mistake{"NameTooLong",
                [](auto& s) { s.set_name(std::string(41, 'a')); },
                "name must be"},
        Mistake{"NameWithSlash", [](auto& s) { s.set_name("a/b"); },
                "name must be"},
        Mistake{"WorkersMinNegative",
                [](auto& s) { s.mutable_workers()->set_min(-1); },
                "workers.min must be at least 1, got -1"},
        Mistake{"WorkersMaxBelowMin",
                [](auto& s) {
                  s.mutable_workers()->set_min(4);
                  s.mutable_workers()->set_max(2);
                },
                "workers.max must be at least workers.min (4), got 2"},
        Mistake{"WorkersMaxTooLarge",
                [](auto& s) { s.mutable_workers()->set_max(5000); },
                "workers.max must be at most 4096, got 5000"},
        Mistake{"SettleNegative",
                [](auto& s) {
                  *s.mutable_workers()->mutable_settle() =
                      ToProto(-absl::Seconds(1));
                },
                "workers.settle must be between 0s and 1h, got -1s"},
        Mistake{"NoProgram", [](auto& s) { s.clear_train(); },
                "must have a program: train"},
        Mistake{"NoModel", [](auto& s) { s.mutable_train()->clear_model(); },
                "train.model must name a model"},
        Mistake{"NoData", [](auto& s) { s.mutable_train()->clear_data(); },
                "train.data must name a source"},
        Mistake{"StepsZero", [](auto& s) { s.mutable_train()->set_steps(0); },
                "train.steps must be at least 1, got 0"},
        Mistake{"BatchNegative",
                [](auto& s) { s.mutable_train()->set_global_batch(-5); },
                "train.global_batch must be at least 1, got -5"},
        Mistake{"BatchBelowWorkers",
                [](auto& s) {
                  s.mutable_workers()->set_max(8);
                  s.mutable_train()->set_global_batch(4);
                },
                "train.global_batch must be at least workers.max (8)"},
        Mistake{"EvaluateEveryNegative",
                [](auto& s) { s.mutable_train()->set_evaluate_every(-1); },
                "train.evaluate_every must be at least 0, got -1"},
        Mistake{"EvaluationSamplesNegative",
                [](auto& s) { s.mutable_train()->set_evaluation_samples(-1); },
                "train.evaluation_samples must be at least 0"},
        Mistake{"BucketTooSmall",
                [](auto& s) { s.mutable_train()->set_bucket_bytes(3); },
                "train.bucket_bytes must be at least 1024, got 3"},
        Mistake{"HashEveryNegative",
                [](auto& s) { s.mutable_train()->set_hash_every(-1); },
                "train.hash_every must be at least 0"},
        Mistake{"WindowTooLarge", [](auto& s) { Mlp(s).set_window(5000); },
                "train.model.mlp.window must be at most 4096, got 5000"},
        Mistake{"EmbeddingNegative",
                [](auto& s) { Mlp(s).set_embedding_dim(-2); },
                "train.model.mlp.embedding_dim must be at least 1"},
        Mistake{"HiddenTooLarge", [](auto& s) { Mlp(s).set_hidden_dim(70000); },
                "train.model.mlp.hidden_dim must be at most 65536"},
        Mistake{"LayersTooMany", [](auto& s) { Mlp(s).set_hidden_layers(65); },
                "train.model.mlp.hidden_layers must be at most 64"},
        Mistake{"ModelTooLarge",
                [](auto& s) {
                  Mlp(s).set_hidden_dim(65536);
                  Mlp(s).set_hidden_layers(64);
                },
                "train.model.mlp's number of parameters must be at most"},
        Mistake{"PathEmpty", [](auto& s) { Text(s).clear_path(); },
                "train.data.text.path must name"},
        Mistake{"PathTooLong",
                [](auto& s) { Text(s).set_path(std::string(5000, 'p')); },
                "train.data.text.path must have at most 4096 bytes, got 5000"},
        Mistake{"PathWithZeroByte",
                [](auto& s) { Text(s).set_path(std::string("a\0b", 3)); },
                "must not contain a zero byte"},
        Mistake{"FractionOne", [](auto& s) { Text(s).set_eval_fraction(1); },
                "train.data.text.eval_fraction must be above 0 and below 1"},
        Mistake{"MaxBytesNegative", [](auto& s) { Text(s).set_max_bytes(-1); },
                "train.data.text.max_bytes must be at least 1"},
        Mistake{"SamplesNegative",
                [](auto& s) { Synthetic(s).set_samples(-1); },
                "train.data.synthetic.samples must be at least 1"},
        Mistake{"SyntheticFractionNegative",
                [](auto& s) { Synthetic(s).set_eval_fraction(-0.5); },
                "train.data.synthetic.eval_fraction must be above 0"},
        Mistake{"RateNan", [](auto& s) { Adamw(s).set_learning_rate(NAN); },
                "train.optimizer.adamw.learning_rate must be above 0"},
        Mistake{"BetaOne", [](auto& s) { Adamw(s).set_beta1(1); },
                "train.optimizer.adamw.beta1 must be"},
        Mistake{"BetaTwoNegative", [](auto& s) { Adamw(s).set_beta2(-0.5); },
                "train.optimizer.adamw.beta2 must be"},
        Mistake{"EpsilonNegative", [](auto& s) { Adamw(s).set_epsilon(-1); },
                "train.optimizer.adamw.epsilon must be"},
        Mistake{"DecayInfinite",
                [](auto& s) { Adamw(s).set_weight_decay(INFINITY); },
                "train.optimizer.adamw.weight_decay must be"},
        Mistake{"ClipNegative", [](auto& s) { Adamw(s).set_clip_norm(-1); },
                "train.optimizer.adamw.clip_norm must be at least 0"},
        Mistake{"UnknownProgram",
                [](auto& s) {
                  s.GetReflection()->MutableUnknownFields(&s)->AddVarint(5, 1);
                },
                "the spec has field 5, which this coordinator does not know"},
        Mistake{"UnknownNestedField",
                [](auto& s) {
                  auto& mlp = Mlp(s);
                  mlp.GetReflection()->MutableUnknownFields(&mlp)->AddVarint(99,
                                                                             1);
                },
                "train.model.mlp has field 99"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(JobSpecTest, AllMistakesAreReportedAtOnce) {
  v1::JobSpec spec = SmallSpec();
  spec.set_name("");
  spec.mutable_train()->set_steps(0);
  const absl::Status status = ValidateAndDefault(spec).status();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("name must be"), HasSubstr("; train.steps")));
}

TEST(JobSpecTest, ReportsAtMostTenMistakes) {
  v1::JobSpec spec = SmallSpec();
  auto* unknown = spec.GetReflection()->MutableUnknownFields(&spec);
  for (int i = 0; i < 1000; ++i) unknown->AddVarint(100 + i, 1);
  const absl::Status status = ValidateAndDefault(spec).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("; and 990 more"));
  EXPECT_LT(status.message().size(), 2000u);
}

}  // namespace
}  // namespace ringmaster::coordinator
