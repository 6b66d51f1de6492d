// The page's files, embedded when the program is built: it needs none beside it.
#ifndef RINGMASTER_SERVER_COORDINATOR_PAGE_PAGE_FILE_H_
#define RINGMASTER_SERVER_COORDINATOR_PAGE_PAGE_FILE_H_

#include <span>
#include <string_view>

namespace ringmaster::coordinator {

struct PageFile {
  std::string_view name;  // "page.css"
  std::string_view content;
};

// All files of web/, and Chart.js as "chart.min.js". embed.py writes the definition.
[[nodiscard]] std::span<const PageFile> PageFiles();

// "text/css; charset=utf-8" of "page.css".
[[nodiscard]] std::string_view ContentTypeOf(std::string_view file_name);

}  // namespace ringmaster::coordinator

#endif  // RINGMASTER_SERVER_COORDINATOR_PAGE_PAGE_FILE_H_
