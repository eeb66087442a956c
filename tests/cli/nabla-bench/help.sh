nb --help
