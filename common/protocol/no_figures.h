// The figures of a rank that has not trained a step yet. Pure.
#ifndef RINGMASTER_COMMON_PROTOCOL_NO_FIGURES_H_
#define RINGMASTER_COMMON_PROTOCOL_NO_FIGURES_H_

#include "ringmaster/v1/figures.pb.h"

namespace ringmaster {

// No rank is waited for (-1), and all durations are present and 0.
[[nodiscard]] v1::TrainingFigures NoFigures();

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PROTOCOL_NO_FIGURES_H_
