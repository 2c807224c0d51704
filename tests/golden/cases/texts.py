"""Tokenizers and chat templates: token ids and rendered conversations."""

from transformers import PreTrainedTokenizerFast
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from . import tiny

SENTENCES = [
    "The ferry leaves the harbour at seven and comes back before the tide turns.",
    "A baker kneads the dough, lets it rest, and kneads it again until it is smooth.",
    "In 1987 the old mill burned; by 1990 it had been rebuilt, stone by stone.",
    "She counted 12, 24, 48 and 96 steps, then stopped to look at the valley below.",
    "Why does the kettle sing? Because the water inside it moves before it boils.",
    "Das Müsli schmeckt süß, aber die Brühe ist heiß.",
    "Le café était fermé; l'élève a déjà mangé.",
    "fn main() {\n    let total = prices.iter().sum::<u64>();\n}\n",
    "The user asks and the assistant answers; the system says how.",
]

STRINGS = [
    "",
    "The ferry leaves the harbour.",
    " leading space",
    "trailing space ",
    "two  spaces   three",
    "\n",
    "line one\nline two\n\nline four",
    "tab\tbetween",
    "CamelCase and UPPER CASE",
    "café, élève, Müsli, heiß",
    "cafe\u0301 with a combining accent",
    "日本語の文章",
    "emoji 🦜 and family 👨‍👩‍👧",
    "numbers 1234567 3.14 1e-5",
    "don't can't we'll I'm",
    "<|im_start|>user\nHello<|im_end|>\n",
    "text<|endoftext|>more",
    "<|im_start|> <|im_start|><|not_special|>",
    "\u00a0no-break\u2003em space",
    "a" * 40,
    "control \x01\x7f and zero-width\u200bspace",
    "кириллица и ελληνικά",
]

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

CHATML = """\
{% for message in messages %}
{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{%- endfor %}
{% if add_generation_prompt %}
{{ '<|im_start|>assistant\\n' }}
{%- endif %}
"""

LLAMA3 = """\
{%- for message in messages %}
    {%- set text = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' %}
    {%- if loop.first %}
        {%- set text = bos_token + text %}
    {%- endif %}
    {{- text }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

ZEPHYR = """\
{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n' + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}
"""

# The harder words of the trade: a namespace, slices, string methods, tests, a default, a macro, an error raised.
BRANCHING = """\
{%- macro turn(role, text) -%}
[{{ role | upper }}] {{ text.strip() }}{{ eos_token if role == 'assistant' else '' }}
{%- endmacro -%}
{%- set ns = namespace(count=0, system='Be brief.') -%}
{%- if messages[0]['role'] == 'system' -%}
    {%- set ns.system = messages[0].content -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set rest = messages -%}
{%- endif -%}
{{ bos_token }}<<{{ ns.system | trim }}>>
{% for message in rest -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception('roles must alternate between user and assistant') }}
    {%- endif -%}
    {%- set ns.count = ns.count + 1 -%}
    {{ ns.count }} {{ turn(message.role, message.content) }}
{% endfor -%}
{%- if tools is defined and tools is not none %}{{ tools | tojson }}{% endif -%}
{%- if add_generation_prompt %}{{ (ns.count + 1) ~ ' [ASSISTANT]' }}{% endif -%}
"""

TEMPLATES = {"chatml": CHATML, "llama3": LLAMA3, "zephyr": ZEPHYR, "branching": BRANCHING}

CONVERSATIONS = [
    [{"role": "user", "content": "When does the ferry leave?"}],
    [
        {"role": "system", "content": "Answer in one sentence."},
        {"role": "user", "content": "Why does the kettle sing?"},
        {"role": "assistant", "content": "Because the water moves before it boils."},
        {"role": "user", "content": "And when it boils?"},
        {"role": "assistant", "content": "Then it stops, mostly."},
    ],
    [
        {"role": "user", "content": "  Indented,\nwith a second line and <b>tags</b> & \"quotes\".\n"},
        {"role": "assistant", "content": "Grüße aus Köln 🦜\n\n```\nlet x = 'y';\n```"},
        {"role": "user", "content": "{{ not a template }} {% nor this %}"},
    ],
]


def byte_level():
    """As GPT-2 and Llama 3 have it: bytes as letters, digits kept apart, no unknown token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=SPECIALS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


def byte_fallback():
    """As Llama 2 has it: a word mark for spaces, bytes for what the vocabulary lacks, a BOS from the post-processor."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    specials = ["<unk>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=specials + [f"<0x{byte:02X}>" for byte in range(256)],
        show_progress=False,
    )
    tokenizer.train_from_iterator((sentence.replace(" ", "▁") for sentence in SENTENCES), trainer)
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in SPECIALS])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    return tokenizer


def tokenizer_case():
    folder = tiny.fresh("tokenizer")
    expected = {}
    for name, tokenizer in {"byte-level": byte_level(), "byte-fallback": byte_fallback()}.items():
        (folder / name).mkdir()
        tokenizer.save(str(folder / name / "tokenizer.json"), pretty=False)
        tokenizer = Tokenizer.from_file(str(folder / name / "tokenizer.json"))
        plain = [tokenizer.encode(text, add_special_tokens=False).ids for text in STRINGS]
        expected[name] = {
            "ids": plain,
            "ids_with_added": [tokenizer.encode(text, add_special_tokens=True).ids for text in STRINGS],
            "decoded": [tokenizer.decode(ids, skip_special_tokens=False) for ids in plain],
        }
    tiny.save_json(folder, "data.json", {"strings": STRINGS})
    tiny.save_json(folder, "expected.json", expected)


def template_case():
    folder = tiny.fresh("chat-template")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=byte_level(), bos_token="<|endoftext|>", eos_token="<|im_end|>")
    expected = {}
    for name, template in TEMPLATES.items():
        (folder / f"{name}.jinja").write_text(template, encoding="utf-8")
        tokenizer.chat_template = template
        expected[name] = {
            key: [
                tokenizer.apply_chat_template(rows, tokenize=False, add_generation_prompt=prompt)
                for rows in CONVERSATIONS
            ]
            for key, prompt in (("plain", False), ("generation_prompt", True))
        }
    try:
        tokenizer.apply_chat_template([CONVERSATIONS[0][0]] * 2, tokenize=False)
        raise AssertionError("two user turns in a row must be refused by the branching template")
    except AssertionError:
        raise
    except Exception as refusal:
        expected["branching"]["two_user_turns"] = str(refusal)
    special = {"bos_token": tokenizer.bos_token, "eos_token": tokenizer.eos_token}
    tiny.save_json(folder, "data.json", {"special_tokens": special, "conversations": CONVERSATIONS})
    tiny.save_json(folder, "expected.json", expected)


def make():
    tokenizer_case()
    template_case()
