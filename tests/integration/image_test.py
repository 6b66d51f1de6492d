"""The image for CPUs: built without registry and daemon, it trains the demo job on three "hosts", and a container that is killed
is replaced by another one while the rest keep their processes.

Debian's own tools make what a registry would give: debootstrap the base, buildah (storage in files, isolation by chroot) the
image and its containers. Needs root, network namespaces and Debian's mirror; `tests/run.sh --full` runs it.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from tests import report
from tests.integration.cluster import Cluster, Hosts, binary, full_tools_unavailable, namespaces_unavailable, pids_of

MAX_BYTES = 100 * 1000 * 1000
STEPS = 300


class Images:
    """A store of images and containers in a directory of its own."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.flags = ["--root", str(self.directory / "store"), "--runroot", str(self.directory / "run"),
                      "--storage-driver", "vfs"]

    def buildah(self, *args):
        """Returns the command's output."""
        result = subprocess.run(["buildah", *self.flags, *args], capture_output=True, text=True)
        if result.returncode != 0:
            raise AssertionError(f"buildah {args}: {result.stderr}")
        return result.stdout.strip()

    def make_base(self, name):
        root = self.directory / "base"
        log = self.directory / "debootstrap.log"
        with open(log, "wb") as out:
            made = subprocess.run(["debootstrap", "--variant=minbase", "bookworm", str(root)], stdout=out, stderr=out)
        if made.returncode != 0:
            raise AssertionError(f"debootstrap: {log.read_text()[-2000:]}")
        container = self.buildah("from", "scratch")
        self.buildah("add", "--quiet", container, str(root), "/")
        self.buildah("commit", "--quiet", container, name)
        self.buildah("rm", container)
        shutil.rmtree(root)

    def build_ours(self, tag, *flags):
        subprocess.run(["deploy/image/build.sh", "--tool=buildah", "--base=localhost/base", f"--tag={tag}",
                        "--bundle=deploy/ringmaster.tar.gz", *flags], check=True,
                       env={**os.environ, "RINGMASTER_IMAGE_FLAGS": " ".join(self.flags), "BUILDAH_ISOLATION": "chroot"})

    def make_programs(self, image, bin_dir, volume):
        """Programs in `bin_dir` that run those of the image, each in a new container, which sees `volume`; ringctl, which
        looks at them from outside, is the one here."""
        bin_dir.mkdir()
        (bin_dir / "ringctl").symlink_to(binary("ringctl"))
        buildah = " ".join(["buildah", *self.flags])
        for program in ("coordinator", "worker", "parameter_server"):
            script = bin_dir / program
            script.write_text(f"""#!/bin/sh
container=$({buildah} from --quiet {image}) || exit 1
exec {buildah} run --isolation chroot --volume {volume}:{volume} --volume /usr/include/c++:/usr/include/c++:ro \\
  "$container" -- {program} "$@"
""")
            script.chmod(0o755)


class ImageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        why = full_tools_unavailable("buildah", "debootstrap") or namespaces_unavailable()
        if why:
            raise unittest.SkipTest(why)
        os.environ["PATH"] += ":/usr/sbin:/sbin"
        cls.directory = pathlib.Path(tempfile.mkdtemp(prefix="ringmaster-image-"))
        cls.images = Images(cls.directory)
        cls.images.make_base("localhost/base")
        cls.images.build_ours("localhost/ringmaster:test")

    @classmethod
    def tearDownClass(cls):
        subprocess.run(["buildah", *cls.images.flags, "rm", "--all"], capture_output=True)
        shutil.rmtree(cls.directory, ignore_errors=True)

    def test_is_small_and_has_nobody_in_it(self):
        image = json.loads(self.images.buildah("inspect", "--type", "image", "localhost/ringmaster:test"))
        config = image["OCIv1"]["config"]
        self.assertEqual(config["User"], "65532:65532")
        self.assertRegex(config["Labels"]["org.opencontainers.image.version"], r"^\d+\.\d+\.\d+$")
        self.assertIn("org.opencontainers.image.revision", config["Labels"])
        container = self.images.buildah("from", "--quiet", "localhost/ringmaster:test")
        said = self.images.buildah("run", "--isolation", "chroot", container, "--", "ringctl", "submit", "--help")
        self.assertIn("Queue a job", said)
        root = pathlib.Path(self.images.buildah("mount", container))
        files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
        size = sum(path.stat().st_size for path in files)
        print(f"image: {size / 1e6:.1f} MB in {len(files)} files")
        self.assertLess(size, MAX_BYTES)
        programs = {path.name for path in files if path.stat().st_mode & 0o111 and path.parent.name in ("bin", "sbin")}
        self.assertEqual(programs, {"coordinator", "worker", "parameter_server", "ringctl"})
        self.assertFalse([path for path in files if path.stat().st_mode & 0o6000], "set-user-ID programs")

    def test_the_one_for_gpus_has_programs_and_user(self):
        # On Debian instead of NVIDIA's image, which needs a registry: the layers that the Dockerfile adds are the same.
        self.images.build_ours("localhost/ringmaster:test-cuda", "--device=cuda")
        config = json.loads(self.images.buildah("inspect", "--type", "image", "localhost/ringmaster:test-cuda"))["OCIv1"]["config"]
        self.assertEqual(config["User"], "65532:65532")
        self.assertIn("NVIDIA_DRIVER_CAPABILITIES=compute,utility", config["Env"])
        container = self.images.buildah("from", "--quiet", "localhost/ringmaster:test-cuda")
        said = self.images.buildah("run", "--isolation", "chroot", container, "--", "worker", "--version")
        self.assertRegex(said, r"ringmaster \d+\.\d+\.\d+")

    def test_trains_the_demo_job_and_replaces_a_container(self):
        bin_dir = self.directory / "bin"
        with Hosts(4) as (head, *nodes), Cluster() as cluster:
            cluster.directory.chmod(0o777)
            self.images.make_programs("localhost/ringmaster:test", bin_dir, cluster.directory)
            os.environ["RINGMASTER_BIN_DIR"] = str(bin_dir)
            self.addCleanup(os.environ.pop, "RINGMASTER_BIN_DIR")
            cluster.start_coordinator(host=head, budget="5s")
            # A container gets no variables.
            roots = ("--allow_read=/usr/include/c++", f"--allow_write={cluster.directory}")
            for name, node in zip("ab", nodes):
                cluster.start_worker(name, *roots, host=node)
            cluster.await_workers(2)
            job_file = shutil.copy("deploy/local/job.yaml", cluster.directory)
            job = cluster.query("submit", job_file, f"--set=train.steps={STEPS}", "--set=workers.max=2",
                                f"--set=train.checkpoint.directory={cluster.directory}/checkpoints")["id"]
            cluster.await_step(job, STEPS // 10)
            before = pids_of(cluster.job(job))
            self.assertEqual(set(before), {"a", "b"})
            os.kill(before["b"], signal.SIGKILL)
            cluster.start_worker("c", *roots, host=nodes[2])
            cluster.await_that("the replacement trains", lambda: "c" in pids_of(cluster.job(job)))
            after = pids_of(cluster.job(job))
            self.assertEqual(after["a"], before["a"], "the survivor has another process")
            ended = cluster.await_job(job, "SUCCEEDED", timeout=300)
            self.assertEqual(int(ended["figures"]["step"]), STEPS)
            self.assertLess(float(ended["figures"]["evaluation_loss"]), 3.5, "it has not learnt anything")
            self.assertTrue(list((cluster.directory / "checkpoints").glob("step-*")), "there is no checkpoint")


if __name__ == "__main__":
    sys.exit(report.main())
