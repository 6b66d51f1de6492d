#include "tests/gpu/step_vs_torch/our_models.h"

#include <fstream>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"

namespace ringmaster {
namespace {

// The most that a program may have.
constexpr int64_t kEndless = 1'000'000'000'000;
constexpr int64_t kBucketBytes = int64_t{32} << 20;
// PyTorch's side has as many.
constexpr int64_t kBatches = 4;
constexpr int kImageSide = 28;
constexpr int kClasses = 10;

const std::map<std::string, v1::Precision>& Precisions() {
  static const auto& precisions = *new std::map<std::string, v1::Precision>{
      {"bf16", v1::PRECISION_BFLOAT16},
      {"tf32", v1::PRECISION_TF32},
      {"fp32", v1::PRECISION_FLOAT32}};
  return precisions;
}

void SetGpt(int vocabulary, int window, int layers, int heads, int width,
            v1::ModelSpec& model) {
  v1::GptSpec& gpt = *model.mutable_gpt();
  gpt.set_vocabulary(vocabulary);
  gpt.set_window(window);
  gpt.set_layers(layers);
  gpt.set_heads(heads);
  gpt.set_width(width);
}

void SetCnn(v1::ModelSpec& model) {
  v1::CnnSpec& cnn = *model.mutable_cnn();
  cnn.set_height(kImageSide);
  cnn.set_width(kImageSide);
  cnn.set_channels(1);
  cnn.set_classes(kClasses);
  for (const int filters : {32, 64}) cnn.add_filters(filters);
  cnn.set_hidden_dim(128);
}

void SetMlp(v1::ModelSpec& model) {
  v1::MlpSpec& mlp = *model.mutable_mlp();
  mlp.set_window(16);
  mlp.set_embedding_dim(32);
  mlp.set_hidden_dim(256);
  mlp.set_hidden_layers(2);
}

void SetModel(const std::string& name, v1::ModelSpec& model) {
  // The vocabulary of 50257 is rounded up to a multiple of 128, as PyTorch's
  // side does.
  if (name == "gpt2-124m") return SetGpt(50304, 1024, 12, 12, 768, model);
  if (name == "gpt-tiny") return SetGpt(256, 16, 2, 2, 16, model);
  if (name == "cnn") return SetCnn(model);
  SetMlp(model);
}

std::string ImagesPath(const std::string& directory) {
  return directory + "/images";
}
std::string LabelsPath(const std::string& directory) {
  return directory + "/labels";
}

void SetData(const std::string& model, int64_t samples,
             const std::string& directory, v1::DataSpec& data) {
  if (model == "cnn") {
    data.mutable_images()->set_images(ImagesPath(directory));
    data.mutable_images()->set_labels(LabelsPath(directory));
  } else {
    data.mutable_synthetic()->set_samples(samples);
  }
}

// An IDX file: see worker/data/idx_file.h.
void AppendBigEndian(int64_t value, std::string& bytes) {
  for (const int shift : {24, 16, 8, 0})
    bytes.push_back(static_cast<char>(value >> shift));
}

absl::Status WriteIdx(const std::string& path,
                      const std::vector<int64_t>& header, int64_t count,
                      int values) {
  std::string bytes;
  for (const int64_t number : header) AppendBigEndian(number, bytes);
  std::minstd_rand random(1);
  for (int64_t i = 0; i < count; ++i) {
    bytes.push_back(
        static_cast<char>((random() >> 8) % static_cast<unsigned>(values)));
  }
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file.good() ? absl::OkStatus()
                     : absl::UnavailableError(
                           absl::StrCat(path, ": cannot be written"));
}

}  // namespace

std::vector<std::string> StepModels() {
  return {"gpt2-124m", "cnn", "mlp", "gpt-tiny"};
}

std::vector<std::string> StepPrecisions() {
  std::vector<std::string> names;
  for (const auto& [name, precision] : Precisions()) names.push_back(name);
  return names;
}

v1::TrainProgram StepProgram(const std::string& model, int64_t batch,
                             const std::string& precision,
                             const std::string& directory) {
  v1::TrainProgram program;
  SetModel(model, *program.mutable_model());
  SetData(model, kBatches * batch, directory, *program.mutable_data());
  v1::AdamwSpec& adamw = *program.mutable_optimizer()->mutable_adamw();
  adamw.set_learning_rate(1e-4);
  adamw.set_beta1(0.9);
  adamw.set_beta2(0.999);
  adamw.set_epsilon(1e-8);
  adamw.set_weight_decay(0.01);
  program.set_precision(Precisions().at(precision));
  program.set_steps(kEndless);
  program.set_global_batch(batch);
  program.set_seed(1);
  program.set_bucket_bytes(kBucketBytes);
  return program;
}

absl::Status WriteImages(const std::string& directory, int64_t batch) {
  const int64_t count = kBatches * batch;
  absl::Status written =
      WriteIdx(ImagesPath(directory), {0x803, count, kImageSide, kImageSide},
               count * kImageSide * kImageSide, 256);
  written.Update(
      WriteIdx(LabelsPath(directory), {0x801, count}, count, kClasses));
  return written;
}

}  // namespace ringmaster
