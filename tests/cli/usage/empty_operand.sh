q plan ''
