q plan x --block 100
