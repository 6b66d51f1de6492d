#include "tests/gpu/step_vs_torch/step_flags.h"

#include "tests/gpu/step_vs_torch/our_models.h"

namespace ringmaster {

void AddStepFlags(FlagSet& set, StepFlags& flags) {
  set.Add({.name = "model",
           .help = "What is trained.",
           .is_required = flags.model.empty(),
           .choices = StepModels()},
          &flags.model);
  set.Add({.name = "batch",
           .help = "Samples of a step.",
           .is_required = flags.batch == 0,
           .min = 1},
          &flags.batch);
  set.Add({.name = "steps",
           .help = "Steps of a round.",
           .is_required = flags.steps == 0,
           .min = 1},
          &flags.steps);
  set.Add({.name = "precision",
           .help = "Of matrix products.",
           .choices = StepPrecisions()},
          &flags.precision);
}

}  // namespace ringmaster
