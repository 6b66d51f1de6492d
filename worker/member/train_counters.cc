#include "worker/member/train_counters.h"

namespace ringmaster {

TrainCounters::TrainCounters(MetricRegistry& registry)
    : generations(registry.counter("ringmaster_generations_total",
                                   "Generations that this worker ran in.")),
      steps(registry.counter("ringmaster_steps_total",
                             "Steps that were committed.")),
      samples(registry.counter("ringmaster_samples_total",
                               "Samples that this rank computed.")),
      skipped_updates(registry.counter(
          "ringmaster_skipped_updates_total",
          "Updates left out because the gradient was not finite.")),
      payload_sent_bytes(registry.counter("ringmaster_payload_sent_bytes_total",
                                          "Elements sent to peers, in bytes.")),
      framing_sent_bytes(
          registry.counter("ringmaster_framing_sent_bytes_total",
                           "Frame headers sent to peers, in bytes.")),
      refused_frames(registry.counter(
          "ringmaster_refused_frames_total",
          "Frames refused for their job, generation, sequence or shape.")),
      refused_connections(
          registry.counter("ringmaster_refused_connections_total",
                           "Data connections refused in the handshake.")) {}

void TrainCounters::AddWire(const WireCounters& wire) {
  payload_sent_bytes.Add(wire.payload_sent_bytes);
  framing_sent_bytes.Add(wire.framing_sent_bytes);
  refused_frames.Add(wire.refused_frames);
}

}  // namespace ringmaster
