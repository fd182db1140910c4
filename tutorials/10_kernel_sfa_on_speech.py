# %% [markdown]
# # Kernel slow features on speech
#
# Air pressure at a microphone oscillates hundreds of times in a second, but vowels change only a few times.
# A slow function of the sound therefore depends on the vowel. It must be nonlinear, because pressure
# oscillates around zero for all vowels. Kernel slow feature analysis computes such functions. It combines
# one kernel function for each **support vector**, a selected row of the training data. **Regularization** is
# required, because some combination of many functions is slow in the training data by chance (Boehmer et al.
# 2011).
#
# The sounds of this notebook are *synthetic*: vowels of a formant model, computed below. The same cells can
# use recordings of the words "three" and "seven" (Free Spoken Digit Dataset, as `fsdd_subset.npz`): set the
# environment variable `PROBSFA_DATA` to the folder that contains `fsdd_subset/`. Statements about results
# then need not apply.

# %%
import os
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import lfilter

from probsfa import SFA, KernelSFA
from probsfa.metrics import delta_value

RATE, WINDOW, STEP = 8000, 417, 40  # samples per second; windows of 417 samples (52 ms), one every 5 ms
RECORDINGS = (
    Path(os.environ["PROBSFA_DATA"]) / "fsdd_subset" / "fsdd_subset.npz"
    if "PROBSFA_DATA" in os.environ
    else None
)
IS_RECORDED = RECORDINGS is not None and RECORDINGS.exists()
print("sounds:", "recorded" if IS_RECORDED else "synthetic")

# %% [markdown]
# ## Vowels of a formant model
#
# The voice is a sequence of pulses, filtered by the resonances of the mouth, the **formants**, whose
# frequencies determine the vowel. There are two words: one has the vowel of "see" throughout, the other
# changes from "e" to "a". Pitch, duration, formant frequencies and noise differ between utterances.

# %%
FORMANTS = {"ee": (280, 2250, 2900), "e": (530, 1840, 2480), "ah": (710, 1100, 2450)}
WORDS = {"three": ("ee", "ee"), "seven": ("e", "ah")}


def resonance(sound, frequency, bandwidth):
    """Filter a sound by one resonance of given frequency and bandwidth (Hz)."""
    radius = np.exp(-np.pi * bandwidth / RATE)
    angle = 2.0 * np.pi * frequency / RATE
    return lfilter([1.0 - radius], [1.0, -2.0 * radius * np.cos(angle), radius**2], sound)


def synthesize(word, rng):
    """Return one synthetic utterance of a word."""
    n = int(RATE * rng.uniform(0.35, 0.5))
    pitch = rng.uniform(95, 150) * (1.0 + 0.08 * np.linspace(1, -1, n))
    phase = np.cumsum(pitch) / RATE
    pulses = (np.diff(np.floor(phase), prepend=0.0) > 0).astype(float)
    voice = lfilter([1.0], [1.0, -0.9], pulses)
    first, last = (np.array(FORMANTS[name]) * rng.normal(1.0, 0.03) for name in WORDS[word])
    segments, size = [], n // 8
    for k in range(8):  # the formants change in eight steps
        formants = first + (last - first) * k / 7
        sound = voice
        for frequency, bandwidth in zip(formants, (60, 90, 150), strict=True):
            sound = resonance(sound, frequency, bandwidth)
        segments.append(sound[k * size : (k + 1) * size])
    sound = np.concatenate(segments)
    loudness = np.hanning(len(sound)) ** 0.3
    return sound / sound.std() * loudness + 0.05 * rng.standard_normal(len(sound))


def load_recording(word, take):
    """Return a recording of a word, divided by its standard deviation."""
    stored = np.load(RECORDINGS)
    speakers = sorted(set(stored["speaker"].tolist()))
    is_selected = (
        (stored["speaker"] == speakers[0])
        & (stored["digit"] == {"three": 3, "seven": 7}[word])
        & (stored["index"] == take)
    )
    i = int(np.flatnonzero(is_selected)[0])
    sound = stored["signal"][stored["offset"][i] : stored["offset"][i + 1]].astype(float)
    return sound / sound.std()


rng = np.random.default_rng(0)
words = [word for _ in range(8) for word in WORDS]
sounds = [
    load_recording(word, i // 2) if IS_RECORDED else synthesize(word, rng) for i, word in enumerate(words)
]

fig, axes = plt.subplots(2, 2, figsize=(9, 4.2), layout="constrained")
for column, word, sound in zip(axes.T, words[:2], sounds[:2], strict=True):
    column[0].plot(np.arange(len(sound)) / RATE, sound, lw=0.4)
    column[0].set(title=f'"{word}"', xlabel="time (s)", ylabel="pressure (no units)")
    column[1].specgram(sound, Fs=RATE, NFFT=256, noverlap=192, cmap="magma")
    column[1].set(xlabel="time (s)", ylabel="frequency (Hz)")

# %% [markdown]
# ## Windows, training and test words
#
# Each row is a window of 417 samples of the sound. Each utterance is a sequence, and differences are computed
# within sequences only. The first four utterances of each word are training data, the other four are test
# data.


# %%
def windows(sound):
    """Return overlapping windows of a sound as rows."""
    starts = np.arange(0, len(sound) - WINDOW + 1, STEP)
    return sound[starts[:, None] + np.arange(WINDOW)]


rows = [windows(sound) for sound in sounds]
train, test = rows[:8], rows[8:]
print(f"{sum(map(len, train))} training windows, {sum(map(len, test))} test windows")


def test_delta(model, n):
    """Return the mean delta value of the first n outputs in test words."""
    return delta_value(model.transform(test))[:n].mean()


linear = SFA(5).fit(train)
linear_delta = test_delta(linear, 5)
print(f"linear SFA: delta {linear.delta_values_.mean():.3f} in training, {linear_delta:.3f} in test words")

# %% [markdown]
# Features of linear SFA are much less slow in test words: some combinations of 417 columns are slow in the
# training words by chance.
#
# ## Kernel, support vectors and regularization
#
# `KernelSFA` uses functions of the distance between windows: Gaussians of given width around each support
# vector. Matching pursuit selects the support vectors one by one, each time the window that the previous ones
# represent worst. `regularization` is the weight of a penalty on functions that are not smooth.

# %%
squared_distance = np.median(np.sum(np.diff(np.concatenate(train)[::7], axis=0) ** 2, axis=1))
options = {"n_components": 5, "gamma": 1.0 / squared_distance, "n_support": 300, "selection": "mp_mah"}
REGULARIZATIONS = [0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the warning of overfitting without regularization is expected here
    models = [KernelSFA(**options, regularization=value).fit(train) for value in REGULARIZATIONS]
train_deltas = [model.delta_values_.mean() for model in models]
test_deltas = [test_delta(model, 5) for model in models]
for value, train_delta, delta in zip(REGULARIZATIONS, train_deltas, test_deltas, strict=True):
    print(f"regularization {value:<8g} delta {train_delta:.3f} in training, {delta:.3f} in test words")

# %%
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
positions = np.arange(len(REGULARIZATIONS))
ax.plot(positions, train_deltas, "o--", label="training words")
ax.plot(positions, test_deltas, "o-", label="test words")
ax.axhline(linear_delta, color="0.5", ls=":", label="linear SFA, test words")
ax.set_xticks(positions, [f"{value:g}" for value in REGULARIZATIONS])
ax.set(xlabel="regularization", ylabel="mean delta value", yscale="log")
_ = ax.legend(fontsize="small", loc="upper left")

# %% [markdown]
# Without regularization the outputs are slowest in the training words, but not in test words. With too much
# regularization the smoothness of the functions dominates, and outputs are not slow even in the training
# words. With values between these, outputs are also slow in test words.

# %%
if not IS_RECORDED:
    best = int(np.argmin(test_deltas))
    assert 0 < best < len(REGULARIZATIONS) - 1
    assert test_deltas[best] < 0.6 * test_deltas[0]
    assert test_deltas[best] < 0.25 * linear_delta

# %% [markdown]
# The selection does not require test words: `regularization="auto"`, the default, holds out segments of the
# training windows. It selects the smallest value whose mean delta value on held-out windows exceeds the
# smallest one by at most 2 %.

# %%
automatic = KernelSFA(**options).fit(train)
automatic_delta = test_delta(automatic, 5)
print(
    f"selected: {automatic.regularization_:g}; delta in test words {automatic_delta:.3f},"
    f" lowest of all {min(test_deltas):.3f}"
)
if not IS_RECORDED:
    assert automatic_delta < 2.0 * min(test_deltas)

# %% [markdown]
# ## Relation to the vowels
#
# The fit did not use the labels of the words. The figure shows the slowest output in each test word over time
# (left), and the two slowest outputs in all test windows (right).

# %%
outputs = automatic.transform(test)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for word, y in zip(words[8:], outputs, strict=True):
    color = {"three": "tab:blue", "seven": "tab:orange"}[word]
    axes[0].plot(np.linspace(0, 1, len(y)), y[:, 0], color=color, lw=1)
    axes[1].plot(y[:, 0], y[:, 1], ".", color=color, ms=3)
axes[0].set(xlabel="time / duration of the word", ylabel="slowest output (sd)", title="eight test words")
axes[1].set(
    xlabel="slowest output (sd)", ylabel="second slowest output (sd)", title="windows of the test words"
)
for word, color in [("three", "tab:blue"), ("seven", "tab:orange")]:
    axes[1].plot([], [], "o", color=color, label=word)
_ = axes[1].legend(fontsize="small")

# %%
middle = [y[len(y) // 3 : 2 * len(y) // 3, 0].mean() for y in outputs]
for word, value in zip(words[8:], middle, strict=True):
    print(f"{word}: slowest output in the middle of the word {value:+.2f}")
if not IS_RECORDED:
    is_three = np.array(words[8:]) == "three"
    assert max(np.array(middle)[is_three]) < min(np.array(middle)[~is_three])

# %% [markdown]
# In the middle of each test word the slowest output identifies the vowel, for all pitches and durations. At
# the beginning and at the end, where the voice is weak and noise dominates, the words are similar: loudness
# also changes slowly and is part of the slow outputs.
#
# ## Summary
#
# * Vowels change slowly, but are nonlinear functions of the sound. Kernels provide such functions.
# * With a kernel nearly any output can be slow in training. Evaluate slowness on *test* words.
# * A few hundred support vectors, selected by matching pursuit, are sufficient and limit memory and time.
# * `regularization="auto"` is selected from the training words only.
# * Loudness is slow, too. Normalize the loudness of recordings; otherwise it may be the slowest output.
