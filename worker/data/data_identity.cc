#include "worker/data/data_identity.h"

#include <algorithm>

#include "worker/data/content_hash.h"

namespace ringmaster {

v1::DataIdentity IdentityOf(absl::Span<const HashedFile> files) {
  v1::DataIdentity identity;
  const size_t parts = std::min(files.size(), kMaxDataParts);
  for (size_t i = 0; i < parts; ++i) {
    const size_t begin = i * files.size() / parts;
    const size_t end = (i + 1) * files.size() / parts;
    v1::DataPart& part = *identity.add_parts();
    ContentHash hash;
    int64_t size_bytes = 0;
    for (const HashedFile& file : files.subspan(begin, end - begin)) {
      const uint64_t values[] = {static_cast<uint64_t>(file.size_bytes),
                                 file.hash};
      hash.Add(values, sizeof(values));
      size_bytes += file.size_bytes;
    }
    part.set_first_file(files[begin].path);
    part.set_files(static_cast<int64_t>(end - begin));
    part.set_size_bytes(size_bytes);
    part.set_hash(hash.Digest());
  }
  return identity;
}

}  // namespace ringmaster
