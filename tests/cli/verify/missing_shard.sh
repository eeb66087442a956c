q verify $DATA/bad/missing_shard
