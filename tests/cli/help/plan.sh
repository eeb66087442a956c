# Help of plan, from the tables.
q plan --help
