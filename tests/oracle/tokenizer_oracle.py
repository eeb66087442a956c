"""Tokenizers against the Python packages sentencepiece and tokenizers: models of
both are trained here, and random and hostile texts are encoded, ids decoded, at
once and as a stream.

usage: tokenizer_oracle.py DRIVER [COUNT]
COUNT texts for each model. The Python is this one if it has the packages, else
that of scripts/peers torch. Exits 77, which ctest shows as skipped, where
neither has them.
"""
import io
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
PEERS = os.environ.get("NABLA_PEERS") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "nabla-peers")
PYTHON = os.path.join(PEERS, "torch", "bin", "python3")
try:
    import sentencepiece
    from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models,
                            normalizers, pre_tokenizers, processors, trainers)
except ImportError:
    if os.environ.get("NABLA_ORACLE_TORCH") == "1" or not os.path.exists(PYTHON):
        print("skipped: needs sentencepiece and tokenizers (scripts/peers torch "
              "installs them)")
        sys.exit(77)
    os.environ["NABLA_ORACLE_TORCH"] = "1"
    os.execv(PYTHON, [PYTHON, *sys.argv])

DRIVER, COUNT = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 4000
SEED = 5
rng = random.Random(SEED)
WORDS = ["once", "upon", "a", "time", "there", "was", "little", "girl", "named",
         "Lily", "she", "loved", "play", "park", "don't", "we'll", "I'm", "WE'LL",
         "it'S", "été", "naïve", "Straße", "мир", "привет", "日本語", "テスト",
         "中文", "한국어", "😀", "👩\u200d👩\u200d👧", "ﬁ", "①", "½", "1234", "42", "3.14",
         "<s>", "</s>", "<unk>", "▁", "foo_bar", "==", "->", "(x)", "<|eot|>",
         "[new]", "\r\n", "\n\n", "'ſ", "x'ſy", "e\u0301", "\u1100\u1161\u11a8"]
SIGNS = ([0x20] * 12 + list(range(0x21, 0x7F)) + [0x27] * 4 + [0x73, 0x53] * 2 +
         [0x9, 0xA, 0xD, 0xA, 0xD, 0, 0x85, 0xA0, 0x3000, 0x200B, 0x2581, 0x2581,
          0xE9, 0x301, 0x308, 0x323, 0x345, 0x212B, 0xFB01, 0xAC00, 0x1100, 0x1161,
          0x11A8, 0x4E2D, 0x65E5, 0x1F600, 0x200D, 0xFFFD, 0xFFFF, 0x10FFFF, 0xFEFF,
          0x17F, 0xDF, 0x130, 0x661, 0x2160, 0xB2, 0x1E0A, 0x1715, 0x11938])
REPLACEMENT = "\ufffd".encode()


def sentence():
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 14)))


CORPUS = [sentence() for _ in range(3000)]


def text():
    kind = rng.random()
    if kind < .3:
        return sentence()
    if kind < .5:
        return "".join(rng.choice([" ", "  ", "\n", "\t", *rng.sample(WORDS, 2)])
                       for _ in range(rng.randint(0, 12)))
    if kind < .85:
        return "".join(chr(rng.choice(SIGNS)) for _ in range(rng.randint(0, 24)))
    codes = [rng.randrange(0x110000 if rng.random() < .3 else 0x3000)
             for _ in range(rng.randint(0, 12))]
    return "".join(chr(c) for c in codes if not 0xD800 <= c < 0xE000)


class Driver:
    """tokenizer_driver.c with one file open."""

    def __init__(self, path):
        self.process = subprocess.Popen([DRIVER, path], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def answer(self, size):
        status, count = struct.unpack("<II", self.process.stdout.read(8))
        data = self.process.stdout.read(count * size)
        return data if not status else status

    def ask(self, kind, flags, count, data):
        self.process.stdin.write(kind + bytes([flags]) + struct.pack("<I", count) + data)
        self.process.stdin.flush()

    def encode(self, string, flags=0):
        data = string.encode()
        self.ask(b"e", flags, len(data), data)
        got = self.answer(4)
        return got if isinstance(got, int) else list(
            struct.unpack(f"<{len(got) // 4}I", got))

    def decode(self, ids, flags=0):
        """The text, and that of a stream."""
        self.ask(b"d", flags, len(ids), struct.pack(f"<{len(ids)}I", *ids))
        return self.answer(1), self.answer(1)

    def close(self):
        self.process.stdin.close()
        assert self.process.wait() == 0, "the driver fails"


# ---- SentencePiece ------------------------------------------------------------

PIECES = {
    "identity": dict(byte_fallback=True, normalization_rule_name="identity",
                     remove_extra_whitespaces=False),
    "nfkc": dict(normalization_rule_name="nmt_nfkc"),
    "users": dict(normalization_rule_name="nfkc_cf", control_symbols=["<ctl>"],
                  user_defined_symbols=["<sep>", "foo", "▁was"]),
    "digits": dict(byte_fallback=True, add_dummy_prefix=False, split_digits=True,
                   allow_whitespace_only_pieces=True,
                   remove_extra_whitespaces=False),
    "suffix": dict(treat_whitespace_as_suffix=True),
    "across": dict(split_by_whitespace=False, max_sentencepiece_length=30),
}


def train_pieces(kind, settings):
    out = io.BytesIO()
    size = 600 if settings.get("byte_fallback") else 330
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(s.replace("\0", "") for s in CORPUS), model_writer=out,
        vocab_size=size, model_type=kind, hard_vocab_limit=False, minloglevel=2,
        character_coverage=.999, num_threads=1, **settings)
    return out.getvalue()


def llama2c(reference):
    """The tokenizer.bin of a model, as llama2.c's tokenizer.py exports it."""
    out = struct.pack("<I", 0)
    for i in range(reference.vocab_size()):
        piece = {reference.bos_id(): "\n<s>\n", reference.eos_id(): "\n</s>\n"}.get(
            i, reference.id_to_piece(i)).replace("▁", " ").encode()
        out += struct.pack("<fI", reference.get_score(i), len(piece)) + piece
    return out


def compare_pieces(path, reference, is_llama2c=False):
    driver, wrong = Driver(path), 0
    size = reference.vocab_size()
    for _ in range(COUNT):
        string = text()
        if is_llama2c:
            string = string.replace("▁", "_")  # which that file cannot tell
        ids = reference.encode(string)
        got = driver.encode(string)
        if got != ids:
            wrong += 1
            print(f"{path}: {string!r} is {got}, not {ids}")
        if rng.random() < .5:
            ids = [rng.randrange(3 if is_llama2c else 0, size)
                   for _ in range(rng.randint(0, 10))]
        wanted = reference.decode(ids).encode()
        if driver.decode(ids) != (wanted, wanted):
            wrong += 1
            print(f"{path}: {ids} are {driver.decode(ids)}, not {wanted}")
    driver.close()
    return wrong


# ---- tokenizers ---------------------------------------------------------------

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT2 = (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|"
        r"\s+(?!\S)|\s+")
BYTES = pre_tokenizers.ByteLevel
BEGIN = [("<|begin|>", 0), ("<|eot|>", 1)]


def around(tokenizer):
    return processors.TemplateProcessing(single="<|begin|> $A <|eot|>",
                                         special_tokens=BEGIN)


def before(tokenizer):
    return processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin|> $A", pair="<|begin|> $A $B",
                                      special_tokens=BEGIN)])


def byte_level(pattern=None, normalizer=None, ignore=False, post=None, prefix=False,
               regex=True):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = BYTES(add_prefix_space=prefix, use_regex=regex)
    if pattern:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            BYTES(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<|begin|>", "<|eot|>", "<|pad|>"],
        initial_alphabet=BYTES.alphabet(), show_progress=False))
    if post:
        tokenizer.post_processor = post(tokenizer)
    tokenizer.add_tokens([
        AddedToken("[new]", lstrip=True, rstrip=False, normalized=True),
        AddedToken("  strip", rstrip=True, lstrip=True, normalized=False)])
    tokenizer.add_special_tokens([AddedToken("<|eot|>x", rstrip=True, special=True)])
    return tokenizer


def marks(normalizes=True, falls=True, fuses=True, scheme=None, split=True,
          decoder=None):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=falls,
                                     fuse_unk=fuses))
    if normalizes:
        tokenizer.normalizer = normalizers.Sequence([
            normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    special = ["<unk>", "<s>", "</s>"]
    special += [f"<0x{i:02X}>" for i in range(256)] if falls else []
    words = pre_tokenizers.Metaspace("▁", prepend_scheme=scheme or "never",
                                     split=split)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(
        "▁", prepend_scheme=scheme or "never")
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=600 if falls else 340, special_tokens=special,
        show_progress=False, limit_alphabet=60))
    made = json.loads(tokenizer.to_str())
    made["added_tokens"] = [t for t in made["added_tokens"]
                            if not t["content"].startswith("<0x")]
    made["pre_tokenizer"] = json.loads(words.__getstate__()) if scheme else None
    tokenizer = Tokenizer.from_str(json.dumps(made))
    tokenizer.decoder = decoder or decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
        decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def metaspace(scheme):
    return decoders.Metaspace("▁", prepend_scheme=scheme)


JSON = {
    "gpt2": lambda: byte_level(),
    "gpt2_prefix": lambda: byte_level(prefix=True, post=around),
    "gpt2_split": lambda: byte_level(GPT2),
    "llama3": lambda: byte_level(LLAMA3, ignore=True, post=before),
    "qwen2": lambda: byte_level(QWEN2, normalizers.NFC()),
    "no_split": lambda: byte_level(regex=False, normalizer=normalizers.Sequence([
        normalizers.NFC(), normalizers.Replace("a", "bb")])),
    "llama2": lambda: marks(),
    "unknown": lambda: marks(falls=False, fuses=False),
    "unknown_fused": lambda: marks(falls=False),
    "first": lambda: marks(False, scheme="first", split=False,
                           decoder=metaspace("first")),
    "always": lambda: marks(False, falls=False, scheme="always",
                            decoder=metaspace("always")),
    "never": lambda: marks(False, scheme="never", decoder=metaspace("never")),
    "gemma": lambda: marks(decoder=decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])),
}


def compare_json(path, reference):
    driver, wrong = Driver(path), 0
    known = sorted(reference.get_vocab().values())
    for _ in range(COUNT):
        string, flags, skips = text(), rng.randrange(4), rng.randrange(2)
        reference.encode_special_tokens = not flags & 2
        ids = reference.encode(string, add_special_tokens=bool(flags & 1)).ids
        got = driver.encode(string, flags)
        if got != ids:
            wrong += 1
            print(f"{path}, {flags}: {string!r} is {got}, not {ids}")
        if rng.random() < .5:
            ids = [rng.choice(known[:260] if rng.random() < .5 else known)
                   for _ in range(rng.randint(0, 10))]
        wanted = reference.decode(ids, skip_special_tokens=bool(skips)).encode()
        whole, stream = driver.decode(ids, skips)
        if whole != wanted or (REPLACEMENT not in wanted and stream != wanted):
            wrong += 1
            print(f"{path}, {skips}: {ids} are {whole}, {stream}, not {wanted}")
    driver.close()
    return wrong


def main():
    wrong = count = 0
    with tempfile.TemporaryDirectory() as at:
        folder = pathlib.Path(at)
        for kind in ("bpe", "unigram"):
            for name, settings in PIECES.items():
                path = folder / f"{kind}_{name}.model"
                path.write_bytes(train_pieces(kind, settings))
                reference = sentencepiece.SentencePieceProcessor(model_file=str(path))
                wrong += compare_pieces(str(path), reference)
                count += 1
                if (kind, name) == ("bpe", "identity"):
                    path = folder / "tokenizer.bin"
                    path.write_bytes(llama2c(reference))
                    wrong += compare_pieces(str(path), reference, is_llama2c=True)
                    count += 1
        for name, make in JSON.items():
            path = folder / f"{name}.json"
            reference = make()
            reference.save(str(path))
            wrong += compare_json(str(path), reference)
            count += 1
    print(f"seed {SEED}; {count} models, {count * COUNT} texts and lists of ids, "
          f"{wrong} wrong")
    print(f"figure: tokenizer_texts {count * COUNT}")
    sys.exit(wrong != 0)


main()
