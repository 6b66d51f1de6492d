// The fuzz target of the data plane; see wire_target.h for what it checks.
#ifndef RINGMASTER_TESTS_FUZZ_WIRE_FUZZER_H_
#define RINGMASTER_TESTS_FUZZ_WIRE_FUZZER_H_

#include <cstddef>
#include <cstdint>

// Aborts on a violation; else 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size);

#endif  // RINGMASTER_TESTS_FUZZ_WIRE_FUZZER_H_
