// SettingsDifference tells which settings of a job differ from those that its
// checkpoint was written with. Pure.
#ifndef RINGMASTER_WORKER_TRAIN_STATE_SETTINGS_DIFFERENCE_H_
#define RINGMASTER_WORKER_TRAIN_STATE_SETTINGS_DIFFERENCE_H_

#include <string>
#include <string_view>

namespace ringmaster {

// Returns "steps 20, now 30; optimizer.adamw.beta1 default, now 0.8" for two
// texts of ProgramConfig::CanonicalText, whose fields with their default value
// are left out: at most five settings, and how many more there are. Empty if it
// cannot tell, as with the text of release 0.1, or if none differs.
[[nodiscard]] std::string SettingsDifference(std::string_view before,
                                             std::string_view now);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STATE_SETTINGS_DIFFERENCE_H_
