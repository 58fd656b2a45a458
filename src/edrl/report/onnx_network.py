"""The network of an agent as ONNX, so that programs without Python or JAX can play it."""

from typing import Any

import numpy as np

from edrl.core.check import fail
from edrl.core.families import Categorical
from edrl.core.statistics import Statistics
from edrl.deep.agents import StatisticsAgent
from edrl.deep.networks import LEAST_VARIANCE, Layer, Network, kernel
from edrl.deep.trained import Trained

FILE = "network.onnx"
_OPSET, _IR = 17, 8  # the first with layer normalisation; what runtimes since 2022 read
_INSTALL = "ONNX files need the package onnx: pip install 'edrl[onnx]'"


def onnx_bytes(trained: Trained) -> bytes:
    """A model from `observations` [batch, ...] to `values` and `action_values`.

    `values` [batch, action, K] are the statistics of the returns, `action_values` [batch, action]
    their means: an agent that plays takes the largest.

    Raises:
        ValueError: if the agent needs more than matrix products, such as an imputation, for these.
        ImportError: if there is no onnx.
    """
    graph = _Graph()
    agent = trained.agent
    if not isinstance(agent, StatisticsAgent):
        raise _no_onnx(f"only networks for fixed statistics have it, not {trained.config.variant}")
    if agent.risk is not None:
        raise _no_onnx("to act by a risk measure needs an imputation")
    outputs = graph.network(agent.network, trained.parameters)
    values = graph.name_as("values", graph.link(agent.family, outputs))
    weights, offset = _mean_of(agent.family)
    mean = graph.add("MatMul", values, graph.constant(weights))
    graph.name_as("action_values", graph.add("Add", mean, graph.constant(offset)))
    return graph.model(trained, agent.network.num_actions, agent.family.size)


def _no_onnx(why: str) -> ValueError:
    return fail("onnx", True, f"this agent has no ONNX form, so leave it out: {why}")


def _mean_of(family: Statistics) -> tuple[np.ndarray, np.ndarray]:
    """Weights [K] and an offset such that the mean of values is a weighted sum of them."""
    size = family.size
    offset = np.asarray(family.mean(np.zeros(size, np.float32)))
    weights = np.asarray(family.mean(np.eye(size, dtype=np.float32))) - offset
    tried = np.sort(np.random.default_rng(0).normal(size=(64, size)), axis=-1).astype(np.float32)
    if not np.allclose(family.mean(tried), tried @ weights + offset, rtol=1e-4, atol=1e-4):
        raise _no_onnx(f"the mean of {type(family).__name__} is no weighted sum of its statistics")
    return weights, offset


class _Graph:
    """Nodes and constants, which get names as they come."""

    def __init__(self) -> None:
        try:
            import onnx
        except ModuleNotFoundError as error:
            raise ImportError(_INSTALL) from error
        self.onnx = onnx
        self.nodes: list[Any] = []  # protocol buffers
        self.constants: list[Any] = []

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node, and return the name of its output."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        node = self.onnx.helper.make_node(operator, inputs, [name], name=name, **attributes)
        self.nodes.append(node)
        return name

    def constant(self, array: Any) -> str:
        """Add an array, whole numbers as they are and all others in single precision."""
        array = np.asarray(array)
        array = np.ascontiguousarray(array, np.int64 if array.dtype.kind == "i" else np.float32)
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def name_as(self, name: str, output: str) -> str:
        """Give an output the name that users see."""
        self.nodes.append(self.onnx.helper.make_node("Identity", [output], [name], name=name))
        return name

    def network(self, network: Network, parameters: list[Layer]) -> str:
        """Outputs [batch, action, output]."""
        x = self.add("Cast", "observations", to=self.onnx.TensorProto.FLOAT)
        x = self.add("Mul", x, self.constant(network.scale))
        for layer, weights in zip(network.convolutions, parameters, strict=False):
            rows = self.constant(kernel(layer, weights).transpose(0, 3, 1, 2))
            channels_first = self.add("Transpose", x, perm=[0, 3, 1, 2])
            x = self.add("Conv", channels_first, rows, strides=[layer.stride] * 2)
            x = self.activated(self.add("Transpose", x, perm=[0, 2, 3, 1]), weights)
        x = self.add("Flatten", x)
        *hidden, last = parameters[len(network.convolutions) :]
        for weights in hidden:
            x = self.activated(self.add("MatMul", x, self.constant(weights["weight"])), weights)
        x = self.add("MatMul", x, self.constant(last["weight"]))
        x = self.add("Add", x, self.constant(last["bias"]))
        shape = self.constant(np.array([-1, network.num_actions, network.num_outputs]))
        return self.add("Reshape", x, shape)

    def activated(self, x: str, layer: Layer) -> str:
        """A layer's bias, its normalisation if it has one, and the ReLU."""
        x = self.add("Add", x, self.constant(layer["bias"]))
        if "gain" in layer:
            scaling = self.constant(layer["gain"]), self.constant(layer["offset"])
            x = self.add("LayerNormalization", x, *scaling, epsilon=LEAST_VARIANCE)
        return self.add("Relu", x)

    def link(self, family: Statistics, outputs: str) -> str:
        """From outputs to the statistics [batch, action, K]."""
        if isinstance(family, Categorical):
            sums = family.from_probabilities(np.eye(family.num_outputs, dtype=np.float32))
            return self.add("MatMul", self.add("Softmax", outputs, axis=-1), self.constant(sums))
        tried = np.random.default_rng(0).normal(size=(8, family.num_outputs)).astype(np.float32)
        if not np.array_equal(family.link(tried), tried):
            raise _no_onnx(f"its head makes the statistics of {type(family).__name__} from outputs")
        return outputs

    def model(self, trained: Trained, actions: int, size: int) -> bytes:
        """The file."""
        helper, single = self.onnx.helper, self.onnx.TensorProto.FLOAT
        seen = helper.np_dtype_to_tensor_dtype(trained.observation_dtype)
        observations = ["batch", *trained.observation_shape]
        graph = helper.make_graph(
            self.nodes,
            "edrl",
            [helper.make_tensor_value_info("observations", seen, observations)],
            [
                helper.make_tensor_value_info("values", single, ["batch", actions, size]),
                helper.make_tensor_value_info("action_values", single, ["batch", actions]),
            ],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)])
        model.ir_version, model.producer_name = _IR, "edrl"
        about = {"agent": str(trained.config.variant), "environment": trained.env_name}
        helper.set_model_props(model, about | {"actions": ", ".join(trained.action_names)})
        self.onnx.checker.check_model(model)
        return bytes(model.SerializeToString())
