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

def _copts(copts):
    return _WARNINGS + select({
        "//third_party:sanitized": [],
        "//conditions:default": ["-Werror"],
    }) + select({
        "//third_party:clang": [],
        "//conditions:default": _GCC_FALSE_ALARMS,
    }) + copts

def rm_cc_library(name, copts = [], **kwargs):
    """cc_library with our warnings; same attributes."""
    native.cc_library(name = name, copts = _copts(copts), **kwargs)

def rm_cc_binary(name, copts = [], **kwargs):
    """cc_binary with our warnings; same attributes."""
    native.cc_binary(name = name, copts = _copts(copts), **kwargs)

def rm_cc_test(name, copts = [], deps = [], size = "small", **kwargs):
    """cc_test with our warnings and GoogleTest's main; same attributes.

    A test that links gRPC has the tag "no_tsan": Debian's gRPC is not instrumented, so ThreadSanitizer would
    report races that are none. The size is "small" (a minute) unless given, so that a hang is cut short.
    """
    native.cc_test(
        name = name,
        size = size,
        copts = _copts(copts),
        deps = deps + ["@gtest//:gtest_main"],
        **kwargs
    )
