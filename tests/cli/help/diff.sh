# Help of diff, from the tables.
q diff --help
