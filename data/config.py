"""Typed configuration of the data pipeline (the `data:` section of an experiment file)."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PositiveInt,
    PrivateAttr,
    field_validator,
    model_validator,
)

from data.auto_budgets import Budgets
from data.places import LocalPath, LocalText, Place


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DemoSource(_Section):
    """Handwritten digit strips and spoken digit strings; see `data/sources/demo.py`."""

    kind: Literal["demo"] = "demo"  # format of the source
    seed: Annotated[int, Field(ge=0)] = 0  # seed of the split, the strips and the spoken strings
    train: PositiveInt = 65536  # samples in an epoch, half images and half speech
    heldout: PositiveInt = 400  # held-out samples, half images and half speech
    clips: PositiveInt = 6144  # distinct synthesised training clips
    variants: PositiveInt = 60  # augmented copies of each training scan
    digits: Annotated[int, Field(ge=1, le=8)] = 8  # longest string
    pairs: Annotated[float, Field(ge=0, le=1)] = 0.15  # share of image samples with two images


class FieldsConfig(_Section):
    """Fields of a record (columns of a table, keys of an object): `sources/formats/record.py`."""

    conversation: str | None = None  # field of the turns; null: conversations, messages or texts
    question: str | None = None  # what the user says before `answer`; null: nothing but the media
    answer: str | None = None  # what is learnt, in place of a conversation
    system: str | None = None  # system message before all; null: system
    image: str | None = None  # one image or a list; null: image or images
    audio: str | None = None  # one clip or a list; null: audio or audios
    video: str | None = None  # one video or a list; null: video or videos
    image_encoder: str | None = None  # of images, a name or a list; null: image_encoder(s)
    audio_encoder: str | None = None  # of clips, a name or a list; null: audio_encoder(s)
    video_encoder: str | None = None  # of videos, a name or a list; null: video_encoder(s)

    @model_validator(mode="after")
    def _one_form(self) -> FieldsConfig:
        if self.question is not None and self.answer is None:
            raise ValueError(f"question {self.question!r} has no answer; valid: name it, too")
        if self.conversation is not None and self.answer is not None:
            raise ValueError(
                f"conversation {self.conversation!r} and answer {self.answer!r} are both named; "
                "valid: one of them"
            )
        return self


#: Seconds for which something is tried again.
Retry = Annotated[float, Field(ge=0)]


class _Files(_Section):
    """Keys of all sources that read files."""

    path: Place  # training split: file, folder or pattern, local or a URL
    heldout: Place | None = None  # evaluation split, in the same format
    retry_seconds: Retry = 300.0  # how long a URL out of reach is tried again before the run ends
    fields: FieldsConfig = FieldsConfig()
    ignore: tuple[str, ...] = ()  # keys of records that decide nothing: url2, messages.seen


class LlavaSource(_Files):
    """Conversations in JSON (a list) or JSON Lines; see `data/sources/formats/llava.py`."""

    kind: Literal["llava"]  # format of the source
    media: Place | None = None  # folder of the media; null: folder of the records


class ParquetSource(_Files):
    """Tables of records, media in their columns; see `data/sources/formats/parquet.py`."""

    kind: Literal["parquet"]  # format of the source
    media: Place | None = None  # folder of the media; null: folder of the records


class ArrowSource(_Files):
    """Arrow files as `datasets` saves them; see `data/sources/formats/arrow.py`."""

    kind: Literal["arrow"]  # format of the source
    media: Place | None = None  # folder of the media; null: folder of the records


class SyntheticSource(_Section):
    """Noise as long as real samples; see `data/sources/synthetic.py`."""

    kind: Literal["synthetic"]  # format of the source
    samples: PositiveInt = 4096  # samples in an epoch
    distribution: LocalText = "web"  # lengths: web, or a file with a JSON object per line
    scale: Annotated[float, Field(gt=0)] = 1.0  # factor on the distribution's lengths
    patch: PositiveInt = 16  # pixels of a side for each patch of an image
    seed: Annotated[int, Field(ge=0)] = 0  # seed of lengths and contents


class WebDatasetSource(_Files):
    """Tar files, all members with one key a sample; see `data/sources/formats/webdataset.py`."""

    kind: Literal["webdataset"]  # format of the source


class ArrayRecordSource(_Files):
    """ArrayRecord files, each record a msgpack map; see `data/sources/formats/arrayrecord.py`."""

    kind: Literal["arrayrecord"]  # format of the source
    media: Place | None = None  # folder of the media; null: folder of the records


FileSource = LlavaSource | ParquetSource | ArrowSource | WebDatasetSource | ArrayRecordSource


OneSource = DemoSource | SyntheticSource | FileSource


class MemberConfig(_Section):
    """A member of a mixture."""

    weight: Annotated[float, Field(gt=0)] = 1.0  # share of the samples, over the sum of all weights
    source: Annotated[OneSource, Field(discriminator="kind")]


class MixtureSource(_Section):
    """Several sources, each as often as its weight says; see `data/sources/order.py`."""

    kind: Literal["mixture"]  # format of the source
    members: Annotated[dict[str, MemberConfig], Field(min_length=1)]

    @model_validator(mode="after")
    def _check_weights_noticeable(self) -> MixtureSource:
        total = sum(member.weight for member in self.members.values())
        for name, member in self.members.items():
            if member.weight < 1e-5 * total:
                raise ValueError(
                    f"members.{name}.weight: {member.weight} is less than 1/100000 of all "
                    f"weights, {total}; valid: more, or leave the member out"
                )
        return self


class MediumConfig(_Section):
    """The section of a kind of media, with the text that stands for a medium.

    only_where_taken: whether the kind counts only for models with an encoder that takes it, so that
    vocabularies, lengths and samples of all others are as without it: its placeholder is a word
    there, and its section decides nothing. A number under its name is never a medium, but what many
    data sets have there: which one, or how many.
    """

    only_where_taken: ClassVar[bool] = False

    placeholder: str


class _Patches(_Section):
    """How images become patches.

    With `height`, an image is scaled to that many pixels of height and padded to whole patch
    blocks (text strips: width carries the content). Without `height`, an image is scaled down with
    its aspect ratio kept until its patch grid has at most `max_patches` patches, and is then
    rounded to whole blocks (NaFlex).
    """

    height: PositiveInt | None = None  # height of every image, pixels; null: by `max_patches`
    max_patches: PositiveInt = 1024  # largest patch grid of an image, without `height`
    mean: tuple[float, ...] = (0.5,)  # mean of pixels in [0, 1]: one for all channels, or each
    std: tuple[Annotated[float, Field(gt=0)], ...] = (0.5,)  # deviation of pixels, like `mean`


#: The default of keys that the section of a single encoder leaves out.
_AS_OTHERS: dict[str, JsonValue] = {"derived": "that of data.image"}


class EncoderImages(_Patches):
    """How images become patches of one encoder."""

    height: PositiveInt | None = Field(None, json_schema_extra=_AS_OTHERS)
    max_patches: PositiveInt = Field(1024, json_schema_extra=_AS_OTHERS)
    mean: tuple[float, ...] = Field((0.5,), json_schema_extra=_AS_OTHERS)
    std: tuple[Annotated[float, Field(gt=0)], ...] = Field((0.5,), json_schema_extra=_AS_OTHERS)


class ImageConfig(_Patches, MediumConfig):
    """How images become patches, for all encoders and for single ones."""

    max_pixels: PositiveInt = 89_478_485  # larger files are refused as decompression bombs
    placeholder: str = "<image>"  # stands for an image in the text
    modules: dict[str, EncoderImages] = {}  # keys of single encoders, by the encoder's name

    @model_validator(mode="before")
    @classmethod
    def _fill_inherited(cls, values: Any) -> Any:
        """Keys that an encoder leaves out are taken from the section."""
        sections = values.get("modules") if isinstance(values, dict) else None
        if not isinstance(sections, dict):
            return values
        common = {key: values[key] for key in EncoderImages.model_fields if key in values}
        filled = {
            name: {**common, **each} if isinstance(each, dict) else each
            for name, each in sections.items()
        }
        return {**values, "modules": filled}

    def for_encoder(self, encoder: str) -> ImageConfig:
        """The section as it is for one encoder."""
        section = self.modules.get(encoder)
        return self if section is None else self.model_copy(update=dict(section))


class AudioConfig(MediumConfig):
    """How clips become log-mel frames; the defaults are Whisper's (25 ms windows each 10 ms)."""

    sample_rate: PositiveInt = 16000  # Hz; a clip of another rate is refused, never resampled
    hop: PositiveInt = 160  # samples from one frame to the next
    window: Annotated[int, Field(ge=2)] = 400  # samples of a Hann window and of its FFT
    max_seconds: Annotated[float, Field(gt=0)] = 3600.0  # longer clips are refused
    placeholder: str = "<audio>"  # stands for a clip in the text

    @property
    def max_samples(self) -> int:
        """Samples of `max_seconds`."""
        return round(self.max_seconds * self.sample_rate)


class VideoConfig(MediumConfig):
    """How videos become frames, which are then images of the encoder's tiles."""

    only_where_taken: ClassVar[bool] = True

    frames: PositiveInt = 32  # most frames of a video, evenly spaced; a shorter one gives all
    max_seconds: Annotated[float, Field(gt=0)] = 3600.0  # longer videos are refused
    placeholder: str = "<video>"  # stands for a video in the text


class RouteConfig(_Section):
    """The encoders, among several of one kind, that a medium goes to, and how their outputs meet.

    A record may name another encoder for any of its media, see `sources/formats/record.py`.
    """

    encoders: tuple[str, ...] | None = None  # encoders of a medium, in order; null: all
    join: Literal["tokens", "sum"] = "tokens"  # outputs lie one after the other, or are added

    @model_validator(mode="after")
    def _check_distinct(self) -> RouteConfig:
        names = self.encoders
        if names is not None and (not names or len({*names}) < len(names)):
            raise ValueError(f"encoders {list(names)} are refused; valid: at least one, each once")
        return self


class ChatConfig(_Section):
    """Strings around the turns; `end` must be one token, which ends an answer."""

    system: str = "<|im_start|>system\n"  # before a system message
    user: str = "<|im_start|>user\n"  # before a turn of the user
    assistant: str = "<|im_start|>assistant\n"  # before an answer
    end: str = "<|im_end|>"  # token after every turn, learnt after an answer
    separator: str = "\n"  # after `end`, not learnt


#: Samples on offer for each row of a step, without `data.lookahead`.
LOOKAHEAD = 48

Balance = Literal["none", "backbone", "per_phase"]
BalanceGroup = PositiveInt | Literal["auto"] | None
Share = Annotated[float, Field(gt=0, le=1)]


#: Where answers begin, which are learnt and generated from there on: `text`: with their own text,
#: after everything that the chat template writes before it; `header`: after the generation prompt
#: of the chat template, with all that the template writes after that, such as a thought.
AnswersBegin = Literal["text", "header"]


class ModuleBalancing(_Section):
    """How samples of the backbone, or media of an encoder, are distributed over the rows."""

    algorithm: str | None = None  # lpt, contiguous or module:function; null: the cost's default
    cost: Literal["packed", "padded", "convolution"] = "packed"  # cost of a rank by its segments


class DataConfig(_Section):
    """The `data:` section.

    `budgets` are capacities of one row: `tokens` of the text, `segments` (samples of a row of
    texts, and media of a row of media), and for each encoder its input positions (patches, frames),
    a multiple of that encoder's reduction. `launch.py budgets` suggests budgets; `auto` chooses
    them from the measured lengths when a run begins, and the run keeps them.
    """

    source: Annotated[OneSource | MixtureSource, Field(discriminator="kind")] = DemoSource()
    rows: PositiveInt = 8  # rows of a batch, distributed over data x fsdp of every module
    budgets: Budgets  # of a row: tokens, segments, positions by encoder; auto: by the lengths
    batch: Literal["tokens", "samples"] = "tokens"  # unit of which all steps have equally many
    samples: PositiveInt | None = None  # number of samples in a step, for `batch: samples`
    ladder: tuple[Share, ...] = (0.25, 0.5, 0.75, 1.0)  # shares of budgets, for `batch: samples`
    balance: Balance = "per_phase"  # items that are balanced: samples, or also all media
    balancing: dict[str, ModuleBalancing] = {}  # how items are balanced, by module
    balance_group: BalanceGroup = None  # neighbouring hosts that balance alone; null: all
    lookahead: PositiveInt | None = None  # samples on offer for a step; null: 48 for each row
    lengths: Literal["cached", "on_read"] = "cached"  # measured before the run, or while reading
    lengths_folder: LocalPath | None = None  # folder for measured lengths; null: in data.cache
    workers: Annotated[int, Field(ge=0)] = 0  # processes that make batches; 0: a thread
    prefetch: PositiveInt = 2  # microbatches (`on_read`: steps) that each worker makes ahead
    on_error: Literal["skip", "raise"] = "skip"  # treatment of an unusable sample
    accept_changes: bool = False  # let a run go on with other data than it was trained on
    processor: LocalPath | None = None  # folder of a released processor: tokenizer, template, media
    tokenizer: LocalText = "demo"  # "demo", "bytes" or the path of a tokenizer.json
    answers_begin: AnswersBegin = "text"  # where answers begin: their text, or after the header
    chat: ChatConfig | None = None  # strings around turns; null: the tokenizer's own, or ChatML
    image: ImageConfig = ImageConfig()
    audio: AudioConfig = AudioConfig()
    video: VideoConfig = VideoConfig()
    routes: dict[str, RouteConfig] = {}  # routes between several encoders of one kind, by kind
    cache: LocalPath = Path(".cache/mllm_jax")  # folder of indexes and other derived files
    _embeddings: int | None = PrivateAttr(default=None)

    @property
    def embeddings(self) -> int | None:
        """Ids that the decoder knows, if the tokenizer has more; no text may have those."""
        return self._embeddings

    def with_embeddings(self, count: int) -> DataConfig:
        """The same for a decoder of so many embeddings, fewer than the tokenizer's ids."""
        changed = self.model_copy()
        changed._embeddings = count
        return changed

    @property
    def auto_budgets(self) -> bool:
        """Whether budgets are yet to be chosen from the lengths of the samples."""
        return not self.budgets

    @property
    def media(self) -> dict[str, MediumConfig]:
        """The sections of all kinds of media, by kind."""
        sections = {name: getattr(self, name) for name in type(self).model_fields}
        return {
            name: section for name, section in sections.items() if isinstance(section, MediumConfig)
        }

    def route_of(self, kind: str) -> RouteConfig:
        """The route of media of a kind."""
        return self.routes.get(kind, RouteConfig())

    @property
    def rows_apart(self) -> int:
        """Rows of a microbatch over which text and media of a sample may lie."""
        return self.rows if self.balance == "per_phase" else 1

    def on_offer(self, microbatches: int = 1) -> int:
        """Samples from which a step of so many microbatches is packed, however it is split."""
        return self.lookahead or LOOKAHEAD * self.rows * microbatches

    def pool_size(self, microbatches: int) -> int:
        """Samples that a step of training takes, or chooses from."""
        return self.samples or self.on_offer(microbatches)

    @field_validator("balance_group", mode="before")
    @classmethod
    def _number_of_hosts(cls, group: object) -> object:
        """Told in one sentence: the type would tell of a number and of `auto` apart."""
        number = isinstance(group, int) and not isinstance(group, bool) and group > 0
        if not (number or group in ("auto", None)):
            raise ValueError(
                "it is no number of hosts that balance together; valid: a whole number above 0 "
                "that divides the hosts, auto with schedule.hardware, or null for all hosts"
            )
        return group

    @model_validator(mode="after")
    def _required_budgets(self) -> DataConfig:
        if self.auto_budgets:
            if self.lengths == "on_read":
                raise ValueError(
                    "data.budgets: auto has no lengths to choose by, as data.lengths is on_read; "
                    "valid: data.lengths cached, or budgets"
                )
            return self
        missing = sorted({"tokens", "segments"} - set(self.budgets))
        if missing:
            raise ValueError(f"data.budgets lacks {', '.join(missing)}")
        return self

    @model_validator(mode="after")
    def _with_effect(self) -> DataConfig:
        if self.balance_group is not None:
            self._check_group(self.balance_group)
        if self.processor is not None:
            self._check_idle_text()
        elif self.answers_begin != "text":
            raise ValueError(
                f"data.answers_begin: {self.answers_begin} has no effect without data.processor; "
                "valid: text"
            )
        if self.lengths == "on_read" and self.lengths_folder is not None:
            raise ValueError(
                f"data.lengths_folder: {self.lengths_folder} has no effect, as data.lengths is "
                "on_read; valid: null, or data.lengths cached"
            )
        return self

    def _check_group(self, group: int | str) -> None:
        if self.balance == "none" and self.lengths == "cached":
            raise ValueError(
                f"data.balance_group: {group} has no effect, as data.balance is none and "
                "data.lengths is cached; valid: null, data.balance backbone or per_phase, or "
                "data.lengths on_read"
            )
        if self.batch == "samples" and self.ladder != (1.0,):
            raise ValueError(
                f"data.balance_group: {group} is refused with data.ladder {list(self.ladder)}, as "
                "every group would choose a rung by itself, and all run one program; valid: null, "
                "data.ladder [1.0], or data.batch tokens"
            )

    def _check_idle_text(self) -> None:
        for key in ("tokenizer", "chat"):
            value = getattr(self, key)
            if value != type(self).model_fields[key].default:
                raise ValueError(
                    f"data.{key}: {value} has no effect, as data.processor has its own; valid: "
                    "leave it out, or data.processor null"
                )

    @model_validator(mode="after")
    def _fixed_samples(self) -> DataConfig:
        if self.batch == "samples" and self.samples is None:
            raise ValueError("data.batch: samples needs data.samples, the number of a step")
        if self.batch == "tokens" and self.samples is not None:
            raise ValueError(
                f"data.samples: {self.samples} has no effect, as data.batch is tokens; valid: "
                "null, or data.batch samples"
            )
        default = type(self).model_fields["ladder"].default
        if self.batch == "tokens" and self.ladder != default:
            raise ValueError(
                f"data.ladder: {list(self.ladder)} has no effect, as data.batch is tokens; valid: "
                "leave it out, or data.batch samples"
            )
        if self.ladder != tuple(sorted(set(self.ladder))) or self.ladder[-1:] != (1.0,):
            raise ValueError(
                f"data.ladder: {list(self.ladder)} does not rise to 1; valid: e.g. [0.5, 1]"
            )
        return self


#: Kinds of media that count only where an encoder takes them; see `MediumConfig`.
ONLY_WHERE_TAKEN = frozenset(
    name
    for name, field in DataConfig.model_fields.items()
    if getattr(field.annotation, "only_where_taken", False)
)


def counts(kind: str, kinds: Container[str]) -> bool:
    """Whether a kind of media counts for a model whose encoders take the kinds `kinds`."""
    return kind in kinds or kind not in ONLY_WHERE_TAKEN
