q bench --size 1 --repeat 1 --isa scalar -e int8 --block 32 | sed -E 's/[0-9]+\.[0-9]+/N/g; s/ +/ /g'
