q verify $DATA/bad/wrong_shard
