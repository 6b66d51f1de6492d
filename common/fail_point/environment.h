// The environment variable that arms fail points; see fail_point.h.
#ifndef RINGMASTER_COMMON_FAIL_POINT_ENVIRONMENT_H_
#define RINGMASTER_COMMON_FAIL_POINT_ENVIRONMENT_H_

namespace ringmaster {

inline constexpr char kFailPointsVariable[] = "RINGMASTER_FAIL_POINTS";

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_FAIL_POINT_ENVIRONMENT_H_
