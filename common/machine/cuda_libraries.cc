#include "common/machine/cuda_libraries.h"

#include <glob.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ringmaster {
namespace {

// Below a Python's prefix. CUDA 13's packages share a directory, earlier ones
// have one each.
constexpr const char* kPackageLibraries[] = {
    "/lib/python3*/site-packages/nvidia/*/lib/",
    "/lib/python3*/dist-packages/nvidia/*/lib/",
};

std::vector<std::string> PythonPrefixes() {
  std::vector<std::string> prefixes;
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const char* const prefix = std::getenv(name);
    if (prefix != nullptr && *prefix != '\0') prefixes.emplace_back(prefix);
  }
  prefixes.insert(prefixes.end(), {"/usr/local", "/usr", "/opt/conda"});
  return prefixes;
}

std::vector<std::string> Matches(const std::string& pattern) {
  glob_t found = {};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return paths;
}

}  // namespace

std::vector<std::string> CudaLibraryPlaces(
    const std::vector<std::string>& sonames) {
  std::vector<std::string> places;
  for (const std::string& soname : sonames) {
    places.push_back(soname);
    places.push_back(absl::StrCat("/usr/local/cuda/lib64/", soname));
    for (const std::string& prefix : PythonPrefixes()) {
      for (const char* directory : kPackageLibraries) {
        for (std::string& path :
             Matches(absl::StrCat(prefix, directory, soname))) {
          places.push_back(std::move(path));
        }
      }
    }
  }
  return places;
}

}  // namespace ringmaster
