// DataConfig holds a job's settings for its data, and what its model expects of
// the data.
#ifndef RINGMASTER_WORKER_DATA_DATA_CONFIG_H_
#define RINGMASTER_WORKER_DATA_DATA_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "worker/data/batch.h"

namespace ringmaster {

struct DataConfig {
  // "text", "tokens", "images", "image_folder", "labelled_text" or "synthetic".
  // Fields that belong to one kind alone say so.
  std::string kind = "synthetic";

  // The input of the model: the shape of a sample, and the number of different
  // ids (token ids, or classes of images), in [1, 2^24].
  SampleShape shape = {.tokens = 16};
  int64_t vocabulary = 256;
  // labelled_text: of the model that learns them; see ModelInput.
  int64_t classes = 0;
  int64_t padding = 0;
  int64_t separator = -1;

  // text: a file, or a directory whose files are read. tokens: a file, or a
  // directory of *.bin files. images: the file of images. image_folder: the
  // directory of classes.
  std::string path = "";
  // images: the file of labels.
  std::string labels_path = "";
  // tokens, images, image_folder: the path of the held-out samples; empty: the
  // last part of the others or, of an image_folder, a random one.
  std::string evaluation_path = "";
  std::string evaluation_labels_path = "";
  // In [0, 1): this part of the data is held out. Not with evaluation_path.
  double eval_fraction = 0.1;
  // True if evaluations are wanted: then it is an error if no sample is held
  // out. With evaluation_path it always is.
  bool needs_held_out = false;
  // The seed of the order of samples, and of synthetic contents.
  uint64_t seed = 1;

  // text: GPT-2's vocab.json and merges.txt; empty: tokens are bytes.
  std::string vocabulary_path = "";
  std::string merges_path = "";
  // labelled_text: columns, or keys; the names of classes, or none: numbers; and
  // whether BERT's vocab.txt, which goes without merges, is of lower case.
  std::string text_column = "text";
  std::string second_text_column = "";  // empty: there is none
  std::string label_column = "label";
  std::vector<std::string> label_names = {};
  bool lowercase = true;
  // text, images: more data than this (in a file, of images) is an error; at
  // least 1.
  int64_t max_bytes = int64_t{1} << 30;
  // tokens: "llm.c", "raw" (nanoGPT's), or "auto" to tell by the file.
  std::string token_format = "auto";
  // tokens, images, image_folder, labelled_text: leave out samples that are not
  // valid, instead of refusing the data.
  bool skip_corrupt = false;
  // image_folder: see ImageFolderSource.
  double crop_area = 0.08;
  bool flip = true;
  double evaluation_crop = 0.875;
  int decode_threads = 1;
  // synthetic: size of the data set, held-out part included, in [1, 2^40].
  int64_t num_samples = 65536;

  // INVALID_ARGUMENT names the first bad field as "data.<field>", with its
  // value and its bounds.
  [[nodiscard]] absl::Status Validate() const;
  // One line, equal for equal settings; for Plan's settings. Paths are left
  // out: the fingerprint stands for the contents.
  std::string CanonicalText() const;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_DATA_DATA_CONFIG_H_
