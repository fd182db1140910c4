"""JAX in a forked child of a process that has used JAX raises an error instead of waiting forever."""

import os
import subprocess
import sys

import pytest

from probsfa._fork_check import check_not_forked

CHILD = """
import os, sys
from probsfa._fork_check import check_not_forked

{before}
child = os.fork()
if child == 0:
    try:
        check_not_forked()
    except RuntimeError as error:
        print(error, flush=True)
        os._exit(3)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def forked_child(before):
    done = subprocess.run(
        [sys.executable, "-c", CHILD.format(before=before)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    *message, code = done.stdout.splitlines()
    return int(code), " ".join(message)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_of_a_process_that_used_jax_raises_an_error_with_advice():
    code, message = forked_child("check_not_forked()")
    assert code == 3
    assert "forked child" in message and '"spawn" or "forkserver"' in message


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_forked_before_jax_is_used_may_use_it():
    assert forked_child("pass") == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_of_a_forked_child_also_raises_an_error():
    code, message = forked_child("check_not_forked()\nif os.fork():\n    os.wait()\n    sys.exit()")
    assert code == 3 and "forked child" in message


def test_the_process_that_used_jax_can_use_it_again():
    check_not_forked()
    check_not_forked()
