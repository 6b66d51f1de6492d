#include "common/config/yaml_to_proto.h"
#include "common/job/job_spec.h"
#include "common/status/check.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/message_differencer.h"
#include "ringmaster/v1/coordinator_service.pb.h"
#include "ringmaster/v1/job.pb.h"
#include "server/coordinator/journal/testing/test_records.h"
#include "server/coordinator/rpc/session_message.h"
#include "tests/fuzz/corpus_file.h"
#include "tests/fuzz/parser.h"
#include "worker/agent/rpc/session_messages.h"
#include "worker/train/state/program_config.h"

namespace ringmaster::fuzz {
namespace {

constexpr const char* kJobFiles[] = {"deploy/local/job.yaml",
                                     "tests/golden/0.1.0/jobs/bench.yaml",
                                     "tests/golden/0.1.0/jobs/cnn.yaml",
                                     "tests/golden/0.1.0/jobs/custom.yaml",
                                     "tests/golden/0.1.0/jobs/gpt.yaml",
                                     "tests/golden/0.1.0/jobs/mlp.yaml"};

// Messages of the types in the only oneof of `whole`, with all their fields.
std::vector<std::string> OneOfEachKind(google::protobuf::Message& whole) {
  std::vector<std::string> all;
  const auto& oneof = *whole.GetDescriptor()->oneof_decl(0);
  for (int i = 0; i < oneof.field_count(); ++i) {
    whole.Clear();
    coordinator::FillFields(
        *whole.GetReflection()->MutableMessage(&whole, oneof.field(i)));
    all.push_back(whole.SerializeAsString());
  }
  return all;
}

std::vector<std::string> Requests() {
  v1::SessionRequest request;
  std::vector<std::string> requests = OneOfEachKind(request);
  v1::Hello& hello = *request.mutable_hello();
  hello.set_name("w0");
  hello.set_incarnation(77);
  hello.set_role(v1::ROLE_WORKER);
  hello.set_protocol_min(1);
  hello.set_protocol_max(2);
  hello.set_host("node-1");
  hello.set_host_key("machine-1");
  hello.set_pid(4242);
  hello.mutable_device()->set_kind(v1::DEVICE_KIND_CPU);
  hello.set_data_port(29500);
  requests.push_back(request.SerializeAsString());
  v1::Beat& beat = *request.mutable_beat();
  beat.set_generation(5);
  beat.set_step(40);
  requests.push_back(request.SerializeAsString());
  return requests;
}

bool TryRequest(std::string_view input) {
  v1::SessionRequest request;
  if (!request.ParseFromArray(input.data(), static_cast<int>(input.size())))
    return false;
  const absl::StatusOr<coordinator::EventBody> event =
      coordinator::ParseSessionMessage(9, request, "10.0.0.7");
  CheckMessage(event.status());
  return event.ok();
}

std::vector<std::string> Responses() {
  v1::SessionResponse response;
  return OneOfEachKind(response);
}

bool TryResponse(std::string_view input) {
  v1::SessionResponse response;
  if (!response.ParseFromArray(input.data(), static_cast<int>(input.size())))
    return false;
  const auto event = ToEvent(response);
  CheckMessage(event.status());
  return event.ok() && event->has_value();
}

// Whether a coordinator takes `spec`, and a worker what the coordinator passes on.
bool TrySpec(const v1::JobSpec& spec) {
  const absl::StatusOr<v1::JobSpec> valid = ValidateAndDefault(spec);
  CheckMessage(valid.status());
  if (!valid.ok()) return false;
  const absl::StatusOr<v1::JobSpec> again = ValidateAndDefault(*valid);
  RM_CHECK(again.ok(), "a valid job with its defaults is not valid");
  RM_CHECK(google::protobuf::util::MessageDifferencer::Equals(*again, *valid),
           "a job with its defaults gets others");
  if (valid->has_train()) CheckMessage(ParseProgram(valid->train()).status());
  return true;
}

bool TrySpecBytes(std::string_view input) {
  v1::JobSpec spec;
  return spec.ParseFromArray(input.data(), static_cast<int>(input.size())) &&
         TrySpec(spec);
}

bool TryJobFile(std::string_view input) {
  v1::JobSpec spec;
  const absl::Status status = YamlToProto(input, "job.yaml", spec);
  CheckMessage(status);
  return status.ok() && TrySpec(spec);
}

std::vector<std::string> JobFiles() {
  std::vector<std::string> files;
  for (const char* path : kJobFiles) files.push_back(CorpusFile(path));
  return files;
}

std::vector<std::string> SpecBytes() {
  std::vector<std::string> all;
  for (const std::string& file : JobFiles()) {
    v1::JobSpec spec;
    RM_CHECK(YamlToProto(file, "job.yaml", spec).ok(), "a job file is wrong");
    all.push_back(spec.SerializeAsString());
  }
  return all;
}

}  // namespace

std::vector<Parser> MessageParsers() {
  return {
      {"session_request", Requests(), {}, TryRequest},
      {"session_response", Responses(), {}, TryResponse},
      {"job_spec", SpecBytes(), {}, TrySpecBytes},
      {"job_file",
       JobFiles(),
       {"[",
        "]",
        "{",
        "}",
        ": ",
        "- ",
        "? ",
        ",",
        "\"",
        "'",
        "|\n",
        ">\n",
        "&a ",
        "*a",
        "!x ",
        "#",
        "\n",
        "\n  ",
        "\t",
        "%",
        "---\n",
        "...\n",
        "<<: ",
        "null",
        "~",
        "true",
        "1s",
        "1h",
        "4MiB",
        ".inf",
        "\xEF\xBB\xBF",
        "\xFF",
        "train:",
        "name: "},
       TryJobFile},
  };
}

}  // namespace ringmaster::fuzz
