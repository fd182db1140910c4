"""Process monitoring: control charts of slow features, with limits from held-out rows.

:class:`ProcessMonitor` is fitted to rows of normal operation. In new rows it detects changes of the operating
point (T2) and of the dynamics (S2), and deviations from the model (residual). Contributions identify the
columns that cause an alarm.

Examples
--------
>>> import numpy as np
>>> from probsfa import ProbabilisticSFA
>>> from probsfa.datasets import make_slow_mixture
>>> from probsfa.monitoring import ProcessMonitor
>>> X = make_slow_mixture(900, 4, decay=[0.95], noise_variance=0.3, random_state=0).data
>>> monitor = ProcessMonitor(ProbabilisticSFA(1)).fit(X[:600])
>>> faulty = X[600:].copy()
>>> faulty[150:, 2] += 4.0
>>> alarms = monitor.predict(faulty)
>>> bool(alarms[:150].mean() < 0.05), bool(alarms[150:].mean() > 0.5)
(True, True)
>>> int(monitor.contributions(faulty)[150:].mean().argmax())
2
"""

from probsfa.monitoring.monitor import ProcessMonitor as ProcessMonitor

__all__ = ["ProcessMonitor"]
