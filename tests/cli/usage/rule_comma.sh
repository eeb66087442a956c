q plan x --rule 'x=int8,block=64'
