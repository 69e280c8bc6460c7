"""The panel of samples: tokens with the loss mask, and media as their encoders get them."""

from __future__ import annotations

from collections.abc import Iterator

from PIL import Image

from data.media.preview import PreviewPicture, PreviewSound
from mllm_jax.pages.html.charts import COLOURS
from mllm_jax.pages.html.embedded import encode_jpeg, encode_png, encode_wav
from mllm_jax.pages.html.markup import Markup, join_markup, make_facts, make_note, make_tag
from mllm_jax.pages.html.panel import PagePanel
from mllm_jax.pages.samples.preview import DataPreview, PreviewMedium, PreviewToken, SampleDetail

#: Pixels of a picture that is saved as it is; larger ones are photographs, and saved as JPEG.
SMALL = 1 << 14
#: Points: the widest picture, the widest of several side by side, and the least height of all.
WIDE, NARROW, LEAST = 336, 168, 64
#: Pixels of the longer side of an original, which is only there for comparison.
LONGEST = 2 * WIDE
#: Seconds of a sound that the page holds.
HEARD = 60


def samples_panel(preview: DataPreview) -> PagePanel:
    """The first samples, token by token."""
    content = join_markup(_sample_card(detail) for detail in preview.details)
    remaining = len(preview.samples) - len(preview.details)
    more = f" {remaining} more lie in the rows above; --samples shows more of them." * (
        remaining > 0
    )
    explanation = (
        "Tokens with a loss are marked; point at a token for its place and id. Media are shown as "
        f"their encoders get them, after resizing and cutting.{more}"
    )
    return PagePanel("samples", "Samples", content, "", explanation, wide=True)


def _sample_card(detail: SampleDetail) -> Markup:
    sample, place = detail.sample, detail.sample.placement
    key = make_tag("i", class_=f"key c{sample.number % COLOURS}")
    pairs = [
        ("source", sample.source),
        (
            sample.text,
            f"row {place.row}, tokens {place.start} to {place.start + sample.tokens - 1}",
        ),
        ("tokens", str(sample.tokens)),
        ("learnt", str(sample.learnt)),
    ]
    parts = [make_tag("h3", key, sample.name), make_facts(pairs)]
    if sample.fault is not None:
        parts.append(make_note(f"It could not be read whole: {sample.fault}"))
    else:
        parts.append(make_tag("p", *map(_show_token, detail.tokens), class_="tokens"))
    parts += [_show_medium(medium) for medium in detail.media]
    return make_tag("article", *parts, id=sample.key, class_="sample")


def _show_token(token: PreviewToken) -> Markup:
    """A token; a line break is shown, and a part of a character as a dot."""
    if token.medium:
        text = f"{token.text} \N{MULTIPLICATION SIGN} {token.count}"
        last = token.at + token.count - 1
        return make_tag("span", text, class_="chip", title=f"{token.at} to {last}: id {token.id}")
    text = token.text.replace("\n", "\N{RETURN SYMBOL}\n") or "\N{MIDDLE DOT}"
    title = f"{token.at}: id {token.id}" + ", learnt" * token.learnt
    return make_tag("span", text, class_="learnt" if token.learnt else "", title=title)


def _show_medium(medium: PreviewMedium) -> Markup:
    """A medium: the original, what its encoder gets, and a player."""
    last = medium.start + medium.positions - 1
    caption = (
        f"{medium.bucket}: row {medium.row}, positions {medium.start} to {last}; {medium.outputs} "
        f"outputs are merged; {medium.look.description} in the file"
    )
    parts = [make_tag("figcaption", caption)]
    if medium.look.original is not None:
        widest = max(
            (_shown_width(picture, len(row)) for row in medium.look.seen for picture in row),
            default=0,
        )
        parts.append(_side_by_side([_show_original(medium.look.original, widest)]))
    parts += [
        _side_by_side(_show_picture(picture, len(row)) for picture in row)
        for row in medium.look.seen
    ]
    if medium.look.sound is not None:
        parts += list(_show_player(medium.look.sound))
    return make_tag("figure", *parts, class_="medium")


def _side_by_side(pictures: Iterator[Markup] | list[Markup]) -> Markup:
    return make_tag("div", *pictures, class_="pictures")


def _show_original(picture: PreviewPicture, widest: int) -> Markup:
    """The picture in the file, no smaller than the `widest` that its encoder gets of it."""
    image = _open_image(picture)
    image.thumbnail((LONGEST, LONGEST))
    return _show_image(image, picture.caption, max(NARROW, widest), exact=False)


def _show_picture(picture: PreviewPicture, count: int) -> Markup:
    return _show_image(
        _open_image(picture), picture.caption, _widest_points(count), exact=picture.exact
    )


def _widest_points(count: int) -> int:
    """Points of the widest of so many pictures side by side."""
    return NARROW if count > 1 else WIDE


def _shown_width(picture: PreviewPicture, count: int) -> int:
    """Points of the width at which a picture is shown next to others."""
    height, width = picture.pixels.shape[:2]
    wide = width * _zoom_factor(height)
    return wide if picture.exact else min(wide, _widest_points(count))


def _open_image(picture: PreviewPicture) -> Image.Image:
    pixels = picture.pixels
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def _show_image(image: Image.Image, caption: str, most: int, *, exact: bool) -> Markup:
    """A picture with its words; a small one is enlarged by a whole factor."""
    factor = _zoom_factor(image.height)
    width, height = image.width * factor, image.height * factor
    style = f"width:{width}px;height:{height}px" if exact else f"width:{min(width, most)}px"
    address = (
        encode_png(image) if exact or image.width * image.height <= SMALL else encode_jpeg(image)
    )
    shape = "exact" if exact or factor > 1 else ""
    return make_tag(
        "span",
        make_tag("img", alt=caption, src=address, style=style, class_=shape),
        make_tag("small", caption),
    )


def _zoom_factor(height: int) -> int:
    """The factor by which a picture of so many pixels is enlarged."""
    return max(1, -(-LEAST // height))


def _show_player(sound: PreviewSound) -> Iterator[Markup]:
    heard = sound.wave[: HEARD * sound.rate]
    yield make_tag("audio", controls="", preload="metadata", src=encode_wav(heard, sound.rate))
    if len(heard) < len(sound.wave):
        yield make_note(f"The first {HEARD} s.")
