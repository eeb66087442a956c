q bench x
