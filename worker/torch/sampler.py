"""DistributedSampler: PyTorch's, with a place to go on from."""

import sys

import torch
import torch.distributed as dist
from torch.utils.data import Sampler
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter


def _reads_ahead():
    """Whether it is a DataLoader with processes of its own that asks for samples."""
    frame = sys._getframe()
    while frame is not None and not isinstance(frame.f_locals.get("self"), _MultiProcessingDataLoaderIter):
        frame = frame.f_back
    return frame is not None


class DistributedSampler(Sampler):
    """Gives each rank its share of a data set, as torch.utils.data.DistributedSampler does, and goes on in the middle of an epoch with any
    number of ranks: then every sample that is left comes once, and none that was used comes again.

    The order of an epoch depends on `seed` and its number alone. Rank r of n takes the places r, r + n, r + 2n, ... from where the epoch
    goes on. Where the samples that are left do not divide by n, the first ones of the order come again for the last ranks, or, with
    `drop_last`, the last ones are left out, so that all ranks have as many.

        sampler.set_epoch(epoch, used)      # used: samples of all ranks together, since the epoch began; 0 at its beginning
        for batch in loader:
            ...
            used += len(batch) * dist.get_world_size()
            save({"epoch": epoch, "used": used, ...})

    With ringmaster_torch.attach the ranks share what is left of an epoch anew whenever one is lost or comes, each sample once: also those
    that a lost rank had taken in the step in which it was lost. It has to be asked for samples as they are needed, so a DataLoader must
    not read ahead (num_workers=0).
    """

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        super().__init__(dataset)
        self.dataset = dataset
        self.num_replicas = dist.get_world_size() if num_replicas is None else num_replicas
        self.rank = dist.get_rank() if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError("rank %d of %d replicas" % (self.rank, self.num_replicas))
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch, self.used = 0, 0
        # What follows is of attach. _left: the samples of the epoch that were left when the ranks of _members shared them; _taken of them
        # have gone to each of these, _noted before the last step.
        self._take_in = None
        self._members = list(range(self.num_replicas))
        self._left, self._taken, self._noted = [], 0, 0
        self._resumed = None

    def set_epoch(self, epoch, used=0):
        """The next iteration is of `epoch`, from behind its first `used` samples on."""
        if used < 0:
            raise ValueError("used must not be negative: %d" % used)
        if self._resumed is not None and (epoch != self.epoch or used > 0):
            self._resumed = None  # the script knows better
        self.epoch, self.used = epoch, min(used, len(self.dataset))

    def __len__(self):
        left = len(self.dataset) - self.used
        return left // self.num_replicas if self.drop_last else -(-left // self.num_replicas)

    def _order(self):
        size = len(self.dataset)
        if self.shuffle:
            generator = torch.Generator().manual_seed((self.seed * 1000003 + self.epoch) % (1 << 63))
            order = torch.randperm(size, generator=generator).tolist()
        else:
            order = list(range(size))
        return order

    def __iter__(self):
        if self._take_in is not None:
            return self._shared()
        order, size = self._order(), len(self.dataset)
        first = self.used + self.rank
        return iter([order[place % size] for place in range(first, first + len(self) * self.num_replicas, self.num_replicas)])

    def _shared(self):
        if _reads_ahead():
            raise RuntimeError("ringmaster_torch.attach: the DataLoader of its sampler must not read ahead: num_workers=0")
        self._left = self._order()[self.used:] if self._resumed is None else self._resumed
        self._taken, self._noted, self._resumed = 0, 0, None
        while True:
            self._take_in()
            count, ranks = len(self._left), len(self._members)
            if self._taken >= (count // ranks if self.drop_last else -(-count // ranks)):
                return
            self._taken += 1
            yield self._left[((self._taken - 1) * ranks + self._members.index(self.rank)) % count]

    def follow(self, take_in):
        """Calls `take_in`, which may call what follows, before each sample."""
        self._take_in = take_in

    def note_step(self, contributors):
        """A step has been made with the samples of these ranks."""
        if contributors != self._members:
            self.settle(contributors)
        self._noted = self._taken

    def settle(self, contributors):
        """What is left is shared anew, among these ranks; what others took for the last step is left, too."""
        ranks, again = len(self._members), []
        for turn in range(self._noted, self._taken):
            places = [turn * ranks + place for place, rank in enumerate(self._members) if rank not in contributors]
            again += [self._left[place] for place in places if place < len(self._left)]
        self._left = again + self._left[self._taken * ranks:]
        self._taken = self._noted = 0
        self._members = list(contributors)

    def share_among(self, members):
        """After settle or go_to."""
        self._members = members

    def position(self):
        """For go_to of another rank; after settle."""
        return self.epoch, torch.tensor(self._left)

    def go_to(self, position):
        self.epoch, left = position
        self._resumed = left.tolist()
        self.used = 0
