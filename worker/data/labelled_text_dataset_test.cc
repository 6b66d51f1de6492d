// The data set, and labelled_records.h and bpe_tokenizer.h as far as it uses
// them.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/dataset.h"
#include "worker/data/labelled_records.h"
#include "worker/data/testing/data_files.h"

namespace ringmaster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ids: [PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, then words.
constexpr char kVocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\nc\nd\ne\nf\n";

class LabelledTextDatasetTest : public ::testing::Test {
 protected:
  DataConfig Config(const std::string& name, const std::string& contents) {
    return {.kind = "labelled_text",
            .shape = {.tokens = 7},
            .vocabulary = 12,
            .classes = 3,
            .separator = 3,
            .path = directory_.Write(name, contents),
            .eval_fraction = 0,
            .vocabulary_path = directory_.Write("vocab.txt", kVocabulary)};
  }
  static std::string Error(const DataConfig& config) {
    return std::string(CreateDataset(config).status().message());
  }
  // Tokens and label of a sample.
  static std::vector<int32_t> Sample(const Dataset& dataset, int64_t id,
                                     Split split = Split::kTrain) {
    Batch batch(1, dataset.shape());
    EXPECT_TRUE(dataset.FillBatch(split, {id}, batch).ok());
    std::vector<int32_t> sample(batch.inputs().begin(), batch.inputs().end());
    sample.push_back(batch.targets()[0]);
    return sample;
  }

  TestDirectory directory_;
};

TEST_F(LabelledTextDatasetTest, ASampleIsFramedAndPadded) {
  const auto dataset = CreateDataset(
      Config("a.csv", "id,text,label\n1,a B!,2\r\n2,\"c,\nd\",0\n\n3,,1\n"));
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ((*dataset)->size(Split::kTrain), 3);
  EXPECT_THAT(Sample(**dataset, 0), ElementsAre(2, 4, 5, 1, 3, 0, 0, 2));
  EXPECT_THAT(Sample(**dataset, 1), ElementsAre(2, 6, 1, 7, 3, 0, 0, 0));
  EXPECT_THAT(Sample(**dataset, 2), ElementsAre(2, 3, 0, 0, 0, 0, 0, 1));
}

TEST_F(LabelledTextDatasetTest, OfTwoTextsTheLongerOneIsCutFirst) {
  DataConfig config =
      Config("a.jsonl",
             "{\"text\": \"a b c d e\", \"other\": \"f\", \"label\": 1}\n"
             "{\"text\": \"a\", \"other\": \"b c d e f\", \"label\": \"1\"}\n"
             "{\"text\": \"a b c\", \"other\": \"d e f\", \"label\": true}\n");
  config.second_text_column = "other";
  const auto dataset = CreateDataset(config);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_THAT(Sample(**dataset, 0), ElementsAre(2, 4, 5, 6, 3, 9, 3, 1));
  EXPECT_THAT(Sample(**dataset, 1), ElementsAre(2, 4, 3, 5, 6, 7, 3, 1));
  EXPECT_THAT(Sample(**dataset, 2), ElementsAre(2, 4, 5, 3, 7, 8, 3, 1));
}

TEST_F(LabelledTextDatasetTest, RobertasTextsHaveTwoEndsBetweenThem) {
  DataConfig config =
      Config("a.csv", "text,other,label\nab,c,1\nabcdef,ghijkl,0\n");
  // Bytes, "<|endoftext|>", and these.
  std::string vocabulary = VocabJson({});
  vocabulary.resize(vocabulary.rfind('}'));
  vocabulary += R"(,"<s>":257,"<pad>":258,"</s>":259})";
  config.vocabulary_path = directory_.Write("vocab.json", vocabulary);
  config.merges_path = directory_.Write("merges.txt", MergesText({}));
  config.vocabulary = 260;
  config.padding = 258;
  config.separator = -1;
  config.shape.tokens = 8;
  config.second_text_column = "other";
  const auto dataset = CreateDataset(config);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_THAT(Sample(**dataset, 0),
              ElementsAre(257, 'a', 'b', 259, 259, 'c', 259, 258, 1));
  EXPECT_THAT(Sample(**dataset, 1),
              ElementsAre(257, 'a', 'b', 259, 259, 'g', 'h', 259, 0));
  config.vocabulary_path = directory_.Write("plain.json", VocabJson({}));
  EXPECT_THAT(Error(config), HasSubstr("plain.json has no \"<s>\""));
}

TEST_F(LabelledTextDatasetTest, LabelsMayHaveNames) {
  DataConfig config = Config("a.csv", "text,label\na,good\nb,bad\n");
  config.label_names = {"bad", "fair", "good"};
  const auto dataset = CreateDataset(config);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(Sample(**dataset, 0).back(), 2);
  EXPECT_EQ(Sample(**dataset, 1).back(), 0);
  config.label_names = {"bad", "fair", "fine"};
  EXPECT_THAT(Error(config),
              HasSubstr("line 2: the label \"good\" is none of the 3 classes"));
  config.label_names = {"bad", "fair", "good", "best"};
  EXPECT_THAT(Error(config),
              HasSubstr("data.labels: there are 4 names, but the model has 3 "
                        "classes"));
}

TEST_F(LabelledTextDatasetTest, TheEndIsHeldOutUnlessThereIsAFile) {
  DataConfig config = Config("a.csv", "text,label\na,0\nb,1\nc,2\nd,0\n");
  config.eval_fraction = 0.25;
  auto dataset = *CreateDataset(config);
  EXPECT_EQ(dataset->size(Split::kTrain), 3);
  ASSERT_EQ(dataset->size(Split::kHeldOut), 1);
  EXPECT_EQ(Sample(*dataset, 0, Split::kHeldOut)[1], 7);
  config.evaluation_path = directory_.Write("b.csv", "label,text\n1,e\n");
  dataset = *CreateDataset(config);
  EXPECT_EQ(dataset->size(Split::kTrain), 4);
  EXPECT_THAT(Sample(*dataset, 0, Split::kHeldOut),
              ElementsAre(2, 8, 3, 0, 0, 0, 0, 1));
  EXPECT_EQ(dataset->identity().parts_size(), 2);
}

TEST_F(LabelledTextDatasetTest, BadRecordsAreNamedOrSkipped) {
  DataConfig config = Config("a.csv",
                             "text,label\na,0\nb,3\nc\n\"d,1\ne,-1\n"
                             "\"f\"x,1\nf,2\n");
  EXPECT_THAT(Error(config),
              HasSubstr("a.csv: line 3: the label \"3\" is none of the model's "
                        "3 classes (0 to 2); \"corrupt_records: skip\" leaves "
                        "out such samples"));
  config.skip_corrupt = true;
  const auto dataset = CreateDataset(config);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->size(Split::kTrain), 2);
  EXPECT_EQ((*dataset)->skipped_samples(), 5);
  EXPECT_EQ(Sample(**dataset, 1)[1], 9);
  EXPECT_THAT(Error(Config("a.csv", "text,label\na\n")),
              HasSubstr("line 2: has 1 fields, but there are 2 columns"));
  EXPECT_THAT(Error(Config("a.csv", "text,label\n\"a,0\n")),
              HasSubstr("line 2: a quoted field has no end"));
  EXPECT_THAT(Error(Config("a.csv", "text,label\n\"a\"b,0\n")),
              HasSubstr("line 2: a quoted field ends before its column does"));
  EXPECT_THAT(Error(Config("a.jsonl", "{\"text\": \"a\", \"label\": 0}\n[]\n")),
              HasSubstr("line 2: is no JSON object"));
  EXPECT_THAT(Error(Config("a.jsonl", "{\"text\": 5, \"label\": 0}\n")),
              HasSubstr("line 1: \"text\" is no string"));
  EXPECT_THAT(Error(Config("a.jsonl", "{\"text\": \"a\", \"label\": 0.5}\n")),
              HasSubstr("\"label\" is neither a string nor a whole number"));
}

TEST_F(LabelledTextDatasetTest, AQuoteTooManyCostsTimeLinearInTheFile) {
  constexpr int kLines = 100000;
  std::string text = "text,label\n";
  for (int i = 0; i < kLines; ++i) text += "a\",\"b\n";
  for (const char* const end : {"c,1\n", "\"x\nc,1\n"}) {
    DataConfig config = Config("a.csv", text + end);
    config.skip_corrupt = true;
    const auto dataset = CreateDataset(config);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ((*dataset)->size(Split::kTrain), 1);
    EXPECT_EQ(Sample(**dataset, 0)[1], 6);
    EXPECT_GE((*dataset)->skipped_samples(), kLines);
  }
}

TEST_F(LabelledTextDatasetTest, ARowOfManyLinesIsReadBehindABadOne) {
  DataConfig config = Config("a.csv", "text,label\n\"d,1\n\"a\nb\",1\n");
  config.skip_corrupt = true;
  const auto dataset = CreateDataset(config);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->size(Split::kTrain), 1);
  EXPECT_EQ((*dataset)->skipped_samples(), 1);
  EXPECT_THAT(Sample(**dataset, 0), ElementsAre(2, 4, 5, 3, 0, 0, 0, 1));
}

TEST_F(LabelledTextDatasetTest, WhatDoesNotFitIsSaidInOneLine) {
  EXPECT_THAT(Error(Config("a.csv", "sentence,label\na,0\n")),
              HasSubstr("a.csv has no column \"text\"; line 1 names "
                        "\"sentence\", \"label\""));
  std::string columns;
  for (int i = 0; i < 25; ++i) columns += "c,";
  const std::string error = Error(Config("a.csv", columns + "c\n"));
  EXPECT_THAT(error, HasSubstr("\"c\", \"c\" and 6 more"));
  EXPECT_THAT(Error(Config("a.csv", "")), HasSubstr("a.csv is empty"));
  EXPECT_THAT(Error(Config("a.csv", "text,label\n")),
              HasSubstr("has no valid record to train on; 0 were left out"));
  DataConfig config = Config("a.csv", "text,label\na,0\n");
  config.vocabulary = 9;
  EXPECT_THAT(Error(config), HasSubstr("has 10 tokens, but the model takes 9"));
  config.vocabulary = 12;
  config.padding = 1;
  EXPECT_THAT(Error(config),
              HasSubstr("has \"[PAD]\" as 0, but the model's padding is 1"));
  config.padding = 0;
  config.separator = 4;
  EXPECT_THAT(Error(config),
              HasSubstr("has \"[SEP]\" as 3, but the model's separator is 4"));
  config.separator = 3;
  config.vocabulary_path =
      directory_.Write("other.txt", "[UNK]\n[CLS]\n[PAD]\n");
  EXPECT_THAT(Error(config), HasSubstr("other.txt has no \"[SEP]\""));
  config = Config("a.csv", "text,label\na,0\n");
  config.classes = 0;
  EXPECT_THAT(Error(config), HasSubstr("for a model with classes"));
  config.classes = 3;
  config.shape.tokens = 4;
  EXPECT_THAT(Error(config), HasSubstr("needs at least 5 tokens"));
  config.shape.tokens = 7;
  config.max_bytes = 3;
  EXPECT_THAT(Error(config), HasSubstr("more than data.max_bytes = 3"));
  config.vocabulary_path = "";
  EXPECT_THAT(Error(config), HasSubstr("data.vocabulary_path is empty"));
}

}  // namespace
}  // namespace ringmaster
