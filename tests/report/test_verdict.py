import json

import pytest

from rlhf_exp.report.verdict import preference_sentence, verdict, win_sentence
from rlhf_exp.runs.load import load_run


def change(run_dir, edit):
    evaluation = json.loads((run_dir / "evaluation.json").read_text())
    edit(evaluation)
    (run_dir / "evaluation.json").write_text(json.dumps(evaluation))
    return verdict(load_run(run_dir))


def test_a_reward_model_is_judged_by_its_accuracy_on_pairs(reward_dir):
    kind, sentence = verdict(load_run(reward_dir))
    evaluation = json.loads((reward_dir / "evaluation.json").read_text())
    before, after = (100 * evaluation[side]["accuracy"]["value"] for side in ("baseline", "trained"))
    assert kind == "ok"
    assert sentence.startswith(f"Held-out preference accuracy rose: {before:.1f}% before and {after:.1f}% after, ")
    assert sentence.endswith(" points on 200 pairs.")


@pytest.mark.parametrize(
    ("low", "high", "kind", "word"),
    [
        (0.55, 0.65, "ok", "more often than it loses"),
        (0.45, 0.55, "info", "not measurably more often than it loses"),
        (0.35, 0.45, "warning", "less often than it loses"),
    ],
)
def test_without_a_grader_the_win_rate_by_reward_decides(dpo_dir, low, high, kind, word):
    rate = {"value": (low + high) / 2, "low": low, "high": high}
    paired = {"n": 128, "win_rate": rate, "wins": 60, "losses": 50, "ties": 18}
    found = change(dpo_dir, lambda evaluation: evaluation.update(paired=paired))
    interval = f"{50 * (low + high):.1f}% [{100 * low:.1f}, {100 * high:.1f}]"
    assert found == (
        kind,
        f"By reward the trained model wins {word}: {interval} of 128 held-out rows against the start model"
        " (a tie is half a win).",
    )


@pytest.mark.parametrize(
    ("low", "high", "kind", "words"),
    [
        (0.55, 0.65, "ok", "more often than chance"),
        (0.45, 0.55, "info", "not measurably more often than chance"),
        (0.35, 0.45, "warning", "less often than chance"),
    ],
)
def test_without_a_reward_the_implicit_reward_decides(dpo_dir, low, high, kind, words):
    accuracy = {"value": 0.5, "low": low, "high": high}
    found = change(dpo_dir, lambda evaluation: evaluation["trained"]["preference"].update(accuracy=accuracy))
    assert found == (
        kind,
        f"The implicit reward puts the chosen answer first {words}: in 50.0% [{100 * low:.1f}, {100 * high:.1f}] of"
        " 200 held-out pairs.",
    )


def test_with_nothing_but_kl_the_verdict_is_how_far_the_policy_moved(dpo_dir):
    kl = {"value": 4.0, "low": 3.5, "high": 4.5}

    def edit(evaluation):
        del evaluation["trained"]["preference"]
        evaluation["trained"]["kl"]["mean"] = kl

    assert change(dpo_dir, edit) == (
        "info",
        "Training moved the policy 4.00 [3.50, 4.50] nats per completion from its start (KL, held-out rows).",
    )


def test_a_reward_model_that_was_not_measured_says_so(reward_dir):
    (reward_dir / "evaluation.json").unlink()
    assert verdict(load_run(reward_dir)).sentence == "Held-out preference accuracy after training was not measured."


def test_only_a_policy_has_the_sentence_on_its_implicit_reward(dpo_dir, reward_dir, run_dir):
    assert preference_sentence(load_run(dpo_dir)).endswith(" of 200 held-out pairs have the chosen answer first")
    assert preference_sentence(load_run(reward_dir)) is None
    assert win_sentence(load_run(dpo_dir)) is None
    assert "(a tie is half a win)" in win_sentence(load_run(run_dir))


def test_no_measurable_change_comes_with_what_the_rows_could_have_shown(run_dir):
    difference = {"value": 0.02, "low": -0.01, "high": 0.05}

    def edit(evaluation):
        evaluation["paired"]["difference"] = difference

    kind, sentence = change(run_dir, edit)
    # 3 points * (1 + 0.8416 / 1.9600) = 4.29; 128 rows * (4.29 / 2)^2 = 588.6
    shown = " With this many rows a difference of 4.3 points is detected with 80% power"
    assert kind == "info"
    assert sentence.endswith(f"{shown}; the observed one needs 589.")
    difference["value"] = 0.0
    assert change(run_dir, edit).sentence.endswith(f"{shown}.")
