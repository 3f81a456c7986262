"""Random words for releases: all chance in a release comes through this module.

Claim: words of `SYSTEM` are AES-256-CTR keystream under keys from the operating system, never used
twice, not by a forked child either. A release, a draw of a charge and an open stream use no word
that was drawn before they began, nor a key without fresh bytes of the operating system in it: a
copy of the memory, such as a machine image that is resumed twice, repeats none of their noise.
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
from sordino.process import Process

Words = NDArray[np.uint64]
_Keystream = Callable[[memoryview, memoryview], int]

_KEY_BYTES = 32
_FIRST_WORDS, _POOL_WORDS = 1 << 8, 1 << 13
"""Words drawn at once: the first number in the first draw of a release, at most the second in later
ones.

A small release needs few words. Each further draw of one release is four times as large.
"""
_ZEROS = memoryview(bytes(1 << 20))
_NO_WORDS: Words = np.zeros(0, dtype=np.uint64)


@runtime_checkable
class Entropy(Protocol):
    """A stream of independent uniform 64-bit words.

    Successive calls never repeat a word of the stream.

    One that keeps words between calls may have a method `renew()` as well: it is called when a
    release begins, and forgets them.

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


def _start_keystream(key: bytes) -> _Keystream:
    """Return what writes the AES-256-CTR keystream of `key`, from its start, into a buffer."""
    # Imported at the first draw, because it takes 24 ms.
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415

    update: _Keystream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update_into
    return update


def _read_keystream(keystream: _Keystream, n: int) -> Words:
    """Return `n` fresh words of the keystream."""
    padded = np.empty(n + 2, dtype="<u8")  # the cipher asks for room for one more block
    # Or it would keep what stood there before: who looks at the words must not find that.
    padded[n:] = 0
    target = padded.data.cast("B")
    # Encrypted zeros are the keystream itself.
    for start in range(0, 8 * n, len(_ZEROS)):
        keystream(_ZEROS[: min(len(_ZEROS), 8 * n - start)], target[start:])
    return padded[:n].astype(np.uint64, copy=False)


def _mix_keys(key: bytes, fresh: bytes) -> bytes:
    """Return a key that is unknown to everybody who lacks one of the two."""
    return (int.from_bytes(key) ^ int.from_bytes(fresh)).to_bytes(_KEY_BYTES)


@final
class _WordStream:
    """One key and its words, owned by one process. All that changes, changes under the lock."""

    __slots__ = ("busy", "key", "lock", "pool", "position", "process", "size")

    def __init__(self) -> None:
        self.key = bytes(_KEY_BYTES)  # fresh bytes enter it before it is used
        self.pool = _NO_WORDS
        self.position = 0
        self.size = _FIRST_WORDS
        self.process = Process()
        self.lock = threading.RLock()
        self.busy = False

    def words(self, n: int) -> Words:
        with self.lock:
            if self.busy:  # a signal handler in the middle of a draw
                return _WordStream().words(n)
            try:
                self.busy = True
                return self._next(n)
            finally:
                self.busy = False

    def renew(self) -> None:
        """Wipe the words that nobody was given yet.

        The next ones come under a key with fresh bytes in it.
        """
        with self.lock:
            # A signal handler in the middle of a draw: each of its own draws has a key of its own.
            if self.busy:
                return
            try:
                self.busy = True
                # Before they are wiped: an interrupt must not lead back to wiped words.
                dropped, self.pool = self.pool, _NO_WORDS
                self.size = _FIRST_WORDS
                dropped[self.position :] = 0
                self.position = 0
            finally:
                self.busy = False

    def _next(self, n: int) -> Words:
        if n > _POOL_WORDS:
            return self._draw(n)
        if self.position + n > self.pool.size:
            self.pool = self._draw(max(n, self.size))
            # After the words are there: an interrupt must not lead back to wiped ones.
            self.position = 0
            self.size = min(4 * self.size, _POOL_WORDS)
        at = self.position
        # Before they are read: an interrupt may lose words, and never hands them out again, or
        # wiped ones.
        self.position = at + n
        taken = self.pool[at : at + n]
        words = taken.copy()
        taken[:] = 0
        return words

    def _draw(self, n: int) -> Words:
        # Before each use: two copies of this memory go on with different keys.
        self.key = _mix_keys(self.key, os.urandom(_KEY_BYTES))
        drawn = _read_keystream(_start_keystream(self.key), n + _KEY_BYTES // 8)
        # Keystream that nobody saw: who finds this key later cannot go back to the words before it.
        self.key = drawn[n:].tobytes()
        # The words are a view of this memory: the new key must not stand behind them.
        drawn[n:] = 0
        return drawn[:n]


@final
class System:
    """The operating system's entropy, stretched by AES-256-CTR.

    Before every refill 32 fresh bytes of the operating system enter the key. After it the key is
    replaced by keystream that nobody saw, and words that were handed out are wiped from the pool: a
    later look into the memory of the process tells nothing about earlier noise. When a release, a
    draw of a charge or a stream begins, the words that are left are wiped: a copy of the memory
    that was made before tells nothing about its noise. A forked child starts from a key of its own
    and wipes what it inherited. It is safe to share between threads. A signal handler that draws in
    the middle of a draw gets words of a key of its own.
    """

    __slots__ = ("_stream",)

    def __init__(self) -> None:
        self._stream = _WordStream()

    def __repr__(self) -> str:
        return "SYSTEM"

    def __reduce__(self) -> str:
        return (
            "SYSTEM"  # a copy in another process is that process's own SYSTEM: no key ever travels
        )

    @property
    def simulated(self) -> bool:
        """False: nobody can predict these words."""
        return False

    def words(self, n: int) -> Words:
        """Return `n` fresh words, shape (n,), dtype uint64."""
        n = WHOLE("entropy.words.n", n)
        stream = self._stream
        if not stream.process.is_here():
            stream = self._forget()
        words = stream.words(n)
        # If a signal handler has forked meanwhile, this is the child, and the parent has the same
        # words.
        return words if stream is self._stream else self.words(n)

    def renew(self) -> None:
        """Wipe the words that nobody was given yet.

        Nobody can have seen what is drawn from now on in a copy of this memory that was made
        before.
        """
        stream = self._stream
        # A fork starts anew at its first draw, and its copy of the lock may be held for ever.
        if stream.process.is_here():
            stream.renew()

    def _forget(self) -> _WordStream:
        """Start anew in a forked child: one assignment, so that no thread ever sees half of it."""
        inherited, self._stream = self._stream, _WordStream()
        inherited.pool[:] = 0  # the parent will still use these words
        return self._stream


@final
class Seeded:
    """A predictable stream for tests and planning.

    Every result drawn from it says `simulated=True`.

    A copy, a pickle and a forked process repeat the same noise: the first two begin the stream
    again, and the last goes on where it was forked. In a pool of workers give each task a seed of
    its own, such as `Seeded(task)`, or all of them simulate the same runs.

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
            begun = self._stream or _start_keystream(
                hashlib.sha256(f"sordino.Seeded {self.seed}".encode()).digest()
            )
            self._stream = (
                self._stream or begun
            )  # a signal handler may have begun it in the meantime
            return _read_keystream(self._stream, n)


def checked_entropy(entropy: Any, owner: str) -> Entropy:
    """Return `entropy` if it is one, else raise `InvalidParameter`.

    Before any answer is looked at.
    """
    # Our own types are known at once: to ask for the methods of a stranger takes microseconds.
    if type(entropy) not in _OWN_ENTROPY_TYPES and not isinstance(entropy, Entropy):
        raise InvalidParameter(
            f"{owner} needs entropy such as SYSTEM or Seeded(7); got {shown(entropy)}."
        )
    found: Entropy = entropy
    return found


def renew(entropy: Any) -> None:
    """Let entropy forget the words that it keeps, if it can.

    This is called before each stage of a release, draw of a charge or block of a stream.
    """
    forget = getattr(entropy, "renew", None)
    if callable(forget):
        forget()


def fresh_entropy(entropy: Any, owner: str) -> Entropy:
    """Begin a release: return `entropy`, checked and renewed.

    Every function that is handed entropy by its name begins with it.

    Raises
    ------
    InvalidParameter
        If it is none.
    """
    checked = checked_entropy(entropy, owner)
    renew(checked)
    return checked


_OWN_ENTROPY_TYPES = (System, Seeded)
SYSTEM = System()
# The child must never continue the parent's words.
os.register_at_fork(after_in_child=SYSTEM._forget)  # noqa: SLF001
