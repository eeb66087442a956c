q plan x --nonfinite kep
