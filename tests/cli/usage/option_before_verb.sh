q --json plan x
