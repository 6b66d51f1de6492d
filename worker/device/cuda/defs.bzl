"""device_test: a test of code that runs on GPUs."""

load("//third_party:defs.bzl", "rm_cc_test")

def device_test(name, srcs, deps, emulated_deps = [], tags = [], **kwargs):
    """rm_cc_test that, in a build without CUDA, is one that skips with the reason.

    Args:
      name: of the test.
      srcs: as elsewhere.
      deps: where CUDA is built.
      emulated_deps: what a test of the emulation, or one that asks it for faults, depends on beside `deps`.
      tags: as elsewhere; "gpu" is added.
      **kwargs: as elsewhere.
    """
    rm_cc_test(
        name = name,
        srcs = select({
            "//third_party/cuda:enabled": srcs,
            "//conditions:default": ["//worker/device/cuda:no_cuda_test.cc"],
        }),
        tags = ["gpu"] + tags,
        threads = True,  # of the driver, or of the emulation
        deps = select({
            "//third_party/cuda:enabled": deps,
            "//conditions:default": [],
        }) + select({
            "//third_party/cuda:emulated": emulated_deps,
            "//conditions:default": [],
        }),
        **kwargs
    )
