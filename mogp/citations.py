"""`cite`: the BibTeX of what a model is built from."""

from __future__ import annotations

from typing import Any

from mogp.project import bibliography

_BUILT_FROM = {
    "BayesianModel": ("matthews2017gpflow",),
    "SparseMOGP": ("hensman2013big", "titsias2009"),
    "Independent": ("rasmussen2006",),
    "LMC": ("alvarez2012kernels", "goovaerts1997"),
    "ICM": ("bonilla2008multitask",),
    "CPM": ("giraldo2021thesis", "alvarez2011convolved"),
    "SmoothedPoints": ("alvarez2010vik",),
    "SmoothedStack": ("giraldo2021thesis",),
    "AnnotatedMOGP": ("giraldo2021thesis",),
    "AugmentedMOGP": ("giraldo2021thesis",),
    "LatentChain": ("xia2020thesis", "requeima2019gpar", "salimbeni2017dsvi"),
    "GPAR": ("requeima2019gpar", "xia2020thesis"),
    "ExactLMC": ("alvarez2012kernels", "goovaerts1997"),
    "LabelMOGP": ("panos2019thesis",),
    "SubspacePoints": ("panos2019thesis",),
    "Full": ("hensman2015classification",),
    "Parsimonious": ("panos2019thesis", "opper2009variational"),
    "PerOutput": ("moreno2018het",),
    "HeteroscedasticGaussian": ("saul2016chained",),
    "Beta": ("saul2016chained",),
    "Gamma": ("saul2016chained",),
    "ZeroInflatedPoisson": ("giraldo2021thesis", "lambert1992zip"),
    "AugmentReduce": ("ma2023thesis", "ruiz2018augment", "liu2019additive"),
    "OneVsEach": ("panos2019thesis", "titsias2016ove"),
    "LinearOneVsEach": ("titsias2016ove",),
    "RobustMax": ("hernandez2011robust",),
    "PatchStack": ("vanderwilk2017conv",),
    "LatentMOGP": ("ma2023hierarchical", "dai2017lvmogp", "titsias2010bgplvm"),
    "SameNode": ("hensman2013hierarchical",),
    "HGP": ("hensman2013hierarchical",),
    "DHGP": ("hensman2013hierarchical", "ma2023hierarchical"),
}


def cite(model: Any) -> str:
    """BibTeX entries for a model and its parts, as one string.

    Args:
        model: any model, prior, posterior, likelihood or other part of one.

    >>> from mogp import cite
    >>> from mogp.posteriors import Full
    >>> print(cite(Full()).splitlines()[0])
    @inproceedings{hensman2015classification,
    """
    parts = [model, *getattr(model, "submodules", ())]
    keys = [
        key
        for part in parts
        for base in type(part).__mro__
        for key in _BUILT_FROM.get(base.__name__, ())
    ]
    likelihoods = getattr(getattr(model, "likelihood", None), "likelihoods", ())
    if len(likelihoods) == 1:
        keys = [key for key in keys if key not in _BUILT_FROM["PerOutput"]]
    entries = _entries()
    return "\n\n".join(entries[key] for key in dict.fromkeys(keys))


def _entries() -> dict[str, str]:
    """Key -> entry of the book's bibliography."""
    blocks = bibliography().read_text(encoding="utf-8").split("\n@")
    entries = [block if block.startswith("@") else f"@{block}" for block in blocks]
    return {
        entry.split("{", 1)[1].split(",", 1)[0].strip(): entry.strip()
        for entry in entries
        if "{" in entry
    }
