# docker build --build-arg EXTRAS=cuda -t rlhf-exp .
# docker run --rm --gpus all -e HF_TOKEN -v "$PWD/hf:/app/hf" -v "$PWD/outputs:/app/outputs" rlhf-exp task=countdown
#
# torch 2.13 is built for CUDA 13.0. The devel image has nvcc, which compiles flash-attn.
FROM nvidia/cuda:13.0.2-devel-ubuntu24.04

# Extras of pyproject.toml: "bitsandbytes", "bitsandbytes,flash-attn" (= "cuda"), and "dev" to run the tests.
ARG EXTRAS=bitsandbytes
# Compilers that run at the same time for flash-attn; each takes about 4 GB of memory.
ARG MAX_JOBS=4

# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*

ENV HF_HOME=/app/hf \
    PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1
WORKDIR /app
# User 1000 ("ubuntu" in the base image) is most people's own id, so that a mounted folder is writable.
RUN python3 -m venv /opt/venv && install --directory --owner=1000 hf outputs

COPY requirements.lock ./
RUN python -m pip install --no-cache-dir -r requirements.lock ninja==1.13.0 wheel==0.45.1

COPY . .
RUN python -m pip install --no-cache-dir --no-build-isolation -c requirements.lock -e ".[${EXTRAS}]"

USER 1000
ENTRYPOINT ["python", "-m", "rlhf_exp"]
