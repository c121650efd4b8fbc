"""From scenarios to points: sweeps, designs, random values, what endpoints are configured with, how long it takes."""
