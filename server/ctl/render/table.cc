#include "server/ctl/render/table.h"

#include <algorithm>
#include <utility>

#include "common/status/check.h"

namespace ringmaster::ctl {
namespace {

constexpr std::string_view kGap = "  ";

// A row as one line; a cell is padded by what it shows, not by its bytes.
std::string JoinCells(const std::vector<Column>& columns,
                      const std::vector<int>& widths,
                      const std::vector<std::string>& cells) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line.append(kGap);
    const auto padding =
        static_cast<size_t>(std::max(0, widths[i] - DisplayWidth(cells[i])));
    if (columns[i].align == Align::kRight) line.append(padding, ' ');
    line.append(cells[i]);
    if (columns[i].align == Align::kLeft) line.append(padding, ' ');
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

TextTable::TextTable(std::vector<Column> columns)
    : columns_(std::move(columns)) {}

void TextTable::AddRow(std::vector<std::string> cells) {
  RM_CHECK(cells.size() == columns_.size(), "a row has a cell for each column");
  rows_.push_back(std::move(cells));
}

std::vector<std::string> TextTable::Lines(const Style& style) const {
  std::vector<int> widths;
  std::vector<std::string> titles;
  for (size_t i = 0; i < columns_.size(); ++i) {
    int width = DisplayWidth(columns_[i].title);
    for (const auto& row : rows_) width = std::max(width, DisplayWidth(row[i]));
    widths.push_back(width);
    titles.push_back(columns_[i].title);
  }
  std::vector<std::string> lines;
  lines.push_back(
      Paint(style, Color::kDim,
            Fit(style, JoinCells(columns_, widths, titles), style.width)));
  for (const auto& row : rows_)
    lines.push_back(Fit(style, JoinCells(columns_, widths, row), style.width));
  return lines;
}

}  // namespace ringmaster::ctl
