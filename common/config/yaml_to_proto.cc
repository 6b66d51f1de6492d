#include "common/config/yaml_to_proto.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/config/closest_name.h"
#include "common/config/read_file.h"
#include "common/config/yaml_scalar.h"
#include "common/status/status_macros.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/yaml.h"

namespace ringmaster {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;

// A small file can stand for a huge message by aliases of aliases.
constexpr int kMaxValues = 100'000;
// yaml-cpp looks ahead behind a bracket for as long as it may belong to a key, and
// keeps all of that in memory.
constexpr int kMaxOpenBrackets = 1000;
constexpr size_t kMaxCitedBytes = 400;
// The depth to which a misplaced field is searched for, to suggest its right
// place.
constexpr int kMaxSearchDepth = 5;

// The place of an error in the YAML and in the message.
struct Place {
  int line = 1;
  std::string path;  // "train.steps"; "" at the top

  [[nodiscard]] Place Field(int at_line, const std::string& name) const {
    return {at_line, path.empty() ? name : absl::StrCat(path, ".", name)};
  }
};

// The line in which brackets are open kMaxOpenBrackets + 1 deep; nullopt if they
// never are. Those of texts and comments count as well.
std::optional<int> LineOfTooManyBrackets(absl::string_view text) {
  int line = 1;
  int open = 0;
  for (const char c : text) {
    if (c == '\n') ++line;
    if (c == '[' || c == '{') ++open;
    if ((c == ']' || c == '}') && open > 0) --open;
    if (open > kMaxOpenBrackets) return line;
  }
  return std::nullopt;
}

// `text`, which may cite the file, without control characters and not too long.
std::string OneLine(absl::string_view text) {
  size_t end = std::min(text.size(), kMaxCitedBytes);
  // Not within a character of UTF-8.
  while (end < text.size() && end > 0 && (text[end] & 0xC0) == 0x80) --end;
  std::string line;
  for (const char c : text.substr(0, end)) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) {
      absl::StrAppend(&line, "\\x",
                      absl::Hex(static_cast<uint8_t>(c), absl::kZeroPad2));
    } else {
      line += c;
    }
  }
  return end < text.size() ? line + "..." : line;
}

// Notes where each document has its first node.
class DocumentMark final : public YAML::EventHandler {
 public:
  [[nodiscard]] int line() const { return line_.value_or(1); }

  void OnDocumentStart(const YAML::Mark&) override { line_.reset(); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { Note(mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { Note(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string&) override {
    Note(mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&,
                       YAML::anchor_t, YAML::EmitterStyle::value) override {
    Note(mark);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    Note(mark);
  }
  void OnMapEnd() override {}

 private:
  void Note(const YAML::Mark& mark) {
    if (!line_.has_value() && !mark.is_null()) line_ = mark.line + 1;
  }

  std::optional<int> line_;
};

int LineOf(const YAML::Node& node, int otherwise) {
  const YAML::Mark mark = node.Mark();
  return mark.is_null() ? otherwise : mark.line + 1;
}

absl::string_view KindOf(const YAML::Node& node) {
  if (node.IsMap()) return "a map";
  if (node.IsSequence()) return "a list";
  return node.IsNull() ? "nothing" : "a single value";
}

YamlScalar ToScalar(const YAML::Node& node) {
  // yaml-cpp tags a plain scalar "?" and a quoted one "!".
  return {.text = node.Scalar(), .is_quoted = node.Tag() != "?"};
}

// The path of a field called `name` somewhere below `type`, nearest first.
std::optional<std::string> FindBelow(const Descriptor& type,
                                     const std::string& name, int depth) {
  if (type.FindFieldByName(name) != nullptr) return name;
  if (depth == 0) return std::nullopt;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.message_type() == nullptr || field.is_repeated()) continue;
    const std::optional<std::string> below =
        FindBelow(*field.message_type(), name, depth - 1);
    if (below.has_value()) return absl::StrCat(field.name(), ".", *below);
  }
  return std::nullopt;
}

std::optional<std::string> FindAnywhere(const Descriptor& type,
                                        const std::string& name) {
  for (int depth = 0; depth <= kMaxSearchDepth; ++depth) {
    const auto path = FindBelow(type, name, depth);
    if (path.has_value()) return path;
  }
  return std::nullopt;
}

// Fills messages from YAML nodes. One use.
class YamlReader {
 public:
  // `root` is the outermost message's type. With `has_lines`, errors begin with
  // "source:line: ", else with "source: ".
  YamlReader(const Descriptor& root, std::string source, bool has_lines)
      : root_(root), source_(std::move(source)), has_lines_(has_lines) {}

  absl::StatusOr<YAML::Node> Parse(const std::string& text) const;
  absl::Status ReadMessage(const YAML::Node& node, const Place& place,
                           Message& message);
  // Sets or adds to `field` what `node` says.
  absl::Status ReadField(const YAML::Node& node, const Place& place,
                         const FieldDescriptor& field, Message& message);
  // The field of `type` that is called `name`.
  absl::StatusOr<const FieldDescriptor*> FindField(const Descriptor& type,
                                                   const std::string& name,
                                                   const Place& parent,
                                                   int line) const;
  absl::Status Error(const Place& place, absl::string_view what) const;

 private:
  // The fields of one message so far: none may come twice, nor two of a oneof.
  struct Seen {
    std::map<std::string, int> lines;
    std::map<const OneofDescriptor*, const FieldDescriptor*> oneofs;
  };

  absl::Status CheckSeen(const FieldDescriptor& field, const Place& place,
                         Seen& seen) const;
  absl::Status ReadSingle(const YAML::Node& node, const Place& place,
                          const FieldDescriptor& field, Message& message);
  absl::Status ReadList(const YAML::Node& node, const Place& place,
                        const FieldDescriptor& field, Message& message);
  absl::Status ReadMap(const YAML::Node& node, const Place& place,
                       const FieldDescriptor& field, Message& message);

  const Descriptor& root_;
  const std::string source_;
  const bool has_lines_;
  int num_values_ = 0;
};

absl::Status YamlReader::Error(const Place& place,
                               absl::string_view what) const {
  std::string message = source_;
  if (has_lines_) absl::StrAppend(&message, ":", place.line);
  if (!place.path.empty()) absl::StrAppend(&message, ": ", OneLine(place.path));
  return absl::InvalidArgumentError(absl::StrCat(message, ": ", OneLine(what)));
}

absl::StatusOr<YAML::Node> YamlReader::Parse(const std::string& text) const {
  if (text.size() > kMaxTextFileBytes) {
    return Error({},
                 absl::StrCat("is larger than ", kMaxTextFileBytes, " bytes"));
  }
  if (const std::optional<int> line = LineOfTooManyBrackets(text);
      line.has_value()) {
    return Error({*line, ""}, absl::StrCat("more than ", kMaxOpenBrackets,
                                           " brackets are open at once"));
  }
  try {
    // Not YAML::LoadAll: where nothing can begin, as at a comma, it finds one
    // empty document after the other, for ever.
    std::istringstream in(text);
    YAML::Parser parser(in);
    DocumentMark mark;
    if (!parser.HandleNextDocument(mark)) return Error({}, "is empty");
    if (parser.HandleNextDocument(mark)) {
      return Error({mark.line(), ""},
                   "a second document begins; one is allowed");
    }
    return YAML::Load(text);
  } catch (const YAML::Exception& error) {
    return Error({error.mark.is_null() ? 1 : error.mark.line + 1, ""},
                 absl::StrCat("is not YAML: ", error.msg));
  }
}

absl::StatusOr<const FieldDescriptor*> YamlReader::FindField(
    const Descriptor& type, const std::string& name, const Place& parent,
    int line) const {
  const FieldDescriptor* const field = type.FindFieldByName(name);
  if (field != nullptr) return field;
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) {
    names.push_back(type.field(i)->name());
  }
  const Place place = parent.Field(line, name);
  std::optional<std::string> meant = ClosestName(name, names);
  meant = meant.has_value() ? parent.Field(line, *meant).path
                            : FindAnywhere(root_, name);
  return Error({line, ""}, absl::StrCat("unknown field \"", place.path, "\"",
                                        meant.has_value()
                                            ? absl::StrCat(" (did you mean \"",
                                                           *meant, "\"?)")
                                            : ""));
}

absl::Status YamlReader::CheckSeen(const FieldDescriptor& field,
                                   const Place& place, Seen& seen) const {
  const auto [first, is_new] = seen.lines.emplace(field.name(), place.line);
  if (!is_new) {
    return Error(place,
                 absl::StrCat("is given twice, first in line ", first->second));
  }
  const OneofDescriptor* const oneof = field.real_containing_oneof();
  if (oneof == nullptr) return absl::OkStatus();
  const auto [other, is_first] = seen.oneofs.emplace(oneof, &field);
  if (is_first) return absl::OkStatus();
  return Error(place,
               absl::StrCat("excludes \"", other->second->name(), "\" of line ",
                            seen.lines[other->second->name()],
                            "; only one of them can be set"));
}

absl::Status YamlReader::ReadMessage(const YAML::Node& node, const Place& place,
                                     Message& message) {
  if (!node.IsMap()) {
    return Error(place,
                 absl::StrCat("must be a map of fields, not ", KindOf(node)));
  }
  Seen seen;
  for (const auto& entry : node) {
    const int line = LineOf(entry.first, place.line);
    if (!entry.first.IsScalar()) {
      return Error({line, place.path}, "a field's name must be a single value");
    }
    ASSIGN_OR_RETURN(
        const FieldDescriptor* const field,
        FindField(*message.GetDescriptor(), entry.first.Scalar(), place, line));
    const Place field_place = place.Field(line, field->name());
    RETURN_IF_ERROR(CheckSeen(*field, field_place, seen));
    RETURN_IF_ERROR(ReadField(entry.second, field_place, *field, message));
  }
  return absl::OkStatus();
}

absl::Status YamlReader::ReadField(const YAML::Node& node, const Place& place,
                                   const FieldDescriptor& field,
                                   Message& message) {
  if (node.IsNull()) {
    const char* const what = field.is_map() ? "has no value (write {} for none)"
                             : field.is_repeated()
                                 ? "has no value (write [] for none)"
                             : field.message_type() != nullptr
                                 ? "has no value (write {} for the defaults)"
                                 : "has no value";
    return Error(place, what);
  }
  if (field.is_map()) return ReadMap(node, place, field, message);
  if (field.is_repeated()) return ReadList(node, place, field, message);
  return ReadSingle(node, place, field, message);
}

absl::Status YamlReader::ReadSingle(const YAML::Node& node, const Place& place,
                                    const FieldDescriptor& field,
                                    Message& message) {
  if (++num_values_ > kMaxValues) {
    return Error(
        place, absl::StrCat("is beyond the limit of ", kMaxValues, " values"));
  }
  const bool is_message = field.message_type() != nullptr;
  const bool is_duration = is_message && field.message_type()->full_name() ==
                                             "google.protobuf.Duration";
  if (!is_message || is_duration) {
    if (!node.IsScalar()) {
      return Error(place,
                   absl::StrCat("must be a single value, not ", KindOf(node)));
    }
  }
  const auto* const reflection = message.GetReflection();
  if (is_message) {
    Message& inner = field.is_repeated()
                         ? *reflection->AddMessage(&message, &field)
                         : *reflection->MutableMessage(&message, &field);
    if (!is_duration) return ReadMessage(node, place, inner);
    const absl::Status status = SetDurationMessage(ToScalar(node), inner);
    return status.ok() ? status : Error(place, status.message());
  }
  const absl::Status status = SetScalarField(ToScalar(node), field, message);
  return status.ok() ? status : Error(place, status.message());
}

absl::Status YamlReader::ReadList(const YAML::Node& node, const Place& place,
                                  const FieldDescriptor& field,
                                  Message& message) {
  if (!node.IsSequence()) {
    return Error(place, absl::StrCat("must be a list, not ", KindOf(node)));
  }
  int index = 0;
  for (const YAML::Node& element : node) {
    const std::string path = absl::StrCat(place.path, "[", index++, "]");
    // yaml-cpp puts what is missing where it noticed, often a line below.
    if (element.IsNull()) return Error({place.line, path}, "has no value");
    const Place element_place = {LineOf(element, place.line), path};
    RETURN_IF_ERROR(ReadSingle(element, element_place, field, message));
  }
  return absl::OkStatus();
}

absl::Status YamlReader::ReadMap(const YAML::Node& node, const Place& place,
                                 const FieldDescriptor& field,
                                 Message& message) {
  if (!node.IsMap()) {
    return Error(place, absl::StrCat("must be a map, not ", KindOf(node)));
  }
  std::map<std::string, int> lines;
  for (const auto& entry : node) {
    const int line = LineOf(entry.first, place.line);
    if (!entry.first.IsScalar()) {
      return Error({line, place.path}, "a key must be a single value");
    }
    const std::string key = entry.first.Scalar();
    const Place entry_place = place.Field(line, key);
    if (const auto [first, is_new] = lines.emplace(key, line); !is_new) {
      return Error(entry_place, absl::StrCat("is given twice, first in line ",
                                             first->second));
    }
    if (entry.second.IsNull()) return Error(entry_place, "has no value");
    Message& pair = *message.GetReflection()->AddMessage(&message, &field);
    const absl::Status status = SetScalarField(
        ToScalar(entry.first), *field.message_type()->map_key(), pair);
    if (!status.ok()) {
      return Error(entry_place, absl::StrCat("the key ", status.message()));
    }
    RETURN_IF_ERROR(ReadSingle(entry.second, entry_place,
                               *field.message_type()->map_value(), pair));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status YamlToProto(std::string_view yaml, std::string_view file_name,
                         Message& message) {
  message.Clear();
  YamlReader reader(*message.GetDescriptor(), std::string(file_name),
                    /*has_lines=*/true);
  ASSIGN_OR_RETURN(const YAML::Node node, reader.Parse(std::string(yaml)));
  if (node.IsNull()) return reader.Error({}, "is empty");
  return reader.ReadMessage(node, {LineOf(node, 1), ""}, message);
}

absl::Status YamlFileToProto(const std::string& path, Message& message) {
  const absl::StatusOr<std::string> yaml = ReadTextFile(path);
  if (!yaml.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", yaml.status().message()));
  }
  return YamlToProto(*yaml, path, message);
}

std::string YamlNameOf(const google::protobuf::EnumValueDescriptor& value) {
  return ShortEnumName(value);
}

absl::Status SetProtoField(std::string_view assignment, Message& message) {
  const std::string text(assignment);
  YamlReader reader(*message.GetDescriptor(), text, /*has_lines=*/false);
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return reader.Error({}, "write FIELD=VALUE, as train.steps=100");
  }
  const std::vector<std::string> names =
      absl::StrSplit(text.substr(0, equals), '.');
  Message* owner = &message;
  Place place;
  const FieldDescriptor* field = nullptr;
  for (size_t i = 0; i < names.size(); ++i) {
    ASSIGN_OR_RETURN(
        field, reader.FindField(*owner->GetDescriptor(), names[i], place, 1));
    place = place.Field(1, names[i]);
    if (i + 1 == names.size()) break;
    if (field->message_type() == nullptr || field->is_repeated()) {
      return reader.Error(place, "has no fields");
    }
    owner = owner->GetReflection()->MutableMessage(owner, field);
  }
  ASSIGN_OR_RETURN(const YAML::Node node,
                   reader.Parse(text.substr(equals + 1)));
  if (field->is_repeated()) owner->GetReflection()->ClearField(owner, field);
  return reader.ReadField(node, place, *field, *owner);
}

}  // namespace ringmaster
