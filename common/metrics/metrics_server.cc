#include "common/metrics/metrics_server.h"

#include <netdb.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <array>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/listen_error.h"
#include "common/status/status_macros.h"

namespace ringmaster {
namespace {

class Page final : public prometheus::Collectable {
 public:
  explicit Page(MetricsServer::Collect collect)
      : collect_(std::move(collect)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    MetricPage page;
    collect_(page);
    return page.families();
  }

 private:
  const MetricsServer::Collect collect_;
};

// The HTTP server takes no names.
absl::StatusOr<HostPort> Resolve(const HostPort& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  int error = getaddrinfo(address.host.c_str(), nullptr, &hints, &found);
  std::array<char, NI_MAXHOST> host = {};
  if (error == 0) {
    error = getnameinfo(found->ai_addr, found->ai_addrlen, host.data(),
                        host.size(), nullptr, 0, NI_NUMERICHOST);
    freeaddrinfo(found);
  }
  if (error != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot listen on ", address.ToString(), ": ", gai_strerror(error)));
  }
  return HostPort{host.data(), address.port};
}

}  // namespace

struct MetricsServer::Impl {
  explicit Impl(Collect collect)
      : page(std::make_shared<Page>(std::move(collect))) {}

  const std::shared_ptr<Page> page;
  std::unique_ptr<prometheus::Exposer> exposer;  // goes before the page
};

MetricsServer::MetricsServer(const HostPort& address,
                             std::unique_ptr<Impl> impl)
    : address_(address), impl_(std::move(impl)) {}

MetricsServer::~MetricsServer() = default;

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const HostPort& address, Collect collect) {
  ASSIGN_OR_RETURN(HostPort listening, Resolve(address));
  auto impl = std::make_unique<Impl>(std::move(collect));
  try {
    impl->exposer =
        std::make_unique<prometheus::Exposer>(std::vector<std::string>{
            "listening_ports", listening.ToString(), "num_threads", "2"});
  } catch (const std::exception&) {
    // It does not say why.
    return CannotListen(address);
  }
  impl->exposer->RegisterCollectable(impl->page);
  listening.port = impl->exposer->GetListeningPorts().front();
  return std::unique_ptr<MetricsServer>(
      new MetricsServer(listening, std::move(impl)));
}

}  // namespace ringmaster
