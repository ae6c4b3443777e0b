"""A Choquet layer among PyTorch's tools: each of them gives what the formula written out gives."""

from __future__ import annotations

import copy

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode

import choqolate as cq
from choqolate.integral import PairwiseCapacity
from choqolate.integral.operators import integrate_pairs
from choqolate.network.architecture import Architecture
from choqolate.network.module import ChoqolateNetwork

pytestmark = [pytest.mark.usefixtures("kernel"), pytest.mark.filterwarnings("ignore")]  # warnings of PyTorch's tools

FORMS = [("pairwise", 5), ("pairwise", 23), ("factored", 23), ("none", 23)]


@pytest.fixture(params=FORMS, ids=lambda form: f"{form[0]}-{form[1]}")
def layer(request):
    interactions, n_inputs = request.param
    generator = torch.Generator().manual_seed(3)
    return cq.ChoquetLayer(n_inputs, 4, interactions, rank=2, generator=generator, dtype=torch.float64)


@pytest.fixture
def u(layer):
    return torch.rand(9, layer.in_features, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


def formula(u, *parameters):
    """The layer written out with gathers: works for the parameters of any form."""
    j, l = torch.triu_indices(u.shape[-1], u.shape[-1], 1)
    if len(parameters) == 4:
        m, a, p, q = (theta.softmax(-1) for theta in parameters)
        rank = p.shape[-2]
        low = torch.minimum(u[..., :, None], u[..., None, :])
        high = torch.maximum(u[..., :, None], u[..., None, :])
        minima = torch.einsum("nrj,nrl,...jl->...nr", p, q, low)
        maxima = torch.einsum("nrj,nrl,...jl->...nr", p, q, high)
        linear = torch.einsum("nj,...j->...n", a, u)
        return m[:, 0] * linear + (m[:, 1 : rank + 1] * minima + m[:, rank + 1 :] * maxima).sum(-1)
    (theta,) = parameters
    if theta.ndim == 2:
        return u @ theta.softmax(-1).T
    w = theta.flatten(1).softmax(1).view_as(theta)
    low, high = torch.minimum(u[..., j], u[..., l]), torch.maximum(u[..., j], u[..., l])
    return u @ w.diagonal(dim1=1, dim2=2).T + low @ w[:, j, l].T + high @ w[:, l, j].T


def as_function(layer):
    """The layer as a function of its inputs and parameters."""
    names = [name for name, _ in layer.named_parameters()]
    return lambda u, *values: torch.func.functional_call(layer, dict(zip(names, values, strict=True)), (u,))


def gradients(function, u, parameters):
    u, *parameters = (x.detach().clone().requires_grad_() for x in (u, *parameters))
    values = function(u, *parameters)
    return values, *torch.autograd.grad(values.square().sum(), (u, *parameters))


def test_values_and_gradients(layer, u):
    parameters = list(layer.parameters())
    torch.testing.assert_close(
        gradients(as_function(layer), u, parameters), gradients(formula, u, parameters), rtol=1e-9, atol=1e-12
    )


def test_compile_in_one_graph(layer, u):
    compiled = torch.compile(as_function(layer), fullgraph=True, backend="aot_eager")
    parameters = list(layer.parameters())
    for rows in (u, u[:4]):
        torch.testing.assert_close(
            gradients(compiled, rows, parameters), gradients(formula, rows, parameters), rtol=1e-9, atol=1e-12
        )


def test_compile_a_transformed_layer(layer, u):
    parameters = list(layer.parameters())
    for transform in (torch.func.vmap, lambda f: torch.func.grad(lambda x: f(x).square().sum())):
        compiled = torch.compile(transform(layer), backend="aot_eager")
        expected = transform(lambda x: formula(x, *parameters))
        torch.testing.assert_close(compiled(u), expected(u))


@pytest.mark.parametrize("strict", [False, True])
def test_export_with_a_dynamic_batch(layer, u, strict):
    batch = torch.export.Dim("batch", min=2)
    exported = torch.export.export(layer, (u,), dynamic_shapes=({0: batch},), strict=strict)
    for rows in (u, u[:2], u.repeat(30, 1)):
        torch.testing.assert_close(exported.module()(rows), formula(rows, *layer.parameters()))


def test_vmap_over_rows_over_parameters_and_over_both(layer, u):
    function, parameters = as_function(layer), list(layer.parameters())
    over_rows = torch.func.vmap(function, (0, *[None] * len(parameters)))
    torch.testing.assert_close(over_rows(u, *parameters), formula(u, *parameters))
    many = [torch.stack([theta, 2 * theta, -theta]) for theta in parameters]
    expected = torch.stack([formula(u, *(theta[k] for theta in many)) for k in range(3)])
    over_parameters = torch.func.vmap(function, (None, *[0] * len(parameters)))
    torch.testing.assert_close(over_parameters(u, *many), expected)
    over_both = torch.func.vmap(function, (0, *[0] * len(parameters)))
    torch.testing.assert_close(over_both(u.expand(3, -1, -1), *many), expected)


def test_jacrev_jacfwd_and_per_sample_gradients(layer, u):
    function, parameters = as_function(layer), list(layer.parameters())
    which = tuple(range(1 + len(parameters)))
    expected = torch.func.jacrev(formula, which)(u, *parameters)
    torch.testing.assert_close(torch.func.jacrev(function, which)(u, *parameters), expected)
    torch.testing.assert_close(torch.func.jacfwd(function, which)(u, *parameters), expected)
    per_sample = torch.func.vmap(
        torch.func.grad(lambda *x: function(*x).square().sum(), which), (0, *[None] * len(parameters))
    )
    by_hand = torch.func.vmap(
        torch.func.grad(lambda *x: formula(*x).square().sum(), which), (0, *[None] * len(parameters))
    )
    torch.testing.assert_close(per_sample(u, *parameters), by_hand(u, *parameters))


def test_jvp(layer, u):
    function, parameters = as_function(layer), tuple(layer.parameters())
    generator = torch.Generator().manual_seed(5)
    directions = tuple(torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in (u, *parameters))
    expected = torch.func.jvp(formula, (u, *parameters), directions)
    torch.testing.assert_close(torch.func.jvp(function, (u, *parameters), directions), expected)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(layer(forward_ad.make_dual(u, directions[0]))).tangent
    only_u = lambda u: formula(u, *parameters)  # noqa: E731
    torch.testing.assert_close(tangent, torch.func.jvp(only_u, (u,), directions[:1])[1])


def test_double_backward(layer, u):
    def penalty(function, u, *parameters):
        u, *parameters = (x.detach().clone().requires_grad_() for x in (u, *parameters))
        first = torch.autograd.grad(function(u, *parameters).square().sum(), (u, *parameters), create_graph=True)
        return torch.autograd.grad(sum(x.square().sum() for x in first), (u, *parameters))

    parameters = list(layer.parameters())
    torch.testing.assert_close(
        penalty(as_function(layer), u, *parameters), penalty(formula, u, *parameters), rtol=1e-8, atol=1e-11
    )


def test_hessian(layer, u):
    theta, *others = layer.parameters()
    function, few = as_function(layer), u[:2]
    torch.testing.assert_close(
        torch.func.hessian(lambda x: function(x, theta, *others).square().sum())(few),
        torch.func.hessian(lambda x: formula(x, theta, *others).square().sum())(few),
    )


def test_batched_gradients(layer, u):
    parameters = list(layer.parameters())

    def jacobians(function):
        x = u.clone().requires_grad_()
        values = function(x, *parameters)
        every = torch.eye(values.numel(), dtype=values.dtype).view(-1, *values.shape)
        return torch.autograd.grad(values, (x, *parameters), every, is_grads_batched=True)

    torch.testing.assert_close(jacobians(as_function(layer)), jacobians(formula))


def test_autocast_computes_in_the_precision_of_the_layer(layer, u):
    single = layer.float()
    before = torch.nn.Linear(3, layer.in_features)
    x = torch.rand(9, 3)
    with torch.autocast("cpu", torch.bfloat16):
        hidden = before(x).sigmoid()
        values = single(hidden)
    assert hidden.dtype == torch.bfloat16
    assert values.dtype == torch.float32
    torch.testing.assert_close(values, formula(hidden.float(), *single.parameters()), rtol=1e-5, atol=1e-6)
    values.sum().backward()
    assert all(theta.grad.isfinite().all() for theta in (*single.parameters(), before.weight))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(layer, u, dtype):
    half = copy.deepcopy(layer).to(dtype)
    values = half(u.to(dtype))
    assert values.dtype == dtype
    expected = formula(u.to(dtype).float(), *(theta.float() for theta in half.parameters()))
    torch.testing.assert_close(values.float(), expected, rtol=0, atol=1e-3 if dtype == torch.float16 else 8e-3)
    values.float().sum().backward()
    assert all(theta.grad.dtype == dtype and theta.grad.isfinite().all() for theta in half.parameters())


def test_inputs_of_another_dtype_are_cast(layer):
    ones = torch.randint(0, 2, (5, layer.in_features))
    for given in (ones, ones.bool(), ones.float(), ones.half()):
        values = layer(given)
        assert values.dtype == torch.float64
        torch.testing.assert_close(values, formula(ones.double(), *layer.parameters()))
    with pytest.raises(cq.ChoqolateError, match=r"real inputs, got torch\.complex64"):
        layer(ones * 1j)


@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (torch.Tensor.numpy, r"as a tensor, got ndarray. Use torch\.as_tensor"),
        (torch.Tensor.tolist, r"as a tensor, got list"),
        (torch.Tensor.to_sparse, r"dense tensor, got a tensor of layout torch\.sparse_coo. Use u\.to_dense\(\)"),
        (torch.Tensor.to_sparse_csr, r"layout torch\.sparse_csr"),
        (lambda u: torch.nested.nested_tensor(list(u)), r"got a nested tensor. Use torch\.nested\.to_padded_tensor"),
    ],
)
def test_inputs_that_are_no_dense_tensor_are_refused(layer, u, convert, message):
    with pytest.raises(cq.ChoqolateError, match=message):
        layer(convert(u))


def test_nan_is_an_error_in_validation_mode(layer, u):
    u[2, 1] = torch.nan
    assert layer(u)[2].isnan().all()
    layer.validate = True
    with pytest.raises(cq.ChoqolateError, match="without NaN, but 1 row has some"):
        layer(u)
    layer(u[:2])


def test_meta_device(layer, u):
    on_meta = copy.deepcopy(layer).to("meta")
    values = on_meta(u.to("meta"))
    assert values.is_meta
    assert values.shape == (9, 4)
    values.sum().backward()
    assert all(theta.grad.shape == theta.shape for theta in on_meta.parameters())


def test_state_dict_deepcopy_and_replicas(layer, u):
    expected = layer(u)
    again = cq.ChoquetLayer(layer.in_features, 4, layer.interactions, rank=2, dtype=torch.float64)
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again(u), expected)
    assert torch.equal(copy.deepcopy(layer)(u), expected)
    replica = layer._replicate_for_data_parallel()  # what nn.DataParallel does on each device
    for name, theta in layer.named_parameters():
        setattr(replica, name, theta * 1)
    assert not list(replica.parameters())
    values = replica(u)
    assert torch.equal(values, expected)
    values.sum().backward()
    assert all(theta.grad is not None for theta in layer.parameters())


def test_forward_mode_jacobian_all_at_once(layer, u):
    computed = torch.autograd.functional.jacobian(layer, u[:3], strategy="forward-mode", vectorize=True)
    parameters = list(layer.parameters())
    torch.testing.assert_close(computed, torch.func.jacrev(lambda x: formula(x, *parameters))(u[:3]))


@pytest.mark.parametrize("softmax", [False, True])
def test_pairwise_operators_are_registered_as_pytorch_wants_it(softmax):
    u, weights = (torch.rand(shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 5, 20), (2, 3, 20, 20)))
    torch.library.opcheck(torch.ops.choqolate.integral.default, (u, weights, softmax))
    values, mass, scale = torch.ops.choqolate.integral(u.detach(), weights.detach(), softmax)
    g, g_mass = torch.rand_like(values), torch.rand_like(mass) if softmax else None
    arguments = (u.detach(), weights.detach(), softmax, scale)
    torch.library.opcheck(torch.ops.choqolate.integral_input_gradient.default, (*arguments, g))
    torch.library.opcheck(torch.ops.choqolate.integral_weight_gradient.default, (*arguments, values, mass, g, g_mass))


def test_operators_refuse_what_does_not_fit():
    u, w = torch.rand(2, 4, 20), torch.rand(2, 3, 20, 20)
    integral, gradient = torch.ops.choqolate.integral, torch.ops.choqolate.integral_input_gradient
    scale, g = torch.rand(2, 3, 2), torch.rand(2, 4, 3)
    for wrong, message in (
        (lambda: integral(u, w[:, :, :10, :10], True), r"Expected weights of shape \(S, N, M, M\).*\(2, 3, 10, 10\)"),
        (lambda: integral(u, w[:1], True), r"weights of shape.*\(1, 3, 20, 20\)"),
        (lambda: integral(u[0], w, True), r"Expected u of shape \(B, M\) and .*\(4, 20\) and \(2, 3, 20, 20\)"),
        (
            lambda: integral(u[0], w[0, :, :10, :10], True),
            r"weights of shape \(N, M, M\) beside u \(B, M\), but got \(3, 10",
        ),
        (lambda: integral(u, w.double(), True), "weights to have the dtype and device of u, torch.float32 on cpu"),
        (lambda: integral(u.to("meta"), w.double().to("meta"), True), "torch.float64 on meta"),
        (lambda: gradient(u, w, True, scale, g[:, :2]), r"g of shape \(S, B, N\)"),
        (lambda: gradient(u, w, True, scale[:1], g), r"scale of shape \(S, N, 2\)"),
        (lambda: PairwiseCapacity(w[0].double()).integrate(u[0]), "got torch.float64 on cpu"),
    ):
        with pytest.raises(cq.ChoqolateError, match=message):
            wrong()


class Recorder(TorchDispatchMode):
    """Remembers which operators are called."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def test_whoever_watches_sees_the_operators():
    layer, u = cq.ChoquetLayer(23, 4), torch.rand(9, 23)
    with Recorder() as recorder:
        layer(u).sum().backward()
    assert {"choqolate.integral.default", "choqolate.integral_weight_gradient.default"} <= set(recorder.names)
    theta = layer.theta.detach()
    graph = make_fx(lambda u, theta: integrate_pairs(u, theta, softmax=True)[0])(u, theta)  # records, on real tensors
    assert "choqolate.integral.default" in str(graph.code)
    torch.testing.assert_close(graph(2 * u, theta + u[0]), integrate_pairs(2 * u, theta + u[0], softmax=True)[0])


def test_traced_by_torch_jit():
    layer, u = cq.ChoquetLayer(23, 4), torch.rand(9, 23)
    traced = torch.jit.trace(layer, u)
    torch.testing.assert_close(traced(u[:5] ** 2), layer(u[:5] ** 2))


@pytest.fixture
def pair():
    """A pairwise layer and inputs."""
    generator = torch.Generator().manual_seed(3)
    layer = cq.ChoquetLayer(23, 4, generator=generator, dtype=torch.float64)
    return layer, torch.rand(9, 23, generator=generator, dtype=torch.float64)


def test_tensors_that_are_more_than_numbers_in_memory(pair):
    layer, u = pair
    twice = integrate_pairs(u, TwoTensor(layer.theta.detach(), 2 * layer.theta.detach()), softmax=True)[0]
    assert isinstance(twice, TwoTensor)
    torch.testing.assert_close(twice.a, formula(u, layer.theta))
    torch.testing.assert_close(twice.b, formula(u, 2 * layer.theta))
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fake = integrate_pairs(u, mode.from_tensor(layer.theta.detach()), softmax=True)[0]  # outside of the mode
    assert fake.shape == (9, 4)

    negated = torch.complex(u, -u).conj().imag  # a view with a sign that is applied when it is read
    assert negated.is_neg()
    torch.testing.assert_close(layer(negated), formula(u, layer.theta))
    values = layer(u)
    slopes = torch.complex(values.detach(), -values.detach()).conj().imag
    expected = torch.autograd.grad(formula(u, layer.theta), layer.theta, values.detach())
    torch.testing.assert_close(torch.autograd.grad(values, layer.theta, slopes), expected)
    nothing = torch._efficientzerotensor(values.shape, dtype=values.dtype)
    (gradient,) = torch.autograd.grad(layer(u), layer.theta, nothing)
    assert not gradient.any()


def test_a_default_device_does_not_move_what_is_computed(pair):
    layer, u = pair
    expected = layer(u)
    with torch.device("meta"):
        x = u.clone().requires_grad_()
        values = layer(x)
        values.sum().backward()
        assert cq.ChoquetLayer(5, 2).theta.is_meta
        assert all(theta.is_meta for theta in ChoqolateNetwork(Architecture(3), 5, 2, seeds=[0]).parameters())
    assert x.grad.device.type == "cpu"
    assert torch.equal(values, expected)
    assert torch.equal(layer(u), expected)


def test_forward_mode_over_a_gradient(layer, u):
    parameters = list(layer.parameters())
    direction = torch.rand(u.shape, generator=torch.Generator().manual_seed(5), dtype=u.dtype)

    def slope(function, u):
        return torch.func.grad(lambda x: function(x, *parameters).square().sum())(u)

    expected = torch.func.jvp(lambda u: slope(formula, u), (u,), (direction,))[1]
    with forward_ad.dual_level():
        x = forward_ad.make_dual(u.clone().requires_grad_(), direction)
        (gradient,) = torch.autograd.grad(layer(x).square().sum(), x)
        torch.testing.assert_close(forward_ad.unpack_dual(gradient).tangent, expected)


def test_operators_refuse_no_inputs_and_no_nodes():
    for u, w in ((torch.rand(2, 0), torch.rand(3, 0, 0)), (torch.rand(2, 4), torch.rand(0, 4, 4))):
        with pytest.raises(cq.ChoqolateError, match="at least one input and one node, but got u"):
            torch.ops.choqolate.integral(u, w, True)
