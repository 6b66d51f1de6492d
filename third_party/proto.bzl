"""Protocol buffers and gRPC services, generated with the system's protoc.

The import root is //proto: proto/ringmaster/v1/job.proto is imported as "ringmaster/v1/job.proto", and its header is
included as "ringmaster/v1/job.pb.h".
"""

_ROOT = "proto"

# Generated code is not ours to warn about.
_COPTS = ["-w"]

def _with_suffix(label, suffix):
    if ":" in label:
        return label + suffix
    if label.startswith("//"):
        return label + ":" + label.split("/")[-1] + suffix
    fail("rm_proto_library: write %r as \":name\" or \"//package:name\"" % label)

def _generate(name, srcs, deps, extensions, flags):
    package = native.package_name()
    if package != _ROOT and not package.startswith(_ROOT + "/"):
        fail("protos live under //%s, not in //%s" % (_ROOT, package))
    outs = [src[:-len(".proto")] + extension for src in srcs for extension in extensions]
    native.genrule(
        name = name,
        srcs = srcs + deps,
        outs = outs,
        cmd = "protoc --proto_path=%s %s %s" % (
            _ROOT,
            flags,
            " ".join(["$(location %s)" % src for src in srcs]),
        ),
        message = "Generating C++ from the protos of",
        visibility = ["//visibility:private"],
    )
    return outs

def _library(name, outs, deps, visibility, testonly):
    native.cc_library(
        name = name,
        srcs = [out for out in outs if out.endswith(".cc")],
        hdrs = [out for out in outs if out.endswith(".h")],
        copts = _COPTS,
        testonly = testonly,
        visibility = visibility,
        deps = deps + ["//proto:import_root"],
    )

def rm_proto_library(name, srcs, deps = [], visibility = None, testonly = False):
    """Makes :NAME_cc_proto, a cc_library of messages.

    Args:
      name: also names :NAME, the .proto files with all that they import.
      srcs: .proto files of this package.
      deps: other rm_proto_library or rm_grpc_library targets by their plain names (":job"). The well-known types of
        google/protobuf need none.
      visibility: of the targets.
      testonly: as elsewhere.
    """
    native.filegroup(
        name = name,
        srcs = srcs + deps,
        testonly = testonly,
        visibility = visibility,
    )
    outs = _generate(
        name = name + "_cc_proto_gen",
        srcs = srcs,
        deps = deps,
        extensions = [".pb.cc", ".pb.h"],
        flags = "--cpp_out=$(BINDIR)/" + _ROOT,
    )
    _library(
        name = name + "_cc_proto",
        outs = outs,
        deps = [_with_suffix(dep, "_cc_proto") for dep in deps] + ["@protobuf//:protobuf"],
        visibility = visibility,
        testonly = testonly,
    )

def rm_grpc_library(name, srcs, deps = [], visibility = None, testonly = False):
    """Makes :NAME_cc_proto as rm_proto_library does, and :NAME_cc_grpc with the services' stubs and skeletons."""
    rm_proto_library(name, srcs, deps, visibility, testonly)
    outs = _generate(
        name = name + "_cc_grpc_gen",
        srcs = srcs,
        deps = deps,
        extensions = [".grpc.pb.cc", ".grpc.pb.h"],
        flags = "--grpc_out=$(BINDIR)/%s --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin" % _ROOT,
    )
    _library(
        name = name + "_cc_grpc",
        outs = outs,
        deps = [":" + name + "_cc_proto", "@grpc//:grpc++"],
        visibility = visibility,
        testonly = testonly,
    )
