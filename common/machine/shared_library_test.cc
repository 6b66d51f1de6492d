#include "common/machine/shared_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

TEST(SharedLibraryTest, FindsAFunctionInTheFirstLibraryThatLoads) {
  const auto library =
      SharedLibrary::Load({"libringmaster-none.so.1", "libm.so.6"});
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(library->name(), "libm.so.6");
  double (*cosine)(double) = nullptr;
  ASSERT_TRUE(library->Find("cos", &cosine).ok());
  EXPECT_EQ(cosine(0.0), 1.0);
}

TEST(SharedLibraryTest, FindsWhatIsLinkedIntoTheProgram) {
  const auto library = SharedLibrary::Load({""});
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(library->name(), "this program");
  int (*absolute)(int) = nullptr;
  ASSERT_TRUE(library->Find("abs", &absolute).ok());
  EXPECT_EQ(absolute(-3), 3);
}

TEST(SharedLibraryTest, NamesEveryLibraryThatDidNotLoad) {
  const auto library = SharedLibrary::Load({"libnone-a.so", "libnone-b.so"});
  EXPECT_EQ(library.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(library.status().message()),
              AllOf(HasSubstr("libnone-a.so: cannot open"),
                    HasSubstr("libnone-b.so: cannot open")));
}

TEST(SharedLibraryTest, NamesAFunctionThatIsMissing) {
  const auto library = SharedLibrary::Load({"libm.so.6"});
  ASSERT_TRUE(library.ok()) << library.status();
  void (*function)() = nullptr;
  const absl::Status status = library->Find("ringmaster_no_such", &function);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("libm.so.6 has no function ringmaster_no_such"));
  EXPECT_EQ(function, nullptr);
}

}  // namespace
}  // namespace ringmaster
