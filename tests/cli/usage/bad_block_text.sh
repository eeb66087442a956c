q plan x --block 64k
