#include "server/coordinator/page/page_file.h"

namespace ringmaster::coordinator {

std::string_view ContentTypeOf(std::string_view file_name) {
  if (file_name.ends_with(".html")) return "text/html; charset=utf-8";
  if (file_name.ends_with(".css")) return "text/css; charset=utf-8";
  if (file_name.ends_with(".svg")) return "image/svg+xml";
  return "text/javascript; charset=utf-8";
}

}  // namespace ringmaster::coordinator
