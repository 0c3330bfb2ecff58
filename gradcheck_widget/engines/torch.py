"""PyTorch: strided and sparse tensors on any device, reverse, forward and batched mode.

Numerical runs see the caller's own tensors, with grad mode on: functions may close over their inputs, call
``torch.autograd.grad`` inside, or branch on ``requires_grad``. They are perturbed through a NumPy view of their memory,
which leaves autograd's version counters alone, as ``x.data`` does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad
from torch.autograd.gradcheck import GradcheckError as _TorchGradcheckError
from torch.overrides import is_tensor_like

from ..errors import GradcheckError
from .base import Array, Engine, Evaluator, Linearization, Pushforward, Snapshot, type_name

__all__ = ["TorchEngine"]

# `except torch.autograd.gradcheck.GradcheckError` in an existing test suite catches ours too
if not issubclass(GradcheckError, _TorchGradcheckError):
    GradcheckError.__bases__ = (_TorchGradcheckError,)

_WIDER = {torch.bfloat16: torch.float32, torch.complex32: torch.complex64}
COMPRESSED = (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


class TorchEngine(Engine):
    name = "torch"
    supports = frozenset({"check_forward_ad", "check_batched_grad", "check_batched_forward_grad", "fast_mode"})

    def is_tensor(self, x: Any) -> bool:
        return bool(is_tensor_like(x))

    def requires_grad(self, x: Any) -> bool:
        return bool(x.requires_grad) and (x.is_floating_point() or x.is_complex())

    def array(self, x: Any) -> Array:
        return _host(x)

    def memory(self, x: Any) -> Array:
        return _host(_values(x))

    def tensor(self, values: Array, like: Any = None) -> Any:
        device = like.device if like is not None else None
        return torch.from_numpy(values).to(device).requires_grad_()

    def copy(self, x: Any) -> Any:
        return x.detach().clone().requires_grad_()

    def snapshot(self, x: Any) -> Snapshot:
        values = _values(x)
        kept = values.clone()

        def restore() -> bool:
            if _same_bits(values, kept):
                return False
            values.copy_(kept)
            return True

        return Snapshot(restore)

    # -- reverse mode -------------------------------------------------------------------------------------
    def linearize(self, func: Callable[..., Any], inputs: Sequence[Any], checked: Sequence[int]) -> Linearization:
        outputs = _outputs(func(*inputs))
        leaves = [inputs[i] for i in checked]

        def grad(outs: Sequence[Any], grads: Sequence[Any], batched: bool = False) -> list[Array | None]:
            found = torch.autograd.grad(
                outs, leaves, grads, retain_graph=True, allow_unused=True, is_grads_batched=batched
            )
            return [None if g is None else _host(g) for g in found]

        def pullback(cotangents: Mapping[int, Array | None]) -> list[Array | None]:
            outs, grads = [], []
            for k, g in cotangents.items():
                o = outputs[k]
                # what is only like a Tensor cannot have an undefined gradient
                undefined = g is None and isinstance(o, torch.Tensor)
                outs.append(torch._C._functions.UndefinedGrad()(o) if undefined else o)
                grads.append(torch.zeros_like(o) if g is None else _like(g, o))
            return grad(outs, grads)

        def batched(k: int, cotangents: Array) -> list[Array | None]:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="There is a performance drop")
                return grad([outputs[k]], [_like(cotangents, outputs[k])], batched=True)

        return Linearization(
            tuple(_host(o) for o in outputs), tuple(bool(o.requires_grad) for o in outputs), pullback, batched
        )

    def gradient(self, func: Callable[..., Any], checked: Sequence[int], count: int) -> Callable[..., Any]:
        def vjp(*args: Any) -> tuple[Any, ...]:
            inputs = [a.requires_grad_() if i in checked else a for i, a in enumerate(args[:count])]
            outputs = [o for o in _outputs(func(*inputs)) if o.requires_grad]
            grads = torch.autograd.grad(
                outputs, [inputs[i] for i in checked], args[count:], create_graph=True, allow_unused=True
            )
            return tuple(g for g in grads if g is not None)

        return vjp

    # -- running without differentiating --------------------------------------------------------------------
    def evaluators(
        self, func: Callable[..., Any], inputs: Sequence[Any], checked: Sequence[int], masked: bool = False
    ) -> Iterator[Evaluator]:
        own = list(inputs)
        made: dict[int, tuple[Any, Array, Array | None]] = {}  # of each tensor once, also if it is passed twice
        stand_ins = []
        for i in checked:
            x = inputs[i]
            if id(x) not in made:
                full = x if x.layout is torch.strided or masked else _fully_specified(x)
                values = _values(full)
                buffer = _host(values)
                if values.device.type != "cpu" or not _shares(buffer, values):
                    buffer = buffer.copy()
                    stand_ins.append((values, buffer, values.clone()))
                made[id(x)] = full, buffer, None if x.layout is torch.strided else _positions(full)
            own[i] = made[id(x)][0]
        buffers = tuple(made[id(inputs[i])][1] for i in checked)
        positions = tuple(made[id(inputs[i])][2] for i in checked)

        def run() -> tuple[Array, ...]:
            for values, buffer, _ in stand_ins:
                values.copy_(torch.from_numpy(buffer))
            try:
                return tuple(map(_host, _outputs(func(*own))))
            finally:
                for values, _, original in stand_ins:
                    values.copy_(original)

        yield Evaluator(buffers, run, True, positions)

    # -- forward mode -------------------------------------------------------------------------------------
    def pushforward(self, func: Callable[..., Any], inputs: Sequence[Any], checked: Sequence[int]) -> Pushforward:
        def run(tangents: Mapping[int, Any]) -> list[Any]:
            """Tangents of the outputs, None where there is none; inputs left out have no tangent at all."""
            with forward_ad.dual_level():
                args = list(inputs)
                for i in checked:
                    args[i] = inputs[i].detach()
                    if i in tangents:
                        args[i] = forward_ad.make_dual(args[i], tangents[i])
                duals = [forward_ad.unpack_dual(o) for o in _outputs(func(*args))]
            return [d.tangent for d in duals]

        def push(tangents: Mapping[int, Array]) -> list[Array | None]:
            found = run({checked[i]: _like(t, inputs[checked[i]]) for i, t in tangents.items()})
            return [None if t is None else _host(t) for t in found]

        def batched(i: int, tangents: Array) -> list[Array | None]:
            x = inputs[checked[i]]

            def one(t: Any) -> tuple[Any, ...]:
                return tuple(torch.zeros((), dtype=torch.float64) if o is None else o for o in run({checked[i]: t}))

            return [_host(t) for t in torch._vmap_internals._vmap(one)(_like(tangents, x))]

        return Pushforward(push, batched)


def _outputs(result: Any) -> tuple[Any, ...]:
    outputs = tuple(result) if isinstance(result, tuple | list) else (result,)
    for k, o in enumerate(outputs):
        if not is_tensor_like(o):
            raise TypeError(f"func returned {type_name(o)} as output {k}: it must return a tensor or a tuple of them")
        if o.layout is not torch.strided:
            kind = "MKLDNN" if o.layout is torch._mkldnn else "Sparse"
            raise ValueError(
                f"{kind} output is not supported at gradcheck yet: output {k} has layout {o.layout}. Please call "
                "to_dense(masked_grad=...) on the output of fn for gradcheck."
            )
    return outputs


def _host(x: Any) -> Array:
    """Values on the host: a view of the tensor's own memory wherever NumPy can have one."""
    x = x.detach()
    try:
        return x.numpy()
    except (TypeError, RuntimeError):
        if x.layout is not torch.strided:
            x = x.to_dense()
        x = x.cpu().resolve_conj().resolve_neg()
        if x.dtype in _WIDER:  # dtypes that NumPy does not have
            x = x.to(_WIDER[x.dtype])
        return x.clone().numpy() if x._is_zerotensor() else x.numpy()


def _like(values: Array, x: Any) -> Any:
    t = torch.from_numpy(np.asarray(values, order="C"))  # a 0-d result may come as a NumPy scalar
    return t if t.dtype is x.dtype and x.device.type == "cpu" else t.to(device=x.device, dtype=x.dtype)


def _shares(buffer: Array, values: Any) -> bool:
    return values.numel() == 0 or buffer.__array_interface__["data"][0] == values.data_ptr()


def _same_bits(a: Any, b: Any) -> bool:
    return bool(_host(a).tobytes() == _host(b).tobytes())


# -- sparse layouts -----------------------------------------------------------------------------------------
def _values(x: Any) -> Any:
    """The memory that holds the (specified) values."""
    if x.layout is torch.sparse_coo:
        return x._values().data
    return x.values().data if x.layout in COMPRESSED else x.data


def _rebuilt(x: Any, values: Any) -> Any:
    """A tensor of the structure of `x` with other values."""
    if x.layout is torch.sparse_coo:
        return torch.sparse_coo_tensor(
            x._indices(), values, x.shape, is_coalesced=x.is_coalesced(), check_invariants=False
        )
    rows = x.layout in (torch.sparse_csr, torch.sparse_bsr)
    compressed, plain = (x.crow_indices(), x.col_indices()) if rows else (x.ccol_indices(), x.row_indices())
    return torch.sparse_compressed_tensor(compressed, plain, values, x.shape, layout=x.layout, check_invariants=False)


def _positions(x: Any) -> Array:
    """Flat positions in the dense tensor of the elements of ``_values(x)``."""
    if x.layout is torch.sparse_coo:  # may hold an index twice
        sparse, dense = x.shape[: x.sparse_dim()], x.shape[x.sparse_dim() :]
        starts = np.ravel_multi_index(tuple(x._indices().cpu().numpy()), tuple(sparse)) * dense.numel()
        return np.asarray(np.add.outer(starts, np.arange(dense.numel())).reshape(-1))
    count = _values(x).numel()
    numbers = torch.arange(1, count + 1, dtype=torch.float64, device=x.device).reshape(_values(x).shape)
    dense_numbers = _rebuilt(x, numbers).to_dense().reshape(-1).cpu().numpy()
    where = np.flatnonzero(dense_numbers)
    positions = np.empty(count, int)
    positions[dense_numbers[where].astype(int) - 1] = where
    return positions


def _fully_specified(x: Any) -> Any:
    """The same values in the same layout with every element specified, zeros included."""
    dense = x.detach().to_dense()
    numbers = torch.arange(1, dense.numel() + 1, dtype=torch.float64, device=x.device).reshape(dense.shape)
    if x.layout is torch.sparse_coo:
        full = numbers.to_sparse(x.sparse_dim())
    else:
        blocks = tuple(x.values().shape[-2 - x.dense_dim() :][:2])
        kwargs = {"blocksize": blocks} if x.layout in (torch.sparse_bsr, torch.sparse_bsc) else {}
        full = numbers.to_sparse(layout=x.layout, dense_dim=x.dense_dim() or None, **kwargs)
    places = (_values(full) - 1).long()
    return _rebuilt(full, dense.reshape(-1)[places]).requires_grad_(x.requires_grad)
