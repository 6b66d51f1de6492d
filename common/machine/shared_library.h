// SharedLibrary is a library loaded at run time, so that the program also
// starts where the library is not installed.
//
// Thread-safety: immutable.
// Ownership: the library stays loaded for the life of the process, so its
// functions outlive this object. (Unloading CUDA's libraries is not safe: they
// keep threads and exit handlers.)
#ifndef RINGMASTER_COMMON_MACHINE_SHARED_LIBRARY_H_
#define RINGMASTER_COMMON_MACHINE_SHARED_LIBRARY_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace ringmaster {

class SharedLibrary {
 public:
  // Loads the first of `names` that can be loaded; each is a soname
  // ("libnccl.so.2"), a path, or "" for what is linked into the program itself
  // (with -rdynamic).
  //   NOT_FOUND  none can; the message has the loader's error for each
  [[nodiscard]] static absl::StatusOr<SharedLibrary> Load(
      const std::vector<std::string>& names);

  // Sets `*function` to the function called `name`, which the caller knows to
  // be of that type.
  //   UNIMPLEMENTED  the library has no such function: it is of another version
  template <typename Function>
  [[nodiscard]] absl::Status Find(const char* name, Function** function) const {
    absl::StatusOr<void*> symbol = FindSymbol(name);
    if (symbol.ok()) *function = reinterpret_cast<Function*>(*symbol);
    return symbol.status();
  }

  // The entry of `names` that was loaded; "this program" for "".
  const std::string& name() const { return name_; }

 private:
  SharedLibrary(void* handle, std::string name)
      : handle_(handle), name_(std::move(name)) {}

  absl::StatusOr<void*> FindSymbol(const char* name) const;

  void* handle_;
  std::string name_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_MACHINE_SHARED_LIBRARY_H_
