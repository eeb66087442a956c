# What is copied lies below the folder or in the cache's blobs, wherever a chain
# of links, an absolute one or one in a folder below leads; config.json and
# weights are parsed, and followed anywhere. The folder itself is a link.
umask 022
echo secret >secret
chmod 600 secret
mkdir -p hub/blobs hub/snapshots/main/sub elsewhere
in=hub/snapshots/main
cp $DATA/f32.safetensors elsewhere/weights
ln -s ../../../elsewhere/weights $in/model.safetensors
echo '{"architectures": ["LlamaForCausalLM"], "dtype": "float32"}' >elsewhere/config
cp elsewhere/config config_before
ln -s ../../../elsewhere/config $in/config.json
echo vocabulary >hub/blobs/0123
ln -s ../../blobs/0123 $in/vocab.txt
ln -s ../../../blobs/0123 $in/sub/vocab.txt
echo text >$in/text
ln -s "$PWD/$in/text" $in/absolute
ln -s chain2 $in/chain1
ln -s ../../../$in/sub/../absolute $in/chain2
ln -s ../../../secret $in/README.md
ln -s out2 $in/out1
ln -s "$PWD/secret" $in/out2
ln -s ../../../../secret $in/sub/out3
ln -s ../../../hub/blobs2/x $in/nowhere
mkdir hub/blobs2
echo x >hub/blobs2/x
ln -s $in link
q plan link | sed -n '/^other file/,$p' | sed "s|$PWD|HERE|"
q quantize link -o out -q
(cd out && ls -R && cat absolute chain1 chain2 text vocab.txt sub/vocab.txt)
! grep -r secret out
# config.json is edited in the output, as a file, and not where the link leads
cmp config_before elsewhere/config
stat -c '%F' out/config.json
grep -c quantization_config out/config.json
