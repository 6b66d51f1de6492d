// The lines of a worker's log that are output of a job's command. Pure.
#ifndef RINGMASTER_SERVER_CTL_RENDER_OUTPUT_LINE_H_
#define RINGMASTER_SERVER_CTL_RENDER_OUTPUT_LINE_H_

#include <optional>
#include <string>

#include "ringmaster/v1/log.pb.h"

namespace ringmaster::ctl {

struct OutputLine {
  std::string job;  // its id
  int rank = 0;
  bool is_error = false;  // on the command's standard error
  std::string text;

  friend bool operator==(const OutputLine&, const OutputLine&) = default;
};

// Returns nullopt for a line that is none.
[[nodiscard]] std::optional<OutputLine> ParseOutputLine(
    const v1::LogLine& line);

// "[3] epoch 2", fit for a terminal.
[[nodiscard]] std::string ToText(const OutputLine& line);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_RENDER_OUTPUT_LINE_H_
