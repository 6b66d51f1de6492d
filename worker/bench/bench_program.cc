#include "worker/bench/bench_program.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/rpc/proto_time.h"
#include "common/status/status_macros.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/train/collective_config.h"

namespace ringmaster {
namespace {

// A value of the protocol and ours.
template <typename Proto, typename Own>
struct Pair {
  Proto proto;
  Own own;
};

constexpr Pair<v1::BenchType, DType> kTypes[] = {
    {v1::BENCH_TYPE_FLOAT32, DType::kFloat32},
    {v1::BENCH_TYPE_FLOAT64, DType::kFloat64},
    {v1::BENCH_TYPE_FLOAT16, DType::kFloat16},
    {v1::BENCH_TYPE_BFLOAT16, DType::kBFloat16},
    {v1::BENCH_TYPE_INT32, DType::kInt32},
    {v1::BENCH_TYPE_INT64, DType::kInt64}};

constexpr Pair<v1::BenchReduction, Reduction> kReductions[] = {
    {v1::BENCH_REDUCTION_SUM, Reduction::kSum},
    {v1::BENCH_REDUCTION_MAX, Reduction::kMax},
    {v1::BENCH_REDUCTION_MIN, Reduction::kMin},
    {v1::BENCH_REDUCTION_AVERAGE, Reduction::kAverage}};

constexpr Pair<v1::CollectiveTransport, Transport> kTransports[] = {
    {v1::COLLECTIVE_TRANSPORT_SHARED_MEMORY, Transport::kSharedMemory},
    {v1::COLLECTIVE_TRANSPORT_UNIX, Transport::kUnix},
    {v1::COLLECTIVE_TRANSPORT_TCP, Transport::kTcp}};

constexpr Pair<v1::CollectiveWire, DType> kWires[] = {
    {v1::COLLECTIVE_WIRE_FLOAT16, DType::kFloat16},
    {v1::COLLECTIVE_WIRE_BFLOAT16, DType::kBFloat16}};

constexpr Pair<v1::CollectiveAlgorithm, Algorithm> kAlgorithmPairs[] = {
    {v1::COLLECTIVE_ALGORITHM_UNSPECIFIED, Algorithm::kAuto},
    {v1::COLLECTIVE_ALGORITHM_RING, Algorithm::kRing},
    {v1::COLLECTIVE_ALGORITHM_HALVING_DOUBLING, Algorithm::kHalvingDoubling},
    {v1::COLLECTIVE_ALGORITHM_DIRECT, Algorithm::kDirect},
    {v1::COLLECTIVE_ALGORITHM_EXCHANGE, Algorithm::kExchange},
    {v1::COLLECTIVE_ALGORITHM_GATHER_BROADCAST, Algorithm::kGatherBroadcast},
    {v1::COLLECTIVE_ALGORITHM_HIERARCHICAL, Algorithm::kHierarchical}};

template <typename Pairs, typename Proto, typename Own>
bool Find(const Pairs& pairs, Proto proto, Own& own) {
  for (const auto& pair : pairs) {
    if (pair.proto != proto) continue;
    own = pair.own;
    return true;
  }
  return false;
}

template <typename Pairs, typename Own>
auto ProtoOf(const Pairs& pairs, Own own) {
  for (const auto& pair : pairs) {
    if (pair.own == own) return pair.proto;
  }
  return pairs[0].proto;
}

absl::Status Unknown(const char* field, int value) {
  return absl::InvalidArgumentError(
      absl::StrCat("bench.", field,
                   " has a value that this worker does not "
                   "know (",
                   value, "); it may be older than the coordinator"));
}

absl::Status TakeCollective(const v1::CollectiveSpec& spec,
                            AllReduceBenchOptions& options) {
  const absl::StatusOr<CollectiveConfig> config = ParseCollective(spec);
  if (!config.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("bench.", config.status().message()));
  }
  options.algorithm = config->algorithm;
  options.wire = config->wire;
  options.connections = config->connections;
  if (spec.transport() != v1::COLLECTIVE_TRANSPORT_UNSPECIFIED)
    options.transport = config->best_transport;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AllReduceBenchOptions> ParseBenchProgram(
    const v1::BenchProgram& program, int ranks) {
  AllReduceBenchOptions options;
  options.ranks = ranks;
  options.sizes.assign(program.sizes().begin(), program.sizes().end());
  if (options.sizes.empty())
    return absl::InvalidArgumentError("bench.sizes has no size");
  if (!Find(kTypes, program.type(), options.dtype))
    return Unknown("type", program.type());
  if (!Find(kReductions, program.reduction(), options.reduction))
    return Unknown("reduction", program.reduction());
  RETURN_IF_ERROR(TakeCollective(program.collective(), options));
  options.iterations = program.iterations();
  options.warmup = program.warmup();
  options.time_per_size = FromProto(program.time_per_size());
  return options;
}

void FillBenchProgram(const AllReduceBenchOptions& options,
                      v1::BenchProgram& program) {
  const int64_t element = SizeOf(options.dtype);
  for (const int64_t bytes : options.sizes)
    program.add_sizes(bytes / element * element);
  program.set_type(ProtoOf(kTypes, options.dtype));
  program.set_reduction(ProtoOf(kReductions, options.reduction));
  v1::CollectiveSpec& collective = *program.mutable_collective();
  collective.set_algorithm(ProtoOf(kAlgorithmPairs, options.algorithm));
  if (options.transport.has_value())
    collective.set_transport(ProtoOf(kTransports, *options.transport));
  if (options.wire.has_value())
    collective.set_wire(ProtoOf(kWires, *options.wire));
  collective.set_connections(options.connections);
  program.set_iterations(options.iterations);
  program.set_warmup(options.warmup);
  *program.mutable_time_per_size() = ToProto(options.time_per_size);
}

void FillBenchFigures(const AllReduceBenchFigures& figures,
                      v1::BenchFigures& message) {
  message.set_transport(ProtoOf(kTransports, figures.start.transport));
  message.set_limit_bytes_per_second(figures.start.bus_limit);
  message.set_fallback(figures.start.fallback);
  for (const AllReduceBenchRow& row : figures.rows) {
    v1::BenchRow& item = *message.add_rows();
    item.set_bytes(row.bytes);
    item.set_count(row.count);
    item.set_algorithm(ProtoOf(kAlgorithmPairs, row.algorithm));
    item.set_iterations(row.iterations);
    item.set_p50_seconds(row.p50);
    item.set_p99_seconds(row.p99);
    item.set_predicted_seconds(row.predicted);
    item.set_wrong(row.wrong);
  }
}

AllReduceBenchFigures BenchFiguresFrom(const v1::BenchFigures& message) {
  AllReduceBenchFigures figures;
  (void)Find(kTransports, message.transport(), figures.start.transport);
  figures.start.bus_limit = message.limit_bytes_per_second();
  figures.start.fallback = message.fallback();
  for (const v1::BenchRow& item : message.rows()) {
    AllReduceBenchRow row;
    row.bytes = item.bytes();
    row.count = item.count();
    (void)Find(kAlgorithmPairs, item.algorithm(), row.algorithm);
    row.iterations = item.iterations();
    row.p50 = item.p50_seconds();
    row.p99 = item.p99_seconds();
    row.predicted = item.predicted_seconds();
    row.wrong = item.wrong();
    figures.rows.push_back(row);
  }
  return figures;
}

}  // namespace ringmaster
