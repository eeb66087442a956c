q bench --size 0
