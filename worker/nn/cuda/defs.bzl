"""device_test: a test of code that runs on GPUs."""

load("//third_party:defs.bzl", "rm_cc_test")

def device_test(name, srcs, deps, tags = [], **kwargs):
    """rm_cc_test that, in a build without CUDA, is one that skips with the reason."""
    rm_cc_test(
        name = name,
        srcs = select({
            "//third_party/cuda:enabled": srcs,
            "//conditions:default": ["//worker/device/cuda:no_cuda_test.cc"],
        }),
        tags = ["gpu"] + tags,
        deps = select({
            "//third_party/cuda:enabled": deps,
            "//conditions:default": [],
        }),
        **kwargs
    )
