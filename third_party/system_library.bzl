"""A repository rule for a library that the distribution installed."""

def _system_library_impl(ctx):
    if not ctx.path(ctx.attr.probe).exists:
        fail("%s is missing (no %s): run deploy/setup.sh, or apt-get install %s" %
             (ctx.name, ctx.attr.probe, ctx.attr.package))

    # Bazel does not look inside /usr/include, so an upgraded package would leave stale objects behind, and a shared
    # disk cache would mix two versions. The version on the command line makes either a cache miss.
    result = ctx.execute(["dpkg-query", "--showformat=${Version}", "--show", ctx.attr.package])
    version = result.stdout.strip() if result.return_code == 0 else "unknown"
    ctx.file("version.bzl", "VERSION_DEFINE = \"RINGMASTER_%s_PACKAGE=%s\"\n" % (ctx.name.upper(), version))
    ctx.symlink(ctx.attr.build_file, "BUILD")
    for path in ctx.attr.files:
        ctx.symlink(path, path.rpartition("/")[2])

def system_library(name, package, probe, files = []):
    """Declares @name, whose targets //third_party:NAME.BUILD lists.

    Args:
      name: of the repository.
      package: the Debian package that has the headers; named in the error if it is missing.
      probe: a header of that package, or another file.
      files: of that package, which targets use as they are; each has its own name in the repository.
    """
    _system_library(
        name = name,
        build_file = "//third_party:%s.BUILD" % name,
        package = package,
        probe = probe,
        files = files,
    )

_system_library = repository_rule(
    implementation = _system_library_impl,
    attrs = {
        "build_file": attr.label(allow_single_file = True, mandatory = True),
        "files": attr.string_list(),
        "package": attr.string(mandatory = True),
        "probe": attr.string(mandatory = True),
    },
    # Looks at the system, so it is evaluated again when the Bazel server starts.
    local = True,
)
