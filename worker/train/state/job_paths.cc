#include "worker/train/state/job_paths.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/annotate.h"
#include "common/status/status_macros.h"
#include "google/protobuf/message.h"
#include "ringmaster/v1/field_rule.pb.h"
#include "ringmaster/v1/job.pb.h"

namespace ringmaster {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// `path` is that of `message` in the job, as "train.data".
absl::Status CheckMessage(const Message& message, const std::string& path,
                          const FileRoots& files) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* const field : fields) {
    if (field->is_repeated()) continue;  // no list of a job has paths
    const std::string name = absl::StrCat(path, ".", field->name());
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      RETURN_IF_ERROR(
          CheckMessage(reflection.GetMessage(message, field), name, files));
    } else if (!field->options().GetExtension(v1::rule).path_of().empty()) {
      const FileAccess access =
          field->containing_type() == v1::CheckpointSpec::descriptor()
              ? FileAccess::kWrite
              : FileAccess::kRead;
      RETURN_IF_ERROR(Annotate(
          files.Check(reflection.GetString(message, field), access), name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPaths(const v1::TrainProgram& program,
                        const FileRoots& files) {
  return CheckMessage(program, "train", files);
}

}  // namespace ringmaster
