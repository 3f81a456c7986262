"""Random words: the one door through which chance enters a release.

Claim: words of `SYSTEM` are AES-256-CTR keystream under keys from the operating system, never used twice, not by a forked child either.
Floats: none; words are whole numbers of 64 bits.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import WHOLE, shown
from sordino.errors import InvalidParameter

Words = NDArray[np.uint64]
_Keystream = Callable[[memoryview, memoryview], int]

_KEY_BYTES = 32
_POOL_WORDS = 1 << 13
_ZEROS = memoryview(bytes(1 << 20))


@runtime_checkable
class Entropy(Protocol):
    """A stream of independent uniform 64-bit words; successive calls never repeat a word of the stream.

    Examples
    --------
    >>> import sordino as sd
    >>> isinstance(sd.SYSTEM, sd.Entropy), sd.SYSTEM.simulated, sd.Seeded(7).simulated
    (True, False, True)
    """

    @property
    def simulated(self) -> bool:
        """True if the words can be predicted, so that nothing drawn from them is private."""
        ...

    def words(self, n: int) -> Words:
        """Return the next `n` words, shape (n,), dtype uint64."""
        ...


def _keystream(key: bytes) -> _Keystream:
    """Return a function that writes the AES-256-CTR keystream of `key`, from its start, into a buffer."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415  (24 ms, needed at the first draw)

    update: _Keystream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update_into
    return update


def _fill(keystream: _Keystream, n: int) -> Words:
    """Return `n` fresh words of the keystream."""
    padded = np.empty(n + 2, dtype="<u8")  # the cipher asks for room for one more block
    target = padded.data.cast("B")
    for start in range(0, 8 * n, len(_ZEROS)):
        keystream(_ZEROS[: min(len(_ZEROS), 8 * n - start)], target[start:])
    return padded[:n].astype(np.uint64, copy=False)


@final
class _Stream:
    """One key and its words, owned by one process. All that changes, changes under the lock."""

    __slots__ = ("busy", "key", "lock", "pool", "position", "process")

    def __init__(self) -> None:
        self.key = os.urandom(_KEY_BYTES)
        self.pool: Words = np.zeros(0, dtype=np.uint64)
        self.position = 0
        self.process = os.getpid()
        self.lock = threading.RLock()
        self.busy = False

    def words(self, n: int) -> Words:
        with self.lock:
            if self.busy:  # a signal handler in the middle of a draw
                return _Stream().words(n)
            try:
                self.busy = True
                return self._next(n)
            finally:
                self.busy = False

    def _next(self, n: int) -> Words:
        if n > _POOL_WORDS:
            return self._draw(n)
        if self.position + n > self.pool.size:
            self.pool = self._draw(_POOL_WORDS)
            self.position = 0  # after the words are there: an interrupt must not lead back to wiped ones
        at = self.position
        self.position = at + n  # before they are read: an interrupt may lose words, and never hands them out again, or wiped ones
        taken = self.pool[at : at + n]
        words = taken.copy()
        taken[:] = 0
        return words

    def _draw(self, n: int) -> Words:
        drawn = _fill(_keystream(self.key), n + _KEY_BYTES // 8)
        mixed = zip(drawn[n:].tobytes(), os.urandom(_KEY_BYTES), strict=True)
        self.key = bytes(mine ^ fresh for mine, fresh in mixed)
        drawn[n:] = 0
        return drawn[:n]


@final
class System:
    """The operating system's entropy, stretched by AES-256-CTR.

    After every refill the key is replaced by keystream that nobody saw, mixed with fresh bytes of the operating system, and words that
    were handed out are wiped from the pool: a later look into the memory of the process tells nothing about earlier noise. A forked
    child starts from a key of its own and wipes what it inherited. Safe to share between threads; a signal handler that draws in the
    middle of a draw gets words of a key of its own.
    """

    __slots__ = ("_stream",)

    def __init__(self) -> None:
        self._stream = _Stream()

    def __repr__(self) -> str:
        return "SYSTEM"

    def __reduce__(self) -> str:
        return "SYSTEM"  # a copy in another process is that process's own SYSTEM: no key ever travels

    @property
    def simulated(self) -> bool:
        """False: nobody can predict these words."""
        return False

    def words(self, n: int) -> Words:
        """Return `n` fresh words, shape (n,), dtype uint64."""
        n = WHOLE("entropy.words.n", n)
        stream = self._stream
        if stream.process != os.getpid():
            stream = self._forget()
        words = stream.words(n)
        return words if stream is self._stream else self.words(n)  # a signal handler has forked, and the parent has the same words

    def _forget(self) -> _Stream:
        """Start anew in a forked child: one assignment, so that no thread ever sees half of it."""
        inherited, self._stream = self._stream, _Stream()
        inherited.pool[:] = 0  # the parent will still use these words
        return self._stream


@final
class Seeded:
    """A predictable stream for tests and planning: every result drawn from it says `simulated=True`.

    Parameters
    ----------
    seed : int
        At least 0. The same seed gives the same stream on every machine.

    Raises
    ------
    InvalidParameter
        If the seed is not a whole number of at least 0.

    Examples
    --------
    >>> from sordino import Seeded
    >>> Seeded(7).words(3).tolist() == Seeded(7).words(3).tolist()
    True
    """

    __slots__ = ("_lock", "_stream", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = WHOLE("Seeded.seed", seed)
        self._lock = threading.RLock()
        self._stream: _Keystream | None = None

    def __repr__(self) -> str:
        return f"Seeded({self.seed})"

    def __reduce__(self) -> tuple[type[Seeded], tuple[int]]:
        return Seeded, (self.seed,)  # a copy starts the stream again: it is simulated, and says so

    @property
    def simulated(self) -> bool:
        """True: whoever knows the seed knows the noise."""
        return True

    def words(self, n: int) -> Words:
        """Return the next `n` words of the stream, shape (n,), dtype uint64."""
        n = WHOLE("entropy.words.n", n)
        with self._lock:
            begun = self._stream or _keystream(hashlib.sha256(f"sordino.Seeded {self.seed}".encode()).digest())
            self._stream = self._stream or begun  # a signal handler may have begun it in the meantime
            return _fill(self._stream, n)


def checked_entropy(entropy: Any, owner: str) -> Entropy:
    """Return `entropy` if it is one, else raise `InvalidParameter`: before any answer is looked at."""
    if not isinstance(entropy, Entropy):
        raise InvalidParameter(f"{owner} needs entropy such as SYSTEM or Seeded(7); got {shown(entropy)}.")
    return entropy


SYSTEM = System()
os.register_at_fork(after_in_child=SYSTEM._forget)  # noqa: SLF001  (the child must never continue the parent's words)
