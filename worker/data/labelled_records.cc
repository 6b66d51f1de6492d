#include "worker/data/labelled_records.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/status_macros.h"
#include "common/text/quoted.h"
#include "nlohmann/json.hpp"

namespace ringmaster {
namespace {

using nlohmann::json;

// Lines that a row reaches over at most where one was malformed.
constexpr int64_t kMostLinesAgain = 16;
// Columns that an error names.
constexpr size_t kMostNames = 20;

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
    // Else each line after a quote too many could be read up to the end.
    const bool is_again = begin.size() > tried_;
    last_line_ = is_again ? row.line + kMostLinesAgain
                          : std::numeric_limits<int64_t>::max();
    while (true) {
      if (!TakeField(row)) {
        if (!is_again) tried_ = text_.size();
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
    size_t i = 1;
    for (; i < text_.size(); ++i) {
      if (text_[i] == '\n' && ++line_ > last_line_) break;
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
    text_.remove_prefix(i);
    row.problem = "a quoted field has no end";
    return false;
  }

  std::string_view text_;
  int64_t line_ = 1;
  int64_t last_line_ = 0;  // that the row may reach
  // The bytes that are behind those of the last malformed row.
  size_t tried_ = std::numeric_limits<size_t>::max();
};

absl::StatusOr<size_t> FindColumn(const CsvRow& head, const std::string& name) {
  const auto found = std::find(head.fields.begin(), head.fields.end(), name);
  if (found != head.fields.end())
    return static_cast<size_t>(found - head.fields.begin());
  std::string known;
  const size_t named = std::min(head.fields.size(), kMostNames);
  for (size_t i = 0; i < named; ++i)
    absl::StrAppend(&known, i == 0 ? "" : ", ", Quoted(head.fields[i]));
  if (named < head.fields.size())
    absl::StrAppend(&known, " and ", head.fields.size() - named, " more");
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

class CsvRecords final : public RecordReader {
 public:
  // The columns' numbers; `second` may be `first`.
  CsvRecords(CsvReader reader, size_t columns, size_t first, size_t second,
             size_t label)
      : reader_(reader),
        columns_(columns),
        first_(first),
        second_(second),
        label_(label) {}

  std::optional<LabelledRecord> Next() override {
    std::optional<CsvRow> row = reader_.Next();
    if (!row.has_value()) return std::nullopt;
    LabelledRecord record;
    record.line = row->line;
    record.problem = std::move(row->problem);
    if (record.problem.empty() && row->fields.size() != columns_) {
      record.problem =
          absl::StrCat("has ", row->fields.size(), " fields, but there are ",
                       columns_, " columns");
    }
    if (!record.problem.empty()) return record;
    record.text = row->fields[first_];
    if (second_ != first_) record.second_text = row->fields[second_];
    record.label = row->fields[label_];
    return record;
  }

 private:
  CsvReader reader_;
  const size_t columns_;
  const size_t first_;
  const size_t second_;
  const size_t label_;
};

class JsonRecords final : public RecordReader {
 public:
  JsonRecords(std::string_view text, const RecordColumns& columns)
      : text_(text), columns_(columns) {}

  std::optional<LabelledRecord> Next() override {
    while (!text_.empty()) {
      const size_t end = std::min(text_.find('\n'), text_.size());
      const std::string_view content = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      ++line_;
      if (content.find_first_not_of(" \t\r") == std::string_view::npos)
        continue;
      const json object =
          json::parse(content, nullptr, /*allow_exceptions=*/false);
      LabelledRecord record = ParseObject(object, columns_);
      record.line = line_;
      return record;
    }
    return std::nullopt;
  }

 private:
  std::string_view text_;
  const RecordColumns columns_;
  int64_t line_ = 0;  // the last one read
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordReader>> ReadCsvRecords(
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
  return std::make_unique<CsvRecords>(reader, head->fields.size(), first,
                                      second, label);
}

std::unique_ptr<RecordReader> ReadJsonRecords(std::string_view text,
                                              const RecordColumns& columns) {
  return std::make_unique<JsonRecords>(text, columns);
}

}  // namespace ringmaster
