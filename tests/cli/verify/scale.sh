# A scale that is not finite is found.
q quantize $DATA/f32.safetensors -o a.safetensors -q
python3 - <<'END'
import json, struct
with open('a.safetensors', 'r+b') as file:
    size, = struct.unpack('<Q', file.read(8))
    header = json.loads(file.read(size))
    name = next(name for name in header if name.endswith('.absmax'))
    file.seek(8 + size + header[name]['data_offsets'][0] + 4 * 3)
    file.write(struct.pack('<f', float('inf')))
END
q verify a.safetensors
