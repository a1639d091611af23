"""What tests of several rooms share: a clock that jumps, a server that plays a script, captured cases."""

import pytest

pytest.register_assert_rewrite("tests.support.assertions")
