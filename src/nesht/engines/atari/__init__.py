"""The `atari` engine: ALE's games and the networks that look at their screens."""
