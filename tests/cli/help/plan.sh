# Help of plan, from the tables.
encodings q plan --help
