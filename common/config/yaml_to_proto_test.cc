#include "common/config/yaml_to_proto.h"

#include <google/protobuf/duration.pb.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/config/proto_to_json.h"
#include "common/config/read_file.h"
#include "common/config/yaml_test.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ringmaster/v1/coordinator_service.pb.h"

namespace ringmaster {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class YamlToProtoTest : public testing::Test {
 protected:
  // The message that `yaml` gives, as JSON of one line.
  std::string Json(const std::string& yaml) {
    const absl::Status status = YamlToProto(yaml, "job.yaml", job_);
    EXPECT_TRUE(status.ok()) << status;
    return *ProtoToJson(job_, {.is_indented = false});
  }
  std::string Error(const std::string& yaml) {
    const absl::Status status = YamlToProto(yaml, "job.yaml", job_);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << yaml;
    return std::string(status.message());
  }
  // Returns the error for `value` in the top-level field `field`.
  std::string ValueError(const std::string& field, const std::string& value) {
    const std::string error = Error(absl::StrCat(field, ": ", value));
    const std::string place = absl::StrCat("job.yaml:1: ", field, ": ");
    EXPECT_THAT(error, StartsWith(place));
    return error.substr(std::min(place.size(), error.size()));
  }

  yaml_test::Job job_;
};

TEST_F(YamlToProtoTest, ReadsEveryKindOfField) {
  EXPECT_EQ(Json(R"(
# A job.
name: words
train:
  steps: 100
  learning_rate: 1e-3
  optimizer: adamw
  settle: 1.5s
  is_deterministic: true
  shape: {dims: [2, 3], inner: {dims: []}}
  seed: 0
hosts: [a, "b c", 7]
labels: {x: 1}
min_workers: 4294967295
bucket_bytes: 4MiB
ratio: 0.5
benches:
- rounds: 1
- {}
by_rank:
  3: {rounds: 9}
delays: [500ms, 2m]
)"),
            "{\"name\":\"words\",\"train\":{\"steps\":\"100\","
            "\"learning_rate\":0.001,\"optimizer\":\"OPTIMIZER_KIND_ADAMW\","
            "\"settle\":\"1.500s\",\"is_deterministic\":true,"
            "\"shape\":{\"dims\":[2,3],\"inner\":{}},\"seed\":0},"
            "\"hosts\":[\"a\",\"b c\",\"7\"],\"labels\":{\"x\":1},"
            "\"min_workers\":4294967295,\"bucket_bytes\":\"4194304\","
            "\"ratio\":0.5,\"benches\":[{\"rounds\":1},{}],"
            "\"by_rank\":{\"3\":{\"rounds\":9}},"
            "\"delays\":[\"0.500s\",\"120s\"]}");
}

TEST_F(YamlToProtoTest, AcceptsTheWholeRangeOfNumbers) {
  EXPECT_EQ(Json("train: {steps: -9223372036854775808}"),
            "{\"train\":{\"steps\":\"-9223372036854775808\"}}");
  EXPECT_EQ(Json("bucket_bytes: 18446744073709551615"),
            "{\"bucket_bytes\":\"18446744073709551615\"}");
  EXPECT_EQ(Json("small_bytes: -2147483648"), "{\"small_bytes\":-2147483648}");
}

TEST_F(YamlToProtoTest, ReplacesWhatWasThere) {
  EXPECT_EQ(Json("name: a\nhosts: [x]"), "{\"name\":\"a\",\"hosts\":[\"x\"]}");
  EXPECT_EQ(Json("hosts: [y]"), "{\"hosts\":[\"y\"]}");
}

TEST_F(YamlToProtoTest, ReadsSeveralEntriesOfAMap) {
  Json("labels: {x: 1, y: -2, \"3\": 4}");
  EXPECT_EQ(job_.labels().size(), 3u);
  EXPECT_EQ(job_.labels().at("x"), 1);
  EXPECT_EQ(job_.labels().at("y"), -2);
  EXPECT_EQ(job_.labels().at("3"), 4);
}

TEST_F(YamlToProtoTest, FollowsAliases) {
  EXPECT_EQ(Json("benches: [&b {rounds: 2}, *b]"),
            "{\"benches\":[{\"rounds\":2},{\"rounds\":2}]}");
}

TEST_F(YamlToProtoTest, AnUnknownFieldIsNamedWithWhatWasProbablyMeant) {
  EXPECT_EQ(Error("name: words\ntrian:\n  steps: 1\n"),
            "job.yaml:2: unknown field \"trian\" (did you mean \"train\"?)");
  EXPECT_EQ(Error("train:\n  setps: 1\n"),
            "job.yaml:2: unknown field \"train.setps\" (did you mean "
            "\"train.steps\"?)");
  EXPECT_EQ(Error("benches:\n- rounds: 1\n- round: 1\n"),
            "job.yaml:3: unknown field \"benches[1].round\" (did you mean "
            "\"benches[1].rounds\"?)");
  EXPECT_EQ(Error("wherever: 1"), "job.yaml:1: unknown field \"wherever\"");
}

TEST_F(YamlToProtoTest, AMisplacedFieldIsSuggestedAtItsPlace) {
  EXPECT_EQ(Error("learning_rate: 1"),
            "job.yaml:1: unknown field \"learning_rate\" (did you mean "
            "\"train.learning_rate\"?)");
  EXPECT_EQ(Error("train: {bucket_bytes: 1}"),
            "job.yaml:1: unknown field \"train.bucket_bytes\" (did you mean "
            "\"bucket_bytes\"?)");
}

TEST_F(YamlToProtoTest, AFieldGivenTwiceIsAnError) {
  EXPECT_EQ(Error("name: a\n\nname: b\n"),
            "job.yaml:3: name: is given twice, first in line 1");
  EXPECT_EQ(Error("labels:\n  x: 1\n  x: 2\n"),
            "job.yaml:3: labels.x: is given twice, first in line 2");
}

TEST_F(YamlToProtoTest, TwoFieldsOfAOneofAreAnError) {
  EXPECT_EQ(Error("train: {steps: 1}\nbench: {rounds: 1}\n"),
            "job.yaml:2: bench: excludes \"train\" of line 1; only one of them "
            "can be set");
}

TEST_F(YamlToProtoTest, AWrongIntegerIsAnError) {
  EXPECT_EQ(ValueError("rank", "x"), "must be a whole number, not \"x\"");
  EXPECT_EQ(ValueError("rank", "1.5"), "must be a whole number, not \"1.5\"");
  EXPECT_EQ(ValueError("rank", "1_000"),
            "must be a whole number, not \"1_000\"");
  EXPECT_EQ(ValueError("rank", "--1"), "must be a whole number, not \"--1\"");
  EXPECT_EQ(ValueError("rank", "1KiB"), "must be a whole number, not \"1KiB\"");
  EXPECT_EQ(ValueError("rank", "'4'"),
            "must be a whole number, not the string \"4\"");
  EXPECT_EQ(ValueError("rank", "2147483648"),
            "must be from -2147483648 to 2147483647, not \"2147483648\"");
  EXPECT_EQ(ValueError("min_workers", "-1"),
            "must be from 0 to 4294967295, not \"-1\"");
  EXPECT_EQ(ValueError("bucket_bytes", "18446744073709551616"),
            "must be from 0 to 18446744073709551615, not "
            "\"18446744073709551616\"");
  EXPECT_EQ(ValueError("small_bytes", "2GiB"),
            "must be from -2147483648 to 2147483647, not \"2GiB\"");
  EXPECT_EQ(ValueError("small_bytes", "2GB"),
            "must be a whole number of bytes, as 65536 or 64KiB, not \"2GB\"");
}

TEST_F(YamlToProtoTest, AWrongNumberIsAnError) {
  EXPECT_EQ(ValueError("ratio", "half"), "must be a number, not \"half\"");
  EXPECT_EQ(ValueError("ratio", "nan"), "must be a number, not \"nan\"");
  EXPECT_EQ(ValueError("ratio", "inf"), "must be a finite number, not \"inf\"");
  EXPECT_EQ(ValueError("ratio", "1e39"),
            "must be a number within the range of a 32-bit float, not "
            "\"1e39\"");
  EXPECT_EQ(ValueError("ratio", "\"1\""),
            "must be a number, not the string \"1\"");
}

TEST_F(YamlToProtoTest, WrongValuesOfOtherTypesAreErrors) {
  EXPECT_EQ(Error("train:\n  is_deterministic: yes\n"),
            "job.yaml:2: train.is_deterministic: must be true or false, not "
            "\"yes\"");
  EXPECT_EQ(Error("train: {optimizer: adamv}"),
            "job.yaml:1: train.optimizer: must be one of sgd, adamw, not "
            "\"adamv\" (did you mean adamw?)");
  EXPECT_EQ(Error("train: {optimizer: OPTIMIZER_KIND_ADAMW}"),
            "job.yaml:1: train.optimizer: must be one of sgd, adamw, not "
            "\"OPTIMIZER_KIND_ADAMW\"");
  EXPECT_EQ(Error("train: {optimizer: unspecified}"),
            "job.yaml:1: train.optimizer: must be one of sgd, adamw, not "
            "\"unspecified\"");
  for (const char* const wrong : {"5", "soon", "inf", "-inf"}) {
    EXPECT_EQ(Error(absl::StrCat("train: {settle: ", wrong, "}")),
              absl::StrCat("job.yaml:1: train.settle: must be a duration, as "
                           "500ms, 1.5s or 2m, not \"",
                           wrong, "\""));
  }
  EXPECT_EQ(ValueError("secret", "abc"), "cannot be written in YAML");
}

TEST_F(YamlToProtoTest, AWrongShapeIsAnError) {
  EXPECT_EQ(ValueError("train", "100"),
            "must be a map of fields, not a single value");
  EXPECT_EQ(ValueError("train", "[1]"), "must be a map of fields, not a list");
  EXPECT_EQ(ValueError("name", "[a]"), "must be a single value, not a list");
  EXPECT_EQ(ValueError("name", "{a: 1}"), "must be a single value, not a map");
  EXPECT_EQ(ValueError("hosts", "a"), "must be a list, not a single value");
  EXPECT_EQ(ValueError("labels", "[a]"), "must be a map, not a list");
  EXPECT_EQ(Error("train: {settle: {seconds: 1}}"),
            "job.yaml:1: train.settle: must be a single value, not a map");
  EXPECT_EQ(Error("hosts:\n- a\n- [b]\n"),
            "job.yaml:3: hosts[1]: must be a single value, not a list");
  EXPECT_EQ(Error("- a\n"), "job.yaml:1: must be a map of fields, not a list");
  EXPECT_EQ(Error("? [a, b]\n: 1\n"),
            "job.yaml:1: a field's name must be a single value");
  EXPECT_EQ(Error("labels:\n  ? [a, b]\n  : 1\n"),
            "job.yaml:2: labels: a key must be a single value");
  EXPECT_EQ(Error("by_rank: {x: {}}"),
            "job.yaml:1: by_rank.x: the key must be a whole number, not "
            "\"x\"");
}

TEST_F(YamlToProtoTest, AFieldWithoutAValueIsAnError) {
  EXPECT_EQ(Error("name:\n"), "job.yaml:1: name: has no value");
  EXPECT_EQ(Error("name: ~\n"), "job.yaml:1: name: has no value");
  EXPECT_EQ(Error("train:\n"),
            "job.yaml:1: train: has no value (write {} for the defaults)");
  EXPECT_EQ(Error("hosts:\n"),
            "job.yaml:1: hosts: has no value (write [] for none)");
  EXPECT_EQ(Error("labels:\n"),
            "job.yaml:1: labels: has no value (write {} for none)");
  EXPECT_EQ(Error("hosts:\n- a\n-\n"), "job.yaml:1: hosts[1]: has no value");
  EXPECT_EQ(Error("labels: {x: }\n"), "job.yaml:1: labels.x: has no value");
}

TEST_F(YamlToProtoTest, AnErrorIsALineThatCutsWhatItCites) {
  const std::string longest(5000, 'x');
  for (const std::string& yaml : std::vector<std::string>{
           "min_workers: \"a\\n\\e[2J\"\n", "min_workers: " + longest,
           "train: {optimizer: \"\\n\"}", longest + ": 1", "\"a\\nb\": 1",
           "labels: {\"a\\nb\": x}", "name: *" + longest,
           "train: {settle: \"\\n\"}"}) {
    const std::string error = Error(yaml);
    EXPECT_LT(error.size(), 1000u) << error;
    EXPECT_EQ(error.find_first_of("\n\x1b"), std::string::npos) << error;
  }
}

// yaml-cpp finds one document after the other in these, without an end.
TEST_F(YamlToProtoTest, TextBehindTheDocumentIsAnError) {
  for (const char* yaml : {",", "name: a\n,", "name: a\n, name: b\n"}) {
    EXPECT_THAT(Error(yaml), ContainsRegex("job.yaml:[12]: (a second document "
                                           "begins; one is allowed|is not "
                                           "YAML: )"))
        << yaml;
  }
}

// yaml-cpp takes half a gigabyte for a megabyte of these.
TEST_F(YamlToProtoTest, BracketsWithoutEndAreAnError) {
  for (const char* open : {"[", "{", "[1, ", "{a: "}) {
    std::string yaml = "name: a\nhosts: ";
    for (int i = 0; i < 1001; ++i) yaml += open;
    EXPECT_EQ(Error(yaml),
              "job.yaml:2: more than 1000 brackets are open at once");
  }
  std::string closed = "hosts: [";
  for (int i = 0; i < 2000; ++i) closed += "'[]', ";
  (void)Json(closed + "a]\n");
}

TEST_F(YamlToProtoTest, TextBeyondTheLimitIsAnError) {
  const std::string name(kMaxTextFileBytes, 'x');
  EXPECT_EQ(Error("name: " + name), "job.yaml:1: is larger than 1048576 bytes");
}

TEST_F(YamlToProtoTest, WhatIsNotOneDocumentOfYamlIsAnError) {
  EXPECT_EQ(Error(""), "job.yaml:1: is empty");
  EXPECT_EQ(Error("# nothing\n"), "job.yaml:1: is empty");
  EXPECT_THAT(Error("name: a\nhosts: [a\n"),
              testing::ContainsRegex("job.yaml:[23]: is not YAML: "));
  EXPECT_THAT(Error("name: *nobody\n"), StartsWith("job.yaml:1: is not YAML"));
  EXPECT_EQ(Error("name: a\n---\nname: b\n"),
            "job.yaml:3: a second document begins; one is allowed");
}

TEST_F(YamlToProtoTest, AliasesCannotMakeAHugeMessage) {
  std::string yaml = "benches:\n- &b {rounds: 1}\n";
  for (int i = 0; i < 60'000; ++i) yaml += "- *b\n";
  EXPECT_THAT(Error(yaml), HasSubstr("is beyond the limit of 100000 values"));
}

TEST_F(YamlToProtoTest, ReadsAFile) {
  const std::string path = testing::TempDir() + "/job.yaml";
  std::ofstream(path) << "name: words\nx: 1\n";
  EXPECT_EQ(YamlFileToProto(path, job_).message(),
            absl::StrCat(path, ":2: unknown field \"x\""));
  EXPECT_EQ(
      YamlFileToProto("/no/job.yaml", job_),
      absl::InvalidArgumentError("/no/job.yaml: No such file or directory"));
}

TEST_F(YamlToProtoTest, SetProtoFieldChangesOneField) {
  ASSERT_EQ(Json("name: a\ntrain: {steps: 1, seed: 2}\nhosts: [x]"),
            "{\"name\":\"a\",\"train\":{\"steps\":\"1\",\"seed\":2},"
            "\"hosts\":[\"x\"]}");
  for (const char* const assignment :
       {"train.steps=5", "name=b=c", "hosts=[y, z]", "train.settle=2s",
        "train.shape={dims: [1]}"}) {
    const absl::Status status = SetProtoField(assignment, job_);
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(*ProtoToJson(job_, {.is_indented = false}),
            "{\"name\":\"b=c\",\"train\":{\"steps\":\"5\",\"settle\":\"2s\","
            "\"shape\":{\"dims\":[1]},\"seed\":2},\"hosts\":[\"y\",\"z\"]}");
}

TEST_F(YamlToProtoTest, SetProtoFieldTakesThePlaceOfItsOneof) {
  ASSERT_EQ(Json("train: {steps: 1}"), "{\"train\":{\"steps\":\"1\"}}");
  ASSERT_TRUE(SetProtoField("bench.rounds=3", job_).ok());
  EXPECT_EQ(*ProtoToJson(job_, {.is_indented = false}),
            "{\"bench\":{\"rounds\":3}}");
}

TEST_F(YamlToProtoTest, SetProtoFieldNamesTheAssignment) {
  const auto error = [this](const char* assignment) {
    return std::string(SetProtoField(assignment, job_).message());
  };
  EXPECT_EQ(error("train.steps"),
            "train.steps: write FIELD=VALUE, as train.steps=100");
  EXPECT_EQ(error("=5"), "=5: write FIELD=VALUE, as train.steps=100");
  EXPECT_EQ(error("train.setps=5"),
            "train.setps=5: unknown field \"train.setps\" (did you mean "
            "\"train.steps\"?)");
  EXPECT_EQ(error("train.steps=many"),
            "train.steps=many: train.steps: must be a whole number, not "
            "\"many\"");
  EXPECT_EQ(error("train.steps="), "train.steps=: is empty");
  EXPECT_EQ(error("name.x=1"), "name.x=1: name: has no fields");
  EXPECT_EQ(error("hosts.x=1"), "hosts.x=1: hosts: has no fields");
}

TEST_F(YamlToProtoTest, JsonHasTheNamesAndTheFormAskedFor) {
  ASSERT_TRUE(YamlToProto("min_workers: 2", "job.yaml", job_).ok());
  EXPECT_EQ(*ProtoToJson(job_), "{\n \"min_workers\": 2\n}\n");
  EXPECT_EQ(*ProtoToJson(
                job_, {.has_proto_field_names = false, .is_indented = false}),
            "{\"minWorkers\":2}");
  EXPECT_THAT(*ProtoToJson(job_, {.has_defaults = true}),
              HasSubstr("\"name\": \"\""));
}

TEST(ProtoToJsonTest, AMessageThatBreaksProtobufsRulesIsAnError) {
  google::protobuf::Duration duration;
  duration.set_seconds(INT64_MAX);
  EXPECT_EQ(ProtoToJson(duration).status().code(), absl::StatusCode::kInternal);
}

TEST(ProtoToJsonTest, SecretsAreLeftOut) {
  v1::Assignment assignment;
  assignment.set_secret("0123456789abcdef");
  // "(secret)", as JSON writes bytes.
  EXPECT_EQ(*ProtoToJson(assignment, {.is_indented = false}),
            "{\"secret\":\"KHNlY3JldCk=\"}");
  EXPECT_EQ(assignment.secret(), "0123456789abcdef");
}

}  // namespace
}  // namespace ringmaster
