// The API as its documentation has it: messages with their comments, which
// generated code does not have, and documents whose tables are made from them.
// Tests need //proto/ringmaster/v1:api.protoset and //:documents as data.
#ifndef RINGMASTER_COMMON_PROTOCOL_TESTING_DOCUMENTED_API_H_
#define RINGMASTER_COMMON_PROTOCOL_TESTING_DOCUMENTED_API_H_

#include <string>

#include "google/protobuf/descriptor.h"

namespace ringmaster {

// The message ringmaster.v1.NAME, from the .proto files; not null if the API has
// it.
[[nodiscard]] const google::protobuf::Descriptor* DocumentedMessage(
    const std::string& name);

// The comment of a message or a field, which may be of the generated pool too, as
// one line that can stand in a table.
[[nodiscard]] std::string CommentOf(const google::protobuf::Descriptor& type);
[[nodiscard]] std::string CommentOf(
    const google::protobuf::FieldDescriptor& field);

// True if the field holds a message of this API, and no map.
[[nodiscard]] bool IsOfTheApi(const google::protobuf::FieldDescriptor& field);

// A document of the repository, "docs/jobs.md".
[[nodiscard]] std::string ReadDocument(const std::string& path);

// Expects `expected` in the document, or writes it there if the test runs as
// `REWRITE_TABLES=1 bazel run TARGET`.
void ExpectDocument(const std::string& path, const std::string& expected,
                    const std::string& target);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_PROTOCOL_TESTING_DOCUMENTED_API_H_
