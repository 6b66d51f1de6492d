// RETURN_IF_ERROR and ASSIGN_OR_RETURN: early return of a failed absl::Status.
//
// Debian's Abseil (20220623) has no such macros. Both evaluate their expression
// once.
//   RETURN_IF_ERROR(link.Send(frame));
//   ASSIGN_OR_RETURN(JobSpec spec, ParseJobSpec(text));
#ifndef RINGMASTER_COMMON_STATUS_STATUS_MACROS_H_
#define RINGMASTER_COMMON_STATUS_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RM_STATUS_CONCAT_INNER_(x, y) x##y
#define RM_STATUS_CONCAT_(x, y) RM_STATUS_CONCAT_INNER_(x, y)

#define RETURN_IF_ERROR(expr)           \
  do {                                  \
    ::absl::Status rm_status_ = (expr); \
    if (!rm_status_.ok()) [[unlikely]]  \
      return rm_status_;                \
  } while (false)

#define ASSIGN_OR_RETURN(lhs, expr)                                         \
  RM_ASSIGN_OR_RETURN_IMPL_(RM_STATUS_CONCAT_(rm_statusor_, __LINE__), lhs, \
                            expr)

#define RM_ASSIGN_OR_RETURN_IMPL_(statusor, lhs, expr) \
  auto statusor = (expr);                              \
  if (!statusor.ok()) [[unlikely]]                     \
    return std::move(statusor).status();               \
  lhs = *std::move(statusor)

#endif  // RINGMASTER_COMMON_STATUS_STATUS_MACROS_H_
