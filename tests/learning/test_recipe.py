import json


def test_the_recipe_of_the_shipped_model_learns_at_a_smaller_scale(learn, workplace):
    """`algo=sft model=tiny_untrained` in half a minute: the loss falls, and the model writes the format."""
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
             "num_key_value_heads": 2, "head_dim": 32}  # fmt: skip
    overrides = [f"model.init.{key}={value}" for key, value in shape.items()]
    overrides += ["algo.args.max_steps=400", "eval.rows=64", "max_tokens=64"]
    evaluation = learn("recipe", "algo=sft", "task=countdown", "model=tiny_untrained", *overrides, split="test")
    rows = [json.loads(line) for line in (workplace / "recipe" / "metrics.jsonl").read_text().splitlines()]
    losses = [row["loss"] for row in rows if "loss" in row]
    assert losses[-1] < 0.5 * losses[0]
    assert evaluation["baseline"]["counts"]["failed"] > 48
    assert evaluation["trained"]["counts"]["failed"] < evaluation["baseline"]["counts"]["failed"] - 16
    assert (workplace / "recipe" / "model" / "tokenizer.json").exists()
