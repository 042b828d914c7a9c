"""The pinned texts as a search takes them: halves that share nothing, and what is said when they are not there."""

from pathlib import Path

import pytest

from ridgefill.errors import TextError
from ridgefill.suites.manifest import load_manifest
from ridgefill.tuning.pinned import DOCUMENTS, LONG_DOCUMENTS, halves, pinned_material

ROOT = Path(__file__).parents[2]
CACHE = ROOT / "texts"


@pytest.mark.parametrize("manifest", [DOCUMENTS, LONG_DOCUMENTS])
def test_halves_share_no_document_and_begin_with_every_domain(manifest):
    """All documents are in one of them; the first of each half are of different domains."""
    frozen = load_manifest(ROOT / manifest)
    first, second = halves(frozen)
    assert sorted(one.id for one in (*first, *second)) == sorted(one.id for one in frozen)
    domains = len({one.domain for one in frozen})
    assert all(len({one.domain for one in half[:domains]}) == domains for half in (first, second))


def test_sources_that_are_not_unpacked_are_all_named_with_the_command(tmp_path):
    """One sentence for all of them; longer prompts need the library's."""
    with pytest.raises(TextError, match=r"8 text sources are not unpacked .*texts/sources\.json .*trac"):
        pinned_material(ROOT, tmp_path, 1280, 0)
    with pytest.raises(TextError, match=r"--sources \S*library/sources\.json .*sympy"):
        pinned_material(ROOT, tmp_path, 8448, 0)


def test_prompts_longer_than_every_document_and_a_folder_without_manifests_are_refused(tmp_path):
    """Both say what to do."""
    with pytest.raises(TextError, match=r"no pinned document has the 600,000 characters.*shorter --length"):
        pinned_material(ROOT, tmp_path, 100_000, 0)
    with pytest.raises(TextError, match="run in a checkout of this project"):
        pinned_material(tmp_path, tmp_path, 1280, 0)


def test_the_pinned_texts_pass_the_gate():
    """No run of words is in two roles: making the material checks it. The two stages read different essays."""
    try:
        material = pinned_material(ROOT, CACHE, 1280, 0)
    except TextError as error:
        if "not unpacked" in str(error):
            pytest.skip(f"needs the pinned texts: {error}")
        raise
    stages = (material.development, material.confirmation)
    assert [len(one.essays) for one in stages] == [4, 4]
    assert [len(one.documents) for one in stages] == [25, 25]
