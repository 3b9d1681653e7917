"""What lifelines and pingouin say of a table: run by their own Python, which prints JSON."""

import json
import sys

import pandas as pd
import pingouin as pg
from lifelines import KaplanMeierFitter

df = pd.DataFrame(json.load(sys.stdin))
curve = KaplanMeierFitter().fit(df.t, df.died)
a, b = (df.x[df.g == each] for each in "ab")
ranks = pg.mwu(a, b).iloc[0]
effect = {name.replace("-", "_").lower(): float(ranks[name]) for name in ("CLES", "RBC")}
json.dump(
    {
        "survival": [float(curve.predict(time)) for time in range(1, 10)],
        "median": float(curve.median_survival_time_),
        "u": float(ranks.iloc[0]),
        **effect,
        "eta_squared": float(pg.anova(df, dv="x", between="h", detailed=True, effsize="n2")["n2"].iloc[0]),
    },
    sys.stdout,
)
