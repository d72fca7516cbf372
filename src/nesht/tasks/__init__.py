"""What is simulated: environments, distractor features, masked rewards."""

from nesht.tasks.imperfect import Distractors, RewardMask
from nesht.tasks.locomotion import LOCOMOTION, Locomotion
from nesht.tasks.task import Task
from nesht.tasks.wrappers import MaskReward, NoiseFeatures

__all__ = ["LOCOMOTION", "Distractors", "Locomotion", "MaskReward", "NoiseFeatures", "RewardMask", "Task"]
