#include "server/ctl/doctor/certificate.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace ringmaster::ctl {

Finding CertificateFinding(const FollowedCertificate& certificate,
                           absl::Time now) {
  constexpr std::string_view kCheck = "certificate";
  const std::string date =
      absl::FormatTime("%Y-%m-%d", certificate.end, absl::UTCTimeZone());
  const int64_t days = (certificate.end - now) / absl::Hours(24);
  const std::string what =
      absl::StrCat(certificate.file, " expires on ", date, ", in ", days,
                   days == 1 ? " day" : " days");
  if (certificate.end - now > EndWarning(certificate.begin, certificate.end))
    return Good(kCheck, what);
  return Warn(kCheck, what, "nobody takes it from then on",
              "issue another one (`ringctl pki renew`); programs take it over "
              "without a restart");
}

}  // namespace ringmaster::ctl
