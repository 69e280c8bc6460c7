"""The model's towers as every gradient program runs them, whole or part by part.

What they add to `models.multimodal`: frozen parameters are constants, and the outputs of encoders
land in the decoder's rows.
"""

from __future__ import annotations

from typing import Any

import jax

from mllm_jax.models import multimodal
from mllm_jax.models.config.model import ModelConfig
from mllm_jax.train.state.freeze import NOTHING_FROZEN, Frozen
from mllm_jax.train.step.media import Views, land
from sharding.collectives import psum
from sharding.grid import View


class DecoderTower(multimodal.Decoder):
    """The decoder with its frozen parameters as constants.

    Args:
        model: resolved model configuration.
        view: of the decoder.
        frozen: parameters whose gradients are zero.
    """

    def __init__(self, model: ModelConfig, view: View, frozen: Frozen) -> None:
        super().__init__(model, view)
        self._stop = frozen.stop_decoder

    def embed(self, params: Any, batch: Any) -> jax.Array:
        """As of any decoder."""
        return super().embed(self._stop(params), batch)

    def layer(self, params: Any, x: jax.Array, context: Any) -> jax.Array:
        """As of any decoder."""
        return super().layer(self._stop(params), x, context)

    def head(self, params: Any, x: jax.Array, batch: Any) -> jax.Array:
        """As of any decoder."""
        return super().head(self._stop(params), x, batch)

    def loss(self, params: Any, batch: Any, media: jax.Array | None) -> jax.Array:
        """All parts one after the other; the sum of the losses of this rank's tokens."""
        params = self._stop(params)
        hidden = multimodal.decode_hidden(params, batch, media, self.config, self.view)
        return multimodal.loss(params, hidden, batch, self.config, self.view)


class EncoderTower(multimodal.Encoder):
    """An encoder with its frozen connector as constants, and the way of its outputs.

    Args:
        model: resolved model configuration.
        name: of the encoder.
        views: of all modules, where encoder outputs meet the decoder.
        frozen: parameters whose gradients are zero.

    Attributes:
        frozen: whether the encoder is, its connector aside.
    """

    def __init__(self, model: ModelConfig, name: str, views: Views, frozen: Frozen) -> None:
        super().__init__(model, name, views[name])
        self._model, self._name, self._views, self._constant = model, name, views, frozen
        self.frozen = frozen.trunk(name)

    def finish(self, params: Any, x: jax.Array, batch: Any, decoder_batch: Any) -> jax.Array:
        """Norm, connector, and the outputs moved to where they land in the decoder's rows."""
        return self._land(self.connect(self._stop(params), x, batch), batch, decoder_batch)

    def landed(self, params: Any, batch: Any, decoder_batch: Any) -> jax.Array:
        """All parts one after the other; outputs where they land, else zero."""
        params = self._stop(params)
        outputs = multimodal.encode(params, self._name, batch, self._model, self.view)
        return self._land(outputs, batch, decoder_batch)

    def _stop(self, params: Any) -> Any:
        return self._constant.stop_encoder(self._name, params)

    def _land(self, outputs: jax.Array, batch: Any, decoder_batch: Any) -> jax.Array:
        landed = land(outputs, self._name, batch, decoder_batch, self._views)
        return landed.astype(self.dtype)


class Towers:
    """All towers of a model under the views of a program.

    Args:
        model: resolved model configuration.
        views: of all modules, where encoder outputs meet the decoder.
        frozen: parameters whose gradients are zero.
    """

    def __init__(self, model: ModelConfig, views: Views, frozen: Frozen = NOTHING_FROZEN) -> None:
        self.decoder = DecoderTower(model, views["decoder"], frozen)
        self.encoders = {name: EncoderTower(model, name, views, frozen) for name in model.encoders}

    def media(self, params: Any, batch: Any) -> jax.Array | None:
        """Outputs of all encoders where they land: `[rows, tokens / shards, d_model]`, else zero.

        Args:
            params: local shards of the whole model.
            batch: local rows of one microbatch.
        """
        inputs, rows = batch["encoders"], batch["decoder"]
        landed = [
            encoder.landed(params["encoders"][name], inputs[name], rows)
            for name, encoder in self.encoders.items()
        ]
        return sum(landed[1:], landed[0]) if landed else None

    def loss(self, params: Any, batch: Any) -> jax.Array:
        """Sum of the losses of one microbatch; the same scalar on every rank.

        Args:
            params, batch: as of `media`.
        """
        media = self.media(params, batch)
        total = self.decoder.loss(params["decoder"], batch["decoder"], media)
        return psum(total, self.decoder.view.tokens)
