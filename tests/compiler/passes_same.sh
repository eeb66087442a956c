#!/bin/sh
# passes_same.sh FILE HOW COMMAND...: FILE is what the command prints; HOW says
# what to do where it is not.
set -u
file=$1 how=$2
shift 2
if "$@" | diff -u "$file" -; then exit 0; fi
echo "$file is out of date: $how"
exit 1
