"""The C++ rules of this repository: the native ones, with our warnings, as errors."""

# Libraries from /usr/include are system headers to the compiler, which warns about none of them.
_WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wnon-virtual-dtor",
    "-Woverloaded-virtual",
    "-Wunused-result",
]

# What GCC 12 also reports in correct code once it inlines std::string, std::vector and std::optional at -O2; clang
# knows no such warnings.
_GCC_FALSE_ALARMS = [
    "-Wno-error=array-bounds",
    "-Wno-error=dangling-pointer",
    "-Wno-error=free-nonheap-object",
    "-Wno-error=stringop-overflow",
    "-Wno-error=stringop-overread",
    "-Wno-maybe-uninitialized",
    "-Wno-restrict",
]

# A test's own source: its time goes into compiling it, not into running it. The code under test is compiled as
# usual.
TEST_COPTS = ["-O0", "-U_FORTIFY_SOURCE"]

# clang cannot read what GCC has parsed.
def _unless_clang(values):
    return select({
        "//third_party:clang": [],
        "//conditions:default": values,
    })

def _precompiled_copts(name):
    """Options that begin a file with the headers of //third_party/precompiled:NAME."""
    return _unless_clang([
        "-include",
        "$(BINDIR)/third_party/precompiled/%s.h" % name,
        "-Winvalid-pch",
        "-Werror=invalid-pch",
    ])

def _precompiled_deps(name):
    return _unless_clang(["//third_party/precompiled:" + name])

def _copts(copts):
    return _WARNINGS + select({
        "//third_party:sanitized": [],
        "//conditions:default": ["-Werror"],
    }) + _unless_clang(_GCC_FALSE_ALARMS) + copts

def _begins_precompiled(srcs, copts):
    """Headers that were parsed with other options cannot be used."""
    return not copts and (type(srcs) == "select" or any([src.endswith(".cc") for src in srcs]))

def _product_rule(rule, name, copts, deps, kwargs):
    if _begins_precompiled(kwargs.get("srcs", []), copts):
        copts = _precompiled_copts("product")
        deps = deps + _precompiled_deps("product")
    rule(name = name, copts = _copts(copts), deps = deps, **kwargs)

def rm_cc_library(name, copts = [], deps = [], **kwargs):
    """cc_library with our warnings; same attributes.

    Without `copts` of its own its sources are compiled after the headers of //third_party/precompiled:product, which
    GCC has parsed before.
    """
    _product_rule(native.cc_library, name, copts, deps, kwargs)

def rm_cc_binary(name, copts = [], deps = [], **kwargs):
    """cc_binary with our warnings; same attributes, compiled as rm_cc_library."""
    _product_rule(native.cc_binary, name, copts, deps, kwargs)

def rm_cc_test(name, copts = [], deps = [], size = "small", tags = [], threads = False, **kwargs):
    """cc_test with our warnings and GoogleTest's main; same attributes.

    A test that links gRPC has the tag "no_tsan": Debian's gRPC is not instrumented, so ThreadSanitizer would
    report races that are none. The size is "small" (a minute) unless given, so that a hang is cut short.
    Without `copts` of its own its source is compiled with TEST_COPTS, after the headers of
    //third_party/precompiled:testing, which GCC has parsed before.

    Args:
      name: as elsewhere.
      copts: as elsewhere.
      deps: as elsewhere.
      size: as elsewhere.
      tags: as elsewhere.
      threads: that the test starts threads, itself or by what it tests. ThreadSanitizer runs only these, for one
        thread alone has no races; any other ends at its first thread, with a line that says so.
      **kwargs: as elsewhere.
    """
    if not copts:
        copts = TEST_COPTS + _precompiled_copts("testing")
        deps = deps + _precompiled_deps("testing")
    if threads:
        tags = tags + ["threads"]
    elif "no_tsan" not in tags:
        deps = deps + select({
            "//third_party:sanitized": [],
            "//conditions:default": ["//common/sync:no_threads"],
        })
    native.cc_test(
        name = name,
        size = size,
        copts = _copts(copts),
        tags = tags,
        deps = deps + ["@gtest//:gtest_main"],
        **kwargs
    )

def rm_cc_tests(names, **kwargs):
    """rm_cc_test for each of `names`, whose source is NAME.cc; same attributes, which all of them have."""
    for name in names:
        rm_cc_test(name = name, srcs = [name + ".cc"], **kwargs)
