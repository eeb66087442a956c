nb codec --size 1 --turns 1 --isa portable -e int8 --block 32 | sed -E 's/[0-9]+\.[0-9]+/N/g; s/ +/ /g'
