# Help of bench, from the tables.
q bench --help
