#include "worker/data/labelled_records.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "common/text/quoted.h"
#include "nlohmann/json.hpp"

namespace ringmaster {
namespace {

using nlohmann::json;

// One line of a CSV file, or as many as its quoted fields reach over.
struct CsvRow {
  int64_t line = 0;
  std::vector<std::string> fields = {};
  std::string problem = "";
};

class CsvReader {
 public:
  explicit CsvReader(std::string_view text) : text_(text) {
    // A byte order mark, which spreadsheets write.
    if (text_.substr(0, 3) == "\xef\xbb\xbf") text_.remove_prefix(3);
  }

  // Nothing at the end.
  std::optional<CsvRow> Next() {
    while (!text_.empty() && (text_[0] == '\n' || text_.substr(0, 2) == "\r\n"))
      SkipLine();
    if (text_.empty()) return std::nullopt;
    CsvRow row = {.line = line_};
    const std::string_view begin = text_;
    while (true) {
      if (!TakeField(row)) {
        // The rest is read from the next line on.
        row.fields.clear();
        text_ = begin;
        line_ = row.line;
        SkipLine();
        return row;
      }
      if (text_.empty()) return row;
      const bool is_comma = text_[0] == ',';
      if (!is_comma) {
        SkipLine();
        return row;
      }
      text_.remove_prefix(1);
    }
  }

 private:
  void SkipLine() {
    const size_t end = std::min(text_.find('\n'), text_.size() - 1);
    text_.remove_prefix(end + 1);
    ++line_;
  }

  // Takes a field off, up to the comma or the end of the line behind it.
  bool TakeField(CsvRow& row) {
    if (text_.empty() || text_[0] != '"') {
      const size_t end = std::min(text_.find_first_of(",\n"), text_.size());
      std::string field(text_.substr(0, end));
      text_.remove_prefix(end);
      if (!field.empty() && field.back() == '\r' &&
          (text_.empty() || text_[0] == '\n'))
        field.pop_back();
      row.fields.push_back(std::move(field));
      return true;
    }
    std::string field;
    for (size_t i = 1; i < text_.size(); ++i) {
      if (text_[i] == '\n') ++line_;
      if (text_[i] != '"') {
        field.push_back(text_[i]);
        continue;
      }
      if (i + 1 < text_.size() && text_[i + 1] == '"') {
        field.push_back('"');
        ++i;
        continue;
      }
      text_.remove_prefix(i + 1);
      row.fields.push_back(std::move(field));
      if (text_.empty() || text_[0] == ',' || text_[0] == '\n' ||
          text_.substr(0, 2) == "\r\n")
        return true;
      row.problem = "a quoted field ends before its column does";
      return false;
    }
    row.problem = "a quoted field has no end";
    return false;
  }

  std::string_view text_;
  int64_t line_ = 1;
};

absl::StatusOr<size_t> FindColumn(const CsvRow& head, const std::string& name) {
  const auto found = std::find(head.fields.begin(), head.fields.end(), name);
  if (found != head.fields.end())
    return static_cast<size_t>(found - head.fields.begin());
  std::string known;
  for (const std::string& field : head.fields)
    absl::StrAppend(&known, known.empty() ? "" : ", ", Quoted(field));
  return absl::InvalidArgumentError(absl::StrCat(
      "has no column ", Quoted(name), "; line ", head.line, " names ", known));
}

// A label or a text; nothing, and the problem, if it is neither.
std::optional<std::string> StringOf(const json& object, const std::string& key,
                                    bool is_label, std::string& problem) {
  const auto found = object.find(key);
  if (found != object.end()) {
    if (found->is_string()) return found->get<std::string>();
    if (is_label && (found->is_number_integer() || found->is_boolean()))
      return found->is_boolean() ? (found->get<bool>() ? "1" : "0")
                                 : found->dump();
  }
  problem = absl::StrCat(Quoted(key),
                         found == object.end() ? " is not there"
                         : is_label ? " is neither a string nor a whole number"
                                    : " is no string");
  return std::nullopt;
}

LabelledRecord ParseObject(const json& object, const RecordColumns& columns) {
  LabelledRecord record;
  if (!object.is_object()) {
    record.problem = "is no JSON object";
    return record;
  }
  auto text = StringOf(object, columns.text, false, record.problem);
  auto second =
      columns.second_text.empty()
          ? std::optional<std::string>("")
          : StringOf(object, columns.second_text, false, record.problem);
  auto label = StringOf(object, columns.label, true, record.problem);
  if (!text || !second || !label) return record;
  record.text = *std::move(text);
  record.second_text = *std::move(second);
  record.label = *std::move(label);
  return record;
}

}  // namespace

absl::StatusOr<std::vector<LabelledRecord>> ParseCsvRecords(
    std::string_view text, const RecordColumns& columns) {
  CsvReader reader(text);
  const std::optional<CsvRow> head = reader.Next();
  if (!head.has_value())
    return absl::InvalidArgumentError("is empty: its first line names columns");
  if (!head->problem.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("line ", head->line, ": ", head->problem));
  }
  ASSIGN_OR_RETURN(const size_t first, FindColumn(*head, columns.text));
  size_t second = first;
  if (!columns.second_text.empty()) {
    ASSIGN_OR_RETURN(second, FindColumn(*head, columns.second_text));
  }
  ASSIGN_OR_RETURN(const size_t label, FindColumn(*head, columns.label));
  std::vector<LabelledRecord> records;
  while (std::optional<CsvRow> row = reader.Next()) {
    LabelledRecord& record = records.emplace_back();
    record.line = row->line;
    record.problem = row->problem;
    if (record.problem.empty() && row->fields.size() != head->fields.size()) {
      record.problem =
          absl::StrCat("has ", row->fields.size(), " fields, but there are ",
                       head->fields.size(), " columns");
    }
    if (!record.problem.empty()) continue;
    record.text = row->fields[first];
    if (second != first) record.second_text = row->fields[second];
    record.label = row->fields[label];
  }
  return records;
}

std::vector<LabelledRecord> ParseJsonRecords(std::string_view text,
                                             const RecordColumns& columns) {
  std::vector<LabelledRecord> records;
  for (int64_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view content = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (content.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const json object =
        json::parse(content, nullptr, /*allow_exceptions=*/false);
    records.push_back(ParseObject(object, columns));
    records.back().line = line;
  }
  return records;
}

}  // namespace ringmaster
