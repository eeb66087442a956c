q quantize $DATA/f32.safetensors -o a.safetensors -j2 --isa scalar --json | check_json quantize summary.output summary.files summary.changed summary.threads summary.isa summary.bytes_in
