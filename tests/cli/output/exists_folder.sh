# An empty folder is filled; one that holds something is not touched.
code=0
mkdir empty full
echo mine >full/notes.txt
q quantize $DATA/sharded -o empty -q && ls empty
q quantize $DATA/sharded -o full || code=$?
ls -A full
exit $code
