"""Excerpts of published config.json files: the keys that give shapes, and the parameter counts published with them.

Read on 2026-11-17 from ai-dynamo/aiconfigurator@095f58a aic-core/src/aiconfigurator_core/model_configs/; the shapes of
Mixtral from litgpt 0.5.13 litgpt/config.py, those of Qwen3-Next from huggingface/transformers@008e574
configuration_qwen3_next.py. Counts, in units of 10^9: the models' cards and reports, all and active ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Config = dict[str, Any]


@dataclass(frozen=True)
class Published:
    config: Config
    total_b: float
    active_b: float


LLAMA_8B: Config = {
    "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072,
    "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
MIXTRAL: Config = {
    "model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 32000, "max_position_embeddings": 32768,
    "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None, "tie_word_embeddings": False,
}  # fmt: skip
DEEPSEEK_V3: Config = {
    "model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128,
    "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256,
    "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1,
    "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "vocab_size": 129280, "max_position_embeddings": 163840, "num_nextn_predict_layers": 1,
    "tie_word_embeddings": False, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}  # fmt: skip
DEEPSEEK_V32: Config = DEEPSEEK_V3 | {
    "model_type": "deepseek_v32", "index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048,
}  # fmt: skip
GPT_OSS: Config = {
    "model_type": "gpt_oss", "num_hidden_layers": 24, "hidden_size": 2880, "num_attention_heads": 64,
    "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 32,
    "num_experts_per_tok": 4, "layer_types": ["sliding_attention", "full_attention"] * 12, "sliding_window": 128,
    "vocab_size": 201088, "max_position_embeddings": 131072, "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "mxfp4"},
}  # fmt: skip
GEMMA_4: Config = {
    "model_type": "gemma4", "vision_config": {"hidden_size": 1152},
    "text_config": {
        "model_type": "gemma4_text", "num_hidden_layers": 60, "hidden_size": 5376, "num_attention_heads": 32,
        "num_key_value_heads": 16, "num_global_key_value_heads": 4, "head_dim": 256, "global_head_dim": 512,
        "attention_k_eq_v": True, "intermediate_size": 21504, "sliding_window": 1024, "enable_moe_block": False,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10, "vocab_size": 262144,
        "max_position_embeddings": 262144, "tie_word_embeddings": True,
    },
}  # fmt: skip
MIMO: Config = {
    "model_type": "mimo_v2_flash", "num_hidden_layers": 48, "hidden_size": 4096, "num_attention_heads": 64,
    "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128, "swa_num_key_value_heads": 8, "swa_head_dim": 192,
    "swa_v_head_dim": 128, "intermediate_size": 16384, "sliding_window": 128, "moe_intermediate_size": 2048,
    "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0] + ([1] * 5 + [0]) * 7, "moe_layer_freq": [0] + [1] * 47,
    "n_routed_experts": 256, "num_experts_per_tok": 8, "vocab_size": 152576, "max_position_embeddings": 262144,
    "tie_word_embeddings": False, "quantization_config": {"quant_method": "fp8"},
}  # fmt: skip
QWEN3_NEXT: Config = {
    "model_type": "qwen3_next", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 256, "full_attention_interval": 4, "linear_num_key_heads": 16,
    "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "intermediate_size": 5632,
    "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512, "decoder_sparse_step": 1,
    "shared_expert_intermediate_size": 512, "mlp_only_layers": [], "vocab_size": 151936,
    "max_position_embeddings": 32768, "tie_word_embeddings": False,
}  # fmt: skip
NEMOTRON_NANO: Config = {
    "model_type": "nemotron_h", "hidden_size": 2688, "num_attention_heads": 32, "num_key_value_heads": 2,
    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", "num_hidden_layers": 52,
    "head_dim": 128, "mamba_num_heads": 64, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8,
    "mlp_hidden_act": "relu2", "n_routed_experts": 128, "num_experts_per_tok": 6, "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712, "n_shared_experts": 1, "vocab_size": 131072,
    "intermediate_size": 1856, "max_position_embeddings": 262144, "tie_word_embeddings": False,
}  # fmt: skip
LLAMA_4_SCOUT: Config = {
    "model_type": "llama4",
    "text_config": {
        "model_type": "llama4_text", "num_hidden_layers": 48, "hidden_size": 5120, "num_attention_heads": 40,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
        "interleave_moe_layer_step": 1, "num_local_experts": 16, "num_experts_per_tok": 1,
        "attention_chunk_size": 8192, "vocab_size": 202048, "max_position_embeddings": 10485760,
    },
}  # fmt: skip

PUBLISHED = {
    "Llama-3.1-8B": Published(LLAMA_8B, 8.03, 8.03),
    "Mixtral-8x7B-v0.1": Published(MIXTRAL, 46.7, 12.9),
    "DeepSeek-V3": Published(DEEPSEEK_V3, 671.0, 37.0),
    "DeepSeek-V3.2": Published(DEEPSEEK_V32, 671.0, 37.0),
    "gpt-oss-20b": Published(GPT_OSS, 20.9, 3.6),
    "gemma-4-31B-it": Published(GEMMA_4, 30.7, 30.7),
    "MiMo-V2-Flash": Published(MIMO, 309.0, 15.0),
    "Qwen3-Next-80B-A3B-Instruct": Published(QWEN3_NEXT, 80.0, 3.0),
    "NVIDIA-Nemotron-3-Nano-30B-A3B": Published(NEMOTRON_NANO, 31.6, 3.6),
    "Llama-4-Scout-17B-16E-Instruct": Published(LLAMA_4_SCOUT, 109.0, 17.0),
}
