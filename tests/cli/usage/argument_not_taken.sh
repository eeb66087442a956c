q plan x --json=yes
