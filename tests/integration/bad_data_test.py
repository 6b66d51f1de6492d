"""Data, checkpoints and parameters that cannot be used, with real processes: one line that names the file or field and
what is wrong with it, the documented exit code, and workers that take the next job."""

import json
import pathlib
import struct
import tempfile
import unittest

from tests import report
from tests.integration import data_files
from tests.integration.cluster import Cluster
from tests.integration.jobs import TINY_CNN, TINY_GPT, cnn_job, gpt_job, train_job

USAGE = 2
UNREADABLE = 5
RETRY = 138
VOCABULARY = 64


class BadDataTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = pathlib.Path(scratch.name)
        self.cluster = self.enterContext(Cluster())
        self.cluster.start_coordinator()
        self.cluster.start_worker("a", slots=2)

    def write(self, name, contents):
        path = self.directory / name
        path.write_bytes(contents)
        return path

    def expect_failure(self, job_text, code, *words):
        """Expects that the job is admitted and fails with one line that contains the words."""
        job = self.cluster.run_job(job_text, "FAILED")
        self.assertEqual(int(job["exit_code"]), code, job["message"])
        self.assertEqual(len(job["message"].splitlines()), 1, job["message"])
        for word in words:
            self.assertIn(str(word), job["message"])

    def expect_refusal(self, job_text, *words):
        """Expects that the job is not admitted."""
        path = self.write("refused.yaml", job_text.encode())
        self.expect_line(self.cluster.ringctl("submit", str(path)), USAGE, *words)

    def expect_line(self, result, code, *words):
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for word in words:
            self.assertIn(str(word), result.stderr)

    def expect_success(self, job_text):
        """Expects that the job succeeds: nothing before it has harmed the workers."""
        return self.cluster.run_job(job_text)

    # Images.

    def test_files_of_images_that_cannot_be_used(self):
        images, labels = data_files.write_images(self.directory)
        held_out = data_files.write_images(self.directory, prefix="test", count=32)
        whole = images.read_bytes()
        cut = self.write("cut", whole[:-5])
        zipped = self.write("zipped.gz", data_files.write_images(self.directory, "z", compress=True)[0].read_bytes()[:-99])
        strange = self.write("strange", b"\x00\x00\x0d\x03" + whole[4:])
        fewer = self.write("fewer", data_files.idx_labels([1] * 9))
        missing = self.directory / "missing"
        for bad_images, bad_labels, words in (
                (cut, labels, ("train.data.images.images: ", cut, "expected 16384 bytes", "16379")),
                (zipped, labels, (zipped, "damaged gzip data")),
                (strange, labels, (strange, "0x00000d03", "0x00000803")),
                (labels, images, (labels, "swapped")),
                (images, fewer, ("train.data.images.labels: ", fewer, "9 labels", "256 images")),
                (missing, labels, (missing, "No such file")),
                (images, missing, (missing, "No such file"))):
            with self.subTest(words=words):
                self.expect_failure(cnn_job(bad_images, bad_labels, workers=2), UNREADABLE, *words)
        self.expect_failure(cnn_job(images, labels, 2, cnn={"height": 16}), UNREADABLE, images, "8 x 8", "128")
        self.expect_failure(cnn_job(images, labels, 2, data={
            "evaluation_images": str(missing), "evaluation_labels": str(held_out[1])}), UNREADABLE,
                            "train.data.images.evaluation_images: ", missing)
        self.expect_success(cnn_job(images, labels, 2, steps=2))

    def test_labels_that_the_model_does_not_have(self):
        images, labels = data_files.write_images(self.directory, count=100)
        contents = bytearray(labels.read_bytes())
        for index in (3, 40):
            contents[8 + index] = 17
        damaged = self.write("damaged", contents)
        self.expect_failure(cnn_job(images, damaged, 2), UNREADABLE, "train.data.images.labels: ", damaged,
                            "label 3 is 17", "10 classes", "corrupt_records: skip")
        job = self.expect_success(cnn_job(images, damaged, 2, steps=3, data={"corrupt_records": "skip"}))
        self.assertEqual(int(job["figures"]["skipped_samples"]), 2)
        event, = self.cluster.await_event(job["id"], "data.skipped")
        self.assertIn("2 samples", event["message"])
        hopeless = self.write("hopeless", data_files.idx_labels([200] * 100))
        self.expect_failure(cnn_job(images, hopeless, 2, data={"corrupt_records": "skip"}), UNREADABLE, images,
                            "none to train on")

    # Pictures.

    def pictures_job(self, path, **train):
        return train_job({"cnn": TINY_CNN}, {"image_folder": {"path": str(path), "crop_area": 1, **train.pop("data", {})}}, workers=2,
                         **train)

    def test_folders_of_pictures_that_cannot_be_used(self):
        pictures = data_files.write_pictures(self.directory / "pictures", count=200)
        empty = self.directory / "empty"
        empty.mkdir()
        self.expect_failure(self.pictures_job(self.directory / "missing"), UNREADABLE, "train.data.image_folder.path: ", "No such file")
        self.expect_failure(self.pictures_job(empty), UNREADABLE, empty, "no subdirectories")
        self.expect_failure(self.pictures_job(pictures, data={"evaluation_path": str(empty)}), UNREADABLE,
                            "train.data.image_folder.evaluation_path: ", empty)
        few = data_files.write_pictures(self.directory / "few", count=30, classes=3)
        self.expect_failure(self.pictures_job(few), UNREADABLE, few, "3 subdirectories", "10 classes")
        damaged = sorted((pictures / "3").iterdir())[0]
        damaged.write_bytes(damaged.read_bytes()[:60])
        # It is met in the first epoch.
        self.expect_failure(self.pictures_job(pictures, steps=100), UNREADABLE, damaged, "the PNG is damaged", "corrupt_records: skip")
        job = self.expect_success(self.pictures_job(pictures, steps=20, data={"corrupt_records": "skip"}))
        self.assertEqual(int(job["figures"]["skipped_samples"]), 1)

    # Tokens.

    def tokens_job(self, path, vocabulary=VOCABULARY, **train):
        data = {"tokens": {"path": str(path), **train.pop("data", {})}}
        return train_job({"gpt": {**TINY_GPT, "vocabulary": vocabulary}}, data, workers=2, **train)

    def test_files_of_tokens_that_cannot_be_used(self):
        chain = data_files.token_chain(4000, VOCABULARY)
        good = data_files.write_tokens(self.directory / "good.bin", chain)
        raw = data_files.write_tokens(self.directory / "raw.bin", chain, header=False)
        cut = self.write("cut.bin", good.read_bytes()[:-100])
        odd = self.write("odd.bin", raw.read_bytes()[:-1])
        wide = self.write("wide.bin", struct.pack("<256i", 20240801, 7, 100, *[0] * 253) + bytes(400))
        missing = self.directory / "missing.bin"
        empty = self.directory / "empty"
        empty.mkdir()
        for path, words in ((cut, ("4000 tokens", "cut short")), (odd, ("7999 bytes", "cut short")),
                            (wide, ("32-bit tokens",)), (missing, ("No such file",)), (empty, (".bin",))):
            with self.subTest(path=path):
                self.expect_failure(self.tokens_job(path), UNREADABLE, path, *words)
        self.expect_failure(self.tokens_job(good, data={"evaluation_path": str(missing)}), UNREADABLE, missing)
        self.expect_success(self.tokens_job(good, steps=2))

    def test_tokens_that_the_model_does_not_have(self):
        chain = data_files.token_chain(4000, VOCABULARY)
        chain[1000] = VOCABULARY
        path = data_files.write_tokens(self.directory / "tokens.bin", chain)
        self.expect_failure(self.tokens_job(path), UNREADABLE, "train.data.tokens.path: ", path, "1000", VOCABULARY,
                            "corrupt_records: skip")
        job = self.expect_success(self.tokens_job(path, steps=3, data={"corrupt_records": "skip"}))
        self.assertGreater(int(job["figures"]["skipped_samples"]), 0)
        self.assertTrue(self.cluster.await_event(job["id"], "data.skipped"))

    # Text.

    def test_texts_and_vocabularies_that_cannot_be_used(self):
        tiny = self.write("tiny", b"too little to hold some of it out for evaluation")
        self.expect_failure(gpt_job(tiny, 2, evaluate_every=10), UNREADABLE, "train.data.text.eval_fraction", "hold out more")
        text = data_files.write_text(self.directory / "text")
        vocabulary, merges = data_files.write_tokenizer(self.directory, data_files.sentences(2000))
        malformed = self.write("malformed.json", vocabulary.read_bytes()[:-20])
        swapped = self.write("swapped.txt", b"#version: 0.2\nno such\n")
        missing = self.directory / "missing"

        def bpe_job(vocabulary, merges, tokens=512):
            data = {"text": {"path": str(text), "vocabulary": str(vocabulary), "merges": str(merges)}}
            return gpt_job(text, 2, gpt={"vocabulary": tokens}, data=data, steps=2)

        size = data_files.vocabulary_size(vocabulary)
        self.expect_failure(bpe_job(vocabulary, merges, tokens=size - 1), UNREADABLE, vocabulary, f"{size} tokens", size - 1)
        self.expect_failure(bpe_job(malformed, merges), UNREADABLE, malformed, "malformed JSON")
        self.expect_failure(bpe_job(vocabulary, swapped), UNREADABLE, swapped, "line 2")
        self.expect_failure(bpe_job(vocabulary, missing), UNREADABLE, missing, "No such file")
        self.expect_refusal(gpt_job(text, 2, data={"text": {"path": str(text), "vocabulary": str(vocabulary)}}),
                            "train.data.text.merges", "missing")
        self.expect_success(bpe_job(vocabulary, merges))

    # Models.

    def test_models_that_do_not_fit_their_data_or_their_host(self):
        text = data_files.write_text(self.directory / "text")
        images, labels = data_files.write_images(self.directory)
        sample = {"prompt": "once"}
        self.expect_refusal(train_job({"cnn": {}}, {"text": {"path": str(text)}}), "train.model.cnn", "images")
        self.expect_refusal(gpt_job(text, data={"images": {"images": str(images), "labels": str(labels)}}), "train.data.images")
        self.expect_refusal(gpt_job(text, gpt={"width": 16384, "layers": 100}), "train.model.gpt", "parameters", "2147483648")
        self.expect_refusal(cnn_job(images, labels, sample=sample), "train.sample", "cnn")

    def test_a_model_that_is_too_large_for_the_host(self):
        text = data_files.write_text(self.directory / "text")
        rank_bytes = 4 * 4 * 12 * 4096**2 * 10
        meminfo = pathlib.Path("/proc/meminfo").read_text()
        host_bytes = int(meminfo.split("MemTotal:")[1].split()[0]) * 1024
        workers = host_bytes // rank_bytes + 1
        if workers > 16:
            self.skipTest(f"a host of {host_bytes >> 30} GiB holds the largest model that a job may have too often")
        self.cluster.start_worker("more", slots=workers)
        large = {"width": 4096, "layers": 10, "heads": 32, "window": 8}
        self.expect_failure(gpt_job(text, workers, gpt=large, global_batch=workers), RETRY, "does not fit in memory",
                            "parameters", "gradients", "moments", "MB")
        self.expect_success(gpt_job(text, 2, steps=2))

    # Parameters that a job starts with.

    def test_initial_parameters_that_cannot_be_used(self):
        text = data_files.write_text(self.directory / "text")
        missing = self.directory / "missing.safetensors"
        noise = self.write("noise.safetensors", b"no safetensors at all" * 9)
        header = json.dumps({"transformer.ln_f.weight": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
        other = self.write("other.safetensors", struct.pack("<Q", len(header)) + header + bytes(16))
        for path, words in ((missing, ("No such file",)), (noise, ("safetensors",)),
                            (other, ("transformer.ln_f.weight", "[4]", "[32]"))):
            with self.subTest(path=path):
                self.expect_failure(gpt_job(text, 2, initial_parameters=str(path)), UNREADABLE,
                                    "train.initial_parameters", path, *words)

    def train_with_checkpoints(self, text, **train):
        """Trains with two checkpoints, of steps 10 and 20; returns their paths."""
        directory = self.directory / "checkpoints"
        checkpoint = {"directory": str(directory), "every_steps": 10}
        self.expect_success(gpt_job(text, 2, steps=20, checkpoint=checkpoint, **train))
        return [directory / f"step-{step:09}" for step in (10, 20)]

    def start_again(self, text, steps):
        """The message of the job's checkpoint.loaded event."""
        directory = self.directory / "checkpoints"
        job = self.expect_success(gpt_job(text, 2, steps=steps, checkpoint={"directory": str(directory)}))
        event, = self.cluster.await_event(job["id"], "checkpoint.loaded")
        return event["message"]

    def test_damaged_checkpoints_are_passed_over(self):
        text = data_files.write_text(self.directory / "text")
        older, newer = self.train_with_checkpoints(text)
        file = newer / "model.safetensors"
        with open(file, "r+b") as stream:
            stream.seek(-1000, 2)
            byte = stream.read(1)
            stream.seek(-1, 1)
            stream.write(bytes([byte[0] ^ 1]))
        message = self.start_again(text, steps=12)
        self.assertIn(f"starts from {older}", message)
        self.assertIn(str(file), message)
        # No whole checkpoint is left.
        (newer / "checkpoint.json").write_text("{}")
        damaged = [newer / "checkpoint.json"]
        for checkpoint in set(newer.parent.glob("step-*")) - {newer}:
            damaged.append(checkpoint / "optimizer.safetensors")
            with open(damaged[-1], "r+b") as stream:
                stream.truncate(5000)
        message = self.start_again(text, steps=3)
        self.assertIn("starts from the beginning", message)
        for path in damaged:
            self.assertIn(str(path), message)

    def test_a_checkpoint_of_another_model_is_refused(self):
        text = data_files.write_text(self.directory / "text")
        _, newer = self.train_with_checkpoints(text)
        checkpoint = {"directory": str(newer.parent)}
        self.expect_failure(gpt_job(text, 2, gpt={"width": 64}, checkpoint=checkpoint), USAGE, newer,
                            "transformer.ln_f.weight", "[32]", "[64]")

    # ringctl sample.

    def sample(self, checkpoint, *flags):
        return self.cluster.ringctl_sample(f"--checkpoint={checkpoint}", *(flags or ("--prompt=the",)))

    def test_models_that_cannot_be_sampled(self):
        text = data_files.write_text(self.directory / "text")
        empty = self.directory / "empty"
        empty.mkdir()
        self.expect_line(self.sample(self.directory / "missing"), UNREADABLE, self.directory / "missing")
        self.expect_line(self.sample(empty), UNREADABLE, empty, "no complete checkpoint")
        self.expect_line(self.cluster.ringctl_sample("--prompt=the"), USAGE, "--checkpoint")

        images, labels = data_files.write_images(self.directory)
        self.expect_success(cnn_job(images, labels, 2, steps=1, checkpoint={"directory": str(self.directory / "cnn")}))
        self.expect_line(self.sample(self.directory / "cnn"), USAGE, "cnn", "does not write text")

        self.expect_success(gpt_job(text, 2, gpt={"vocabulary": 300}, steps=1,
                                    checkpoint={"directory": str(self.directory / "bpe")}))
        self.expect_line(self.sample(self.directory / "bpe"), USAGE, "300 tokens", "--vocabulary", "--merges")
        self.expect_line(self.sample(self.directory / "bpe", "--prompt=a", "--vocabulary=/no/it"), USAGE, "--merges")
        missing = ("--vocabulary=/no/vocab.json", "--merges=/no/merges")
        self.expect_line(self.sample(self.directory / "bpe", "--prompt=a", *missing), UNREADABLE, "/no/vocab.json")
        older, newer = self.train_with_checkpoints(text)
        self.expect_line(self.sample(newer.parent, "--prompt="), USAGE, "--prompt")
        file = newer / "model.safetensors"
        file.write_bytes(file.read_bytes()[:-4] + b"\xff\xff\xff\xff")
        self.expect_line(self.sample(newer), 4, file)
        for step in (older, newer):
            (step / "checkpoint.json").write_text("{")
        self.expect_line(self.sample(newer.parent), UNREADABLE, "no complete checkpoint", newer / "checkpoint.json")
        # Without a manifest, it is a model in Hugging Face's layout.
        (newer / "checkpoint.json").unlink()
        (newer / "config.json").write_text('{"model_type": "gpt2", "vocab_size": 256}')
        self.expect_line(self.sample(newer), USAGE, newer / "config.json", "n_positions")


if __name__ == "__main__":
    report.main()
