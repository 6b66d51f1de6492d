// MemberTableHash: one number for the whole member table of a generation, so
// that a member can check the table it fetched page by page against the one it
// was assigned from.
#ifndef RINGMASTER_COMMON_PROTOCOL_MEMBER_TABLE_HASH_H_
#define RINGMASTER_COMMON_PROTOCOL_MEMBER_TABLE_HASH_H_

#include <cstdint>

#include "google/protobuf/repeated_ptr_field.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {

// Returns the XXH3 (https://xxhash.com) of each member's rank, local rank,
// worker, host, pid and data address, in order. Members' progress does not
// count.
[[nodiscard]] uint64_t MemberTableHash(
    const google::protobuf::RepeatedPtrField<v1::Member>& members);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PROTOCOL_MEMBER_TABLE_HASH_H_
