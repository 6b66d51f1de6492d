#include "common/access/admission.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/server_context.h>

#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/peer_address.h"

namespace ringmaster {
namespace {

using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;

constexpr char kAuthorization[] = "authorization";
// gRPC gives a call's method as HTTP/2 does (RFC 9113, section 8.3.1).
constexpr char kPath[] = ":path";

std::string ToString(grpc::string_ref text) {
  return {text.data(), text.size()};
}

// The last of them, as HTTP has it; empty: there is none.
std::string ValueOf(const Metadata& metadata, const char* key) {
  const auto range = metadata.equal_range(key);
  if (range.first == range.second) return "";
  return ToString(std::prev(range.second)->second);
}

std::vector<std::string> ValuesOf(const grpc::AuthContext& context,
                                  const char* property) {
  std::vector<std::string> values;
  for (const grpc::string_ref& value : context.FindPropertyValues(property))
    values.push_back(ToString(value));
  return values;
}

Credentials CredentialsOf(const grpc::AuthContext& context,
                          const Metadata& metadata) {
  Credentials credentials;
  const std::vector<std::string> subject =
      ValuesOf(context, GRPC_X509_SUBJECT_PROPERTY_NAME);
  credentials.has_certificate = !subject.empty();
  if (credentials.has_certificate) credentials.subject = subject.front();
  if (credentials.has_certificate) {
    // The chain may or may not begin with the peer's own.
    credentials.chain = absl::StrCat(
        absl::StrJoin(ValuesOf(context, GRPC_X509_PEM_CERT_PROPERTY_NAME), ""),
        absl::StrJoin(ValuesOf(context, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME),
                      ""));
  }
  credentials.uris = ValuesOf(context, GRPC_PEER_URI_PROPERTY_NAME);
  credentials.authorization = ValueOf(metadata, kAuthorization);
  return credentials;
}

class Admission final : public grpc::AuthMetadataProcessor {
 public:
  Admission(std::shared_ptr<const AccessControl> access,
            std::shared_ptr<RefusalLog> refusals)
      : access_(std::move(access)), refusals_(std::move(refusals)) {}

  // It looks things up and, once the TLS files were reloaded, verifies a chain of a few
  // certificates (peer_trust.h): less than a millisecond of gRPC's thread, and no wait.
  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata,
                       grpc::AuthContext* context, OutputMetadata*,
                       OutputMetadata*) override {
    const std::string method = ValueOf(metadata, kPath);
    const absl::Status status =
        access_->Admit(CredentialsOf(*context, metadata), method).status();
    if (!status.ok()) refusals_->Add(method, status);
    return ToGrpcStatus(status);
  }

 private:
  const std::shared_ptr<const AccessControl> access_;
  const std::shared_ptr<RefusalLog> refusals_;
};

}  // namespace

std::shared_ptr<grpc::AuthMetadataProcessor> MakeAdmission(
    std::shared_ptr<const AccessControl> access,
    std::shared_ptr<RefusalLog> refusals) {
  return std::make_shared<Admission>(std::move(access), std::move(refusals));
}

Credentials CredentialsOf(const grpc::ServerContextBase& context) {
  return CredentialsOf(*context.auth_context(), context.client_metadata());
}

std::string AddressOf(const grpc::ServerContextBase& context) {
  const std::string host = HostOfPeer(context.peer());
  return host.empty() ? "unix" : host;
}

}  // namespace ringmaster
