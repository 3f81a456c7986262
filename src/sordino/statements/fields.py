"""The fields of a record of the public registry of deployments.

Which there are, and who fills them in.

The names, the words that a field may have and the tiers are those of the registry's schema of July
2026 (opendp/deployments-registry-data). A statement has every field but those that the owner may
leave out.
"""

from __future__ import annotations

from typing import NamedTuple


class Field(NamedTuple):
    """One field below `deployment`, or the short name of the record itself."""

    path: str
    tier: int
    """The least tier of a record that has to say it."""
    kind: str = "text"
    """"text", "texts" (a list of them) or "day"; of what sordino fills in also "parameters"."""
    words: tuple[str, ...] = ()
    """The only texts that the registry takes; empty where any text will do."""
    owner: bool = True
    """Whether the owner of the data fills it in; sordino fills in the others."""
    needed: bool = True
    """Whether a record of its tier must have it; else the owner may leave it out."""


PRODUCTS = (
    "Summary statistics",
    "Machine learning model",
    "Dataset",
    "Synthetic data",
    "Interactive API",
    "SQL queries",
)
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
VARIANTS = ("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom")

FIELDS = (
    Field("url_slug", 1),
    Field("basic.name", 1),
    Field("basic.data_curators", 1, "texts"),
    Field("basic.description", 1),
    Field("basic.intended_use", 1),
    Field("basic.data_product_type", 1, words=PRODUCTS),
    Field("basic.data_product_region", 1),
    Field("basic.data_product_sector", 1, words=SECTORS, needed=False),
    Field("basic.publication_date", 1, "day"),
    Field("dp_variant.variant_name", 2, words=VARIANTS, owner=False),
    Field("dp_variant.data_domain", 3),
    Field("dp_variant.unprotected_quantities", 3),
    Field("privacy_loss.privacy_unit", 2, owner=False),
    Field("privacy_loss.privacy_unit_details", 3, owner=False),
    Field("privacy_loss.privacy_parameters", 2, "parameters", owner=False),
    Field("privacy_loss.privacy_parameters_details", 3, owner=False),
    Field("deployment_model.model_name", 2, words=("Central",), owner=False),
    Field("deployment_model.actors", 3),
    Field("deployment_model.release_type", 2, words=("One release", "Many releases"), owner=False),
    Field("deployment_model.release_type_details", 3, owner=False),
    Field("deployment_model.data_source_type", 2, words=("Static", "Dynamic")),
    Field("deployment_model.access_type", 2, words=("Interactive", "Non-interactive")),
    Field("accounting.post_processing", 3),
    Field("accounting.composition", 3, owner=False),
    Field("implementation.preprocessing_and_hyperparameter_tuning", 3),
    Field("implementation.mechanisms", 3, owner=False),
    Field("implementation.justification", 3),
    Field("administrative.sources", 1, needed=False),
    Field("administrative.notes", 1, needed=False),
    Field("administrative.registry_authors", 1, "texts"),
)
OWNERS = {field.path: field for field in FIELDS if field.owner}
"""What the owner of the data fills in, by the path of the field."""
