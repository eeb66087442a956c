nb codec --json --encoding nf5 2>/dev/null | check_json codec verb error.status error.exit
nb gemw --json 2>/dev/null | check_json gemv verb error.what
