"""The names of all findings, for keys that choose among them (`monitor.stop_on`, `monitor.ignore`). The rules that
find them are in diagnose/, which the config must not import; tests/callbacks/test_alarms.py holds both together."""

FINDINGS = (
    "nonfinite_loss",
    "gradient_spike",
    "value_loss_spike",
)
