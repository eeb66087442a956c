q bench --size 1
