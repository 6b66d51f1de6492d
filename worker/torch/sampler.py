"""DistributedSampler: PyTorch's, with a place to go on from."""

import torch
import torch.distributed as dist
from torch.utils.data import Sampler


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

    def set_epoch(self, epoch, used=0):
        """The next iteration is of `epoch`, from behind its first `used` samples on."""
        if used < 0:
            raise ValueError("used must not be negative: %d" % used)
        self.epoch, self.used = epoch, min(used, len(self.dataset))

    def __len__(self):
        left = len(self.dataset) - self.used
        return left // self.num_replicas if self.drop_last else -(-left // self.num_replicas)

    def __iter__(self):
        size = len(self.dataset)
        if self.shuffle:
            generator = torch.Generator().manual_seed((self.seed * 1000003 + self.epoch) % (1 << 63))
            order = torch.randperm(size, generator=generator).tolist()
        else:
            order = list(range(size))
        first = self.used + self.rank
        return iter([order[place % size] for place in range(first, first + len(self) * self.num_replicas, self.num_replicas)])
