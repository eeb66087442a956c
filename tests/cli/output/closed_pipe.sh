# A reader that leaves early is not worth a line; the shell sees SIGPIPE.
python3 - plan "$DATA/f32.safetensors" <<'END'
import os, subprocess, sys
for arguments in (sys.argv[1:], ["--help"]):
    reader, writer = os.pipe()
    os.close(reader)
    print(subprocess.run([os.environ["NABLA_QUANT"], *arguments],
                         stdout=writer, check=False).returncode)
    os.close(writer)
END
