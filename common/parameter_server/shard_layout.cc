#include "common/parameter_server/shard_layout.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/check.h"
#include "common/transport/little_endian.h"
#include "xxhash.h"

namespace ringmaster {
namespace {

constexpr uint32_t kMagic = 0x44534D52;  // "RMSD"
constexpr size_t kHeadBytes = 40;
constexpr size_t kBucketBytes = 8;
constexpr size_t kStretchBytes = 32;
constexpr size_t kChecksumBytes = 8;

uint64_t ChecksumOf(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

// Numbers one after another.
class Writer {
 public:
  explicit Writer(std::byte* to) : to_(to) {}

  template <typename T>
  void Put(T value) {
    StoreLittleEndian(value, to_);
    to_ += sizeof(value);
  }

 private:
  std::byte* to_;
};

class Reader {
 public:
  explicit Reader(const std::byte* from) : from_(from) {}

  template <typename T>
  T Take() {
    const T value = LoadLittleEndian<T>(from_);
    from_ += sizeof(value);
    return value;
  }

 private:
  const std::byte* from_;
};

}  // namespace

absl::StatusOr<ShardLayout> ShardLayout::Create(const Plan& plan, int shards) {
  const auto buckets = static_cast<int>(plan.buckets().size());
  if (shards < 1 || buckets < shards) {
    return absl::InvalidArgumentError(absl::StrCat(
        "train.parameter_server asks for ", shards,
        " shards of the parameters, but these make only ", buckets,
        buckets == 1 ? " bucket" : " buckets",
        ": take fewer servers or train.collective.connections, or a "
        "smaller train.bucket_bytes"));
  }
  ShardLayout layout;
  int begin = 0;
  for (int shard = 0; shard < shards; ++shard) {
    // The end nearest to the part that is due to the shards so far, but one
    // bucket for this one and for each that follows.
    const int64_t due = plan.total_elems() / shards * (shard + 1) +
                        plan.total_elems() % shards * (shard + 1) / shards;
    int end = begin + 1;
    while (end < buckets - (shards - shard - 1)) {
      const ElemRange next = plan.buckets()[static_cast<size_t>(end)].range;
      if (shard + 1 < shards && next.end() - due > due - next.begin) break;
      ++end;
    }
    const ElemRange first = plan.buckets()[static_cast<size_t>(begin)].range;
    const ElemRange last = plan.buckets()[static_cast<size_t>(end - 1)].range;
    layout.shards_.push_back(
        {shard, begin, end - begin, {first.begin, last.end() - first.begin}});
    begin = end;
  }
  return layout;
}

const Shard& ShardLayout::ShardOf(int bucket) const {
  const auto it = std::upper_bound(
      shards_.begin(), shards_.end(), bucket,
      [](int b, const Shard& shard) { return b < shard.first_bucket; });
  RM_CHECK(it != shards_.begin() && bucket < std::prev(it)->first_bucket +
                                                 std::prev(it)->bucket_count,
           "a bucket of the plan");
  return *std::prev(it);
}

int64_t ShardDescription::num_elems() const {
  int64_t sum = 0;
  for (const int64_t elems : bucket_elems) sum += elems;
  return sum;
}

absl::Status Validate(const ShardDescription& description) {
  const auto refuse = [&](const auto&... why) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the description of shard ", description.shard, ": ", why...));
  };
  if (description.shard < 0 || description.first_bucket < 0 ||
      description.first_elem < 0)
    return refuse("a negative number, first bucket or first element");
  if (description.bucket_elems.empty()) return refuse("it has no bucket");
  int64_t total = 0;
  for (const int64_t elems : description.bucket_elems) {
    if (elems < 1 || elems > kMaxShardElems - total)
      return refuse("a bucket of ", elems, " elements, after ", total);
    total += elems;
  }
  int64_t at = 0;
  for (const UpdateStretch& stretch : description.stretches) {
    if (stretch.range.begin != at || stretch.range.count < 1 ||
        stretch.range.count > total - at) {
      return refuse("a stretch of ", stretch.range.count, " elements at ",
                    stretch.range.begin, ", where ", total - at,
                    " were left at ", at);
    }
    if (!(stretch.rate > 0 && stretch.rate <= 1))
      return refuse("a stretch at ", at, " with the rate ", stretch.rate);
    at += stretch.range.count;
  }
  if (at != total)
    return refuse("its stretches end at ", at, " of ", total, " elements");
  return absl::OkStatus();
}

std::vector<std::byte> Encode(const ShardDescription& description) {
  std::vector<std::byte> bytes(
      kHeadBytes + kBucketBytes * description.bucket_elems.size() +
      kStretchBytes * description.stretches.size() + kChecksumBytes);
  Writer writer(bytes.data());
  writer.Put(kMagic);
  writer.Put(static_cast<uint32_t>(description.shard));
  writer.Put(static_cast<uint32_t>(description.first_bucket));
  writer.Put(uint32_t{0});
  writer.Put(static_cast<uint64_t>(description.first_elem));
  writer.Put(description.plan_hash);
  writer.Put(static_cast<uint32_t>(description.bucket_elems.size()));
  writer.Put(static_cast<uint32_t>(description.stretches.size()));
  for (const int64_t elems : description.bucket_elems)
    writer.Put(static_cast<uint64_t>(elems));
  for (const UpdateStretch& stretch : description.stretches) {
    writer.Put(static_cast<uint64_t>(stretch.range.begin));
    writer.Put(static_cast<uint64_t>(stretch.range.count));
    writer.Put(stretch.is_trained()
                   ? uint64_t{stretch.decays}
                   : std::bit_cast<uint64_t>(stretch.tracking_rate));
    writer.Put(std::bit_cast<uint64_t>(stretch.rate));
  }
  writer.Put(ChecksumOf(std::span(bytes).first(bytes.size() - kChecksumBytes)));
  return bytes;
}

absl::StatusOr<ShardDescription> ParseShardDescription(
    std::span<const std::byte> bytes) {
  const auto refuse = [&](const auto&... why) {
    return absl::DataLossError(absl::StrCat("the description of a shard, ",
                                            bytes.size(), " bytes: ", why...));
  };
  if (bytes.size() < kHeadBytes + kChecksumBytes) return refuse("too short");
  const std::span<const std::byte> checked =
      bytes.first(bytes.size() - kChecksumBytes);
  if (LoadLittleEndian<uint64_t>(bytes.data() + checked.size()) !=
      ChecksumOf(checked))
    return refuse("its checksum does not fit");
  Reader reader(bytes.data());
  if (reader.Take<uint32_t>() != kMagic) return refuse("it is something else");
  ShardDescription description;
  description.shard = static_cast<int>(reader.Take<uint32_t>());
  description.first_bucket = static_cast<int>(reader.Take<uint32_t>());
  const auto reserved = reader.Take<uint32_t>();
  description.first_elem = static_cast<int64_t>(reader.Take<uint64_t>());
  description.plan_hash = reader.Take<uint64_t>();
  const size_t buckets = reader.Take<uint32_t>();
  const size_t stretches = reader.Take<uint32_t>();
  if (reserved != 0 || checked.size() != kHeadBytes + kBucketBytes * buckets +
                                             kStretchBytes * stretches) {
    return refuse(buckets, " buckets and ", stretches, " stretches");
  }
  for (size_t i = 0; i < buckets; ++i)
    description.bucket_elems.push_back(
        static_cast<int64_t>(reader.Take<uint64_t>()));
  for (size_t i = 0; i < stretches; ++i) {
    UpdateStretch stretch;
    stretch.range.begin = static_cast<int64_t>(reader.Take<uint64_t>());
    stretch.range.count = static_cast<int64_t>(reader.Take<uint64_t>());
    // 0 or 1: whether it decays; above them, the bits of a tracking rate.
    const auto decays = reader.Take<uint64_t>();
    stretch.decays = decays == 1;
    if (decays > 1) {
      stretch.tracking_rate = std::bit_cast<double>(decays);
      if (!(stretch.tracking_rate > 0 && stretch.tracking_rate <= 1))
        return refuse("a stretch that decays ", decays);
    }
    stretch.rate = std::bit_cast<double>(reader.Take<uint64_t>());
    description.stretches.push_back(stretch);
  }
  const absl::Status valid = Validate(description);
  if (!valid.ok()) return refuse(valid.message());
  return description;
}

}  // namespace ringmaster
