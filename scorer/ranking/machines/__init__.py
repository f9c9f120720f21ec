"""All machines as one decision sees them: the columns kept between decisions, facts, the owner's view."""
