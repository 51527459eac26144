"""A policy in float64, its log-probabilities token by token, and how its gradient is compared with a trainer's."""

import torch


def copy_float64(model):
    """Not by deepcopy: the forward that TRL puts on a model keeps calling the model that it was put on."""
    copied = type(model)(model.config).double().eval()
    copied.load_state_dict(model.state_dict())
    return copied


def move(model, spread):
    """Change the weights by a share of their deviation, so that they are not the reference's any more."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += spread * parameter.std() * torch.randn_like(parameter)


def sum_logps(model, prompt, completion):
    """log p(completion | prompt) of token ids without padding."""
    logps = model(torch.tensor([[*prompt, *completion]])).logits[0].log_softmax(-1)
    return sum(logps[len(prompt) + i - 1, token] for i, token in enumerate(completion))


def assert_same_gradient(model, reference, tolerance=1e-4):
    """The difference is less than a share of the gradient's size."""
    found, wanted = (
        torch.cat([parameter.grad.flatten().double() for parameter in each.parameters()]) for each in (model, reference)
    )
    assert (found - wanted).norm() < tolerance * wanted.norm()


def draw_rows(lengths, vocabulary, generator):
    """Random rows as a rollout leaves them: prompts padded on the left, completions on the right.

    Args:
        lengths: tokens of the prompt and of the completion of each row.
    """
    left, width = (max(counts) for counts in zip(*lengths, strict=True))
    prompt_mask = torch.tensor([[0] * (left - p) + [1] * p for p, _ in lengths])
    completion_mask = torch.tensor([[1] * c + [0] * (width - c) for _, c in lengths])
    ids = torch.randint(3, vocabulary, (len(lengths), left + width), generator=generator)
    return {
        "prompt_ids": ids[:, :left] * prompt_mask,
        "prompt_mask": prompt_mask,
        "completion_ids": ids[:, left:],
        "completion_mask": completion_mask,
    }


def roll_out(trainer, rows):
    """The batch of a rollout, for a loss in training mode."""
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    return trainer._generate_and_score_completions(rows)


def unpad(batch):
    """(token ids of the prompt, token ids of the completion) of each row."""
    sides = (
        [ids[mask.bool()].tolist() for ids, mask in zip(batch[f"{side}_ids"], batch[f"{side}_mask"], strict=True)]
        for side in ("prompt", "completion")
    )
    return list(zip(*sides, strict=True))
