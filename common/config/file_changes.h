// FileChanges notices when one of some files becomes another one, for those who follow
// them: an access file, certificates.
//
// A version that was refused is tried again at each look, since the disk, or whoever
// was just writing, may have been at fault; the count of refusals is for those who
// report it once.
//
// Thread-compatible.
// Example:
//   if (!changes.Look()) return;
//   if (Read(path).ok()) changes.Accept();
//   else if (changes.Refuse() == 1) ...report it...
#ifndef RINGMASTER_COMMON_CONFIG_FILE_CHANGES_H_
#define RINGMASTER_COMMON_CONFIG_FILE_CHANGES_H_

#include <string>
#include <vector>

namespace ringmaster {

class FileChanges {
 public:
  // Links are followed. "" is a file that never changes.
  explicit FileChanges(std::vector<std::string> paths);

  // Returns true unless the files are those that were accepted last, as far as device,
  // number, size, mode and times tell.
  [[nodiscard]] bool Look();
  // Both are about the files as they were at the last Look, before they were read.
  void Accept();
  // Returns how often this version was refused, with this time.
  int Refuse();

 private:
  const std::vector<std::string> paths_;
  std::string seen_;
  std::string accepted_;
  std::string refused_;
  int refusals_ = 0;
};

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_CONFIG_FILE_CHANGES_H_
