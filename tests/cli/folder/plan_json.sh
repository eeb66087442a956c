q plan $DATA/hf --json | sed 's|"/[^"]*/data/|"DATA/|' >a
check_json plan <a folder.files.0 folder.files.2 folder.files.4 folder.copied folder.copied_bytes folder.left_out folder.config totals.needed_bytes totals.bytes_out
q plan $DATA/sharded --json | check_json plan folder
q quantize $DATA/hf -o out --json | check_json quantize summary.copied summary.copied_bytes folder.config.action
q dequantize out -o back --json | check_json dequantize summary.copied folder.config
