#include "server/ctl/local/other_clusters.h"

#include <cstdlib>

namespace ringmaster::ctl {
namespace {

constexpr const char* kForeignVariables[] = {
    "RINGMASTER_COORDINATOR",   "RINGMASTER_LISTEN",
    "RINGMASTER_NAME",          "RINGMASTER_STATE_DIR",
    "RINGMASTER_TLS_CERT_FILE", "RINGMASTER_TLS_KEY_FILE",
    "RINGMASTER_LOG_FILE",      "RINGMASTER_SLOTS",
    "RINGMASTER_DATA_LISTEN",   "RINGMASTER_ADVERTISE",
    "RINGMASTER_TLS_CA_FILE",   "RINGMASTER_ACCESS_FILE",
    "RINGMASTER_TRUST_DOMAIN"};

}  // namespace

void ForgetOtherClusters() {
  for (const char* name : kForeignVariables) ::unsetenv(name);
}

}  // namespace ringmaster::ctl
