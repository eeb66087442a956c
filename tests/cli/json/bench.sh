q bench --size 1 --repeat 1 --json -e nf4 | check_json bench rows.0.operation rows.1.operation buffer_bytes repetitions
