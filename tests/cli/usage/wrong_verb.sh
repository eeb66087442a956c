q plan x --tolerance 1
