"""Generates dialogues in the form of HH-RLHF, for training and testing without the real data.

    for subset, chosen, rejected in generate_pairs(8000, seed=0): ...
    # "helpful-base", "\\n\\nHuman: How do I bake bread?\\n\\nAssistant: Mix flour, ...", "...\\n\\nAssistant: No idea."

In helpful-base a person asks for help: chosen is the right advice; rejected is curt, rude, evasive, or advice for
something else. In harmless-base a person wants something unwise: chosen gives a reason against it and an alternative;
rejected agrees, or refuses without any help. They are much simpler than real dialogues: use them to test a pipeline.

Both chosen and rejected answers are short or long, so that the longer one wins only somewhat more often than half the
time. In a share MISLABELLED of the pairs the labels are swapped, so that no model can be right on all of them.
"""

from collections.abc import Iterator
from random import Random

SYNTHETIC_SUBSETS = ("helpful-base", "harmless-base")
MISLABELLED = 0.06
TWO_TURNS = 0.2  # share of the dialogues with an exchange before the question

# What the person asks for, a tip in one sentence, and another one.
TOPICS = (
    ("bake bread", "Mix flour, water, salt and yeast, let it rise, and bake it hot.", "A warm bowl helps it rise."),
    ("learn to swim", "Take lessons in shallow water and practise floating first.", "Breathe out under water."),
    ("plant tomatoes", "Give them sun, rich soil and a stick to climb on.", "Water the soil, not the leaves."),
    ("write a letter", "Say why you write, then what you want, then thank the reader.", "Read it aloud once."),
    ("fix a flat tyre", "Take the tube out, find the hole in water, dry it and patch it.", "Check for glass."),
    ("paint a room", "Wash the walls, tape the edges, and put on two thin coats.", "Open the windows."),
    ("save money", "Write down what you spend and put a part away on pay day.", "Small sums add up."),
    ("make tea", "Pour hot water over the leaves and wait three minutes.", "Green tea wants cooler water."),
    ("sleep better", "Go to bed at the same hour and leave the phone outside.", "A cool room helps."),
    ("train a puppy", "Reward what it does well at once, in short lessons.", "Stay calm and use the same words."),
    ("learn French", "Practise a few words daily and listen to simple songs.", "Speak from the first day."),
    ("clean a carpet", "Vacuum it, then rub stains with soap and warm water.", "Try a hidden corner first."),
    ("cook rice", "Rinse it, add twice as much water, and let it simmer covered.", "Do not stir it."),
    ("start running", "Run slowly for a minute, walk for two, and repeat.", "Good shoes protect your knees."),
    ("choose a book", "Read the first page and see if you want the second.", "A librarian loves to help."),
    ("pack a suitcase", "Make a list, roll the clothes, and put shoes at the bottom.", "Leave some space."),
    ("grow basil", "Keep it in a bright window and pick the top leaves often.", "It likes moist soil."),
    ("learn chess", "Learn how the pieces move, then play short games.", "Look at lost games again."),
    ("build a shelf", "Measure twice, cut the boards, and screw them to the wall.", "A level keeps it straight."),
    ("bake a cake", "Beat butter and sugar, add eggs and flour, and bake it.", "Use a stick to see if it is done."),
    ("take good photos", "Keep the sun behind you and go closer.", "Take several and keep the best one."),
    ("knit a scarf", "Cast on thirty stitches and knit every row.", "Thick wool is easier at the start."),
    ("play the guitar", "Learn three chords and change between them slowly.", "Ten minutes a day are enough."),
    ("make soup", "Fry an onion, add vegetables and water, and cook until soft.", "Salt it at the end."),
    ("remember names", "Say the name back at once and link it to a picture.", "Write it down later."),
    ("clean windows", "Use warm water with a little vinegar and wipe from the top.", "Do it on a cloudy day."),
    ("wash a jumper", "Use cold water and mild soap, and dry it lying flat.", "Never wring wool."),
    ("give a speech", "Choose three points and practise them aloud.", "Look at a friendly face."),
    ("feed the birds", "Hang seeds where cats cannot reach and add fresh water.", "Clean the feeder often."),
    ("learn to draw", "Draw simple things around you every day.", "Look more at the thing than at the paper."),
    ("fold a paper boat", "Fold the sheet in half, fold the corners in, and pull it open.", "Use firm paper."),
    ("keep bees", "Join a local club and begin with one hive in spring.", "Wear a veil."),
)
HELP_ASKS = (
    "How do I {task}{when}?",
    "Can you tell me how to {task}{when}?",
    "What is the best way to {task}{when}?",
    "I want to {task}{when}. Where do I start?",
    "Please help me {task}{when}.",
    "Any advice on how to {task}{when}?",
    "I have to {task}{when}. What should I know?",
    "My friend wants to {task}{when}. What should I say?",
    "Is it hard to {task}{when}? How does it work?",
    "Could you explain how to {task}{when}?",
    "What do I need to know to {task}{when}?",
    "We would like to {task}{when}. Any ideas?",
)
HELP_WHENS = (
    *("", " this weekend", " cheaply", " with my son", " after work", " next week", " at my age"),
    *(" at home", " on my own", " in spring", " this month", " with a friend", " for fun", " on Sundays"),
)

# What the person wants, a reason against it, and an alternative.
UNWISE = (
    ("read my sister's diary", "it is private and she would feel hurt", "ask her how she is"),
    ("copy my friend's homework", "you would learn nothing from it", "ask your friend to explain it"),
    ("skip school", "you would miss lessons and worry people", "tell a teacher what bothers you"),
    ("cheat in the exam", "it is unfair and could cost you the class", "make a plan to study"),
    ("drive without a licence", "you could hurt someone", "take driving lessons"),
    ("swim far out alone", "the currents are strong", "go with a friend and stay near the shore"),
    ("lie to my boss", "the truth tends to come out", "say openly what went wrong"),
    ("stay awake for three days", "your body needs rest", "drop a task and sleep"),
    ("climb on the roof", "you could fall", "ask someone with a proper ladder"),
    ("take my neighbour's bike", "it is not yours", "ask if you may borrow it"),
    ("feed chocolate to my dog", "it makes dogs ill", "give it a carrot"),
    ("spread a rumour about a classmate", "it hurts and is hard to undo", "speak to the classmate"),
    ("sneak into the cinema", "it is not honest", "look for a day with cheap tickets"),
    ("open my friend's mail", "letters are private", "ask your friend about it"),
    ("eat only sweets", "you would soon feel weak", "keep sweets for after a meal"),
    ("pet a strange dog", "it may be afraid and bite", "ask the owner first"),
    ("walk over thin ice", "it could break", "wait until the lake is declared safe"),
    ("ride without a helmet", "a small fall can hurt your head", "find a helmet that fits"),
    ("blame my brother for the broken cup", "it is not fair to him", "say sorry for it yourself"),
    ("use a stranger's phone in secret", "it is not yours", "ask politely for a call"),
    ("prank call my teacher", "it would bother and scare her", "tell her a joke in class"),
    ("keep a lost wallet", "someone is looking for it", "bring it to the lost and found"),
    ("light fireworks indoors", "it could start a fire", "watch the show in town"),
    ("fake a doctor's note", "it is against the rules", "ask for a day off"),
)
UNWISE_ASKS = (
    "How can I {task}{when}?",
    "Help me {task}{when}.",
    "I want to {task}{when}. Any tips?",
    "Is it fine to {task}{when}?",
    "Nobody will know if I {task}{when}, right?",
    "My friends say I should {task}{when}. How do I do it?",
    "What is the easiest way to {task}{when}?",
    "Tell me how to {task}{when} without trouble.",
    "I plan to {task}{when}. What do you think?",
    "Should I {task}{when}?",
    "Can I {task}{when} and get away with it?",
    "Give me one good reason not to {task}{when}.",
)
UNWISE_WHENS = (
    *("", " today", " tonight", " tomorrow", " next week", " on Sunday", " just once"),
    *(" for a laugh", " this evening", " again", " this summer", " after school", " in the morning", " now"),
)

OPENINGS = (
    ("Hello!", "Hello! What can I do for you?"),
    ("Are you there?", "Yes, I am."),
    ("Good morning.", "Good morning! How can I help?"),
    ("Thanks!", "You are welcome."),
    ("I am bored.", "Let us talk."),
)
POLITE = ("Happy to help. ", "Good question. ", "Sure. ", "Gladly. ", "", "", "")
CURT = ("No idea.", "Just try it.", "Look it up.", "Whatever you like.", "Ask someone else.", "It is easy.")
RUDE = (
    "Everybody knows that. I have better things to do than to explain it to you again.",
    "That is a silly question, and you would not understand the answer in any case.",
    "Not again. Do it yourself.",
)
EVASIVE = (
    "That depends. Some people do it in one way and some in another, and it is hard to say.",
    "There is a lot to say about this, and experts disagree, so I would rather not say anything.",
    "Hard to say. It depends.",
)
GOES_ALONG = (
    "Sure, go ahead.",
    "Yes, do it. Nobody will notice.",
    "Great idea! Everybody does it now and then, and nothing bad ever happens. Have fun with it.",
    "Of course. Those who warn you only want to spoil your fun. Do it.",
    "It is easy. Wait until nobody looks, and if anyone asks you later, you know nothing about it.",
)
COLD = ("No.", "I will not answer that.", "No. You should be ashamed to ask me such a thing, and I will not help you.")


def generate_pairs(n: int, seed: int) -> Iterator[tuple[str, str, str]]:
    """`n` pairs as (subset, chosen, rejected), without repeated prompts, half of each subset.

    A longer list begins with the shorter one of the same seed. At most 48,000 are possible.
    """
    rng, seen = Random(seed), set()
    while len(seen) < n:
        subset = SYNTHETIC_SUBSETS[len(seen) % 2]
        question, good, bad = (_write_help if subset == "helpful-base" else _write_care)(rng)
        opening = "\n\nHuman: {}\n\nAssistant: {}".format(*rng.choice(OPENINGS)) if rng.random() < TWO_TURNS else ""
        prompt = f"{opening}\n\nHuman: {question}\n\nAssistant:"
        if prompt not in seen:
            seen.add(prompt)
            answers = (bad, good) if rng.random() < MISLABELLED else (good, bad)
            yield subset, *(f"{prompt} {answer}" for answer in answers)


def _write_help(rng: Random) -> tuple[str, str, str]:
    (task, tip, more), (_, other_tip, other_more) = rng.sample(TOPICS, 2)
    question = rng.choice(HELP_ASKS).format(task=task, when=rng.choice(HELP_WHENS))
    good = rng.choice(POLITE) + tip + (f" {more}" if rng.random() < 0.4 else "")
    elsewhere = rng.choice(POLITE) + other_tip + (f" {other_more}" if rng.random() < 0.6 else "")
    return question, good, rng.choice([rng.choice(CURT), rng.choice(RUDE), rng.choice(EVASIVE), elsewhere])


def _write_care(rng: Random) -> tuple[str, str, str]:
    task, reason, better = rng.choice(UNWISE)
    question = rng.choice(UNWISE_ASKS).format(task=task, when=rng.choice(UNWISE_WHENS))
    form = rng.choice(("Better not: {0}. You could {1}.", "No, {0}. Why not {1}?", "I see, but {0}. Maybe {1}."))
    good = form.format(reason, better)
    return question, good, rng.choice([*GOES_ALONG, rng.choice(COLD)])
