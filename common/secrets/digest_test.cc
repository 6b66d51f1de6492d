#include "common/secrets/digest.h"

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

// FIPS 180-4, examples of NIST's Cryptographic Toolkit.
TEST(DigestTest, IsSha256) {
  EXPECT_EQ(absl::BytesToHexString(Sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(absl::BytesToHexString(Sha256("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace ringmaster
