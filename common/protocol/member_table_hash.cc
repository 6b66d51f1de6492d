#include "common/protocol/member_table_hash.h"

#include <xxhash.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace ringmaster {

uint64_t MemberTableHash(
    const google::protobuf::RepeatedPtrField<v1::Member>& members) {
  std::string text;
  for (const v1::Member& member : members) {
    // Neither separator occurs in a worker's name, host or address.
    absl::StrAppend(&text, member.rank(), "\t", member.local_rank(), "\t",
                    member.worker(), "\t", member.host(), "\t", member.pid(),
                    "\t", member.data_address(), "\n");
  }
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace ringmaster
