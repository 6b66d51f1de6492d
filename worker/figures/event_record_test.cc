#include "worker/figures/event_record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"

namespace ringmaster {
namespace {

std::string Hex(const std::string& bytes) {
  return absl::BytesToHexString(bytes);
}

// The expected bytes were put together by hand from the messages' field
// numbers, and their checksums computed bit by bit.
TEST(EventRecordTest, FramesARecord) {
  std::string framed;
  AppendTfRecord("", &framed);
  EXPECT_EQ(Hex(framed), "000000000000000029039807d8ea82a2");
  framed.clear();
  AppendTfRecord("abc", &framed);
  EXPECT_EQ(Hex(framed), "0300000000000000b099490e6162636e57f121");
}

TEST(EventRecordTest, AFileBeginsWithItsVersion) {
  std::string framed;
  AppendTfRecord(FileVersionEvent(1.5), &framed);
  EXPECT_EQ(Hex(framed),
            "1800000000000000a37f4b22"        // length and checksum
            "09000000000000f83f"              // wall_time = 1.5
            "1a0d627261696e2e4576656e743a32"  // file_version = brain.Event:2
            "2a28646c");
}

TEST(EventRecordTest, EncodesAScalar) {
  const std::vector<ScalarFigure> figures = {{"t/loss", 0.25}};
  EXPECT_EQ(Hex(ScalarsEvent(1.5, 3, figures)),
            "09000000000000f83f"  // wall_time = 1.5
            "1003"                // step = 3
            "2a0f"                // summary
            "0a0d"                //   value
            "0a06742f6c6f7373"    //     tag = t/loss
            "150000803e");        //     simple_value = 0.25
}

TEST(EventRecordTest, EncodesLargeAndNegativeSteps) {
  EXPECT_EQ(Hex(SessionStartEvent(0, 300)),
            "090000000000000000"
            "10ac02"
            "3a020801");
  EXPECT_EQ(Hex(SessionStartEvent(0, -1)),
            "090000000000000000"
            "10ffffffffffffffffff01"
            "3a020801");
}

TEST(EventRecordTest, EncodesNotANumberAndWhatAFloatCannotHold) {
  const std::vector<ScalarFigure> figures = {{"a", std::nan("")}, {"b", 1e300}};
  EXPECT_EQ(Hex(ScalarsEvent(0, 1, figures)),
            "090000000000000000"
            "1001"
            "2a14"
            "0a080a0161150000c07f"
            "0a080a0162150000807f");
}

TEST(EventRecordTest, EncodesAText) {
  EXPECT_EQ(Hex(TextEvent(1.5, 3, "sample", "hi")),
            "09000000000000f83f"  // wall_time = 1.5
            "1003"                // step = 3
            "2a24"                // summary
            "0a22"                //   value
            "0a0673616d706c65"    //     tag = sample
            "420c"                //     tensor
            "0807"                //       dtype = DT_STRING
            "1204"                //       tensor_shape
            "12020801"            //         dim {size = 1}
            "42026869"            //       string_val = hi
            "4a0a"                //     metadata
            "0a060a0474657874"    //       plugin_data {plugin_name = text}
            "2002");              //       data_class = DATA_CLASS_TENSOR
}

}  // namespace
}  // namespace ringmaster
