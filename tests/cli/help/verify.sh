# Help of verify, from the tables.
q verify --help
