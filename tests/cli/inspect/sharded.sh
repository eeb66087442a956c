q inspect $DATA/sharded -v
