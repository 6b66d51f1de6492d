#include "worker/bench/bench_program.h"

#include "common/job/job_spec.h"
#include "common/protocol/enum_pairs.h"
#include "common/protocol/proto_time.h"
#include "common/status/status_macros.h"
#include "ringmaster/v1/job.pb.h"
#include "worker/member/collective_config.h"

namespace ringmaster {
namespace {

constexpr EnumPair<v1::BenchType, DType> kTypes[] = {
    {v1::BENCH_TYPE_FLOAT32, DType::kFloat32},
    {v1::BENCH_TYPE_FLOAT64, DType::kFloat64},
    {v1::BENCH_TYPE_FLOAT16, DType::kFloat16},
    {v1::BENCH_TYPE_BFLOAT16, DType::kBFloat16},
    {v1::BENCH_TYPE_INT32, DType::kInt32},
    {v1::BENCH_TYPE_INT64, DType::kInt64}};

constexpr EnumPair<v1::BenchReduction, Reduction> kReductions[] = {
    {v1::BENCH_REDUCTION_SUM, Reduction::kSum},
    {v1::BENCH_REDUCTION_MAX, Reduction::kMax},
    {v1::BENCH_REDUCTION_MIN, Reduction::kMin},
    {v1::BENCH_REDUCTION_AVERAGE, Reduction::kAverage}};

}  // namespace

absl::StatusOr<AllReduceBenchOptions> ParseBenchProgram(
    const v1::BenchProgram& given, int ranks) {
  ASSIGN_OR_RETURN(const v1::BenchProgram program, DefaultProgram(given));
  const CollectiveConfig collective = CollectiveConfigOf(program.collective());
  AllReduceBenchOptions options;
  options.ranks = ranks;
  options.sizes.assign(program.sizes().begin(), program.sizes().end());
  options.dtype = OwnOf(kTypes, program.type());
  options.reduction = OwnOf(kReductions, program.reduction());
  options.algorithm = collective.algorithm;
  options.wire = collective.wire;
  options.connections = collective.connections;
  if (program.collective().transport() !=
      v1::COLLECTIVE_TRANSPORT_UNSPECIFIED) {
    options.transport = collective.best_transport;
  }
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
    collective.set_transport(ProtoOf(kTransportPairs, *options.transport));
  if (options.wire.has_value())
    collective.set_wire(ProtoOf(kWirePairs, *options.wire));
  collective.set_connections(options.connections);
  program.set_iterations(options.iterations);
  program.set_warmup(options.warmup);
  *program.mutable_time_per_size() = ToProto(options.time_per_size);
}

void FillBenchFigures(const AllReduceBenchFigures& figures,
                      v1::BenchFigures& message) {
  message.set_transport(ProtoOf(kTransportPairs, figures.start.transport));
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
  figures.start.transport = OwnOf(kTransportPairs, message.transport());
  figures.start.bus_limit = message.limit_bytes_per_second();
  figures.start.fallback = message.fallback();
  for (const v1::BenchRow& item : message.rows()) {
    AllReduceBenchRow row;
    row.bytes = item.bytes();
    row.count = item.count();
    row.algorithm = OwnOf(kAlgorithmPairs, item.algorithm());
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
