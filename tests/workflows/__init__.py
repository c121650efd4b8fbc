"""What is checked of the workflows that GitHub would run."""
