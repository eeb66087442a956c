q plan /dev/null
