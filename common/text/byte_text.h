// Numbers of bytes as text for people. Pure.
#ifndef RINGMASTER_COMMON_TEXT_BYTE_TEXT_H_
#define RINGMASTER_COMMON_TEXT_BYTE_TEXT_H_

#include <cstdint>
#include <string>

namespace ringmaster {

// "0B", "512B", "1.50KiB", "12.3MiB", "300GiB"; "-" for less than none.
[[nodiscard]] std::string FormatBytes(int64_t bytes);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_TEXT_BYTE_TEXT_H_
