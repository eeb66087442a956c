q plan x --layout bitsandbyte
