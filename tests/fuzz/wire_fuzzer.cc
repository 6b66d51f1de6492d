// The fuzz target as libFuzzer wants it (llvm.org/docs/LibFuzzer.html). Linked
// with -fsanitize=fuzzer it is the program wire_libfuzzer; without, the seeded
// runs of fuzz_run.h call it.
#include "tests/fuzz/wire_fuzzer.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include "tests/fuzz/wire_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  (void)ringmaster::fuzz::TryWireInput(std::as_bytes(std::span(bytes, size)));
  return 0;
}
