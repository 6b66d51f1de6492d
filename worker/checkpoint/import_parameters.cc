#include "worker/checkpoint/import_parameters.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/files/file_roots.h"
#include "common/status/check.h"
#include "common/status/status_macros.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/safetensors.h"

namespace ringmaster {
namespace {

constexpr absl::string_view kPrefix = "transformer.";
constexpr char kOutputWeight[] = "lm_head.weight";
// Those of GPT-2, Llama, BERT and RoBERTa.
constexpr absl::string_view kTokenEmbeddings[] = {
    "wte.weight", "model.embed_tokens.weight",
    "bert.embeddings.word_embeddings.weight",
    "roberta.embeddings.word_embeddings.weight"};
// Elements that are compared at a time.
constexpr int64_t kPieceElems = int64_t{1} << 18;

// The name by which both sides know a tensor. (Google's files of BERT call the
// factors and summands of norms gamma and beta.)
std::string CommonName(absl::string_view name) {
  const absl::string_view common = absl::StripPrefix(name, kPrefix);
  absl::string_view norm = common;
  if (absl::ConsumeSuffix(&norm, ".LayerNorm.gamma"))
    return absl::StrCat(norm, ".LayerNorm.weight");
  if (absl::ConsumeSuffix(&norm, ".LayerNorm.beta"))
    return absl::StrCat(norm, ".LayerNorm.bias");
  return std::string(common);
}

// A tensor of one of BERT's heads, which are exchanged when it learns another
// task.
bool IsBertHead(absl::string_view name) {
  for (const absl::string_view head :
       {"cls.", "lm_head.", "classifier.", "bert.pooler.", "roberta.pooler."}) {
    if (absl::StartsWith(name, head)) return true;
  }
  return false;
}

// The head that predicts masked tokens has a bias of its output, and the
// weight, for which a model of ours has the token embedding.
bool IsMaskedBias(absl::string_view name) {
  return name == "cls.predictions.bias" || name == "lm_head.bias";
}
bool IsMaskedWeight(absl::string_view name) {
  return name == "cls.predictions.decoder.weight" ||
         name == "lm_head.decoder.weight";
}

// Or a count that nothing depends on.
bool IsConstant(absl::string_view name) {
  return absl::EndsWith(name, ".attn.bias") ||
         absl::EndsWith(name, ".attn.masked_bias") ||
         absl::EndsWith(name, ".rotary_emb.inv_freq") ||
         absl::EndsWith(name, ".embeddings.position_ids") ||
         absl::EndsWith(name, ".num_batches_tracked");
}

std::string FileOf(const std::string& path) {
  struct stat found = {};
  return ProcessFiles().Stat(path, found) == 0 && S_ISDIR(found.st_mode)
             ? absl::StrCat(path, "/", kModelFile)
             : path;
}

class Importer {
 public:
  Importer(const SafetensorsFile& file, const Plan& plan,
           absl::Span<float> parameters)
      : file_(file), plan_(plan), parameters_(parameters) {
    for (const PlannedTensor& tensor : plan.tensors()) {
      planned_.emplace(CommonName(tensor.spec.name), &tensor);
      is_bert_ |= absl::EndsWith(tensor.spec.name, ".word_embeddings.weight");
      is_masked_ |= IsMaskedBias(tensor.spec.name);
    }
  }

  absl::Status Run() {
    RETURN_IF_ERROR(MatchEntries());
    int64_t end = 0;
    for (const PlannedTensor& tensor : plan_.tensors()) {
      std::fill(parameters_.begin() + end,
                parameters_.begin() + tensor.range.begin, 0.0f);
      // A head of its own begins with the values that it has.
      if (const auto entry = entries_.find(&tensor); entry != entries_.end()) {
        RETURN_IF_ERROR(file_.ReadFloats(
            *entry->second, 0,
            parameters_.subspan(tensor.range.begin, tensor.range.count)));
      }
      end = tensor.range.end();
    }
    std::fill(parameters_.begin() + end, parameters_.end(), 0.0f);
    return output_weight_ == nullptr ? absl::OkStatus() : CheckTied();
  }

 private:
  absl::Status Mismatch(absl::string_view what) const {
    return absl::FailedPreconditionError(
        absl::StrCat(file_.path(), ": ", what));
  }

  // Finds the entry of each planned tensor, and that nothing else is there.
  absl::Status MatchEntries() {
    for (const SafetensorsEntry& entry : file_.tensors()) {
      const auto found = planned_.find(CommonName(entry.name));
      if (found != planned_.end()) {
        if (!entries_.emplace(found->second, &entry).second) {
          return Mismatch(absl::StrCat(CommonName(entry.name),
                                       " comes with and without \"", kPrefix,
                                       "\" before it"));
        }
      } else if (is_bert_ && IsBertHead(entry.name)) {
        if (is_masked_ && IsMaskedWeight(entry.name)) output_weight_ = &entry;
      } else if (entry.name == kOutputWeight) {
        output_weight_ = &entry;
      } else if (!IsConstant(entry.name) && surplus_ == nullptr) {
        surplus_ = &entry;
      }
    }
    for (const PlannedTensor& tensor : plan_.tensors()) {
      const auto found = entries_.find(&tensor);
      if (found == entries_.end() && is_bert_ && IsBertHead(tensor.spec.name))
        continue;
      if (found != entries_.end() &&
          found->second->HasShape(tensor.spec.shape)) {
        continue;
      }
      return Mismatch(absl::StrCat(
          tensor.spec.name, " is ",
          found == entries_.end() ? "not" : found->second->ShapeText(),
          " in the file, ", tensor.spec.shape.ToString(),
          " in the job's model"));
    }
    if (surplus_ == nullptr) return absl::OkStatus();
    return Mismatch(absl::StrCat(surplus_->name, " is ", surplus_->ShapeText(),
                                 " in the file, not in the job's model"));
  }

  // A model that computes its outputs with the token embedding cannot take over
  // one that has other weights for it.
  absl::Status CheckTied() const {
    auto found = planned_.end();
    for (const absl::string_view name : kTokenEmbeddings) {
      if (found == planned_.end()) found = planned_.find(name);
    }
    if (found == planned_.end())
      return Mismatch(
          absl::StrCat(output_weight_->name, " is not in the job's model"));
    const PlannedTensor& embedding = *found->second;
    const auto untied = [&] {
      return Mismatch(absl::StrCat(output_weight_->name, " differs from ",
                                   found->first,
                                   ", but the job's model has one tensor for "
                                   "both"));
    };
    if (!output_weight_->HasShape(embedding.spec.shape)) return untied();
    std::vector<float> piece(
        static_cast<size_t>(std::min(kPieceElems, embedding.range.count)));
    for (int64_t first = 0; first < embedding.range.count;) {
      const auto elems = absl::MakeSpan(piece).first(static_cast<size_t>(
          std::min(kPieceElems, embedding.range.count - first)));
      RETURN_IF_ERROR(file_.ReadFloats(*output_weight_, first, elems));
      if (std::memcmp(elems.data(),
                      parameters_.data() + embedding.range.begin + first,
                      elems.size() * sizeof(float)) != 0) {
        return untied();
      }
      first += static_cast<int64_t>(elems.size());
    }
    return absl::OkStatus();
  }

  const SafetensorsFile& file_;
  const Plan& plan_;
  const absl::Span<float> parameters_;
  bool is_bert_ = false;
  bool is_masked_ = false;  // predicts masked tokens, if it is a BERT
  absl::flat_hash_map<std::string, const PlannedTensor*> planned_;
  absl::flat_hash_map<const PlannedTensor*, const SafetensorsEntry*> entries_;
  const SafetensorsEntry* output_weight_ = nullptr;
  const SafetensorsEntry* surplus_ = nullptr;  // the first one
};

}  // namespace

absl::Status ImportParameters(const std::string& path, const Plan& plan,
                              absl::Span<float> parameters) {
  RM_CHECK(static_cast<int64_t>(parameters.size()) == plan.total_elems(),
           "not an arena of the plan");
  ASSIGN_OR_RETURN(const SafetensorsFile file,
                   SafetensorsFile::Open(FileOf(path)));
  return Importer(file, plan, parameters).Run();
}

}  // namespace ringmaster
