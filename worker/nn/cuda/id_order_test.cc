#include "worker/nn/cuda/id_order.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "worker/nn/cuda/testing/device_operands.h"
#include "worker/nn/testing/operator_testing.h"

namespace ringmaster::cuda {
namespace {

class IdOrderTest : public DeviceTest {
 protected:
  std::vector<int32_t> Sort(const std::vector<int32_t>& ids,
                            int64_t vocabulary) {
    const auto count = static_cast<int64_t>(ids.size());
    const DeviceArray<int32_t> device_ids(ids);
    const DeviceArray<int32_t> scratch(IdOrderScratchElems(count));
    const int32_t* const places = SortPlacesById(
        stream(), count, vocabulary, device_ids.get(), scratch.get());
    EXPECT_TRUE(Finish());
    const std::vector<int32_t> all = scratch.Read();
    const auto begin = all.begin() + (places - scratch.get());
    return {begin, begin + count};
  }
};

TEST_F(IdOrderTest, SortsAndKeepsTheOrderOfEquals) {
  for (int64_t count : {0, 1, 511, 512, 513, 3000}) {
    // The last one needs three digits.
    for (int64_t vocabulary : {1, 3, 256, 257, 50257, 65536, 100000}) {
      const std::vector<int32_t> ids = RandomIds(count, vocabulary, 7);
      std::vector<int32_t> want(ids.size());
      std::iota(want.begin(), want.end(), 0);
      std::stable_sort(want.begin(), want.end(),
                       [&](int32_t a, int32_t b) { return ids[a] < ids[b]; });
      EXPECT_EQ(Sort(ids, vocabulary), want)
          << count << " ids of " << vocabulary;
    }
  }
}

TEST_F(IdOrderTest, SortsTheLargestIds) {
  EXPECT_EQ(Sort({65535, 0, 65535, 65534}, 65536),
            (std::vector<int32_t>{1, 3, 0, 2}));
}

}  // namespace
}  // namespace ringmaster::cuda
