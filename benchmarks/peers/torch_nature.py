"""`python -m benchmarks.peers.torch_nature dqn`: an update with Nature's network in PyTorch, through
the gate.

It is written as PyTorch is fastest on a CPU: `torch.compile`, channels last, Adam in one pass. For
`er-dqn` the target's expectiles are taken as samples: imputing them would only cost it more.
"""

import sys

import torch
from torch import nn

from benchmarks.peers.gate import Gate
from benchmarks.peers.tasks import UPDATE

_ACTIONS, _STACK, _SIDE = 6, 4, 84
_STATISTICS = {"dqn": 1, "er-dqn": 11, "qr-dqn": UPDATE.quantiles}


class Nature(nn.Module):
    """The network, for one agent's statistics of every action."""

    def __init__(self, statistics: int) -> None:
        super().__init__()
        self.statistics = statistics
        self.layers = nn.Sequential(
            nn.Conv2d(_STACK, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(),
            nn.Linear(512, _ACTIONS * statistics),
        )  # fmt: skip

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        outputs = self.layers(frames.float() / 255)
        return outputs.reshape(len(frames), _ACTIONS, self.statistics)


def _loss(agent: str, values: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """The loss [batch] of values [batch, K] to equally likely samples [batch, n]."""
    if agent == "dqn":
        return (values - target).square().sum(-1)
    count = values.shape[-1]
    taus = (torch.arange(count) + 0.5) / count
    error = target[:, None, :] - values[:, :, None]
    side = torch.where(error > 0, taus[:, None], 1 - taus[:, None])
    if agent == "er-dqn":
        return (side * error.square()).mean(-1).sum(-1)
    size = error.abs()
    capped = size.clamp(max=1.0)
    return (side * capped * (size - capped / 2)).mean(-1).sum(-1)


def main(agent: str) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    online, bootstrap = (
        Nature(_STATISTICS[agent]).to(memory_format=torch.channels_last) for _ in range(2)
    )
    bootstrap.load_state_dict(online.state_dict())
    optimiser = torch.optim.Adam(
        online.parameters(), lr=UPDATE.learning_rate, eps=UPDATE.adam_epsilon, fused=True
    )
    frames, after = (
        torch.randint(0, 256, (UPDATE.batch, _STACK, _SIDE, _SIDE), dtype=torch.uint8).to(
            memory_format=torch.channels_last
        )
        for _ in range(2)
    )
    actions, rewards = torch.randint(0, _ACTIONS, (UPDATE.batch,)), torch.randn(UPDATE.batch)
    rows = torch.arange(UPDATE.batch)

    @torch.compile
    def loss() -> torch.Tensor:
        with torch.no_grad():
            following = bootstrap(after)
            greedy = following.mean(-1).argmax(-1)
            target = rewards[:, None] + UPDATE.gamma * following[rows, greedy]
        return _loss(agent, online(frames)[rows, actions], target).mean()

    gate = Gate(UPDATE, ("torch",))
    while True:
        optimiser.zero_grad(set_to_none=True)
        loss().backward()
        optimiser.step()
        gate.step()


if __name__ == "__main__":
    main(*sys.argv[1:])
