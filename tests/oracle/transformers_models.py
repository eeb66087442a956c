"""Tiny models with random weights of transformers' classes, for
transformers_oracle.py: rows are multiples of 32 and columns of 64, the sizes for
which the CPU library of bitsandbytes is right."""
import torch
import transformers

H, I, LAYERS, HEADS, V = 64, 128, 2, 4, 128
COMMON = dict(hidden_size=H, intermediate_size=I, num_hidden_layers=LAYERS,
              num_attention_heads=HEADS, vocab_size=V, max_position_embeddings=64,
              pad_token_id=0, bos_token_id=1, eos_token_id=2)
LLAMA = dict(COMMON, num_key_value_heads=2, head_dim=16)
# Every expert takes part: a router that changes its mind is no small error.
MOE = dict(LLAMA, num_experts=4, num_experts_per_tok=4, num_local_experts=4,
           moe_intermediate_size=64, shared_expert_intermediate_size=64,
           decoder_sparse_step=1)
GPT = dict(vocab_size=V, n_embd=H, n_layer=LAYERS, n_head=HEADS, n_positions=64,
           bos_token_id=1, eos_token_id=2)
T5 = dict(vocab_size=V, d_model=H, d_kv=16, d_ff=I, num_layers=LAYERS,
          num_decoder_layers=LAYERS, num_heads=HEADS, decoder_start_token_id=0,
          pad_token_id=0)
SEQUENCES = dict(vocab_size=V, d_model=H, encoder_layers=LAYERS,
                 decoder_layers=LAYERS, encoder_attention_heads=HEADS,
                 decoder_attention_heads=HEADS, encoder_ffn_dim=I,
                 decoder_ffn_dim=I, pad_token_id=0, bos_token_id=1,
                 eos_token_id=2, decoder_start_token_id=2)
BERT = dict(COMMON, embedding_size=H, max_position_embeddings=70,
            position_buckets=0, attention_probs_dropout_prob=0., num_labels=16)
DISTIL = dict(vocab_size=V, dim=H, hidden_dim=I, n_layers=LAYERS, n_heads=HEADS,
              max_position_embeddings=64, num_labels=16)
IMAGE = dict(hidden_size=H, intermediate_size=I, num_hidden_layers=LAYERS,
             num_attention_heads=HEADS, image_size=32, patch_size=8)
LABELLED = dict(IMAGE, num_labels=16)

# The head of a class's name -> (configuration class, its arguments); the longest
# head that fits counts.
MODELS = {
    **{name: (name + "Config", LLAMA) for name in (
        "Llama Mistral Ministral Qwen2 Qwen3 Gemma Gemma2 Phi Phi3 Olmo Olmo2 Olmo3 "
        "Starcoder2 Granite SmolLM3 StableLm Cohere Cohere2 Nemotron Helium Glm Glm4 "
        "Arcee SeedOss Exaone4 Ernie4_5 HunYuanDenseV1 Apertus").split()},
    **{name: (name + "Config", MOE) for name in (
        "Mixtral Qwen2Moe Qwen3Moe Olmoe GraniteMoe Phimoe GptOss").split()},
    **{name: (name + "Config", BERT) for name in (
        "Bert Roberta XLMRoberta Electra Albert MPNet ModernBert DebertaV2").split()},
    "Gemma3": ("Gemma3TextConfig", LLAMA),
    "DistilBert": ("DistilBertConfig", DISTIL),
    "GPT2": ("GPT2Config", GPT),
    "OpenAIGPT": ("OpenAIGPTConfig", GPT),
    "GPTJ": ("GPTJConfig", dict(GPT, rotary_dim=16)),
    "CodeGen": ("CodeGenConfig", dict(GPT, rotary_dim=16)),
    "GPTBigCode": ("GPTBigCodeConfig", GPT),
    "GPTNeo": ("GPTNeoConfig", dict(
        hidden_size=H, num_layers=LAYERS, num_heads=HEADS, vocab_size=V,
        max_position_embeddings=64, intermediate_size=I, bos_token_id=1,
        attention_types=[[["global", "local"], 1]], eos_token_id=2)),
    "GPTNeoX": ("GPTNeoXConfig", COMMON),
    "OPT": ("OPTConfig", dict(
        hidden_size=H, ffn_dim=I, num_hidden_layers=LAYERS, vocab_size=V,
        num_attention_heads=HEADS, max_position_embeddings=64,
        word_embed_proj_dim=H)),
    "Falcon": ("FalconConfig", COMMON),
    "Bloom": ("BloomConfig", dict(hidden_size=H, n_layer=LAYERS, n_head=HEADS,
                                  vocab_size=V)),
    "Mpt": ("MptConfig", dict(d_model=H, n_heads=HEADS, n_layers=LAYERS,
                              vocab_size=V, max_seq_len=64)),
    "T5": ("T5Config", T5),
    "MT5": ("MT5Config", T5),
    "Bart": ("BartConfig", dict(SEQUENCES, max_position_embeddings=64)),
    "Marian": ("MarianConfig", dict(SEQUENCES, max_position_embeddings=64,
                                    decoder_vocab_size=V)),
    "Whisper": ("WhisperConfig", dict(SEQUENCES, max_source_positions=16,
                                      max_target_positions=32, num_mel_bins=16)),
    "Mamba": ("MambaConfig", dict(hidden_size=H, num_hidden_layers=LAYERS,
                                  vocab_size=V, state_size=16, time_step_rank=64)),
    "Mamba2": ("Mamba2Config", dict(
        hidden_size=H, num_hidden_layers=LAYERS, vocab_size=V, state_size=16,
        num_heads=32, head_dim=4, n_groups=1, expand=2)),
    "ViT": ("ViTConfig", LABELLED),
    "DeiT": ("DeiTConfig", LABELLED),
    "Dinov2": ("Dinov2Config", LABELLED),
    "CLIP": ("CLIPConfig", dict(text_config=dict(COMMON, projection_dim=H),
                                vision_config=IMAGE, projection_dim=H)),
    "CLIPText": ("CLIPTextConfig", COMMON),
    "CLIPVision": ("CLIPVisionConfig", IMAGE),
    "Siglip": ("SiglipConfig", dict(text_config=COMMON, vision_config=IMAGE)),
    "SiglipText": ("SiglipTextConfig", COMMON),
    "SiglipVision": ("SiglipVisionConfig", IMAGE),
    "Wav2Vec2": ("Wav2Vec2Config", dict(
        vocab_size=32, hidden_size=H, intermediate_size=I,
        num_hidden_layers=LAYERS, num_attention_heads=HEADS, conv_dim=(32, 32),
        conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2,
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4)),
    "ConvNext": ("ConvNextConfig", dict(hidden_sizes=[32, 64], depths=[1, 1],
                                        num_stages=2, num_labels=16)),
}


def has_model(name):
    return any(name.startswith(head) for head in MODELS)


def build(name, folder):
    """Saves a model of that class; returns the class."""
    head = max((head for head in MODELS if name.startswith(head)), key=len)
    config, words = MODELS[head]
    if name.endswith("QuestionAnswering"):  # two labels
        words = {key: words[key] for key in words if key != "num_labels"}
    model_class = getattr(transformers, name)
    torch.manual_seed(0)
    model = model_class(getattr(transformers, config)(**words))
    with torch.no_grad():
        for at, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, .3 if "embed" in at else .05)
            elif "norm" not in at.lower() and "ln" not in at:
                parameter.normal_(0, .02)
    model.save_pretrained(folder)
    return model_class


def inputs(model):
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(3, V, (2, 9), generator=generator)
    kind = model.main_input_name
    image = torch.randn(2, 3, 32, 32, generator=generator)
    if type(model).__name__ in ("CLIPModel", "SiglipModel"):
        return {"input_ids": tokens, "pixel_values": image}
    if kind == "pixel_values":
        return {kind: image}
    if kind == "input_values":
        return {kind: torch.randn(1, 400, generator=generator)}
    words = {"input_ids": tokens}
    if kind == "input_features":
        tokens = tokens[:1]
        words = {kind: torch.randn(1, 16, 32, generator=generator)}
    if model.config.is_encoder_decoder:
        words["decoder_input_ids"] = tokens[:, :5]
    return words


@torch.no_grad()
def run(model, bf16=False):
    """The logits; `bf16`: on the AVX512-BF16 path of bitsandbytes, if any."""
    model.eval()
    for module in model.modules():
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu &= bf16
    out = model(**inputs(model))
    for key in ("logits", "logits_per_image", "prediction_logits", "start_logits",
                "last_hidden_state"):
        if getattr(out, key, None) is not None:
            return getattr(out, key).float()
    raise SystemExit("FAILED: no logits among " + ", ".join(out.keys()))
