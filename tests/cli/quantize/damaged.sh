# A packed weight whose scales or codes no writer makes is not copied, nor
# decoded: the output is not there, and the exit code is that of a bad input.
cat >damage.py <<'P'
# damage.py FILE SUFFIX AT BYTES: overwrites a component of the last weight
import json, struct, sys
path, suffix, at, data = sys.argv[1:]
with open(path, "r+b") as file:
    size, = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(size))
    names = [n for n in header if n != "__metadata__" and n.endswith(suffix)]
    name = sorted(names)[-1]
    if suffix == ".nabla.format":  # its codes
        name = name.removesuffix(suffix)
    begin, end = header[name]["data_offsets"]
    at = int(at) if int(at) >= 0 else end - begin + int(at)
    file.seek(8 + size + begin + at)
    file.write(bytes.fromhex(data))
P
try() { # LABEL SUFFIX AT BYTES OPTIONS...
  label=$1 suffix=$2 at=$3 data=$4
  shift 4
  q quantize $DATA/f32.safetensors -o "$label".safetensors -q "$@"
  codes q quantize "$label".safetensors -o copy-"$label".safetensors
  codes q dequantize "$label".safetensors -o dense-"$label".safetensors
  rm -f copy-* dense-*
  python3 damage.py "$label".safetensors "$suffix" "$at" "$data"
  codes q verify "$label".safetensors
  codes q dequantize "$label".safetensors -o dense-"$label".safetensors
  plain q quantize "$label".safetensors -o copy-"$label".safetensors -q -j 2
  ls copy-* dense-* 2>/dev/null || :
}
try nf4 .absmax 12 0000807f
try int8 .nabla.scales -4 ffff7f7f -e int8 --block 64 --layout nabla
try fp8 .nabla.format -1 7f -e fp8
try ternary .nabla.format 5 ff -e ternary
try mxfp8 .nabla.scales 1 ff -e mxfp8
try dynamic8 .nabla.nested_scales 0 0000c07f -e int8 --layout nabla --scale dynamic8
try fp8_e5m2 .nabla.format 13 fd -e fp8_e5m2
try mxfp8_e5m2 .nabla.format 3 7c -e mxfp8_e5m2
