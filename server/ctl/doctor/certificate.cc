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
  const std::string what = absl::StrCat(
      certificate.file,
      certificate.is_authority ? absl::StrCat(" (", certificate.subject, ")")
                               : "",
      now < certificate.end ? absl::StrCat(" expires on ", date, ", in ", days,
                                           days == 1 ? " day" : " days")
                            : absl::StrCat(" expired on ", date));
  if (certificate.end - now > EndWarning(certificate.begin, certificate.end))
    return Good(kCheck, what);
  if (certificate.is_authority) {
    return Warn(kCheck, what, "whatever it signed is refused from then on",
                "add another authority to the file (`ringctl pki init`), issue "
                "certificates from that, and then remove this one");
  }
  return Warn(kCheck, what, "nobody takes it from then on",
              "issue another one (`ringctl pki renew`); programs take it over "
              "without a restart");
}

}  // namespace ringmaster::ctl
