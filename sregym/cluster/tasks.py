"""Task groups without exception groups (callers see the errors of `sregym.errors` as they are), and contexts that are
entered while something else goes on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Generic, TypeVar

import anyio

T = TypeVar("T")
LEFT_WITHIN_S = 60.0
"""For how long a context beside a body that failed may take to be left before it is cancelled."""


@contextmanager
def first_error() -> Iterator[None]:
    """Around a task group: raises the first error of what ran in it, alone, with the whole group as its context."""
    try:
        yield
    except BaseExceptionGroup as group:
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from first.__cause__


@contextmanager
def single_error() -> Iterator[None]:
    """Like `first_error` for a group that holds one error; a group of several stays a group."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if error is group:
            raise
        raise error from error.__cause__


class Beside(Generic[T]):
    """A context in a task of its own; see `beside`."""

    def __init__(self, context: AbstractAsyncContextManager[T]) -> None:
        self._context = context
        self._value: list[T] = []
        self._entered, self._leave = anyio.Event(), anyio.Event()
        self._left, self._ended = anyio.Event(), anyio.Event()

    async def entered(self) -> T:
        """Waits until it has been entered; returns what it gives."""
        await self._entered.wait()
        return self._value[0]

    async def leave(self) -> None:
        """Leaves it and waits until that is done. Idempotent. Where that fails the body ends here."""
        self._leave.set()
        await self._left.wait()

    async def end(self) -> None:
        """Leaves it and waits until it has ended, well or not."""
        self._leave.set()
        await self._ended.wait()

    async def hold(self) -> None:
        """Enters it, and leaves it when asked to."""
        try:
            async with self._context as value:
                self._value.append(value)
                self._entered.set()
                await self._leave.wait()
            self._left.set()
        finally:
            self._ended.set()


@asynccontextmanager
async def beside(context: AbstractAsyncContextManager[T]) -> AsyncIterator[Beside[T]]:
    """Begins to enter a context; the body goes on meanwhile, and may leave it before what it entered later itself.

    What goes wrong in the context ends the body, with that error. At the latest it is left with the body.
    """
    with single_error():
        async with anyio.create_task_group() as group:
            held = Beside(context)
            group.start_soon(held.hold)
            try:
                yield held
            except Exception:
                with anyio.move_on_after(LEFT_WITHIN_S, shield=True):
                    await held.end()
                raise
            await held.leave()
