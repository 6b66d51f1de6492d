// TryFrames has a FrameReader read an input of kind kFrames, kCheckedFrames
// or kSealedFrames, and checks where it places what; see wire_target.h.
#ifndef RINGMASTER_TESTS_FUZZ_FRAMES_TARGET_H_
#define RINGMASTER_TESTS_FUZZ_FRAMES_TARGET_H_

#include <cstddef>
#include <span>

#include "common/transport/frame.h"

namespace ringmaster::fuzz {

// `input` without its kind. Whether all frames came.
bool TryFrames(std::span<const std::byte> input, FrameIntegrity integrity);

}  // namespace ringmaster::fuzz

#endif  // RINGMASTER_TESTS_FUZZ_FRAMES_TARGET_H_
