q plan -- --json
