#include "common/plan/plan.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status/check.h"
#include "xxhash.h"

namespace ringmaster {
namespace {

absl::string_view Text(std::string_view text) {
  return {text.data(), text.size()};
}

int64_t AlignUp(int64_t elems) {
  return (elems + kTensorAlignElems - 1) / kTensorAlignElems *
         kTensorAlignElems;
}

// The canonical text is one line per item with fields parted by spaces, so
// names must not hold either.
bool IsPlainWord(std::string_view name) {
  return !name.empty() &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isgraph(c); });
}

absl::Status ValidateTensors(std::string_view model,
                             absl::Span<const TensorSpec> tensors) {
  if (!IsPlainWord(model)) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan: \"", Text(model), "\" is not a model name"));
  }
  if (tensors.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan: model ", Text(model), " has no tensor"));
  }
  absl::flat_hash_set<std::string> names;
  for (const TensorSpec& spec : tensors) {
    if (!IsPlainWord(spec.name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("plan: \"", spec.name, "\" is not a tensor name"));
    }
    if (!names.insert(spec.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("plan: two tensors are called ", spec.name));
    }
    if (spec.tracking_rate != 0 && &spec != tensors.data() &&
        (&spec)[-1].tracking_rate == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("plan: tensor ", spec.name,
                       " is a running statistic, but comes after a parameter"));
    }
    if (!(spec.tracking_rate >= 0 && spec.tracking_rate <= 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("plan: tensor ", spec.name, " is tracked at the rate ",
                       spec.tracking_rate, ", but it must be in [0, 1]"));
    }
    if (spec.shape.num_elems() < 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "plan: tensor ", spec.name, " is empty: ", spec.shape.ToString()));
    }
  }
  return absl::OkStatus();
}

std::string InitializerText(const Initializer& init) {
  const char* kind =
      init.kind == Initializer::Kind::kConstant ? "constant" : "uniform";
  return absl::StrFormat("%s(%.17g)", kind, init.value);
}

}  // namespace

absl::StatusOr<Plan> Plan::Create(std::string_view model,
                                  absl::Span<const TensorSpec> tensors,
                                  const PlanOptions& options) {
  const absl::Status valid = ValidateTensors(model, tensors);
  if (!valid.ok()) return valid;
  if (options.bucket_bytes < 1) {
    return absl::InvalidArgumentError(absl::StrCat("plan: bucket_bytes is ",
                                                   options.bucket_bytes,
                                                   ", but must be at least 1"));
  }
  Plan plan;
  plan.model_ = model;
  plan.settings_ = options.settings;
  plan.parameter_dtype_ = options.parameter_dtype;
  plan.gradient_dtype_ = options.gradient_dtype;
  plan.PlaceTensors(tensors);
  const int64_t fitting_elems =
      options.bucket_bytes / SizeOf(options.gradient_dtype);
  plan.CutBuckets(std::max<int64_t>(1, fitting_elems / kTensorAlignElems) *
                  kTensorAlignElems);
  const std::string text = plan.ToString();
  plan.hash_ = XXH3_64bits(text.data(), text.size());
  return plan;
}

void Plan::PlaceTensors(absl::Span<const TensorSpec> tensors) {
  tensors_.reserve(tensors.size());
  for (const TensorSpec& spec : tensors) {
    const int64_t count = spec.shape.num_elems();
    tensors_.push_back({spec, {total_elems_, count}});
    total_elems_ += AlignUp(count);
    if (spec.tracking_rate == 0) {
      parameter_count_ += count;
    } else {
      statistic_elems_ = total_elems_;
    }
  }
}

// Fills a bucket to the brim by splitting the tensor that does not fit, unless
// the bucket is at least half full: then it closes before that tensor, because
// its earlier gradients would otherwise wait for a later, large one.
void Plan::CutBuckets(int64_t bucket_elems) {
  ElemRange open = {0, 0};
  const auto close = [&](int ready_tensor) {
    buckets_.push_back({open, ready_tensor});
    open = {open.end(), 0};
  };
  for (int index = 0; index < static_cast<int>(tensors_.size()); ++index) {
    int64_t left = AlignUp(tensors_[index].range.count);
    if (open.count + left > bucket_elems && 2 * open.count >= bucket_elems)
      close(index - 1);
    first_bucket_.push_back(static_cast<int>(buckets_.size()));
    while (open.count + left >= bucket_elems) {
      left -= bucket_elems - open.count;
      open.count = bucket_elems;
      close(index);
    }
    open.count += left;
  }
  if (!open.empty()) close(static_cast<int>(tensors_.size()) - 1);
  first_bucket_.push_back(static_cast<int>(buckets_.size()));
}

absl::Span<const Bucket> Plan::BucketsCompletedBy(int tensor_index) const {
  RM_CHECK(
      tensor_index >= 0 && tensor_index < static_cast<int>(tensors_.size()),
      "no such tensor");
  const int first = first_bucket_[tensor_index];
  return absl::MakeConstSpan(buckets_).subspan(
      first, first_bucket_[tensor_index + 1] - first);
}

std::string Plan::ToString() const {
  std::string text = absl::StrFormat(
      "model %s parameters=%d total_elems=%d parameter_dtype=%s "
      "gradient_dtype=%s\n",
      model_, parameter_count_, total_elems_, Text(DTypeName(parameter_dtype_)),
      Text(DTypeName(gradient_dtype_)));
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const PlannedTensor& tensor = tensors_[i];
    absl::StrAppendFormat(&text, "tensor %d %s %s begin=%d init=%s\n", i,
                          tensor.spec.name, tensor.spec.shape.ToString(),
                          tensor.range.begin,
                          InitializerText(tensor.spec.init));
    if (tensor.spec.tracking_rate != 0) {
      absl::StrAppendFormat(&text, "tracked %d rate=%.17g\n", i,
                            tensor.spec.tracking_rate);
    }
  }
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const Bucket& bucket = buckets_[i];
    absl::StrAppendFormat(
        &text, "bucket %d begin=%d count=%d ready_tensor=%d\n", i,
        bucket.range.begin, bucket.range.count, bucket.ready_tensor);
  }
  absl::StrAppend(&text, "settings ", settings_, "\n");
  return text;
}

}  // namespace ringmaster
