// Clang's thread-safety attributes under their usual names; empty for other
// compilers. https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
//
// Abseil 20220623 still defines old attributes of some of these names. Its
// header comes first here, so that ours replace them whatever the order of
// includes.
#ifndef RINGMASTER_COMMON_SYNC_THREAD_ANNOTATIONS_H_
#define RINGMASTER_COMMON_SYNC_THREAD_ANNOTATIONS_H_

#include "absl/base/thread_annotations.h"

#undef GUARDED_BY
#undef PT_GUARDED_BY
#undef ACQUIRED_BEFORE
#undef ACQUIRED_AFTER
#undef NO_THREAD_SAFETY_ANALYSIS

#if defined(__clang__)
#define RM_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define RM_THREAD_ATTRIBUTE(x)
#endif

#define CAPABILITY(x) RM_THREAD_ATTRIBUTE(capability(x))
#define SCOPED_CAPABILITY RM_THREAD_ATTRIBUTE(scoped_lockable)
#define GUARDED_BY(x) RM_THREAD_ATTRIBUTE(guarded_by(x))
#define PT_GUARDED_BY(x) RM_THREAD_ATTRIBUTE(pt_guarded_by(x))
#define ACQUIRED_BEFORE(...) RM_THREAD_ATTRIBUTE(acquired_before(__VA_ARGS__))
#define ACQUIRED_AFTER(...) RM_THREAD_ATTRIBUTE(acquired_after(__VA_ARGS__))
#define REQUIRES(...) RM_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define ACQUIRE(...) RM_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define RELEASE(...) RM_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define EXCLUDES(...) RM_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define ASSERT_CAPABILITY(x) RM_THREAD_ATTRIBUTE(assert_capability(x))
#define NO_THREAD_SAFETY_ANALYSIS RM_THREAD_ATTRIBUTE(no_thread_safety_analysis)

#endif  // RINGMASTER_COMMON_SYNC_THREAD_ANNOTATIONS_H_
