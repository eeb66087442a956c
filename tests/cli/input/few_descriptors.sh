# The soft limit of open files does not limit the number of shards.
ulimit -S -n 5
q verify $DATA/sharded
