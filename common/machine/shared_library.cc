#include "common/machine/shared_library.h"

#include <dlfcn.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ringmaster {

absl::StatusOr<SharedLibrary> SharedLibrary::Load(
    const std::vector<std::string>& names) {
  std::vector<std::string> failures;
  for (const std::string& name : names) {
    const bool is_program = name.empty();
    if (void* handle = dlopen(is_program ? nullptr : name.c_str(),
                              RTLD_NOW | RTLD_LOCAL)) {
      return SharedLibrary(handle, is_program ? "this program" : name);
    }
    failures.emplace_back(dlerror());
  }
  return absl::NotFoundError(absl::StrCat("cannot load ",
                                          absl::StrJoin(names, " or "), ": ",
                                          absl::StrJoin(failures, "; ")));
}

absl::StatusOr<void*> SharedLibrary::FindSymbol(const char* name) const {
  if (void* symbol = dlsym(handle_, name)) return symbol;
  return absl::UnimplementedError(
      absl::StrCat(name_, " has no function ", name, ": ", dlerror()));
}

}  // namespace ringmaster
