#include "server/coordinator/journal/journal_vfs.h"

#include <sqlite3.h>

#include <memory>
#include <utility>
#include <vector>

#include "common/fail_point/fail_point.h"
#include "common/sync/mutex.h"

namespace ringmaster::coordinator {
namespace {

// A file of ours is one of the default VFS whose table of methods was replaced
// by a copy with our own entries. So no method has to be forwarded by hand, and
// the original entries are found through the table that the file points to.
struct Methods {
  sqlite3_io_methods own;  // first: a file's pMethods points here
  const sqlite3_io_methods* original;
};

const sqlite3_io_methods& OriginalOf(const sqlite3_file* file) {
  return *reinterpret_cast<const Methods*>(file->pMethods)->original;
}

int Write(sqlite3_file* file, const void* bytes, int count,
          sqlite3_int64 offset) {
  if (!FAIL_POINT("journal.write").ok()) return SQLITE_IOERR_WRITE;
  return OriginalOf(file).xWrite(file, bytes, count, offset);
}

int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  if (!FAIL_POINT("journal.truncate").ok()) return SQLITE_IOERR_TRUNCATE;
  return OriginalOf(file).xTruncate(file, size);
}

int Sync(sqlite3_file* file, int flags) {
  if (!FAIL_POINT("journal.sync").ok()) return SQLITE_IOERR_FSYNC;
  return OriginalOf(file).xSync(file, flags);
}

// Tables by what they were made from: SQLite has a handful, by kind of lock.
class MethodTables {
 public:
  const sqlite3_io_methods* For(const sqlite3_io_methods* original) {
    MutexLock lock(mutex_);
    for (const auto& methods : tables_) {
      if (methods->original == original) return &methods->own;
    }
    auto methods = std::make_unique<Methods>(Methods{*original, original});
    methods->own.xWrite = Write;
    methods->own.xTruncate = Truncate;
    methods->own.xSync = Sync;
    tables_.push_back(std::move(methods));
    return &tables_.back()->own;
  }

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<Methods>> tables_ GUARDED_BY(mutex_);
};

int Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags,
         int* opened_flags) {
  auto* const original = static_cast<sqlite3_vfs*>(vfs->pAppData);
  const int code = original->xOpen(original, name, file, flags, opened_flags);
  if (code != SQLITE_OK || file->pMethods == nullptr) return code;
  static MethodTables& tables = *new MethodTables;
  file->pMethods = tables.For(file->pMethods);
  return SQLITE_OK;
}

const char* Register() {
  static constexpr char kName[] = "ringmaster_journal";
  sqlite3_vfs* const original = sqlite3_vfs_find(nullptr);
  if (original == nullptr) return nullptr;
  static sqlite3_vfs vfs = *original;
  vfs.pNext = nullptr;
  vfs.zName = kName;
  vfs.pAppData = original;
  vfs.xOpen = Open;
  return sqlite3_vfs_register(&vfs, /*makeDflt=*/0) == SQLITE_OK ? kName
                                                                 : nullptr;
}

}  // namespace

const char* JournalVfs() {
  static const char* const name = Register();
  return name;
}

}  // namespace ringmaster::coordinator
