#include "worker/device/cuda/kernel_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <regex>

namespace ringmaster {
namespace {

std::string Demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status),
      std::free);
  return status == 0 && name != nullptr ? name.get() : symbol;
}

// _GLOBAL__N__<hash>_<length>_<file>_cu_<hash>; the length is that of <file>_cu.
std::string FileOf(const std::string& symbol) {
  static const auto& pattern =
      *new std::regex("_GLOBAL__N__[0-9a-f]+_[0-9]+_(\\w+?)_cu_[0-9a-f]{8}");
  std::smatch match;
  return std::regex_search(symbol, match, pattern) ? match[1].str() : "";
}

}  // namespace

std::string KernelName(const std::string& symbol) {
  const std::string file = FileOf(symbol);
  return file.empty() ? Demangled(symbol) : file + ": " + Demangled(symbol);
}

}  // namespace ringmaster
