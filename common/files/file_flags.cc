#include "common/files/file_flags.h"

namespace ringmaster {

void AddFileFlags(FlagSet& set, FileRoots::Directories& directories) {
  set.StartGroup("Files of jobs");
  set.Add({.name = "allow_read",
           .unit = "DIR",
           .help = "Jobs may read what is beneath this directory; repeat the "
                   "flag for others, or put \":\" between them. `..`, links "
                   "and /proc do not lead out. A job that names another file "
                   "is refused. /: all that the user of this process may "
                   "read."},
          &directories.read);
  set.Add({.name = "allow_write",
           .unit = "DIR",
           .help = "The same to read and to write: for checkpoints and "
                   "figures."},
          &directories.write);
}

}  // namespace ringmaster
