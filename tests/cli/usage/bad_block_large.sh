q plan x --block 8192
