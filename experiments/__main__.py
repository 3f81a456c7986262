"""Run the experiments of a paper, or all, and write what they print: python -m experiments [selection] [quantiles] [bounded]."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from benchmarks.measuring import machine

PAGES = {
    "selection": (
        "free_gap.figures_2_3_top_k",
        "free_gap.figures_2_3_sparse_vector",
        "free_gap.figures_4_to_6_adaptive",
        "free_gap.figures_7_8_hybrids",
        "free_gap.figure_9_p_values",
        "sparse_vector.figures_7_10_family",
        "sparse_vector.figures_8_11_traversals",
        "sparse_vector.figure_16_margin",
        "sparse_vector.figure_17_correction",
        "sparse_vector.appendix_i_resample",
        "sparse_vector.figures_3_4_noises",
        "sparse_vector.figures_12_15_renyi",
    ),
    "quantiles": (
        "unbounded_quantiles.table_1_sums",
        "unbounded_quantiles.inner_rank_errors",
        "unbounded_quantiles.growth",
        "unbounded_quantiles.both_signs",
        "unbounded_quantiles.figure_3_values",
        "unbounded_quantiles.figure_1_densities",
        "unbounded_quantiles.agreement",
    ),
    "bounded": (
        "composite_noise.what_was_asked",
        "composite_noise.table_2_variances",
        "composite_noise.worst_case",
        "composite_noise.figure_4_densities",
        "composite_noise.figures_7_11_statistics",
        "composite_noise.figures_8_12_counting",
        "composite_noise.table_3_bias",
        "composite_noise.folded_variance",
    ),
    "smooth": (
        "smooth_selection.defaults",
        "smooth_selection.accuracy",
        "smooth_selection.figure_1_cases",
        "smooth_selection.figure_2_gammas",
        "smooth_selection.table_1_times",
        "smooth_selection.speeds",
        "smooth_selection.noise_means",
        "smooth_selection.equal_means",
        "smooth_selection.real_data",
        "smooth_selection.truncated_noise",
        "smooth_selection.agreement",
    ),
}
FOLDER = Path(__file__).parents[1] / "benchmarks"


def main() -> None:
    for page in sys.argv[1:] or PAGES:
        lines = [
            f"# Accuracy: {page}",
            "",
            f"Written by `SORDINO_DATA=FOLDER python -m experiments {page}`. Seeds are fixed; figures are means ± one standard error.",
            machine()[1],
            "",
        ]
        for name in PAGES[page]:
            print(f"experiment {name} ...", file=sys.stderr, flush=True)
            lines += [*import_module(f"experiments.{name}").report(), ""]
        (FOLDER / f"accuracy-{page}.md").write_text(
            "\n".join(lines).rstrip() + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
