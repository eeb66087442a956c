"""examples/serve beside real clients: text as llama writes it, conversations that
go on, two clients at once, what is refused, clients that disappear, a model whose
file is truncated while it is served, and one with tokens that have no text.

usage: serve.py LLAMA SERVE SOURCE_FOLDER
The model is looked for in $NABLA_MODELS, or in ../shared/models beside the source
folder. Exits 77, which ctest shows as skipped, without it."""
import array, json, os, shutil, signal, socket, struct, subprocess, sys, tempfile, threading, time

llama, serve, source = sys.argv[1:4]
models = os.environ.get("NABLA_MODELS") or os.path.join(source, "../shared/models")
given = os.path.join(models, "stories260K")
if not os.path.exists(os.path.join(given, "stories260K-f32.safetensors")):
    print("SKIP: no stories260K (NABLA_MODELS)")
    sys.exit(77)
work = tempfile.mkdtemp()
program, place = os.path.join(work, "p.so"), os.path.join(work, "s")
model = os.path.join(work, "model.safetensors")
shutil.copy(os.path.join(given, "stories260K-f32.safetensors"), model)
for name in os.listdir(given):
    if name == "config.json" or name.startswith("tokenizer."):
        shutil.copy(os.path.join(given, name), work)


class Client:
    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(place)
        self.socket.settimeout(120)
        self.file = self.socket.makefile("rb")

    def send(self, **request):
        self.socket.sendall(json.dumps(request).encode() + b"\n")

    def line(self):
        return json.loads(self.file.readline())

    def answer(self):
        """The text, and the last line."""
        text = ""
        while "text" in (got := self.line()):
            text += got["text"]
        return text, got

    def ask(self, **request):
        self.send(**request)
        return self.answer()

    def raw(self, line):
        self.socket.sendall(line)
        return self.line()


def start():
    process = subprocess.Popen([serve, model, program, place], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"listening\n"
    return process


def stop(process):
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0, process.returncode
    assert not os.path.exists(place)


def written(prompt, count):
    return subprocess.run([llama, model, "-p", prompt, "-n", str(count + 1)], check=True,
                          capture_output=True, text=True).stdout


def conversations():
    client = Client()
    text, done = client.ask(conversation="a", text="Tom had", count=20)
    assert written("Tom had", 20).startswith("Tom had" + text), text
    first = done["position"]
    assert done == {"conversation": "a", "done": True, "tokens": 20, "position": first}
    # it goes on where it was, also for another client, beside another one
    other = Client()
    assert other.ask(conversation="b", text="Tom had", count=20)[0] == text
    more, done = other.ask(conversation="a", count=15)
    assert done["position"] == first + 15
    assert written("Tom had", 35).startswith("Tom had" + text + more), more
    # forgotten, and begun anew
    assert client.ask(conversation="a", end=True)[1]["position"] == first + 15
    assert client.ask(conversation="a", text="Tom had", count=20)[0] == text
    # drawn: by the seed
    ask = dict(conversation="c", text="Lily", count=20, temperature=1, seed=5)
    one = client.ask(**ask)[0]
    client.ask(conversation="c", end=True)
    assert client.ask(**ask)[0] == one
    client.ask(conversation="c", end=True)
    assert client.ask(**dict(ask, seed=6))[0] != one


def refusals():
    client = Client()
    for line, why in ((b"hello", "no JSON object"), (b"[1]", "no JSON object"), (b"", "no JSON"),
                      (b"{", "no name"), (b'{"a"}', "without a value"), (b'{"a":}', "neither"),
                      (b'{"a":[1]}', "neither"), (b'{"a":1,}', "no name"), (b'{"a":1', "no end"),
                      (b'{"a":"x', "neither"), (b'{"a":"\\x"}', "neither"),
                      (b'{"a":"\\ud800"}', "neither"), (b'{"a":"\\u0000"}', "neither"),
                      (b'{"a":01}', "no end"), (b'{"a":1.}', "neither"), (b'{"a":-}', "neither"),
                      (b'{"a":1e}', "neither"), (b'{"a":nan}', "neither"), (b'{"seed":1e999}', "not a member"),
                      (b'{"text":"a"} {}', "more behind"),
                      (b'{"seed":1,"seed":2}', "given twice"), (b'{"nothing":1}', "not a member"),
                      (b'{"count":"1"}', "not a member"), (b'{"count":-1}', "not a member"),
                      (b'{"top_p":1.5}', "not a member"), (b"{}", "named by"),
                      (b'{"conversation":"a b"}', "named by"),
                      (b'{"conversation":"' + b"a" * 64 + b'"}', "named by"),
                      (b'{"conversation":"x","text":"\xff"}', "not UTF-8"),
                      (b'{"conversation":"x"}\0', "byte 0"),
                      (b'{"conversation":"x","text":"' + b"a" * 70000 + b'"}', "too long"),
                      (b'{"conversation":"x","text":"' + b"a b " * 2000 + b'"}', "do not fit")):
        got = client.raw(line + b"\n")
        assert why in got.get("error", ""), (line[:40], got)
    # the connection goes on, and escapes are text
    plain = client.ask(conversation="u", text="Tom\u00e9 \U0001f600", count=5)
    client.ask(conversation="u", end=True)
    client.socket.sendall(b' { "conversation" :"u","text":"Tom\\u00e9 \\ud83d\\ude00", "count":5}\n')
    assert client.answer() == plain
    # no more than there is room for
    for i in range(40):
        got = client.ask(conversation="many%d" % i, text="a", count=0)[1]
        if "error" in got:
            assert "end one" in got["error"] and i > 20, got
            break
    else:
        raise AssertionError("40 conversations")
    for j in range(i):
        client.ask(conversation="many%d" % j, end=True)
    clients = [Client() for _ in range(20)]
    got = [c.raw(b"{}\n")["error"] if n < 5 else None for n, c in enumerate(clients)]
    assert all("named by" in g for g in got[:5])
    assert "too many clients" in clients[-1].line()["error"]
    for c in clients:
        c.socket.close()
        c.file.close()
    time.sleep(1.5)  # the places are free again


def at_once():
    """Two clients, each with a long answer, and both of them right; a third one
    that wants the conversation of the first."""
    alone, _ = Client().ask(conversation="alone", text="Once", count=150)
    texts = {}

    def ask(name):
        texts[name] = Client().ask(conversation=name, text="Once", count=150)[0]

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("one", "two")]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert texts == {"one": alone, "two": alone}
    first, second = Client(), Client()
    first.send(conversation="busy", text="Once", count=400)
    first.line()
    got = second.ask(conversation="busy", count=1)[1]
    assert "another client" in got.get("error", "") or got["position"] > 400, got
    first.answer()
    assert "done" in second.ask(conversation="busy", count=1)[1]


def gone():
    """A client that disappears ends its answer; the conversation stays."""
    client = Client()
    client.send(conversation="left", text="Once", count=10**6)
    client.line()
    client.socket.shutdown(socket.SHUT_RDWR)
    client.socket.close()
    client.file.close()
    for _ in range(100):
        got = Client().ask(conversation="left", count=0)[1]
        if "done" in got:
            break
        assert "another client" in got["error"], got
        time.sleep(.1)
    assert got["done"] and got["position"] > 1, got
    half = Client()
    half.socket.sendall(b'{"conversation":"half')
    half.socket.close()
    half.file.close()


def truncated():
    """The model's file shrinks: a status, and the server goes on."""
    process = start()
    client = Client()
    assert "done" in client.ask(conversation="a", text="Tom", count=2)[1]
    with open(model, "r+b") as file:
        file.truncate(8192)
    text, got = client.ask(conversation="a", text=" and", count=2)
    assert "the model is spent" in got.get("error", ""), got
    assert "the model is spent" in Client().ask(conversation="b", text="x")[1]["error"]
    assert "named by" in client.raw(b"{}\n")["error"]
    stop(process)


def save():
    subprocess.run([llama, model, "--save", program, "-n", "1", "--cache", ""], check=True,
                   stdout=subprocess.DEVNULL)


def pad():
    """Gives the model more tokens than the tokenizer has: each likelier than the
    one of which it is a longer copy, where that is likely."""
    with open(os.path.join(given, "stories260K-f32.safetensors"), "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    entry = header["model.embed_tokens.weight"]
    rows, columns = entry["shape"]
    old = array.array("f", data[slice(*entry["data_offsets"])])
    more = [1.01 * x for i in range(1, rows, 2) for x in old[i * columns:(i + 1) * columns]]
    new = (old + array.array("f", more)).tobytes()
    entry["shape"][0] = rows + len(more) // columns
    begin, end = entry["data_offsets"]
    for other in header.values():
        if other is not entry and other.get("data_offsets", [0])[0] >= end:
            other["data_offsets"] = [at + len(new) - (end - begin) for at in other["data_offsets"]]
    entry["data_offsets"] = [begin, begin + len(new)]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(model, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data[:begin] + new + data[end:])
    config = os.path.join(work, "config.json")
    with open(config) as file:
        settings = json.load(file)
    with open(config, "w") as file:
        json.dump(dict(settings, vocab_size=entry["shape"][0]), file)


def padded():
    """A token that the tokenizer does not have sends no text."""
    pad()
    save()
    process = start()
    client = Client()
    client.send(conversation="a", text="Tom had", count=60)
    lines = [client.line()]
    while "done" not in lines[-1]:
        lines.append(client.line())
    stop(process)
    text = "".join(line.get("text", "") for line in lines)
    assert 5 < len(lines) - 1 < lines[-1]["tokens"] - 5, lines
    assert written("Tom had", 60).startswith("Tom had" + text), text


try:
    save()
    bad = subprocess.run([serve, model, model, place], capture_output=True, text=True)
    assert bad.returncode == 1 and "serve: " in bad.stderr, bad
    process = start()
    again = subprocess.run([serve, model, program, place], capture_output=True, text=True)
    assert again.returncode == 1 and "cannot listen" in again.stderr, again
    with open("/proc/%d/maps" % process.pid) as maps:
        assert "LLVM" not in maps.read()
    for test in (conversations, refusals, at_once, gone):
        test()
    # it ends while it answers
    busy = Client()
    busy.send(conversation="last", text="Once", count=10**6)
    busy.line()
    stop(process)
    truncated()
    padded()
    print("all as expected")
finally:
    for process in [p for p in (globals().get("process"),) if p and p.poll() is None]:
        process.kill()
    shutil.rmtree(work)
