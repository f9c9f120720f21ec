"""A table of many rows as one test: `each_row` in place of ``pytest.mark.parametrize``.

pytest takes 5 ms of a core to collect, run and report one test, and each worker collects all. A table of many rows that
take a millisecond or less each is therefore one test. pytest's own ``subtests`` report each row to the controller: with
them `make test` took 244 s, not 224. Every row is tried. A failure says how many rows failed, and names each beside its
own error. A table with rows that are skipped is told as skipped, though the others were tried. Fixtures are made once
and serve all rows.
"""

import functools
import inspect

import pytest
from _pytest.mark import ParameterSet


def each_row(names, table, ids=None):
    """Call a test for each row of a table; rows and their names are given as ``pytest.mark.parametrize`` takes them.

    The test's attribute ``tables`` has all its tables.
    """
    table = list(table)
    given = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    params = [
        row if isinstance(row, ParameterSet) else pytest.param(*(row if len(given) > 1 else [row])) for row in table
    ]
    values = [param.values for param in params]
    if callable(ids):
        ids = [", ".join(str(ids(value)) for value in row) for row in values]
    named = [str(param.id or name) for param, name in zip(params, ids or values, strict=True)]
    if not params or any(param.marks for param in params):
        raise ValueError("a table has rows, and its rows have no marks")

    def decorate(test):
        @functools.wraps(test)
        def every(**fixtures):
            failed, left_out = [], []
            for name, row in zip(named, values, strict=True):
                try:
                    test(**fixtures, **dict(zip(given, row, strict=True)))
                except pytest.skip.Exception as skipped:
                    left_out.append(f"{name}: {skipped}")
                except (Exception, BaseExceptionGroup, pytest.fail.Exception) as error:
                    error.add_note(f"row: {name}")
                    failed.append(error)
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(values)} rows failed", failed)
            if left_out:
                pytest.skip(f"{len(left_out)} of {len(values)} rows: {'; '.join(left_out)}")

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in given]
        every.__signature__ = signature.replace(parameters=left)
        every.tables = [*getattr(test, "tables", []), table]
        return every

    return decorate
