"""What a release says of itself, in one record of which every form is made."""

from sordino.results.describe import describe, describe_alone

__all__ = ["describe", "describe_alone"]
