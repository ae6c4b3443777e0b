from __future__ import annotations

import pytest

from choqolate._util.markup import latex, latex_text, markdown


@pytest.mark.parametrize("write", [markdown, latex, latex_text])
@pytest.mark.parametrize("name", ["sea\x1b[31m", "a\nb\r\nc", "\u202egnp.exe", "x\u2028y", "nul\0", "tab\tbed"])
def test_a_name_stays_on_its_line_and_controls_nothing(write, name):
    assert write(name).isprintable()


def test_no_name_is_a_command_of_latex():
    name = "\\input{/etc/passwd} ^^M % & $x$ #1 ~ _"
    written = latex(name)
    for command in (r"\textbackslash{}", r"\textasciicircum{}", r"\textasciitilde{}", *(f"\\{c}" for c in "&%$#_{}")):
        written = written.replace(command, "")
    assert not set(written) & set("\\^~&%$#_{}")


def test_no_name_is_markup_in_markdown():
    assert markdown("a | b") == r"a \| b"
    assert markdown("<script>") == r"\<script>"
    assert markdown("[x](javascript:1)") == r"\[x](javascript:1)"
    assert markdown("`x`") == r"\`x\`"
