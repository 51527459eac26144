"""The problems of a data set of reasoning-gym (arXiv:2505.24760), graded by its own grader in a child process.

Nine of its graders evaluate an answer as Python, some raise errors, and six data sets make other rows in each process
unless Python's hash seed is fixed (docs/results/graders.md). The child makes the rows, and grades each answer in a fork
with limits. It is no jail: a fork can read files, and code written for it can set its own grade.
"""

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
from functools import cache

from rlhf_exp.graders import Grade, find_tags, keep_end
from rlhf_exp.tasks import Item, OwnTask
from rlhf_exp.tasks.splits import SHARES, split_of

ROWS, WALL_S, LIMITS = 1000, 20, {"CPU": 5, "AS": 3 << 30, "FSIZE": 0, "NPROC": 0}
REFUSED = re.compile(r"os\.(?!listdir|scandir)|(subprocess|socket|shutil|ctypes|signal|resource)\.")


class Problems(OwnTask):
    def rows(self):
        of = [self.options["dataset"], json.dumps({k: v for k, v in self.options.items() if k != "dataset"})]
        items = {q: Item(str(i), {"question": q, "of": of}) for i, q in enumerate(start(*of)[1])}
        return {split: [item for q, item in items.items() if split_of(q) == split] for split in SHARES}

    def write_prompt(self, item, chat):
        question = item.columns["question"]
        return f"{question}\n\nThink step by step. Then give the final answer alone in <answer> </answer> tags."

    def grade(self, completion, row):
        answer = find_tags(keep_end(completion))[1].strip()
        child, _ = start(*row["of"])
        print(json.dumps([int(row["id"]), answer]), file=child.stdin, flush=True)
        score = json.loads(child.stdout.readline()) if answer else 0.0
        return Grade("correct" if score == 1 else "partial" if score else "failed", score, answer or None)


@cache
def start(dataset, options):
    """The child process of a data set, and its questions."""
    env = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)), "PYTHONHASHSEED": "0"}
    command, pipe = [sys.executable, __file__, dataset, options], subprocess.PIPE
    child = subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
    return child, json.loads(child.stdout.readline())


def serve(dataset, options):
    from reasoning_gym.factory import create_dataset

    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # some data sets print
    random.seed(0)
    data = create_dataset(dataset, **{"seed": 0, **json.loads(options), "size": ROWS})
    entries = [data[i] for i in range(ROWS)]
    print(json.dumps([entry["question"] for entry in entries]), file=replies)
    for line in sys.stdin:
        i, answer = json.loads(line)
        print(json.dumps(score_apart(data, answer, entries[i])), file=replies)


def score_apart(data, answer, entry):
    """From 0 to 1; 0 for an answer that raises an error or reaches a limit."""
    ours, theirs = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            signal.alarm(WALL_S)
            for name, most in LIMITS.items():
                resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (most, most))
            sys.addaudithook(refuse)
            os.write(theirs, str(min(1.0, max(0.0, float(data.score_answer(answer, entry))))).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    os.waitpid(pid, 0)
    with os.fdopen(ours) as found:
        return float(found.read() or 0)


def refuse(event, args):
    if REFUSED.match(event) or event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        raise PermissionError(event)


if __name__ == "__main__":
    serve(*sys.argv[1:])
