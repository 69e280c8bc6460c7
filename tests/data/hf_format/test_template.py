from __future__ import annotations

from datetime import date

import pytest

from data.hf_format.sandbox import LONGEST
from data.hf_format.template import LONGEST_TEMPLATE, ChatTemplate, TemplateError
from tests.data.hf_format.stored import CHATTING, DAY, ROOT, read_json

MESSAGES = [{"role": "user", "content": "hi"}]


def render(source: str, **tokens: str) -> str:
    return ChatTemplate(source, tokens, DAY).render(MESSAGES)


@pytest.mark.parametrize("family", CHATTING)
def test_conversations_are_written_as_released(family: str) -> None:
    config = read_json(family, "tokenizer_config.json")
    tokens = {k: v for k, v in config.items() if k.endswith("_token") and isinstance(v, str)}
    template = ChatTemplate((ROOT / family / "chat_template.jinja").read_text(), tokens, DAY)
    for chat in read_json(family, "chats.json").values():
        messages = chat["messages"]
        assert template.render(messages) == chat["rendered"]
        assert template.render(messages[:-1], add_generation_prompt=True) == chat["prompt"]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{% for m in messages %}\n {% if m %}\n{{ m.role }}\n {% endif %}{% endfor %}", "user\n"),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{{ messages | tojson }}", '[{"role": "user", "content": "hi"}]'),
        ("{{ '<é>' | tojson }} {{ [1] | tojson(indent=1) }}", '"<é>" [\n 1\n]'),
        ("{{ strftime_now('%d %b %Y') }}", "26 Jul 2024"),
        ("{{ bos_token ~ messages[0]['content'] ~ 1 ~ eos_token }}", "<s>hi1"),
        ("{{ tools is none }} {{ documents is none }} {{ custom is defined }}", "True True False"),
        ("{% set n = namespace(a=1) %}{% if n %}{% set n.a = n.a + 2 %}{% endif %}{{ n.a }}", "3"),
        ("{{ messages[::-1][0].content.split('i')[0].upper() }}", "H"),
        ("{{ 'Audio %d: %s' % (2, 'x') }} {{ '%s' | format('y') }}", "Audio 2: x y"),
        ("{% for x in messages %}{{ loop.length }}{{ loop.last }}{% endfor %}", "1True"),
        ("{{ ['a', 'b'] | join(', ') }} {{ 'aba' | replace('a', 'c') }}", "a, b cbc"),
        ("{{ '-'.join('xy') }} {{ 'aba'.replace('a', 'c', 1) }}", "x-y cba"),
        ("{{ messages | map(attribute='role') | list }}", "['user']"),
        ("{% generation %}{% set x = 1 %}{{ x }}{% endgeneration %}{{ x is defined }}", "1False"),
        ("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(1) + f('a') * 2 }}", "<1><a><a>"),
        ("{{ none }} {{ nothing }} {{ 2 ** 3 }} {{ 7 // 2 }} {{ 7 % 4 }}", "None  8 3 3"),
        ("{{ dict(a=1).items() | list }} {{ 'a' in messages[0] }}", "[('a', 1)] False"),
        ("{{ 'a ' | safe | trim }} {{ ' b'.strip() ~ '-c-' | trim('-') }}", "a bc"),
        ("{{ 2.7 | round | int }} {{ [1, 2] | sum }} {{ 'a' is in 'ab' }}", "3 3 True"),
        ("{% for i in 1,1 %}{{ loop.cycle(3,4) }}{{ loop.changed(1) }}{% endfor %}", "3True4False"),
    ],
)  # fmt: skip
def test_what_templates_use(source: str, text: str) -> None:
    assert render(source, bos_token="<s>") == text


PYTHON = [
    "{{ ''.__class__ }}",
    "{{ ''['__cla' ~ 'ss__'] }}",
    "{{ messages | map(attribute='__class__') | list }}",
    "{{ range.__init__.__globals__ }}",
    "{{ self._TemplateReference__context }}",
    "{{ namespace(__class__=1) }}",
    "{% set n = namespace() %}{% set n.__class__ = 1 %}",
    "{% if false %}{{ x.__subclasses__() }}{% endif %}",
    "{{ messages.append(1) }}",
    "{{ messages[0].update(a=1) }}",
    "{{ messages[0].pop('role') }}",
]


@pytest.mark.parametrize("source", PYTHON)
def test_templates_that_reach_python_are_refused(source: str) -> None:
    with pytest.raises(TemplateError, match="it reaches for '"):
        render(source)


@pytest.mark.parametrize("source", [s for s in PYTHON if "false" in s or ".__" in s])
def test_what_can_be_seen_is_refused_before_it_runs(source: str) -> None:
    with pytest.raises(TemplateError, match=r"line 1: it reaches for '__\w+'; names with an under"):
        ChatTemplate(source, {}, DAY)


LOOP = "{% for i in range(100000) %}-{% endfor %}"
DOUBLE = "{% set n = namespace(x=START) %}{% for i in range(60) %}{% set n.x = STEP %}{% endfor %}"


def doubling(start: str, step: str, end: str = "") -> str:
    return DOUBLE.replace("START", start).replace("STEP", step) + end


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{{ ''|attr('__class__') }}", "No filter named 'attr'"),
        ("{{ cycler }}{{ lipsum(10) }}", "'lipsum' is undefined"),
        ("{% include 'secrets' %}", "line 1: it reads another file"),
        ("{% import 'os' as os %}", "it reads another file"),
        ("{% extends 'base' %}", "it reads another file"),
        ("{% for x in messages recursive %}{% endfor %}", "recursive loops are refused"),
        (LOOP.replace("-", LOOP), "too much work"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "calls itself without an end"),
        ("{% macro f(n) %}{{ f(n-1) + f(n-1) if n }}{% endmacro %}{{ f(60) }}", "too much work"),
        ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "nested too deeply"),
        ("{{ 'a' * 9999999999 }}", "too much work"),
        ("{{ [1] * 5000000 }}", f"more than {LONGEST} characters or items"),
        ("{{ 10 ** 10 }}", "it raises 10 to the power of 10"),
        ("{{ 'a'.ljust(999999999) }}", "it calls str.ljust"),
        ("{{ 'a' | center(999999999) }}", "No filter named 'center'"),
        ("{{ (1).to_bytes(999999999) }}", "it calls int.to_bytes"),
        ("{{ '%999999999d' % 1 }}", "it formats by '%999999999d'"),
        ("{{ '%*d' | format(999999999, 1) }}", "it formats by"),
        ("{{ '{:>999999999}'.format(1) }}", "it calls str.format"),
        ("{{ strftime_now('%999999999Y') }}", "strftime_now formats by"),
        ("{{ 1 | tojson(indent=99) }}", "tojson indents by 99; valid: 0 to 16"),
        ("{{ 'aa'.replace('a', 'b' * 4000000) }}", "more than"),
        ("{{ 'aa' | replace('', 'b' * 4000000) }}", "more than"),
        ("{{ ('a' * 4000000).join(['b', 'b', 'b']) }}", "more than"),
        ("{% for i in range(99) %}{{ 'abcdefghij' * 10000 }}{% endfor %}", "it writes more than"),
        ("{% set x %}" + LOOP.replace("-", "{{ 'a' * 100000 }}") + "{% endset %}", "it writes"),
        (doubling("'a'", "n.x + n.x"), "more than"),
        (doubling("'a'", "n.x ~ n.x"), "more than"),
        (doubling("2", "n.x * n.x"), "integers of more than 64 bits"),
        (doubling("1", "[n.x, n.x]", "{{ n.x }}"), "too much work"),
        (doubling("1", "[n.x, n.x]"), "too much work"),
        (doubling("1", "(n.x, n.x)", "{{ {n.x: 1} }}"), "too much work"),
        (doubling("1", "dict(a=n.x, b=n.x)", "{{ n.x == n.x }}"), "too much work"),
        (doubling("[[1]]", "(n.x * 2) | groupby(0)"), "too much work"),
        ("{% set x = 'a' * 4000000 %}{% for i in range(9999) %}{{ x in x }}{% endfor %}", "work"),
        (doubling("1", "[n.x, n.x]", "{{ n.x | tojson }}"), "too much work"),
        (doubling("1", "dict(a=n.x, b=n.x)", "{{ n.x is eq n.x }}"), "too much work"),
        ("{% macro f() %}{% set m.x = varargs %}{% endmacro %}{% set m = namespace(x=1) %}"
         + LOOP.replace("-", "{% set _ = f(m.x, m.x) %}"), "too much work"),
        ("{{ 1 | round(300000000, 'ceil') }}", "rounds to 300000000 places; valid: 0 to 16"),
        ("{{ [1, 2] | tojson(separators=('a' * 99999, '')) }}", "more than 16 characters"),
        ("{{ ([[1]] * 1000000) | sum(start=[]) }}", "it adds up a list; valid: numbers"),
        ("{% set s = 'ab' * 2000000 %}" + LOOP.replace("-", "{% set x = s | upper %}"), "work"),
        ("{{ ('ab' * 2000000).strip('cd' * 2000000) }}", "too much work"),
        ("{{ ('ab' * 2000000) | trim('cd' * 2000000) }}", "too much work"),
        ("{{ ('{0.__globals__}' | safe).format(dict) }}", "it calls str.format"),
        ("{{ ('a' | safe).striptags() }}", "has no attribute 'striptags'"),
        ("{% autoescape true %}{% set x %}a{% endset %}{{ x.format(1) }}{% endautoescape %}",
         "line 1: it escapes what it writes"),
        ("{% block b %}{% endblock %}{{ self.b() }}", "it calls a BlockReference"),
        ("{{ 'a' is callable }}", "No test named 'callable'"),
        ("{{ raise_exception }}", "it writes a function; valid: JSON's types"),
        ("{{ messages[5].content.x }}", "no element 5"),
        ("{{ raise_exception('only one user') }}", "^only one user$"),
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{% for %}", "line 1: "),
        ("a" * (LONGEST_TEMPLATE + 1), f"at most {LONGEST_TEMPLATE}"),
    ],
)  # fmt: skip
def test_bad_templates(source: str, reason: str) -> None:
    with pytest.raises(TemplateError, match=reason):
        render(source)


def test_a_long_conversation_is_no_endless_loop() -> None:
    template = ChatTemplate((ROOT / "qwen2_audio/chat_template.jinja").read_text(), {}, DAY)
    turns = [{"role": role, "content": "x" * 2000} for role in ("user", "assistant")] * 500
    assert len(template.render(turns)) > 2_000_000


def test_a_long_text_is_measured_cheaply() -> None:
    template = ChatTemplate("{{ messages[0].content | length }}" * 100, {}, DAY)
    assert template.render([{"role": "user", "content": "x" * 3_000_000}]) == "3000000" * 100


def test_a_rendering_does_not_spend_what_the_next_one_has() -> None:
    template = ChatTemplate("{% for i in range(100000) %}{% endfor %}{{ 'a' * 3000000 }}", {}, DAY)
    assert template.render(MESSAGES) == template.render(MESSAGES)


def test_the_date_is_the_one_given() -> None:
    source = "{{ strftime_now('%Y-%m-%d %H:%M') }}"
    assert ChatTemplate(source, {}, date(2031, 2, 3)).render([]) == "2031-02-03 00:00"
