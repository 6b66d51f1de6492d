#include "common/reduction/reduction.h"

namespace ringmaster {

const char* ReductionName(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return "sum";
    case Reduction::kMax:
      return "max";
    case Reduction::kMin:
      return "min";
    case Reduction::kAverage:
      return "average";
  }
  return "unknown";
}

}  // namespace ringmaster
