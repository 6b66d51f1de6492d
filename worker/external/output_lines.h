// The output of a command, line by line, and what its last lines say of its
// end. Pure.
#ifndef RINGMASTER_WORKER_EXTERNAL_OUTPUT_LINES_H_
#define RINGMASTER_WORKER_EXTERNAL_OUTPUT_LINES_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

namespace ringmaster {

// LineCutter cuts what a pipe brings into lines, as a terminal would show them:
// of a line that was written over after a carriage return, only the last text
// counts. Thread-compatible.
class LineCutter {
 public:
  // A longer line comes in pieces.
  static constexpr size_t kMaxLineBytes = 4000;
  using OnLine = std::function<void(std::string_view line)>;

  explicit LineCutter(OnLine on_line) : on_line_(std::move(on_line)) {}

  void Take(std::string_view bytes);
  // What is left is a line, if it is not empty.
  void Finish();

 private:
  const OnLine on_line_;
  std::string line_;
  bool is_returned_ = false;  // The next byte writes over the line.
};

// LastWords keeps the last lines of a command's error stream.
// Thread-compatible.
class LastWords {
 public:
  void Add(std::string_view line);

  // Returns, as UTF-8, the last line that says something, and of a Python traceback also
  // where it was raised: `ValueError: boom (File "train.py", line 3, in step)`.
  // Empty if there is none.
  [[nodiscard]] std::string Text() const;

 private:
  static constexpr size_t kMostLines = 50;
  static constexpr size_t kMaxTextBytes = 500;

  std::deque<std::string> lines_;
};

}  // namespace ringmaster

#endif  // RINGMASTER_WORKER_EXTERNAL_OUTPUT_LINES_H_
