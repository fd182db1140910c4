# %% [markdown]
# # Impute missing values of a sensor network with calibrated intervals
#
# This notebook goes from a raw CSV file to a completed file and a report: it reads the file, shows the
# missing values, selects a model, tests its residuals, imputes, and **checks the prediction intervals on
# hidden values**.
#
# For your own file, change the path and run all cells.

# %%
import tempfile
import textwrap
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from probsfa import plots, select_model
from probsfa.datasets import hide_blocks, hide_values, load_nyc_weather
from probsfa.metrics import coverage, rmse

# %% [markdown]
# ## A raw file
#
# The example has six weeks of temperature, dew point and pressure at three airports. It has the format of a
# data logger, with the code -999 for missing values. In addition, two sensors fail for days.

# %%
folder = Path(tempfile.mkdtemp())
example = folder / "airports.csv"

raw = load_nyc_weather().data["2013-03-01":"2013-04-11"].filter(regex="temp|dewp|pressure")
raw.iloc[300:360, raw.columns.get_loc("dewp_JFK")] = np.nan
raw.iloc[620:656, raw.columns.get_loc("temp_LGA")] = np.nan
raw.tz_localize(None).to_csv(example, na_rep="-999")
print("\n".join(line[:80] for line in example.read_text().splitlines()[:4]))

# %% [markdown]
# ## Your file: change this line

# %%
path = example  # your own: path = Path("my_sensors.csv")


# %% [markdown]
# ## Read the file
#
# The delimiter and a decimal comma are inferred. Columns of text are read as the date and time of the rows;
# customary codes for missing values are replaced by NaN.


# %%
def as_numbers(column):
    """Convert a column to numbers if most of its values are numbers, with a decimal point or comma."""
    if pd.api.types.is_numeric_dtype(column):
        return column.astype(float)
    numbers = pd.to_numeric(column.str.replace(",", "."), errors="coerce")
    return numbers if numbers.notna().sum() > 0.5 * column.notna().sum() else column


def times_of(texts):
    """Return the times of the rows, or None if the texts are not dates or not in increasing order."""
    joined_texts = texts.astype(str).agg(" ".join, axis=1)
    for dayfirst in (False, True):
        times = pd.to_datetime(joined_texts, dayfirst=dayfirst, errors="coerce")
        if len(texts.columns) and times.notna().all() and times.is_monotonic_increasing:
            return pd.DatetimeIndex(times, name="time")
    return None


def read(path, codes=(-999, -9999, -200)):
    """Return a table of numbers, NaN where missing; the index contains the times, if there are any."""
    table = pd.read_csv(path, sep=None, engine="python").apply(as_numbers)
    numbers = table.select_dtypes("number").replace(list(codes), np.nan)
    times = times_of(table.drop(columns=numbers.columns))
    if times is None:
        print("no column could be read as dates: rows are treated as evenly spaced")
    else:
        numbers.index = times
    return numbers.loc[:, numbers.nunique() > 1]


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # pandas warns when it tries date formats
    data = read(path)
percent_missing = 100 * data.isna().to_numpy().mean()
print(f"{data.shape[0]} rows, {data.shape[1]} columns, {percent_missing:.1f} % of the values missing")
print(f"from {data.index[0]} to {data.index[-1]}")


# %% [markdown]
# ## Missing values
#
# Single missing values are easily imputed. Long missing blocks require a model and calibrated prediction
# intervals.


# %%
def longest_block(column):
    """Return the number of rows of the longest run of missing values."""
    missing = column.isna()
    return int(missing.groupby((~missing).cumsum()).sum().max())


gaps = pd.DataFrame({"missing %": 100 * data.isna().mean(), "longest block": data.apply(longest_block)})
print(gaps.round(1).to_string())

# %%
fig, ax = plt.subplots(figsize=(9, 0.8 + 0.25 * data.shape[1]), layout="constrained")
ax.imshow(data.isna().T, aspect="auto", interpolation="nearest", cmap="Greys", vmin=0, vmax=1)
ax.set_yticks(range(data.shape[1]), data.columns, fontsize="small")
_ = ax.set(xlabel="row", title="black: missing")

# %% [markdown]
# ## Hold out values
#
# To measure the error of imputation, known values are hidden: a few single values, and blocks of 24 rows as
# after the failure of a sensor. Hidden values are not used until the errors are computed.

# %%
block = min(24, len(data) // 10)
single = hide_values(data, 0.03, random_state=1)
blocks = hide_blocks(data, block, 0.05, random_state=0) & ~single
held_out = single | blocks
train = data.mask(held_out)
print(f"{single.sum()} single values and {blocks.sum()} values in blocks of {block} rows are hidden")

# %% [markdown]
# ## Select a model
#
# `select_model` determines the number of factors and whether the model has a stochastic cycle. It hides
# further values and compares candidates on them, within a time budget in seconds. (Without a list, it
# searches for candidates, which takes longer.)

# %%
n_factors = sorted({min(k, data.shape[1]) for k in (2, 4, 32)})
candidates = [{"n_components": k} for k in n_factors] + [{"n_components": n_factors[-1], "rhythms": 1}]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # model.status_ contains the same warnings
    selection = select_model(train, candidates, budget=300)
model = selection.best_estimator_
print(selection)

# %%
n_models = selection.table["model"].nunique()
fig, axes = plt.subplots(1, 2, figsize=(9, 1.2 + 0.25 * n_models), sharey=True, layout="constrained")
selection.plot(axes=axes)
_ = fig.suptitle("candidates, by errors of held-out values (orange: selected)", fontsize="medium")

# %% [markdown]
# ## Residual diagnostics
#
# If the model is correct, its prediction errors are independent and normal, and its intervals have nominal
# coverage. `diagnose` tests both properties and suggests options.

# %%
diagnostics = model.diagnose(train)
for advice in diagnostics.advice or ("The tests do not reject the model.",):
    print(textwrap.fill(f"- {advice}", 100, subsequent_indent="  "))

# %% [markdown]
# With real data some tests nearly always reject the model. Errors of the hidden values show whether it is
# accurate enough for imputation. (For stochastic cycles, AR(1) noise and outliers see
# [notebook 05](05_real_series.ipynb).)

# %%
fig, axes = plt.subplots(2, 2, figsize=(10, 4 + 0.3 * data.shape[1]), layout="constrained")
_ = diagnostics.plot(axes=axes.ravel())

# %% [markdown]
# ## Impute

# %%
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # model.status_ reports if linear interpolation is as accurate
    filled, std = model.impute(train, return_std=True)
interpolated = train.reset_index(drop=True).interpolate(limit_direction="both").set_index(train.index)

# %% [markdown]
# ## Errors and coverage
#
# Errors are in standard deviations of each column, so that columns with different units are comparable. The
# last column is the coverage of the 90 % intervals.

# %%
scale = data.std().to_numpy()
scaled_truth, scaled_imputed, scaled_std = (table.to_numpy() / scale for table in (data, filled, std))
results = {}
print(f"{'':<18}{'interpolation':>16}{'model':>8}{'90 % coverage':>17}")
for kind, cells in [("single values", single), ("blocks", blocks)]:
    errors = (
        rmse(scaled_truth, interpolated.to_numpy() / scale, mask=cells),
        rmse(scaled_truth, scaled_imputed, mask=cells),
    )
    results[kind] = *errors, coverage(scaled_truth, scaled_imputed, scaled_std, 0.9, mask=cells)
    print(f"{kind:<18}{errors[0]:>16.3f}{errors[1]:>8.3f}{100 * results[kind][2]:>15.0f} %")

# %%
levels = np.linspace(0.1, 0.95, 18)
fig, ax = plt.subplots(figsize=(4.2, 3.8), layout="constrained")
ax.plot([0, 1], [0, 1], "k--", lw=1, label="calibrated")
for kind, cells in [("single values", single), ("blocks", blocks)]:
    ax.plot(
        levels,
        [coverage(scaled_truth, scaled_imputed, scaled_std, p, mask=cells) for p in levels],
        "o-",
        ms=3,
        label=kind,
    )
ax.set(xlabel="nominal coverage", ylabel="empirical coverage", title="prediction intervals of hidden values")
_ = ax.legend(fontsize="small")

# %% [markdown]
# ## The completed file
#
# The model is now applied to all observed values, and imputes the values that are missing in the file.
# Observed values are unchanged.

# %%
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    filled, std = model.impute(data, return_std=True)
_ = filled.to_csv(folder / "filled.csv")
_ = std.to_csv(folder / "uncertainty.csv")
assert not filled.isna().to_numpy().any()
assert np.array_equal(filled.to_numpy()[data.notna()], data.to_numpy()[data.notna()])

# %% [markdown]
# The figure shows the longest missing blocks with prediction intervals.

# %%
worst = gaps["longest block"].sort_values(ascending=False).index[:3]
fig, axes = plt.subplots(len(worst), 1, figsize=(9, 2.1 * len(worst)), layout="constrained", squeeze=False)
for name, ax in zip(worst, axes[:, 0], strict=True):
    missing = data[name].isna()
    runs = missing.groupby((~missing).cumsum()).transform("sum").where(missing, 0)
    start = int(np.argmax(runs == runs.max()))
    middle = start + int(runs.max()) // 2
    half_width = max(60, int(gaps["longest block"][name]))
    window = slice(max(0, middle - half_width), middle + half_width)
    column = (frame[name].iloc[window] for frame in (data, filled, std))
    plots.plot_imputation(*column, times=data.index[window], ax=ax)
    ax.set_ylabel(f"{name} (data units)")
_ = axes[0, 0].set_title("the longest missing blocks, imputed, with 90 % intervals")

# %% [markdown]
# ## Report

# %%
report = gaps.assign(**{"hidden values": held_out.sum(axis=0)})
for j, name in enumerate(data):
    cells = held_out[:, j]
    report.loc[name, "RMSE interpolation"] = rmse(data[name], interpolated[name], mask=cells)
    report.loc[name, "RMSE model"] = scale[j] * rmse(scaled_truth[:, j], scaled_imputed[:, j], mask=cells)
    report.loc[name, "90 % coverage"] = 100 * coverage(
        scaled_truth[:, j], scaled_imputed[:, j], scaled_std[:, j], mask=cells
    )
report["median 90 % half-width"] = 1.645 * std.where(data.isna()).median()
print(report.round(2).to_string(na_rep="-"))
options = ", ".join(f"{name} = {value!r}" for name, value in selection.options.items())
print(f"\nmodel: {options}; errors and intervals in the units of the columns")

# %%
if path == example:  # check the numbers reported in the text, for the example file only
    assert results["blocks"][1] < 0.6 * results["blocks"][0]
    assert 0.84 <= results["single values"][2] <= 0.96
    assert 0.80 <= results["blocks"][2] <= 0.97

# %% [markdown]
# ## Summary
#
# * Columns with common slow factors predict each other. In blocks the error of the model is well below that
#   of linear interpolation; for single values both errors are similar.
# * Hide values *before* any fit, and compute errors only from the hidden values.
# * Check that the coverage of 90 % intervals on hidden values is about 90 %, above all in blocks.
# * `select_model` selects a model, `diagnose` tests the residuals, `impute(..., return_std=True)` imputes.
#   The command line does the same without Python:
#   `probsfa impute data.csv -o filled.csv --std std.csv --budget 60`.
