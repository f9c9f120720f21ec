"""Errors that a caller sees."""

from schemas.rpc.envelope import Code, Error


class CallError(Exception):
    """A call that cannot be done; it becomes the error in the answer."""

    def __init__(self, code: Code, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.error = Error(code=code, message=message, retryable=retryable)


class ForPlanners(Exception):
    """A query that takes too long for a scorer: a planner answers it."""
