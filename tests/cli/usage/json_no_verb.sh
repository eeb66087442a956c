q pln --json | check_json plan verb error.what
