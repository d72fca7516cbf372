"""The numbers that the paper prints: Table 1 of Gao et al. (2024), mean of the last 10 evaluations over 20 seeds."""

from __future__ import annotations

COLUMNS = ("TRPO", "DDPG", "TD3", "NES", "ANF-SAC", "NES-L1", "NESHT")

TABLE: dict[tuple[str, int], tuple[float, ...]] = {
    ("HalfCheetah", 5): (198.3, 1369.8, 665.7, 819.2, 28.8, 1152.7, 1851.8),
    ("HalfCheetah", 10): (31.6, 1285.2, 197.7, 805.9, 8.5, 918.4, 1722.5),
    ("HalfCheetah", 20): (19.2, 843.4, 198.5, 773.4, 8.4, 669.1, 1213.9),
    ("Hopper", 5): (266.9, 917.6, 972.5, 803.7, 1014.3, 679.4, 1354.5),
    ("Hopper", 10): (43.7, 824.3, 918.0, 241.2, 1010.7, 204.5, 1187.1),
    ("Hopper", 20): (23.0, 809.5, 991.2, 147.7, 1015.4, 62.9, 1006.6),
    ("Walker2d", 5): (441.9, 1030.1, 1000.7, 784.0, 986.5, 745.2, 1043.8),
    ("Walker2d", 10): (420.3, 907.3, 559.7, 384.7, 966.6, 364.2, 940.3),
    ("Walker2d", 20): (229.9, 780.6, 485.8, 240.6, 960.2, 33.8, 675.2),
}
"""By environment (before its version) and noise ratio, in the order of COLUMNS."""


ARS = {"HalfCheetah": 4815.0, "Hopper": 3344.0, "Walker2d": 2994.0}
"""What augmented random search reaches on the clean tasks with every reward (Mania et al., 2018), for scale."""


ATARI_COLUMNS = ("DQN", "A3C", "ES", "A2C")
ATARI: dict[str, dict[str, float]] = {
    "Atlantis": {"DQN": 76108, "A3C": 772392, "ES": 1267410, "A2C": 2872644.8},
    "BattleZone": {"DQN": 17560, "A3C": 11340, "ES": 16600, "A2C": 8406.2},
    "NameThisGame": {"DQN": 5439.9, "A3C": 5614, "ES": 4503, "A2C": 5532.8},
    "Phoenix": {"A3C": 28181.8, "ES": 4041, "A2C": 14104.7},
    "Qbert": {"DQN": 4589.8, "A3C": 13752.3, "ES": 147.5, "A2C": 15758.6},
    "Pong": {"DQN": 16.2, "A3C": 11.4, "ES": 21.0, "A2C": 20.8},
    "Breakout": {"DQN": 303.9, "A3C": 551.6, "ES": 9.5, "A2C": 368.5},
    "SpaceInvaders": {"DQN": 1449.7, "A3C": 2214.7, "ES": 678.5, "A2C": 951.9},
}
"""Raw scores that others published: DQN, A3C after a day, ES after an hour (Salimans et al., 2017), A2C."""


def published(env: str, noise: float, method: str) -> float | None:
    """Return the paper's number for a cell, where it has one."""
    row = TABLE.get((env.partition("-")[0], int(noise)))
    return row[COLUMNS.index(method)] if row and method in COLUMNS else None


def best(env: str, noise: float) -> tuple[str, float]:
    """Return the paper's best method in a row, and its number."""
    row = TABLE[env.partition("-")[0], int(noise)]
    return max(zip(COLUMNS, row, strict=True), key=lambda pair: pair[1])
