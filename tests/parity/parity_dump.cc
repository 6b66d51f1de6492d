// Runs a parity case and writes what comes out, for live_parity.py.
//
//   parity_dump --case FILE --precision fp64|fp32|bf16 --out FILE
#include <cstdio>
#include <map>
#include <string>

#include "common/config/flags.h"
#include "common/status/exit_code.h"
#include "common/status/status_macros.h"
#include "tests/parity/parity_case.h"
#include "worker/checkpoint/durable_file.h"
#include "worker/checkpoint/safetensors.h"

namespace ringmaster::parity {
namespace {

absl::Status Run(const std::string& path, const std::string& precision,
                 const std::string& out) {
  static const std::map<std::string, Arithmetic> kArithmetics = {
      {"fp64", Arithmetic::kFloat64},
      {"fp32", Arithmetic::kFloat32},
      {"bf16", Arithmetic::kBFloat16}};
  ASSIGN_OR_RETURN(const Results results,
                   RunCase(path, kArithmetics.at(precision)));
  std::vector<TensorBytes> tensors;
  for (const auto& [name, result] : results) {
    tensors.push_back(
        {name, DType::kFloat64, result.shape,
         absl::MakeConstSpan(
             reinterpret_cast<const uint8_t*>(result.elems.data()),
             result.elems.size() * sizeof(double))});
  }
  ASSIGN_OR_RETURN(DurableFile file, DurableFile::Create(out));
  RETURN_IF_ERROR(WriteSafetensors(tensors, {}, file));
  return file.Close().status();
}

int Main(int argc, char** argv) {
  std::string path;
  std::string precision;
  std::string out;
  FlagSet flags("parity_dump", "Runs a parity case of tests/parity.");
  flags.Add({.name = "case", .is_required = true}, &path);
  flags.Add({.name = "precision",
             .is_required = true,
             .choices = {"fp64", "fp32", "bf16"}},
            &precision);
  flags.Add({.name = "out", .is_required = true}, &out);
  if (const auto code = flags.ParseCommandLine(argc, argv); code.has_value())
    return static_cast<int>(*code);
  const absl::Status status = Run(path, precision, out);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return static_cast<int>(ExitCodeOf(status));
}

}  // namespace
}  // namespace ringmaster::parity

int main(int argc, char** argv) { return ringmaster::parity::Main(argc, argv); }
