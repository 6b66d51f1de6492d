#include "common/credentials/credentials.h"

#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/config/address.h"
#include "common/credentials/following_server_credentials.h"
#include "common/credentials/tls_files.h"
#include "common/credentials/tls_watch.h"
#include "common/credentials/token_file.h"
#include "common/status/status_macros.h"
#include "common/sync/mutex.h"

namespace ringmaster {
namespace {

// OK iff clear text is allowed at `address`; `flags` would make it TLS.
absl::Status CheckClearText(const CredentialsOptions& options,
                            std::string_view address, std::string_view flags) {
  if (options.insecure || IsLoopback(address)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(address), " is not a loopback address: give ",
      std::string(flags), " for TLS, or --insecure to allow clear text"));
}

absl::Status CheckFlags(const CredentialsOptions& options) {
  if (options.insecure && HasTlsFlag(options)) {
    return absl::InvalidArgumentError(
        "--insecure contradicts --tls_ca_file, --tls_cert_file and "
        "--tls_key_file; give one or the other");
  }
  return absl::OkStatus();
}

// Adds the token to a call (RFC 6750, section 2.1).
class TokenPlugin final : public grpc::MetadataCredentialsPlugin {
 public:
  explicit TokenPlugin(std::string path) : path_(std::move(path)) {}

  grpc::Status GetMetadata(
      grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
      std::multimap<grpc::string, grpc::string>* metadata) override {
    const absl::StatusOr<std::string> token = ReadToken(path_);
    if (!token.ok()) {
      return {grpc::StatusCode::UNAUTHENTICATED,
              std::string(token.status().message())};
    }
    metadata->emplace("authorization", absl::StrCat("Bearer ", *token));
    return grpc::Status::OK;
  }
  // Shown by gRPC's traces, without the token.
  grpc::string DebugString() override {
    return absl::StrCat("token of ", path_);
  }
  const char* GetType() const override { return "ringmaster-token"; }

 private:
  const std::string path_;
};

// TLS with the files as they are when a channel is made.
class FollowingChannelCredentials final : public grpc::ChannelCredentials {
 public:
  FollowingChannelCredentials(std::shared_ptr<const TlsWatch> watch,
                              std::string token_file)
      : watch_(std::move(watch)), token_file_(std::move(token_file)) {}

 private:
  std::shared_ptr<grpc::Channel> CreateChannelImpl(
      const grpc::string& target, const grpc::ChannelArguments& args) override {
    return grpc::CreateCustomChannel(target, Current(), args);
  }
  grpc::SecureChannelCredentials* AsSecureCredentials() override {
    return nullptr;
  }

  // The same for the same files: gRPC lets only channels of the same credentials share
  // a connection.
  std::shared_ptr<grpc::ChannelCredentials> Current() EXCLUDES(mutex_) {
    std::shared_ptr<const TlsFiles> files = watch_->files();
    MutexLock lock(mutex_);
    if (files_ == files) return current_;
    grpc::SslCredentialsOptions ssl;
    ssl.pem_root_certs = files->ca;
    ssl.pem_private_key = files->key;
    ssl.pem_cert_chain = files->certificate;
    current_ = grpc::SslCredentials(ssl);
    if (!token_file_.empty()) {
      current_ = grpc::CompositeChannelCredentials(
          current_, grpc::MetadataCredentialsFromPlugin(
                        std::make_unique<TokenPlugin>(token_file_)));
    }
    files_ = std::move(files);
    return current_;
  }

  const std::shared_ptr<const TlsWatch> watch_;
  const std::string token_file_;
  Mutex mutex_;
  std::shared_ptr<const TlsFiles> files_ GUARDED_BY(mutex_);  // of current_
  std::shared_ptr<grpc::ChannelCredentials> current_ GUARDED_BY(mutex_);
};

}  // namespace

bool HasTlsFlag(const CredentialsOptions& options) {
  return !options.tls_ca_file.empty() || !options.tls_cert_file.empty() ||
         !options.tls_key_file.empty();
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const CredentialsOptions& options, std::string_view address) {
  RETURN_IF_ERROR(CheckFlags(options));
  if (!HasTlsFlag(options)) {
    RETURN_IF_ERROR(CheckClearText(
        options, address,
        "--tls_cert_file and --tls_key_file (and --tls_ca_file)"));
    return grpc::InsecureServerCredentials();
  }
  if (options.tls_cert_file.empty() && options.tls_key_file.empty()) {
    return absl::InvalidArgumentError(
        "--tls_ca_file needs --tls_cert_file and --tls_key_file as well");
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const TlsWatch> watch,
                   FollowTlsFiles(options));
  if (options.tls_ca_file.empty() && !options.takes_tokens) {
    return absl::InvalidArgumentError(
        "TLS without --tls_ca_file would let in everybody: give it, so that "
        "clients need a certificate, or an --access_file with tokens");
  }
  return FollowingServerCredentials(std::move(watch), options.takes_tokens);
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>>
MakeChannelCredentials(const CredentialsOptions& options,
                       std::string_view address) {
  RETURN_IF_ERROR(CheckFlags(options));
  if (!HasTlsFlag(options)) {
    if (!options.token_file.empty()) {
      return absl::InvalidArgumentError(
          "--token_file would be sent in clear text: give --tls_ca_file, too");
    }
    RETURN_IF_ERROR(CheckClearText(
        options, address,
        "--tls_ca_file (and --tls_cert_file and --tls_key_file)"));
    return grpc::InsecureChannelCredentials();
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const TlsWatch> watch,
                   FollowTlsFiles(options));
  if (!options.token_file.empty())
    RETURN_IF_ERROR(ReadToken(options.token_file).status());
  return std::make_shared<FollowingChannelCredentials>(std::move(watch),
                                                       options.token_file);
}

}  // namespace ringmaster
