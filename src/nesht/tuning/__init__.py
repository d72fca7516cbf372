"""A user's search for settings: `nesht tune`. (The search behind the preset `tuned` is in `nesht.experiments`.)"""
