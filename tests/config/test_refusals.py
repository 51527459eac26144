"""Which mistakes of the command line are refused, and what is found: the key and the kind of each problem.

A row is what is typed after device=cpu, as in a shell; `@KIND` follows each word that is refused, `@KEY:KIND` where its
problem is of another key. `args` is algo.args; the kind `*` is of a text that a task, a reward or an override has
worded itself. A line that begins with a space continues the row above.
"""

import re
import shlex

import pytest

from rlhf_exp.config.compose import compose_config
from rlhf_exp.config.keys import name_key

REFUSED = r"""
+task.lo=1 @unknown dry_run=maybe @type seed=-1 @range eval.top_p=0 @range reward.weights.outcome=inf @type
  'task.traces.novice.operations=[1,2,3]' @type "output_dir=''" @type "run.tags=['']" @type
'+eval.sets.a={task: contdown}' @eval.sets.a.task:type +eval.sets.b=3 @type '+eval.sets.c={numbers: 3}'
  @eval.sets.c.numbers:type '+eval.sets.d={task: countdown, numbrs: [3]}' @eval.sets.d.numbrs:unknown run.tags=x @type
+args.lr=1e-4 @unknown +args.bta=1 @unknown +args.critic=shared @unknown +args.gradient_checkpointing=true @unknown
  +args.seed=abc @type "args.learning_rate='1e-3'" @type +args.scale_rewards=nope @type args.save_strategy=false @type
  +args.torch_compile_mode=fastest @type +args.include_num_input_tokens_seen=some @type args.temperature=0 @range
  args.loss_constant=0 @range 'args.curriculum_budgets=[0,64]' @range args.hybrid_alpha=2 @range
args.learning_rate=1e-300 @range
algo=sft +args.warmup_ratio=0.1 @unknown +args.num_iteration=1 @unknown
algo=dpo +args.f_divergence_type=kl @type
algo=ppo +args.beta=0.1 @unknown +algo.critic=separate @unknown loss_type=grpo @args.loss_type:unknown
  args.critic=mine @type args.init_kl_coef=x @type args.vf_coef=0 @range args.gamma=2 @range
max_tokens={LONG} @* output_dir=a{LONG} @*
+args.hub_token=hf_abc @secret '+args.model_init_kwargs={token: hf_abc}' @args.model_init_kwargs.token:secret
  +my_api_key=hf_abc @secret hub.push=true hub.repo=me/x +hub.token=hf_abc @secret
'task.path=${nope}' @conflict
task.low=40 @* task.high=30 output_dir=/dev/null/x @missing
output_dir=/ @conflict task.path=rows.csv @* '+eval.sets.far={task: countdown, source: file}' @eval.sets.far.source:*
'+eval.sets.far={task: file, path: nope.jsonl}' @eval.sets.far.path:missing '+eval.sets.near={reward: ./nope}'
  @eval.sets.near.reward:missing model.path=./nope @missing
task=brevity task.of.path=rows.csv @* "run.name='my run'" @type
task.source=file @* run.name=a/b @type
task.source=file task.path=nope.jsonl @missing run.name=-x @type
'task.traces.patience=[96,24]' @*
+reward.weights.outcom=1 @conflict +reward.functions.prompt=a.py:f @conflict +reward.weights.prompt=1
task=hh_rlhf @algo:conflict
task=gsm8k reward=none @algo:conflict
algo=ppo reward=none @algo:conflict
task=hh_rlhf algo=dpo reward=outcome @reward.weights.outcome:conflict
task=hh_rlhf algo=dpo eval.every=5 eval.best=true @conflict
reward=model @*
reward.path=somebody/model @*
reward.judge.url=http://127.0.0.1:9/v1 @idle '+reward.judge={parallel: 2}' @reward.judge:idle
  reward.repetition.ngram_size=2 @idle
'reward.weights={}' @*
reward=model reward.path=./nope @missing
task.samples=self @conflict
algo=sft task.samples=outputs/nope @missing +args.padding_free=true @conflict
model=tiny_gpt2 model.init.architecture=gpt3 @conflict
model=tiny_untrained model.path=gpt2 @conflict
model=gpt2 model.path=null @conflict
model.path=/ @missing
model.path=org/name @missing algo=ppo
generation=compact @conflict +args.use_vllm=true
'+args.reward_weights=[3.0]' @owned +args.max_completion_length=8 @owned +args.seed=3 @owned +args.fsdp=true @owned
  '+args.report_to=[nonsense]' @owned +args.model_init_kwargs.dtype=int8 @args.model_init_kwargs:owned
  output_dir=there +args.output_dir=here @owned +args.num_train_epochs=2 @idle +args.run_name=x @conflict
  +args.project=x @conflict +args.logging_strategy=no @conflict +args.save_only_model=true @conflict
  +args.push_to_hub=true @conflict '+args.generation_kwargs={max_new_tokens: 5}'
  @args.generation_kwargs.max_new_tokens:owned
algo=none eval.every=5 @conflict hub.push=true @conflict hub.repo=me/x
algo=reward_model eval.every=5 @conflict '+eval.sets.far={}' @eval.sets:conflict
eval.every=null eval.best=true @conflict eval.completions=4 eval.start_completions=2 @conflict
eval.every=5 eval.best=true @conflict eval.split=validation
eval.engine=vllm @conflict peft=qlora
algo=dpo args.beta=0 @conflict +args.sync_ref_model=true @conflict 'args.loss_type=[exo_pair]'
  @args.label_smoothing:conflict
algo=dpo +args.f_divergence_type=js_divergence @conflict 'args.loss_type=[aot]' +args.use_weighting=true @conflict
peft=lora args.beta=0 +args.sync_ref_model=true @conflict @conflict
+args.use_liger_kernel=true @conflict +args.vllm_importance_sampling_cap=2 @conflict
+eval.sets.x.task=mixture @eval.sets.x.task:conflict
algo=dpo +args.truncation_mode=keep_end @conflict +args.pad_token=x @conflict
args.per_device_train_batch_size=250 @conflict
+args.generation_batch_size=100 @conflict
args.num_generations=null @range
args.num_generations=1 @range
algo=distill @teacher.path:conflict
algo=distill teacher.path=org/name +args.teacher_model_name_or_path=org/name @conflict
algo=distill teacher.path=org/name +args.num_generations=2 @unknown
algo=distill teacher.path=org/name args.beta=2 @conflict
algo=distill teacher.path=./nope @missing
algo=distill teacher.path=docs @missing
reward=model reward.path=docs @missing
teacher.path=org/name @conflict
algo=distill +techer.path=org/name @techer:unknown
loss_type=grpo args.hybrid_alpha=0.5 @conflict args.loss_constant=1024 @conflict
'args.curriculum_budgets=[64,32,96]' @conflict 'args.curriculum_from_steps=[5,20,40]' @conflict
'args.curriculum_budgets=[32,128]' @conflict 'args.curriculum_from_steps=[0,110]' @conflict
algo=ppo args.init_kl_coef=0 @conflict args.target_kl=1 args.critic_warmup_steps=320 @conflict +args.min_p=0.1 @conflict
  args.gradient_accumulation_steps=2 args.steps_per_generation=3 @conflict generation=trl
  '+args.generation_kwargs={typical_p: 0.9}' @conflict
algo=ppo args.critic=separate @conflict peft=qlora model=tiny_gpt2 task=gsm8k task.source=generated
algo=sft loss_type=dapo @conflict
args.loss_type=dr_grpo @conflict
loss_type=dr_grpo args.loss_type=grpo @conflict
experiment=compare_dr_grpo args.loss_type=dapo @conflict
args.loss_type=dr_grp @loss_type:conflict
scale=ddp @conflict
hardware=gpu_24gb @conflict
device=auto device.use_cpu=false hardware=gpus_8x80gb @conflict scale=none
hardware=gpu_24gb dry_run=true @device:conflict
device=auto hardware=gpu_24gb scale=ddp @conflict dry_run=true
device=auto hardware.gpus=2 @hardware:conflict scale=ddp dry_run=true
device=auto hardware.memory_gb=48 @hardware:conflict dry_run=true
device=auto hardware=gpu_80gb dry_run=true peft=qlora generation=vllm_colocate @conflict
hub.push=true @conflict
hub.push=true hub.repo=x @type hub.base_model=x @type
hub.push=true @conflict hub.repo=me/x peft=lora
"""

ACCEPTED = r"""
task=module task.module=examples/own_task/near.py task.path=examples reward=constant
peft=none seed=5 max_tokens=9 reward=overlong model.trust_remote_code=true +args.num_train_epochs=2 args.max_steps=-1
  args.beta=0 +args.scale_rewards=true '+args.generation_kwargs={typical_p: 0.9}' eval.every=5 eval.best=true
  '+args.optim_args="rank=8,scale=0.25"' 'args.curriculum_budgets=[4,9]' 'args.curriculum_from_steps=[0,500]'
algo=sft +args.eos_token=x max_tokens=1
algo=ppo +args.min_p=0.1 '+args.generation_kwargs={typical_p: 0.9}' generation.method=trl
algo=grpo '~loss_type' reward=random max_tokens=1
algo=distill teacher.path=org/name reward=none task=hh_rlhf args.beta=0
algo=dpo args.beta=0 'args.loss_type=[sigmoid,sft]' eval.every=5 eval.best=true
algo=dpo 'args.loss_type=[exo_pair]' +args.label_smoothing=0.001 +args.sync_ref_model=true
  args.precompute_ref_log_probs=false
model.path=org/name model.parameters=7e9
loss_type=dr_grpo args.loss_type=dr_grpo args.scale_rewards=group
loss_type=hybrid args.hybrid_alpha=0 args.advantage_clip=0.5
"""


def list_cases(table):
    whole = re.sub(r"\n +", " ", table.strip())
    return re.sub(r"(?<![\w.])args\.", "algo.args.", whole).splitlines()


def name(problem):
    return f"{problem.key} {problem.kind}" if hasattr(problem, "kind") else f"{re.split('[=:]', problem)[0]} *"


@pytest.mark.parametrize("case", list_cases(REFUSED))
def test_each_mistake_is_refused_for_its_key(case, refuse):
    typed, expected = [], []
    for word in shlex.split(case.replace("{LONG}", "9" * 4301)):
        if word.startswith("@"):
            key, _, kind = word[1:].rpartition(":")
            expected.append(f"{key or name_key(typed[-1])} {kind}")
        else:
            typed.append(word)
    problems = refuse(*typed)
    assert sorted(map(name, problems)) == sorted(expected)
    assert "hf_abc" not in "".join(problems)


@pytest.mark.parametrize("typed", list_cases(ACCEPTED))
def test_what_is_right_is_accepted(typed):
    compose_config(["device=cpu", *shlex.split(typed)])


def test_unknown_keys_come_first_then_wrong_types_then_values_out_of_range(refuse):
    found = refuse("seed=-1", "dry_run=maybe", "+task.lo=1")
    assert [name(problem) for problem in found] == ["task.lo unknown", "dry_run type", "seed range"]
