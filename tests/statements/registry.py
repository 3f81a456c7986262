"""The fields of a record of the public registry of deployments, as JSON Schema: names, types, words, what is required.

Written from the names in the registry's own schema (July 2026), for tests alone.
"""

from __future__ import annotations

TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT, "minItems": 1}


def words(*known):
    return {"type": "string", "enum": list(known)}


def group(required=(), **properties):
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": properties,
    }


FIRST = (
    "name",
    "data_curators",
    "description",
    "intended_use",
    "data_product_type",
    "data_product_region",
)
KINDS = (
    "Summary statistics",
    "Machine learning model",
    "Dataset",
    "Synthetic data",
    "Interactive API",
    "SQL queries",
)
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")

DEPLOYMENT = group(
    ["basic"],
    basic=group(
        [*FIRST, "publication_date"],
        name=TEXT,
        data_curators=TEXTS,
        description=TEXT,
        intended_use=TEXT,
        data_product_type=words(*KINDS),
        data_product_region=TEXT,
        publication_date={"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
        data_product_sector=words(*SECTORS),
    ),
    dp_variant=group(
        variant_name=words(
            "Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"
        ),
        data_domain=TEXT,
        unprotected_quantities=TEXT,
    ),
    privacy_loss=group(
        privacy_unit=TEXT,
        privacy_unit_details=TEXT,
        privacy_parameters=group(
            epsilon={"type": "number"}, delta={"type": ["number", "string"]}, rho={"type": "number"}
        ),
        privacy_parameters_details=TEXT,
    ),
    deployment_model=group(
        model_name=words("Local", "Central", "Shuffle", "Federated"),
        model_name_details=TEXT,
        actors=TEXT,
        release_type=words("One release", "Many releases"),
        release_type_details=TEXT,
        data_source_type=words("Static", "Dynamic"),
        data_source_type_details=TEXT,
        access_type=words("Interactive", "Non-interactive"),
        access_type_details=TEXT,
    ),
    accounting=group(post_processing=TEXT, composition=TEXT),
    implementation=group(
        preprocessing_and_hyperparameter_tuning=TEXT, mechanisms=TEXT, justification=TEXT
    ),
    administrative=group(["registry_authors"], sources=TEXT, notes=TEXT, registry_authors=TEXTS),
)
RECORD = group(
    ["url_slug", "status", "tier", "deployment"],
    url_slug=TEXT,
    status=words("Converted", "Draft", "Pending", "Changes Required", "Approved"),
    tier={"type": "integer", "enum": [1, 2, 3]},
    deployment=DEPLOYMENT,
)
OWNER = {
    "url_slug": "orders-of-a-shop",
    "basic": {
        "name": "Orders of a shop",
        "data_curators": ["The shop", "Its städtische Behörde"],
        "description": "no",
        "intended_use": "Which products sell: 1:30, or 0x10?\n\nA second paragraph.",
        "data_product_type": "Summary statistics",
        "data_product_region": "# nowhere",
        "data_product_sector": "Finance",
        "publication_date": "2026-11-24",
    },
    "dp_variant": {
        "data_domain": "Orders of one year: [a, b]",
        "unprotected_quantities": "None & nothing",
    },
    "deployment_model": {
        "actors": "- analysts: none",
        "data_source_type": "Dynamic",
        "access_type": "Non-interactive",
    },
    "accounting": {"post_processing": "~"},
    "implementation": {
        "preprocessing_and_hyperparameter_tuning": "1e5",
        "justification": "\"quoted\", and 'quoted', 😀",
    },
    "administrative": {
        "sources": "null",
        "notes": "true",
        "registry_authors": ["=", "<<", "*a", "&b", "!c"],
    },
}
