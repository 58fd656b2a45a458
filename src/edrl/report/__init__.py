"""What a person looks at: one style for all plots, and the page."""
