"""How fast this machine multiplies, measured within a time that does not depend on how fast that is."""

import pytest

from rlhf_exp.dry_run import machine


@pytest.mark.parametrize("row_s", [1e-6, 1e-4, 0.02, 0.15])
def test_a_slow_machine_is_measured_as_quickly_as_a_fast_one(row_s, monkeypatch):
    monkeypatch.setattr(machine, "MEASURED_S", 0.2)
    now, largest = 0.0, 0

    def multiply(rows):
        nonlocal now, largest
        now, largest = now + rows * row_s, max(largest, rows)

    assert machine.count_rows_per_second(multiply, lambda: now) == pytest.approx(1 / row_s)
    assert now < 1
    assert largest == machine.MEASURED_ROWS or largest * row_s > 0.04
