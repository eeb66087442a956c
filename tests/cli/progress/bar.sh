# On a terminal there is a bar, and nothing is left of it.
q quantize $DATA/large.safetensors -o a.safetensors --fake-tty 2>err >/dev/null
tr '\r' '\n' <err | sed -n '2p' | sed -E 's/ +[0-9]+%/ P%/; s,[0-4]/4,N/4,; s/\[[#-]+\]/[BAR]/; s/[0-9.]+ MB/R MB/; s/ETA .*\x1b/ETA T\x1b/' | cat -v
tail -c 4 err | od -c | head -n 1
