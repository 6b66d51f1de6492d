// The records of a TensorBoard event file, as bytes.
//
// A file is a sequence of TFRecords, each one serialized tensorflow.Event; the
// first is FileVersionEvent. We write the few fields that TensorBoard needs
// straight in protobuf's wire format. Sources of the field numbers and of the
// framing: tensorflow/core/util/event.proto, tensorflow/core/framework/
// {summary,tensor,tensor_shape}.proto and tensorflow/core/lib/io/
// record_writer.h, all of TensorFlow 2. Pure.
//
// `unix_seconds` is the wall time of the event.
#ifndef RINGMASTER_WORKER_FIGURES_EVENT_RECORD_H_
#define RINGMASTER_WORKER_FIGURES_EVENT_RECORD_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ringmaster {

struct ScalarFigure {
  std::string_view tag;  // "train/loss": TensorBoard groups by the first part
  double value = 0;      // TensorBoard keeps a float; NaN and infinity are fine
};

// {wall_time, file_version: "brain.Event:2"}
[[nodiscard]] std::string FileVersionEvent(double unix_seconds);

// {wall_time, step, session_log {status: START}}: TensorBoard forgets the
// records of `step` and later ones in earlier files of the directory.
[[nodiscard]] std::string SessionStartEvent(double unix_seconds, int64_t step);

// {wall_time, step, summary {value {tag, simple_value} ...}}
[[nodiscard]] std::string ScalarsEvent(double unix_seconds, int64_t step,
                                       std::span<const ScalarFigure> figures);

// {wall_time, step, summary {value {tag, tensor, metadata}}}: `markdown`
// (UTF-8), for the plugin "text", as a tensor of one string.
[[nodiscard]] std::string TextEvent(double unix_seconds, int64_t step,
                                    std::string_view tag,
                                    std::string_view markdown);

// Appends `content` in the frame of a TFRecord: u64 length, u32 masked CRC-32C
// of these 8 bytes, content, u32 masked CRC-32C of the content; little endian.
void AppendTfRecord(std::string_view content, std::string* to);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_FIGURES_EVENT_RECORD_H_
