# Every file with what becomes of it; nothing is written.
q plan $DATA/hf --only q_proj | sed 's|/.*/data/|DATA/|'
ls
