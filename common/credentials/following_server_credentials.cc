// gRPC's C++ library has no credentials that take certificates from us while they are in
// use; its C library has (a "certificate config fetcher"). So this is the layer between
// the two, as gRPC's own SecureServerCredentials is, whose header is not installed.
#include "common/credentials/following_server_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/server_credentials.h>

#include <string>
#include <utility>
#include <vector>

#include "common/status/check.h"

namespace ringmaster {
namespace {

grpc::string_ref RefTo(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)),
          GRPC_SLICE_LENGTH(slice)};
}

// A connection's grpc_auth_context, for C++.
class PeerContext final : public grpc::AuthContext {
 public:
  explicit PeerContext(grpc_auth_context* context) : context_(context) {}

  bool IsPeerAuthenticated() const override {
    return grpc_auth_context_peer_is_authenticated(context_) != 0;
  }
  std::vector<grpc::string_ref> GetPeerIdentity() const override {
    return ValuesFrom(grpc_auth_context_peer_identity(context_));
  }
  std::string GetPeerIdentityPropertyName() const override {
    const char* const name =
        grpc_auth_context_peer_identity_property_name(context_);
    return name == nullptr ? "" : name;
  }
  std::vector<grpc::string_ref> FindPropertyValues(
      const std::string& name) const override {
    return ValuesFrom(
        grpc_auth_context_find_properties_by_name(context_, name.c_str()));
  }
  grpc::AuthPropertyIterator begin() const override {
    grpc_auth_property_iterator it =
        grpc_auth_context_property_iterator(context_);
    const grpc_auth_property* const first =
        grpc_auth_property_iterator_next(&it);
    return Iterator(first, &it);
  }
  grpc::AuthPropertyIterator end() const override { return Iterator(); }
  void AddProperty(const std::string& key,
                   const grpc::string_ref& value) override {
    grpc_auth_context_add_property(context_, key.c_str(), value.data(),
                                   value.size());
  }
  bool SetPeerIdentityPropertyName(const std::string& name) override {
    return grpc_auth_context_set_peer_identity_property_name(context_,
                                                             name.c_str()) != 0;
  }

 private:
  // For its base's constructors, which are protected.
  struct Iterator : grpc::AuthPropertyIterator {
    Iterator() = default;
    Iterator(const grpc_auth_property* property,
             const grpc_auth_property_iterator* rest)
        : AuthPropertyIterator(property, rest) {}
  };

  static std::vector<grpc::string_ref> ValuesFrom(
      grpc_auth_property_iterator it) {
    std::vector<grpc::string_ref> values;
    while (const grpc_auth_property* const property =
               grpc_auth_property_iterator_next(&it)) {
      values.emplace_back(property->value, property->value_length);
    }
    return values;
  }

  grpc_auth_context* const context_;
};

// A port that a server listens on. gRPC owns it, and calls its functions.
struct Port {
  const std::shared_ptr<const TlsWatch> watch;
  const std::shared_ptr<grpc::AuthMetadataProcessor> processor;  // may be null
  // The set that gRPC has.
  std::shared_ptr<const TlsFiles> given = nullptr;

  // Before each handshake, one at a time.
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* self, grpc_ssl_server_certificate_config** config) {
    Port& port = *static_cast<Port*>(self);
    std::shared_ptr<const TlsFiles> files = port.watch->files();
    if (files == port.given)
      return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair own = {files->key.c_str(),
                                            files->certificate.c_str()};
    // gRPC insists on some authority here; where clients are not asked for a
    // certificate, it trusts nobody by it.
    const std::string& ca = files->ca.empty() ? files->certificate : files->ca;
    *config = grpc_ssl_server_certificate_config_create(ca.c_str(), &own, 1);
    port.given = std::move(files);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  // For each call.
  static void Process(void* self, grpc_auth_context* context,
                      const grpc_metadata* metadata, size_t count,
                      grpc_process_auth_metadata_done_cb done,
                      void* user_data) {
    grpc::AuthMetadataProcessor::InputMetadata input;
    for (size_t i = 0; i < count; ++i)
      input.emplace(RefTo(metadata[i].key), RefTo(metadata[i].value));
    PeerContext peer(context);
    grpc::AuthMetadataProcessor::OutputMetadata consumed;
    grpc::AuthMetadataProcessor::OutputMetadata response;
    const grpc::Status status = static_cast<Port*>(self)->processor->Process(
        input, &peer, &consumed, &response);
    done(user_data, nullptr, 0, nullptr, 0,
         static_cast<grpc_status_code>(status.error_code()),
         status.error_message().c_str());
  }

  static void Destroy(void* self) { delete static_cast<Port*>(self); }
};

class Credentials final : public grpc::ServerCredentials {
 public:
  Credentials(std::shared_ptr<const TlsWatch> watch, bool takes_tokens)
      : watch_(std::move(watch)), takes_tokens_(takes_tokens) {}

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& processor) override {
    RM_CHECK(!processor->IsBlocking(), "it would block gRPC's thread");
    processor_ = processor;
  }

 private:
  int AddPortToServer(const std::string& address,
                      grpc_server* server) override {
    auto* const port = new Port{watch_, processor_};
    grpc_server_credentials* const credentials =
        grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                RequestType(), Port::Fetch, port));
    // Takes the port over: of all that these credentials were given, gRPC destroys only
    // this.
    grpc_server_credentials_set_auth_metadata_processor(
        credentials,
        {processor_ == nullptr ? nullptr : Port::Process, Port::Destroy, port});
    const int bound =
        grpc_server_add_http2_port(server, address.c_str(), credentials);
    grpc_server_credentials_release(credentials);
    return bound;
  }

  grpc_ssl_client_certificate_request_type RequestType() const {
    if (watch_->files()->ca.empty())
      return GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE;
    return takes_tokens_
               ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY
               : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
  }

  const std::shared_ptr<const TlsWatch> watch_;
  const bool takes_tokens_;
  std::shared_ptr<grpc::AuthMetadataProcessor> processor_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> FollowingServerCredentials(
    std::shared_ptr<const TlsWatch> watch, bool takes_tokens) {
  return std::make_shared<Credentials>(std::move(watch), takes_tokens);
}

}  // namespace ringmaster
