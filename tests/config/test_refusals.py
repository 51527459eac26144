"""Which mistakes of the command line are refused, and what is found: the key and the kind of each problem.

Each line: what is typed after device=cpu, as in a shell, then `KEY KIND` of each problem, where args is algo.args and
`*` is the kind of a text that a task, a reward or an override has worded itself.
"""

import re
import shlex

import pytest

from rlhf_exp.config.compose import compose_config

REFUSED = r"""
+task.lo=1 dry_run=maybe seed=-1 eval.top_p=0  ->  task.lo unknown, dry_run type, seed range, eval.top_p range
task.low=40 task.high=30 output_dir=/dev/null/x  ->  task.low *, output_dir missing
'task.path=${nope}'  ->  task.path conflict
algo=sft loss_type=dapo  ->  loss_type conflict
+reward.weights.outcom=1  ->  reward.weights.outcom conflict
+reward.functions.prompt=a.py:f +reward.weights.prompt=1  ->  reward.functions.prompt conflict
task.source=file  ->  task.source *
task.source=file task.path=nope.jsonl  ->  task.path missing
task=hh_rlhf  ->  algo conflict
task=gsm8k reward=none  ->  algo conflict
task=hh_rlhf reward=outcome algo=dpo  ->  reward.weights.outcome conflict
reward=model  ->  reward *
reward.path=somebody/model  ->  reward.path *
reward=model reward.path=./nope  ->  reward.path missing
task.samples=self  ->  task.samples conflict
algo=sft task.samples=outputs/nope  ->  task.samples missing
algo=sft +args.padding_free=true  ->  args.padding_free conflict
model=tiny_gpt2 model.init.architecture=gpt3  ->  model.init.architecture conflict
'task.traces.patience=[96,24]'  ->  task.traces.patience *
'task.traces.novice.operations=[1,2,3]'  ->  task.traces.novice.operations type
model=tiny_untrained model.path=gpt2  ->  model.path conflict
model=gpt2 model.path=null  ->  model.path conflict
model.path=./nope  ->  model.path missing
model.path=/  ->  model.path missing
model.path=org/name algo=ppo  ->  model.path missing
generation=compact +args.use_vllm=true  ->  generation conflict
'+args.reward_weights=[3.0]'  ->  args.reward_weights owned
+args.max_completion_length=8  ->  args.max_completion_length owned
+args.seed=3  ->  args.seed owned
'+args.report_to=[nonsense]'  ->  args.report_to owned
+args.model_init_kwargs.dtype=int8  ->  args.model_init_kwargs owned
output_dir=there +args.output_dir=here  ->  args.output_dir owned
'reward.weights={}'  ->  reward.weights *
+args.num_train_epochs=2  ->  args.num_train_epochs idle
reward.weights.outcome=inf  ->  reward.weights.outcome type
+args.run_name=x  ->  args.run_name conflict
+args.project=x  ->  args.project conflict
+args.logging_strategy=no  ->  args.logging_strategy conflict
'output_dir='"'"''"'"''  ->  output_dir type
output_dir=/  ->  output_dir conflict
+args.hub_token=hf_abc  ->  args.hub_token secret
'+args.model_init_kwargs={token: hf_abc}'  ->  args.model_init_kwargs.token secret
+my_api_key=hf_abc  ->  my_api_key secret
algo=grpo +args.lr=1e-4  ->  args.lr unknown
algo=sft +args.warmup_ratio=0.1  ->  args.warmup_ratio unknown
+args.save_only_model=true  ->  args.save_only_model conflict
algo=ppo args.target_kl=6 +args.min_p=0.1 generation.method=trl  ->  args.min_p conflict
algo=ppo args.target_kl=6 generation=trl '+args.generation_kwargs={typical_p: 0.9}'  ->  args.generation_kwargs conflict
algo=none eval.every=5  ->  eval.every conflict
algo=dpo args.beta=0  ->  args.beta conflict
args.learning_rate=1e-300  ->  args.learning_rate range
'+args.generation_kwargs={max_new_tokens: 5}'  ->  args.generation_kwargs.max_new_tokens owned
+args.fsdp=true  ->  args.fsdp owned
task.path=rows.csv  ->  task.path *
task=brevity task.of.path=rows.csv  ->  task.of.path *
eval.every=null eval.best=true  ->  eval.best conflict
eval.every=5 eval.best=true eval.split=validation  ->  eval.best conflict
algo=reward_model eval.every=5  ->  eval.every conflict
algo=dpo task=hh_rlhf eval.every=5 eval.best=true  ->  eval.best conflict
eval.completions=4 eval.start_completions=2  ->  eval.start_completions conflict
eval.engine=vllm peft=qlora  ->  eval.engine conflict
'+eval.sets.far={task: contdown}'  ->  eval.sets.far.task type
'+eval.sets.far={task: countdown, numbrs: [3], low: x}'  ->  eval.sets.far.numbrs unknown, eval.sets.far.low type
'+eval.sets.far={numbers: 3}' +eval.sets.near=3  ->  eval.sets.near type, eval.sets.far.numbers type
'+eval.sets.far={task: file, path: nope.jsonl}'  ->  eval.sets.far.path missing
'+eval.sets.far={task: countdown, source: file}'  ->  eval.sets.far.source *
'+eval.sets.far={reward: ./nope}'  ->  eval.sets.far.reward missing
algo=reward_model '+eval.sets.far={}'  ->  eval.sets conflict
algo=sft +args.num_iteration=1  ->  args.num_iteration unknown
'args.learning_rate='"'"'1e-3'"'"''  ->  args.learning_rate type
+args.scale_rewards=nope  ->  args.scale_rewards type
algo=dpo +args.f_divergence_type=kl  ->  args.f_divergence_type type
algo=dpo +args.f_divergence_type=js_divergence 'args.loss_type=[aot]'  ->  args.f_divergence_type conflict
algo=dpo 'args.loss_type=[exo_pair]'  ->  args.label_smoothing conflict
algo=dpo 'args.loss_type=[aot]' +args.use_weighting=true  ->  args.use_weighting conflict
algo=dpo +args.sync_ref_model=true  ->  args.sync_ref_model conflict
peft=lora +args.sync_ref_model=true  ->  args.sync_ref_model conflict
args.beta=0 +args.sync_ref_model=true  ->  args.sync_ref_model conflict
+args.torch_compile_mode=fastest  ->  args.torch_compile_mode type
+args.include_num_input_tokens_seen=some  ->  args.include_num_input_tokens_seen type
+args.use_liger_kernel=true  ->  args.use_liger_kernel missing
max_tokens={LONG}  ->  max_tokens *
output_dir=a{LONG}  ->  output_dir *
args.save_strategy=false  ->  args.save_strategy type
args.per_device_train_batch_size=250  ->  args.per_device_train_batch_size conflict
+args.generation_batch_size=100  ->  args.generation_batch_size conflict
args.num_generations=null  ->  args.num_generations range
+args.gradient_checkpointing=true  ->  args.gradient_checkpointing unknown
args.num_generations=1  ->  args.num_generations range
args.hybrid_alpha=0.5 loss_type=dr_grpo  ->  args.hybrid_alpha conflict
args.loss_constant=1024 loss_type=grpo  ->  args.loss_constant conflict
args.loss_constant=0 loss_type=dr_grpo  ->  args.loss_constant range
'args.curriculum_budgets=[64,32,96]' 'args.curriculum_from_steps=[0,20,40]'  ->  args.curriculum_budgets conflict
'args.curriculum_budgets=[32,64]' 'args.curriculum_from_steps=[5,20]'  ->  args.curriculum_from_steps conflict
'args.curriculum_budgets=[32,128]' 'args.curriculum_from_steps=[0,20]'  ->  args.curriculum_budgets conflict
'args.curriculum_budgets=[32,64]' 'args.curriculum_from_steps=[0,110]'  ->  args.curriculum_from_steps conflict
'args.curriculum_budgets=[0,64]' 'args.curriculum_from_steps=[0,20]'  ->  args.curriculum_budgets range
algo=ppo args.init_kl_coef=0 args.target_kl=1  ->  args.init_kl_coef conflict
algo=ppo reward=none  ->  algo conflict
algo=ppo +args.beta=0.1  ->  args.beta unknown
algo=ppo loss_type=grpo  ->  args.loss_type unknown
args.loss_type=dr_grpo  ->  args.loss_type conflict
loss_type=dr_grpo args.loss_type=grpo  ->  args.loss_type conflict
experiment=compare_dr_grpo args.loss_type=dapo  ->  args.loss_type conflict
args.loss_type=dr_grp  ->  loss_type conflict
algo=ppo args.steps_per_generation=3 args.gradient_accumulation_steps=2  ->  args.steps_per_generation conflict
algo=ppo args.critic_warmup_steps=320  ->  args.critic_warmup_steps conflict
algo=ppo args.critic=separate peft=qlora model=tiny_gpt2 task=gsm8k task.source=generated  ->  args.critic conflict
algo=ppo +algo.critic=separate  ->  algo.critic unknown
algo=grpo +args.critic=shared  ->  args.critic unknown
hardware=gpu_24gb  ->  hardware conflict
device=auto device.use_cpu=false hardware=gpus_8x80gb scale=none  ->  hardware conflict
hardware=gpu_24gb dry_run=true  ->  device conflict
device=auto hardware=gpu_24gb scale=ddp dry_run=true  ->  scale conflict
device=auto hardware.gpus=2 scale=ddp dry_run=true  ->  hardware conflict
device=auto hardware.memory_gb=48 dry_run=true  ->  hardware conflict
device=auto hardware=gpu_80gb dry_run=true peft=qlora generation=vllm_colocate  ->  generation conflict
hub.push=true  ->  hub.push conflict
hub.repo=x hub.push=true  ->  hub.repo type
hub.base_model=x  ->  hub.base_model type
hub.push=true hub.repo=me/x algo=none  ->  hub.push conflict
hub.push=true hub.repo=me/x +hub.token=hf_abc  ->  hub.token secret
hub.push=true hub.repo=me/x peft=lora  ->  hub.push conflict
+args.push_to_hub=true  ->  args.push_to_hub conflict
"run.name='my run'"  ->  run.name type
run.name=a/b  ->  run.name type
run.name=-x  ->  run.name type
"run.tags=['']"  ->  run.tags type
run.tags=x  ->  run.tags type
scale=ddp  ->  scale conflict
+args.seed=abc args.temperature=0 +args.bta=1  ->  args.bta unknown, args.seed type, args.temperature range
"""

ACCEPTED = r"""
task=module task.module=examples/own_task/near.py task.path=examples
peft=none seed=5 max_tokens=9 reward=overlong model.trust_remote_code=true
+args.num_train_epochs=2 args.max_steps=-1
algo=sft +args.eos_token=x
algo=ppo +args.min_p=0.1 generation.method=trl
algo=ppo '+args.generation_kwargs={typical_p: 0.9}' generation.method=trl
algo=grpo '~loss_type'
algo=grpo args.beta=0
algo=dpo args.beta=0 'args.loss_type=[sft]'
algo=dpo args.beta=0 'args.loss_type=[sigmoid,sft]'
algo=grpo reward=constant
algo=grpo reward=random max_tokens=1
algo=sft max_tokens=1
'+args.generation_kwargs={typical_p: 0.9}'
eval.every=5 eval.best=true
algo=dpo eval.every=5 eval.best=true
model.path=org/name model.parameters=7e9
+args.scale_rewards=true
'args.curriculum_budgets=[32,64]' 'args.curriculum_from_steps=[0,20]'
'args.curriculum_budgets=[]' 'args.curriculum_from_steps=[]'
'args.curriculum_budgets=[32,96]' 'args.curriculum_from_steps=[0,500]' args.max_steps=-1
loss_type=dr_grpo args.loss_type=dr_grpo args.scale_rewards=group
experiment=compare_dr_grpo
'+args.optim_args="rank=8,scale=0.25"'
algo=dpo +args.sync_ref_model=true args.precompute_ref_log_probs=false
algo=dpo 'args.loss_type=[exo_pair]' +args.label_smoothing=0.001
loss_type=hybrid args.hybrid_alpha=0 args.advantage_clip=0.5
"""


def list_cases(table):
    return re.sub(r"(?<![\w.])args\.", "algo.args.", table.strip()).splitlines()


def name(problem):
    return f"{problem.key} {problem.kind}" if hasattr(problem, "kind") else f"{re.split('[=:]', problem)[0]} *"


@pytest.mark.parametrize("case", list_cases(REFUSED))
def test_a_mistake_is_refused_for_its_key(case, refuse):
    typed, _, expected = case.replace("{LONG}", "9" * 4301).partition("  ->  ")
    problems = refuse(*shlex.split(typed))
    assert [name(problem) for problem in problems] == expected.split(", ")
    assert "hf_abc" not in "".join(problems)


@pytest.mark.parametrize("typed", list_cases(ACCEPTED))
def test_what_is_right_is_accepted(typed):
    compose_config(["device=cpu", *shlex.split(typed)])
