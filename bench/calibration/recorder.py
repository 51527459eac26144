"""What another tool says of the archived runs: FlightRecorder of provenir 0.8.0, in an environment of its own.

    python -m venv /tmp/provenir && /tmp/provenir/bin/pip install provenir==0.8.0
    /tmp/provenir/bin/python bench/calibration/recorder.py       # provenir.json, which `make calibrate` reads

Its thresholds are its own. Of what a run does not log it is told a figure that no detector minds.
"""

import json
from collections import Counter

from archive import KINDS, read_lines, to_rows
from settings import HERE

OUTCOME = HERE / "provenir.json"
NAMES = {"kl": ("kl", "kl_k1"), "entropy": ("entropy",), "reward_mean": ("reward",), "reward_std": ("reward_std",),
         "response_length_mean": ("completions/mean_length",), "advantage_std": ("advantages/std", "ppo/advantage_std"),
         "grad_norm": ("grad_norm",), "learning_rate": ("learning_rate",)}  # fmt: skip
"""Its series, and ours, in nats, tokens and units of reward."""
HARMLESS = {"kl": 0.01, "entropy": 1.0, "reward_std": 1.0, "response_length_mean": 1.0, "advantage_std": 1.0}


def main() -> None:
    from provenir.observability.flight_recorder import FlightRecorder, RLStepMetrics

    found = {}
    for kind in KINDS:
        logs = [to_rows(json.loads(line)["metrics"]) for line in read_lines(kind, HERE)]
        logs = [rows for rows in logs if any("reward_std" in row for row in rows)]
        said = []
        for rows in logs:
            recorder = FlightRecorder()
            for row in rows:
                if row.get("reward") is not None:
                    recorder.log_step(RLStepMetrics(step=row["step"], **read(row)))
            said.append(recorder.to_dict())
        kinds = [sorted({one["kind"] for one in of["anomalies"]}) for of in said]
        critical = [any(one["severity"] == "critical" for one in of["anomalies"]) for of in said]
        counts = Counter(name for names in kinds for name in names)
        found[kind] = {"runs": len(logs), "any": sum(map(bool, kinds)), "critical": sum(critical), "kinds": counts}
    OUTCOME.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(OUTCOME.read_text(encoding="utf-8"))


def read(row: dict) -> dict[str, float]:
    """A row of metrics.jsonl by its names."""
    values = {}
    for name, ours in NAMES.items():
        known = [row[key] for key in ours if row.get(key) is not None]
        values[name] = known[0] if known else HARMLESS.get(name, 0.0)
    if row.get("ppo/kl") is not None:  # per completion
        values["kl"] = row["ppo/kl"] / max(values["response_length_mean"], 1.0)
    return values


if __name__ == "__main__":
    main()
