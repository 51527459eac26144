"""reward=judge, against a server of our own that speaks OpenAI's chat completions."""

import json
import os
import re
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from threading import Thread

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.errors import ConfigError
from rlhf_exp.graders.user_code import RewardError
from rlhf_exp.preflight.judged import check_judge
from rlhf_exp.rewards import judge as judging
from rlhf_exp.rewards.judge import load_judge
from rlhf_exp.runs.load import load_run


@contextmanager
def serve(answer):
    """A judge whose content is `answer(text, number)`, an int for an HTTP error; yields its url and its requests."""
    requests = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append(body | {"key": self.headers["Authorization"], "path": self.path})
            found = answer(body["messages"][0]["content"], len(requests))
            message = {"role": "assistant", "content": found}
            reply = {"id": "1", "created": 0, "model": body["model"], "object": "chat.completion",
                     "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                     "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}  # fmt: skip
            self.send_response(found if isinstance(found, int) else 200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(reply).encode())

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", requests
    finally:
        server.shutdown()
        server.server_close()


def by_length(text, number):
    answer = re.search(r"The answer:\n(.*?)\n\nReply", text, re.DOTALL)[1]
    return json.dumps({"score": min(10, len(answer.split()))})


def compose(url, folder, *overrides):
    keys = ["reward=judge", f"reward.judge.url={url}", "reward.judge.model=small", f"output_dir={folder}"]
    return compose_config(["algo=grpo", "task=countdown", *keys, *overrides])


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(judging, "PAUSE_S", 0.0)
    monkeypatch.setenv("JUDGE_API_KEY", "sesame")


def test_a_score_is_asked_once_and_kept(tmp_path):
    with serve(by_length) as (url, requests):
        judge = load_judge(compose(url, tmp_path))
        asked = len(requests)
        prompts = ["Why?", [{"role": "user", "content": "Why?"}], "Why?"]
        assert judge(prompts, ["a b", [{"role": "assistant", "content": "a b c"}], "a b"]) == [0.2, 0.3, 0.2]
        assert judge(["Why?"], ["a b"]) == load_judge(compose(url, tmp_path))(["Why?"], ["a b"]) == [0.2]
        assert len(requests) == asked + 3  # two texts, and the trial of the second judge
        assert {request["key"] for request in requests} == {"Bearer sesame"}
        lines = (tmp_path / "judge.jsonl").read_text()
        assert len(lines.splitlines()) == 2 and "sesame" not in lines
        with pytest.raises(RewardError, match=r"reward.judge.max_calls=3: 2 are used, 2 more needed; .*resume="):
            load_judge(compose(url, tmp_path, "reward.judge.max_calls=3"))(["Why?"] * 2, ["1", "2"])


def test_a_slash_at_the_end_of_the_url_and_a_line_end_in_the_key_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("JUDGE_API_KEY", "sesame\n")
    with serve(by_length) as (url, requests):
        assert load_judge(compose(f"{url}/", tmp_path))(["Why?"], ["a b"]) == [0.2]
    assert {(request["path"], request["key"]) for request in requests} == {("/v1/chat/completions", "Bearer sesame")}


def test_an_answer_of_another_form_is_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(judging, "urlopen", lambda request, timeout: BytesIO(b"<html>sign in</html>"))
    with pytest.raises(ConfigError, match="answered '<html>sign in</html>' in 4 attempts"):
        load_judge(compose("http://127.0.0.1:1/v1", tmp_path))


def test_an_endpoint_that_stumbles_is_asked_again(tmp_path):
    with serve(lambda text, n: 500 if n < 3 else by_length(text, n)) as (url, _):
        assert load_judge(compose(url, tmp_path))(["Why?"], ["a {prompt} b"]) == [0.3]


@pytest.mark.parametrize("said", ['{"score": 11}', '{"score": 1.5}', '{"score": true}', "8", "good", "", 500])
def test_what_is_no_score_is_an_error_and_never_a_reward(said, tmp_path):
    with serve(lambda text, n: said) as (url, requests):
        with pytest.raises(ConfigError, match=rf'{url}: .* in 4 attempts; must be {{"score": N}}, N from 0 to 10'):
            load_judge(compose(url, tmp_path))
        assert len(requests) == 4


@pytest.mark.parametrize(("status", "asked"), [(400, 1), (401, 1), (403, 1), (404, 1), (408, 4), (429, 4), (503, 4)])
def test_an_answer_that_no_further_request_changes_is_asked_for_once(status, asked, tmp_path):
    with serve(lambda text, n: status) as (url, requests):
        with pytest.raises(ConfigError, match=rf"{url}: gave no answer, HTTPError: HTTP Error {status}") as refused:
            load_judge(compose(url, tmp_path))
        assert len(requests) == asked
        assert ("; check JUDGE_API_KEY and reward.judge.model" in str(refused.value)) == (asked == 1)


def test_a_dry_run_asks_nothing(tmp_path):
    with serve(by_length) as (url, requests):
        load_judge(compose(url, tmp_path, "dry_run=true"))
        assert not requests


@pytest.mark.parametrize("key", ["schlüssel", "ключ", "se\nsame"])
def test_a_key_that_no_header_can_hold_is_refused_by_name(key, tmp_path, monkeypatch):
    monkeypatch.setenv("JUDGE_API_KEY", key)
    with pytest.raises(ConfigError) as refused:
        compose("http://127.0.0.1:1/v1", tmp_path)
    assert str(refused.value) == "JUDGE_API_KEY: must be of printable ASCII characters (its value is not shown)"


def test_a_rubric_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "rubric.txt").write_bytes(b"\xff\xfe {completion}")
    with pytest.raises(ConfigError, match=r"reward.judge.rubric=.*rubric.txt: not a text in UTF-8 \("):
        compose("http://127.0.0.1:1/v1", tmp_path, f"reward.judge.rubric={tmp_path / 'rubric.txt'}")


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        (["reward.judge.url=null"], "reward.judge.url=None: must be an endpoint, such as http"),
        (["reward.judge.url='http://me:sesame@host/v1'"], "reward.judge.url=(not shown): must be an endpoint"),
        (["reward.judge.url='http://host:abc/v1'"], "reward.judge.url=http://host:abc/v1: must be an endpoint"),
        (["reward.judge.url='http://host:99999/v1'"], "reward.judge.url=http://host:99999/v1: must be an endpoint"),
        (["reward.judge.url='http://host/v1?key=sesame'"], "reward.judge.url=(not shown): must be an endpoint"),
        (["reward.judge.url='http://höst/v1'"], "reward.judge.url=http://höst/v1: must be an endpoint"),
        (["reward.judge.model=null"], "reward.judge.model: missing; must be a model's name at reward.judge.url"),
        (["reward.judge.lowest=9", "reward.judge.highest=1"], "reward.judge.lowest=9: must be below reward.judge.high"),
        (["reward.judge.rubric=no.txt"], "reward.judge.rubric=no.txt: no such file"),
        (["reward.judge.rubric=docs"], "reward.judge.rubric=docs: is a folder; must be a text file"),
        (["reward.judge.rubric=/dev/null"], "reward.judge.rubric=/dev/null: not a regular file; must be a text file"),
        (["reward.judge.rubric=LICENSE"], "reward.judge.rubric=LICENSE: must hold {completion}, where the completion"),
        (["algo=reward_model", "task=hh_rlhf"], "reward=judge: scores completions, and algo=reward_model samples none"),
        (["+reward.judge.api_key=x"], "reward.judge.api_key: a secret would be saved"),
    ],
)
def test_a_judge_that_cannot_be_asked_is_refused(overrides, line, tmp_path):
    with pytest.raises(ConfigError) as refused:
        compose("http://127.0.0.1:1/v1", tmp_path, *overrides)
    assert line in str(refused.value)


def test_the_preflight_tells_what_a_judge_can_do(tmp_path):
    class Given:
        pass

    rows = [{"prompt": f"{n}?", "chosen": " ".join("a" * (n % 7 + 2)), "rejected": "a"} for n in range(16)]
    with serve(by_length) as (url, _):
        experiment, experiment.task = Given(), Given()
        experiment.rewards, experiment.task.pairs = [load_judge(compose(url, tmp_path))], rows
        found = {one.name: one for one in check_judge(experiment, [(row["chosen"], row) for row in rows])}
    assert {name: one.status for name, one in found.items()} == {
        "judge_repeats": "passed", "judge_empty": "passed", "judge_length": "warned", "judge_pairs": "passed"
    }  # fmt: skip
    assert found["judge_pairs"].figures["right"]["value"] == 1
    with serve(lambda text, n: json.dumps({"score": n % 11})) as (url, _):
        experiment.rewards = [load_judge(compose(url, tmp_path))]
        found = {one.name: one.status for one in check_judge(experiment, [(row["chosen"], row) for row in rows])}
    assert found["judge_repeats"] == "warned"


def test_a_run_learns_from_it_and_writes_no_key(launch, tmp_path):
    out = tmp_path / "run"
    with serve(by_length) as (url, requests):
        keys = ["algo=grpo", "task=countdown", "reward=judge", f"reward.judge.url={url}", "reward.judge.model=small"]
        small = ["algo.args.max_steps=1", "eval.rows=8", "task.train_rows=8", "algo.args.num_generations=4"]
        batch = ["algo.args.per_device_train_batch_size=8", "task.baselines=false", "eval.every=null"]
        done = launch(*keys, *small, *batch, f"output_dir={out}")
        assert done.returncode == 0, done.stderr
    assert "judge_repeats" in done.stdout and load_run(out).evaluation.trained.reward.mean["value"] > 0
    assert not [file for file in out.rglob("*") if file.is_file() and b"sesame" in file.read_bytes()]
    assert os.environ["JUDGE_API_KEY"] == "sesame" and len(requests) > 16
