nb pool -j 1 | sed -E 's/[0-9]+\.[0-9]+/N/; s/ +/ /g'
nb pool -j 2 --json | check_json pool threads
