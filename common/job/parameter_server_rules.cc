#include <string>

#include "absl/strings/str_cat.h"
#include "common/job/program_rules.h"

namespace ringmaster {
namespace {

constexpr char kPath[] = "train.parameter_server";

double ClipNormOf(const v1::OptimizerSpec& optimizer) {
  return optimizer.has_sgd() ? optimizer.sgd().clip_norm()
                             : optimizer.adamw().clip_norm();
}

void CheckHosts(const v1::ParameterServerSpec& spec, int max_workers,
                SpecErrors& errors) {
  const std::string path = kPath;
  if (spec.colocated() && spec.servers() != 0) {
    errors.Add(absl::StrCat(path, ".servers must be left out with ", path,
                            ".colocated, got ", spec.servers()));
  } else if (!spec.colocated() && spec.servers() == 0) {
    errors.Add(path + ".servers must be at least 1, got 0");
  }
  if (spec.replicas() != 1) return;
  if (spec.colocated() && max_workers < 2) {
    errors.Add(absl::StrCat(
        path, ".replicas of 1 needs workers.max of at least 2, got ",
        max_workers));
  } else if (spec.servers() == 1) {
    errors.Add(path + ".replicas of 1 needs " + path +
               ".servers of at least 2, got 1");
  }
}

}  // namespace

void CheckParameterServer(const v1::TrainProgram& train, int max_workers,
                          SpecErrors& errors) {
  if (!train.has_parameter_server()) return;
  const v1::ParameterServerSpec& spec = train.parameter_server();
  const std::string path = kPath;
  CheckHosts(spec, max_workers, errors);
  if (spec.consistency() != v1::CONSISTENCY_SSP && spec.staleness() != 0) {
    errors.Add(absl::StrCat(path, ".staleness needs ", path,
                            ".consistency of ssp, got ", spec.staleness()));
  }
  const bool is_bsp = spec.consistency() == v1::CONSISTENCY_BSP;
  if (spec.deterministic() && !is_bsp) {
    errors.Add(path + ".deterministic needs " + path + ".consistency of bsp");
  }
  if (train.collective().algorithm() != v1::COLLECTIVE_ALGORITHM_UNSPECIFIED) {
    errors.Add("train.collective.algorithm must be left out with " + path +
               ": nothing is all-reduced");
  }
  if (const double clip_norm = ClipNormOf(train.optimizer());
      clip_norm != 0 && !is_bsp) {
    errors.Add(absl::StrCat("train.optimizer: clip_norm needs ", path,
                            ".consistency of bsp, got ", clip_norm));
  }
}

}  // namespace ringmaster
