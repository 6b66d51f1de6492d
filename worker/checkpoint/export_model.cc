#include "worker/checkpoint/export_model.h"

#include <stdio.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "common/files/file_roots.h"
#include "common/reduction/float16.h"
#include "common/status/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/durable_file.h"
#include "worker/checkpoint/file_error.h"
#include "worker/checkpoint/input_file.h"
#include "worker/checkpoint/safetensors.h"

namespace ringmaster {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr char kGenerationConfigFile[] = "generation_config.json";
constexpr char kTokenizerConfigFile[] = "tokenizer_config.json";
constexpr int64_t kMaxConfigBytes = int64_t{1} << 20;
constexpr int64_t kMaxCompanionBytes = int64_t{1} << 28;
// Larger ones become infinities in float16.
constexpr float kFloat16Limit = 65520.0f;

// A directory beside `out` that becomes `out`, or disappears with this object.
class OutDirectory {
 public:
  static absl::StatusOr<OutDirectory> Create(const std::string& out) {
    std::error_code error;
    if (fs::exists(fs::symlink_status(out, error)))
      return absl::AlreadyExistsError(absl::StrCat(out, " exists already"));
    const fs::path parent = fs::path(out).parent_path();
    if (!parent.empty()) RETURN_IF_ERROR(CreateDirectories(parent.string()));
    absl::BitGen random;
    OutDirectory directory;
    const std::string path =
        absl::StrCat(out, ".tmp-", absl::Hex(random(), absl::kZeroPad16));
    if (mkdir(path.c_str(), 0755) != 0) return FileError("create", path, errno);
    directory.out_ = out;
    directory.path_ = path;
    return directory;
  }
  ~OutDirectory() {
    std::error_code error;
    if (!path_.empty()) fs::remove_all(path_, error);
  }
  OutDirectory(OutDirectory&& other) noexcept
      : out_(std::move(other.out_)), path_(std::exchange(other.path_, "")) {}
  OutDirectory& operator=(OutDirectory&&) = delete;

  std::string File(std::string_view name) const {
    return (fs::path(path_) / name).string();
  }

  absl::Status Publish() {
    RETURN_IF_ERROR(SyncDirectory(path_));
    if (rename(path_.c_str(), out_.c_str()) != 0)
      return FileError("create", out_, errno);
    path_.clear();
    const std::string parent = fs::path(out_).parent_path().string();
    return SyncDirectory(parent.empty() ? "." : parent);
  }

 private:
  OutDirectory() = default;

  std::string out_;
  std::string path_;  // empty: nothing to remove
};

// Returns its manifest.
absl::StatusOr<CheckpointManifest> CheckModel(const std::string& checkpoint) {
  ASSIGN_OR_RETURN(CheckpointManifest manifest,
                   ReadCheckpointManifest(checkpoint));
  if (manifest.Find(kConfigFile) == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(checkpoint, " has no ", kConfigFile, ": Hugging Face's ",
                     "programs do not know its model, ", manifest.model_kind));
  }
  std::erase_if(manifest.files, [](const CheckpointFile& file) {
    return file.name != kModelFile && file.name != kConfigFile;
  });
  const std::vector<absl::Status> faults = FindFaults(checkpoint, manifest);
  if (!faults.empty()) return faults.front();
  return manifest;
}

// The elements of `tensor` as `dtype`.
absl::StatusOr<std::vector<uint8_t>> ReadAs(const SafetensorsFile& file,
                                            const SafetensorsEntry& tensor,
                                            DType dtype) {
  std::vector<float> floats(static_cast<size_t>(tensor.num_elems));
  RETURN_IF_ERROR(file.ReadFloats(tensor, 0, absl::MakeSpan(floats)));
  std::vector<uint8_t> bytes(floats.size() *
                             static_cast<size_t>(SizeOf(dtype)));
  auto* const into = reinterpret_cast<std::byte*>(bytes.data());
  const auto* const from = reinterpret_cast<const std::byte*>(floats.data());
  if (dtype == DType::kFloat32) {
    if (!bytes.empty()) std::memcpy(into, from, bytes.size());
  } else if (dtype == DType::kBFloat16) {
    NarrowToBFloat16(into, from, tensor.num_elems);
  } else {
    for (const float value : floats) {
      if (std::isfinite(value) && std::abs(value) >= kFloat16Limit) {
        return absl::FailedPreconditionError(
            absl::StrCat(file.path(), ": ", tensor.name, " has an element of ",
                         value, ", beyond float16; export it as bfloat16"));
      }
    }
    NarrowToFloat16(into, from, tensor.num_elems);
  }
  return bytes;
}

// No tensor of a model has more than four dimensions.
absl::StatusOr<Shape> ShapeOf(const std::string& path,
                              const SafetensorsEntry& tensor) {
  const std::vector<int64_t>& dims = tensor.shape;
  switch (dims.size()) {
    case 0:
      return Shape();
    case 1:
      return Shape({dims[0]});
    case 2:
      return Shape({dims[0], dims[1]});
    case 3:
      return Shape({dims[0], dims[1], dims[2]});
    case 4:
      return Shape({dims[0], dims[1], dims[2], dims[3]});
    default:
      return absl::FailedPreconditionError(
          absl::StrCat(path, ": ", tensor.name, " is ", tensor.ShapeText(),
                       ", of more dimensions than a model's tensors have"));
  }
}

absl::StatusOr<int64_t> WriteModel(const std::string& from,
                                   const std::string& to, DType dtype) {
  ASSIGN_OR_RETURN(const SafetensorsFile source, SafetensorsFile::Open(from));
  std::vector<std::vector<uint8_t>> elements;
  std::vector<TensorBytes> tensors;
  for (const SafetensorsEntry& tensor : source.tensors()) {
    ASSIGN_OR_RETURN(std::vector<uint8_t> bytes, ReadAs(source, tensor, dtype));
    elements.push_back(std::move(bytes));
    ASSIGN_OR_RETURN(Shape shape, ShapeOf(source.path(), tensor));
    TensorBytes written;
    written.name = tensor.name;
    written.dtype = dtype;
    written.shape = std::move(shape);
    written.bytes = elements.back();
    tensors.push_back(std::move(written));
  }
  ASSIGN_OR_RETURN(DurableFile file, DurableFile::Create(to));
  RETURN_IF_ERROR(WriteSafetensors(tensors, source.metadata(), file));
  ASSIGN_OR_RETURN(const FileDigest digest, file.Close());
  return digest.size_bytes;
}

absl::Status WriteText(const std::string& text, const std::string& path) {
  ASSIGN_OR_RETURN(DurableFile file, DurableFile::Create(path));
  RETURN_IF_ERROR(file.Append(text));
  return file.Close().status();
}

absl::Status WriteJson(const Json& json, const std::string& path) {
  return WriteText(
      json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n", path);
}

absl::StatusOr<std::string> ReadText(const std::string& path,
                                     int64_t max_bytes) {
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  return file.ReadText(max_bytes);
}

// Copies what can be read; returns why the others cannot.
absl::StatusOr<std::vector<absl::Status>> CopyCompanions(
    const std::vector<CheckpointCompanion>& companions,
    const OutDirectory& out) {
  std::vector<absl::Status> left_out;
  for (const CheckpointCompanion& companion : companions) {
    const absl::StatusOr<std::string> text =
        ReadText(companion.path, kMaxCompanionBytes);
    if (text.ok()) {
      RETURN_IF_ERROR(WriteText(*text, out.File(companion.name)));
    } else {
      left_out.push_back(text.status());
    }
  }
  return left_out;
}

absl::Status WriteConfigs(const std::string& checkpoint,
                          const OutDirectory& out, DType dtype) {
  const std::string path = absl::StrCat(checkpoint, "/", kConfigFile);
  ASSIGN_OR_RETURN(const std::string text, ReadText(path, kMaxConfigBytes));
  Json config = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object())
    return absl::DataLossError(absl::StrCat(path, " is not a JSON object"));
  config["torch_dtype"] = std::string(DTypeName(dtype));
  RETURN_IF_ERROR(WriteJson(config, out.File(kConfigFile)));
  Json generation = {{"_from_model_config", true}};
  for (const char* const key : {"bos_token_id", "eos_token_id"})
    if (config.contains(key)) generation[key] = config[key];
  return WriteJson(generation, out.File(kGenerationConfigFile));
}

}  // namespace

absl::StatusOr<ExportedModel> ExportModel(const std::string& checkpoint,
                                          const std::string& out, DType dtype) {
  if (dtype != DType::kFloat32 && dtype != DType::kBFloat16 &&
      dtype != DType::kFloat16) {
    return absl::InvalidArgumentError(
        "a model is exported as float32, bfloat16 or float16");
  }
  ASSIGN_OR_RETURN(const CheckpointManifest manifest, CheckModel(checkpoint));
  std::string bare = out;
  while (bare.size() > 1 && bare.back() == '/') bare.pop_back();
  ASSIGN_OR_RETURN(OutDirectory directory, OutDirectory::Create(bare));
  ExportedModel exported;
  ASSIGN_OR_RETURN(exported.size_bytes,
                   WriteModel(absl::StrCat(checkpoint, "/", kModelFile),
                              directory.File(kModelFile), dtype));
  RETURN_IF_ERROR(WriteConfigs(checkpoint, directory, dtype));
  ASSIGN_OR_RETURN(exported.left_out,
                   CopyCompanions(manifest.companions, directory));
  RETURN_IF_ERROR(directory.Publish());
  return exported;
}

std::vector<CheckpointCompanion> FindCompanions(
    const std::string& vocabulary, const std::string& merges,
    const std::string& initial_parameters) {
  // As the job has it, where the working directory is gone.
  const auto absolute = [](const std::string& path) {
    std::error_code error;
    const fs::path found = fs::absolute(path, error);
    return error ? fs::path(path) : found;
  };
  struct stat seen = {};
  const auto is_there = [&seen](const fs::path& path) {
    return ProcessFiles().Stat(path.string(), seen) == 0;
  };
  std::vector<CheckpointCompanion> found;
  if (!vocabulary.empty() && merges.empty()) {
    const fs::path path = absolute(vocabulary);
    found.push_back({"vocab.txt", path.string()});
    // Without it Hugging Face's tokenizer makes all letters lower case.
    const fs::path config = path.parent_path() / kTokenizerConfigFile;
    if (is_there(config))
      found.push_back({kTokenizerConfigFile, config.string()});
    return found;
  }
  if (!vocabulary.empty()) {
    return {{"vocab.json", absolute(vocabulary).string()},
            {"merges.txt", absolute(merges).string()}};
  }
  if (initial_parameters.empty()) return found;
  fs::path beside = absolute(initial_parameters);
  if (!is_there(beside) || !S_ISDIR(seen.st_mode))
    beside = beside.parent_path();
  for (const char* const name :
       {"vocab.json", "merges.txt", "vocab.txt", "tokenizer.json",
        kTokenizerConfigFile, "special_tokens_map.json", "added_tokens.json"}) {
    if (is_there(beside / name))
      found.push_back({name, (beside / name).string()});
  }
  return found;
}

}  // namespace ringmaster
