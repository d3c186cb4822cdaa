"""Which layers of a model attend to everything, to a window, or keep a state: `full`, `sliding` or `linear`."""

from __future__ import annotations

from planner.catalog.model_config.reading import ModelConfig

KINDS = {
    "full_attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "sliding",
    "linear_attention": "linear",
}
EVERYWHERE = ("mistral", "mixtral", "starcoder2", "phi3")
"""kinds of models with a window in every layer, where there is one"""
FULL_EVERY = {"gemma2": 2, "gemma3": 6, "cohere2": 4, "gpt_oss": 2}
"""every so many layers one attends to everything, in configs that do not say so"""
LLAMA_4_INTERVAL = 4


def layer_kinds(config: ModelConfig, layers: int) -> list[str]:
    """The kind of each layer."""
    if config.mapping("linear_attn_config"):
        full = config.mapping("linear_attn_config").get("full_attn_layers")
        if not isinstance(full, list) or not full:
            config.complain("linear_attn_config", "has no full_attn_layers, the numbers of layers with full attention")
            return ["full"] * layers
        return ["full" if number in full else "linear" for number in range(1, layers + 1)]
    if (named := config.list_of("layer_types", layers)) is not None:
        unknown = sorted({str(kind) for kind in named} - set(KINDS))
        if unknown:
            config.complain("layer_types", f"unknown kind of layer '{unknown[0]}'", f"Known here: {', '.join(KINDS)}")
        return [KINDS.get(str(kind), "full") for kind in named]
    if (pattern := config.list_of("hybrid_layer_pattern", layers)) is not None:
        return ["sliding" if windowed else "full" for windowed in pattern]
    if not all(config.list_of("attn_type_list", layers) or ()):
        config.complain("attn_type_list", "has layers of linear attention whose shape the file does not state")
    if config.get("linear_num_value_heads") is not None:
        return _every(config.count("full_attention_interval", example=4), layers, "linear")
    if config.model_type.startswith("llama4") and config.get("attention_chunk_size") is not None:
        return _llama_4(config, layers)
    return _windows(config, layers)


def _every(interval: int, layers: int, otherwise: str) -> list[str]:
    return ["full" if number % interval == 0 else otherwise for number in range(1, layers + 1)]


def _llama_4(config: ModelConfig, layers: int) -> list[str]:
    """Layers with rotary positions attend within chunks, counted as a window of that length."""
    config.notes.append("Attention within chunks is counted as a window of their length.")
    rotary = config.list_of("no_rope_layers", layers)
    if rotary is not None:
        return ["sliding" if has_positions else "full" for has_positions in rotary]
    interval = config.count("no_rope_layer_interval", default=LLAMA_4_INTERVAL)
    return _every(interval, layers, "sliding")


def _windows(config: ModelConfig, layers: int) -> list[str]:
    window, context = config.get("sliding_window"), config.get("max_position_embeddings")
    unused = isinstance(window, int) and isinstance(context, int) and window >= context
    if window is None or unused or config.get("use_sliding_window") is False:
        return ["full"] * layers
    interval = config.get("sliding_window_pattern", "_sliding_window_pattern")
    if interval is not None or config.model_type in FULL_EVERY:
        default = FULL_EVERY.get(config.model_type)
        every = config.count("sliding_window_pattern", "_sliding_window_pattern", default=default)
        return _every(every, layers, "sliding")
    if config.get("use_sliding_window") and config.get("max_window_layers") is not None:
        first = config.count("max_window_layers")
        return ["full" if k < first else "sliding" for k in range(layers)]
    if config.model_type in EVERYWHERE:
        return ["sliding"] * layers
    config.ask("sliding_window_pattern", 6, "so which layers have the window is open")
    return ["full"] * layers
