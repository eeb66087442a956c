q plan nowhere.safetensors --fake-tty 2>&1 | head -c 30 | od -c | head -n 2
NO_COLOR=1 q plan nowhere.safetensors --fake-tty 2>&1 | head -c 12 | od -c | head -n 1
NO_COLOR= q plan nowhere.safetensors --fake-tty 2>&1 | head -c 12 | od -c | head -n 1
TERM=dumb q plan nowhere.safetensors --fake-tty 2>&1 | head -c 12 | od -c | head -n 1
