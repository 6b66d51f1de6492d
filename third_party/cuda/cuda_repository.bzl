"""Finds the CUDA toolkit, if there is one."""

_BUILD = """\
package(default_visibility = ["//visibility:public"])

# For host code: what cuda_runtime.h, cublasLt.h, cudnn.h and nccl.h include. (CCCL's many headers are for
# device code, which nvcc reads where they are.)
cc_library(
    name = "headers",
    hdrs = glob(
        ["include/*.h", "include/*.hpp", "include/crt/**", "include/cccl/nv/**"],
        allow_empty = True,
    ),
    defines = ["RINGMASTER_CUDA_TOOLKIT={version}"],
    includes = ["include", "include/cccl"],
)

# Static, and it loads libcuda at run time: a program linked with it starts where neither driver nor toolkit is.
cc_library(
    name = "cudart",
    linkopts = [{cudart} "-ldl", "-lrt", "-pthread"],
    deps = [":headers"],
)
"""

def _cuda_repository_impl(ctx):
    toolkit = ctx.os.environ.get("CUDA_HOME", "/usr/local/cuda")
    nvcc = toolkit + "/bin/nvcc"
    cudart = toolkit + "/lib64/libcudart_static.a"
    installed = all([ctx.path(p).exists for p in [nvcc, cudart, toolkit + "/include/cuda_runtime.h"]])
    version = "none"
    if installed:
        words = ctx.execute([nvcc, "--version"]).stdout.split(" ")
        versions = [w.strip(",\n") for w in words if w.startswith("V")]
        version = versions[0].split("\n")[0] if versions else "unknown"
        ctx.symlink(toolkit + "/include", "include")
    ctx.file("BUILD", _BUILD.format(
        cudart = "\"%s\"," % cudart if installed else "",
        version = version,
    ))
    ctx.file("toolkit.bzl", "CUDA_INSTALLED = %s\nCUDA_TOOLKIT = %r\nCUDA_VERSION = %r\n" % (installed, toolkit, version))

cuda_repository = repository_rule(
    doc = "Declares a repository for the toolkit in $CUDA_HOME or /usr/local/cuda; an empty one if there is none.",
    implementation = _cuda_repository_impl,
    environ = ["CUDA_HOME"],
    # Looks at the system, so it is evaluated again when the Bazel server starts.
    local = True,
)
