"""Rankings as they were recorded, and how they are made again: what a change of the evaluation may not change."""
