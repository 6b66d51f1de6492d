"""benchmark_test: a test of a benchmark for GPUs."""

def benchmark_test(name, benchmark, deps, tags = [], **kwargs):
    """py_test of NAME.py that runs `benchmark`, and skips in a build without CUDA, where there is none.

    Args:
      name: of the test.
      benchmark: the program.
      deps: beside //tests:report.
      tags: beside those that all of them have.
      **kwargs: as elsewhere.
    """
    native.py_test(
        name = name,
        size = "medium",
        srcs = [name + ".py"],
        data = select({
            "//third_party/cuda:enabled": [benchmark],
            "//conditions:default": [],
        }),
        python_version = "PY3",
        tags = [
            "gpu",
            "no_asan",
            "no_tsan",
        ] + tags,
        deps = deps + ["//tests:report"],
        **kwargs
    )
