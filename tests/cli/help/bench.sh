# Help of bench, from the tables.
encodings q bench --help
