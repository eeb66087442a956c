# Shards keep their names; the index is written again.
q quantize $DATA/sharded -o out | figures
ls -A out
q verify out
