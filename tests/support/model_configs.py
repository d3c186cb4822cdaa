"""Excerpts of published config.json files: the keys that give shapes, and the parameter counts published with them.

Read on 2026-11-17 from ai-dynamo/aiconfigurator@095f58a aic-core/src/aiconfigurator_core/model_configs/; the shapes of
Mixtral from litgpt 0.5.13 litgpt/config.py, those of Qwen3-Next from huggingface/transformers@008e574
configuration_qwen3_next.py, of GLM-5.3-Flash from NVIDIA-NeMo/Automodel@3c1be32
nemo_automodel/components/models/glm5_next/config.py and unslothai/llama.cpp pull 116 (index_kpool), of Qwen3.8 from
sgl-project/sglang@0519e1b docs/cookbook/autoregressive/Qwen/Qwen3.8.mdx. Counts, in units of 10^9: the models' cards
and reports, all and active ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Config = dict[str, Any]


@dataclass(frozen=True)
class Published:
    config: Config
    total_b: float
    active_b: float | None
    """None: not published"""


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

DEEPSEEK_V4_PRO: Config = {
    "model_type": "deepseek_v4", "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128,
    "num_key_value_heads": 1, "head_dim": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "o_groups": 16,
    "o_lora_rank": 1024, "compress_ratios": [128, 128, *[4, 128] * 29, 4, 0], "sliding_window": 128,
    "index_head_dim": 128, "index_n_heads": 64, "index_topk": 1024, "moe_intermediate_size": 3072,
    "n_routed_experts": 384, "n_shared_experts": 1, "num_experts_per_tok": 6, "num_nextn_predict_layers": 1,
    "vocab_size": 129280, "max_position_embeddings": 1048576, "tie_word_embeddings": False, "expert_dtype": "fp4",
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}  # fmt: skip
DEEPSEEK_V4_FLASH: Config = DEEPSEEK_V4_PRO | {
    "num_hidden_layers": 43, "hidden_size": 4096, "num_attention_heads": 64, "q_lora_rank": 1024, "o_groups": 8,
    "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0], "index_topk": 512, "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
}  # fmt: skip
KIMI_K3: Config = {
    "model_type": "kimi_k3",
    "text_config": {
        "model_type": "kimi_linear", "num_hidden_layers": 93, "hidden_size": 7168, "num_attention_heads": 96,
        "num_key_value_heads": 96, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "v_head_dim": 128, "mla_use_output_gate": True, "intermediate_size": 33792,
        "moe_intermediate_size": 3072, "routed_expert_hidden_size": 3584, "num_experts": 896,
        "num_experts_per_token": 16, "num_shared_experts": 2, "first_k_dense_replace": 1, "moe_layer_freq": 1,
        "linear_attn_config": {
            "full_attn_layers": [*range(4, 93, 4), 93], "num_heads": 96, "head_dim": 128, "use_full_rank_gate": True,
        },
        "vocab_size": 163840, "max_position_embeddings": 1048576, "tie_word_embeddings": False,
    },
}  # fmt: skip
MINIMAX_M3: Config = {
    "model_type": "minimax_m3", "num_hidden_layers": 60, "hidden_size": 6144, "num_attention_heads": 64,
    "num_key_value_heads": 4, "head_dim": 128, "dense_intermediate_size": 12288, "intermediate_size": 3072,
    "moe_intermediate_size": 3072, "moe_layer_freq": [0] * 3 + [1] * 57, "num_local_experts": 128,
    "num_experts_per_tok": 4, "n_shared_experts": 1, "shared_intermediate_size": 3072, "vocab_size": 200064,
    "sparse_attention_config": {
        "use_sparse_attention": True, "sparse_num_index_heads": 4, "sparse_index_dim": 128, "sparse_block_size": 128,
        "sparse_topk_blocks": 16, "sparse_attention_freq": [0] * 3 + [1] * 57,
    },
    "max_position_embeddings": 1048576, "tie_word_embeddings": False,
}  # fmt: skip
GLM_53_FLASH: Config = {
    "model_type": "glm5_next", "vision_config": {"hidden_size": 1024},
    "text_config": {
        "model_type": "glm5_next_text", "num_hidden_layers": 45, "hidden_size": 4096, "num_attention_heads": 64,
        "num_key_value_heads": 64, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 0,
        "qk_nope_head_dim": 256, "v_head_dim": 256, "index_topk": 2048, "index_head_dim": 128, "index_n_heads": 32,
        "index_kpool": 4, "intermediate_size": 12288, "moe_intermediate_size": 2048, "n_routed_experts": 288,
        "n_shared_experts": 1, "num_experts_per_tok": 8, "mlp_layer_types": ["dense"] * 3 + ["sparse"] * 42,
        "layer_types": [*["linear_attention"] * 3, "deepseek_sparse_attention"] * 11 + ["linear_attention"],
        "indexer_types": ["full"] * 45, "linear_attn_config": {"head_dim": 128, "num_heads": 64},
        "num_nextn_predict_layers": 1, "vocab_size": 154880, "max_position_embeddings": 1048576,
        "tie_word_embeddings": False,
    },
}  # fmt: skip
QWEN_38: Config = {
    "model_type": "qwen3_5_moe", "num_hidden_layers": 92, "full_attention_interval": 4, "hidden_size": 8192,
    "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 256, "attn_output_gate": True,
    "linear_num_value_heads": 128, "linear_num_key_heads": 16, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 2048,
    "shared_expert_intermediate_size": 2048, "vocab_size": 248320, "max_position_embeddings": 262144,
    "tie_word_embeddings": False,
}  # fmt: skip
NEMOTRON_SUPER: Config = {
    "model_type": "nemotron_h", "num_hidden_layers": 88, "hidden_size": 4096, "head_dim": 128,
    "num_attention_heads": 32, "num_key_value_heads": 2, "mamba_num_heads": 128, "mamba_head_dim": 64,
    "ssm_state_size": 128, "n_groups": 8, "moe_intermediate_size": 2688, "moe_latent_size": 1024,
    "moe_shared_expert_intermediate_size": 5376, "n_routed_experts": 512, "num_experts_per_tok": 22,
    "mlp_hidden_act": "relu2", "vocab_size": 131072, "max_position_embeddings": 262144, "tie_word_embeddings": False,
    "hybrid_override_pattern": "MEMEMEM*" + "EMEMEMEM*" * 2 + "EMEMEMEMEM*" * 4 + "EMEMEMEM*EMEMEMEME",
}  # fmt: skip
NEMOTRON_ULTRA: Config = NEMOTRON_SUPER | {
    "hidden_size": 8192, "num_attention_heads": 64, "mamba_num_heads": 256, "moe_intermediate_size": 5120,
    "moe_latent_size": 2048, "moe_shared_expert_intermediate_size": 10240,
    "hybrid_override_pattern": "MEMEMEM*" + "EMEMEM*EMEMEMEM*EMEMEMEM*" * 3 + "EMEMEM*EMEMEMEM*EMEMEMEME",
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
    "DeepSeek-V4-Pro": Published(DEEPSEEK_V4_PRO, 1600.0, 49.0),
    "DeepSeek-V4-Flash": Published(DEEPSEEK_V4_FLASH, 284.0, 13.0),
    "Kimi-K3": Published(KIMI_K3, 2800.0, None),
    "MiniMax-M3": Published(MINIMAX_M3, 428.0, 23.0),
    "NVIDIA-Nemotron-3-Super-120B-A12B": Published(NEMOTRON_SUPER, 120.0, 12.0),
    "NVIDIA-Nemotron-3-Ultra-550B-A55B": Published(NEMOTRON_ULTRA, 550.0, 55.0),
    "Qwen3.8-2.4T-A95B": Published(QWEN_38, 2400.0, 95.0),
}
