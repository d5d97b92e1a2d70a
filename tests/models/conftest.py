"""What the tests of models share: a summary of the contract at the end of a run."""

from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How many models answered how many calls, and what is excepted."""
    ran = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        if "test_contract.py::" in report.nodeid
    ]
    if not ran:
        return
    from cases import CALLS, CASES

    passed = sum(report.passed for report in ran)
    asked = {report.nodeid.partition("::test_fit[")[2] for report in ran} - {""}
    cases = [case for case in CASES if any(one.startswith(f"{case.name}:") for one in asked)]
    rows = {case.row for case in cases} - {None}
    terminalreporter.section("contract of models")
    terminalreporter.line(
        f"{len(cases)} cases of {len(rows)} rows of data/models.csv, on {len(asked)} sets of data, {len(CALLS)} calls:"
        f" {passed} of {len(ran)} tests passed in {sum(report.duration for report in ran):.0f} s."
    )
    excepted: dict[tuple[str, str], list[str]] = {}
    for case in CASES:
        for what, why in (*case.exceptions.items(), *((f"data: {k}", v) for k, v in case.refused.items())):
            excepted.setdefault((what, why), []).append(case.name)
    for (what, why), names in sorted(excepted.items()):
        others = [case.name for case in CASES if case.name not in names]
        whose = "; ".join(names) if len(names) < len(others) else f"all but {'; '.join(others)}"
        terminalreporter.line(f"not {what} ({why}), {len(names)}: {whose}")
