q plan x --color alwys
