// Reads and writes safetensors, the format in which Hugging Face keeps tensors
// (https://huggingface.co/docs/safetensors):
//
//   u64, little-endian   length of the header
//   JSON                 {"NAME": {"dtype": "F32", "shape": [2, 3],
//                         "data_offsets": [begin, end]}, ...,
//                         "__metadata__": {"KEY": "VALUE"}}, then spaces
//   bytes                the tensors, row-major, little-endian, without a gap;
//                         offsets count from here
//
// Thread-safety: WriteSafetensors is pure except for its file; SafetensorsFile
// is thread-safe.
#ifndef RINGMASTER_WORKER_CHECKPOINT_SAFETENSORS_H_
#define RINGMASTER_WORKER_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/dtype.h"
#include "common/tensor/shape.h"
#include "worker/checkpoint/disk_progress.h"
#include "worker/checkpoint/durable_file.h"
#include "worker/checkpoint/input_file.h"

namespace ringmaster {

// The format's metadata; transformers wants {"format": "pt"}.
using SafetensorsMetadata = std::map<std::string, std::string>;

// A tensor to be written.
struct TensorBytes {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  absl::Span<const uint8_t> bytes;
};

// Writes `tensors`, in this order, to `file`, which is new; the caller closes
// it. The elements are not copied.
//   INVALID_ARGUMENT  a repeated name, or bytes that are not those of dtype and
//                     shape
// and the errors of DurableFile.
[[nodiscard]] absl::Status WriteSafetensors(
    absl::Span<const TensorBytes> tensors, const SafetensorsMetadata& metadata,
    DurableFile& file);

// A tensor that a file holds.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // as the file names it: "F32"
  std::vector<int64_t> shape;
  int64_t num_elems = 0;
  int64_t begin = 0;  // its first byte in the file
  int64_t size_bytes = 0;

  bool HasShape(const Shape& other) const;
  std::string ShapeText() const;  // "[2,3]"
};

class SafetensorsFile {
 public:
  // Reads the header and checks all of it: everything in tensors() can be read.
  // Errors are one line with the file and, where there is one, the tensor:
  //   DATA_LOSS         cut short, or not in this format: a header that is too
  //                     long (100 MB), is not such JSON, names a tensor twice,
  //                     or has offsets that overlap, leave gaps, or do not fit
  //                     dtype and shape or the file
  //   INVALID_ARGUMENT  a dtype that the format does not have
  // and the errors of InputFile::Open, which has the same `progress`.
  [[nodiscard]] static absl::StatusOr<SafetensorsFile> Open(
      const std::string& path, DiskProgress* progress = nullptr);

  const std::string& path() const { return file_.path(); }
  // In the order of their bytes.
  absl::Span<const SafetensorsEntry> tensors() const { return tensors_; }
  // The tensor of that name, or null.
  const SafetensorsEntry* Find(std::string_view name) const;
  const SafetensorsMetadata& metadata() const { return metadata_; }

  // Reads the elements of `tensor`, which is one of tensors(), from `first` on
  // into `into`. F16, BF16 and F64 are converted (F64 rounds to nearest).
  // Requires that there are that many.
  //   INVALID_ARGUMENT  a tensor of integers
  // and the errors of InputFile::ReadAt.
  [[nodiscard]] absl::Status ReadFloats(const SafetensorsEntry& tensor,
                                        int64_t first,
                                        absl::Span<float> into) const;
  // Reads the bytes of `tensor`, which must be into.size(), as they are.
  [[nodiscard]] absl::Status ReadBytes(const SafetensorsEntry& tensor,
                                       absl::Span<uint8_t> into) const;

 private:
  explicit SafetensorsFile(InputFile file) : file_(std::move(file)) {}
  absl::Status CheckLayout(int64_t header_bytes);

  InputFile file_;
  std::vector<SafetensorsEntry> tensors_;
  absl::flat_hash_map<std::string, size_t> index_;  // by name, into tensors_
  SafetensorsMetadata metadata_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_CHECKPOINT_SAFETENSORS_H_
