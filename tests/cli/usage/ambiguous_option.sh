q plan x --ver
