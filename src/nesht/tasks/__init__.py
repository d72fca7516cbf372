"""What is simulated: environments, distractor features, masked rewards. Nothing is imported until it is used."""
