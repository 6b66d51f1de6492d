// The finding of `ringctl doctor` about a certificate.
#ifndef RINGMASTER_SERVER_CTL_DOCTOR_CERTIFICATE_H_
#define RINGMASTER_SERVER_CTL_DOCTOR_CERTIFICATE_H_

#include "absl/time/time.h"
#include "common/credentials/tls_watch.h"
#include "server/ctl/doctor/finding.h"

namespace ringmaster::ctl {

// How long it will do, from `now`. Pure.
[[nodiscard]] Finding CertificateFinding(const FollowedCertificate& certificate,
                                         absl::Time now);

}  // namespace ringmaster::ctl

#endif  // RINGMASTER_SERVER_CTL_DOCTOR_CERTIFICATE_H_
