q plan $DATA/sharded
