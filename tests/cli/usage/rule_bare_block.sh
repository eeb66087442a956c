q plan x --rule 'x=int8:128'
