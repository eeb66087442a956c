q bench -e none
