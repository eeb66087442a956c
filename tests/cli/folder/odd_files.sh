# What is no file is named; what a link leads to is copied.
mkdir in
cp $DATA/f32.safetensors in/model.safetensors
mkfifo in/pipe
ln -s nowhere in/broken
ln -s .. in/above
mkdir in/.cache
echo x >in/.cache/x
echo notes >in/.notes
ln -s .notes in/notes
q quantize in -o out | figures
ls -A out
cat out/notes
