# SPDX-License-Identifier: Apache-2.0
"""The code interpreter's image from inside a sandbox: image_cases.py is the table. Its cells share one sandbox and its files, in the table's order."""
import pytest

from conftest import TEMPLATE, URL, make
from image_cases import CASES


@pytest.fixture(scope="module")
def image():
    if not URL or TEMPLATE != "code-interpreter":
        pytest.skip("the image is looked at through viald, with the template code-interpreter")
    runner = make(memory_mb=3072)
    yield runner
    runner.close()


@pytest.mark.parametrize("language, case", [(language, case) for language in CASES for case in CASES[language]],
                         ids=lambda value: value if isinstance(value, str) else value.says)
def test_the_image_has(image, language, case):
    case.verify(image.run(case.cells, language, **case.options))
