#include "server/coordinator/rpc/job_spec_collective.h"

#include "common/plan/mesh.h"

namespace ringmaster::coordinator {

void CheckCollective(const v1::CollectiveSpec& spec, const std::string& path,
                     SpecErrors& errors) {
  errors.RequireKnown(
      v1::CollectiveAlgorithm_IsValid(spec.algorithm()), path + ".algorithm",
      "ring, halving_doubling, direct, exchange, gather_broadcast or "
      "hierarchical",
      spec.algorithm());
  errors.RequireKnown(v1::CollectiveTransport_IsValid(spec.transport()),
                      path + ".transport", "shared_memory, unix or tcp",
                      spec.transport());
  errors.RequireKnown(v1::CollectiveWire_IsValid(spec.wire()), path + ".wire",
                      "float16 or bfloat16", spec.wire());
  // 0: left out.
  errors.RequireRange(path + ".connections", spec.connections(), 0,
                      kMaxConnections);
}

}  // namespace ringmaster::coordinator
