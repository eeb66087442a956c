# 256 patterns are legal, 257 are not.
set --
i=0
while [ $i -lt 256 ]; do set -- "$@" --skip a; i=$((i + 1)); done
codes q plan $DATA/f32.safetensors "$@" | cut -c1-2
q plan $DATA/f32.safetensors "$@" --skip a
