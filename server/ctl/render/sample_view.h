// Text that a model wrote, for people: as plain lines, or in a frame under a
// table.
//
// Pure. Control characters of the text, which could steer the reader's
// terminal, are shown as \xNN.
#ifndef RINGMASTER_SERVER_CTL_RENDER_SAMPLE_VIEW_H_
#define RINGMASTER_SERVER_CTL_RENDER_SAMPLE_VIEW_H_

#include <string>
#include <vector>

#include "ringmaster/v1/job.pb.h"
#include "server/ctl/render/text.h"

namespace ringmaster::ctl {

// "sample after step 50:", then the prompt and what follows it, whole.
[[nodiscard]] std::vector<std::string> SampleLines(
    const v1::TextSample& sample);

// The same in a frame that fits the style's width, of at most `max_lines`
// lines: what has no room is left out, and "..." says so. Nothing for less than
// three lines.
[[nodiscard]] std::vector<std::string> SampleFrame(const v1::TextSample& sample,
                                                   const Style& style,
                                                   int max_lines);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_RENDER_SAMPLE_VIEW_H_
