// IdentityOf describes the files of a data set, so that those of two workers can be told
// apart.
#ifndef RINGMASTER_WORKER_DATA_DATA_IDENTITY_H_
#define RINGMASTER_WORKER_DATA_DATA_IDENTITY_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "ringmaster/v1/data_identity.pb.h"

namespace ringmaster {

// A file that was read.
struct HashedFile {
  std::string path;
  int64_t size_bytes = 0;
  uint64_t hash = 0;  // of its contents
};

// As many parts as a message may have; see DataIdentity.
inline constexpr size_t kMaxDataParts = 64;

// Returns a part for each of `files` or, if there are more than kMaxDataParts, for each
// group of neighbours. Pure.
v1::DataIdentity IdentityOf(absl::Span<const HashedFile> files);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_DATA_IDENTITY_H_
