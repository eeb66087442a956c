# No file system has room for what a sparse file claims to hold.
python3 - <<'END'
import json, struct
size = 1 << 43
text = json.dumps({'ids': {'dtype': 'U8', 'shape': [size], 'data_offsets': [0, size]}}).encode()
with open('huge.safetensors', 'wb') as file:
    file.write(struct.pack('<Q', len(text)) + text)
    try:
        file.truncate(8 + len(text) + size)
    except OSError:
        open('small', 'w').close()
END
if [ -e small ]; then echo 'skip: no sparse files of this size here'; exit 77; fi
q plan huge.safetensors -o new/out.safetensors 2>&1 >/dev/null | sed 's/only .* are/only N are/'
