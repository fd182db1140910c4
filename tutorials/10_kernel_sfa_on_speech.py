# %% [markdown]
# # Kernel slow features on speech
#
# Air pressure at a microphone changes thousands of times in a second. *What is being said* changes a few
# times. So a slow function of the sound should be about the vowel. It will not be a linear function: pressure
# swings around zero whatever is said. A kernel gives slow feature analysis the curved functions it needs, and
# takes two things in return: a choice of **support vectors**, because the number of functions grows with the
# data, and **regularisation**, because with enough of them anything can be made slow (Boehmer et al. 2011).
#
# The sounds of this notebook are *synthetic*: vowels of a formant model, made below. With real recordings at
# hand (the free spoken digit data, as `fsdd_subset.npz`), set `PROBSFA_DATA` to the folder that holds
# `fsdd_subset/`, and the same cells run on the words "three" and "seven". Then the sentences about numbers
# are not those of your run.

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
# ## Vowels from a formant model
#
# A voice is a train of pulses; the mouth is a few resonances, the **formants**, and their places make the
# vowel. Here are two words: one keeps the vowel of "see" throughout, the other goes from "e" to "a". Every
# utterance has a pitch, a length and a loudness of its own, and hiss.

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
# ## Windows, words to learn from, words to test on
#
# Each row is a window of 417 amplitudes. Every word is a sequence of its own: nothing is compared across a
# border. The first four utterances of each word are for learning, four others for testing.


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
# Linear SFA learned nothing that holds: with 417 amplitudes it finds combinations that happen to be slow in
# *these* words.
#
# ## A kernel, a support, a penalty
#
# `KernelSFA` works with functions of the form "how near is this window to that one", with a Gaussian of given
# width around each support vector. Matching pursuit takes as support the windows that are worst represented
# by those before. The penalty `regularization` keeps functions smooth.

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
# Without a penalty the outputs look slowest in training and are not on new words: they follow the windows
# that they know. Too strong a penalty leaves functions that cannot bend enough. In between, new words are
# slow as well.

# %%
if not REAL:
    best = int(np.argmin(on_new))
    assert 0 < best < len(PENALTIES) - 1
    assert on_new[best] < 0.6 * on_new[0]
    assert on_new[best] < 0.25 * slowness["linear"]

# %% [markdown]
# The choice needs no new words: `regularization="auto"`, the default, holds out segments of the training
# windows and selects the smallest penalty that is as slow there as any.

# %%
automatic = KernelSFA(**options).fit(train)
chosen = test_slowness(automatic, 5)
print(f"chosen: {automatic.regularization_:g}; delta on new words {chosen:.3f}, at best {min(on_new):.3f}")
if not REAL:
    assert chosen < 2.0 * min(on_new)

# %% [markdown]
# ## Is it the vowel?
#
# Nobody said what the words are. Here are the two slowest outputs on words that were not used, a dot for each
# window.

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
# In the middle of every new word the slowest output determines which vowel it is, whatever the pitch and the
# length. At the beginning and at the end, where the voice is weak and hiss is left, the words look alike, as
# they should: the sound fades in and out slowly, too, and that is part of what is slow.
#
# ## What to remember
#
# * Sound is fast, what is said is slow; but it is a curved function of the sound. A kernel makes such
#   functions.
# * In the space of a kernel nearly everything can be made slow in training. Look at slowness on *new* words.
# * A support of some hundred windows is enough, chosen by matching pursuit; it bounds memory and time.
# * `regularization="auto"` finds the penalty from the training words alone.
# * Loudness is slow as well. Bring recordings to one loudness, or you will find that first.
