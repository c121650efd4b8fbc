"""Design of experiments: effects of factors, and the fewest settings that meet an objective."""
