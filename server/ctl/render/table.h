// TextTable: rows of text under titles, in columns as wide as their content.
//
// Pure, thread-compatible. Cells may carry colour sequences (text.h); they are
// expected to be Printable.
//   TextTable table({{"JOB"}, {"STEP", Align::kRight}});
//   table.AddRow({"mlp-1", "12"});
//   for (const std::string& line : table.Lines(style)) ...
#ifndef RINGMASTER_SERVER_CTL_RENDER_TABLE_H_
#define RINGMASTER_SERVER_CTL_RENDER_TABLE_H_

#include <string>
#include <vector>

#include "server/ctl/render/text.h"

namespace ringmaster::ctl {

enum class Align { kLeft, kRight };

struct Column {
  std::string title;
  Align align = Align::kLeft;
};

class TextTable {
 public:
  explicit TextTable(std::vector<Column> columns);

  // `cells` has as many entries as there are columns.
  void AddRow(std::vector<std::string> cells);

  [[nodiscard]] bool empty() const { return rows_.empty(); }

  // The titles and the rows, each cut to the style's width, without trailing
  // blanks.
  [[nodiscard]] std::vector<std::string> Lines(const Style& style) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_RENDER_TABLE_H_
