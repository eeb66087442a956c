# A reader that leaves early is not worth a line; the shell sees SIGPIPE. A full
# disk is named, also where it shows before the end of a long text.
python3 - <<'END'
import json, os, struct, subprocess
header = json.dumps({"x%d" % i: {"dtype": "F32", "shape": [1],
                                 "data_offsets": [4 * i, 4 * i + 4]}
                     for i in range(300)}).encode()
with open("many.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(header)) + header + bytes(1200))
for line in ("plan many.safetensors", "inspect many.safetensors",
             "diff many.safetensors many.safetensors", "--help", "help diff"):
    for more in [], ["--json"]:
        command = [os.environ["NABLA_QUANT"], *line.split(), *more]
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE,
                              check=False)
        os.close(writer)
        with open("/dev/full", "wb") as full:
            text = subprocess.run(command, stdout=full, stderr=subprocess.PIPE,
                                  check=False).stderr.decode()
        print(*line.split()[:1], *more, done.returncode,
              "named" if "No space left on device" in text else text,
              *done.stderr.decode().splitlines())
END
