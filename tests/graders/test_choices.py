"""Which letter of a completion is read, in forms of other projects' tests, and that no other one is."""

import pytest

from rlhf_exp.graders.choices import read_choice

FORMS = {  # all name C
    "alone": ["C", "c", "C.", "(C)", "[C]", "c)", " C \n", "**C**", "__C__", "**C", "- C", "C:"],
    "in a box": [r"\boxed{C}", r"\boxed{\text{C}}", r"$\boxed{\text{(C) 25\%}}$", r"\boxed{C. Paris}", r"\fbox{C}",
                 "<answer>(c)</answer>", r"A is it. \boxed{C}"],
    "said": ["Answer: C", "ANSWER: c", "Answer : C", "**Answer:** C", "__Answer:__ C", "**Answer**: C", "Answer – C",
             "Answer -> C", "Answer: (C)", "Answer: $C$", "Answer: C, by the rule", "answer: c. 14", "Ans: C",
             '{"answer": "C"}', "the answer is c", "The answer is: C", "The answer is **C**.",
             "The correct answer is option (c).", "The best choice is option C", "The answer should be option C",
             "Not B, the answer is C", "Answer: B\nNo. Answer: C", "A) 1\nB) 2\nC) 3\nAnswer: C",
             "Answer: C\nA is wrong", "(D) 1\n\nThe best answer is: (C) 2", "Answer: c) because a) is false"],
    "concluded": ["A. 1\nB. 2\nC. 3\nTherefore: C", "So (C).", "Hence: **c**"],
    "asserted": ["Option C is correct because", "C is the answer", "[C] is correct", "C) is the right answer",
                 "A and B are possible, but C is correct", "Therefore, C is the correct answer.", "C is right"],
    "chosen": ["I would select C", "I'll go with option (C) because", "Of A and C, I choose C"],
    "first": ["C. first", "(c) Jupiter", "**C) Paris**", "C: something", "Option C", "Well.\n\nC. 14\n\nYes.",
              "C because A is wrong", "C, since A is wrong", "C\n\nExplanation: ...", "The best answer is:\n(C) No"],
}  # fmt: skip
OTHERS = [
    "", "A dog is an animal", "A) one\nB) two\nC) three", "Neither; a) 1 b) 2", "e.g. this", "Answer: A, B, C, D",
    "Answer: A/B", "Answer: A and C", "The answer is either A or B", "Options: A) 1 B) 2",
    "Answer:\nA) 5\nB) 6", "Both B and C are correct", "A is correct. B is correct.", "the answer is not here",
    "The answer is I think B", "answer: a dog", "I think the answer is a", "The answer is e.g. this",
    "Is option B correct?", "Option B is not correct", "Option B is incorrect", "B is not the answer",
    "(A) is wrong because it is", "I don't think B is correct", "I would not select B", "I can't say the answer is B",
    "It is not true that B is the answer", "Neither A nor B is correct", "If option B is correct, then",
    "Suppose the answer is B", "Let me see whether the answer is B", "Option A is correct if x > 0",
    "Vitamin C is the best choice", "Plan B is the best option", "Therefore, A is wrong", "so I", "Thus, I think",
    "choose C++", "The option is C-level", "The answer is A's", "I choose a dog", r"\boxed{A + B}", r"\boxed{A, B}",
]  # fmt: skip


@pytest.mark.parametrize("text", [text for several in FORMS.values() for text in several])
def test_the_letter_is_read_in_each_form(text):
    assert read_choice(text) == "C"


@pytest.mark.parametrize("text", OTHERS)
def test_no_letter_is_read_where_none_is_chosen(text):
    assert read_choice(text) is None


@pytest.mark.parametrize(
    "text", ["(", "answer: ", "\\boxed{", "A\n", "A, ", "so ", "\n", "the ", "A is the ", "_", "\\text{"]
)
def test_a_hostile_text_is_read_in_time(text):
    read_choice(text * 7000 + "answer is B")
