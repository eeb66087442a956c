q plan x --isa avx51
