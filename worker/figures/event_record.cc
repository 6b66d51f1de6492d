#include "worker/figures/event_record.h"

#include <bit>
#include <concepts>
#include <utility>

#include "common/checksum/crc32c.h"

namespace ringmaster {
namespace {

// Field numbers of the messages named in the header.
namespace event {
constexpr int kWallTime = 1;
constexpr int kStep = 2;
constexpr int kFileVersion = 3;
constexpr int kSummary = 5;
constexpr int kSessionLog = 7;
}  // namespace event
namespace session_log {
constexpr int kStatus = 1;
constexpr uint64_t kStart = 1;
}  // namespace session_log
namespace summary {
constexpr int kValue = 1;
}  // namespace summary
namespace value {
constexpr int kTag = 1;
constexpr int kSimpleValue = 2;
constexpr int kTensor = 8;
constexpr int kMetadata = 9;
}  // namespace value
namespace metadata {
constexpr int kPluginData = 1;
constexpr int kPluginName = 1;  // in plugin_data
constexpr int kDataClass = 4;
constexpr uint64_t kTensorClass = 2;
}  // namespace metadata
namespace tensor {
constexpr int kDtype = 1;
constexpr uint64_t kString = 7;
constexpr int kShape = 2;
constexpr int kShapeDim = 2;  // in tensor_shape
constexpr int kDimSize = 1;   // in tensor_shape.dim
constexpr int kStringVal = 8;
}  // namespace tensor

template <std::unsigned_integral T>
void AppendLittleEndian(T bits, std::string* to) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    to->push_back(static_cast<char>(bits >> (8 * i)));
  }
}

// A message in protobuf's wire format (protobuf.dev, "Encoding"). Fields are
// written even where they have their default value.
class Message {
 public:
  Message& Double(int field, double number) {
    Key(field, 1);
    AppendLittleEndian(std::bit_cast<uint64_t>(number), &bytes_);
    return *this;
  }
  Message& Float(int field, float number) {
    Key(field, 5);
    AppendLittleEndian(std::bit_cast<uint32_t>(number), &bytes_);
    return *this;
  }
  Message& Varint(int field, uint64_t number) {
    Key(field, 0);
    AppendVarint(number);
    return *this;
  }
  Message& Bytes(int field, std::string_view bytes) {
    Key(field, 2);
    AppendVarint(bytes.size());
    bytes_.append(bytes);
    return *this;
  }
  Message& Nested(int field, const Message& message) {
    return Bytes(field, message.bytes_);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  void Key(int field, int wire_type) {
    AppendVarint(static_cast<uint64_t>(field) << 3 |
                 static_cast<uint64_t>(wire_type));
  }
  void AppendVarint(uint64_t number) {
    for (; number >= 0x80; number >>= 7) {
      bytes_.push_back(static_cast<char>(number | 0x80));
    }
    bytes_.push_back(static_cast<char>(number));
  }

  std::string bytes_;
};

Message EventAt(double unix_seconds, int64_t step) {
  return Message()
      .Double(event::kWallTime, unix_seconds)
      .Varint(event::kStep, static_cast<uint64_t>(step));
}

// The mask that a checksum of data with checksums in them needs; source:
// record_writer.h of TensorFlow.
uint32_t MaskedCrc32c(std::string_view bytes) {
  return std::rotr(Crc32c(bytes), 15) + 0xa282ead8U;
}

}  // namespace

std::string FileVersionEvent(double unix_seconds) {
  return Message()
      .Double(event::kWallTime, unix_seconds)
      .Bytes(event::kFileVersion, "brain.Event:2")
      .Take();
}

std::string SessionStartEvent(double unix_seconds, int64_t step) {
  return EventAt(unix_seconds, step)
      .Nested(event::kSessionLog,
              Message().Varint(session_log::kStatus, session_log::kStart))
      .Take();
}

std::string ScalarsEvent(double unix_seconds, int64_t step,
                         std::span<const ScalarFigure> figures) {
  Message values;
  for (const ScalarFigure& figure : figures) {
    values.Nested(
        summary::kValue,
        Message()
            .Bytes(value::kTag, figure.tag)
            .Float(value::kSimpleValue, static_cast<float>(figure.value)));
  }
  return EventAt(unix_seconds, step).Nested(event::kSummary, values).Take();
}

std::string TextEvent(double unix_seconds, int64_t step, std::string_view tag,
                      std::string_view markdown) {
  const Message shape = Message().Nested(tensor::kShapeDim,
                                         Message().Varint(tensor::kDimSize, 1));
  const Message text = Message()
                           .Varint(tensor::kDtype, tensor::kString)
                           .Nested(tensor::kShape, shape)
                           .Bytes(tensor::kStringVal, markdown);
  const Message about =
      Message()
          .Nested(metadata::kPluginData,
                  Message().Bytes(metadata::kPluginName, "text"))
          .Varint(metadata::kDataClass, metadata::kTensorClass);
  const Message tagged = Message()
                             .Bytes(value::kTag, tag)
                             .Nested(value::kTensor, text)
                             .Nested(value::kMetadata, about);
  return EventAt(unix_seconds, step)
      .Nested(event::kSummary, Message().Nested(summary::kValue, tagged))
      .Take();
}

void AppendTfRecord(std::string_view content, std::string* to) {
  std::string length;
  AppendLittleEndian(static_cast<uint64_t>(content.size()), &length);
  to->append(length);
  AppendLittleEndian(MaskedCrc32c(length), to);
  to->append(content);
  AppendLittleEndian(MaskedCrc32c(content), to);
}

}  // namespace ringmaster
