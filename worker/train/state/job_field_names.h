// InJobFields translates DataConfig's errors into the names of a job's fields.
#ifndef RINGMASTER_WORKER_TRAIN_STATE_JOB_FIELD_NAMES_H_
#define RINGMASTER_WORKER_TRAIN_STATE_JOB_FIELD_NAMES_H_

#include <string>
#include <string_view>

namespace ringmaster {

// `message`, an error of a data set of `kind`, with the fields of a job in place
// of DataConfig's: "data.labels_path: ..." becomes
// "train.data.images.labels: ...". Words that name no field stay as they are.
[[nodiscard]] std::string InJobFields(std::string_view message,
                                      std::string_view kind);

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_TRAIN_STATE_JOB_FIELD_NAMES_H_
