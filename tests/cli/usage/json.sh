q plan x --blok 3 --json | check_json plan verb error.status error.exit error.what error.next
