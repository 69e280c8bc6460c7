"""Chat templates as people use them, by name, small: where they begin and end answers differs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Written:
    """A chat template.

    Attributes:
        source: the template.
        text: the family of tests/parity whose tokenizer it goes with.
        added: special tokens that it needs beside those of the tokenizer.
        ends: whether answers end with a special token: all of them, the last, the earlier, or none.
        learnt: answers that are learnt, where they begin with their text: all or the last.
        header: whether they can begin after the generation prompt.
        refused: why the template cannot be learnt by.
    """

    source: str
    text: str = "qwen2_5"
    added: tuple[str, ...] = ()
    ends: str = "all"
    learnt: str = "all"
    header: bool = True
    refused: str | None = None


_LOOP = "{% for m in messages %}X{% endfor %}"
_ASK = "{% if add_generation_prompt %}X{% endif %}"
_CHATML = _LOOP.replace("X", "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}")
_CHATML_ASK = _ASK.replace("X", "{{ '<|im_start|>assistant\\n' }}")
_INST = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + "
    "' [/INST]' }}{% elif m.role == 'assistant' %}ANSWER{% else %}"
    "{{ raise_exception('only user and assistant') }}{% endif %}{% endfor %}"
)
_QWEN3 = """{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set thought = content.split('</think>')[0].rstrip('\\n') %}
                {%- set reasoning_content = thought.split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' }}
                {{- reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""
_R1 = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '<|User|>' + m.content }}"
    "{% elif m.role == 'assistant' %}{{ '<|Assistant|>' + m.content.split('</think>')[-1] + "
    "eos_token }}{% else %}{{ m.content }}{% endif %}{% endfor %}"
    + _ASK.replace("X", "{{ '<|Assistant|><think>\\n' }}")
)
_OSS = (
    "{% for m in messages %}{{ '<|start|>' + m.role }}{% if m.role == 'assistant' %}"
    "{{ '<|channel|>final' }}{% endif %}{{ '<|message|>' + m.content + ('<|return|>' if loop.last "
    "and m.role == 'assistant' else '<|end|>') }}{% endfor %}"
    + _ASK.replace("X", "{{ '<|start|>assistant' }}")
)
_GEMMA = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + m.content | "
    "trim + '<end_of_turn>\\n' }}{% endfor %}"
    + _ASK.replace("X", "{{ '<start_of_turn>model\\n' }}")
)
_PLAIN = "{% for m in messages %}{{ m.role.upper() + ': ' + m.content + '\\n' }}{% endfor %}"
_PLAIN_ASK = _ASK.replace("X", "{{ 'ASSISTANT:' }}")

TEMPLATES = {
    "chatml": Written(_CHATML + _CHATML_ASK),
    "chatml_never_asks": Written(_CHATML),
    "blank_and_end": Written(
        _LOOP.replace(
            "X",
            "{% if m.role == 'assistant' %}{{ ' ' + m.content + ' ' + eos_token }}{% else %}"
            "{{ 'Q: ' + m.content + ' A:' }}{% endif %}",
        )
    ),
    "line_and_end": Written(_CHATML.replace("<|im_end|>", "\\n<|im_end|>") + _CHATML_ASK),
    "llama2": Written(_INST.replace("ANSWER", "{{ ' ' + m.content + ' ' + eos_token }}"), "llava"),
    "mistral": Written(_INST.replace("ANSWER", "{{ m.content + eos_token }}"), "llava"),
    "llama3": Written(
        "{{ bos_token }}"
        + _LOOP.replace(
            "X",
            "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content | trim + "
            "'<|eot_id|>' }}",
        )
        + _ASK.replace("X", "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}"),
        "llama3",
    ),
    "gemma": Written(_GEMMA, "llava", ("<start_of_turn>", "<end_of_turn>")),
    "qwen3": Written(_QWEN3, learnt="last"),
    "empty_thought": Written(
        _CHATML.replace("m.content", "('<think>\\n\\n</think>\\n\\n' if m.role == 'assistant' "
        "else '') + m.content") + _CHATML_ASK
    ),
    "r1": Written(_R1, "llava", ("<|User|>", "<|Assistant|>"), header=False),
    "oss": Written(
        _OSS,
        added=("<|start|>", "<|message|>", "<|channel|>", "<|return|>", "<|end|>"),
        ends="last",
    ),
    "blank_in_the_header": Written(
        _CHATML.replace("'\\n' + m.content", "' \\n' + m.content") + _CHATML_ASK, header=False
    ),
    "end_of_the_conversation": Written(
        _PLAIN + "{{ eos_token if not add_generation_prompt }}" + _PLAIN_ASK, ends="last"
    ),
    "end_of_the_conversation_always": Written(
        _PLAIN + "{{ eos_token }}" + _PLAIN_ASK, ends="last", header=False
    ),
    "no_end": Written(_PLAIN + _PLAIN_ASK, "llava", ends="none"),
    "next_question_ends": Written(
        _LOOP.replace("X", "{{ '<|im_start|>' + m.role + '\\n' + m.content }}") + _CHATML_ASK,
        ends="none",
    ),
    "words_and_end": Written(_CHATML.replace("<|im_end|>", " ### End<|im_end|>") + _CHATML_ASK,
        ends="none"),
    "end_that_is_no_token": Written(_CHATML.replace("<|im_end|>", "<|eom|>") + _CHATML_ASK,
        ends="none"),
    "end_but_at_the_end": Written(
        _CHATML.replace("<|im_end|>\\n", "' + ('' if loop.last else '<|im_end|>\\n') + '")
        + _ASK.replace("X", "{{ '<|im_end|>\\n<|im_start|>assistant\\n' }}"),
        ends="earlier",
    ),
    "strips": Written(
        _CHATML.replace("m.content", "m.content.strip()") + _CHATML_ASK
    ),
    "no_system": Written(
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        + _CHATML + _CHATML_ASK
    ),
    "capitalises": Written(
        _CHATML.replace("m.content", "m.content | capitalize") + _CHATML_ASK,
        refused="changes the texts",
    ),
    "counts": Written(
        _CHATML.replace("m.content", "m.content | length | string + ': ' + m.content"),
        refused="changes the texts",
    ),
    "looks_into_answers": Written(
        _CHATML.replace("m.role", "m.role + (' loudly' if 'IS' in m.content else '')"),
        refused="so that no prompt leads to the answer",
    ),
}  # fmt: skip
