#include "common/job/job_spec.h"

#include <cmath>
#include <functional>
#include <string>

#include "common/protocol/proto_time.h"
#include "common/status/reason.h"
#include "gmock/gmock.h"
#include "google/protobuf/unknown_field_set.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace ringmaster {
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
  EXPECT_EQ(train.non_finite().policy(), v1::NON_FINITE_POLICY_SKIP);
  EXPECT_EQ(train.non_finite().max_in_a_row(), 20);
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

TEST(JobSpecTest, HowRanksReduceIsTheJobsChoice) {
  v1::JobSpec spec = SmallSpec();
  v1::CollectiveSpec& collective = *spec.mutable_train()->mutable_collective();
  collective.set_algorithm(v1::COLLECTIVE_ALGORITHM_DIRECT);
  collective.set_transport(v1::COLLECTIVE_TRANSPORT_TCP);
  collective.set_wire(v1::COLLECTIVE_WIRE_BFLOAT16);
  const absl::StatusOr<v1::JobSpec> result = ValidateAndDefault(spec);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->train().collective().wire(), v1::COLLECTIVE_WIRE_BFLOAT16);

  collective.set_algorithm(static_cast<v1::CollectiveAlgorithm>(70));
  collective.set_transport(static_cast<v1::CollectiveTransport>(71));
  collective.set_wire(static_cast<v1::CollectiveWire>(72));
  collective.set_connections(17);
  EXPECT_THAT(
      std::string(ValidateAndDefault(spec).status().message()),
      AllOf(HasSubstr("train.collective.algorithm must be ring, "
                      "halving_doubling, direct, exchange, gather_broadcast "
                      "or hierarchical, got 70"),
            HasSubstr("train.collective.transport must be shared_memory, unix "
                      "or tcp, got 71"),
            HasSubstr("train.collective.wire must be float16 or bfloat16, got "
                      "72"),
            HasSubstr("train.collective.connections must be at most 16, got "
                      "17")));
}

TEST(JobSpecTest, DefaultedSpecPassesUnchanged) {
  const absl::StatusOr<v1::JobSpec> once = ValidateAndDefault(SmallSpec());
  ASSERT_TRUE(once.ok());
  const absl::StatusOr<v1::JobSpec> twice = ValidateAndDefault(*once);
  ASSERT_TRUE(twice.ok());
  EXPECT_TRUE(
      google::protobuf::util::MessageDifferencer::Equals(*once, *twice));
}

TEST(JobSpecTest, ASpecThatIsTooLargeIsRefusedWithItsSizeAndBound) {
  v1::JobSpec spec = SmallSpec();
  v1::EmulateComputeSpec& emulation =
      *spec.mutable_train()->mutable_emulate_compute();
  *emulation.mutable_forward() = ToProto(absl::Seconds(1));
  google::protobuf::RepeatedField<int32_t>& ready =
      *emulation.mutable_ready_permille();
  ready.Resize(60'000, 1);
  EXPECT_TRUE(ValidateAndDefault(spec).ok());
  ready.Resize(65'536, 1);
  const absl::Status status = ValidateAndDefault(spec).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the spec must take at most 65536 bytes, got 65"));
}

TEST(JobSpecTest, MaxFollowsMinWhenNotGiven) {
  v1::JobSpec spec = SmallSpec();
  spec.mutable_workers()->set_min(3);
  EXPECT_EQ(ValidateAndDefault(spec)->workers().max(), 3);
}

v1::JobSpec GptSpecOf(const std::string& preset) {
  v1::JobSpec spec = SmallSpec();
  spec.mutable_train()->mutable_model()->mutable_gpt()->set_preset(preset);
  return spec;
}

v1::JobSpec CnnJob() {
  v1::JobSpec spec = SmallSpec();
  v1::TrainProgram& train = *spec.mutable_train();
  train.mutable_model()->mutable_cnn();
  train.mutable_data()->mutable_images()->set_images("/data/images");
  train.mutable_data()->mutable_images()->set_labels("/data/labels");
  return spec;
}

TEST(JobSpecTest, FillsInTheDefaultsOfWhatIsGiven) {
  v1::JobSpec spec = GptSpecOf("");
  v1::TrainProgram& given = *spec.mutable_train();
  given.mutable_checkpoint()->set_directory("checkpoints");
  given.mutable_sample()->set_prompt("The");
  given.mutable_optimizer()->mutable_sgd();
  given.mutable_data()->mutable_tokens()->set_path("/data/train.bin");
  const absl::StatusOr<v1::JobSpec> result = ValidateAndDefault(spec);
  ASSERT_TRUE(result.ok()) << result.status();
  const v1::TrainProgram& train = result->train();
  EXPECT_EQ(train.micro_batch(), 0);
  // The workers know on what they compute.
  EXPECT_EQ(train.precision(), v1::PRECISION_UNSPECIFIED);
  EXPECT_EQ(train.model().gpt().vocabulary(), 256);
  EXPECT_EQ(train.model().gpt().window(), 256);
  EXPECT_EQ(train.model().gpt().layers(), 4);
  EXPECT_EQ(train.model().gpt().heads(), 4);
  EXPECT_EQ(train.model().gpt().width(), 128);
  EXPECT_EQ(train.model().gpt().dropout(), 0);
  EXPECT_EQ(train.model().gpt().sample_tokens(), 256);
  EXPECT_EQ(train.checkpoint().keep(), 2);
  EXPECT_TRUE(train.checkpoint().resume());
  EXPECT_EQ(train.checkpoint().on_error(), v1::WRITE_ERROR_POLICY_CONTINUE);
  EXPECT_EQ(train.sample().bytes(), 200);
  EXPECT_EQ(train.sample().temperature(), 0.8);
  EXPECT_EQ(train.optimizer().sgd().learning_rate(), 0.1);
  EXPECT_EQ(train.optimizer().schedule().kind(), v1::SCHEDULE_KIND_CONSTANT);
  EXPECT_EQ(train.optimizer().schedule().final_ratio(), 0.1);
  EXPECT_EQ(train.data().tokens().eval_fraction(), 0.1);
  EXPECT_EQ(train.data().tokens().corrupt_records(), v1::CORRUPT_RECORDS_STOP);
  const absl::StatusOr<v1::JobSpec> twice = ValidateAndDefault(*result);
  ASSERT_TRUE(twice.ok()) << twice.status();
  EXPECT_TRUE(
      google::protobuf::util::MessageDifferencer::Equals(*result, *twice));
}

TEST(JobSpecTest, FillsInThePresetOfAGpt) {
  struct Sizes {
    const char* preset;
    int layers;
    int width;
    int heads;
  };
  for (const Sizes& sizes : {Sizes{"gpt2", 12, 768, 12},
                             {"gpt2-medium", 24, 1024, 16},
                             {"gpt2-large", 36, 1280, 20},
                             {"gpt2-xl", 48, 1600, 25}}) {
    const auto spec = ValidateAndDefault(GptSpecOf(sizes.preset));
    ASSERT_TRUE(spec.ok()) << spec.status();
    const v1::GptSpec& gpt = spec->train().model().gpt();
    EXPECT_EQ(gpt.layers(), sizes.layers);
    EXPECT_EQ(gpt.width(), sizes.width);
    EXPECT_EQ(gpt.heads(), sizes.heads);
    EXPECT_EQ(gpt.vocabulary(), 50257);
    EXPECT_EQ(gpt.window(), 1024);
  }
}

TEST(JobSpecTest, KeepsWhatIsGivenBesideAPreset) {
  v1::JobSpec spec = GptSpecOf("gpt2");
  spec.mutable_train()->mutable_model()->mutable_gpt()->set_layers(2);
  const auto result = ValidateAndDefault(spec);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->train().model().gpt().layers(), 2);
  EXPECT_EQ(result->train().model().gpt().width(), 768);
}

TEST(JobSpecTest, FillsInTheDefaultsOfACnn) {
  const auto result = ValidateAndDefault(CnnJob());
  ASSERT_TRUE(result.ok()) << result.status();
  const v1::CnnSpec& cnn = result->train().model().cnn();
  EXPECT_EQ(cnn.height(), 28);
  EXPECT_EQ(cnn.width(), 28);
  EXPECT_EQ(cnn.channels(), 1);
  EXPECT_EQ(cnn.classes(), 10);
  EXPECT_THAT(cnn.filters(), ::testing::ElementsAre(32, 64));
  EXPECT_EQ(cnn.hidden_dim(), 128);
  EXPECT_EQ(result->train().data().images().eval_fraction(), 0.1);
}

TEST(JobSpecTest, ACustomModelTakesAnyData) {
  v1::JobSpec spec = CnnJob();
  auto& custom = *spec.mutable_train()->mutable_model()->mutable_custom();
  custom.set_name("mixer");
  (*custom.mutable_settings())["width"] = 3;
  spec.mutable_train()->mutable_sample()->set_prompt("x");
  EXPECT_TRUE(ValidateAndDefault(spec).ok());
}

TEST(JobSpecTest, HeldOutFilesLeaveNoFraction) {
  v1::JobSpec spec = CnnJob();
  v1::ImagesSource& images =
      *spec.mutable_train()->mutable_data()->mutable_images();
  images.set_evaluation_images("/data/t10k-images");
  images.set_evaluation_labels("/data/t10k-labels");
  const auto result = ValidateAndDefault(spec);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->train().data().images().eval_fraction(), 0);
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

v1::LlamaSpec FilledLlama(const v1::LlamaSpec& llama) {
  v1::JobSpec spec = SmallSpec();
  *spec.mutable_train()->mutable_model()->mutable_llama() = llama;
  const auto result = ValidateAndDefault(spec);
  EXPECT_TRUE(result.ok()) << result.status();
  return result->train().model().llama();
}

TEST(JobSpecTest, FillsInALlama) {
  v1::LlamaSpec given;
  given.set_heads(8);
  given.set_width(512);
  const v1::LlamaSpec llama = FilledLlama(given);
  EXPECT_EQ(llama.kv_heads(), 8);
  EXPECT_EQ(llama.hidden(), 1368);
  EXPECT_EQ(llama.sample_tokens(), 256);
  EXPECT_EQ(llama.rope_theta(), 10000);
  EXPECT_EQ(llama.norm_epsilon(), 1e-5);
  EXPECT_FALSE(llama.tied());
}

TEST(JobSpecTest, APresetSetsOnlyWhatIsNotSet) {
  v1::LlamaSpec given;
  given.set_preset("smollm-135m");
  given.set_tied(false);
  given.set_hidden(1000);
  const v1::LlamaSpec llama = FilledLlama(given);
  EXPECT_FALSE(llama.tied());
  EXPECT_EQ(llama.hidden(), 1000);
}

TEST(JobSpecTest, ABadFieldOfALlamaIsOneError) {
  v1::JobSpec spec = SmallSpec();
  v1::LlamaSpec& llama =
      *spec.mutable_train()->mutable_model()->mutable_llama();
  llama.set_heads(300);
  EXPECT_EQ(ValidateAndDefault(spec).status().message(),
            "train.model.llama.heads must be at most 256, got 300");
  llama.Clear();
  llama.set_width(30000);
  EXPECT_EQ(ValidateAndDefault(spec).status().message(),
            "train.model.llama.width must be at most 16384, got 30000");
}

TEST(JobSpecTest, FillsInThePresetOfALlama) {
  v1::LlamaSpec given;
  given.set_preset("smollm-135m");
  given.set_sample_tokens(128);
  const v1::LlamaSpec llama = FilledLlama(given);
  EXPECT_EQ(llama.layers(), 30);
  EXPECT_EQ(llama.kv_heads(), 3);
  EXPECT_EQ(llama.hidden(), 1536);
  EXPECT_EQ(llama.sample_tokens(), 128);
  EXPECT_TRUE(llama.tied());
}

v1::BertSpec FilledBert(const v1::BertSpec& bert) {
  v1::JobSpec spec = SmallSpec();
  *spec.mutable_train()->mutable_model()->mutable_bert() = bert;
  const auto result = ValidateAndDefault(spec);
  EXPECT_TRUE(result.ok()) << result.status();
  return result->train().model().bert();
}

TEST(JobSpecTest, FillsInABert) {
  v1::BertSpec given;
  const v1::BertSpec bert = FilledBert(given);
  EXPECT_EQ(bert.hidden(), 512);
  EXPECT_EQ(bert.type_vocabulary(), 2);
  EXPECT_EQ(bert.padding(), 0);
  EXPECT_EQ(bert.mask(), 256);
  EXPECT_EQ(bert.sample_tokens(), 256);
  EXPECT_EQ(bert.norm_epsilon(), 1e-12);
  given.set_roberta(true);
  EXPECT_EQ(FilledBert(given).type_vocabulary(), 1);
  EXPECT_EQ(FilledBert(given).padding(), 1);
}

TEST(JobSpecTest, FillsInThePresetOfABert) {
  v1::BertSpec given;
  given.set_preset("roberta-large");
  given.set_dropout(0);
  const v1::BertSpec roberta = FilledBert(given);
  EXPECT_EQ(roberta.vocabulary(), 50265);
  EXPECT_EQ(roberta.layers(), 24);
  EXPECT_EQ(roberta.hidden(), 4096);
  EXPECT_TRUE(roberta.roberta());
  EXPECT_EQ(roberta.padding(), 1);
  EXPECT_EQ(roberta.mask(), 50264);
  EXPECT_EQ(roberta.dropout(), 0);
  given.Clear();
  given.set_preset("bert-base");
  const v1::BertSpec bert = FilledBert(given);
  EXPECT_EQ(bert.vocabulary(), 30522);
  EXPECT_EQ(bert.separator(), 102);
  EXPECT_EQ(bert.mask(), 103);
  EXPECT_EQ(bert.dropout(), 0.1);
  EXPECT_FALSE(bert.roberta());
}

TEST(JobSpecTest, FillsInThePresetOfAResnet) {
  v1::JobSpec spec = CnnJob();
  spec.mutable_train()->mutable_model()->mutable_resnet()->set_preset(
      "resnet50");
  const auto result = ValidateAndDefault(spec);
  ASSERT_TRUE(result.ok()) << result.status();
  const v1::ResnetSpec& resnet = result->train().model().resnet();
  EXPECT_EQ(resnet.depth(), 50);
  EXPECT_EQ(resnet.width(), 224);
  EXPECT_EQ(resnet.classes(), 1000);
}

v1::BertSpec& Bert(v1::JobSpec& spec) {
  return *spec.mutable_train()->mutable_model()->mutable_bert();
}
v1::LabelledTextSource& LabelledText(v1::JobSpec& spec) {
  v1::LabelledTextSource& source =
      *spec.mutable_train()->mutable_data()->mutable_labelled_text();
  source.set_path("/x/reviews.csv");
  source.set_vocabulary("/x/vocab.txt");
  return source;
}

v1::GptSpec& Gpt(v1::JobSpec& spec) {
  return *spec.mutable_train()->mutable_model()->mutable_gpt();
}
v1::LlamaSpec& Llama(v1::JobSpec& spec) {
  return *spec.mutable_train()->mutable_model()->mutable_llama();
}
v1::ResnetSpec& Resnet(v1::JobSpec& spec) {
  spec = CnnJob();
  return *spec.mutable_train()->mutable_model()->mutable_resnet();
}
v1::CnnSpec& Cnn(v1::JobSpec& spec) {
  spec = CnnJob();
  return *spec.mutable_train()->mutable_model()->mutable_cnn();
}
v1::CustomModelSpec& Custom(v1::JobSpec& spec) {
  return *spec.mutable_train()->mutable_model()->mutable_custom();
}
v1::TokensSource& Tokens(v1::JobSpec& spec) {
  auto& tokens = *spec.mutable_train()->mutable_data()->mutable_tokens();
  tokens.set_path("/data");
  return tokens;
}
v1::ImageFolderSource& ImageFolder(v1::JobSpec& spec) {
  spec = CnnJob();
  v1::ImageFolderSource& folder =
      *spec.mutable_train()->mutable_data()->mutable_image_folder();
  folder.set_path("/images");
  return folder;
}

v1::ImagesSource& Images(v1::JobSpec& spec) {
  spec = CnnJob();
  return *spec.mutable_train()->mutable_data()->mutable_images();
}
v1::SgdSpec& Sgd(v1::JobSpec& spec) {
  return *spec.mutable_train()->mutable_optimizer()->mutable_sgd();
}
v1::ScheduleSpec& Schedule(v1::JobSpec& spec) {
  return *spec.mutable_train()->mutable_optimizer()->mutable_schedule();
}
v1::CheckpointSpec& Checkpoint(v1::JobSpec& spec) {
  spec.mutable_train()->mutable_checkpoint()->set_directory("/checkpoints");
  return *spec.mutable_train()->mutable_checkpoint();
}
v1::SampleSpec& Sample(v1::JobSpec& spec) {
  spec.mutable_train()->mutable_sample()->set_prompt("The");
  return *spec.mutable_train()->mutable_sample();
}

INSTANTIATE_TEST_SUITE_P(
    Models, JobSpecMistakeTest,
    ::testing::Values(
        Mistake{"PresetUnknown", [](auto& s) { Gpt(s).set_preset("gpt3"); },
                "train.model.gpt.preset must be one of gpt2, gpt2-medium, "
                "gpt2-large, gpt2-xl, or be left out, got \"gpt3\""},
        Mistake{"GptVocabulary", [](auto& s) { Gpt(s).set_vocabulary(-1); },
                "train.model.gpt.vocabulary must be at least 1"},
        Mistake{"GptWindow", [](auto& s) { Gpt(s).set_window(5000); },
                "train.model.gpt.window must be at most 4096"},
        Mistake{"GptLayers", [](auto& s) { Gpt(s).set_layers(257); },
                "train.model.gpt.layers must be at most 256"},
        Mistake{"GptHeads", [](auto& s) { Gpt(s).set_heads(-4); },
                "train.model.gpt.heads must be at least 1"},
        Mistake{"GptHeadsDoNotDivide", [](auto& s) { Gpt(s).set_heads(3); },
                "train.model.gpt.width must be a multiple of "
                "train.model.gpt.heads (3), got 128"},
        Mistake{"GptWidth", [](auto& s) { Gpt(s).set_width(20000); },
                "train.model.gpt.width must be at most 16384"},
        Mistake{"GptDropout", [](auto& s) { Gpt(s).set_dropout(1); },
                "train.model.gpt.dropout must be at least 0 and at most 0.99"},
        Mistake{"GptDropoutNan", [](auto& s) { Gpt(s).set_dropout(NAN); },
                "train.model.gpt.dropout must be"},
        Mistake{"GptSampleTokens",
                [](auto& s) { Gpt(s).set_sample_tokens(300); },
                "train.model.gpt.sample_tokens must be at least 1 and at most "
                "train.model.gpt.window (256), got 300"},
        Mistake{"LlamaHeadsDoNotDivide", [](auto& s) { Llama(s).set_heads(3); },
                "train.model.llama.width must be an even multiple of "
                "train.model.llama.heads (3), got 128"},
        Mistake{"LlamaKeysDoNotDivide",
                [](auto& s) { Llama(s).set_kv_heads(3); },
                "train.model.llama.kv_heads must divide "
                "train.model.llama.heads (4), got 3"},
        Mistake{"LlamaPresetUnknown",
                [](auto& s) { Llama(s).set_preset("llama-3"); },
                "train.model.llama.preset must be one of llama-160m, "},
        Mistake{"LlamaTooLarge",
                [](auto& s) {
                  Llama(s).set_width(8192);
                  Llama(s).set_layers(100);
                },
                "train.model.llama's number of parameters must be at most "
                "2147483648"},
        Mistake{"LlamaOfBytesHasTooFewTokens",
                [](auto& s) { Llama(s).set_vocabulary(100); },
                "train.model.llama.vocabulary must be at least 256 for data "
                "of bytes, got 100"},
        Mistake{"BertHeadsDoNotDivide", [](auto& s) { Bert(s).set_heads(3); },
                "train.model.bert.width must be a multiple of "
                "train.model.bert.heads (3), got 128"},
        Mistake{"BertPadding", [](auto& s) { Bert(s).set_padding(257); },
                "train.model.bert.padding must be less than "
                "train.model.bert.vocabulary (257), got 257"},
        Mistake{"BertSeparator", [](auto& s) { Bert(s).set_separator(300); },
                "train.model.bert.separator must be less than "
                "train.model.bert.vocabulary (257), got 300"},
        Mistake{"BertMask", [](auto& s) { Bert(s).set_mask(300); },
                "train.model.bert.mask must be less than "
                "train.model.bert.vocabulary (257), got 300"},
        Mistake{"BertTooLarge",
                [](auto& s) {
                  Bert(s).set_width(8192);
                  Bert(s).set_layers(100);
                },
                "train.model.bert's number of parameters must be at most "
                "2147483648"},
        Mistake{"BertOfBytesHasNoMask",
                [](auto& s) { Bert(s).set_vocabulary(256); },
                "train.model.bert.vocabulary must be at least 257 for data "
                "of bytes, got 256"},
        Mistake{"BertOfClassesNeedsLabels",
                [](auto& s) { Bert(s).set_classes(2); },
                "train.model.bert.classes makes it classify texts: train.data "
                "must be labelled_text"},
        Mistake{"LabelledTextNeedsClasses", [](auto& s) { LabelledText(s); },
                "train.data.labelled_text is for a model that classifies "
                "texts: train.model must be a bert with classes"},
        Mistake{"LabelsAreOfTheClasses",
                [](auto& s) {
                  Bert(s).set_classes(3);
                  LabelledText(s).add_labels("good");
                },
                "train.data.labelled_text.labels must name the 3 classes of "
                "train.model.bert, got 1"},
        Mistake{"LabelledTextNeedsAVocabulary",
                [](auto& s) { LabelledText(s).clear_vocabulary(); },
                "train.data.labelled_text.vocabulary"},
        Mistake{"BertContinuesNoText",
                [](auto& s) {
                  Bert(s);
                  s.mutable_train()->mutable_sample()->set_prompt("a");
                },
                "train.sample needs a model that continues text: mlp, gpt, "
                "llama or custom, not bert"},
        Mistake{"GptTooLarge",
                [](auto& s) {
                  Gpt(s).set_width(8192);
                  Gpt(s).set_layers(100);
                },
                "train.model.gpt's number of parameters must be at most "
                "2147483648"},
        Mistake{"GptTooFewTokensForBytes",
                [](auto& s) { Gpt(s).set_vocabulary(100); },
                "train.model.gpt.vocabulary must be at least 256 for data of "
                "bytes, got 100"},
        Mistake{"CnnHeight", [](auto& s) { Cnn(s).set_height(5000); },
                "train.model.cnn.height must be at most 4096"},
        Mistake{"CnnWidth", [](auto& s) { Cnn(s).set_width(-1); },
                "train.model.cnn.width must be at least 1"},
        Mistake{"CnnChannels", [](auto& s) { Cnn(s).set_channels(-1); },
                "train.model.cnn.channels must be at least 1"},
        Mistake{"CnnClasses", [](auto& s) { Cnn(s).set_classes(-1); },
                "train.model.cnn.classes must be at least 1"},
        Mistake{"CnnHidden", [](auto& s) { Cnn(s).set_hidden_dim(-1); },
                "train.model.cnn.hidden_dim must be at least 1"},
        Mistake{
            "CnnFilters",
            [](auto& s) {
              Cnn(s).add_filters(8);
              s.mutable_train()->mutable_model()->mutable_cnn()->add_filters(0);
            },
            "train.model.cnn.filters[1] must be at least 1, got 0"},
        Mistake{"CnnFiltersTooMany",
                [](auto& s) {
                  v1::CnnSpec& cnn = Cnn(s);
                  for (int i = 0; i < 17; ++i) cnn.add_filters(8);
                },
                "train.model.cnn.filters' number of entries must be at most "
                "16, got 17"},
        Mistake{"CnnImageTooSmall",
                [](auto& s) {
                  v1::CnnSpec& cnn = Cnn(s);
                  for (int i = 0; i < 5; ++i) cnn.add_filters(8);
                },
                "train.model.cnn.filters has 5 entries, each of which halves "
                "the image: it must be at least 32x32 pixels, got 28x28"},
        Mistake{"CnnTooLarge",
                [](auto& s) {
                  v1::CnnSpec& cnn = Cnn(s);
                  cnn.set_height(4096);
                  cnn.set_width(4096);
                },
                "train.model.cnn's number of parameters must be at most"},
        Mistake{"ResnetDepth", [](auto& s) { Resnet(s).set_depth(20); },
                "train.model.resnet.depth must be one of 10, 14, 18, 26, 34, "
                "50, 101, 152, got 20"},
        Mistake{"ResnetPresetUnknown",
                [](auto& s) { Resnet(s).set_preset("resnet51"); },
                "train.model.resnet.preset must be one of resnet18, resnet34, "
                "resnet50, or be left out"},
        Mistake{"ResnetPixelMean",
                [](auto& s) { Resnet(s).add_pixel_mean_permille(500); },
                "train.model.resnet.pixel_mean_permille must have a value for "
                "each of "
                "train.model.resnet.channels (3), got 1"},
        Mistake{
            "ResnetOfOnePixel",
            [](auto& s) {
              v1::ResnetSpec& resnet = Resnet(s);
              resnet.set_height(32);
              resnet.set_width(32);
            },
            "train.model.resnet.norm_group must be 2 or more for images of "
            "at most 32x32, of which the last layers have one pixel, got 0"},
        Mistake{"ResnetGroupDoesNotDivide",
                [](auto& s) {
                  Resnet(s).set_norm_group(4);
                  s.mutable_train()->set_global_batch(30);
                },
                "train.global_batch must be a multiple of "
                "train.model.resnet.norm_group (4), got 30"},
        Mistake{"ResnetHasFewerGroupsThanWorkers",
                [](auto& s) {
                  Resnet(s).set_norm_group(4);
                  s.mutable_workers()->set_max(9);
                  s.mutable_train()->set_global_batch(32);
                },
                "train.global_batch must be at least workers.max (9) times "
                "train.model.resnet.norm_group (4), so that every rank has a "
                "group, got 32"},
        Mistake{"ResnetTooLarge",
                [](auto& s) { Resnet(s).set_filters(1024); },
                "train.model.resnet's number of parameters must be at most"},
        Mistake{"CustomWithoutName", [](auto& s) { Custom(s); },
                "train.model.custom.name must have 1 to 80 bytes, got 0"},
        Mistake{"CustomSettingInfinite",
                [](auto& s) {
                  Custom(s).set_name("mixer");
                  (*Custom(s).mutable_settings())["width"] = INFINITY;
                },
                "train.model.custom.settings.width must be finite, got inf"},
        Mistake{"CustomTooManySettings",
                [](auto& s) {
                  Custom(s).set_name("mixer");
                  for (int i = 0; i < 1001; ++i)
                    (*Custom(s).mutable_settings())[std::to_string(i)] = 1;
                },
                "train.model.custom.settings' number of entries must be at "
                "most 1000"}),
    [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Sources, JobSpecMistakeTest,
    ::testing::Values(
        Mistake{"VocabularyWithoutMerges",
                [](auto& s) { Text(s).set_vocabulary("vocab.json"); },
                "train.data.text.vocabulary and train.data.text.merges must be "
                "given together; train.data.text.merges is missing"},
        Mistake{"MergesWithoutVocabulary",
                [](auto& s) { Text(s).set_merges("merges.txt"); },
                "train.data.text.vocabulary is missing"},
        Mistake{"TokensWithoutPath", [](auto& s) { Tokens(s).clear_path(); },
                "train.data.tokens.path must name a file or a directory"},
        Mistake{"TokensEvaluationTwice",
                [](auto& s) {
                  Tokens(s).set_evaluation_path("/val.bin");
                  Tokens(s).set_eval_fraction(0.1);
                },
                "train.data.tokens.eval_fraction and "
                "train.data.tokens.evaluation_path exclude each other"},
        Mistake{"TokensFraction",
                [](auto& s) { Tokens(s).set_eval_fraction(2); },
                "train.data.tokens.eval_fraction must be above 0 and below 1"},
        Mistake{"TokensCorruptUnknown",
                [](auto& s) {
                  Tokens(s).set_corrupt_records(
                      static_cast<v1::CorruptRecords>(9));
                },
                "train.data.tokens.corrupt_records must be stop or skip, got "
                "9"},
        Mistake{"ImagesWithoutImages",
                [](auto& s) { Images(s).clear_images(); },
                "train.data.images.images must name a file of images"},
        Mistake{"ImagesWithoutLabels",
                [](auto& s) { Images(s).clear_labels(); },
                "train.data.images.labels must name a file of labels"},
        Mistake{"EvaluationWithoutLabels",
                [](auto& s) { Images(s).set_evaluation_images("/t10k"); },
                "train.data.images.evaluation_labels is missing"},
        Mistake{"ImagesEvaluationTwice",
                [](auto& s) {
                  v1::ImagesSource& images = Images(s);
                  images.set_evaluation_images("/t10k");
                  images.set_evaluation_labels("/t10k");
                  images.set_eval_fraction(0.1);
                },
                "train.data.images.eval_fraction and "
                "train.data.images.evaluation_images exclude each other"},
        Mistake{"ImagesCorruptUnknown",
                [](auto& s) {
                  Images(s).set_corrupt_records(
                      static_cast<v1::CorruptRecords>(9));
                },
                "train.data.images.corrupt_records must be"},
        Mistake{"ImageFolderWithoutPath",
                [](auto& s) { ImageFolder(s).clear_path(); },
                "train.data.image_folder.path must name a directory"},
        Mistake{"ImageFolderEvaluationTwice",
                [](auto& s) {
                  v1::ImageFolderSource& folder = ImageFolder(s);
                  folder.set_evaluation_path("/val");
                  folder.set_eval_fraction(0.1);
                },
                "train.data.image_folder.eval_fraction and "
                "train.data.image_folder.evaluation_path exclude each other"},
        Mistake{"ImageFolderCrop",
                [](auto& s) { ImageFolder(s).set_crop_area(1.5); },
                "train.data.image_folder.crop_area must be above 0 and at most "
                "1"},
        Mistake{"ImageFolderThreads",
                [](auto& s) { ImageFolder(s).set_decode_threads(65); },
                "train.data.image_folder.decode_threads must be at most 64, "
                "got 65"},
        Mistake{
            "ImageFolderOfTwoChannels",
            [](auto& s) {
              ImageFolder(s);
              s.mutable_train()->mutable_model()->mutable_cnn()->set_channels(
                  2);
            },
            "train.data.image_folder has pictures of 1 or 3 channels (grey "
            "or RGB), but train.model.cnn.channels is 2"},
        Mistake{"GptOnAnImageFolder",
                [](auto& s) {
                  ImageFolder(s);
                  Gpt(s);
                },
                "train.data.image_folder is for a model that classifies images "
                "(cnn, resnet), but train.model.gpt takes tokens"},
        Mistake{"ResnetOnText",
                [](auto& s) {
                  Resnet(s);
                  Text(s);
                },
                "train.model.resnet classifies images: train.data must be "
                "images"},
        Mistake{"CnnOnText",
                [](auto& s) {
                  Cnn(s);
                  Text(s);
                },
                "train.model.cnn classifies images: train.data must be images"},
        Mistake{"GptOnImages",
                [](auto& s) {
                  Images(s);
                  Gpt(s);
                },
                "but train.model.gpt takes tokens"},
        Mistake{"MlpOnImages",
                [](auto& s) {
                  Images(s);
                  Mlp(s);
                },
                "but train.model.mlp takes tokens"},
        Mistake{"MlpOnEncodedText",
                [](auto& s) {
                  Text(s).set_vocabulary("vocab.json");
                  Text(s).set_merges("merges.txt");
                },
                "train.data.text.vocabulary makes tokens that train.model.mlp "
                "does not have"}),
    [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Training, JobSpecMistakeTest,
    ::testing::Values(
        Mistake{"SgdRate", [](auto& s) { Sgd(s).set_learning_rate(-1); },
                "train.optimizer.sgd.learning_rate must be above 0 and finite"},
        Mistake{"SgdMomentum", [](auto& s) { Sgd(s).set_momentum(1); },
                "train.optimizer.sgd.momentum must be at least 0 and below 1"},
        Mistake{"SgdDecay", [](auto& s) { Sgd(s).set_weight_decay(-1); },
                "train.optimizer.sgd.weight_decay must be at least 0"},
        Mistake{"SgdClip", [](auto& s) { Sgd(s).set_clip_norm(NAN); },
                "train.optimizer.sgd.clip_norm must be at least 0"},
        Mistake{"NesterovWithoutMomentum",
                [](auto& s) { Sgd(s).set_nesterov(true); },
                "train.optimizer.sgd.nesterov needs "
                "train.optimizer.sgd.momentum above 0, got 0"},
        Mistake{"ScheduleUnknown",
                [](auto& s) {
                  Schedule(s).set_kind(static_cast<v1::ScheduleKind>(9));
                },
                "train.optimizer.schedule.kind must be constant, cosine, "
                "linear or wsd, got 9"},
        Mistake{"DecayNegative",
                [](auto& s) { Schedule(s).set_decay_steps(-1); },
                "train.optimizer.schedule.decay_steps must be at least 0"},
        Mistake{"DecayWithoutWsd",
                [](auto& s) { Schedule(s).set_decay_steps(5); },
                "train.optimizer.schedule.decay_steps needs "
                "train.optimizer.schedule.kind wsd, got 5"},
        Mistake{"WsdWithoutDecay",
                [](auto& s) { Schedule(s).set_kind(v1::SCHEDULE_KIND_WSD); },
                "train.optimizer.schedule.kind wsd needs "
                "train.optimizer.schedule.decay_steps, the last steps, over "
                "which the learning rate falls"},
        Mistake{"DecayMeetsTheWarmup",
                [](auto& s) {
                  Schedule(s).set_kind(v1::SCHEDULE_KIND_WSD);
                  Schedule(s).set_warmup_steps(4);
                  Schedule(s).set_decay_steps(7);
                },
                "train.optimizer.schedule.decay_steps must be at most "
                "train.steps without the warm-up (6), got 7"},
        Mistake{"WarmupNegative",
                [](auto& s) { Schedule(s).set_warmup_steps(-1); },
                "train.optimizer.schedule.warmup_steps must be at least 0"},
        Mistake{"WarmupBeyondTheEnd",
                [](auto& s) { Schedule(s).set_warmup_steps(11); },
                "train.optimizer.schedule.warmup_steps must be at most "
                "train.steps (10), got 11"},
        Mistake{"FinalRatio", [](auto& s) { Schedule(s).set_final_ratio(1.5); },
                "train.optimizer.schedule.final_ratio must be at least 0 and "
                "at most 1, got 1.5"},
        Mistake{"LayerDecay",
                [](auto& s) {
                  s.mutable_train()->mutable_optimizer()->set_layer_decay(1.5);
                },
                "train.optimizer.layer_decay must be above 0 and at most 1, "
                "got 1.5"},
        Mistake{"LabelSmoothing",
                [](auto& s) { s.mutable_train()->set_label_smoothing(1); },
                "train.label_smoothing must be at least 0 and below 1, got 1"},
        Mistake{"EarlyStopWithoutPatience",
                [](auto& s) {
                  s.mutable_train()->set_evaluate_every(2);
                  s.mutable_train()->mutable_early_stop();
                },
                "train.early_stop.patience must be at least 1, got 0"},
        Mistake{"EarlyStopDelta",
                [](auto& s) {
                  s.mutable_train()->set_evaluate_every(2);
                  s.mutable_train()->mutable_early_stop()->set_patience(1);
                  s.mutable_train()->mutable_early_stop()->set_min_delta(-1);
                },
                "train.early_stop.min_delta must be at least 0 and finite, got "
                "-1"},
        Mistake{"EarlyStopWithoutEvaluations",
                [](auto& s) {
                  s.mutable_train()->mutable_early_stop()->set_patience(1);
                },
                "train.early_stop needs train.evaluate_every above 0, got 0: "
                "without evaluations there is nothing to stop for"},
        Mistake{"BestWithoutEvaluations",
                [](auto& s) {
                  v1::CheckpointSpec& checkpoint =
                      *s.mutable_train()->mutable_checkpoint();
                  checkpoint.set_directory("/ckpt");
                  checkpoint.set_keep_best(true);
                },
                "train.checkpoint.keep_best needs train.evaluate_every above "
                "0, got 0: without evaluations there is no best"},
        Mistake{"EarlyStopOfAnEmulation",
                [](auto& s) {
                  v1::TrainProgram& train = *s.mutable_train();
                  train.set_evaluate_every(2);
                  train.mutable_early_stop()->set_patience(1);
                  train.mutable_emulate_compute()->mutable_forward()->set_nanos(
                      1000);
                },
                "train.early_stop does not go with train.emulate_compute, with "
                "which nothing is learnt"},
        Mistake{"MicroBatchNegative",
                [](auto& s) { s.mutable_train()->set_micro_batch(-1); },
                "train.micro_batch must be at least 0, got -1"},
        Mistake{
            "PrecisionUnknown",
            [](auto& s) {
              s.mutable_train()->set_precision(static_cast<v1::Precision>(9));
            },
            "train.precision must be float32, bfloat16, tf32 or float16, got "
            "9"},
        Mistake{"CheckpointWithoutDirectory",
                [](auto& s) { Checkpoint(s).clear_directory(); },
                "train.checkpoint.directory must name the directory"},
        Mistake{"CheckpointEvery",
                [](auto& s) { Checkpoint(s).set_every_steps(-1); },
                "train.checkpoint.every_steps must be at least 0"},
        Mistake{"CheckpointKeep", [](auto& s) { Checkpoint(s).set_keep(-1); },
                "train.checkpoint.keep must be at least 1, got -1"},
        Mistake{"InitialParameters",
                [](auto& s) {
                  s.mutable_train()->set_initial_parameters(
                      std::string(5000, 'p'));
                },
                "train.initial_parameters must have at most 4096 bytes"},
        Mistake{"SampleWithoutPrompt",
                [](auto& s) { Sample(s).clear_prompt(); },
                "train.sample.prompt must have 1 to 16384 bytes, got 0"},
        Mistake{"SamplePromptTooLong",
                [](auto& s) { Sample(s).set_prompt(std::string(20000, 'a')); },
                "train.sample.prompt must have 1 to 16384 bytes, got 20000"},
        Mistake{"SampleBytes", [](auto& s) { Sample(s).set_bytes(100001); },
                "train.sample.bytes must be at most 100000, got 100001"},
        Mistake{"SampleTemperature",
                [](auto& s) { Sample(s).set_temperature(-0.1); },
                "train.sample.temperature must be at least 0 and finite"},
        Mistake{"SampleTopK", [](auto& s) { Sample(s).set_top_k(-1); },
                "train.sample.top_k must be at least 0"},
        Mistake{"SampleOfTokens",
                [](auto& s) {
                  Gpt(s).set_preset("gpt2");
                  Tokens(s);
                  Sample(s);
                },
                "train.sample needs data of text"},
        Mistake{"SampleOfACnn",
                [](auto& s) {
                  Cnn(s);
                  Sample(s);
                },
                "train.sample needs a model that continues text: mlp, gpt, "
                "llama or custom, not cnn"}),
    [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    All, JobSpecMistakeTest,
    ::testing::Values(
        Mistake{"NameEmpty", [](auto& s) { s.clear_name(); },
                "name must be 1 to 40"},
        Mistake{"NonFiniteUnknown",
                [](auto& s) {
                  s.mutable_train()->mutable_non_finite()->set_policy(
                      static_cast<v1::NonFinitePolicy>(9));
                },
                "train.non_finite.policy must be skip or fail, got 9"},
        Mistake{"NonFiniteNegative",
                [](auto& s) {
                  s.mutable_train()->mutable_non_finite()->set_max_in_a_row(-1);
                },
                "train.non_finite.max_in_a_row must be at least 1"},
        Mistake{"CheckpointErrorUnknown",
                [](auto& s) {
                  v1::CheckpointSpec& checkpoint =
                      *s.mutable_train()->mutable_checkpoint();
                  checkpoint.set_directory("/checkpoints");
                  checkpoint.set_on_error(static_cast<v1::WriteErrorPolicy>(9));
                },
                "train.checkpoint.on_error must be continue or fail, got 9"},
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
        Mistake{"RequiredLabelIsNone",
                [](auto& s) {
                  (*s.mutable_workers()->mutable_require())["gpu"] = "h 100";
                },
                "workers.require: value \"h 100\" must be 1 to 63 letters"},
        Mistake{"NoProgram", [](auto& s) { s.clear_train(); },
                "must have a program: train, bench or external"},
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
        Mistake{"TwoTextsNeedASeparator",
                [](auto& s) {
                  Bert(s).set_classes(2);
                  LabelledText(s).set_second_text("other");
                },
                "train.model.bert.separator must be given where "
                "train.data.labelled_text.second_text is"},
        Mistake{"MirrorOnNobody",
                [](auto& s) {
                  s.mutable_workers()->set_max(1);
                  s.mutable_train()->mutable_optimizer_sharding();
                },
                "train.optimizer_sharding.mirror must be below workers.max "
                "(1), since a mirror is on another worker, got 1"},
        Mistake{"MirrorsTooMany",
                [](auto& s) {
                  s.mutable_train()
                      ->mutable_optimizer_sharding()
                      ->set_mirror(3);
                },
                "train.optimizer_sharding.mirror must be at most 2, got 3"},
        Mistake{"ShardingWithoutMoments",
                [](auto& s) {
                  s.mutable_workers()->set_max(4);
                  s.mutable_train()->mutable_optimizer_sharding();
                  Sgd(s).set_momentum(0);
                },
                "train.optimizer_sharding needs an optimizer with moments"},
        Mistake{"ShardingWithServers",
                [](auto& s) {
                  s.mutable_workers()->set_max(4);
                  s.mutable_train()->mutable_optimizer_sharding();
                  s.mutable_train()->mutable_parameter_server()->set_servers(1);
                },
                "train.optimizer_sharding must be left out with "
                "train.parameter_server"},
        Mistake{"EvaluateEveryNegative",
                [](auto& s) { s.mutable_train()->set_evaluate_every(-1); },
                "train.evaluate_every must be at least 0, got -1"},
        Mistake{"EvaluationSamplesNegative",
                [](auto& s) { s.mutable_train()->set_evaluation_samples(-1); },
                "train.evaluation_samples must be at least 0"},
        Mistake{"BucketTooSmall",
                [](auto& s) { s.mutable_train()->set_bucket_bytes(3); },
                "train.bucket_bytes must be at least 1024, got 3"},
        Mistake{"EmulatedInNoTime",
                [](auto& s) { s.mutable_train()->mutable_emulate_compute(); },
                "train.emulate_compute must say how long forward and backward "
                "take for a sample, at most 1m each, got 0 and 0"},
        Mistake{"EmulatedBackwards",
                [](auto& s) {
                  v1::EmulateComputeSpec& emulation =
                      *s.mutable_train()->mutable_emulate_compute();
                  emulation.mutable_forward()->set_nanos(1000);
                  emulation.add_ready_permille(500);
                  emulation.add_ready_permille(400);
                },
                "train.emulate_compute.ready_permille must ascend from 0 to "
                "1000, got 400 after 500"},
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

TEST(SerializeSpecTest, EqualSpecsHaveEqualBytes) {
  std::string bytes[2];
  for (const bool is_backwards : {false, true}) {
    v1::JobSpec spec = SmallSpec();
    auto& settings = *spec.mutable_train()
                          ->mutable_model()
                          ->mutable_custom()
                          ->mutable_settings();
    for (int i = 0; i < 50; ++i) {
      const int entry = is_backwards ? 49 - i : i;
      settings["s" + std::to_string(entry)] = entry;
    }
    bytes[is_backwards] = SerializeSpec(spec);
    v1::JobSpec read;
    ASSERT_TRUE(read.ParseFromString(bytes[is_backwards]));
    EXPECT_EQ(SerializeSpec(read), bytes[is_backwards]);
  }
  EXPECT_EQ(bytes[0], bytes[1]);
}

v1::JobSpec BenchSpec() {
  v1::JobSpec spec;
  spec.set_name("bench");
  spec.mutable_workers()->set_min(3);
  spec.mutable_bench();
  return spec;
}

TEST(JobSpecTest, FillsInABenchmarksDefaults) {
  const absl::StatusOr<v1::JobSpec> spec = ValidateAndDefault(BenchSpec());
  ASSERT_TRUE(spec.ok()) << spec.status();
  const v1::BenchProgram& bench = spec->bench();
  EXPECT_EQ(spec->workers().max(), 3);
  EXPECT_EQ(bench.sizes_size(), 8);
  EXPECT_EQ(bench.sizes(0), 4 << 10);
  EXPECT_EQ(bench.sizes(7), 64 << 20);
  EXPECT_EQ(bench.type(), v1::BENCH_TYPE_FLOAT32);
  EXPECT_EQ(bench.reduction(), v1::BENCH_REDUCTION_SUM);
  EXPECT_EQ(bench.iterations(), 20);
  EXPECT_EQ(bench.warmup(), 5);
  EXPECT_EQ(FromProto(bench.time_per_size()), absl::Seconds(2));
}

v1::JobSpec CommandSpec() {
  v1::JobSpec spec;
  spec.set_name("script");
  spec.mutable_external()->add_command("python3");
  spec.mutable_external()->add_command("train.py");
  return spec;
}

TEST(JobSpecTest, FillsInTheDefaultsOfACommand) {
  const absl::StatusOr<v1::JobSpec> spec = ValidateAndDefault(CommandSpec());
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->workers().max(), 1);
  EXPECT_EQ(FromProto(spec->external().stop_grace()), absl::Seconds(5));
  EXPECT_EQ(spec->external().max_restarts(), 0);
}

TEST(JobSpecTest, RefusesWhatIsWrongWithACommand) {
  struct Case {
    std::function<void(v1::ExternalProgram& external)> change;
    const char* text;
  };
  const Case cases[] = {
      {[](auto& external) { external.clear_command(); },
       "external.command's number of entries must be at least 1, got 0"},
      {[](auto& external) { external.set_command(0, ""); },
       "external.command must begin with the name of a program"},
      {[](auto& external) { external.set_command(1, std::string("a\0b", 3)); },
       "external.command must not contain a zero byte"},
      {[](auto& external) { (*external.mutable_environment())["A=B"] = "c"; },
       "external.environment: \"A=B\" is not the name of a variable"},
      {[](auto& external) {
         (*external.mutable_environment())["größe="] = "c";
       },
       "external.environment: \"größe=\" is not the name of a variable"},
      {[](auto& external) { (*external.mutable_environment())["RANK"] = "1"; },
       "external.environment: \"RANK\" is set by Ringmaster"},
      {[](auto& external) {
         (*external.mutable_secret_environment())["MASTER_PORT"] = "/file";
       },
       "external.secret_environment: \"MASTER_PORT\" is set by Ringmaster"},
      {[](auto& external) {
         (*external.mutable_secret_environment())["TOKEN"] = "";
       },
       "external.secret_environment: \"TOKEN\" must name a file"},
      {[](auto& external) {
         (*external.mutable_environment())["TOKEN"] = "x";
         (*external.mutable_secret_environment())["TOKEN"] = "/file";
       },
       "both have \"TOKEN\": give one of them"},
      {[](auto& external) { external.set_max_restarts(-1); },
       "external.max_restarts must be at least 0, got -1"},
  };
  for (const Case& bad : cases) {
    v1::JobSpec spec = CommandSpec();
    bad.change(*spec.mutable_external());
    const absl::Status status = ValidateAndDefault(spec).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.text));
    EXPECT_FALSE(DefaultProgram(spec.external()).ok()) << bad.text;
  }
}

TEST(JobSpecTest, RefusesWhatIsWrongWithABenchmark) {
  struct Case {
    std::function<void(v1::JobSpec& spec)> change;
    const char* text;
  };
  const Case cases[] = {
      {[](auto& spec) { spec.mutable_workers()->set_min(1); },
       "workers.min of a benchmark must be at least 2, got 1"},
      {[](auto& spec) { spec.mutable_workers()->set_min(129); },
       "workers.min of a benchmark"},
      {[](auto& spec) { spec.mutable_workers()->set_max(4); },
       "workers.max of a benchmark must be workers.min (3), got 4"},
      {[](auto& spec) { spec.mutable_bench()->add_sizes(2); },
       "bench.sizes must be whole elements"},
      {[](auto& spec) { spec.mutable_bench()->add_sizes(4098); },
       "bench.sizes must be whole elements"},
      {[](auto& spec) { spec.mutable_bench()->add_sizes(int64_t{2} << 30); },
       "bench.sizes must be within the bounds"},
      {[](auto& spec) {
         spec.mutable_bench()->add_sizes(4096);
         spec.mutable_bench()->add_sizes(4096);
       },
       "bench.sizes must ascend"},
      {[](auto& spec) {
         for (int i = 1; i <= 65; ++i) spec.mutable_bench()->add_sizes(4 * i);
       },
       "bench.sizes' number of entries must be at most 64, got 65"},
      {[](auto& spec) {
         spec.mutable_bench()->set_type(static_cast<v1::BenchType>(9));
       },
       "bench.type must be float32"},
      {[](auto& spec) {
         spec.mutable_bench()->set_reduction(
             static_cast<v1::BenchReduction>(9));
       },
       "bench.reduction must be sum"},
      {[](auto& spec) {
         spec.mutable_bench()->set_type(v1::BENCH_TYPE_INT64);
         spec.mutable_bench()->set_reduction(v1::BENCH_REDUCTION_AVERAGE);
       },
       "bench.reduction average takes a floating-point"},
      {[](auto& spec) {
         spec.mutable_bench()->set_type(v1::BENCH_TYPE_FLOAT16);
         spec.mutable_bench()->mutable_collective()->set_wire(
             v1::COLLECTIVE_WIRE_BFLOAT16);
       },
       "bench.collective.wire is for bench.type float32"},
      {[](auto& spec) {
         spec.mutable_bench()->mutable_collective()->set_algorithm(
             static_cast<v1::CollectiveAlgorithm>(99));
       },
       "bench.collective.algorithm"},
      {[](auto& spec) { spec.mutable_bench()->set_iterations(-1); },
       "bench.iterations"},
      {[](auto& spec) { spec.mutable_bench()->set_warmup(-1); },
       "bench.warmup"},
      {[](auto& spec) {
         *spec.mutable_bench()->mutable_time_per_size() =
             ToProto(absl::ZeroDuration());
       },
       "bench.time_per_size must be above 0s"},
  };
  for (const Case& wrong : cases) {
    v1::JobSpec spec = BenchSpec();
    wrong.change(spec);
    const absl::StatusOr<v1::JobSpec> result = ValidateAndDefault(spec);
    EXPECT_EQ(ReasonOf(result.status()), reason::kInvalidJobSpec) << wrong.text;
    EXPECT_THAT(std::string(result.status().message()), HasSubstr(wrong.text));
  }
}

}  // namespace
}  // namespace ringmaster
