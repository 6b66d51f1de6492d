#include "worker/train/exchange/parameter_sync.h"

namespace ringmaster {

CommitRecord MakeCommitRecord(int64_t generation, const LocalStep& local,
                              double norm_squared, uint64_t parameters_hash,
                              int64_t payload_sent_bytes) {
  CommitRecord record;
  record.generation = generation;
  record.step = local.step;
  record.loss_sum = local.loss_sum;
  record.sample_count = local.sample_count;
  record.sample_hash = local.sample_hash;
  record.norm_squared = norm_squared;
  record.parameters_hash = parameters_hash;
  record.payload_sent_bytes = payload_sent_bytes;
  record.wants_stop = local.wants_stop;
  record.wants_drain = local.wants_drain;
  record.wants_leave = local.wants_leave;
  return record;
}

}  // namespace ringmaster
