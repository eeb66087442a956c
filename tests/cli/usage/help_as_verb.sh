q help
