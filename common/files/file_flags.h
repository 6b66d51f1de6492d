// The flags that say what a process may read and write for others.
#ifndef RINGMASTER_COMMON_FILES_FILE_FLAGS_H_
#define RINGMASTER_COMMON_FILES_FILE_FLAGS_H_

#include "common/config/flags.h"
#include "common/files/file_roots.h"

namespace ringmaster {

// Adds --allow_read and --allow_write in a group of their own, with `directories` as their
// defaults.
void AddFileFlags(FlagSet& set, FileRoots::Directories& directories);

}  // namespace ringmaster

#endif  // RINGMASTER_COMMON_FILES_FILE_FLAGS_H_
