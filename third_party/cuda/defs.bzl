"""cuda_library: device code compiled by nvcc or, to be emulated, by the C++ compiler; a dependency like any cc_library."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@cuda//:toolkit.bzl", "CUDA_INSTALLED", "CUDA_TOOLKIT", "CUDA_VERSION")

CudaArchitecturesInfo = provider(
    doc = "The architectures that device code is compiled for.",
    fields = {"names": "list of sm_N (machine code) and compute_N (PTX, which later GPUs translate at start)"},
)

def _cuda_architectures_impl(ctx):
    names = [name for name in ctx.build_setting_value.split(",") if name]
    for name in names:
        if not name.startswith("sm_") and not name.startswith("compute_"):
            fail("--%s: %r is neither sm_N nor compute_N" % (ctx.label, name))
    return CudaArchitecturesInfo(names = names)

cuda_architectures = rule(
    doc = "A build setting: a list like sm_90a,compute_80.",
    implementation = _cuda_architectures_impl,
    build_setting = config.string(flag = True),
)

def _architecture_flags(names):
    return ["-gencode=arch=compute_%s,code=%s" % (name.split("_")[1], name) for name in names]

def _preprocessor_args(args, context):
    args.add_all(context.defines, before_each = "-D")
    args.add_all(context.quote_includes, before_each = "-I")  # nvcc has no -iquote
    args.add_all(context.includes, before_each = "-I")
    args.add_all(context.system_includes, before_each = "-isystem")

def _compile(ctx, source, context, headers):
    output = ctx.actions.declare_file("_objs/%s/%s.o" % (ctx.label.name, source.basename))
    args = ctx.actions.args()
    args.add_all(["-c", source, "-o", output])
    args.add_all(["-std=c++20", "-O3", "-lineinfo", "-ccbin=/usr/bin/g++"])
    # A constexpr function may be called on the device too, so that host and device can share one.
    args.add("--expt-relaxed-constexpr")
    args.add_all(["--Werror=all-warnings", "-Xcompiler=-Wall,-g1"])
    # Not used by the code: it makes another toolkit's objects a cache miss.
    args.add("-DRINGMASTER_NVCC=" + CUDA_VERSION)
    args.add_all(_architecture_flags(ctx.attr._architectures[CudaArchitecturesInfo].names))
    # nvcc finds its own headers, but CUDA 13 keeps CCCL's (cub, thrust, cuda/std) apart.
    args.add_all(["-isystem", CUDA_TOOLKIT + "/include/cccl"])
    _preprocessor_args(args, context)
    args.add_all(ctx.attr.copts)
    ctx.actions.run(
        executable = CUDA_TOOLKIT + "/bin/nvcc",
        arguments = [args],
        inputs = depset([source] + headers, transitive = [context.headers]),
        outputs = [output],
        mnemonic = "CudaCompile",
        progress_message = "Compiling %s with nvcc" % source.short_path,
        use_default_shell_env = True,
    )
    return output

def _cuda_library_impl(ctx):
    if not CUDA_INSTALLED:
        fail("--config=cuda needs the CUDA toolkit: there is none in %s (set CUDA_HOME)" % CUDA_TOOLKIT)
    dep_infos = [dep[CcInfo] for dep in ctx.attr.deps]
    own = CcInfo(compilation_context = cc_common.create_compilation_context(
        headers = depset(ctx.files.hdrs),
        quote_includes = depset([".", ctx.bin_dir.path]),
    ))
    merged = cc_common.merge_cc_infos(direct_cc_infos = [own], cc_infos = dep_infos)

    private_headers = [f for f in ctx.files.srcs if f.extension != "cu"]
    objects = [
        _compile(ctx, source, merged.compilation_context, private_headers)
        for source in ctx.files.srcs
        if source.extension == "cu"
    ]
    cc_toolchain = find_cpp_toolchain(ctx)
    linking_context, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        name = ctx.label.name,
        feature_configuration = cc_common.configure_features(
            ctx = ctx,
            cc_toolchain = cc_toolchain,
            requested_features = ctx.features,
            unsupported_features = ctx.disabled_features,
        ),
        cc_toolchain = cc_toolchain,
        compilation_outputs = cc_common.create_compilation_outputs(
            objects = depset(objects),
            pic_objects = depset(objects),
        ),
        linking_contexts = [info.linking_context for info in dep_infos],
        disallow_dynamic_library = True,
    )
    return [
        DefaultInfo(files = depset(objects)),
        CcInfo(compilation_context = merged.compilation_context, linking_context = linking_context),
    ]

_cuda_library = rule(
    implementation = _cuda_library_impl,
    attrs = {
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "srcs": attr.label_list(allow_files = [".cu", ".cuh", ".h"]),
        "_architectures": attr.label(default = "//third_party/cuda:architectures"),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def _linked_only_impl(ctx):
    own = cc_common.create_compilation_context(
        headers = depset(ctx.files.hdrs),
        quote_includes = depset([".", ctx.bin_dir.path]),
    )
    compiled = cc_common.merge_cc_infos(
        direct_cc_infos = [CcInfo(compilation_context = own)],
        cc_infos = [dep[CcInfo] for dep in ctx.attr.headers],
    )
    linked = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.libraries])
    return [CcInfo(
        compilation_context = compiled.compilation_context,
        linking_context = linked.linking_context,
    )]

linked_only = rule(
    doc = """Links `libraries`, but shows only `hdrs` and those of `headers` to what depends on it.

    So one target can stand for another that has the same headers: what depends on either is compiled the same.
    """,
    implementation = _linked_only_impl,
    attrs = {
        "hdrs": attr.label_list(allow_files = True),
        "headers": attr.label_list(providers = [CcInfo]),
        "libraries": attr.label_list(providers = [CcInfo]),
    },
)

def _including_source_impl(ctx):
    ctx.actions.write(ctx.outputs.out, "#include \"%s\"\n" % ctx.file.src.short_path)

_including_source = rule(
    doc = "A source of one line that includes `src`, for rules that judge a file by its name.",
    implementation = _including_source_impl,
    attrs = {
        "out": attr.output(mandatory = True),
        "src": attr.label(allow_single_file = True, mandatory = True),
    },
)

# Warnings as in _compile, where nvcc does not mind an int beside threadIdx.x. Kernels read arrays through wider types,
# which it allows too.
_EMULATED_COPTS = ["-Wall", "-Wno-sign-compare", "-Wno-unknown-pragmas", "-fno-strict-aliasing"] + select({
    "//third_party:sanitized": [],
    "//conditions:default": ["-Werror", "-Wno-error=array-bounds", "-Wno-maybe-uninitialized"],
})

def _emulated_cuda_library(name, srcs, hdrs, deps, **kwargs):
    sources = []
    for src in srcs:
        if src.endswith(".cu"):
            sources.append("_%s/%s.cc" % (name, src))
            _including_source(name = "_%s_%s" % (name, src), out = sources[-1], src = src, **kwargs)
    native.cc_library(
        name = name + "_objects",
        srcs = sources + [src for src in srcs if src.endswith(".h")],
        hdrs = hdrs,
        copts = _EMULATED_COPTS,
        textual_hdrs = [src for src in srcs if not src.endswith(".h")],
        deps = deps,
        **kwargs
    )
    linked_only(name = name, hdrs = hdrs, headers = deps, libraries = [name + "_objects"], **kwargs)

def cuda_library(name, srcs, hdrs = [], deps = [], copts = [], tags = [], visibility = None, testonly = False):
    """A library with device code, whose files include worker/device/cuda/kernel.cuh.

    Only its declared headers and those of `deps` are visible to the compiler, so a changed header recompiles what
    includes it. It builds under --config=cuda (NAME_nvcc) and --config=cuda_emulated (NAME_emulated) alone: depend on
    it through select() on //third_party/cuda:enabled. Its dependents are compiled the same way in both.

    Args:
      name: of the target.
      srcs: .cu, and private .cuh and .h.
      hdrs: what others include.
      deps: cc_library and cuda_library targets; the CUDA runtime and kernel.cuh need not be named.
      copts: for nvcc.
      tags: as elsewhere; "manual" is added, so that `//...` leaves it out where CUDA is off.
      visibility: as elsewhere.
      testonly: as elsewhere.
    """
    deps = deps + ["//worker/device/cuda:cudart", "//worker/device/cuda:kernel"]
    common = {"tags": tags + ["manual"], "testonly": testonly, "visibility": ["//visibility:private"]}
    _cuda_library(name = name + "_nvcc", srcs = srcs, hdrs = hdrs, deps = deps, copts = copts, **common)
    _emulated_cuda_library(name = name + "_emulated", srcs = srcs, hdrs = hdrs, deps = deps, **common)
    native.alias(
        name = name,
        actual = select({
            "//third_party/cuda:emulated": name + "_emulated",
            "//conditions:default": name + "_nvcc",
        }),
        tags = tags + ["manual"],
        testonly = testonly,
        visibility = visibility,
    )
