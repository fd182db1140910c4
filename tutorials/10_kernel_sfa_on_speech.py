# %% [markdown]
# # Kernel slow features on speech
#
# Air pressure at a microphone changes thousands of times in a second, but vowels change only a few times. A
# slow function of the sound therefore depends on the vowel. It must be nonlinear, because pressure
# oscillates around zero for all vowels. Kernel slow feature analysis computes such functions. It requires
# **support vectors**, because the number of functions grows with the data, and **regularization**, because
# with many functions the training data can always be fitted by slow ones (Boehmer et al. 2011).
#
# The sounds of this notebook are *synthetic*: vowels of a formant model, computed below. With real
# recordings (the free spoken digit data, as `fsdd_subset.npz`), set `PROBSFA_DATA` to the folder with
# `fsdd_subset/`, and the same cells use the words "three" and "seven". Numbers in the text then do not
# apply.

# %%
import os
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import lfilter

from probsfa import SFA, KernelSFA
from probsfa.metrics import delta_value

RATE, WINDOW, STEP = 8000, 417, 40  # 52 ms of sound, a window every 5 ms
data = (
    Path(os.environ["PROBSFA_DATA"]) / "fsdd_subset" / "fsdd_subset.npz"
    if "PROBSFA_DATA" in os.environ
    else None
)
REAL = data is not None and data.exists()
print("sounds:", "recorded" if REAL else "synthesised")

# %% [markdown]
# ## Vowels of a formant model
#
# The voice is a sequence of pulses, filtered by the resonances of the mouth, the **formants**, whose
# frequencies determine the vowel. There are two words: one has the vowel of "see" throughout, the other
# changes from "e" to "a". Pitch, length, loudness and noise differ between utterances.

# %%
FORMANTS = {"ee": (280, 2250, 2900), "e": (530, 1840, 2480), "ah": (710, 1100, 2450)}
WORDS = {"three": ("ee", "ee"), "seven": ("e", "ah")}


def resonance(sound, frequency, width):
    """Pass a sound through one formant."""
    radius = np.exp(-np.pi * width / RATE)
    angle = 2.0 * np.pi * frequency / RATE
    return lfilter([1.0 - radius], [1.0, -2.0 * radius * np.cos(angle), radius**2], sound)


def utter(word, rng):
    """Return one synthetic utterance of a word."""
    n = int(RATE * rng.uniform(0.35, 0.5))
    pitch = rng.uniform(95, 150) * (1.0 + 0.08 * np.linspace(1, -1, n))
    phase = np.cumsum(pitch) / RATE
    pulses = (np.diff(np.floor(phase), prepend=0.0) > 0).astype(float)
    voice = lfilter([1.0], [1.0, -0.9], pulses)
    first, last = (np.array(FORMANTS[name]) * rng.normal(1.0, 0.03) for name in WORDS[word])
    pieces, size = [], n // 8
    for k in range(8):  # the mouth moves in eight small steps
        place = first + (last - first) * k / 7
        sound = voice
        for frequency, width in zip(place, (60, 90, 150), strict=True):
            sound = resonance(sound, frequency, width)
        pieces.append(sound[k * size : (k + 1) * size])
    sound = np.concatenate(pieces)
    loudness = np.hanning(len(sound)) ** 0.3
    return sound / sound.std() * loudness + 0.05 * rng.standard_normal(len(sound))


def record(word, take):
    """Return a recording from the data at hand, at the same loudness as all others."""
    stored = np.load(data)
    names = sorted(set(stored["speaker"].tolist()))
    chosen = (
        (stored["speaker"] == names[0])
        & (stored["digit"] == {"three": 3, "seven": 7}[word])
        & (stored["index"] == take)
    )
    at = int(np.flatnonzero(chosen)[0])
    sound = stored["signal"][stored["offset"][at] : stored["offset"][at + 1]].astype(float)
    return sound / sound.std()


rng = np.random.default_rng(0)
words = [word for _ in range(8) for word in WORDS]
sounds = [record(word, i // 2) if REAL else utter(word, rng) for i, word in enumerate(words)]

fig, axes = plt.subplots(2, 2, figsize=(9, 3.6), layout="constrained")
for column, word, sound in zip(axes.T, words[:2], sounds[:2], strict=True):
    column[0].plot(np.arange(len(sound)) / RATE, sound, lw=0.4)
    column[0].set(title=f'"{word}"', ylabel="pressure")
    column[1].specgram(sound, Fs=RATE, NFFT=256, noverlap=192, cmap="magma")
    column[1].set(xlabel="seconds", ylabel="Hz")

# %% [markdown]
# ## Windows, training and test words
#
# Each row is a window of 417 amplitudes. Each utterance is a sequence, and differences are computed within
# sequences only. The first four utterances of each word are training data, four others are test data.


# %%
def windows(sound):
    """Return overlapping windows of a sound as rows."""
    starts = np.arange(0, len(sound) - WINDOW + 1, STEP)
    return sound[starts[:, None] + np.arange(WINDOW)]


rows = [windows(sound) for sound in sounds]
train, test = rows[:8], rows[8:]
print(f"{sum(map(len, train))} windows to learn from, {sum(map(len, test))} to test on")


def test_slowness(model, n):
    """Mean delta value of the first n outputs on words that were not used."""
    return delta_value(model.transform(test))[:n].mean()


linear = SFA(5).fit(train)
slowness = {"linear": test_slowness(linear, 5)}
in_training = linear.delta_values_.mean()
print(f"linear SFA: delta {in_training:.3f} in training, {slowness['linear']:.3f} on new words")

# %% [markdown]
# Features of linear SFA are not slow in test words: with 417 amplitudes there are combinations that are
# slow in the training words by chance.
#
# ## Kernel, support and penalty
#
# `KernelSFA` uses functions of the distance between windows: Gaussians of given width around each support
# vector. Matching pursuit selects as support vectors the windows that are worst represented by the previous
# ones. The penalty `regularization` makes the functions smooth.

# %%
squared = np.median(np.sum(np.diff(np.concatenate(train)[::7], axis=0) ** 2, axis=1))
options = {"n_components": 5, "gamma": 1.0 / squared, "n_support": 300, "selection": "mp_mah"}
PENALTIES = [0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
with warnings.catch_warnings():
    warnings.simplefilter(
        "ignore"
    )  # without a penalty "outputs can follow nearly any course", which is to be seen
    path = [KernelSFA(**options, regularization=value).fit(train) for value in PENALTIES]
in_training = [model.delta_values_.mean() for model in path]
on_new = [test_slowness(model, 5) for model in path]
for value, a, b in zip(PENALTIES, in_training, on_new, strict=True):
    print(f"regularization {value:<8g} delta {a:.3f} in training, {b:.3f} on new words")

# %%
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
at = np.arange(len(PENALTIES))
ax.plot(at, in_training, "o--", label="in training")
ax.plot(at, on_new, "o-", label="on new words")
ax.axhline(slowness["linear"], color="0.5", ls=":", label="linear SFA on new words")
ax.set_xticks(at, [f"{value:g}" for value in PENALTIES])
ax.set(xlabel="regularization", ylabel="delta value", yscale="log")
_ = ax.legend(fontsize="small", loc="upper left")

# %% [markdown]
# Without a penalty the outputs are slowest in the training words, but not in test words. With too large a
# penalty the functions are nearly linear. With values between, outputs are also slow in test words.

# %%
if not REAL:
    best = int(np.argmin(on_new))
    assert 0 < best < len(PENALTIES) - 1
    assert on_new[best] < 0.6 * on_new[0]
    assert on_new[best] < 0.25 * slowness["linear"]

# %% [markdown]
# The selection of the penalty does not require test words: `regularization="auto"`, the default, holds out
# segments of the training windows, and selects the smallest penalty whose outputs are as slow there as for
# any other.

# %%
automatic = KernelSFA(**options).fit(train)
chosen = test_slowness(automatic, 5)
print(f"chosen: {automatic.regularization_:g}; delta on new words {chosen:.3f}, at best {min(on_new):.3f}")
if not REAL:
    assert chosen < 2.0 * min(on_new)

# %% [markdown]
# ## Relation to the vowels
#
# The words were not given to the method. The figure shows the two slowest outputs for test words, one point
# for each window.

# %%
outputs = automatic.transform(test)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for word, y in zip(words[8:], outputs, strict=True):
    color = {"three": "tab:blue", "seven": "tab:orange"}[word]
    axes[0].plot(np.linspace(0, 1, len(y)), y[:, 0], color=color, lw=1)
    axes[1].plot(y[:, 0], y[:, 1], ".", color=color, ms=3)
axes[0].set(xlabel="share of the word", ylabel="slowest output", title="eight new words")
axes[1].set(xlabel="slowest output", ylabel="second", title="their windows")
for word, color in [("three", "tab:blue"), ("seven", "tab:orange")]:
    axes[1].plot([], [], "o", color=color, label=word)
_ = axes[1].legend(fontsize="small")

# %%
middle = [y[len(y) // 3 : 2 * len(y) // 3, 0].mean() for y in outputs]
for word, value in zip(words[8:], middle, strict=True):
    print(f"{word}: slowest output in the middle of the word {value:+.2f}")
if not REAL:
    told = np.array(words[8:]) == "three"
    assert max(np.array(middle)[told]) < min(np.array(middle)[~told])

# %% [markdown]
# In the middle of each test word the slowest output determines the vowel, for all pitches and lengths. At
# the beginning and at the end, where the voice is weak and noise dominates, the words are similar: loudness
# also changes slowly and is part of the slow outputs.
#
# ## Summary
#
# * Vowels change slowly, but are nonlinear functions of the sound. Kernels provide such functions.
# * With a kernel nearly any output can be slow in training. Evaluate slowness on *test* words.
# * A support of a few hundred windows, selected by matching pursuit, is sufficient and limits memory and
#   time.
# * `regularization="auto"` selects the penalty from the training words only.
# * Loudness is slow, too. Normalize the loudness of recordings; otherwise it may be the slowest output.
