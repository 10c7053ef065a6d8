"""A cross-encoder of a few hundred bytes: ONNX written by hand, and a tokenizer of ten words.

Its logit is the largest token number of the second text, less five, for each pair.
"""

from __future__ import annotations

import struct
from pathlib import Path

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "tea", "cake", "milk", "green", "black", "what")
INT64, FLOAT = 7, 1


def number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def whole(field: int, value: int) -> bytes:
    return number(field << 3) + number(value)


def part(field: int, *content: bytes | str) -> bytes:
    data = b"".join(c.encode() if isinstance(c, str) else c for c in content)
    return number(field << 3 | 2) + number(len(data)) + data


def node(kind: str, inputs: tuple[str, ...], output: str, *attributes: bytes) -> bytes:
    return part(1, *(part(1, name) for name in inputs), part(2, output), part(4, kind), *attributes)


def value(field: int, name: str, element: int) -> bytes:
    shape = part(2, part(1, part(2, "batch")), part(1, part(2, "length")))
    return part(field, part(1, name), part(2, part(1, whole(1, element), shape)))


def model(*, columns: int = 1) -> bytes:
    """`columns` 2 gives two logits a pair, 3 is a model of another sort."""
    reduce_axis = part(5, part(1, "axes"), part(8, number(1)), whole(20, 7))
    to_float = part(5, part(1, "to"), whole(3, FLOAT), whole(20, 2))
    axis = part(5, part(1, "axis"), whole(3, 1), whole(20, 2))
    five = part(5, whole(1, 1), whole(2, FLOAT), part(8, "five"), part(9, struct.pack("<f", 5.0)))
    zero = part(5, whole(1, 1), whole(2, FLOAT), part(8, "zero"), part(9, struct.pack("<f", 0.0)))
    nodes = [
        node("Mul", ("input_ids", "token_type_ids"), "second"),
        node("Cast", ("second",), "floats", to_float),
        node("ReduceMax", ("floats",), "largest", reduce_axis),
        node("Sub", ("largest", "five"), "logit" if columns > 1 else "logits"),
    ]
    if columns > 1:
        nodes.append(node("Mul", ("logit", "zero"), "nothing"))
        padding = ("nothing",) * (columns - 1)
        nodes.append(node("Concat", (*padding, "logit"), "logits", axis))
    graph = part(
        7,
        *nodes,
        part(2, "tiny"),
        five,
        *([zero] if columns > 1 else []),
        value(11, "input_ids", INT64),
        value(11, "token_type_ids", INT64),
        value(12, "logits", FLOAT),
    )
    return whole(1, 7) + graph + part(8, part(1, ""), whole(2, 13))


def write_cross_encoder(folder: Path, *, columns: int = 1) -> Path:
    """A folder with the model and its tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model(columns=columns))
    tokenizer = Tokenizer(
        models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
