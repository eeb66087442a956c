# Help of inspect, from the tables.
q inspect --help
