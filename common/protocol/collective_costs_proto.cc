#include "common/protocol/collective_costs_proto.h"

#include "common/status/status_macros.h"
#include "ringmaster/v1/coordinator_service.pb.h"

namespace ringmaster {
namespace {

void Fill(const PathCost& cost, v1::PathCost& proto) {
  proto.set_latency_seconds(cost.latency);
  proto.set_seconds_per_byte(cost.seconds_per_byte);
}

PathCost PathOf(const v1::PathCost& proto) {
  return {proto.latency_seconds(), proto.seconds_per_byte()};
}

}  // namespace

v1::CollectiveCosts ToProto(const MachineCosts& costs) {
  v1::CollectiveCosts proto;
  Fill(costs.shared_memory, *proto.mutable_shared_memory());
  Fill(costs.unix_socket, *proto.mutable_unix());
  Fill(costs.tcp, *proto.mutable_tcp());
  Fill(costs.remote, *proto.mutable_remote());
  proto.set_reduce_seconds_per_byte(costs.reduce_seconds_per_byte);
  proto.set_cores(costs.cores);
  return proto;
}

absl::StatusOr<MachineCosts> FromProto(const v1::CollectiveCosts& proto) {
  MachineCosts costs;
  costs.shared_memory = PathOf(proto.shared_memory());
  costs.unix_socket = PathOf(proto.unix());
  costs.tcp = PathOf(proto.tcp());
  costs.remote = PathOf(proto.remote());
  costs.reduce_seconds_per_byte = proto.reduce_seconds_per_byte();
  costs.cores = proto.cores();
  RETURN_IF_ERROR(CheckCosts(costs));
  return costs;
}

}  // namespace ringmaster
