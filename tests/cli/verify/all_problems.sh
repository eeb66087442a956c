# verify goes on behind a problem: of shards, of the index, of packed weights.
make() { q quantize $DATA/sharded -o "$1" -q --layout nabla -e int8 --block 32; }
make shards
python3 - shards <<'P'
import glob, json, os, sys
names = sorted(glob.glob(sys.argv[1] + "/*.safetensors"))
with open(names[0], "r+b") as file:  # truncated
    file.truncate(os.path.getsize(names[0]) - 5)
os.remove(names[1])                  # missing
index = sys.argv[1] + "/model.safetensors.index.json"
with open(index, encoding="utf-8") as file:
    data = json.load(file)
data["weight_map"]["not.there"] = os.path.basename(names[-1])
with open(index, "w", encoding="utf-8") as file:
    json.dump(data, file)
P
plain q verify shards
make codes
python3 - codes <<'P'
import glob, json, struct, sys
left = 1
for name in sorted(glob.glob(sys.argv[1] + "/*.safetensors")):
    with open(name, "r+b") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        for key in sorted(header):
            if key.endswith(".nabla.scales"):
                begin, end = header[key]["data_offsets"]
                file.seek(8 + size + begin)
                file.write(b"\0\0\x80\x7f" * ((end - begin) // 4))
            if key.endswith(".nabla.format") and left:
                left -= 1
                file.seek(8 + size + header[key]["data_offsets"][0])
                file.write(b"x")
P
plain q verify codes -v
codes q verify codes
# at most 1000 one by one; the number counts all
make many
python3 - many <<'P'
import json, sys
path = sys.argv[1] + "/model.safetensors.index.json"
with open(path, encoding="utf-8") as file:
    data = json.load(file)
for i in range(1500):
    data["weight_map"][f"not.there.{i}"] = "model-00001-of-00003.safetensors"
with open(path, "w", encoding="utf-8") as file:
    json.dump(data, file)
P
q verify many -v 2>&1 | tail -n 2
q verify many --json 2>err | python3 -c '
import json, sys
print(len(json.load(sys.stdin)["files"][0]["problems"]))'
